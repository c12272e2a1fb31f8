//! Timeouts of members: for heartbeats, for giving up partitions, for rejoining and for asking for
//! an assignment (the latter two for members with the classic protocol).

use std::collections::BTreeMap;
use std::time::Duration;

use platform::clock::Instant;
use wire::protocol::StrBytes;

use super::decision::millis;
use super::member::MemberState;
use super::timer_change::TimerChange;
use super::{ConsumerGroup, Decision};
use crate::group::ClockReading;

/// Least session after a load, and after a failed append of the records that remove a member.
///
/// Without it, a member with a zero timeout would cause an append all the time while the log
/// accepts nothing.
const RESUMED_MIN: Duration = Duration::from_secs(1);

/// The timers of a group.
pub(super) type Timers = BTreeMap<StrBytes, MemberTimers>;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MemberTimers {
    session: Option<Instant>,
    rebalance: Option<(Instant, i32)>,
    join: Option<Instant>,
    sync: Option<Instant>,
}

impl MemberTimers {
    fn next(&self) -> Option<Instant> {
        let rebalance = self.rebalance.map(|(at, _)| at);
        let all = [self.session, rebalance, self.join, self.sync];
        all.into_iter().flatten().min()
    }

    fn apply(&mut self, change: TimerChange) {
        match change {
            TimerChange::Session(at) => self.session = Some(at),
            TimerChange::Rebalance(at, epoch) => self.rebalance = Some((at, epoch)),
            TimerChange::Rebalanced => self.rebalance = None,
            TimerChange::JoinBy(at) => {
                self.join.get_or_insert(at);
            }
            TimerChange::SyncBy(at) => {
                self.join = None;
                self.sync = Some(at);
            }
            TimerChange::Synced => self.sync = None,
            TimerChange::Gone => *self = Self::default(),
        }
    }
}

impl ConsumerGroup {
    /// Sets timers and returns the earliest of them.
    fn set_timers(&mut self, changes: &[(StrBytes, TimerChange)]) -> Option<Instant> {
        let mut earliest: Option<Instant> = None;
        for (id, change) in changes {
            if *change == TimerChange::Gone {
                self.timers.remove(id);
                continue;
            }
            let timers = self.timers.entry(id.clone()).or_default();
            timers.apply(*change);
            earliest = earliest.into_iter().chain(timers.next()).min();
        }
        earliest
    }

    /// Takes in the parts of a decision beside its records; returns the earliest of the timers that
    /// it set.
    pub fn note<A>(&mut self, decision: &Decision<A>) -> Option<Instant> {
        self.compared = decision.compared.or(self.compared);
        self.looked = decision.looked.or(self.looked);
        if decision.looked.is_some() {
            self.ahead.drop_found();
        }
        if decision.retargeted {
            self.ahead.drop_assigned();
        }
        if let Some(job) = &decision.job {
            self.ahead.begin(job);
        }
        self.set_timers(&decision.timers)
    }

    /// Gives every member without timers a session from `now` on.
    pub fn resume(&mut self, now: ClockReading, session_timeout: Duration) {
        let mut changes = Vec::new();
        for (id, member) in self.members() {
            if self.timers.contains_key(id) {
                continue;
            }
            let classic = member.classic.as_ref();
            let timeout = classic.map_or(session_timeout, |side| millis(side.session_timeout_ms));
            let by = now.at + timeout.max(RESUMED_MIN);
            changes.push((id.clone(), TimerChange::Session(by)));
            let progress = self.progress(id);
            if classic.is_none() && progress.state == MemberState::Unrevoked {
                let by = now.at + millis(member.rebalance_timeout_ms).max(RESUMED_MIN);
                changes.push((id.clone(), TimerChange::Rebalance(by, progress.epoch)));
            }
        }
        self.set_timers(&changes);
    }

    /// Postpones every timeout to at least one session from `now` on.
    ///
    /// Called after a time in which the broker could not receive heartbeats.
    pub fn put_off(&mut self, now: ClockReading, session_timeout_ms: i32) {
        let whole = now.at + millis(session_timeout_ms).max(RESUMED_MIN);
        for timers in self.timers.values_mut() {
            let MemberTimers {
                session,
                rebalance,
                join,
                sync,
            } = timers;
            for at in [session, join, sync].into_iter().flatten() {
                *at = whole.max(*at);
            }
            if let Some((at, _)) = rebalance {
                *at = whole.max(*at);
            }
        }
    }

    /// Returns when the next member times out.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.timers.values().filter_map(MemberTimers::next).min()
    }

    /// Returns the members that have timed out, and removes their timers.
    pub fn overdue(&mut self, now: Instant) -> Vec<StrBytes> {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let mut overdue = Vec::new();
        let mut spent = Vec::new();
        for (id, timers) in &mut self.timers {
            if !is_due(timers.next()) {
                continue;
            }
            let seat = self.seats.get(id);
            let epoch = seat.and_then(|seat| Some(seat.progress.latest()?.epoch));
            let late = timers
                .rebalance
                .is_some_and(|(at, since)| at <= now && epoch == Some(since));
            if is_due(timers.session) || is_due(timers.join) || is_due(timers.sync) || late {
                spent.push(id.clone());
                if seat.is_some_and(|seat| seat.member.latest().is_some()) {
                    overdue.push(id.clone());
                }
            } else {
                timers.rebalance = None;
            }
        }
        for id in spent {
            self.timers.remove(&id);
        }
        overdue
    }
}
