//! Branch and bound: in a group of mixes that differ only in counts, the one with the most devices
//! carries the most, and the one with the fewest costs the least.
//!
//! Take the number of brokers of the cheapest mix that the cost of the best answer so far would
//! buy. If that many brokers of the largest mix do not carry the load, no mix of the group is
//! better; otherwise both halves of the group are examined. One cluster can do whatever several
//! clusters with as many brokers in total can, so checking one cluster is enough.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use super::enumerate::{self, Group, Kind};
use super::{CLUSTERS_MAX, MIXES_MAX, PricedFleet, Problem, UnfinishedSearch};
use crate::cost::Unit;
use crate::demand::Flows;
use crate::mix::Mix;
use crate::quantity::Dollars;

/// Tolerance for the rounding of a sum of shares.
const ROUNDING: f64 = 1e-9;

/// A walk over all groups of a problem.
struct Walk<'w, 'a> {
    problem: &'w Problem<'a>,
    /// The flows of one cluster that can divide its work among any number of brokers.
    whole: Rc<Flows>,
    /// Maximum brokers of a site.
    most: u32,
    /// Groups that are not examined yet.
    open: Vec<Group>,
    mixes: usize,
}

impl<'w, 'a> Walk<'w, 'a> {
    fn new(problem: &'w Problem<'a>) -> Self {
        let mut whole = Flows::clone(&problem.flows(1));
        whole.spread_max = f64::INFINITY;
        let fleet = &problem.scenario.fleet;
        let allowed = fleet.brokers_max.unwrap_or(u32::MAX) / fleet.sites.max(1);
        Self {
            problem,
            whole: Rc::new(whole),
            most: CLUSTERS_MAX
                .saturating_mul(fleet.cluster_brokers_max)
                .min(allowed),
            open: Vec::new(),
            mixes: 0,
        }
    }

    /// Starts with a group, and counts its mixes.
    fn enter(&mut self, group: Group) -> Result<(), UnfinishedSearch> {
        self.mixes = self.mixes.saturating_add(group.count());
        if self.mixes > MIXES_MAX {
            return Err(UnfinishedSearch::TooMany);
        }
        self.open.clear();
        self.open.push(group);
        Ok(())
    }

    /// Returns the next mix that none of the known ones excludes.
    fn next(
        &mut self,
        known: &dyn Fn() -> [Option<PricedFleet>; 2],
    ) -> Result<Option<PricedFleet>, UnfinishedSearch> {
        while let Some(group) = self.open.pop() {
            if self
                .problem
                .stop
                .is_some_and(|stop| stop.load(Ordering::Relaxed))
            {
                return Err(UnfinishedSearch::Stopped);
            }
            let Some(group) = group.fitted() else {
                continue;
            };
            if !self.may_beat(&group, &known()) {
                continue;
            }
            if let Some((low, high)) = group.halves() {
                self.open.extend([high, low]);
                continue;
            }
            let found = self.problem.found(&group.least());
            if let Some(priced) = found.and_then(|found| self.problem.price(&found)) {
                return Ok(Some(priced));
            }
        }
        Ok(None)
    }

    /// Returns true if a mix of the group may be as good as all known ones.
    fn may_beat(&self, group: &Group, known: &[Option<PricedFleet>; 2]) -> bool {
        let problem = self.problem;
        let (Some(cheap), Some(able)) = (problem.mix(&group.least()), problem.mix(&group.most()))
        else {
            return false;
        };
        let known = || known.iter().flatten();
        let affordable = known().map(|best| self.affordable(&cheap, best)).min();
        if let Some(given) = problem.scenario.given.brokers {
            let Some((clusters, brokers)) = problem.as_given(&able, given) else {
                return false;
            };
            let all = clusters.saturating_mul(brokers);
            return affordable.is_none_or(|affordable| all <= affordable);
        }
        if affordable.is_none() && problem.least_of_any(&able).is_none() {
            return false;
        }
        let most = affordable.unwrap_or(u32::MAX).min(self.most);
        most > 0 && problem.fit(&self.whole, &able, most).holds()
    }

    /// Returns how many brokers of a site cost no more than the known fleet.
    fn affordable(&self, cheap: &Mix<'_>, best: &PricedFleet) -> u32 {
        let problem = self.problem;
        let module = problem.module(cheap);
        let unit = Unit::of(cheap, module);
        match (best.is_priced, unit.is_priced) {
            (true, false) => return 0,
            (false, true) => return u32::MAX,
            (false, false) => return u32::try_from(best.found.of_site()).unwrap_or(u32::MAX),
            (true, true) => {}
        }
        let terms = problem.terms();
        let fleet = &problem.scenario.fleet;
        let sites = f64::from(fleet.sites);
        let shared = if cheap.object.is_some() || cheap.server.cloud {
            let flows = problem.flows(1);
            terms.shared(cheap, &flows, sites, fleet.racks)
        } else {
            Dollars::ZERO
        };
        let left = best.cost.0 * (1.0 + ROUNDING) - shared.0 * (1.0 - ROUNDING);
        let each = terms.of_unit(&unit, cheap, module).0 * sites;
        let count = left / each * (1.0 + ROUNDING);
        if count.is_nan() || count >= f64::from(u32::MAX) {
            // Too many to count, or a broker costs nothing.
            return u32::MAX;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between nothing and the largest number"
        )]
        let count = count.max(0.0) as u32;
        count
    }
}

impl Problem<'_> {
    /// Returns the cheapest fleet.
    pub fn best(&self) -> Result<Option<PricedFleet>, UnfinishedSearch> {
        let mut walk = Walk::new(self);
        let seed = self.seed.and_then(|seed| self.found(&seed));
        let mut best = seed.and_then(|seed| self.price(&seed));
        for group in enumerate::groups(self) {
            walk.enter(group)?;
            while let Some(priced) = walk.next(&|| [best, None])? {
                if best.is_none_or(|best| priced.precedes(&best)) {
                    best = Some(priced);
                }
            }
        }
        Ok(best)
    }

    /// Returns the cheapest fleet of each of at most `most` kinds, the cheapest kind first.
    pub fn kinds(&self, most: usize) -> Result<Vec<PricedFleet>, UnfinishedSearch> {
        let mut walk = Walk::new(self);
        let mut kinds: Vec<(Kind, PricedFleet)> = Vec::new();
        for group in enumerate::groups(self) {
            walk.enter(group)?;
            let kind = group.kind();
            loop {
                let known = || {
                    let own = kinds.iter().find(|(known, _)| *known == kind);
                    // Kinds beyond the last one are not needed.
                    let last = kinds.get(most.saturating_sub(1));
                    [own, last].map(|entry| entry.map(|(_, priced)| *priced))
                };
                let Some(priced) = walk.next(&known)? else {
                    break;
                };
                let own = kinds.iter().position(|(known, _)| *known == kind);
                match own.and_then(|at| kinds.get_mut(at)) {
                    Some((_, best)) if priced.precedes(best) => *best = priced,
                    Some(_) => {}
                    None => kinds.push((kind, priced)),
                }
                kinds.sort_by(|one, other| one.1.order(&other.1));
                kinds.truncate(most);
            }
        }
        Ok(kinds.into_iter().map(|(_, priced)| priced).collect())
    }

    /// Returns true if any mix carries the load; false if the search was stopped.
    pub fn is_feasible(&self) -> bool {
        if self.seed.is_some_and(|seed| self.found(&seed).is_some()) {
            return true;
        }
        let mut walk = Walk::new(self);
        enumerate::groups(self).any(|group| {
            let entered = walk.enter(group);
            entered.is_ok_and(|()| {
                walk.next(&|| [None, None])
                    .is_ok_and(|found| found.is_some())
            })
        })
    }
}
