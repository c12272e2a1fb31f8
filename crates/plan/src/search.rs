//! Every mix of the catalogue, the least number of brokers of each, and the cheapest of them.
//!
//! The rounding of devices, the spare broker and the burst make the problem not linear, so mixes are enumerated and the
//! number of brokers is found by bisection: it is exact, the same on every run, and each answer can be explained.
//! Invariant: equal costs are decided by fewer brokers, then by the order of the catalogue.

mod enumerate;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::catalogue::{Catalogue, Module, Month};
use crate::constraint::{Constraint, Fit};
use crate::cost::{FleetSize, Terms};
use crate::demand::Flows;
use crate::load::{Goals, Scenario, Survive};
use crate::mix::{Devices, Mix};
use crate::quantity::Dollars;
use crate::software::{Calibration, Software};

pub use enumerate::Choice;

/// More mixes than this are refused: the catalogue has to be narrowed.
pub const MIXES_MAX: usize = 4_000_000;

/// After so many mixes it is asked whether anybody still waits.
const STOP_EVERY: usize = 256;

/// Clusters of a site at most.
const CLUSTERS_MAX: u32 = 100_000;

/// What is searched, and with what.
#[derive(Clone, Debug)]
pub struct Problem<'a> {
    /// What is planned for.
    pub scenario: &'a Scenario,
    /// What there is.
    pub catalogue: &'a Catalogue,
    /// What runs.
    pub software: &'a Software,
    /// The month: prices have an age.
    pub today: Month,
    /// Which end of measurements.
    pub calibration: Calibration,
    /// A constraint that is relaxed.
    pub relaxed: Option<(Constraint, f64)>,
    /// Set by whoever does not wait any more.
    pub stop: Option<&'a AtomicBool>,
    flows: Rc<RefCell<BTreeMap<u32, Rc<Flows>>>>,
}

/// A mix that carries the load, and how many of it do.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Found {
    /// Which mix.
    pub choice: Choice,
    /// Clusters of a site.
    pub clusters: u32,
    /// Brokers of a cluster.
    pub brokers: u32,
}

/// A fleet and its cost.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Priced {
    /// The fleet.
    pub found: Found,
    /// Over all years.
    pub cost: Dollars,
    /// Every part has a price.
    pub is_priced: bool,
}

impl<'a> Problem<'a> {
    /// A problem with medians and nothing relaxed.
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
            flows: Rc::default(),
        }
    }

    /// The same for another load.
    #[must_use]
    pub fn of<'b>(&'b self, scenario: &'b Scenario) -> Problem<'b> {
        Problem {
            scenario,
            flows: Rc::default(),
            ..self.clone()
        }
    }

    /// The same on other software.
    #[must_use]
    pub fn on<'b>(&'b self, software: &'b Software) -> Problem<'b> {
        Problem {
            software,
            flows: Rc::default(),
            ..self.clone()
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    /// The same with another end of the measurements.
    #[must_use]
    pub fn calibrated(&self, calibration: Calibration) -> Self {
        Self {
            calibration,
            flows: Rc::default(),
            ..self.clone()
        }
    }

    /// The same with a constraint relaxed.
    #[must_use]
    pub fn relaxing(&self, constraint: Constraint, times: f64) -> Self {
        Self {
            relaxed: Some((constraint, times)),
            ..self.clone()
        }
    }

    /// The same with other prices.
    #[must_use]
    pub fn priced_by<'b>(&'b self, catalogue: &'b Catalogue) -> Problem<'b> {
        Problem {
            catalogue,
            ..self.clone()
        }
    }

    /// What one of so many clusters of a site has to do.
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

    /// The mix of a choice.
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

    /// The modules of a mix's memory.
    pub(crate) fn module(&self, mix: &Mix<'_>) -> Option<&'a Module> {
        let id = mix.server.module.as_ref()?;
        self.catalogue.memory.iter().find(|entry| entry.id == *id)
    }

    /// A cluster of so many brokers.
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

    /// Clusters of a site and brokers of a cluster: the fewest clusters, then the fewest brokers.
    pub fn least(&self, mix: &Mix<'_>) -> Option<(u32, u32)> {
        let fleet = &self.scenario.fleet;
        if let Some(given) = self.scenario.given.brokers {
            return self.as_given(mix, given);
        }
        let holds = |clusters: u32, brokers: u32| {
            let flows = self.flows(clusters);
            self.fit(&flows, mix, brokers).holds()
        };
        let most = fleet.cluster_brokers_max;
        let clusters = least_of(CLUSTERS_MAX, |clusters| holds(clusters, most))?;
        let flows = self.flows(clusters);
        let brokers = least_of(most, |brokers| self.fit(&flows, mix, brokers).holds())?;
        let all = u64::from(clusters) * u64::from(brokers) * u64::from(fleet.sites);
        let allowed = u64::from(fleet.brokers_max.unwrap_or(u32::MAX));
        (all <= allowed).then_some((clusters, brokers))
    }

    /// The brokers that there are, in as few clusters as may be.
    fn as_given(&self, mix: &Mix<'_>, given: u32) -> Option<(u32, u32)> {
        let fleet = &self.scenario.fleet;
        let of_site = given / fleet.sites;
        let clusters = of_site.div_ceil(fleet.cluster_brokers_max).max(1);
        let brokers = of_site / clusters;
        let flows = self.flows(clusters);
        let holds = brokers > 0 && self.fit(&flows, mix, brokers).holds();
        holds.then_some((clusters, brokers))
    }

    /// Whether the mix of this number may be looked at.
    fn may_go_on(&self, count: usize) -> Result<(), Unfinished> {
        if count > MIXES_MAX {
            return Err(Unfinished::TooMany);
        }
        if count.is_multiple_of(STOP_EVERY) && self.is_stopped() {
            return Err(Unfinished::Stopped);
        }
        Ok(())
    }

    /// Every mix that carries the load.
    pub fn all(&self) -> Result<Vec<Found>, Unfinished> {
        let mut found = Vec::new();
        let mut count = 0_usize;
        for choice in enumerate::choices(self) {
            count += 1;
            self.may_go_on(count)?;
            let Some(mix) = self.mix(&choice) else {
                continue;
            };
            if let Some((clusters, brokers)) = self.least(&mix) {
                found.push(Found {
                    choice,
                    clusters,
                    brokers,
                });
            }
        }
        Ok(found)
    }

    /// The cheapest fleet, without looking closer at what cannot be it.
    pub fn best(&self) -> Result<Option<Priced>, Unfinished> {
        let mut best: Option<Priced> = None;
        for (count, choice) in enumerate::choices(self).enumerate() {
            self.may_go_on(count)?;
            let Some(mix) = self.mix(&choice) else {
                continue;
            };
            if best.is_some_and(|best| self.is_dearer(&mix, &best)) {
                continue;
            }
            let Some((clusters, brokers)) = self.least(&mix) else {
                continue;
            };
            let found = Found {
                choice,
                clusters,
                brokers,
            };
            if let Some(priced) = self.price(&found)
                && best.is_none_or(|best| priced.precedes(&best))
            {
                best = Some(priced);
            }
        }
        Ok(best)
    }

    /// Whether as many of these as cost no more than the best so far do not carry the load, by one look.
    fn is_dearer(&self, mix: &Mix<'_>, best: &Priced) -> bool {
        let module = self.module(mix);
        let terms = self.terms();
        let unit = terms.unit(mix, module);
        if !best.is_priced || !unit.is_priced {
            return best.is_priced;
        }
        let each = terms.of_unit(&unit, mix, module);
        let fleet = &self.scenario.fleet;
        let most = best.cost / each * (1.0 + 1e-9) / f64::from(fleet.sites);
        if !most.is_finite() || most >= 1e9 || self.scenario.given.brokers.is_some() {
            return false;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between nothing and a thousand millions"
        )]
        let most = most as u32;
        let flows = self.flows(1);
        if flows.spread_max.is_finite() {
            // Fixed partitions are rounded in each cluster.
            return false;
        }
        // One cluster in which nothing fails does what any division of these brokers into clusters does.
        let goals = Goals {
            survive: Survive::Brokers(0),
            ..self.scenario.goals.clone()
        };
        let fit = Fit {
            goals: &goals,
            ..self.fit(&flows, mix, most)
        };
        most == 0 || !fit.holds()
    }

    /// How many mixes there are.
    pub fn mixes(&self) -> usize {
        enumerate::choices(self).take(MIXES_MAX + 1).count()
    }

    /// The first mix there is.
    pub fn first_mix(&self) -> Option<Choice> {
        enumerate::choices(self).next()
    }

    /// Whether any mix carries the load.
    pub fn is_feasible(&self) -> bool {
        enumerate::choices(self)
            .take(MIXES_MAX)
            .take_while(|_| !self.is_stopped())
            .filter_map(|choice| self.mix(&choice))
            .any(|mix| self.least(&mix).is_some())
    }

    /// What a fleet costs.
    pub fn price(&self, found: &Found) -> Option<Priced> {
        let mix = self.mix(&found.choice)?;
        let module = self.module(&mix);
        let terms = self.terms();
        let unit = terms.unit(&mix, module);
        let fleet = &self.scenario.fleet;
        let clusters = f64::from(found.clusters) * f64::from(fleet.sites);
        let brokers = clusters * f64::from(found.brokers);
        let shared = if mix.object.is_some() || mix.server.cloud {
            let flows = self.flows(found.clusters);
            terms.shared(&mix, &flows, clusters, fleet.racks)
        } else {
            Dollars::ZERO
        };
        Some(Priced {
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

    /// The invoice of a fleet.
    pub fn invoice(&self, found: &Found) -> Option<crate::cost::Cost> {
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

    /// The cheapest of fleets. Those with a part that has no price count only where none is without.
    pub fn cheapest(&self, found: &[Found]) -> Option<Priced> {
        let all = found.iter().filter_map(|found| self.price(found));
        all.reduce(|best, other| if other.precedes(&best) { other } else { best })
    }

    /// The cheapest of each kind, the cheapest kind first.
    pub fn kinds(&self, found: &[Found]) -> Vec<Priced> {
        let mut kinds: BTreeMap<(u16, Option<u16>, u16), Priced> = BTreeMap::new();
        for priced in found.iter().filter_map(|found| self.price(found)) {
            let choice = &priced.found.choice;
            let kind = (choice.server, choice.fast.map(|(at, _)| at), choice.bulk.0);
            let best = kinds.entry(kind).or_insert(priced);
            if priced.precedes(best) {
                *best = priced;
            }
        }
        let mut all: Vec<Priced> = kinds.into_values().collect();
        all.sort_by(|one, other| {
            let by_cost =
                (!one.is_priced, one.cost.0).partial_cmp(&(!other.is_priced, other.cost.0));
            by_cost.unwrap_or(std::cmp::Ordering::Equal)
        });
        all
    }
}

impl Found {
    /// Brokers of a site.
    pub fn of_site(&self) -> u64 {
        u64::from(self.clusters) * u64::from(self.brokers)
    }
}

impl Priced {
    /// Whether it is the better one. What has no price is compared by brokers.
    fn precedes(&self, other: &Self) -> bool {
        if self.is_priced != other.is_priced {
            return self.is_priced;
        }
        let brokers = (self.found.of_site(), other.found.of_site());
        if !self.is_priced {
            return brokers.0 < brokers.1;
        }
        self.cost < other.cost || (self.cost == other.cost && brokers.0 < brokers.1)
    }
}

/// Every choice, in their order.
#[cfg(test)]
pub(crate) fn all_choices(problem: &Problem<'_>) -> Vec<Choice> {
    enumerate::choices(problem).collect()
}

/// Why a search ended before everything was looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unfinished {
    /// There are more mixes than are looked at.
    #[error("more than {MIXES_MAX} mixes: name servers, devices or devices_max in [hardware]")]
    TooMany,
    /// Whoever asked does not wait any more.
    #[error("stopped before everything was looked at")]
    Stopped,
}

/// The least number up to `most` for which something holds that holds for all above it.
pub fn least_of(most: u32, holds: impl Fn(u32) -> bool) -> Option<u32> {
    // Galloping: most numbers are small.
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
    // Nothing below one was asked for.
    Some(high.max(1))
}

#[cfg(test)]
mod tests;
