//! The other way round: the most that brokers which are there carry.

use serde::Serialize;

use crate::load::Load;
use crate::quantity::Rate;
use crate::search::Problem;

/// A load is not tried beyond so many times of what is asked for.
const TIMES_MAX: f64 = 1e6;

/// To a thousandth of a percent.
const STEPS: u32 = 60;

/// The most that is carried.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Reverse {
    /// So many times the load that is asked for.
    pub times: f64,
    /// The peak then.
    pub peak: Rate,
    /// What is used up by it.
    pub binding: String,
    /// Brokers that are given.
    pub brokers: u32,
}

/// The greatest multiple of the load that the given brokers carry; none: not even a millionth of it.
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
