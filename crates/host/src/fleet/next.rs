//! The next step of a rollout.

use std::collections::BTreeMap;

use super::design::{AtOnce, Rollout};
use super::state::{Of, Stands, State, Step};

/// The next step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Next {
    /// Execute a step on these hosts.
    Do(Step, Vec<String>),
    /// Do nothing before this time.
    Wait(i64),
    /// Do nothing until an operator has looked.
    Pause(String),
    /// Stop: everything is done, or everything was taken back.
    End,
}

/// Interval at which a freeze is checked again.
const LOOK_MS: i64 = 60_000;

/// Returns the next step, given the state of all hosts.
pub fn next(design: &Rollout, state: &State, now_ms: i64) -> Next {
    let all = || state.hosts.values();
    let names = |wanted: &dyn Fn(&Of) -> bool| {
        let found = all().filter(|of| wanted(of));
        found
            .map(|of| of.turn.host.name.clone())
            .collect::<Vec<_>>()
    };
    // First, find out what a killed controller did not learn.
    let unknown = names(&|of| of.stands == Stands::Applying);
    if !unknown.is_empty() {
        return Next::Do(Step::Settle, unknown);
    }
    if state.failed.is_some() {
        let with = all().filter(|of| of.has());
        let batch = batch(design.at_once, with);
        return if batch.is_empty() {
            Next::End
        } else {
            Next::Do(Step::Undo, batch)
        };
    }
    if let Some(why) = &state.paused {
        return Next::Pause(why.clone());
    }
    for stage in 0..design.stages.len() {
        let of_stage: Vec<&Of> = all().filter(|of| of.turn.stage == Some(stage)).collect();
        if let Some(next) = in_stage(design, stage, &of_stage, now_ms) {
            return next;
        }
    }
    Next::End
}

/// Returns the next step in a stage; none if the stage is over.
fn in_stage(design: &Rollout, stage: usize, hosts: &[&Of], now_ms: i64) -> Option<Next> {
    let names = |wanted: &dyn Fn(&Of) -> bool| {
        let found = hosts.iter().filter(|of| wanted(of));
        found
            .map(|of| of.turn.host.name.clone())
            .collect::<Vec<_>>()
    };
    let lost = names(&|of| of.stands == Stands::Quarantined).len();
    if lost > design.unreachable_max {
        return Some(Next::Pause(format!(
            "{lost} hosts of stage {} are out of reach",
            stage + 1
        )));
    }
    let applied = names(&|of| of.stands == Stands::Applied);
    if !applied.is_empty() {
        return Some(Next::Do(Step::Verify, applied));
    }
    let planned = hosts
        .iter()
        .copied()
        .filter(|of| of.stands == Stands::Planned);
    let batch = batch(design.at_once, planned);
    if !batch.is_empty() {
        if design.is_frozen(now_ms.div_euclid(1_000)) {
            return Some(Next::Wait(now_ms.saturating_add(LOOK_MS)));
        }
        return Some(Next::Do(Step::Apply, batch));
    }
    let soaking = hosts.iter().filter(|of| of.stands == Stands::Verified);
    let last = soaking.map(|of| of.applied_ms).max()?;
    let until = last.saturating_add(i64::try_from(design.soak_ms).unwrap_or(i64::MAX));
    if now_ms < until {
        return Some(Next::Wait(until));
    }
    // Verify once more before the hosts are confirmed.
    let old = names(&|of| of.stands == Stands::Verified && of.verified_ms < until);
    if !old.is_empty() {
        return Some(Next::Do(Step::Verify, old));
    }
    Some(Next::Do(
        Step::Confirm,
        names(&|of| of.stands == Stands::Verified),
    ))
}

/// Returns as many of these hosts as may be changed at the same time.
fn batch<'a>(most: AtOnce, hosts: impl Iterator<Item = &'a Of>) -> Vec<String> {
    let mut batch = Vec::new();
    let (mut sites, mut racks, mut groups) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for of in hosts {
        let host = &of.turn.host;
        let site: &mut usize = sites.entry(&host.site).or_default();
        let rack: &mut usize = racks.entry((&host.site, &host.rack)).or_default();
        let group: &mut usize = groups.entry((&host.site, &host.group)).or_default();
        let has_room = batch.len() < most.total
            && *site < most.site
            && *rack < most.rack
            && *group < most.group;
        if has_room {
            *site += 1;
            *rack += 1;
            *group += 1;
            batch.push(host.name.clone());
        }
    }
    batch
}
