//! The answer: the cheapest fleet, what binds it, what stands beside it, and what all of that rests on.
//!
//! Everything that an answer says is in [`Plan`]; text, JSON, the report and the page only show it.

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
use crate::search::{Priced, Problem, Unfinished};
use crate::sensitivity::Sensitivity;
use crate::software::Calibration;

pub use infeasible::{Infeasible, Knob};
pub use rests::PriceNote;

/// Peaks by retentions that the report looks up.
const GRID: (u32, u32) = (15, 9);

/// How many other kinds are shown.
const ALTERNATIVES: usize = 4;

/// All that came out for one scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// Version of this form: 1.
    pub version: u32,
    /// Name of the scenario.
    pub name: String,
    /// Which variant of it.
    pub variant: Option<String>,
    /// What it is about.
    pub about: String,
    /// What must be said beside it.
    pub notes: Vec<String>,
    /// The month that prices were looked at in.
    pub today: Month,
    /// What is asked for, in figures.
    pub asked: Asked,
    /// What was chosen; none: nothing carries the load.
    pub chosen: Option<Chosen>,
    /// Why nothing does, and what would.
    pub infeasible: Option<Infeasible>,
    /// The cheapest of the next kinds.
    pub alternatives: Vec<Alternative>,
    /// The same on plain Kafka.
    pub kafka: Vec<Beside>,
    /// What would change the answer.
    pub sensitivity: Option<Sensitivity>,
    /// Years of growth, where there is any.
    pub growth: Option<Growth>,
    /// The most that given brokers carry.
    pub reverse: Option<Reverse>,
    /// What the answer rests on that nobody has measured or published.
    pub assumptions: Vec<String>,
    /// What to look out for.
    pub warnings: Vec<String>,
    /// Every price that was used.
    pub prices: Vec<PriceNote>,
    /// How many mixes were looked at.
    pub mixes: usize,
}

/// The load in figures.
#[derive(Clone, Debug, Serialize)]
pub struct Asked {
    /// From producers, at the peak.
    pub peak: Rate,
    /// Between bursts.
    pub base: Rate,
    /// Over days.
    pub average: Rate,
    /// Out, copies and readers.
    pub peak_out: Rate,
    /// Kept, every copy, on local tiers.
    pub stored: Bytes,
    /// A burst: how long, how often.
    pub burst: Option<(Seconds, Seconds)>,
    /// Goals in words.
    pub survive: String,
    /// For how long.
    pub years: f64,
}

/// A fleet.
#[derive(Clone, Debug, Serialize)]
pub struct Chosen {
    /// In words.
    pub mix: String,
    /// What runs.
    pub software: String,
    /// The server.
    pub server: String,
    /// Its interface.
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
    /// Brokers in all.
    pub brokers: u64,
    /// What the first tier is held at; none: there is one tier, or nothing moves.
    pub threshold: Option<f64>,
    /// Nothing moves between the tiers.
    pub still: bool,
    /// What the mover may take, in one broker.
    pub mover: Option<Rate>,
    /// Partitions of a cluster.
    pub partitions: f64,
    /// A topic for each load.
    pub topics: Vec<TopicAnswer>,
    /// Bytes of a segment.
    pub segment: Bytes,
    /// Bursts and gaps.
    pub burst: Option<BurstAnswer>,
    /// Every constraint.
    pub uses: Vec<UseAnswer>,
    /// The constraint that asks for this many brokers.
    pub binding: String,
    /// What relaxing those that are nearly used up by a tenth saves.
    pub relaxed: Vec<Relaxed>,
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
    /// How long it is kept.
    pub keep_time: Option<Seconds>,
    /// How many bytes of a partition are kept.
    pub keep_bytes: Option<Bytes>,
    /// The newest record of each key is kept.
    pub compacted: bool,
    /// It may be on the second tier only.
    pub only_bulk: bool,
    /// It may be on the first tier only.
    pub only_fast: bool,
    /// Who has to have a batch.
    pub acks: i16,
    /// Bytes of a record.
    pub record: Bytes,
    /// Bytes of a batch.
    pub batch: Bytes,
    /// One broker's part of the peak, from producers.
    pub peak: Rate,
    /// Of what comes between bursts.
    pub base: Rate,
    /// Groups that read along.
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
    /// Seconds of a core a second.
    pub cpu: f64,
}

/// How a fleet takes bursts.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct BurstAnswer {
    /// How long one takes.
    pub asked: Seconds,
    /// How long one could.
    pub lasts: Seconds,
    /// The rule of thumb: free / peak.
    pub rule: Seconds,
    /// From the end of one until its bytes are gone.
    pub gap: Seconds,
    /// Until the next begins.
    pub allowed: Seconds,
    /// What leaves the first tier of one broker.
    pub drain: Rate,
    /// Seconds, and the fill of the first tier.
    pub curve: Vec<(f64, f64)>,
    /// It is dirty pages that take it.
    pub in_page_cache: bool,
}

/// One constraint of a fleet.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct UseAnswer {
    /// Its name.
    pub name: String,
    /// Used, in its unit.
    pub used: f64,
    /// Allowed; none: without limit.
    pub allowed: f64,
    /// Used as a share of what is allowed.
    pub share: f64,
    /// In words: used, allowed.
    pub text: (String, String),
    /// It was not checked, because nothing was measured near.
    pub checked: bool,
}

/// What a tenth more of a constraint saves.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Relaxed {
    /// Which.
    pub name: String,
    /// Dollars over the years.
    pub saves: Dollars,
}

/// A fleet of another kind.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Alternative {
    /// In words.
    pub mix: String,
    /// Brokers in all.
    pub brokers: u64,
    /// Over the years; none: a part has no price.
    pub cost: Option<Dollars>,
    /// Beside the chosen one.
    pub ratio: Option<f64>,
    /// What asks for this many brokers.
    pub binding: String,
}

/// The same load on other software.
#[derive(Clone, Debug, Serialize)]
pub struct Beside {
    /// What runs.
    pub software: String,
    /// What it is.
    pub about: String,
    /// It syncs before it acknowledges.
    pub syncs: bool,
    /// Its fleet.
    pub chosen: Option<Chosen>,
    /// Or why there is none.
    pub infeasible: Option<Infeasible>,
    /// Its cost to that of the chosen one: with medians, and with both ends of the measurements.
    pub ratio: Option<f64>,
    /// The ratio with the lowest of every measurement, and with the highest.
    pub ratio_ends: Option<(f64, f64)>,
}

impl Beside {
    /// Software that cannot do what is asked for.
    fn without(software: &crate::software::Software, why: Infeasible) -> Self {
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

/// How much of an answer is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Depth {
    /// The fleet, and what stands beside it.
    Answer,
    /// What would change it as well.
    Whole,
    /// And the answers that the report looks up.
    Report,
}

/// Solves a scenario.
pub fn solve(
    scenario: &Scenario,
    variant: Option<String>,
    shipped: &Catalogue,
    today: Month,
    depth: Depth,
) -> Result<Plan, Refused> {
    solve_until(scenario, variant, shipped, today, depth, None)
}

/// Solves a scenario for somebody who may not wait for the end.
pub fn solve_until(
    scenario: &Scenario,
    variant: Option<String>,
    shipped: &Catalogue,
    today: Month,
    depth: Depth,
    stop: Option<&AtomicBool>,
) -> Result<Plan, Refused> {
    let mut catalogue = shipped.clone();
    catalogue.overlay(scenario.catalogue.clone());
    rests::names_exist(scenario, &catalogue)?;
    let software = catalogue
        .software("forebay")
        .ok_or_else(|| Refused::NoSoftware("forebay".to_owned()))?;
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

/// Why a scenario is not solved at all.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Refused {
    /// Too large, or nobody waits any more.
    #[error(transparent)]
    Unfinished(#[from] Unfinished),
    /// A name that the catalogue does not have.
    #[error("{key}: the catalogue has no {name:?}; there are {known}")]
    Unknown {
        /// Where it was written.
        key: &'static str,
        /// What.
        name: String,
        /// What there is.
        known: String,
    },
    /// The catalogue has no broker of that name.
    #[error("the catalogue has no software {0:?}")]
    NoSoftware(String),
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn asked(problem: &Problem<'_>) -> Asked {
    let scenario = problem.scenario;
    // One cluster of one site, and all sites together are the whole.
    let flows = problem.flows(1);
    let sites = f64::from(scenario.fleet.sites);
    Asked {
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

fn alternatives(problem: &Problem<'_>, kinds: &[Priced]) -> Vec<Alternative> {
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

/// The same on other software.
fn beside(
    problem: &Problem<'_>,
    id: &str,
    ours: Option<&Priced>,
) -> Result<Option<Beside>, Refused> {
    let Some(software) = problem.catalogue.software(id) else {
        return Ok(None);
    };
    let is_keyed = problem
        .scenario
        .load
        .iter()
        .any(|load| load.keyed.is_some());
    if is_keyed && software.index.is_none() {
        return Ok(Some(Beside::without(software, infeasible::no_keys(id))));
    }
    let other = problem.on(software);
    let best = other.best()?;
    let other = best.map_or_else(|| other.clone(), |best| other.near(&best.found));
    let ratio = |ours: &Priced, theirs: &Priced| {
        let counts = ours.is_priced && theirs.is_priced && ours.cost > Dollars::ZERO;
        counts.then(|| theirs.cost / ours.cost)
    };
    let end = |calibration| -> Result<Option<f64>, Refused> {
        let (Some(ours), Some(theirs)) = (
            problem.calibrated(calibration).best()?,
            other.calibrated(calibration).best()?,
        ) else {
            return Ok(None);
        };
        Ok(ratio(&ours, &theirs))
    };
    let ends = (end(Calibration::Lowest)?, end(Calibration::Highest)?);
    Ok(Some(Beside {
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
