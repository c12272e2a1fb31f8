//! A classic group as the value of its record, and back.
//!
//! A group with members that is read from the log is `Stable`, and each member has a whole session
//! timeout before it expires. The record has a member's metadata for the chosen protocol only.

use std::collections::BTreeMap;

use bytes::Bytes;
use wire::protocol::StrBytes;
use wire::records::offsets::{GroupMetadataValue, MemberMetadata};

use super::{CONSUMER, ClassicGroup, ClassicGroupState, Effects, Limits, Member, Protocols, after};
use crate::group::ClockReading;

impl ClassicGroup {
    pub(super) fn metadata(&self, assignments: &BTreeMap<StrBytes, Bytes>) -> GroupMetadataValue {
        let members = self.members.iter().map(|(id, member)| MemberMetadata {
            member_id: id.to_string(),
            group_instance_id: member.instance_id.as_ref().map(ToString::to_string),
            client_id: member.client_id.to_string(),
            client_host: member.client_host.to_string(),
            rebalance_timeout: member.rebalance_timeout_ms,
            session_timeout: member.session_timeout_ms,
            subscription: self
                .protocol
                .as_ref()
                .map(|p| member.metadata(p))
                .unwrap_or_default(),
            assignment: assignments.get(id).cloned().unwrap_or_default(),
        });
        GroupMetadataValue {
            protocol_type: self.protocol_type().to_string(),
            generation: self.generation,
            protocol: self.protocol.as_ref().map(ToString::to_string),
            leader: self.leader.as_ref().map(ToString::to_string),
            current_state_timestamp: self.state_since_ms.unwrap_or(-1),
            members: members.collect(),
        }
    }

    /// Returns the record's value for a group that was just created.
    pub(super) fn empty_metadata(&self, now: ClockReading) -> GroupMetadataValue {
        GroupMetadataValue {
            generation: 0,
            current_state_timestamp: self.state_since_ms.unwrap_or(now.wall_ms),
            ..GroupMetadataValue::default()
        }
    }

    /// Builds a group from its record.
    pub fn load(limits: Limits, value: &GroupMetadataValue, now: ClockReading) -> Self {
        let mut group = Self::new(limits);
        let text = |text: &String| StrBytes::from_string(text.clone());
        group.generation = value.generation;
        group.protocol_type = Some(text(&value.protocol_type)).filter(|kind| !kind.is_empty());
        group.protocol = value.protocol.as_ref().map(text);
        let since_ms = Some(value.current_state_timestamp).filter(|ms| *ms != -1);
        group.note_state_since(since_ms, now);
        for member in &value.members {
            let id = text(&member.member_id);
            let rebalance = member.rebalance_timeout;
            let instance_id = member.group_instance_id.as_ref().map(text);
            if let Some(instance) = &instance_id {
                group.statics.insert(instance.clone(), id.clone());
            }
            let protocol = group.protocol.clone().unwrap_or_default();
            let loaded = Member {
                instance_id,
                client_id: text(&member.client_id),
                client_host: text(&member.client_host),
                rebalance_timeout_ms: if rebalance == -1 {
                    member.session_timeout
                } else {
                    rebalance
                },
                session_timeout_ms: member.session_timeout,
                protocols: vec![(protocol, Bytes::copy_from_slice(&member.subscription))],
                assignment: Bytes::copy_from_slice(&member.assignment),
                is_new: false,
                awaiting_join: None,
                awaiting_sync: None,
                session_deadline: after(now, member.session_timeout),
            };
            group.enroll(&id, loaded);
        }
        // If the record names a member id twice, the last entry counts.
        let members = &group.members;
        group.statics.retain(|instance, id| {
            let member = members.get(id);
            member.is_some_and(|member| member.instance_id.as_ref() == Some(instance))
        });
        let leader = value.leader.as_ref().map(text);
        group.leader = leader.filter(|leader| group.members.contains_key(leader));
        if group.leader.is_none() {
            group.leader = group.members.keys().next().cloned();
        }
        group.state = if group.members.is_empty() {
            ClassicGroupState::Empty
        } else {
            ClassicGroupState::Stable
        };
        group.previous = group.state;
        group.subscribed = group.subscriptions();
        group.weigh_assignments();
        group
    }

    /// Begins a rebalance if the loaded group has more members than the limit.
    pub fn check_size(&mut self, now: ClockReading) -> Effects {
        let mut effects = Effects::default();
        if self.state == ClassicGroupState::Stable && self.members.len() > self.limits.members_max {
            self.prepare_rebalance(now, &mut effects);
        }
        effects
    }
}

/// A member of a group that is being converted from the consumer protocol.
#[derive(Clone, Debug)]
pub struct ConvertedMember {
    /// Member id.
    pub id: StrBytes,
    /// The `group.instance.id` of a static member.
    pub instance_id: Option<StrBytes>,
    /// Client id.
    pub client_id: StrBytes,
    /// Address, with a leading slash.
    pub client_host: StrBytes,
    /// Rebalance timeout: how long the member may take to rejoin.
    pub rebalance_timeout_ms: i32,
    /// Session timeout.
    pub session_timeout_ms: i32,
    /// The protocols that it offers.
    pub protocols: Protocols,
}

impl ClassicGroup {
    /// Builds a stable classic group from the members of a consumer group.
    ///
    /// `assign` returns a member's assignment, given its metadata for the chosen protocol.
    pub fn converted(
        limits: Limits,
        generation: i32,
        members: impl Iterator<Item = ConvertedMember>,
        assign: impl Fn(&StrBytes, &[u8]) -> Bytes,
        now: ClockReading,
    ) -> Self {
        let mut group = Self::new(limits);
        group.generation = generation;
        group.protocol_type = Some(StrBytes::from_static_str(CONSUMER));
        group.note_state_since(Some(now.wall_ms), now);
        for member in members {
            if let Some(instance) = &member.instance_id {
                group.statics.insert(instance.clone(), member.id.clone());
            }
            let loaded = Member {
                instance_id: member.instance_id,
                client_id: member.client_id,
                client_host: member.client_host,
                rebalance_timeout_ms: member.rebalance_timeout_ms,
                session_timeout_ms: member.session_timeout_ms,
                protocols: member.protocols,
                assignment: Bytes::new(),
                is_new: false,
                awaiting_join: None,
                awaiting_sync: None,
                session_deadline: after(now, member.session_timeout_ms),
            };
            group.enroll(&member.id, loaded);
        }
        group.leader = group.members.keys().next().cloned();
        group.protocol = group.select_protocol();
        let protocol = group.protocol.clone().unwrap_or_default();
        for (id, member) in &mut group.members {
            member.assignment = assign(id, &member.metadata(&protocol));
        }
        if !group.members.is_empty() {
            group.state = ClassicGroupState::Stable;
            group.previous = ClassicGroupState::Stable;
        }
        group.subscribed = group.subscriptions();
        group.weigh_assignments();
        group
    }

    /// Returns the value of the group's record as it is now.
    pub fn value(&self) -> GroupMetadataValue {
        let assignments = self.members.iter();
        let assignments = assignments.map(|(id, member)| (id.clone(), member.assignment.clone()));
        self.metadata(&assignments.collect())
    }

    /// Begins a rebalance: every member has to join again.
    pub fn rebalance(&mut self, now: ClockReading) -> Effects {
        let mut effects = Effects::default();
        self.prepare_rebalance(now, &mut effects);
        effects
    }
}
