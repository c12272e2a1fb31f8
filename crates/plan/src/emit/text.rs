//! The answer as text: a short summary, then tables.

use std::fmt::Write as _;

use crate::answer::{FleetFigures, OtherSoftware, Plan};
use crate::published;
use crate::quantity::{Dollars, count, significant};

/// Writing to a `String` cannot fail.
macro_rules! line {
    ($text:expr) => { $text.push('\n') };
    ($text:expr, $($rest:tt)*) => {{
        let _ = writeln!($text, $($rest)*);
    }};
}

/// Returns the text of a plan; `explain` adds what it rests on.
pub fn plan(plan: &Plan, explain: bool) -> String {
    let mut text = String::new();
    let variant = plan
        .variant
        .as_ref()
        .map_or(String::new(), |name| format!(" ({name})"));
    line!(
        text,
        "{}{variant}: {} at the peak, {} over days, {} kept on local tiers",
        plan.name,
        plan.asked.peak,
        plan.asked.average,
        plan.asked.stored
    );
    match &plan.chosen {
        Some(chosen) => answer(&mut text, plan, chosen),
        None => infeasible(&mut text, plan),
    }
    for note in &plan.notes {
        line!(text, "note: {note}");
    }
    for warning in &plan.warnings {
        line!(text, "warning: {warning}");
    }
    if let Some(chosen) = &plan.chosen {
        tables(&mut text, plan, chosen);
    }
    sensitivity(&mut text, plan);
    growth(&mut text, plan);
    if explain {
        explained(&mut text, plan);
    }
    text
}

fn sensitivity(text: &mut String, plan: &Plan) {
    if let Some(sensitivity) = &plan.sensitivity {
        line!(text, "\nWhat would change the answer");
        for price in &sensitivity.prices {
            line!(text, "  {} at {}: {}", price.id, price.now, price.says);
        }
        for sweep in &sensitivity.loads {
            let points: Vec<String> = sweep
                .points
                .iter()
                .map(|(factor, point)| {
                    let said = point.as_ref().map_or("nothing".to_owned(), |point| {
                        let other = if point.other { ", another kind" } else { "" };
                        format!("{} brokers, {}{other}", count_of(point.brokers), point.cost)
                    });
                    format!("x {}: {said}", significant(*factor))
                })
                .collect();
            line!(text, "  {}: {}", sweep.what, points.join("; "));
        }
        for end in &sensitivity.calibrations {
            let said = end
                .point
                .as_ref()
                .map_or("nothing carries it".to_owned(), |point| {
                    format!(
                        "{} x {}, {}",
                        count_of(point.brokers),
                        point.mix,
                        point.cost
                    )
                });
            line!(
                text,
                "  processor time at its {:?}: {said}",
                end.calibration
            );
        }
    }
}

fn growth(text: &mut String, plan: &Plan) {
    if let Some(growth) = &plan.growth {
        line!(text, "\nGrowth, on {}", growth.mix);
        for year in &growth.years {
            line!(
                text,
                "  year {}: {}, {} brokers, {}",
                year.year,
                year.peak,
                count_of(year.brokers),
                year.spent
            );
        }
        line!(
            text,
            "  all at once {}, year by year {} (prices as they are)",
            growth.at_once,
            growth.yearly
        );
    }
    if let Some(reverse) = &plan.reverse {
        line!(
            text,
            "\nAt most: {} brokers carry {}, {} times what is asked for; then {} is used up",
            reverse.brokers,
            reverse.peak,
            significant(reverse.times),
            reverse.binding
        );
    }
}

fn count_of(brokers: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "brokers, not bytes")]
    let brokers = brokers as f64;
    count(brokers)
}

fn answer(text: &mut String, plan: &Plan, chosen: &FleetFigures) {
    let clusters = if chosen.clusters > 1 {
        format!(
            " in {} clusters of {}",
            chosen.clusters, chosen.cluster_brokers
        )
    } else {
        String::new()
    };
    line!(
        text,
        "answer: {} x {}{clusters}",
        count_of(chosen.brokers),
        chosen.mix
    );
    let spare = &plan.asked.survive;
    line!(
        text,
        "cost: {} over {} years{}; {} a GB/s at the peak",
        chosen.cost.total,
        significant(plan.asked.years),
        not_counted(chosen),
        Dollars(chosen.cost.total.0 / plan.asked.peak.0 * 1e9)
    );
    let saves = chosen
        .relaxed
        .iter()
        .find(|relaxed| relaxed.name == chosen.binding);
    let saves = saves.map_or(String::new(), |relaxed| {
        format!("; a tenth more of it saves {}", relaxed.saves)
    });
    line!(text, "binds: {}{saves}", chosen.binding);
    line!(
        text,
        "survives: {spare}, with everything below at its limits"
    );
    if let Some(burst) = &chosen.burst {
        line!(
            text,
            "bursts: {} asked, {} possible; gone after {} of {}",
            burst.asked,
            burst.lasts,
            burst.gap,
            burst.allowed
        );
    }
    let beside: Vec<String> = plan.kafka.iter().map(in_short).collect();
    line!(text, "beside: {}", beside.join("; "));
}

fn not_counted(chosen: &FleetFigures) -> String {
    if chosen.cost.not_counted.is_empty() {
        return String::new();
    }
    format!(" (not counted: {})", chosen.cost.not_counted.join(", "))
}

fn in_short(beside: &OtherSoftware) -> String {
    let syncs = if beside.syncs { "synced" } else { "not synced" };
    match (&beside.chosen, beside.ratio) {
        (Some(chosen), Some(ratio)) => {
            let ends = beside.ratio_ends.map_or(String::new(), |(low, high)| {
                let (low, high) = (low.min(high), low.max(high));
                format!(" ({}..{})", significant(low), significant(high))
            });
            format!(
                "{} ({syncs}) {} brokers, {}, {} times{ends}",
                beside.software,
                count_of(chosen.brokers),
                chosen.cost.total,
                significant(ratio)
            )
        }
        (Some(chosen), None) => format!(
            "{} ({syncs}) {} brokers",
            beside.software,
            count_of(chosen.brokers)
        ),
        (None, _) => format!("{} ({syncs}): nothing carries it", beside.software),
    }
}

fn infeasible(text: &mut String, plan: &Plan) {
    let Some(infeasible) = &plan.infeasible else {
        return;
    };
    line!(text, "answer: nothing in the catalogue carries this load");
    line!(text, "because: {}", infeasible.why);
    if let Some(change) = &infeasible.change {
        line!(
            text,
            "nearest: {} of {} instead of {}",
            change.what,
            change.to,
            change.from
        );
    }
    if let Some(reverse) = &plan.reverse {
        line!(
            text,
            "at most: {} of it, {}",
            significant(reverse.times),
            reverse.peak
        );
    }
}

fn tables(text: &mut String, plan: &Plan, chosen: &FleetFigures) {
    line!(text, "\nOne broker");
    if let Some(fast) = &chosen.fast {
        line!(
            text,
            "  first tier  {} x {}, {}",
            fast.count,
            fast.device,
            fast.capacity
        );
    }
    line!(
        text,
        "  {}  {} x {}, {}, {} % full",
        if chosen.fast.is_some() {
            "second tier"
        } else {
            "devices    "
        },
        chosen.bulk.count,
        chosen.bulk.device,
        chosen.bulk.capacity,
        significant(chosen.bulk.fill * 100.0)
    );
    if let (Some(threshold), Some(mover)) = (chosen.threshold, chosen.mover) {
        line!(
            text,
            "  threshold   {}, mover up to {mover}",
            significant(threshold)
        );
    }
    line!(
        text,
        "  at the peak {} from producers, {} in, {} out, {} cores",
        chosen.broker.peak,
        chosen.broker.taken,
        chosen.broker.given,
        significant(chosen.broker.cpu)
    );
    line!(
        text,
        "  partitions  {} in a cluster, segments of {}",
        count(chosen.partitions),
        chosen.segment
    );
    constraints(text, chosen);
    costs(text, plan, chosen);
    beside(text, plan);
}

fn constraints(text: &mut String, chosen: &FleetFigures) {
    line!(
        text,
        "\nConstraint                      used            allowed         share"
    );
    for used in &chosen.uses {
        let share = if used.checked {
            format!("{} %", significant(used.share * 100.0))
        } else {
            "not checked".to_owned()
        };
        let binds = if used.name == chosen.binding {
            "  binds"
        } else {
            ""
        };
        line!(
            text,
            "  {:<28}  {:<14}  {:<14}  {share}{binds}",
            used.name,
            used.text.0,
            used.text.1
        );
    }
    for relaxed in &chosen.relaxed {
        line!(
            text,
            "  a tenth more of {} saves {}",
            relaxed.name,
            relaxed.saves
        );
    }
}

fn costs(text: &mut String, plan: &Plan, chosen: &FleetFigures) {
    line!(text, "\nCost over {} years", significant(plan.asked.years));
    for part in &chosen.cost.parts {
        let id = part.id.as_deref().unwrap_or("");
        line!(
            text,
            "  {:<20} {:<16} {:>12} {:>16}",
            part.what,
            id,
            count(part.count),
            part.usd.to_string()
        );
    }
    for missing in &chosen.cost.not_counted {
        line!(text, "  {missing:<20} not counted");
    }
    if !plan.alternatives.is_empty() {
        line!(text, "\nThe next kinds");
        for other in &plan.alternatives {
            let cost = other
                .cost
                .map_or("no price".to_owned(), |cost| cost.to_string());
            let ratio = other.ratio.map_or(String::new(), |ratio| {
                format!(" ({} times)", significant(ratio))
            });
            line!(
                text,
                "  {cost}{ratio}: {} x {}; binds: {}",
                count_of(other.brokers),
                other.mix,
                other.binding
            );
        }
    }
}

fn beside(text: &mut String, plan: &Plan) {
    line!(text, "\nOn plain Kafka, with the same devices");
    for beside in &plan.kafka {
        line!(text, "  {}", in_short(beside));
        if let Some(chosen) = &beside.chosen {
            line!(text, "    {}; binds: {}", chosen.mix, chosen.binding);
            if let Some(burst) = chosen.burst.as_ref().filter(|burst| burst.in_page_cache) {
                line!(
                    text,
                    "    bursts in the page cache: {} asked, {} possible, lost with the power",
                    burst.asked,
                    burst.lasts
                );
            }
        }
        if let Some(infeasible) = &beside.infeasible {
            line!(text, "    {}", infeasible.why);
        }
    }
}

fn explained(text: &mut String, plan: &Plan) {
    line!(
        text,
        "\nWhat it rests on ({} mixes were looked at)",
        plan.mixes
    );
    for assumption in &plan.assumptions {
        line!(text, "  {assumption}");
    }
    for note in &plan.prices {
        line!(
            text,
            "  {}: ${} ({:?}), {}, {} months old, {}",
            note.id,
            significant(note.price.usd),
            note.price.per,
            note.price.date,
            note.months,
            note.source
        );
        for (month, usd) in &note.price.history {
            line!(text, "    {month}: ${}", significant(*usd));
        }
    }
}

/// Returns the table of published figures.
pub fn published() -> String {
    let mut text = String::from(
        "Published figures, and what they give today. ! contradicts itself or does not follow.\n",
    );
    for row in published::rows() {
        line!(
            text,
            "\n{:<3} {:<10} {}",
            row.id,
            row.verdict.mark(),
            row.place
        );
        line!(text, "    published: {}", row.published);
        line!(text, "    computed:  {}", row.computed);
    }
    text
}
