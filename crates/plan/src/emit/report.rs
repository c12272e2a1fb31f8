//! `report.html`: the answer as one file that needs no script: costs beside Kafka, the use of every
//! constraint, the fill of the first tier over two bursts, the effect of each price. Two sliders
//! look up precomputed answers.

mod charts;
mod grid;

use std::fmt::Write as _;

use page::escape::html;
use page::frame::{Page, header};

use crate::answer::{FleetFigures, OtherSoftware, Plan};
use crate::quantity::{Dollars, count, significant};

/// Returns the whole page.
pub fn page(plan: &Plan) -> String {
    let markup = format!("<main>\n{}{}</main>\n", head(plan), body(plan));
    let title = format!("forebay plan: {}", plan.name);
    Page {
        title: &title,
        markup: &markup,
        footer: &format!("forebay plan, prices looked at in {}. A plan: nothing here was measured unless it says so.", plan.today),
    }
    .draw()
}

fn head(plan: &Plan) -> String {
    let variant = plan
        .variant
        .as_ref()
        .map_or(String::new(), |name| format!(" ({name})"));
    let note = format!(
        "{} at the peak, {} between bursts, {} over days; {} kept on local tiers; survives {}; {} years.",
        plan.asked.peak,
        plan.asked.base,
        plan.asked.average,
        plan.asked.stored,
        plan.asked.survive,
        significant(plan.asked.years)
    );
    header(
        "forebay plan",
        &format!("{}{variant}", plan.name),
        &plan.about,
        &note,
    )
}

/// Returns the part between header and footer, which the live page shows too.
pub fn body(plan: &Plan) -> String {
    let mut markup = String::new();
    for note in &plan.notes {
        let _ = writeln!(markup, "<p class=\"notice\">{}</p>", html(note));
    }
    match &plan.chosen {
        Some(chosen) => answered(&mut markup, plan, chosen),
        None => refused(&mut markup, plan),
    }
    for warning in &plan.warnings {
        let _ = writeln!(
            markup,
            "<p class=\"notice bad\"><b>Look out.</b> {}</p>",
            html(warning)
        );
    }
    if let Some(chosen) = &plan.chosen {
        markup.push_str(&charts::section(plan, chosen));
        constraints(&mut markup, chosen);
        costs(&mut markup, plan, chosen);
    }
    kafka(&mut markup, plan);
    grid::section(&mut markup, plan);
    sensitivity(&mut markup, plan);
    growth(&mut markup, plan);
    rests(&mut markup, plan);
    markup
}

fn answered(markup: &mut String, plan: &Plan, chosen: &FleetFigures) {
    let clusters = if chosen.clusters > 1 {
        format!(
            " in {} clusters of {}",
            chosen.clusters, chosen.cluster_brokers
        )
    } else {
        String::new()
    };
    let _ = writeln!(
        markup,
        "<section id=\"answer\" aria-label=\"answer\"><p class=\"lead\"><b class=\"big\">{}</b> broker{}{}: {}</p>",
        chosen.brokers,
        if chosen.brokers == 1 { "" } else { "s" },
        html(&clusters),
        html(&chosen.mix)
    );
    let missing = if chosen.cost.not_counted.is_empty() {
        String::new()
    } else {
        format!(" (not counted: {})", chosen.cost.not_counted.join(", "))
    };
    let _ = writeln!(
        markup,
        "<p class=\"lead\"><b class=\"big\">{}</b> over {} years{}. <b>{}</b> binds.</p>",
        chosen.cost.total,
        significant(plan.asked.years),
        html(&missing),
        html(&chosen.binding)
    );
    for relaxed in chosen
        .relaxed
        .iter()
        .filter(|relaxed| relaxed.saves > Dollars::ZERO)
    {
        let _ = writeln!(
            markup,
            "<p>A tenth more of {} saves {}.</p>",
            html(&relaxed.name),
            relaxed.saves
        );
    }
    if let Some(burst) = &chosen.burst {
        let _ = writeln!(
            markup,
            "<p>A burst of {} is asked for, {} is possible; what it leaves is gone after {} of {}.</p>",
            burst.asked, burst.lasts, burst.gap, burst.allowed
        );
    }
    if let Some(threshold) = chosen.threshold {
        let _ = writeln!(
            markup,
            "<p>The first tier is held at {} %.</p>",
            significant(threshold * 100.0)
        );
    }
    if let Some(reverse) = &plan.reverse {
        let _ = writeln!(
            markup,
            "<p>{} brokers carry {} at most, {} times what is asked for; then {} is used up.</p>",
            reverse.brokers,
            reverse.peak,
            significant(reverse.times),
            html(&reverse.binding)
        );
    }
    markup.push_str("</section>\n");
}

fn refused(markup: &mut String, plan: &Plan) {
    markup.push_str("<section id=\"answer\" aria-label=\"answer\"><p class=\"lead\"><b class=\"big\">Nothing in the catalogue carries this load.</b></p>\n");
    if let Some(infeasible) = &plan.infeasible {
        let _ = writeln!(markup, "<p>{}</p>", html(&infeasible.why));
        if let Some(change) = &infeasible.change {
            let _ = writeln!(
                markup,
                "<p>The nearest change: {} of {} instead of {}.</p>",
                html(&change.what),
                html(&change.to),
                html(&change.from)
            );
        }
    }
    if let Some(reverse) = &plan.reverse {
        let _ = writeln!(
            markup,
            "<p>At most {} of it is carried: {}.</p>",
            significant(reverse.times),
            reverse.peak
        );
    }
    markup.push_str("</section>\n");
}

/// Longest text that counts as a figure; a longer one is a sentence.
const FIGURE_LETTERS_MAX: usize = 24;

/// Writes a table; figures are aligned right.
fn table(markup: &mut String, heads: &[&str], rows: &[Vec<String>]) {
    markup.push_str("<div class=\"scroll\"><table class=\"plain\"><thead><tr>");
    for (at, head) in heads.iter().enumerate() {
        let class = if at == 0 { "" } else { " class=\"n\"" };
        let _ = write!(markup, "<th scope=\"col\"{class}>{}</th>", html(head));
    }
    markup.push_str("</tr></thead><tbody>\n");
    for row in rows {
        markup.push_str("<tr>");
        for (at, cell) in row.iter().enumerate() {
            let cell = html(cell);
            let _ = match at {
                0 => write!(markup, "<th scope=\"row\">{cell}</th>"),
                // A sentence wraps, and is aligned left.
                _ if cell.len() > FIGURE_LETTERS_MAX => write!(markup, "<td>{cell}</td>"),
                _ => write!(markup, "<td class=\"n\">{cell}</td>"),
            };
        }
        markup.push_str("</tr>\n");
    }
    markup.push_str("</tbody></table></div>\n");
}

fn constraints(markup: &mut String, chosen: &FleetFigures) {
    markup.push_str("<section id=\"constraints\"><h2>What is used</h2>\n<p class=\"note\">Of one broker, when what may fail has failed.</p>\n");
    let rows: Vec<Vec<String>> = chosen
        .uses
        .iter()
        .map(|used| {
            let share = if used.checked {
                format!("{} %", significant(used.share * 100.0))
            } else {
                "not checked".to_owned()
            };
            let binds = if used.name == chosen.binding {
                "binds"
            } else {
                ""
            };
            vec![
                used.name.clone(),
                used.text.0.clone(),
                used.text.1.clone(),
                share,
                binds.to_owned(),
            ]
        })
        .collect();
    table(
        markup,
        &["constraint", "used", "allowed", "share", ""],
        &rows,
    );
    markup.push_str("</section>\n");
}

fn costs(markup: &mut String, plan: &Plan, chosen: &FleetFigures) {
    markup.push_str("<section id=\"cost\"><h2>Cost</h2>\n");
    let mut rows: Vec<Vec<String>> = chosen
        .cost
        .parts
        .iter()
        .map(|line| {
            let id = line.id.clone().unwrap_or_default();
            vec![
                line.what.clone(),
                id,
                count(line.count),
                line.usd.to_string(),
            ]
        })
        .collect();
    for missing in &chosen.cost.not_counted {
        rows.push(vec![
            missing.clone(),
            String::new(),
            String::new(),
            "not counted".to_owned(),
        ]);
    }
    table(markup, &["for", "entry", "count", "dollars"], &rows);
    if !plan.alternatives.is_empty() {
        markup.push_str("<h3>The next kinds</h3>\n");
        let rows: Vec<Vec<String>> = plan
            .alternatives
            .iter()
            .map(|other| {
                vec![
                    other.mix.clone(),
                    other.brokers.to_string(),
                    other
                        .cost
                        .map_or("no price".to_owned(), |cost| cost.to_string()),
                    other.ratio.map_or(String::new(), significant),
                    other.binding.clone(),
                ]
            })
            .collect();
        table(markup, &["mix", "brokers", "cost", "times", "binds"], &rows);
    }
    markup.push_str("</section>\n");
}

fn kafka(markup: &mut String, plan: &Plan) {
    markup.push_str("<section id=\"kafka\"><h2>On plain Kafka</h2>\n");
    let rows: Vec<Vec<String>> = plan.kafka.iter().map(row_beside).collect();
    table(
        markup,
        &[
            "software",
            "syncs",
            "brokers",
            "mix",
            "cost",
            "times",
            "with the ends of measurements",
            "binds",
        ],
        &rows,
    );
    markup.push_str("</section>\n");
}

fn row_beside(beside: &OtherSoftware) -> Vec<String> {
    let syncs = if beside.syncs { "yes" } else { "no" };
    let why = beside
        .infeasible
        .as_ref()
        .map_or("", |infeasible| infeasible.why.as_str());
    let ends = beside.ratio_ends.map_or(String::new(), |(one, other)| {
        format!(
            "{}..{}",
            significant(one.min(other)),
            significant(one.max(other))
        )
    });
    let chosen = beside.chosen.as_ref();
    vec![
        beside.software.clone(),
        syncs.to_owned(),
        chosen.map_or("nothing carries it".to_owned(), |chosen| {
            chosen.brokers.to_string()
        }),
        chosen.map_or(why.to_owned(), |chosen| chosen.mix.clone()),
        chosen.map_or(String::new(), |chosen| chosen.cost.total.to_string()),
        beside.ratio.map_or(String::new(), significant),
        ends,
        chosen.map_or(String::new(), |chosen| chosen.binding.clone()),
    ]
}

fn sensitivity(markup: &mut String, plan: &Plan) {
    let Some(sensitivity) = &plan.sensitivity else {
        return;
    };
    markup.push_str("<section id=\"sensitivity\"><h2>What would change the answer</h2>\n");
    let rows: Vec<Vec<String>> = sensitivity
        .prices
        .iter()
        .map(|price| vec![price.id.clone(), price.now.clone(), price.says.clone()])
        .collect();
    table(markup, &["price of", "now", "and elsewhere"], &rows);
    let mut rows = Vec::new();
    for sweep in &sensitivity.loads {
        for (factor, point) in &sweep.points {
            let (brokers, cost, other) = point.as_ref().map_or(
                ("-".to_owned(), "nothing carries it".to_owned(), ""),
                |point| {
                    (
                        point.brokers.to_string(),
                        point.cost.to_string(),
                        if point.other { "another kind" } else { "" },
                    )
                },
            );
            rows.push(vec![
                sweep.what.clone(),
                significant(*factor),
                brokers,
                cost,
                other.to_owned(),
            ]);
        }
    }
    for end in &sensitivity.calibrations {
        let name = format!("processor time, {:?}", end.calibration).to_lowercase();
        let (brokers, cost, other) = end.point.as_ref().map_or(
            ("-".to_owned(), "nothing carries it".to_owned(), ""),
            |point| {
                (
                    point.brokers.to_string(),
                    point.cost.to_string(),
                    if point.other { "another kind" } else { "" },
                )
            },
        );
        rows.push(vec![name, String::new(), brokers, cost, other.to_owned()]);
    }
    table(markup, &["of", "times", "brokers", "cost", ""], &rows);
    markup.push_str("</section>\n");
}

fn growth(markup: &mut String, plan: &Plan) {
    let Some(growth) = &plan.growth else { return };
    markup.push_str("<section id=\"growth\"><h2>Growth</h2>\n");
    let rows: Vec<Vec<String>> = growth
        .years
        .iter()
        .map(|year| {
            vec![
                year.year.to_string(),
                year.peak.to_string(),
                year.brokers.to_string(),
                year.spent.to_string(),
            ]
        })
        .collect();
    table(markup, &["year", "peak", "brokers", "bought in it"], &rows);
    let _ = writeln!(
        markup,
        "<p>All at once {}, year by year {}, at the prices of today, on {}.</p></section>",
        growth.at_once,
        growth.yearly,
        html(&growth.mix)
    );
}

fn rests(markup: &mut String, plan: &Plan) {
    markup.push_str("<section id=\"rests\"><h2>What it rests on</h2>\n<ul>\n");
    for assumption in &plan.assumptions {
        let _ = writeln!(markup, "<li>{}</li>", html(assumption));
    }
    markup.push_str("</ul>\n");
    let rows: Vec<Vec<String>> = plan
        .prices
        .iter()
        .map(|note| {
            vec![
                note.id.clone(),
                format!("${} {:?}", significant(note.price.usd), note.price.per),
                note.price.date.to_string(),
                format!("{} months", note.months),
                note.source.clone(),
            ]
        })
        .collect();
    table(markup, &["price of", "price", "of", "age", "source"], &rows);
    let _ = writeln!(
        markup,
        "<p class=\"note\">{} mixes were looked at.</p></section>",
        count(to_f64(plan.mixes))
    );
}

#[expect(clippy::cast_precision_loss, reason = "mixes are a few millions")]
fn to_f64(count: usize) -> f64 {
    count as f64
}
