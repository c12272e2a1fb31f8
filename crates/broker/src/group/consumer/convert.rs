//! Conversion of a group with members from one protocol to the other.
//!
//! Upgrade: the first member with the new protocol joins a classic group of consumers. The members'
//! assignments become their current and their target assignments; the generation becomes the epoch
//! of the group and of every member. Downgrade: the last member with the new protocol leaves, or a
//! classic member replaces it. The members' targets become their assignments, and the members have
//! to rejoin.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use wire::protocol::StrBytes;
use wire::types::{ErrorCode, Uuid};

use super::classic_side::by_id;
use super::decision::millis;
use super::member::{ClassicSide, Member, MemberState, Progress};
use super::record::{ConsumerRecord, Epoch, TargetEpoch};
use super::successor::{Successor, assigned_bytes};
use super::timer_change::TimerChange;
use super::{Ask, ConsumerGroup, ConsumerOptions, GroupRefusal};
use crate::group::ClockReading;
use crate::group::assignor::Partitions;
use crate::group::classic::{self, ClassicGroup, ConvertedMember, Limits};
use crate::group::cluster::Cluster;
use crate::group::embedded::{ClassicAssignment, Subscription};
use crate::group::metadata_hash;

/// The result of an upgrade.
pub struct Upgrade {
    /// Records to append after the classic group's tombstone.
    pub records: Vec<ConsumerRecord>,
    /// Sessions of the members.
    pub timers: Vec<(StrBytes, TimerChange)>,
}

/// Converts a classic group with members to a consumer group, or refuses.
pub fn upgrade(group: &ClassicGroup, id: &str, ask: Ask<'_>) -> Result<Upgrade, GroupRefusal> {
    let refuse = |why: &str| {
        let message = format!("Classic group {id} cannot become a consumer group: {why}.");
        Err(GroupRefusal::new(ErrorCode::GroupIdNotFound, message))
    };
    if !ask.options.migration.upgrades() {
        return refuse("upgrades are switched off");
    }
    if !group.is_consumer() {
        return refuse("its members are not consumers");
    }
    if group.members().count() > ask.options.members_max {
        return refuse("it has more members than a consumer group may have");
    }
    let mut taken: BTreeSet<(Uuid, i32)> = BTreeSet::new();
    let mut members = BTreeMap::new();
    for (member_id, member) in group.members() {
        let Some(subscription) = Subscription::decode(&offered(group, member)) else {
            return refuse("a member's subscription cannot be read");
        };
        let Some(assigned) = ClassicAssignment::decode(&member.assignment) else {
            return refuse("a member's assignment cannot be read");
        };
        if assigned.has_user_data {
            return refuse("its assignor keeps data of its own, which would be lost");
        }
        let mut held = by_id(&assigned.partitions, ask.cluster);
        for (topic, partitions) in &mut held {
            partitions.retain(|partition| taken.insert((*topic, *partition)));
        }
        held.retain(|_, partitions| !partitions.is_empty());
        let converted = Member {
            instance_id: member.instance_id.clone(),
            rack_id: subscription.rack,
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            topics: subscription.topics,
            rebalance_timeout_ms: member.rebalance_timeout_ms,
            classic: Some(ClassicSide {
                session_timeout_ms: member.session_timeout_ms,
                protocols: member.protocols.clone(),
            }),
            ..Member::default()
        };
        members.insert(member_id.clone(), (converted, held));
    }
    Ok(upgraded(group.generation(), members, ask))
}

fn offered(group: &ClassicGroup, member: &classic::Member) -> Bytes {
    let chosen = group.protocol().map(|protocol| member.metadata(protocol));
    let chosen = chosen.filter(|metadata| !metadata.is_empty());
    let first = || {
        member
            .protocols
            .first()
            .map(|(_, metadata)| metadata.clone())
    };
    chosen.or_else(first).unwrap_or_default()
}

fn upgraded(
    generation: i32,
    members: BTreeMap<StrBytes, (Member, Partitions)>,
    ask: Ask<'_>,
) -> Upgrade {
    let topics: BTreeSet<StrBytes> = members
        .values()
        .flat_map(|(member, _)| member.topics.iter().cloned())
        .collect();
    let epoch = Epoch {
        epoch: generation,
        metadata_hash: metadata_hash::of(&topics, ask.cluster),
    };
    let target = TargetEpoch {
        epoch: generation,
        made_ms: 0,
    };
    let timers = members.iter().map(|(id, (member, _))| {
        let side = member.classic.as_ref();
        let timeout = millis(side.map_or(0, |side| side.session_timeout_ms));
        (id.clone(), TimerChange::Session(ask.now.at + timeout))
    });
    let timers = timers.collect();
    let mut records = Vec::new();
    for (id, (member, _)) in &members {
        records.push(ConsumerRecord::Member(id.clone(), Some(member.clone())));
    }
    records.push(ConsumerRecord::Epoch(Some(epoch)));
    for (id, (_, held)) in &members {
        records.push(ConsumerRecord::Target(id.clone(), Some(held.clone())));
    }
    records.push(ConsumerRecord::TargetEpoch(Some(target)));
    for (id, (_, held)) in members {
        let assigned = held.into_iter().map(|(topic, partitions)| {
            let held = partitions.into_iter().map(|one| (one, generation));
            (topic, held.collect())
        });
        let progress = Progress {
            epoch: generation,
            previous_epoch: generation,
            state: MemberState::Stable,
            assigned: assigned.collect(),
            ..Progress::default()
        };
        records.push(ConsumerRecord::Progress(id, Some(progress)));
    }
    Upgrade { records, timers }
}

impl ConsumerGroup {
    /// Returns true when the group has to be downgraded once the members in `gone` have left.
    pub fn downgrades_without(
        &self,
        gone: &BTreeSet<StrBytes>,
        options: ConsumerOptions,
        limits: Limits,
    ) -> bool {
        let mut stay = self.members().filter(|(id, _)| !gone.contains(*id));
        let count = self.size().saturating_sub(gone.len());
        let leaves_new = gone.iter().any(|id| {
            self.member(id)
                .is_some_and(|member| member.classic.is_none())
        });
        leaves_new
            && count > 0
            && count <= limits.members_max
            && options.migration.downgrades()
            && stay.all(|(_, member)| member.classic.is_some())
    }

    /// Returns the group as a classic group, without the members in `gone`.
    pub fn downgraded(
        &self,
        gone: &BTreeSet<StrBytes>,
        successor: Option<&Successor<'_>>,
        limits: Limits,
        (now, cluster): (ClockReading, &dyn Cluster),
    ) -> ClassicGroup {
        let stay = self
            .members()
            .filter(|(id, _)| !gone.contains(*id))
            .filter(|(id, _)| successor.is_none_or(|one| one.replaces != *id));
        let new = successor.map(|one| (one.id, one.member));
        let members = stay.chain(new).filter_map(|(id, member)| {
            let side = member.classic.as_ref()?;
            let converted = ConvertedMember {
                id: id.clone(),
                instance_id: member.instance_id.clone(),
                client_id: member.client_id.clone(),
                client_host: member.client_host.clone(),
                rebalance_timeout_ms: member.rebalance_timeout_ms,
                session_timeout_ms: side.session_timeout_ms,
                protocols: side.protocols.clone(),
            };
            Some(converted)
        });
        let assign = |id: &StrBytes, metadata: &[u8]| {
            let holder = successor.filter(|one| one.id == id);
            let target = self.target(holder.map_or(id, |one| one.replaces));
            let version = Subscription::decode(metadata).map_or(0, |one| one.version);
            assigned_bytes(version, target, cluster)
        };
        ClassicGroup::converted(limits, self.epoch(), members, assign, now)
    }
}
