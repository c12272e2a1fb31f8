//! Heartbeats, departures and everything that happens because time passes.

use platform::clock::Instant;
use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use super::{ClassicGroup, Effects, State, after};
use crate::group::Now;

/// Who wants to leave.
#[derive(Clone, Debug)]
pub struct Leaver {
    /// Empty when a static member is meant by its name alone.
    pub member_id: StrBytes,
    /// Name of a static member.
    pub instance_id: Option<StrBytes>,
}

/// Who left, or why not.
#[derive(Clone, Debug, PartialEq)]
pub struct Departed {
    /// As asked.
    pub member_id: StrBytes,
    /// As asked.
    pub instance_id: Option<StrBytes>,
    /// Why not.
    pub error: Option<ErrorCode>,
}

impl ClassicGroup {
    /// Handles a heartbeat.
    pub fn heartbeat(
        &mut self,
        id: &StrBytes,
        instance: Option<&StrBytes>,
        generation: i32,
        now: Now,
    ) -> Result<(), ErrorCode> {
        self.check_member(id, instance)?;
        if generation != self.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        self.touch(id, now);
        match self.state {
            State::Empty => Err(ErrorCode::UnknownMemberId),
            State::PreparingRebalance => Err(ErrorCode::RebalanceInProgress),
            State::CompletingRebalance | State::Stable => Ok(()),
        }
    }

    /// A member showed that it lives.
    pub fn touch(&mut self, id: &StrBytes, now: Now) {
        if let Some(member) = self.members.get_mut(id) {
            member.session_deadline = after(now, member.session_timeout_ms);
        }
    }

    /// Nobody could be heard until now: everybody has a whole session, and a rebalance its time.
    pub fn resume(&mut self, now: Now) {
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
    pub fn leave(&mut self, leavers: &[Leaver], now: Now) -> (Vec<Departed>, Effects) {
        let mut effects = Effects::default();
        let mut departed = Vec::with_capacity(leavers.len());
        for leaver in leavers {
            let error = self.leave_one(leaver, &mut effects).err();
            departed.push(Departed {
                member_id: leaver.member_id.clone(),
                instance_id: leaver.instance_id.clone(),
                error,
            });
        }
        if departed.iter().any(|one| one.error.is_none()) {
            match self.state {
                State::Stable | State::CompletingRebalance => {
                    self.prepare_rebalance(now, &mut effects);
                }
                State::PreparingRebalance => self.complete_if_joined(now, &mut effects),
                State::Empty => {}
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

    /// Does what is due.
    pub fn expire(&mut self, now: Now) -> Effects {
        let mut effects = Effects::default();
        self.expire_sessions(now, &mut effects);
        if let Some(timer) = self.join_timer.filter(|timer| timer.at <= now.at) {
            self.join_timer = None;
            if self.state == State::PreparingRebalance {
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

    fn expire_sessions(&mut self, now: Now, effects: &mut Effects) {
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
            State::Stable | State::CompletingRebalance if !silent.is_empty() => {
                self.prepare_rebalance(now, effects);
            }
            // Also in the initial rebalance: everybody who was expected is here, or nobody is left.
            State::PreparingRebalance if self.has_all_joined() => self.complete_join(now, effects),
            _ => {}
        }
    }

    fn expire_syncs(&mut self, now: Now, effects: &mut Effects) {
        let begun = matches!(self.state, State::CompletingRebalance | State::Stable);
        if !begun || self.pending_syncs.is_empty() {
            return;
        }
        for id in std::mem::take(&mut self.pending_syncs) {
            self.remove(&id, effects);
        }
        self.prepare_rebalance(now, effects);
    }

    /// When [`ClassicGroup::expire`] has something to do next.
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
