//! Members with the classic protocol in a consumer group, while its clients move one by one from
//! one protocol to the other.
//!
//! Such a member's join is answered at once, with its epoch as generation; its sync returns its
//! current assignment; its heartbeat asks it to rejoin when there is a new target, when it has to
//! give up partitions, and when partitions that it waits for are free. Its join names the
//! partitions that it owns.

use std::collections::BTreeSet;

use bytes::Bytes;
use wire::messages::{JoinGroupResponse, SyncGroupResponse};
use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use super::decision::millis;
use super::draft::Draft;
use super::member::{ClassicSide, Member, MemberState};
use super::successor::{Successor, assigned_bytes};
use super::timer_change::TimerChange;
use super::{Ask, ConsumerGroup, Decision, GroupRefusal};
use crate::group::assignor::Partitions;
use crate::group::classic::{CONSUMER, ClassicGroup, Join, Limits, Sync};
use crate::group::cluster::Cluster;
use crate::group::embedded::{NamedPartitions, Subscription};

/// A join of a member with the classic protocol.
pub struct ClassicJoin<'a> {
    /// The request.
    pub join: &'a Join,
    /// The member id: that of the request, or a new one.
    pub id: StrBytes,
}

/// The classic group that a consumer group becomes, and whether it rebalances.
type Downgrade = Option<(ClassicGroup, bool)>;

impl ConsumerGroup {
    /// Decides on a join of a member with the classic protocol.
    ///
    /// If it replaces the last member with the new protocol, the group becomes a classic group and
    /// the caller does not append the records.
    pub fn join_classic(
        &self,
        join: &ClassicJoin<'_>,
        ask: Ask<'_>,
        limits: Limits,
    ) -> Result<(Decision<JoinGroupResponse>, Downgrade), GroupRefusal> {
        let ClassicJoin { join, id } = join;
        let mut draft = match &join.instance_id {
            None => Draft::of_dynamic(self, ask, id, true)?,
            Some(instance) => {
                let joins = (join.member_id.is_empty(), true);
                Draft::of_static(self, ask, id, instance, joins)?
            }
        };
        let metadata = join.protocols.first().map(|(_, metadata)| metadata);
        let subscription = metadata.and_then(|metadata| Subscription::decode(metadata));
        let subscription = subscription.ok_or_else(|| {
            let message = "The subscription in the join request cannot be read.";
            GroupRefusal::new(ErrorCode::InconsistentGroupProtocol, message)
        })?;
        let downgrades = self.is_last_of_the_new(&draft, limits);
        let owned = by_id(&subscription.owned, ask.cluster);
        draft.subscribe(with_classic(&draft.before, join, subscription))?;
        let mut downgrade = None;
        if let Some(replaces) = downgrades {
            let rebalances = self.target_epoch() < draft.epoch;
            if !rebalances {
                draft.reconcile(Some(&owned))?;
            }
            let successor = Successor {
                id,
                member: &draft.member,
                replaces: &replaces,
            };
            let around = (ask.now, ask.cluster);
            let machine = self.downgraded(&BTreeSet::new(), Some(&successor), limits, around);
            downgrade = Some((machine, rebalances));
        } else {
            draft.retarget();
            draft.reconcile(Some(&owned))?;
            let session = session(&draft.member, ask);
            let sync_by = ask.now.at + millis(join.rebalance_timeout_ms);
            draft.timer(session);
            draft.timer(TimerChange::SyncBy(sync_by));
        }
        let side = draft.member.classic.as_ref();
        let protocol = side.and_then(|side| side.protocols.first());
        let answer = JoinGroupResponse::default()
            .with_member_id(id.clone())
            .with_generation_id(draft.progress.epoch)
            .with_protocol_type(Some(StrBytes::from_static_str(CONSUMER)))
            .with_protocol_name(protocol.map(|(name, _)| name.clone()));
        Ok((draft.decision.with(answer), downgrade))
    }

    /// Returns the member that the draft replaces, if it is the last one with the new protocol and
    /// the group may become a classic group.
    fn is_last_of_the_new(&self, draft: &Draft<'_>, limits: Limits) -> Option<StrBytes> {
        let replaced = draft.replaced.as_ref()?;
        let speaks_new = self.member(replaced)?.classic.is_none();
        let is_last = self.index.classic + 1 == self.size();
        let may = draft.ask.options.migration.downgrades() && self.size() <= limits.members_max;
        (speaks_new && is_last && may).then(|| replaced.clone())
    }

    /// Returns true when a classic member with these protocols can join the group.
    pub fn supports(&self, kind: &str, protocols: &[(StrBytes, Bytes)]) -> bool {
        if kind != CONSUMER {
            return false;
        }
        let sides = self.members();
        let sides = sides.filter_map(|(_, member)| member.classic.as_ref());
        // Protocols that this member and the members so far offer: each member is compared once.
        let mut common: BTreeSet<&StrBytes> = protocols.iter().map(|(name, _)| name).collect();
        for side in sides {
            let offered = side.protocols.iter().map(|(name, _)| name);
            common = offered.filter(|name| common.contains(name)).collect();
        }
        !common.is_empty()
    }

    /// Decides on a sync: returns the answer and renews the member's session.
    pub fn sync(
        &self,
        sync: &Sync,
        ask: Ask<'_>,
    ) -> Result<Decision<SyncGroupResponse>, ErrorCode> {
        let id = &sync.member_id;
        let (member, side) = self.classic_member(id, sync.instance_id.as_ref())?;
        let progress = self.progress(id);
        if sync.generation != progress.epoch {
            return Err(ErrorCode::IllegalGeneration);
        }
        let protocol = side.protocols.first().map(|(name, _)| name);
        let other_kind = sync
            .protocol_type
            .as_ref()
            .is_some_and(|kind| kind.as_str() != CONSUMER);
        let other_protocol = sync.protocol.is_some() && sync.protocol.as_ref() != protocol;
        if other_kind || other_protocol {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        if self.target_epoch() > progress.epoch && progress.state != MemberState::Unrevoked {
            return Err(ErrorCode::RebalanceInProgress);
        }
        let held = super::heartbeat::without_epochs(&progress.assigned);
        let version = side
            .protocols
            .first()
            .and_then(|(_, metadata)| Subscription::decode(metadata))
            .map_or(0, |subscription| subscription.version);
        let answer = SyncGroupResponse::default()
            .with_protocol_type(sync.protocol_type.clone())
            .with_protocol_name(sync.protocol.clone())
            .with_assignment(assigned_bytes(version, &held, ask.cluster));
        let mut decision = Decision::of(answer);
        decision.timers.push((id.clone(), TimerChange::Synced));
        decision.timers.push((id.clone(), session(member, ask)));
        Ok(decision)
    }

    /// Decides on a classic heartbeat.
    pub fn beat_classic(
        &self,
        id: &StrBytes,
        instance: Option<&StrBytes>,
        generation: i32,
        ask: Ask<'_>,
    ) -> Result<Decision<Result<(), ErrorCode>>, ErrorCode> {
        let (member, _) = self.classic_member(id, instance)?;
        let progress = self.progress(id);
        if generation != progress.epoch {
            return Err(ErrorCode::IllegalGeneration);
        }
        let to_join = progress.epoch < self.target_epoch()
            || progress.state == MemberState::Unrevoked
            || (progress.state == MemberState::Unreleased && !self.waits_for_others(id));
        let mut decision = Decision::of(Ok(()));
        decision.timers.push((id.clone(), session(member, ask)));
        if to_join {
            decision.answer = Err(ErrorCode::RebalanceInProgress);
            let by = ask.now.at + millis(member.rebalance_timeout_ms);
            decision.timers.push((id.clone(), TimerChange::JoinBy(by)));
        }
        Ok(decision)
    }

    fn classic_member(
        &self,
        id: &StrBytes,
        instance: Option<&StrBytes>,
    ) -> Result<(&Member, &ClassicSide), ErrorCode> {
        if let Some(instance) = instance {
            self.check_instance(id, instance)
                .map_err(|refused| refused.code)?;
        }
        let member = self.member(id).ok_or(ErrorCode::UnknownMemberId)?;
        let side = member.classic.as_ref().ok_or(ErrorCode::UnknownMemberId)?;
        Ok((member, side))
    }

    /// Returns true when another member holds a partition of the member's target.
    fn waits_for_others(&self, id: &StrBytes) -> bool {
        let held = &self.progress(id).assigned;
        self.target(id).iter().any(|(topic, partitions)| {
            let held = held.get(topic);
            partitions.iter().any(|partition| {
                !held.is_some_and(|held| held.contains_key(partition))
                    && self.index.holders.contains_key(&(*topic, *partition))
            })
        })
    }
}

/// Returns the member as it is after a classic join.
fn with_classic(before: &Member, join: &Join, subscription: Subscription) -> Member {
    Member {
        instance_id: join.instance_id.clone().or(before.instance_id.clone()),
        rack_id: subscription.rack.or(before.rack_id.clone()),
        client_id: join.client_id.clone(),
        client_host: join.client_host.clone(),
        topics: subscription.topics,
        regex: StrBytes::default(),
        rebalance_timeout_ms: join.rebalance_timeout_ms,
        assignor: before.assignor.clone(),
        classic: Some(ClassicSide {
            session_timeout_ms: join.session_timeout_ms,
            protocols: join.protocols.clone(),
        }),
    }
}

pub(super) fn by_id(named: &NamedPartitions, cluster: &dyn Cluster) -> Partitions {
    let mut all = Partitions::new();
    for (topic, partitions) in named {
        if let Some((id, _)) = cluster.shape(topic) {
            all.entry(id).or_default().extend(partitions);
        }
    }
    all
}

fn session(member: &Member, ask: Ask<'_>) -> TimerChange {
    let own = member.classic.as_ref();
    let timeout = own.map_or(ask.settings.session_timeout, |side| {
        millis(side.session_timeout_ms)
    });
    TimerChange::Session(ask.now.at + timeout)
}
