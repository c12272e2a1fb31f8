//! Compares a plan with its measurement on one broker: it holds, holds with more brokers, or does
//! not hold, and why.
//!
//! Tolerance: a tenth. A result better than planned is no deviation. If processor time is higher
//! than planned, the plan is solved again with it, which gives the number of brokers. A rate that
//! is not reached, or a burst that is not absorbed, cannot be fixed by more processors: a device
//! does less than the catalogue claims.

use std::fmt::Write as _;

use serde::Serialize;

use crate::answer::{Depth, FleetFigures, Plan, SolveError, solve};
use crate::calibration::{MeasuredCell, Measurements};
use crate::catalogue::{Catalogue, Month};
use crate::emit::experiment::{ScaledPlan, scaled};
use crate::load::Scenario;
use crate::quantity::{Bytes, Rate, Seconds, significant};
use crate::software::{Calibration as End, Direction};

/// Largest deviation of a measurement from the plan.
pub const TOLERANCE: f64 = 0.1;

/// The measurements of a plan's experiment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MeasuredPlan {
    /// The machine.
    pub machine: String,
    /// Producing at the planned rate.
    pub produce: Option<Side>,
    /// Consuming.
    pub consume: Option<Side>,
    /// The bursts: for how long the peak was taken (`None`: to its end), and how long its bytes
    /// took to leave (`None`: not before the next burst).
    pub bursts: Vec<(Option<Seconds>, Option<Seconds>)>,
    /// The rate at which the bytes of each burst came to the second tier after it, where it is
    /// known.
    pub drains: Vec<Rate>,
}

/// The measurement of one direction.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Side {
    /// Bytes per second.
    pub rate: Rate,
    /// Core seconds for 10^9 bytes, if they were measured.
    pub cpu: Option<f64>,
    /// Bytes of a batch, or of a fetch.
    pub batch: Bytes,
}

/// The result of a comparison.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Everything is as planned, or better.
    Holds,
    /// It needs this many more brokers.
    HoldsWith(u64),
    /// It does not hold, for these reasons.
    DoesNot(Vec<String>),
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Holds => formatter.write_str("holds"),
            Self::HoldsWith(more) => write!(formatter, "holds with {more} more"),
            Self::DoesNot(what) => write!(formatter, "does not: {}", what.join("; ")),
        }
    }
}

/// One planned and measured figure.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ComparedFigure {
    /// The figure.
    pub what: String,
    /// Planned.
    pub planned: String,
    /// Measured.
    pub measured: String,
    /// Measured over planned.
    pub ratio: Option<f64>,
    /// True if it is within the tolerance, or better.
    pub fits: bool,
}

/// The proof of a plan.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Proof {
    /// Every figure.
    pub rows: Vec<ComparedFigure>,
    /// The result.
    pub verdict: Verdict,
    /// The measurements, for later plans.
    pub calibration: Measurements,
    /// Brokers by the measurements; `None` if nothing carries the load then.
    pub brokers: Option<u64>,
}

/// Compares measurements at a scale with a plan.
pub fn compare(
    plan: &Plan,
    chosen: &FleetFigures,
    scenario: &Scenario,
    catalogue: &Catalogue,
    measured: &MeasuredPlan,
    scale: f64,
) -> Result<Proof, SolveError> {
    let rows = rows(chosen, scenario, catalogue, measured, scale);
    let calibration = calibration(chosen, measured, plan.today);
    let mut calibrated = catalogue.clone();
    calibrated.overlay(scenario.catalogue.clone());
    calibration.apply(&mut calibrated);
    let mut again = scenario.clone();
    // Its entries are in the calibrated catalogue already.
    again.catalogue = Catalogue::default();
    let again = solve(&again, None, &calibrated, plan.today, Depth::Answer)?;
    let brokers = again.chosen.as_ref().map(|chosen| chosen.brokers);
    let failed: Vec<String> = rows
        .iter()
        .filter(|row| !row.fits && !row.what.starts_with("processor"))
        .map(|row| {
            format!(
                "{}: {} where {} was planned",
                row.what, row.measured, row.planned
            )
        })
        .collect();
    let dearer = rows
        .iter()
        .any(|row| !row.fits && row.what.starts_with("processor"));
    let verdict = match brokers {
        _ if !failed.is_empty() => Verdict::DoesNot(failed),
        None => Verdict::DoesNot(vec![
            "processor: with what was measured nothing in the catalogue carries it".to_owned(),
        ]),
        Some(brokers) if dearer && brokers > chosen.brokers => {
            Verdict::HoldsWith(brokers - chosen.brokers)
        }
        Some(_) => Verdict::Holds,
    };
    Ok(Proof {
        rows,
        verdict,
        calibration,
        brokers,
    })
}

fn compared(
    what: &str,
    planned: (f64, String),
    measured: (f64, String),
    more_is_better: bool,
) -> ComparedFigure {
    let ratio = measured.0 / planned.0;
    let fits = if more_is_better {
        ratio >= 1.0 - TOLERANCE
    } else {
        ratio <= 1.0 + TOLERANCE
    };
    ComparedFigure {
        what: what.to_owned(),
        planned: planned.1,
        measured: measured.1,
        ratio: ratio.is_finite().then_some(ratio),
        fits,
    }
}

fn rows(
    chosen: &FleetFigures,
    scenario: &Scenario,
    catalogue: &Catalogue,
    measured: &MeasuredPlan,
    scale: f64,
) -> Vec<ComparedFigure> {
    let scaled = scaled(chosen, scale);
    let mut rows = Vec::new();
    let rate = |rate: Rate| (rate.0, rate.to_string());
    let cost = |seconds: f64| (seconds, format!("{} s/GB", significant(seconds)));
    let planned_cost =
        |direction, batch| planned_cpu(chosen, scenario, catalogue, direction, batch);
    match &measured.produce {
        Some(side) => {
            rows.push(compared(
                "rate taken in",
                rate(scaled.peak),
                rate(side.rate),
                true,
            ));
            let batch = chosen
                .topics
                .first()
                .map_or(side.batch, |topic| topic.batch);
            if let (Some(cpu), Some(planned)) = (side.cpu, planned_cost(Direction::Produce, batch))
            {
                rows.push(compared(
                    "processor time to take in",
                    cost(planned),
                    cost(cpu),
                    false,
                ));
            }
        }
        None => rows.push(compared(
            "rate taken in",
            rate(scaled.peak),
            rate(Rate::ZERO),
            true,
        )),
    }
    rows.extend(missing(measured, &scaled));
    if let Some(side) = &measured.consume {
        let given = chosen.broker.given * scale;
        rows.push(compared(
            "rate given out",
            rate(given),
            rate(side.rate),
            true,
        ));
        if let (Some(cpu), Some(planned)) = (side.cpu, planned_cost(Direction::Consume, side.batch))
        {
            rows.push(compared(
                "processor time to give out",
                cost(planned),
                cost(cpu),
                false,
            ));
        }
    }
    rows.extend(burst_rows(chosen, measured, &scaled));
    rows
}

/// Returns rows that do not fit, for what was not measured.
fn missing(measured: &MeasuredPlan, scaled: &ScaledPlan) -> Vec<ComparedFigure> {
    let sides = [&measured.produce, &measured.consume];
    let no_cpu = sides.into_iter().flatten().any(|side| side.cpu.is_none());
    let no_bursts = scaled.burst.is_some() && measured.bursts.is_empty();
    let all = [
        ("rate given out", measured.consume.is_none()),
        ("bursts", no_bursts),
        ("measurement of processor time", no_cpu),
    ];
    all.into_iter()
        .filter(|(_, is_missing)| *is_missing)
        .map(|(what, _)| ComparedFigure {
            what: what.to_owned(),
            planned: "a measurement".to_owned(),
            measured: "none".to_owned(),
            ratio: None,
            fits: false,
        })
        .collect()
}

/// Returns the planned core seconds for 10^9 bytes.
fn planned_cpu(
    chosen: &FleetFigures,
    scenario: &Scenario,
    catalogue: &Catalogue,
    direction: Direction,
    batch: Bytes,
) -> Option<f64> {
    let mut all = catalogue.clone();
    all.overlay(scenario.catalogue.clone());
    let first = chosen.topics.first();
    let record = first.map_or(Bytes(1000.0), |topic| topic.record);
    let software = all.software("forebay")?;
    Some(software.cpu(direction, record, batch, End::Median).seconds)
}

/// Returns the rows of the bursts and of the gaps after them.
fn burst_rows(
    chosen: &FleetFigures,
    measured: &MeasuredPlan,
    scaled: &ScaledPlan,
) -> Vec<ComparedFigure> {
    let mut rows = Vec::new();
    let time = |time: Seconds| (time.0, time.to_string());
    if let (Some(burst), Some((length, _))) = (&chosen.burst, scaled.burst) {
        // Without bytes to move there is no rate.
        let moves = burst.gap > Seconds::ZERO && !chosen.still;
        for (number, drain) in (1..).zip(&measured.drains).filter(|_| moves) {
            let planned = burst.drain * scaled.rate;
            rows.push(compared(
                &format!("drain {number}"),
                (planned.0, planned.to_string()),
                (drain.0, drain.to_string()),
                true,
            ));
        }
        for (number, (held, gap)) in (1..).zip(&measured.bursts) {
            let took = held.map_or_else(|| (length.0, format!("{length}, to its end")), time);
            rows.push(compared(
                &format!("burst {number}"),
                time(length),
                took,
                true,
            ));
            let planned = burst.gap * scaled.time;
            match gap {
                Some(gap) if planned > Seconds::ZERO => {
                    rows.push(compared(
                        &format!("gap {number}"),
                        time(planned),
                        time(*gap),
                        false,
                    ));
                }
                Some(_) => {}
                None => {
                    let allowed = burst.allowed * scaled.time;
                    let fits = planned.0 > allowed.0 * (1.0 - TOLERANCE);
                    rows.push(ComparedFigure {
                        what: format!("gap {number}"),
                        planned: planned.to_string(),
                        measured: format!("more than {allowed}"),
                        ratio: None,
                        fits,
                    });
                }
            }
        }
    }
    rows
}

fn calibration(chosen: &FleetFigures, measured: &MeasuredPlan, today: Month) -> Measurements {
    let mut cells = Vec::new();
    let record = chosen.topics.first().map_or(1000.0, |topic| topic.record.0);
    let planned = chosen.topics.first().map(|topic| topic.batch);
    for (direction, side) in [
        (Direction::Produce, &measured.produce),
        (Direction::Consume, &measured.consume),
    ] {
        let Some(side) = side else { continue };
        let Some(cpu) = side.cpu.filter(|cpu| *cpu > 0.0) else {
            continue;
        };
        let batch = match direction {
            Direction::Produce => planned.unwrap_or(side.batch),
            _ => side.batch,
        };
        cells.push(MeasuredCell {
            software: "forebay".to_owned(),
            direction,
            record_bytes: record,
            batch_bytes: batch.0.max(1.0),
            seconds: cpu,
            low: cpu,
            high: cpu,
        });
    }
    // One line of limited length, so that the file can be read again.
    let machine = crate::emit::comment(&measured.machine);
    let machine: String = machine.trim().chars().take(200).collect();
    Measurements {
        machine,
        date: today,
        cell: cells,
    }
}

/// Returns the proof as text.
pub fn text(proof: &Proof, brokers: u64) -> String {
    let mut text = String::new();
    // Writing to a `String` cannot fail.
    let _ = writeln!(
        text,
        "\nMeasured on one broker        planned         measured        ratio"
    );
    for row in &proof.rows {
        let ratio = row.ratio.map_or(String::new(), significant);
        let mark = if row.fits { "" } else { "  not as planned" };
        let _ = writeln!(
            text,
            "  {:<26}  {:<14}  {:<14}  {ratio}{mark}",
            row.what, row.planned, row.measured
        );
    }
    let now = proof
        .brokers
        .map_or("none".to_owned(), |brokers| brokers.to_string());
    let _ = writeln!(
        text,
        "planned again with what was measured: {now} brokers instead of {brokers}"
    );
    let _ = writeln!(
        text,
        "verdict (tolerance {} %): {}",
        significant(TOLERANCE * 100.0),
        proof.verdict
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(set: &[&str]) -> (Scenario, Catalogue, Plan) {
        let set: Vec<String> = set.iter().map(|pair| (*pair).to_owned()).collect();
        let text = crate::load::shipped("burst").unwrap();
        let scenario = Scenario::read("burst", text, &set).unwrap();
        let catalogue = Catalogue::shipped().unwrap();
        let today = Month::new(2026, 11).unwrap();
        let plan = solve(&scenario, None, &catalogue, today, Depth::Answer).unwrap();
        (scenario, catalogue, plan)
    }

    fn as_planned(plan: &Plan, times: f64, dearer: f64) -> MeasuredPlan {
        let scaled = scaled(plan.chosen.as_ref().unwrap(), 0.1);
        MeasuredPlan {
            machine: "mine".to_owned(),
            produce: Some(Side {
                rate: scaled.peak * times,
                cpu: Some(2.9 * dearer),
                batch: Bytes(163_840.0),
            }),
            consume: Some(Side {
                rate: Rate(1e12),
                cpu: Some(0.01),
                batch: Bytes(7e6),
            }),
            bursts: vec![
                (None, Some(Seconds(50.0))),
                (Some(Seconds(3.0 * times)), None),
            ],
            drains: Vec::new(),
        }
    }

    fn proof(times: f64, dearer: f64) -> Proof {
        let (scenario, catalogue, plan) = planned(&[]);
        let chosen = plan.chosen.as_ref().unwrap();
        let measured = as_planned(&plan, times, dearer);
        compare(&plan, chosen, &scenario, &catalogue, &measured, 0.1).unwrap()
    }

    #[test]
    fn what_is_as_planned_or_better_holds() {
        for (times, dearer) in [(1.0, 1.0), (0.95, 1.0), (2.0, 0.5)] {
            let proof = proof(times, dearer);
            assert_eq!(proof.verdict, Verdict::Holds, "{:?}", proof.rows);
        }
    }

    #[test]
    fn a_device_that_does_less_than_the_catalogue_says_is_named() {
        let proof = proof(0.5, 1.0);
        let said = proof.verdict.to_string();
        assert!(
            said.starts_with("does not: rate taken in: 400 MB/s where 800 MB/s was planned"),
            "{said}"
        );
    }

    #[test]
    fn a_second_tier_that_takes_less_than_the_catalogue_says_is_named() {
        let (scenario, catalogue, plan) = planned(&[]);
        let chosen = plan.chosen.as_ref().unwrap();
        let mut measured = as_planned(&plan, 1.0, 1.0);
        measured.drains = vec![Rate(49e6), Rate(40e6)];
        let proof = compare(&plan, chosen, &scenario, &catalogue, &measured, 0.1).unwrap();
        let said = proof.verdict.to_string();
        assert_eq!(said, "does not: drain 2: 40 MB/s where 50 MB/s was planned");
    }

    #[test]
    fn what_was_not_measured_is_not_proven() {
        type Leave = fn(&mut MeasuredPlan);
        let (scenario, catalogue, plan) = planned(&[]);
        let chosen = plan.chosen.as_ref().unwrap();
        let leave: [(&str, Leave); 4] = [
            ("rate taken in", |measured| measured.produce = None),
            ("rate given out", |measured| measured.consume = None),
            ("bursts", |measured| measured.bursts.clear()),
            ("measurement of processor time", |measured| {
                measured.produce = measured.produce.map(|side| Side { cpu: None, ..side });
            }),
        ];
        for (what, leave) in leave {
            let mut measured = as_planned(&plan, 1.0, 1.0);
            leave(&mut measured);
            let proof = compare(&plan, chosen, &scenario, &catalogue, &measured, 0.1).unwrap();
            let said = proof.verdict.to_string();
            assert!(said.starts_with(&format!("does not: {what}")), "{said}");
        }
    }

    #[test]
    fn a_calibration_that_was_written_is_read_again() {
        let (scenario, catalogue, plan) = planned(&[]);
        let chosen = plan.chosen.as_ref().unwrap();
        let mut measured = as_planned(&plan, 1.0, 1.0);
        measured.machine = format!("one\nof {}", "long ".repeat(100));
        let proof = compare(&plan, chosen, &scenario, &catalogue, &measured, 0.1).unwrap();
        let text = proof.calibration.write();
        assert_eq!(
            Measurements::read("c.toml", &text).unwrap(),
            proof.calibration
        );
    }

    #[test]
    fn dearer_processors_take_more_brokers() {
        let proof = proof(1.0, 3.0);
        assert!(
            matches!(proof.verdict, Verdict::HoldsWith(more) if more > 0),
            "{:?}",
            proof.verdict
        );
        assert_eq!(proof.calibration.cell.len(), 2);
        assert!(text(&proof, 1).contains("holds with"));
    }
}
