//! The next step of a rollout.

use std::collections::BTreeMap;

use super::design::{AtOnce, Rollout};
use super::state::{HostInRollout, HostStanding, RolloutState, Step};

/// The next step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NextStep {
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
pub fn next(design: &Rollout, state: &RolloutState, now_ms: i64) -> NextStep {
    let all = || state.hosts.values();
    let names = |wanted: &dyn Fn(&HostInRollout) -> bool| {
        let found = all().filter(|of| wanted(of));
        found
            .map(|of| of.turn.host.name.clone())
            .collect::<Vec<_>>()
    };
    // First, find out what a killed controller did not learn.
    let unknown = names(&|of| of.stands == HostStanding::Applying);
    if !unknown.is_empty() {
        return NextStep::Do(Step::Settle, unknown);
    }
    if state.failed.is_some() {
        return back(design, state);
    }
    if let Some(why) = &state.paused {
        return NextStep::Pause(why.clone());
    }
    for stage in 0..design.stages.len() {
        let of_stage: Vec<&HostInRollout> =
            all().filter(|of| of.turn.stage == Some(stage)).collect();
        if let Some(next) = in_stage(design, state, stage, &of_stage, now_ms) {
            return next;
        }
    }
    NextStep::End
}

/// Returns the next step after a failure: everything is taken back, and what was taken out of
/// service comes back by a restart.
fn back(design: &Rollout, state: &RolloutState) -> NextStep {
    let names = |wanted: &dyn Fn(&HostInRollout) -> bool| {
        let found = state.hosts.values().filter(|of| wanted(of));
        found
            .map(|of| of.turn.host.name.clone())
            .collect::<Vec<_>>()
    };
    if !state.restarts {
        // One that was out of reach may have been confirmed before, and be back.
        let may_have = |of: &&HostInRollout| {
            let is_lost = of.stands == HostStanding::Quarantined && of.transaction.is_some();
            of.has() || (is_lost && !of.lost.told)
        };
        let batch = batch(design.at_once, state.hosts.values().filter(may_have), &[]);
        return if batch.is_empty() {
            NextStep::End
        } else {
            NextStep::Do(Step::Undo, batch)
        };
    }
    let is_away = |of: &HostInRollout| of.stands == HostStanding::Drained;
    let is_reverted = |of: &HostInRollout| of.stands == HostStanding::Reverted;
    for (step, hosts) in [
        (Step::Ready, names(&|of| is_reverted(of) && !of.due)),
        (
            Step::Restart,
            names(&|of| is_away(of) || (is_reverted(of) && of.due)),
        ),
        (Step::Undo, names(&|of| of.has() && of.drained)),
    ] {
        if !hosts.is_empty() {
            return NextStep::Do(step, hosts);
        }
    }
    // One that a killed controller was taking out of service may be out of it.
    let serves = |of: &&HostInRollout| (of.has() && !of.drained) || of.leaving;
    let serving = || state.hosts.values().filter(serves);
    let batch = batch(design.at_once, serving(), &quarantined(state));
    match serving().count() {
        0 => NextStep::End,
        left if batch.is_empty() => NextStep::Pause(waiting(left)),
        _ => NextStep::Do(Step::Drain, batch),
    }
}

/// Returns the hosts that may be down, for which no other one of their group may go down.
fn quarantined(state: &RolloutState) -> Vec<&HostInRollout> {
    let down = |of: &&HostInRollout| of.stands == HostStanding::Quarantined;
    state.hosts.values().filter(down).collect()
}

fn waiting(hosts: usize) -> String {
    format!(
        "{hosts} hosts are not taken out of service, because another one of their group is quarantined"
    )
}

/// Returns the next step in a stage; none if the stage is over.
fn in_stage(
    design: &Rollout,
    state: &RolloutState,
    stage: usize,
    hosts: &[&HostInRollout],
    now_ms: i64,
) -> Option<NextStep> {
    let names = |wanted: &dyn Fn(&HostInRollout) -> bool| {
        let found = hosts.iter().filter(|of| wanted(of));
        found
            .map(|of| of.turn.host.name.clone())
            .collect::<Vec<_>>()
    };
    let lost = names(&|of| of.stands == HostStanding::Quarantined && !of.lost.given_up).len();
    if lost > design.unreachable_max {
        return Some(NextStep::Pause(format!(
            "{lost} hosts of stage {} are out of reach",
            stage + 1
        )));
    }
    for (step, hosts) in [
        (
            Step::Ready,
            names(&|of| of.stands == HostStanding::Restarted),
        ),
        (
            Step::Restart,
            names(&|of| of.stands == HostStanding::Applied && of.due),
        ),
        (
            Step::Verify,
            names(&|of| of.stands == HostStanding::Applied && !of.due),
        ),
        (Step::Apply, names(&|of| of.stands == HostStanding::Drained)),
    ] {
        if !hosts.is_empty() {
            return Some(NextStep::Do(step, hosts));
        }
    }
    let planned = hosts
        .iter()
        .copied()
        .filter(|of| of.stands == HostStanding::Planned);
    let left = planned.clone().count();
    let down = if state.restarts {
        quarantined(state)
    } else {
        Vec::new()
    };
    let batch = batch(design.at_once, planned, &down);
    if left > 0 && batch.is_empty() {
        return Some(NextStep::Pause(waiting(left)));
    }
    if !batch.is_empty() {
        if design.is_frozen(now_ms.div_euclid(1_000)) {
            return Some(NextStep::Wait(now_ms.saturating_add(LOOK_MS)));
        }
        let step = if state.restarts {
            Step::Drain
        } else {
            Step::Apply
        };
        return Some(NextStep::Do(step, batch));
    }
    confirm(design, hosts, now_ms)
}

/// Returns the next step for the hosts of a stage that all have the plan: they are watched,
/// verified once more, and confirmed.
fn confirm(design: &Rollout, hosts: &[&HostInRollout], now_ms: i64) -> Option<NextStep> {
    let names = |wanted: &dyn Fn(&HostInRollout) -> bool| {
        let found = hosts.iter().filter(|of| wanted(of));
        found
            .map(|of| of.turn.host.name.clone())
            .collect::<Vec<_>>()
    };
    let soaking = hosts
        .iter()
        .filter(|of| of.stands == HostStanding::Verified);
    let last = soaking.map(|of| of.applied_ms).max()?;
    let until = last.saturating_add(i64::try_from(design.soak_ms).unwrap_or(i64::MAX));
    // If the clock was set back, how long they have been watched is not known, and to wait for it
    // to come back would outlast their watchdogs.
    let is_set_back = now_ms < last;
    if now_ms < until && !is_set_back {
        return Some(NextStep::Wait(until));
    }
    // Verify once more before the hosts are confirmed.
    let is_old = |verified_ms: i64| {
        if is_set_back {
            verified_ms >= last
        } else {
            verified_ms < until
        }
    };
    let old = names(&|of| of.stands == HostStanding::Verified && is_old(of.verified_ms));
    if !old.is_empty() {
        return Some(NextStep::Do(Step::Verify, old));
    }
    Some(NextStep::Do(
        Step::Confirm,
        names(&|of| of.stands == HostStanding::Verified),
    ))
}

/// Returns as many of these hosts as may be changed at the same time, no one whose group has a host
/// that is down.
fn batch<'a>(
    most: AtOnce,
    hosts: impl Iterator<Item = &'a HostInRollout>,
    down: &[&'a HostInRollout],
) -> Vec<String> {
    let mut batch = Vec::new();
    // Those that may be out of service already come first: they were one batch.
    let mut hosts: Vec<&HostInRollout> = hosts.collect();
    hosts.sort_by_key(|of| !of.leaving);
    let (mut sites, mut racks, mut groups) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for of in down {
        let host = &of.turn.host;
        let is_down: &mut usize = groups.entry((&host.site, &host.group)).or_default();
        *is_down += 1;
    }
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
