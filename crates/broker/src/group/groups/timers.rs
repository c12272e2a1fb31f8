//! Deadlines of groups: sessions, rebalances, syncs.
//!
//! Invariant: a group that was handled is due later than the time that was handled.

use platform::clock::Instant;
use wire::protocol::StrBytes;

use super::{EXPIRED_AT_ONCE_MAX, GroupOutcome, Groups, MOMENT};
use crate::group::ClockReading;
use crate::group::cluster::Cluster;

impl Groups {
    /// Returns when [`Groups::expire`] has work next.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Handles what is due, for some groups at a time: the rest stays due.
    ///
    /// A group that was handled is due later than `now`, so this ends whatever deadlines the
    /// machines set.
    pub fn expire(&mut self, now: ClockReading, cluster: &dyn Cluster) -> GroupOutcome {
        let mut outcome = GroupOutcome::default();
        self.not_before = Some(now.at + MOMENT);
        for _ in 0..EXPIRED_AT_ONCE_MAX {
            if self.next_deadline().is_none_or(|at| at > now.at) {
                break;
            }
            let Some((_, id)) = self.deadlines.pop_first() else {
                break;
            };
            let Some(group) = self.by_id.get_mut(&id) else {
                continue;
            };
            group.armed = None;
            let effects = group.machine.expire(now);
            let mut told = self.carry(&id, effects);
            told.extend(self.expire_consumers(&id, now, cluster));
            // A group with records to write is vacant only until they are staged.
            if !told.writes_to(&id) {
                self.sweep(&id);
            }
            outcome.extend(told);
        }
        outcome
    }

    /// Gives every member a whole session and every rebalance its whole timeout, after a time
    /// without heartbeats.
    pub fn resume(&mut self, now: ClockReading) {
        let session = self.options.consumer.session_timeout_ms.value;
        for group in self.by_id.values_mut() {
            group.machine.resume(now);
            if let Some(consumer) = &mut group.consumer {
                consumer.put_off(now, session);
            }
        }
    }

    pub(super) fn arm(&mut self, id: &StrBytes) {
        self.weigh(id);
        let Some(group) = self.by_id.get_mut(id) else {
            return;
        };
        let Some(next) = group.next_deadline() else {
            return;
        };
        self.arm_at(id, next);
    }

    pub(super) fn arm_at(&mut self, id: &StrBytes, next: Instant) {
        let Some(group) = self.by_id.get_mut(id) else {
            return;
        };
        let next = self.not_before.map_or(next, |moment| next.max(moment));
        // A deadline that was postponed is noticed when the earlier one passes.
        if group.armed.is_some_and(|armed| armed <= next) {
            return;
        }
        if let Some(armed) = group.armed.replace(next) {
            self.deadlines.remove(&(armed, id.clone()));
        }
        self.deadlines.insert((next, id.clone()));
    }
}
