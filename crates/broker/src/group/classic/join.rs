//! `JoinGroup`: a member joins, rejoins with its id, or changes the protocols that it offers.
//!
//! Order of the checks: room for the member, protocol, then the kind of member (new, static, one
//! whose id was handed out, known).

use bytes::Bytes;
use wire::messages::JoinGroupResponse;
use wire::messages::join_group_response::JoinGroupResponseMember;
use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use super::{
    AfterAppend, ClassicGroup, ClassicGroupState, Effects, Member, NEW_MEMBER_TIMEOUT,
    PENDING_MEMBERS_MAX, Protocols, Reply, Store, Token, after,
};
use crate::group::ClockReading;

/// A request to join.
#[derive(Clone, Debug)]
pub struct Join {
    /// Empty for a member without an id.
    pub member_id: StrBytes,
    /// The `group.instance.id` of a static member.
    pub instance_id: Option<StrBytes>,
    /// Client id.
    pub client_id: StrBytes,
    /// Address, with a leading slash.
    pub client_host: StrBytes,
    /// Session timeout.
    pub session_timeout_ms: i32,
    /// Rebalance timeout: how long the member may take to rejoin.
    pub rebalance_timeout_ms: i32,
    /// Protocol type.
    pub protocol_type: StrBytes,
    /// The protocols that the member offers.
    pub protocols: Protocols,
    /// The id that the member gets if it needs one; unique.
    pub fresh_id: StrBytes,
    /// The client rejoins with the id that it is given before it becomes a member (version 4).
    pub id_required: bool,
    /// The client supports a leader that need not compute the assignment (version 9).
    pub can_skip_assignment: bool,
}

impl ClassicGroup {
    /// Handles a join; `is_new` means that the group is not in the log yet.
    pub fn join(&mut self, join: Join, is_new: bool, token: Token, now: ClockReading) -> Effects {
        let mut effects = Effects::default();
        let id = join.member_id.clone();
        if !self.has_room_for(&id) {
            effects.refuse_join(token, StrBytes::default(), ErrorCode::GroupMaxSizeReached);
            self.remove(&id, &mut effects);
            self.complete_if_joined(now, &mut effects);
        } else if !self.supports(&join.protocol_type, &join.protocols) {
            effects.refuse_join(token, id, ErrorCode::InconsistentGroupProtocol);
        } else if !id.is_empty() {
            self.join_known(join, token, now, &mut effects);
        } else if join.instance_id.is_some() {
            self.join_static(join, token, now, &mut effects);
        } else if !join.id_required {
            let id = join.fresh_id.clone();
            self.add(&id, join, token, now, &mut effects);
        } else if self.pending_joins.len() >= PENDING_MEMBERS_MAX {
            effects.refuse_join(token, StrBytes::default(), ErrorCode::GroupMaxSizeReached);
        } else {
            self.await_joiner(join.fresh_id.clone(), after(now, join.session_timeout_ms));
            effects.refuse_join(token, join.fresh_id, ErrorCode::MemberIdRequired);
        }
        if is_new && effects.stores.is_empty() {
            effects.stores.push(Store {
                metadata: self.empty_metadata(now),
                then: AfterAppend::Created,
            });
        }
        self.check();
        effects
    }

    fn join_static(&mut self, join: Join, token: Token, now: ClockReading, effects: &mut Effects) {
        let holder = join
            .instance_id
            .as_ref()
            .and_then(|instance| self.statics.get(instance));
        if let Some(old) = holder.cloned() {
            return self.replace_static(&old, &join, token, now, effects);
        }
        let id = join.fresh_id.clone();
        self.add(&id, join, token, now, effects);
    }

    fn join_known(&mut self, join: Join, token: Token, now: ClockReading, effects: &mut Effects) {
        let id = join.member_id.clone();
        if self.pending_joins.contains_key(&id) && join.instance_id.is_none() {
            return self.add(&id, join, token, now, effects);
        }
        if let Err(error) = self.check_member(&id, join.instance_id.as_ref()) {
            return effects.refuse_join(token, id, error);
        }
        let same = self
            .members
            .get(&id)
            .is_some_and(|member| member.protocols == join.protocols);
        let leads = self.leader.as_ref() == Some(&id);
        match self.state {
            // The answer was lost, or a follower rejoins without need: the current generation is
            // the answer.
            ClassicGroupState::CompletingRebalance if same => {
                effects.replies.push((token, Reply::Join(self.joined(&id))));
            }
            ClassicGroupState::Stable if same && !leads => {
                effects.replies.push((token, Reply::Join(self.joined(&id))));
            }
            ClassicGroupState::Empty => effects.refuse_join(token, id, ErrorCode::UnknownMemberId),
            _ => {
                self.update(&id, &join, Some(token), effects);
                self.rebalance_or_complete(now, effects);
            }
        }
    }

    fn add(
        &mut self,
        id: &StrBytes,
        join: Join,
        token: Token,
        now: ClockReading,
        effects: &mut Effects,
    ) {
        if self.state == ClassicGroupState::PreparingRebalance
            && self.previous == ClassicGroupState::Empty
        {
            self.joined_meanwhile = true;
        }
        if let Some(instance) = &join.instance_id {
            self.statics.insert(instance.clone(), id.clone());
        }
        if self.members.is_empty() {
            self.protocol_type = Some(join.protocol_type);
        }
        self.stop_awaiting(id);
        self.leader.get_or_insert_with(|| id.clone());
        let member = Member {
            instance_id: join.instance_id,
            client_id: join.client_id,
            client_host: join.client_host,
            rebalance_timeout_ms: join.rebalance_timeout_ms,
            session_timeout_ms: join.session_timeout_ms,
            protocols: join.protocols,
            assignment: Bytes::new(),
            is_new: true,
            awaiting_join: Some(token),
            awaiting_sync: None,
            session_deadline: now.at + NEW_MEMBER_TIMEOUT,
        };
        self.enroll(id, member);
        self.rebalance_or_complete(now, effects);
    }

    /// Replaces what a member offers.
    ///
    /// An earlier join of the member is refused: the client no longer waits for its answer.
    pub(super) fn update(
        &mut self,
        id: &StrBytes,
        join: &Join,
        token: Option<Token>,
        effects: &mut Effects,
    ) {
        self.reoffer(id, &join.protocols);
        let Some(member) = self.members.get_mut(id) else {
            return;
        };
        member.rebalance_timeout_ms = join.rebalance_timeout_ms;
        member.session_timeout_ms = join.session_timeout_ms;
        if let Some(before) = std::mem::replace(&mut member.awaiting_join, token) {
            effects.refuse_join(before, id.clone(), ErrorCode::RebalanceInProgress);
        }
    }

    /// Returns the `JoinGroup` response for the current generation; the leader also gets the
    /// members.
    pub(super) fn joined(&self, id: &StrBytes) -> JoinGroupResponse {
        let leads = self.leader.as_ref() == Some(id);
        let members = if leads { self.membership() } else { Vec::new() };
        JoinGroupResponse::default()
            .with_member_id(id.clone())
            .with_generation_id(self.generation)
            .with_protocol_type(self.protocol_type.clone())
            .with_protocol_name(self.protocol.clone())
            .with_leader(self.leader.clone().unwrap_or_default())
            .with_members(members)
    }

    fn membership(&self) -> Vec<JoinGroupResponseMember> {
        let members = self.members.iter().map(|(id, member)| {
            let metadata = self
                .protocol
                .as_ref()
                .map(|protocol| member.metadata(protocol));
            JoinGroupResponseMember::default()
                .with_member_id(id.clone())
                .with_group_instance_id(member.instance_id.clone())
                .with_metadata(metadata.unwrap_or_default())
        });
        members.collect()
    }

    fn has_room_for(&self, id: &StrBytes) -> bool {
        let max = self.limits.members_max;
        let member = self.members.get(id);
        match self.state {
            ClassicGroupState::Empty => true,
            ClassicGroupState::PreparingRebalance => {
                member.is_some_and(|member| member.awaiting_join.is_some())
                    || self.joins_waiting() < max
            }
            ClassicGroupState::CompletingRebalance | ClassicGroupState::Stable => {
                member.is_some() || self.members.len() < max
            }
        }
    }

    fn supports(&self, protocol_type: &StrBytes, protocols: &Protocols) -> bool {
        if self.state == ClassicGroupState::Empty {
            return !protocol_type.is_empty() && !protocols.is_empty();
        }
        self.protocol_type.as_ref() == Some(protocol_type)
            && protocols
                .iter()
                .any(|(name, _)| self.is_offered_by_all(name))
    }

    pub(super) fn joins_waiting(&self) -> usize {
        self.members
            .values()
            .filter(|member| member.awaiting_join.is_some())
            .count()
    }
}

impl Effects {
    pub(super) fn refuse_join(&mut self, token: Token, member_id: StrBytes, error: ErrorCode) {
        self.replies
            .push((token, Reply::Join(join_refused(member_id, error))));
    }
}

/// Returns the response to a join that failed.
pub fn join_refused(member_id: StrBytes, error: ErrorCode) -> JoinGroupResponse {
    JoinGroupResponse::default()
        .with_member_id(member_id)
        .with_generation_id(-1)
        .with_protocol_type(None)
        .with_protocol_name(None)
        .with_error_code(error.code())
}
