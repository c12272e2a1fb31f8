//! Heartbeats, departures and timeouts.

use platform::clock::Instant;
use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use super::{ClassicGroup, ClassicGroupState, Effects, after};
use crate::group::ClockReading;

/// A member that wants to leave.
#[derive(Clone, Debug)]
pub struct Leaver {
    /// Empty when the request names a static member by its instance id alone.
    pub member_id: StrBytes,
    /// The `group.instance.id` of a static member.
    pub instance_id: Option<StrBytes>,
}

/// The result of one departure.
#[derive(Clone, Debug, PartialEq)]
pub struct LeaveResult {
    /// The member id of the request.
    pub member_id: StrBytes,
    /// The instance id of the request.
    pub instance_id: Option<StrBytes>,
    /// Why the member did not leave.
    pub error: Option<ErrorCode>,
}

impl ClassicGroup {
    /// Handles a heartbeat.
    pub fn heartbeat(
        &mut self,
        id: &StrBytes,
        instance: Option<&StrBytes>,
        generation: i32,
        now: ClockReading,
    ) -> Result<(), ErrorCode> {
        self.check_member(id, instance)?;
        if generation != self.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        self.touch(id, now);
        match self.state {
            ClassicGroupState::Empty => Err(ErrorCode::UnknownMemberId),
            ClassicGroupState::PreparingRebalance => Err(ErrorCode::RebalanceInProgress),
            ClassicGroupState::CompletingRebalance | ClassicGroupState::Stable => Ok(()),
        }
    }

    /// Renews a member's session.
    pub fn touch(&mut self, id: &StrBytes, now: ClockReading) {
        if let Some(member) = self.members.get_mut(id) {
            member.session_deadline = after(now, member.session_timeout_ms);
        }
    }

    /// Gives every member a whole session timeout, and a rebalance its whole timeout.
    ///
    /// Called after a time in which the broker could not receive heartbeats.
    pub fn resume(&mut self, now: ClockReading) {
        for member in self.members.values_mut() {
            let whole = after(now, member.session_timeout_ms);
            member.session_deadline = member.session_deadline.max(whole);
        }
        let rebalance = now.at + self.rebalance_timeout();
        if let Some(timer) = &mut self.join_timer {
            timer.at = timer.at.max(rebalance);
        }
        if let Some(deadline) = &mut self.sync_deadline {
            *deadline = rebalance.max(*deadline);
        }
    }

    /// Handles departures.
    pub fn leave(&mut self, leavers: &[Leaver], now: ClockReading) -> (Vec<LeaveResult>, Effects) {
        let mut effects = Effects::default();
        let mut departed = Vec::with_capacity(leavers.len());
        for leaver in leavers {
            let error = self.leave_one(leaver, &mut effects).err();
            departed.push(LeaveResult {
                member_id: leaver.member_id.clone(),
                instance_id: leaver.instance_id.clone(),
                error,
            });
        }
        if departed.iter().any(|one| one.error.is_none()) {
            match self.state {
                ClassicGroupState::Stable | ClassicGroupState::CompletingRebalance => {
                    self.prepare_rebalance(now, &mut effects);
                }
                ClassicGroupState::PreparingRebalance => self.complete_if_joined(now, &mut effects),
                ClassicGroupState::Empty => {}
            }
        }
        self.check();
        (departed, effects)
    }

    fn leave_one(&mut self, leaver: &Leaver, effects: &mut Effects) -> Result<(), ErrorCode> {
        let instance = leaver.instance_id.as_ref();
        if leaver.member_id.is_empty() {
            let holder = instance
                .and_then(|instance| self.statics.get(instance))
                .cloned();
            let holder = holder.ok_or(ErrorCode::UnknownMemberId)?;
            self.remove(&holder, effects);
        } else if self.pending_joins.contains_key(&leaver.member_id) {
            self.remove(&leaver.member_id, effects);
        } else {
            self.check_member(&leaver.member_id, instance)?;
            self.remove(&leaver.member_id, effects);
        }
        Ok(())
    }

    /// Handles everything that is due.
    pub fn expire(&mut self, now: ClockReading) -> Effects {
        let mut effects = Effects::default();
        self.expire_sessions(now, &mut effects);
        if let Some(timer) = self.join_timer.filter(|timer| timer.at <= now.at) {
            self.join_timer = None;
            if self.state == ClassicGroupState::PreparingRebalance {
                self.end_join_phase(timer, now, &mut effects);
            }
        }
        if self
            .sync_deadline
            .is_some_and(|deadline| deadline <= now.at)
        {
            self.sync_deadline = None;
            self.expire_syncs(now, &mut effects);
        }
        self.check();
        effects
    }

    fn expire_sessions(&mut self, now: ClockReading, effects: &mut Effects) {
        let lapsed = self
            .pending_joins
            .iter()
            .filter(|(_, deadline)| **deadline <= now.at);
        let lapsed: Vec<StrBytes> = lapsed.map(|(id, _)| id.clone()).collect();
        let mut silent = Vec::new();
        for (id, member) in &mut self.members {
            if member.session_deadline > now.at {
                continue;
            }
            if member.is_waiting() {
                member.session_deadline = after(now, member.session_timeout_ms);
            } else {
                silent.push(id.clone());
            }
        }
        for id in lapsed.iter().chain(&silent) {
            self.remove(id, effects);
        }
        if silent.is_empty() && lapsed.is_empty() {
            return;
        }
        match self.state {
            ClassicGroupState::Stable | ClassicGroupState::CompletingRebalance
                if !silent.is_empty() =>
            {
                self.prepare_rebalance(now, effects);
            }
            // This also ends an initial rebalance: all expected members have joined, or none is
            // left.
            ClassicGroupState::PreparingRebalance if self.has_all_joined() => {
                self.complete_join(now, effects);
            }
            _ => {}
        }
    }

    fn expire_syncs(&mut self, now: ClockReading, effects: &mut Effects) {
        let begun = matches!(
            self.state,
            ClassicGroupState::CompletingRebalance | ClassicGroupState::Stable
        );
        if !begun || self.pending_syncs.is_empty() {
            return;
        }
        for id in std::mem::take(&mut self.pending_syncs) {
            self.remove(&id, effects);
        }
        self.prepare_rebalance(now, effects);
    }

    /// Returns when [`ClassicGroup::expire`] has work next.
    pub fn next_deadline(&self) -> Option<Instant> {
        let sessions = self.members.values().map(|member| member.session_deadline);
        let pending = self.pending_joins.values().copied();
        let timers = self
            .join_timer
            .map(|timer| timer.at)
            .into_iter()
            .chain(self.sync_deadline);
        sessions.chain(pending).chain(timers).min()
    }
}
