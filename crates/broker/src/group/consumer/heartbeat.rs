//! A heartbeat: the member joins, changes its subscription or confirms its assignment, and gets its
//! new assignment.

use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use super::draft::Draft;
use super::member::{Assignment, JOIN, Member, Progress};
use super::timer_change::TimerChange;
use super::{Ask, ConsumerGroup, Decision, GroupRefusal};
use crate::group::Client;
use crate::group::assignor::Partitions;

/// A heartbeat of a member that does not leave; fields that did not change since the last one are
/// `None`.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    /// The member id.
    pub member_id: StrBytes,
    /// The member's epoch; 0 to join.
    pub epoch: i32,
    /// The `group.instance.id` of a static member.
    pub instance_id: Option<StrBytes>,
    /// The member's rack.
    pub rack_id: Option<StrBytes>,
    /// Rebalance timeout: how long the member may take to give up partitions.
    pub rebalance_timeout_ms: Option<i32>,
    /// Subscribed topic names.
    // Bounded: lives with one request, `wire::kafka::shape::DECODED_BYTES_MAX`.
    pub topics: Option<std::collections::BTreeSet<StrBytes>>,
    /// Subscribed expression.
    pub regex: Option<StrBytes>,
    /// The assignor it asks for.
    pub assignor: Option<StrBytes>,
    /// The partitions that the member owns.
    pub owned: Option<Partitions>,
    /// The client that sent the request.
    pub client: Client,
}

/// The answer to a heartbeat.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HeartbeatAnswer {
    /// The member id.
    pub member_id: StrBytes,
    /// The member's epoch.
    pub epoch: i32,
    /// When the member must send its next heartbeat.
    pub heartbeat_interval_ms: i32,
    /// The current assignment, if it changed or the member asked for all of it.
    pub assignment: Option<Partitions>,
}

impl ConsumerGroup {
    /// Decides on a heartbeat.
    pub fn heartbeat(
        &self,
        beat: &Heartbeat,
        ask: Ask<'_>,
    ) -> Result<Decision<HeartbeatAnswer>, GroupRefusal> {
        let id = &beat.member_id;
        let session = TimerChange::Session(ask.now.at + ask.settings.session_timeout);
        if self.has_nothing_to_say(beat, ask) {
            let mut decision = Decision::of(HeartbeatAnswer {
                member_id: id.clone(),
                epoch: beat.epoch,
                heartbeat_interval_ms: ask.settings.heartbeat_interval_ms,
                assignment: None,
            });
            decision.timers.push((id.clone(), session));
            return Ok(decision);
        }
        self.check_room(id, ask)?;
        let joins = beat.epoch == JOIN;
        let mut draft = match &beat.instance_id {
            None => Draft::of_dynamic(self, ask, id, joins)?,
            Some(instance) => Draft::of_static(self, ask, id, instance, (joins, false))?,
        };
        check_epoch(&draft.progress, beat)?;
        let before = draft.progress.clone();
        let updated = beat.applied_to(&draft.before);
        draft.subscribe(updated)?;
        draft.retarget();
        draft.reconcile(beat.owned.as_ref())?;
        draft.timer(session);
        let after = &draft.progress;
        let asks_for_all = joins || beat.is_full() || before.assigned != after.assigned;
        let answer = HeartbeatAnswer {
            member_id: id.clone(),
            epoch: after.epoch,
            heartbeat_interval_ms: ask.settings.heartbeat_interval_ms,
            assignment: asks_for_all.then(|| without_epochs(&after.assigned)),
        };
        Ok(draft.decision.with(answer))
    }

    /// Checks that a member is in the group, or that there is room for it.
    pub fn check_room(&self, id: &StrBytes, ask: Ask<'_>) -> Result<(), GroupRefusal> {
        let max = ask.options.members_max;
        if self.size() >= max && self.member(id).is_none() {
            let message = format!("The group has {max} members, which is the most it may have.");
            return Err(GroupRefusal::new(ErrorCode::GroupMaxSizeReached, message));
        }
        Ok(())
    }

    /// Returns true in the common case: a member that has reached its target reports that it lives.
    fn has_nothing_to_say(&self, beat: &Heartbeat, ask: Ask<'_>) -> bool {
        let Some(member) = self.member(&beat.member_id) else {
            return false;
        };
        let version = ask.cluster.version();
        let same = |new: &Option<StrBytes>, old: &Option<StrBytes>| new.is_none() || new == old;
        let says_nothing = beat.rebalance_timeout_ms.is_none()
            && beat.topics.is_none()
            && beat.regex.is_none()
            && same(&beat.rack_id, &member.rack_id)
            && same(&beat.assignor, &member.assignor)
            && same(&beat.instance_id, &member.instance_id)
            && beat.client.id == member.client_id
            && beat.client.host == member.client_host
            && member.classic.is_none();
        let nothing_new = self.epoch() == self.target_epoch()
            && self
                .compared
                .is_some_and(|(at, epoch)| at == version && epoch <= self.epoch())
            && (self.index.patterns.is_empty() || self.looked.is_some_and(|(at, _)| at == version))
            && !self.has_unknown_patterns();
        let progress = self.progress(&beat.member_id);
        says_nothing
            && nothing_new
            && beat.epoch == progress.epoch
            && beat.epoch > JOIN
            && progress.is_at(self.target_epoch())
    }
}

impl Heartbeat {
    /// Returns true when the heartbeat has all fields: the member then wants the whole assignment.
    fn is_full(&self) -> bool {
        self.rebalance_timeout_ms.is_some()
            && (self.topics.is_some() || self.regex.is_some())
            && self.owned.is_some()
    }

    fn applied_to(&self, member: &Member) -> Member {
        let newer = |new: &Option<StrBytes>, old: &Option<StrBytes>| new.clone().or(old.clone());
        Member {
            instance_id: newer(&self.instance_id, &member.instance_id),
            rack_id: newer(&self.rack_id, &member.rack_id),
            client_id: self.client.id.clone(),
            client_host: self.client.host.clone(),
            topics: self.topics.clone().unwrap_or_else(|| member.topics.clone()),
            regex: self.regex.clone().unwrap_or_else(|| member.regex.clone()),
            rebalance_timeout_ms: self
                .rebalance_timeout_ms
                .unwrap_or(member.rebalance_timeout_ms),
            assignor: newer(&self.assignor, &member.assignor),
            classic: None,
        }
    }
}

/// Checks the epoch that a member sends.
///
/// It is the current one, or the previous one if an answer was lost and the member owns nothing
/// beyond its current assignment.
fn check_epoch(progress: &Progress, beat: &Heartbeat) -> Result<(), GroupRefusal> {
    let fenced = |relation: &str| {
        let message = format!(
            "The member's epoch {} is {relation} than {}, which the coordinator knows. It must give \
             up its partitions and join again.",
            beat.epoch, progress.epoch
        );
        Err(GroupRefusal::new(ErrorCode::FencedMemberEpoch, message))
    };
    if beat.epoch == JOIN || beat.epoch == progress.epoch {
        return Ok(());
    }
    if beat.epoch > progress.epoch {
        return fenced("greater");
    }
    let owns_no_more = beat.owned.as_ref().is_some_and(|owned| {
        owned.iter().all(|(topic, partitions)| {
            let held = progress.assigned.get(topic);
            partitions
                .iter()
                .all(|one| held.is_some_and(|held| held.contains_key(one)))
        })
    });
    if beat.epoch == progress.previous_epoch && owns_no_more {
        return Ok(());
    }
    fenced("smaller")
}

pub(super) fn without_epochs(assignment: &Assignment) -> Partitions {
    let topics = assignment
        .iter()
        .map(|(topic, held)| (*topic, held.keys().copied().collect()));
    topics.collect()
}
