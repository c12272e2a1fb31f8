//! Rebalances: how they begin, when the join phase ends, and what the next generation is.
//!
//! A first rebalance waits for `initial_rebalance_delay`, and again as long as members keep
//! joining, up to the longest rebalance timeout. Later ones end when every member has joined, or at
//! the longest rebalance timeout without the missing members (static members stay, joined or not).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use platform::clock::Instant;
use wire::messages::SyncGroupResponse;
use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use super::{
    ABSENCE_MIN, AfterAppend, CONSUMER, ClassicGroup, ClassicGroupState, Effects, Reply, Store,
    after,
};
use crate::group::{ClockReading, subscription};

/// When the join phase is checked next.
#[derive(Clone, Copy, Debug)]
pub(super) struct JoinTimer {
    pub(super) at: Instant,
    pub(super) phase: JoinPhase,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum JoinPhase {
    /// The first rebalance of an empty group; it may be extended.
    Initial {
        delay: Duration,
        remaining: Duration,
    },
    /// Any other rebalance; it ends when the timer fires.
    Final,
}

impl ClassicGroup {
    pub(super) fn rebalance_or_complete(&mut self, now: ClockReading, effects: &mut Effects) {
        if self.state == ClassicGroupState::PreparingRebalance {
            self.complete_if_joined(now, effects);
        } else {
            self.prepare_rebalance(now, effects);
        }
    }

    /// Ends a join phase that waits for no member.
    ///
    /// Only the timer ends an initial join phase.
    pub(super) fn complete_if_joined(&mut self, now: ClockReading, effects: &mut Effects) {
        let preparing = self.state == ClassicGroupState::PreparingRebalance;
        if preparing && self.previous != ClassicGroupState::Empty && self.has_all_joined() {
            self.complete_join(now, effects);
        }
    }

    pub(super) fn prepare_rebalance(&mut self, now: ClockReading, effects: &mut Effects) {
        if self.state == ClassicGroupState::CompletingRebalance {
            self.end_syncs(Err(ErrorCode::RebalanceInProgress), now, effects);
        }
        self.storing = None;
        self.pending_syncs.clear();
        self.sync_deadline = None;
        let initial = self.state == ClassicGroupState::Empty;
        self.enter(ClassicGroupState::PreparingRebalance, now);
        if initial {
            let delay = self.limits.initial_rebalance_delay;
            let longest = self.rebalance_timeout();
            let remaining = longest.saturating_sub(delay);
            self.joined_meanwhile = false;
            let phase = JoinPhase::Initial { delay, remaining };
            self.join_timer = Some(JoinTimer {
                at: now.at + delay,
                phase,
            });
        } else if self.has_all_joined() {
            self.complete_join(now, effects);
        } else {
            self.wait_for_joins_until(now.at + self.rebalance_timeout());
        }
    }

    /// Handles the join timer: extends an initial join phase or ends the join phase.
    pub(super) fn end_join_phase(
        &mut self,
        timer: JoinTimer,
        now: ClockReading,
        effects: &mut Effects,
    ) {
        match timer.phase {
            JoinPhase::Initial { delay, remaining }
                if self.joined_meanwhile && !self.initial_delay(remaining).is_zero() =>
            {
                self.joined_meanwhile = false;
                let next = self.initial_delay(remaining);
                let phase = JoinPhase::Initial {
                    delay: next,
                    remaining: remaining.saturating_sub(delay),
                };
                self.join_timer = Some(JoinTimer {
                    at: now.at + next,
                    phase,
                });
            }
            _ => self.complete_join(now, effects),
        }
    }

    pub(super) fn complete_join(&mut self, now: ClockReading, effects: &mut Effects) {
        self.join_timer = None;
        let late = self
            .members
            .iter()
            .filter(|(_, member)| member.awaiting_join.is_none() && member.instance_id.is_none());
        let late: Vec<StrBytes> = late.map(|(id, _)| id.clone()).collect();
        for id in &late {
            self.remove(id, effects);
        }
        if !self.members.is_empty() && !self.elect_joined_leader() {
            // Only static members are left and none of them has joined: the group waits for them.
            self.wait_for_joins_until(now.at + self.rebalance_timeout().max(ABSENCE_MIN));
            return;
        }
        self.generation = self.generation.wrapping_add(1).max(0);
        self.protocol = self.select_protocol();
        self.subscribed = self.subscriptions();
        self.pending_syncs.clear();
        if self.members.is_empty() {
            self.leader = None;
            self.enter(ClassicGroupState::Empty, now);
            let metadata = self.metadata(&BTreeMap::new());
            effects.stores.push(Store {
                metadata,
                then: AfterAppend::Emptied,
            });
        } else {
            self.enter(ClassicGroupState::CompletingRebalance, now);
            self.begin_generation(now, effects);
        }
    }

    fn begin_generation(&mut self, now: ClockReading, effects: &mut Effects) {
        let ids: Vec<StrBytes> = self.members.keys().cloned().collect();
        for id in ids {
            let answer = self.joined(&id);
            let Some(member) = self.members.get_mut(&id) else {
                unreachable!("these are the ids of members");
            };
            member.is_new = false;
            member.session_deadline = after(now, member.session_timeout_ms);
            if let Some(token) = member.awaiting_join.take() {
                effects.replies.push((token, Reply::Join(answer)));
            }
            self.pending_syncs.insert(id);
        }
        assert_eq!(
            self.pending_syncs.len(),
            self.members.len(),
            "a generation begins with a sync of each member"
        );
        self.sync_deadline = Some(now.at + self.rebalance_timeout());
    }

    /// Answers every waiting sync with the member's assignment, or with an error, which clears the
    /// assignments.
    pub(super) fn end_syncs(
        &mut self,
        outcome: Result<&BTreeMap<StrBytes, Bytes>, ErrorCode>,
        now: ClockReading,
        effects: &mut Effects,
    ) {
        for (id, member) in &mut self.members {
            let assignment = outcome.ok().and_then(|assignments| assignments.get(id));
            member.assignment = assignment.cloned().unwrap_or_default();
            let Some(token) = member.awaiting_sync.take() else {
                continue;
            };
            member.session_deadline = after(now, member.session_timeout_ms);
            let answer = match outcome {
                Ok(_) => SyncGroupResponse::default()
                    .with_protocol_type(self.protocol_type.clone())
                    .with_protocol_name(self.protocol.clone())
                    .with_assignment(member.assignment.clone()),
                Err(error) => super::sync::sync_refused(error),
            };
            effects.replies.push((token, Reply::Sync(answer)));
        }
        self.weigh_assignments();
    }

    /// Returns the next wait of an initial join phase, at most the time that remains.
    fn initial_delay(&self, remaining: Duration) -> Duration {
        self.limits.initial_rebalance_delay.min(remaining)
    }

    fn wait_for_joins_until(&mut self, at: Instant) {
        self.join_timer = Some(JoinTimer {
            at,
            phase: JoinPhase::Final,
        });
    }

    pub(super) fn has_all_joined(&self) -> bool {
        self.joins_waiting() == self.members.len() && self.pending_joins.is_empty()
    }

    /// Returns the longest rebalance timeout of the members, and at least one millisecond.
    ///
    /// Clients and records may name any number.
    pub(super) fn rebalance_timeout(&self) -> Duration {
        let longest = self
            .members
            .values()
            .map(|member| member.rebalance_timeout_ms)
            .max();
        Duration::from_millis(u64::try_from(longest.unwrap_or(0)).unwrap_or(0).max(1))
    }

    /// Ensures that the leader has joined; returns false when no member has.
    fn elect_joined_leader(&mut self) -> bool {
        let joined = |id: &StrBytes| {
            self.members
                .get(id)
                .is_some_and(|m| m.awaiting_join.is_some())
        };
        if self.leader.as_ref().is_some_and(joined) {
            return true;
        }
        let first = self
            .members
            .iter()
            .find(|(_, member)| member.awaiting_join.is_some());
        let first = first.map(|(id, _)| id.clone());
        if first.is_some() {
            self.leader.clone_from(&first);
        }
        first.is_some()
    }

    /// Returns the protocol with the most votes among those that all members offer; of several, the
    /// first by name.
    pub(super) fn select_protocol(&self) -> Option<StrBytes> {
        let candidates = self.offered.keys();
        let candidates = candidates.filter(|name| self.is_offered_by_all(name));
        let candidates: BTreeSet<&StrBytes> = candidates.collect();
        let mut votes: BTreeMap<StrBytes, usize> = BTreeMap::new();
        for vote in self
            .members
            .values()
            .filter_map(|member| member.vote(&candidates))
        {
            *votes.entry(vote).or_default() += 1;
        }
        let most = votes.values().copied().max()?;
        votes
            .into_iter()
            .find(|(_, count)| *count == most)
            .map(|(name, _)| name)
    }

    pub(super) fn subscriptions(&self) -> Option<BTreeSet<String>> {
        if self.protocol_type.as_ref()?.as_str() != CONSUMER {
            return None;
        }
        if self.members.is_empty() {
            return Some(BTreeSet::new());
        }
        let protocol = self.protocol.as_ref()?;
        let members = self.members.values();
        let offered: Vec<_> = members.map(|member| member.metadata(protocol)).collect();
        subscription::of_all(offered.iter().map(|metadata| &metadata[..]))
    }

    /// Removes a member, or a member id that was handed out, and refuses its waiting requests.
    pub(super) fn remove(&mut self, id: &StrBytes, effects: &mut Effects) {
        if let Some(member) = self.strike(id) {
            if let Some(token) = member.awaiting_join {
                effects.refuse_join(token, StrBytes::default(), ErrorCode::UnknownMemberId);
            }
            if let Some(token) = member.awaiting_sync {
                let answer = super::sync::sync_refused(ErrorCode::UnknownMemberId);
                effects.replies.push((token, Reply::Sync(answer)));
            }
            if let Some(instance) = member.instance_id {
                self.statics.remove(&instance);
            }
        }
        if self.leader.as_ref() == Some(id) {
            self.leader = self.members.keys().next().cloned();
        }
        self.stop_awaiting(id);
        self.pending_syncs.remove(id);
    }
}
