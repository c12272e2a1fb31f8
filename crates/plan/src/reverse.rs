//! The reverse question: the largest load that given brokers carry.

use serde::Serialize;

use crate::load::Load;
use crate::quantity::Rate;
use crate::search::Problem;

/// Largest factor on the load that is tried.
const TIMES_MAX: f64 = 1e6;

/// Bisection steps, enough for the precision of f64.
const STEPS: u32 = 60;

/// The largest load that is carried.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Reverse {
    /// Factor on the required load.
    pub times: f64,
    /// The peak of that load.
    pub peak: Rate,
    /// The constraint that is then exhausted.
    pub binding: String,
    /// Number of given brokers.
    pub brokers: u32,
}

/// Returns the largest multiple of the load that the given brokers carry; `None` if it is below a
/// millionth.
pub fn of(problem: &Problem<'_>) -> Option<Reverse> {
    let works = |times: f64| {
        let scenario = problem.scenario.times(times);
        problem.of(&scenario).is_feasible()
    };
    let mut low = 1.0 / TIMES_MAX;
    if !works(low) {
        return None;
    }
    let mut high = low * 2.0;
    while high < TIMES_MAX && works(high) {
        low = high;
        high *= 2.0;
    }
    for _ in 0..STEPS {
        let middle = f64::midpoint(low, high);
        if works(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    let scenario = problem.scenario.times(low);
    let most = problem.of(&scenario);
    let found = most.best().ok()??.found;
    let mix = most.mix(&found.choice)?;
    let flows = most.flows(found.clusters);
    let fit = most.fit(&flows, &mix, found.brokers);
    Some(Reverse {
        times: low,
        peak: scenario.load.iter().map(Load::peak).sum(),
        binding: fit.tightest()?.0.name().to_owned(),
        brokers: problem.scenario.given.brokers.unwrap_or(0),
    })
}
