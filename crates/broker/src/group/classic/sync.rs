//! `SyncGroup`: the leader hands in the assignments; every member gets its own once they are in the
//! log.

use std::collections::BTreeMap;

use bytes::Bytes;
use wire::messages::SyncGroupResponse;
use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use super::join::join_refused;
use super::{AfterAppend, ClassicGroup, ClassicGroupState, Effects, Reply, Store, Token};
use crate::group::ClockReading;

/// A request for an assignment.
#[derive(Clone, Debug)]
pub struct Sync {
    /// The member id.
    pub member_id: StrBytes,
    /// The `group.instance.id` of a static member.
    pub instance_id: Option<StrBytes>,
    /// The generation that the member knows.
    pub generation: i32,
    /// The protocol type that the member expects, if the request names one.
    pub protocol_type: Option<StrBytes>,
    /// The protocol that the member expects, if the request names one.
    pub protocol: Option<StrBytes>,
    /// The leader's assignments by member id.
    // Bounded: lives with one request, `wire::kafka::shape::DECODED_BYTES_MAX`.
    pub assignments: BTreeMap<StrBytes, Bytes>,
}

impl ClassicGroup {
    /// Handles a sync.
    pub fn sync(&mut self, sync: Sync, token: Token, _now: ClockReading) -> Effects {
        let mut effects = Effects::default();
        if let Err(error) = self.check_sync(&sync) {
            effects
                .replies
                .push((token, Reply::Sync(sync_refused(error))));
            return effects;
        }
        let id = sync.member_id;
        self.pending_syncs.remove(&id);
        if self.pending_syncs.is_empty() {
            self.sync_deadline = None;
        }
        let leads = self.leader.as_ref() == Some(&id);
        let Some(member) = self.members.get_mut(&id) else {
            unreachable!("it was checked that it is a member");
        };
        if self.state == ClassicGroupState::Stable {
            let answer = SyncGroupResponse::default()
                .with_protocol_type(self.protocol_type.clone())
                .with_protocol_name(self.protocol.clone())
                .with_assignment(member.assignment.clone());
            effects.replies.push((token, Reply::Sync(answer)));
            return effects;
        }
        if let Some(before) = member.awaiting_sync.replace(token) {
            // The client sent the request again, so it does not wait for this answer.
            let answer = sync_refused(ErrorCode::RebalanceInProgress);
            effects.replies.push((before, Reply::Sync(answer)));
        }
        // Only the first assignment of a generation counts, because it may already be in the log.
        if leads && self.storing.is_none() {
            self.storing = Some(self.generation);
            let metadata = self.metadata(&sync.assignments);
            let then = AfterAppend::Assigned {
                generation: self.generation,
                assignments: sync.assignments,
            };
            effects.stores.push(Store { metadata, then });
        }
        effects
    }

    fn check_sync(&self, sync: &Sync) -> Result<(), ErrorCode> {
        if self.state == ClassicGroupState::Empty {
            return Err(ErrorCode::UnknownMemberId);
        }
        self.check_member(&sync.member_id, sync.instance_id.as_ref())?;
        if sync.generation != self.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        let differs = |theirs: &Option<StrBytes>, ours: &Option<StrBytes>| {
            theirs.is_some() && ours.is_some() && theirs != ours
        };
        if differs(&sync.protocol_type, &self.protocol_type)
            || differs(&sync.protocol, &self.protocol)
        {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        if self.state == ClassicGroupState::PreparingRebalance {
            return Err(ErrorCode::RebalanceInProgress);
        }
        Ok(())
    }

    /// Continues after an append; an error in `outcome` is already the one for clients.
    pub fn stored(
        &mut self,
        then: AfterAppend,
        outcome: Result<(), ErrorCode>,
        now: ClockReading,
    ) -> Effects {
        let mut effects = Effects::default();
        match (then, outcome) {
            (
                AfterAppend::Assigned {
                    generation,
                    assignments,
                },
                outcome,
            ) => {
                if self.state != ClassicGroupState::CompletingRebalance
                    || self.storing != Some(generation)
                {
                    return effects;
                }
                self.storing = None;
                match outcome {
                    Ok(()) => {
                        self.end_syncs(Ok(&assignments), now, &mut effects);
                        self.enter(ClassicGroupState::Stable, now);
                        effects.rebalanced = true;
                    }
                    Err(error) => {
                        self.end_syncs(Err(error), now, &mut effects);
                        self.prepare_rebalance(now, &mut effects);
                    }
                }
            }
            (AfterAppend::Replaced(replacement), outcome) => {
                self.replaced(*replacement, outcome, now, &mut effects);
            }
            // A group that has moved on has written, or will write, a later record than that of its
            // creation.
            (AfterAppend::Created, Err(error)) if self.generation == 0 => {
                return self.abandon(error);
            }
            (AfterAppend::Created | AfterAppend::Emptied, _) => {}
        }
        self.check();
        effects
    }

    /// Answers every waiting request with `error` and resets the group.
    pub fn abandon(&mut self, error: ErrorCode) -> Effects {
        let mut effects = Effects::default();
        for (id, member) in &mut self.members {
            if let Some(token) = member.awaiting_join.take() {
                effects
                    .replies
                    .push((token, Reply::Join(join_refused(id.clone(), error))));
            }
            if let Some(token) = member.awaiting_sync.take() {
                effects
                    .replies
                    .push((token, Reply::Sync(sync_refused(error))));
            }
        }
        *self = Self::new(self.limits);
        effects
    }
}

/// Returns the response to a sync that failed.
pub fn sync_refused(error: ErrorCode) -> SyncGroupResponse {
    SyncGroupResponse::default()
        .with_protocol_type(None)
        .with_protocol_name(None)
        .with_error_code(error.code())
}
