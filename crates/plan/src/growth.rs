//! A growing load: everything bought at once for the last year, or a part each year, at today's
//! prices.

use serde::Serialize;

use crate::cost::{Terms, Unit};
use crate::load::{Goals, Load};
use crate::quantity::{Dollars, Rate};
use crate::search::{Problem, UnfinishedSearch};

/// The years of a plan.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Growth {
    /// Each year.
    pub years: Vec<Year>,
    /// The mix that is bought: the cheapest for the last year.
    pub mix: String,
    /// Cost if everything is bought at the start.
    pub at_once: Dollars,
    /// Cost if brokers are bought as the load grows.
    pub yearly: Dollars,
}

/// One year.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Year {
    /// The year, counted from 1.
    pub year: u32,
    /// The peak at its end.
    pub peak: Rate,
    /// Brokers that it needs in total.
    pub brokers: u64,
    /// Cost of the brokers bought in it, until the end.
    pub spent: Dollars,
}

/// Returns the years of a scenario; `None` if nothing grows, or nothing carries the load of a year.
pub fn of(problem: &Problem<'_>) -> Result<Option<Growth>, UnfinishedSearch> {
    let scenario = problem.scenario;
    let grows = scenario.load.iter().any(|load| load.growth != 0.0);
    let count = scenario.goals.years.ceil();
    if !grows {
        return Ok(None);
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "0.1 to 20 years were checked"
    )]
    let count = count as u32;
    let last = scenario.in_year(count);
    let of_last = problem.of(&last);
    let Some(best) = of_last.best()? else {
        return Ok(None);
    };
    let Some(mix) = problem.mix(&best.found.choice) else {
        return Ok(None);
    };
    let module = problem.module(&mix);
    let sites = u64::from(scenario.fleet.sites);
    let mut years = Vec::new();
    let mut there = 0_u64;
    for year in 1..=count {
        let grown = scenario.in_year(year);
        let then = problem.of(&grown);
        let Some((clusters, brokers)) = then.least(&mix) else {
            return Ok(None);
        };
        let needed = (u64::from(clusters) * u64::from(brokers) * sites).max(there);
        // A broker bought in this year runs until the end.
        let goals = Goals {
            years: scenario.goals.years - f64::from(year - 1),
            ..scenario.goals.clone()
        };
        let terms = Terms {
            cost: &scenario.cost,
            goals: &goals,
        };
        let unit = Unit::of(&mix, module);
        let each = terms.of_unit(&unit, &mix, module);
        years.push(Year {
            year,
            peak: grown.load.iter().map(Load::peak).sum(),
            brokers: needed,
            spent: each * to_f64(needed - there),
        });
        there = needed;
    }
    let terms = problem.terms();
    let unit = Unit::of(&mix, module);
    let each = terms.of_unit(&unit, &mix, module);
    Ok(Some(Growth {
        mix: mix.describe(),
        at_once: each * to_f64(there),
        yearly: years.iter().map(|year| year.spent).sum(),
        years,
    }))
}

#[expect(clippy::cast_precision_loss, reason = "brokers, not bytes")]
fn to_f64(count: u64) -> f64 {
    count as f64
}
