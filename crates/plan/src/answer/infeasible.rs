//! Why nothing carries a load, and the smallest change with which something would.

use serde::Serialize;

use crate::constraint::{ALL, Constraint};
use crate::load::{Burst, Load, Retention, Scenario};
use crate::quantity::Seconds;
use crate::search::{Choice, Problem};

/// A factor so large that the relaxed constraint always holds.
const MUCH: f64 = 1e9;

/// Bisection steps of the search for the smallest change: to a thousandth of the range.
const STEPS: u32 = 10;

/// Why there is no answer.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Infeasibility {
    /// The only constraint that is in the way; `None` if there are several, or if no mix can be
    /// built.
    pub constraint: Option<String>,
    /// The reason, in words.
    pub why: String,
    /// The nearest change with which something carries the load.
    pub change: Option<Knob>,
}

/// A change of the load.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Knob {
    /// What changes.
    pub what: String,
    /// The value before the change.
    pub from: String,
    /// The value after the change.
    pub to: String,
    /// The value after the change as a share of the value before.
    pub factor: f64,
}

/// A property of a load that can be reduced or increased.
struct Turn {
    what: &'static str,
    /// True if an increase makes the load easier.
    upward: bool,
    apply: fn(&mut Load, f64),
    show: fn(&Load) -> Option<String>,
}

const TURNS: [Turn; 6] = [
    Turn {
        what: "peak",
        upward: false,
        apply: |load, factor| *load = load.peaked(factor),
        show: |load| Some(load.peak().to_string()),
    },
    Turn {
        what: "burst length",
        upward: false,
        apply: |load, factor| turn_burst(load, |burst| burst.length = burst.length * factor),
        show: |load| load.burst.map(|burst| burst.length.to_string()),
    },
    Turn {
        what: "burst interval",
        upward: true,
        apply: |load, factor| turn_burst(load, |burst| burst.interval = burst.interval * factor),
        show: |load| load.burst.map(|burst| burst.interval.to_string()),
    },
    Turn {
        what: "retention",
        upward: false,
        apply: |load, factor| {
            load.retention = match load.retention {
                Retention::Time(time) => Retention::Time(time * factor),
                Retention::Bytes(bytes) => Retention::Bytes(bytes * factor),
                Retention::Forever => Retention::Forever,
            };
        },
        show: |load| match load.retention {
            Retention::Time(time) => Some(time.to_string()),
            Retention::Bytes(bytes) => Some(bytes.to_string()),
            Retention::Forever => None,
        },
    },
    Turn {
        what: "newest on the first tier",
        upward: false,
        apply: |load, factor| load.newest = load.newest * factor,
        show: |load| (load.newest > Seconds::ZERO).then(|| load.newest.to_string()),
    },
    Turn {
        what: "latency",
        upward: true,
        apply: |load, factor| load.latency = load.latency.map(|latency| latency * factor),
        show: |load| load.latency.map(|latency| latency.to_string()),
    },
];

fn turn_burst(load: &mut Load, change: impl Fn(&mut Burst)) {
    if let Some(burst) = &mut load.burst {
        change(burst);
    }
}

/// Returns why software without keyed records cannot carry a load that has them.
pub(super) fn no_keys(id: &str) -> Infeasibility {
    Infeasibility {
        constraint: None,
        why: format!(
            "{id} has no keyed records: a second store would hold the data again, and is not planned here"
        ),
        change: None,
    }
}

/// Returns why nothing carries the load of this problem.
pub(super) fn explain(problem: &Problem<'_>) -> Infeasibility {
    if problem.mixes() == 0 {
        return Infeasibility {
            constraint: None,
            why: "no server with devices fits: look at [hardware], [given], and at prices older than 18 months (--old-prices)"
                .to_owned(),
            change: None,
        };
    }
    let alone = ALL
        .iter()
        .map(|(constraint, _)| *constraint)
        .find(|constraint| problem.relaxing(*constraint, MUCH).is_feasible());
    let change = nearest(problem);
    match alone {
        Some(constraint) => Infeasibility {
            constraint: Some(constraint.name().to_owned()),
            why: closest(problem, constraint),
            change,
        },
        None => Infeasibility {
            constraint: None,
            why: several(problem),
            change,
        },
    }
}

/// Describes the violation of a constraint by the mix that comes nearest.
fn closest(problem: &Problem<'_>, constraint: Constraint) -> String {
    let relaxed = problem.relaxing(constraint, MUCH);
    let best = relaxed.best().ok().flatten();
    let said = best.and_then(|best| {
        says(
            problem,
            &best.found.choice,
            best.found.clusters,
            best.found.brokers,
            constraint,
        )
    });
    said.unwrap_or_else(|| format!("{} is not met", constraint.name()))
}

fn says(
    problem: &Problem<'_>,
    choice: &Choice,
    clusters: u32,
    brokers: u32,
    constraint: Constraint,
) -> Option<String> {
    let mix = problem.mix(choice)?;
    let flows = problem.flows(clusters);
    let fit = problem.fit(&flows, &mix, brokers);
    let (_, used) = fit
        .uses()
        .into_iter()
        .find(|(known, _)| *known == constraint)?;
    if constraint == Constraint::Gap
        && let Some(balance) = fit.balance()
        && balance.base >= balance.drain
    {
        return Some(format!(
            "gap between bursts: the base of {} is not below what drains, {}: what a burst left is never gone ({brokers} x {})",
            balance.base,
            balance.drain,
            mix.describe()
        ));
    }
    Some(format!(
        "{}: {} where {} is allowed ({brokers} x {})",
        constraint.name(),
        used.unit.show(used.used),
        used.unit.show(used.allowed),
        mix.describe()
    ))
}

fn several(problem: &Problem<'_>) -> String {
    if problem.scenario.fleet.brokers_max.is_some() {
        let mut without = problem.scenario.clone();
        without.fleet.brokers_max = None;
        if problem.of(&without).is_feasible() {
            return "more brokers are needed than fleet.brokers_max allows".to_owned();
        }
    }
    let first = problem.first_mix();
    let brokers = problem
        .scenario
        .given
        .brokers
        .unwrap_or(problem.scenario.fleet.cluster_brokers_max);
    let names = first.and_then(|choice| {
        let mix = problem.mix(&choice)?;
        let flows = problem.flows(1);
        let fit = problem.fit(&flows, &mix, brokers);
        let failing = fit
            .uses()
            .into_iter()
            .filter(|(_, used)| used.share() > 1.0);
        let names: Vec<&str> = failing.map(|(constraint, _)| constraint.name()).collect();
        Some(names.join(", "))
    });
    format!(
        "several constraints are not met: {}",
        names.unwrap_or_default()
    )
}

/// Returns the smallest change of one property with which something carries the load.
fn nearest(problem: &Problem<'_>) -> Option<Knob> {
    let mut best: Option<(f64, Knob)> = None;
    for turn in &TURNS {
        if problem
            .scenario
            .load
            .iter()
            .all(|load| (turn.show)(load).is_none())
        {
            continue;
        }
        let turned = |factor: f64| -> Scenario {
            let mut scenario = problem.scenario.clone();
            for load in &mut scenario.load {
                (turn.apply)(load, factor);
            }
            scenario
        };
        let works = |factor: f64| {
            let scenario = turned(factor);
            problem.of(&scenario).is_feasible()
        };
        let far = if turn.upward { 64.0 } else { 1.0 / 64.0 };
        if !works(far) {
            continue;
        }
        // Bisect the logarithm, so that halving and doubling are equally far.
        let (mut fails, mut holds) = (0.0_f64, far.ln());
        for _ in 0..STEPS {
            let middle = f64::midpoint(fails, holds);
            if works(middle.exp()) {
                holds = middle;
            } else {
                fails = middle;
            }
        }
        let factor = holds.exp();
        let distance = holds.abs();
        let described = |scenario: &Scenario| {
            let shown: Vec<String> = scenario
                .load
                .iter()
                .filter_map(|load| (turn.show)(load))
                .collect();
            shown.join(", ")
        };
        let knob = Knob {
            what: turn.what.to_owned(),
            from: described(problem.scenario),
            to: described(&turned(factor)),
            factor,
        };
        if best.as_ref().is_none_or(|(nearest, _)| distance < *nearest) {
            best = Some((distance, knob));
        }
    }
    best.map(|(_, knob)| knob)
}
