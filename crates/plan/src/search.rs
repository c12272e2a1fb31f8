//! The search: every mix of the catalogue, the least number of brokers of each, and the cheapest of
//! them.
//!
//! The rounding of devices, the spare broker and the burst make the problem nonlinear, so mixes are
//! enumerated and bisection finds the number of brokers. The result is exact, the same on every
//! run, and explainable. Invariant: between equal costs, fewer brokers win, then the order of the
//! catalogue. Mixes that `bound` skips are more expensive than the answer, or do not carry the
//! load.

mod bound;
mod enumerate;

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::atomic::AtomicBool;

use crate::catalogue::{Catalogue, Module, Month};
use crate::constraint::{Constraint, Fit};
use crate::cost::{FleetSize, Terms, Unit};
use crate::demand::Flows;
use crate::load::Scenario;
use crate::mix::{Devices, Mix};
use crate::quantity::Dollars;
use crate::software::{Calibration, Software};

pub use enumerate::Choice;

/// Maximum number of mixes; beyond it the search is refused until the catalogue is narrowed.
pub const MIXES_MAX: usize = 4_000_000;

/// Maximum clusters of a site.
const CLUSTERS_MAX: u32 = 100_000;

/// A search: the load, the parts, and the conditions.
#[derive(Clone, Debug)]
pub struct Problem<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// The parts that exist.
    pub catalogue: &'a Catalogue,
    /// The software that runs.
    pub software: &'a Software,
    /// The present month, for the age of prices.
    pub today: Month,
    /// The value of each measurement that is used.
    pub calibration: Calibration,
    /// A relaxed constraint, with its factor.
    pub relaxed: Option<(Constraint, f64)>,
    /// Set when the caller gives up.
    pub stop: Option<&'a AtomicBool>,
    /// The answer of a similar problem: more expensive mixes are skipped.
    seed: Option<Choice>,
    flows: Rc<RefCell<BTreeMap<u32, Rc<Flows>>>>,
}

/// A mix that carries the load, with the number of brokers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FoundFleet {
    /// The mix.
    pub choice: Choice,
    /// Clusters of a site.
    pub clusters: u32,
    /// Brokers of a cluster.
    pub brokers: u32,
}

/// A fleet and its cost.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PricedFleet {
    /// The fleet.
    pub found: FoundFleet,
    /// Dollars over all years.
    pub cost: Dollars,
    /// True if every part has a price.
    pub is_priced: bool,
}

impl<'a> Problem<'a> {
    /// Creates a problem with medians and without a relaxed constraint.
    pub fn new(
        scenario: &'a Scenario,
        catalogue: &'a Catalogue,
        software: &'a Software,
        today: Month,
    ) -> Self {
        Self {
            scenario,
            catalogue,
            software,
            today,
            calibration: Calibration::Median,
            relaxed: None,
            stop: None,
            seed: None,
            flows: Rc::default(),
        }
    }

    /// Returns the same problem for another load.
    #[must_use]
    pub fn of<'b>(&'b self, scenario: &'b Scenario) -> Problem<'b> {
        Problem {
            scenario,
            flows: Rc::default(),
            ..self.clone()
        }
    }

    /// Returns the same problem on other software.
    #[must_use]
    pub fn on<'b>(&'b self, software: &'b Software) -> Problem<'b> {
        Problem {
            software,
            seed: None,
            flows: Rc::default(),
            ..self.clone()
        }
    }

    /// Returns the same problem, whose answer is likely to be near this mix; problems derived from
    /// it share that.
    #[must_use]
    pub fn near(&self, seed: &FoundFleet) -> Self {
        Self {
            seed: Some(seed.choice),
            ..self.clone()
        }
    }

    /// Returns the same problem with another value of the measurements.
    #[must_use]
    pub fn calibrated(&self, calibration: Calibration) -> Self {
        Self {
            calibration,
            flows: Rc::default(),
            ..self.clone()
        }
    }

    /// Returns the same problem with a constraint relaxed.
    #[must_use]
    pub fn relaxing(&self, constraint: Constraint, times: f64) -> Self {
        Self {
            relaxed: Some((constraint, times)),
            ..self.clone()
        }
    }

    /// Returns the same problem with other prices.
    #[must_use]
    pub fn priced_by<'b>(&'b self, catalogue: &'b Catalogue) -> Problem<'b> {
        Problem {
            catalogue,
            ..self.clone()
        }
    }

    /// Returns the flows of one of `clusters` clusters of a site.
    pub fn flows(&self, clusters: u32) -> Rc<Flows> {
        let known = self.flows.borrow().get(&clusters).cloned();
        known.unwrap_or_else(|| {
            let share = 1.0 / (f64::from(self.scenario.fleet.sites) * f64::from(clusters));
            let flows = Flows::of(self.scenario, self.software, share, self.calibration);
            let flows = Rc::new(flows);
            self.flows.borrow_mut().insert(clusters, Rc::clone(&flows));
            flows
        })
    }

    /// Returns the mix of a choice.
    pub fn mix(&self, choice: &Choice) -> Option<Mix<'a>> {
        let devices = |(at, count): (u16, u16)| {
            Some(Devices {
                device: self.catalogue.device.get(usize::from(at))?,
                count: u32::from(count),
            })
        };
        let server = self.catalogue.server.get(usize::from(choice.server))?;
        let object = self.scenario.hardware.object.as_deref();
        Some(Mix {
            server,
            nic: match choice.nic {
                Some(at) => Some(self.catalogue.nic.get(usize::from(at))?),
                None => None,
            },
            memory: *server.memory.get(usize::from(choice.memory))?,
            fast: match choice.fast {
                Some(fast) => Some(devices(fast)?),
                None => None,
            },
            bulk: devices(choice.bulk)?,
            object: object.and_then(|id| self.catalogue.object.iter().find(|entry| entry.id == id)),
            software: self.software,
        })
    }

    /// Returns the modules of a mix's memory.
    pub(crate) fn module(&self, mix: &Mix<'_>) -> Option<&'a Module> {
        let id = mix.server.module.as_ref()?;
        self.catalogue.memory.iter().find(|entry| entry.id == *id)
    }

    /// Returns a cluster of `brokers` brokers.
    pub fn fit<'f>(&'f self, flows: &'f Flows, mix: &'f Mix<'f>, brokers: u32) -> Fit<'f> {
        Fit {
            flows,
            mix,
            goals: &self.scenario.goals,
            racks: self.scenario.fleet.racks,
            brokers,
            relaxed: self.relaxed,
        }
    }

    /// Returns the clusters of a site and the brokers of a cluster: the fewest clusters, then the
    /// fewest brokers.
    pub fn least(&self, mix: &Mix<'_>) -> Option<(u32, u32)> {
        let fleet = &self.scenario.fleet;
        if let Some(given) = self.scenario.given.brokers {
            return self.as_given(mix, given);
        }
        let (clusters, brokers) = self.least_of_any(mix)?;
        let all = u64::from(clusters) * u64::from(brokers) * u64::from(fleet.sites);
        let allowed = u64::from(fleet.brokers_max.unwrap_or(u32::MAX));
        (all <= allowed).then_some((clusters, brokers))
    }

    /// The same, without the limit on the number of all brokers.
    fn least_of_any(&self, mix: &Mix<'_>) -> Option<(u32, u32)> {
        let holds = |clusters: u32, brokers: u32| {
            let flows = self.flows(clusters);
            self.fit(&flows, mix, brokers).holds()
        };
        let most = self.scenario.fleet.cluster_brokers_max;
        let clusters = least_of(CLUSTERS_MAX, |clusters| holds(clusters, most))?;
        let flows = self.flows(clusters);
        let brokers = least_of(most, |brokers| self.fit(&flows, mix, brokers).holds())?;
        Some((clusters, brokers))
    }

    /// Divides the given brokers into as few clusters as possible, and checks that they carry the
    /// load.
    fn as_given(&self, mix: &Mix<'_>, given: u32) -> Option<(u32, u32)> {
        let fleet = &self.scenario.fleet;
        let of_site = given / fleet.sites;
        let clusters = of_site.div_ceil(fleet.cluster_brokers_max).max(1);
        let brokers = of_site / clusters;
        let flows = self.flows(clusters);
        let holds = brokers > 0 && self.fit(&flows, mix, brokers).holds();
        holds.then_some((clusters, brokers))
    }

    /// Returns every mix that carries the load, without skipping any; tests compare the search with
    /// it.
    pub fn all(&self) -> Result<Vec<FoundFleet>, UnfinishedSearch> {
        let mut found = Vec::new();
        for (count, choice) in enumerate::choices(self).enumerate() {
            if count >= MIXES_MAX {
                return Err(UnfinishedSearch::TooMany);
            }
            found.extend(self.found(&choice));
        }
        Ok(found)
    }

    /// Returns the fewest brokers of a mix that carry the load.
    fn found(&self, choice: &Choice) -> Option<FoundFleet> {
        let mix = self.mix(choice)?;
        let (clusters, brokers) = self.least(&mix)?;
        Some(FoundFleet {
            choice: *choice,
            clusters,
            brokers,
        })
    }

    /// Returns the number of mixes; it stops counting above [`MIXES_MAX`].
    pub fn mixes(&self) -> usize {
        let mut count = 0_usize;
        for group in enumerate::groups(self) {
            count = count.saturating_add(group.count());
            if count > MIXES_MAX {
                break;
            }
        }
        count
    }

    /// Returns the first mix.
    pub fn first_mix(&self) -> Option<Choice> {
        enumerate::choices(self).next()
    }

    /// Returns the parts of all mixes by id, each once, those of `choice` first.
    pub fn parts(&self, choice: &Choice) -> Vec<&'a str> {
        let mut places: [BTreeSet<u16>; 4] = Default::default();
        let groups = enumerate::groups(self).map(|group| group.least());
        let mut all: Vec<&'a str> = Vec::new();
        for choice in [*choice].into_iter().chain(groups) {
            let [servers, nics, fast, bulk] = &mut places;
            let is_new = servers.insert(choice.server)
                | choice.nic.is_some_and(|at| nics.insert(at))
                | choice.fast.is_some_and(|(at, _)| fast.insert(at))
                | bulk.insert(choice.bulk.0);
            if !is_new {
                continue;
            }
            let Some(mix) = self.mix(&choice) else {
                continue;
            };
            let parts = [
                Some(mix.server.id.as_str()),
                self.module(&mix).map(|module| module.id.as_str()),
                mix.nic.map(|nic| nic.id.as_str()),
                mix.fast.map(|fast| fast.device.id.as_str()),
                Some(mix.bulk.device.id.as_str()),
                mix.object.map(|object| object.id.as_str()),
            ];
            for id in parts.into_iter().flatten() {
                if !all.contains(&id) {
                    all.push(id);
                }
            }
        }
        all
    }

    /// Returns the cost of a fleet.
    pub fn price(&self, found: &FoundFleet) -> Option<PricedFleet> {
        let mix = self.mix(&found.choice)?;
        let module = self.module(&mix);
        let terms = self.terms();
        let unit = Unit::of(&mix, module);
        let fleet = &self.scenario.fleet;
        let clusters = f64::from(found.clusters) * f64::from(fleet.sites);
        let brokers = clusters * f64::from(found.brokers);
        let shared = if mix.object.is_some() || mix.server.cloud {
            let flows = self.flows(found.clusters);
            terms.shared(&mix, &flows, clusters, fleet.racks)
        } else {
            Dollars::ZERO
        };
        Some(PricedFleet {
            found: *found,
            cost: terms.of_unit(&unit, &mix, module) * brokers + shared,
            is_priced: unit.is_priced,
        })
    }

    pub(crate) fn terms(&self) -> Terms<'_> {
        Terms {
            cost: &self.scenario.cost,
            goals: &self.scenario.goals,
        }
    }

    /// Returns the invoice of a fleet.
    pub fn invoice(&self, found: &FoundFleet) -> Option<crate::cost::Cost> {
        let mix = self.mix(&found.choice)?;
        let fleet = &self.scenario.fleet;
        let clusters = found.clusters.saturating_mul(fleet.sites);
        let flows = self.flows(found.clusters);
        let size = FleetSize {
            brokers: clusters.saturating_mul(found.brokers),
            clusters: f64::from(clusters),
            racks: fleet.racks,
            flows: &flows,
        };
        Some(self.terms().invoice(&mix, self.module(&mix), &size))
    }

    /// Returns the cheapest fleet; those with an unpriced part count only if there is no other.
    pub fn cheapest(&self, found: &[FoundFleet]) -> Option<PricedFleet> {
        let all = found.iter().filter_map(|found| self.price(found));
        all.reduce(|best, other| if other.precedes(&best) { other } else { best })
    }
}

impl FoundFleet {
    /// Returns the brokers of a site.
    pub fn of_site(&self) -> u64 {
        u64::from(self.clusters) * u64::from(self.brokers)
    }
}

impl PricedFleet {
    /// Orders the better one first. Fleets with an unpriced part come last, and are compared by
    /// brokers.
    fn order(&self, other: &Self) -> Ordering {
        let costs = |priced: &Self| if priced.is_priced { priced.cost.0 } else { 0.0 };
        (!self.is_priced)
            .cmp(&!other.is_priced)
            .then_with(|| costs(self).total_cmp(&costs(other)))
            .then_with(|| self.found.of_site().cmp(&other.found.of_site()))
            .then_with(|| self.found.choice.rank().cmp(&other.found.choice.rank()))
    }

    /// Returns true if it is the better one.
    fn precedes(&self, other: &Self) -> bool {
        self.order(other).is_lt()
    }
}

/// Returns every choice, in their order.
#[cfg(test)]
pub(crate) fn all_choices(problem: &Problem<'_>) -> Vec<Choice> {
    enumerate::choices(problem).collect()
}

/// Why a search ended early.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UnfinishedSearch {
    /// There are too many mixes.
    #[error("more than {MIXES_MAX} mixes: name servers, devices or devices_max in [hardware]")]
    TooMany,
    /// The caller gave up.
    #[error("stopped before everything was looked at")]
    Stopped,
}

/// Returns the least number up to `most` for which `holds` is true; it must be true for all larger
/// ones.
pub fn least_of(most: u32, holds: impl Fn(u32) -> bool) -> Option<u32> {
    // Start small and double: most numbers are small.
    let mut high = 1_u32;
    while high < most && !holds(high) {
        high = high.saturating_mul(2).min(most);
    }
    if high >= most && !holds(most) {
        return None;
    }
    let mut low = high / 2;
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    // The least result is one.
    Some(high.max(1))
}

#[cfg(test)]
mod tests;
