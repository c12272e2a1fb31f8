//! The answer: the cheapest fleet, its binding constraint, the alternatives, and what all of that
//! rests on.
//!
//! Everything that an answer reports is in [`Plan`]; text, JSON, the report and the page only show
//! it.

mod chosen;
mod infeasible;
mod rests;

use std::sync::atomic::AtomicBool;

use serde::Serialize;

use crate::catalogue::{Catalogue, Month};
use crate::cost::Cost;
use crate::growth::Growth;
use crate::load::Scenario;
use crate::mix::TierAnswer;
use crate::quantity::{Bytes, Dollars, Rate, Seconds};
use crate::reverse::Reverse;
use crate::search::{PricedFleet, Problem, UnfinishedSearch};
use crate::sensitivity::Sensitivity;
use crate::software::Calibration;

pub use infeasible::{Infeasibility, Knob};
pub use rests::PriceNote;

/// Number of peaks and of retentions in the grid of the report.
const GRID: (u32, u32) = (15, 9);

/// Number of other kinds that are shown.
const ALTERNATIVES: usize = 4;

/// The result for one scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// Version of this format: 1.
    pub version: u32,
    /// Name of the scenario.
    pub name: String,
    /// Variant of the scenario, if it has variants.
    pub variant: Option<String>,
    /// What the scenario is about.
    pub about: String,
    /// Notes to show beside the answer.
    pub notes: Vec<String>,
    /// The month from which the ages of prices are counted.
    pub today: Month,
    /// The required load, in figures.
    pub asked: LoadFigures,
    /// The chosen fleet; `None` if nothing carries the load.
    pub chosen: Option<FleetFigures>,
    /// Why nothing carries the load, and what would.
    pub infeasible: Option<Infeasibility>,
    /// The cheapest fleets of the next kinds.
    pub alternatives: Vec<Alternative>,
    /// The same load on plain Kafka.
    pub kafka: Vec<OtherSoftware>,
    /// What would change the answer.
    pub sensitivity: Option<Sensitivity>,
    /// Years of growth, if there is any.
    pub growth: Option<Growth>,
    /// The most that given brokers carry.
    pub reverse: Option<Reverse>,
    /// Assumptions of the answer that were neither measured nor published.
    pub assumptions: Vec<String>,
    /// What to watch out for.
    pub warnings: Vec<String>,
    /// Every price that was used.
    pub prices: Vec<PriceNote>,
    /// Number of mixes that were examined.
    pub mixes: usize,
}

/// The load in figures.
#[derive(Clone, Debug, Serialize)]
pub struct LoadFigures {
    /// From producers, at the peak.
    pub peak: Rate,
    /// From producers, between bursts.
    pub base: Rate,
    /// From producers, on average over days.
    pub average: Rate,
    /// Out at the peak, to copies and readers.
    pub peak_out: Rate,
    /// Stored bytes, all copies, on local tiers.
    pub stored: Bytes,
    /// Length and interval of bursts.
    pub burst: Option<(Seconds, Seconds)>,
    /// The failures to survive, in words.
    pub survive: String,
    /// Number of years.
    pub years: f64,
}

/// A fleet in figures.
#[derive(Clone, Debug, Serialize)]
pub struct FleetFigures {
    /// The mix, in words.
    pub mix: String,
    /// The software that runs.
    pub software: String,
    /// The server.
    pub server: String,
    /// Its network interface.
    pub nic: Option<String>,
    /// Memory of one broker.
    pub memory: Bytes,
    /// Cores of one broker.
    pub cores: f64,
    /// The first of two tiers.
    pub fast: Option<TierAnswer>,
    /// The only tier, or the second.
    pub bulk: TierAnswer,
    /// The object store.
    pub object: Option<String>,
    /// Sites.
    pub sites: u32,
    /// Clusters of all sites.
    pub clusters: u32,
    /// Brokers of a cluster.
    pub cluster_brokers: u32,
    /// Brokers in total.
    pub brokers: u64,
    /// Fill at which the first tier is held; `None` if there is one tier, or nothing moves.
    pub threshold: Option<f64>,
    /// True if nothing moves between the tiers.
    pub still: bool,
    /// Rate that the mover may use, in one broker.
    pub mover: Option<Rate>,
    /// Partitions of a cluster.
    pub partitions: f64,
    /// A topic for each load.
    pub topics: Vec<TopicAnswer>,
    /// Bytes of a segment.
    pub segment: Bytes,
    /// Bursts and gaps.
    pub burst: Option<BurstAnswer>,
    /// Every constraint that applies.
    pub uses: Vec<UseAnswer>,
    /// The constraint that requires this many brokers.
    pub binding: String,
    /// What is saved by relaxing each nearly exhausted constraint by a tenth.
    pub relaxed: Vec<RelaxedConstraint>,
    /// What one broker does at the peak.
    pub broker: BrokerRates,
    /// The invoice.
    pub cost: Cost,
}

/// A topic of a cluster.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TopicAnswer {
    /// Its name.
    pub name: String,
    /// Partitions.
    pub partitions: f64,
    /// Copies.
    pub replication: u32,
    /// Retention time.
    pub keep_time: Option<Seconds>,
    /// Retained bytes of a partition.
    pub keep_bytes: Option<Bytes>,
    /// True if the newest record of each key is kept.
    pub compacted: bool,
    /// True if it may be on the second tier only.
    pub only_bulk: bool,
    /// True if it may be on the first tier only.
    pub only_fast: bool,
    /// Required acknowledgements (`acks`).
    pub acks: i16,
    /// Bytes of a record.
    pub record: Bytes,
    /// Bytes of a batch.
    pub batch: Bytes,
    /// One broker's share of the peak, from producers.
    pub peak: Rate,
    /// One broker's share of the rate between bursts, from producers.
    pub base: Rate,
    /// Consumer groups.
    pub groups: f64,
}

/// What one broker of a fleet does at the peak.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct BrokerRates {
    /// From producers.
    pub peak: Rate,
    /// In, with copies.
    pub taken: Rate,
    /// Out.
    pub given: Rate,
    /// Core seconds per second.
    pub cpu: f64,
}

/// How a fleet absorbs bursts.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct BurstAnswer {
    /// Length of a burst.
    pub asked: Seconds,
    /// Longest burst that the first tier absorbs.
    pub lasts: Seconds,
    /// The rule of thumb: free / peak.
    pub rule: Seconds,
    /// Time from the end of a burst until its bytes have left.
    pub gap: Seconds,
    /// Time until the next burst begins.
    pub allowed: Seconds,
    /// Rate at which bytes leave the first tier of one broker.
    pub drain: Rate,
    /// Seconds, and the fill of the first tier.
    pub curve: Vec<(f64, f64)>,
    /// True if dirty pages absorb the burst.
    pub in_page_cache: bool,
}

/// One constraint of a fleet.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct UseAnswer {
    /// Its name.
    pub name: String,
    /// Used, in its unit.
    pub used: f64,
    /// Allowed, in its unit; infinite without a limit (null in JSON).
    pub allowed: f64,
    /// Used as a share of what is allowed.
    pub share: f64,
    /// Used and allowed, in words.
    pub text: (String, String),
    /// False if it was not checked, because there is no measurement near this load.
    pub checked: bool,
}

/// What a constraint relaxed by a tenth saves.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RelaxedConstraint {
    /// Name of the constraint.
    pub name: String,
    /// Dollars over the years.
    pub saves: Dollars,
}

/// A fleet of another kind.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Alternative {
    /// The mix, in words.
    pub mix: String,
    /// Brokers in total.
    pub brokers: u64,
    /// Cost over the years; `None` if a part has no price.
    pub cost: Option<Dollars>,
    /// Its cost relative to the chosen fleet.
    pub ratio: Option<f64>,
    /// The constraint that requires this many brokers.
    pub binding: String,
}

/// The same load on other software.
#[derive(Clone, Debug, Serialize)]
pub struct OtherSoftware {
    /// The software.
    pub software: String,
    /// What it is.
    pub about: String,
    /// True if it syncs before it acknowledges.
    pub syncs: bool,
    /// Its fleet.
    pub chosen: Option<FleetFigures>,
    /// Why there is no fleet.
    pub infeasible: Option<Infeasibility>,
    /// Its cost relative to the chosen fleet, with the medians of the measurements.
    pub ratio: Option<f64>,
    /// The ratio with the lowest value of every measurement, and with the highest.
    pub ratio_ends: Option<(f64, f64)>,
}

impl OtherSoftware {
    /// Software that cannot do what the load requires.
    fn without(software: &crate::software::Software, why: Infeasibility) -> Self {
        Self {
            software: software.id.clone(),
            about: software.about.clone(),
            syncs: software.syncs,
            chosen: None,
            infeasible: Some(why),
            ratio: None,
            ratio_ends: None,
        }
    }
}

/// How much of an answer to compute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Depth {
    /// The fleet, and the alternatives.
    Answer,
    /// Also what would change the answer.
    Whole,
    /// Also the grid of the report.
    Report,
}

/// Solves a scenario.
pub fn solve(
    scenario: &Scenario,
    variant: Option<String>,
    shipped: &Catalogue,
    today: Month,
    depth: Depth,
) -> Result<Plan, SolveError> {
    solve_until(scenario, variant, shipped, today, depth, None)
}

/// Solves a scenario until `stop` is set.
pub fn solve_until(
    scenario: &Scenario,
    variant: Option<String>,
    shipped: &Catalogue,
    today: Month,
    depth: Depth,
    stop: Option<&AtomicBool>,
) -> Result<Plan, SolveError> {
    let mut catalogue = shipped.clone();
    catalogue.overlay(scenario.catalogue.clone());
    rests::names_exist(scenario, &catalogue)?;
    let software = catalogue
        .software("forebay")
        .ok_or_else(|| SolveError::NoSoftware("forebay".to_owned()))?;
    let mut problem = Problem::new(scenario, &catalogue, software, today);
    problem.stop = stop;
    let kinds = problem.kinds(ALTERNATIVES + 1)?;
    let best = kinds.first().copied();
    let problem = best.map_or_else(|| problem.clone(), |best| problem.near(&best.found));
    let mut plan = Plan {
        version: 1,
        name: scenario.name.clone(),
        variant,
        about: one_line(&scenario.about),
        notes: scenario.notes.clone(),
        today,
        asked: asked(&problem),
        chosen: best.and_then(|best| chosen::chosen(&problem, &best, depth)),
        infeasible: None,
        alternatives: alternatives(&problem, &kinds),
        kafka: Vec::new(),
        sensitivity: None,
        growth: None,
        reverse: None,
        assumptions: Vec::new(),
        warnings: Vec::new(),
        prices: Vec::new(),
        mixes: problem.mixes(),
    };
    if best.is_none() {
        plan.infeasible = Some(infeasible::explain(&problem));
    }
    for id in ["kafka", "kafka-synced"] {
        plan.kafka.extend(beside(&problem, id, best.as_ref())?);
    }
    if scenario.given.brokers.is_some() {
        plan.reverse = crate::reverse::of(&problem);
    }
    if let (Some(best), Depth::Whole | Depth::Report) = (best, depth) {
        let mut sensitivity = crate::sensitivity::of(&problem, &best)?;
        if depth == Depth::Report {
            sensitivity.grid = crate::sensitivity::grid(&problem, &best, GRID.0, GRID.1)?;
        }
        plan.sensitivity = Some(sensitivity);
        plan.growth = crate::growth::of(&problem)?;
    }
    rests::say(&problem, best.as_ref(), &mut plan);
    Ok(plan)
}

/// Why a scenario is not solved.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum SolveError {
    /// The search is too large, or was stopped.
    #[error(transparent)]
    Unfinished(#[from] UnfinishedSearch),
    /// A name that the catalogue does not contain.
    #[error("{key}: the catalogue has no {name:?}; there are {known}")]
    Unknown {
        /// The key that names it.
        key: &'static str,
        /// The name.
        name: String,
        /// The names in the catalogue.
        known: String,
    },
    /// The catalogue has no broker of that name.
    #[error("the catalogue has no software {0:?}")]
    NoSoftware(String),
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn asked(problem: &Problem<'_>) -> LoadFigures {
    let scenario = problem.scenario;
    // The flows are those of one cluster of one site; the figures are for all sites.
    let flows = problem.flows(1);
    let sites = f64::from(scenario.fleet.sites);
    LoadFigures {
        peak: scenario.load.iter().map(crate::load::Load::peak).sum(),
        base: scenario.load.iter().map(crate::load::Load::base).sum(),
        average: scenario.load.iter().map(crate::load::Load::average).sum(),
        peak_out: flows.peak_out * sites,
        stored: flows.stored * sites,
        burst: flows.burst,
        survive: scenario.goals.survive.to_string(),
        years: scenario.goals.years,
    }
}

fn alternatives(problem: &Problem<'_>, kinds: &[PricedFleet]) -> Vec<Alternative> {
    let best = kinds.first();
    let others = kinds.iter().skip(1).take(ALTERNATIVES);
    others
        .filter_map(|priced| {
            let mix = problem.mix(&priced.found.choice)?;
            let cost = priced.is_priced.then_some(priced.cost);
            let ratio = best.filter(|best| best.is_priced && priced.is_priced);
            Some(Alternative {
                mix: mix.describe(),
                brokers: chosen::brokers(problem, &priced.found),
                cost,
                ratio: ratio
                    .map(|best| priced.cost / best.cost)
                    .filter(|ratio| ratio.is_finite()),
                binding: chosen::binding(problem, &priced.found),
            })
        })
        .collect()
}

/// Solves the same load on other software.
fn beside(
    problem: &Problem<'_>,
    id: &str,
    ours: Option<&PricedFleet>,
) -> Result<Option<OtherSoftware>, SolveError> {
    let Some(software) = problem.catalogue.software(id) else {
        return Ok(None);
    };
    let is_keyed = problem
        .scenario
        .load
        .iter()
        .any(|load| load.keyed.is_some());
    if is_keyed && software.index.is_none() {
        return Ok(Some(OtherSoftware::without(
            software,
            infeasible::no_keys(id),
        )));
    }
    let other = problem.on(software);
    let best = other.best()?;
    let other = best.map_or_else(|| other.clone(), |best| other.near(&best.found));
    let ratio = |ours: &PricedFleet, theirs: &PricedFleet| {
        let counts = ours.is_priced && theirs.is_priced && ours.cost > Dollars::ZERO;
        counts.then(|| theirs.cost / ours.cost)
    };
    let end = |calibration| -> Result<Option<f64>, SolveError> {
        let (Some(ours), Some(theirs)) = (
            problem.calibrated(calibration).best()?,
            other.calibrated(calibration).best()?,
        ) else {
            return Ok(None);
        };
        Ok(ratio(&ours, &theirs))
    };
    let ends = (end(Calibration::Lowest)?, end(Calibration::Highest)?);
    Ok(Some(OtherSoftware {
        software: id.to_owned(),
        about: software.about.clone(),
        syncs: software.syncs,
        chosen: best.and_then(|best| chosen::chosen(&other, &best, Depth::Answer)),
        infeasible: best.is_none().then(|| infeasible::explain(&other)),
        ratio: ours
            .zip(best.as_ref())
            .and_then(|(ours, theirs)| ratio(ours, theirs)),
        ratio_ends: ends.0.zip(ends.1),
    }))
}

#[cfg(test)]
mod tests;
