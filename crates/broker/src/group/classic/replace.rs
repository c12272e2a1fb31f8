//! A static member rejoins with a new member id: it takes the place of the old id, which is fenced.
//!
//! In a stable group whose protocol stays the same, no other member notices: the group is written
//! with the new id, and the join is answered when the record is in the log. If the append fails,
//! the old id is restored.

use bytes::Bytes;
use wire::messages::JoinGroupResponse;
use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use super::{
    AfterAppend, ClassicGroup, ClassicGroupState, Effects, Join, Member, Reply, Store, Token, after,
};
use crate::group::ClockReading;

/// What is needed to complete a replacement, or to undo it if the append fails.
#[derive(Clone, Debug)]
pub struct Replacement {
    old_id: StrBytes,
    new_id: StrBytes,
    /// The member before the replacement.
    old: Member,
    /// The leader before the replacement.
    leader: Option<StrBytes>,
    can_skip_assignment: bool,
}

impl ClassicGroup {
    pub(super) fn replace_static(
        &mut self,
        old_id: &StrBytes,
        join: &Join,
        token: Token,
        now: ClockReading,
        effects: &mut Effects,
    ) {
        let leader = self.leader.clone();
        let new_id = join.fresh_id.clone();
        let Some(old) = self.rename(old_id, &new_id, now, effects) else {
            self.statics.retain(|_, id| id != old_id);
            return effects.refuse_join(token, new_id, ErrorCode::UnknownMemberId);
        };
        self.update(&new_id, join, Some(token), effects);
        match self.state {
            ClassicGroupState::Stable if self.protocol == self.select_protocol() => {
                let assignments = self.members.iter();
                let assignments =
                    assignments.map(|(id, member)| (id.clone(), member.assignment.clone()));
                let metadata = self.metadata(&assignments.collect());
                let can_skip_assignment = join.can_skip_assignment;
                let then = Replacement {
                    old_id: old_id.clone(),
                    new_id,
                    old,
                    leader,
                    can_skip_assignment,
                };
                effects.stores.push(Store {
                    metadata,
                    then: AfterAppend::Replaced(Box::new(then)),
                });
            }
            ClassicGroupState::Stable | ClassicGroupState::CompletingRebalance => {
                self.prepare_rebalance(now, effects);
            }
            ClassicGroupState::Empty | ClassicGroupState::PreparingRebalance => {
                self.complete_if_joined(now, effects);
            }
        }
    }

    /// Gives a static member another id and fences requests that wait under the old id.
    ///
    /// Returns the member as it was.
    fn rename(
        &mut self,
        old_id: &StrBytes,
        new_id: &StrBytes,
        now: ClockReading,
        effects: &mut Effects,
    ) -> Option<Member> {
        let mut member = self.strike(old_id)?;
        if let Some(token) = member.awaiting_join.take() {
            effects.refuse_join(token, old_id.clone(), ErrorCode::FencedInstanceId);
        }
        if let Some(token) = member.awaiting_sync.take() {
            let answer = super::sync::sync_refused(ErrorCode::FencedInstanceId);
            effects.replies.push((token, Reply::Sync(answer)));
        }
        let old = member.clone();
        member.session_deadline = after(now, member.session_timeout_ms);
        member.is_new = false;
        if let Some(instance) = &member.instance_id {
            self.statics.insert(instance.clone(), new_id.clone());
        }
        if self.pending_syncs.remove(old_id) {
            self.pending_syncs.insert(new_id.clone());
        }
        if self.leader.as_ref() == Some(old_id) {
            self.leader = Some(new_id.clone());
        }
        self.enroll(new_id, member);
        Some(old)
    }

    /// Completes a replacement after its append, or undoes it.
    pub(super) fn replaced(
        &mut self,
        replacement: Replacement,
        outcome: Result<(), ErrorCode>,
        now: ClockReading,
        effects: &mut Effects,
    ) {
        let Replacement {
            old_id,
            new_id,
            old,
            leader,
            can_skip_assignment,
        } = replacement;
        if self.state != ClassicGroupState::Stable {
            // A rebalance has begun meanwhile: it answers the join and writes the group again.
            return;
        }
        let Some(member) = self.members.get_mut(&new_id) else {
            return;
        };
        let token = member.awaiting_join.take();
        match outcome {
            Ok(()) => {
                let Some(token) = token else { return };
                let leads = self.leader.as_ref() == Some(&new_id);
                let mut answer = self.joined(&new_id);
                if can_skip_assignment {
                    answer.skip_assignment = leads;
                } else {
                    // With the leader's old id in the answer, the member does not take itself for
                    // the leader and does not compute a new assignment.
                    answer.members.clear();
                    answer.leader = leader.unwrap_or_default();
                }
                effects.replies.push((token, Reply::Join(answer)));
            }
            Err(error) => {
                if let Some(token) = token {
                    let answer = JoinGroupResponse::default()
                        .with_generation_id(self.generation)
                        .with_protocol_type(self.protocol_type.clone())
                        .with_protocol_name(self.protocol.clone())
                        .with_leader(leader.unwrap_or_default())
                        .with_error_code(error.code());
                    effects.replies.push((token, Reply::Join(answer)));
                }
                self.restore(&old_id, &new_id, old, now, effects);
            }
        }
    }

    fn restore(
        &mut self,
        old_id: &StrBytes,
        new_id: &StrBytes,
        old: Member,
        now: ClockReading,
        effects: &mut Effects,
    ) {
        if self.rename(new_id, old_id, now, effects).is_none() {
            return;
        }
        self.reoffer(old_id, &old.protocols);
        if let Some(member) = self.members.get_mut(old_id) {
            let assignment: Bytes = std::mem::take(&mut member.assignment);
            let session_deadline = after(now, old.session_timeout_ms);
            *member = Member {
                assignment,
                session_deadline,
                is_new: false,
                ..old
            };
        }
    }
}
