//! Consumer groups among the groups: routes requests by protocol, and converts groups between the
//! protocols.
//!
//! Invariant: a consumer group and a classic group with the same name never exist at once: one
//! append has the new group's records and the old group's tombstones.

use std::collections::BTreeSet;

use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use super::{Append, GROUPS_MAX, Group, GroupOutcome, Groups, Work};
use crate::group::ClockReading;
use crate::group::classic::{
    ClassicGroup, ClassicGroupState, Join, LeaveResult, Leaver, Reply, Sync, Token, join_refused,
    sync_refused,
};
use crate::group::cluster::Cluster;
use crate::group::consumer::member::JOIN;
use crate::group::consumer::record::ConsumerRecord;
use crate::group::consumer::{
    Ask, ClassicJoin, ConsumerGroup, Decision, GroupRefusal, Heartbeat, HeartbeatAnswer, Job,
    JobResult, Leave, upgrade,
};
use crate::group::records::GroupRecord;

/// Most different expressions in one group: each is compiled and compared with all topics, again
/// when topics change.
const PATTERNS_MAX: usize = 100;

/// Records, the answer to send when they are in the log, and immediate consequences.
pub type GroupDecision<A> = (Vec<GroupRecord>, A, GroupOutcome);

/// Both clocks and the cluster.
type Surroundings<'a> = (ClockReading, &'a dyn Cluster);

impl Groups {
    pub(super) fn is_consumer(&self, id: &StrBytes) -> bool {
        self.existing_group(id)
            .is_some_and(|group| group.consumer().is_some())
    }

    fn ask<'a>(&self, id: &StrBytes, (now, cluster): Surroundings<'a>) -> Ask<'a> {
        let options = self.options.consumer;
        Ask {
            cluster,
            options,
            settings: options.for_group(id, cluster),
            now,
        }
    }

    /// Handles a heartbeat that does not leave.
    ///
    /// The first one creates the group. A classic group without members is replaced, one with
    /// members is upgraded.
    pub fn consumer_heartbeat(
        &mut self,
        id: &StrBytes,
        beat: &Heartbeat,
        around: Surroundings<'_>,
    ) -> Result<GroupDecision<HeartbeatAnswer>, GroupRefusal> {
        let ask = self.ask(id, around);
        self.asked_by(&beat.client.host);
        self.check_beat(id, beat)?;
        let mut outcome = GroupOutcome::default();
        let mut before = Vec::new();
        let mut decision = match self.existing_group(id) {
            Some(group) => match group.consumer() {
                Some(consumer) => consumer.heartbeat(beat, ask)?,
                None if beat.epoch != JOIN => return Err(other_kind(id)),
                None if group.machine.state() == ClassicGroupState::Empty => {
                    before.extend(group.classic_tombstone(id));
                    ConsumerGroup::default().heartbeat(beat, ask)?
                }
                None => {
                    let up = upgrade(&group.machine, id, ask).inspect_err(|refused| {
                        tracing::info!(group = %id, why = refused.message, "no upgrade");
                    })?;
                    let mut taken_over = ConsumerGroup::default();
                    for record in &up.records {
                        taken_over.stage(0, record);
                    }
                    let decision = taken_over.heartbeat(beat, ask)?;
                    before.extend(group.classic_tombstone(id));
                    before.extend(of_group(id, up.records));
                    self.set_timers(id, &up.timers);
                    tracing::info!(group = %id, "a classic group becomes a consumer group");
                    decision
                }
            },
            None if beat.epoch != JOIN => {
                let message = format!("Group {id} not found.");
                return Err(GroupRefusal::new(ErrorCode::GroupIdNotFound, message));
            }
            None if self.by_id.len() >= GROUPS_MAX => {
                let message = "There are too many groups.";
                return Err(GroupRefusal::new(ErrorCode::GroupMaxSizeReached, message));
            }
            None => ConsumerGroup::default().heartbeat(beat, ask)?,
        };
        if let Some(group) = self
            .by_id
            .get_mut(id)
            .filter(|group| group.consumer().is_none())
        {
            let told = group.abandon_machine(ErrorCode::RebalanceInProgress);
            outcome.replies.extend(told);
        }
        before.append(&mut self.note(id, &mut decision));
        Ok((before, decision.answer, outcome))
    }

    /// Checks that there is room for the data in a heartbeat.
    fn check_beat(&self, id: &StrBytes, beat: &Heartbeat) -> Result<(), GroupRefusal> {
        let none = ConsumerGroup::default();
        let known = self.existing_group(id).and_then(Group::consumer);
        let group = known.unwrap_or(&none);
        let growth = self.check_members(id, group.growth(beat));
        growth.map_err(|code| GroupRefusal::new(code, "There is no room for the member."))?;
        let patterns = beat
            .regex
            .as_ref()
            .map_or(0, |regex| group.patterns_with(regex));
        if patterns > PATTERNS_MAX {
            let message = format!(
                "The members of a group may not subscribe by more than {PATTERNS_MAX} expressions."
            );
            return Err(GroupRefusal::new(ErrorCode::GroupMaxSizeReached, message));
        }
        Ok(())
    }

    /// Handles a heartbeat that leaves.
    pub fn consumer_leave(
        &mut self,
        id: &StrBytes,
        leave: &Leave<'_>,
        around: Surroundings<'_>,
    ) -> Result<GroupDecision<HeartbeatAnswer>, GroupRefusal> {
        let (mut decision, gone) = self.consumer_group(id)?.leave(leave)?;
        if gone.is_empty() {
            let records = self.note(id, &mut decision);
            return Ok((records, decision.answer, GroupOutcome::default()));
        }
        let (records, outcome) = self.depart(id, &gone.into_iter().collect(), around);
        Ok((records, decision.answer, outcome))
    }

    /// Returns the consumer group with this name.
    pub fn consumer_group(&self, id: &StrBytes) -> Result<&ConsumerGroup, GroupRefusal> {
        let group = self.existing_group(id).ok_or_else(|| {
            let message = format!("Group {id} not found.");
            GroupRefusal::new(ErrorCode::GroupIdNotFound, message)
        })?;
        group.consumer().ok_or_else(|| other_kind(id))
    }

    pub(super) fn join_consumer_group(
        &mut self,
        id: &StrBytes,
        join: &Join,
        token: Token,
        around: Surroundings<'_>,
    ) -> GroupOutcome {
        let joined = self.joined(id, join, token, around);
        joined.unwrap_or_else(|(member, error)| {
            let answer = Reply::Join(join_refused(member, error));
            GroupOutcome {
                replies: vec![(token, answer)],
                ..GroupOutcome::default()
            }
        })
    }

    fn joined(
        &mut self,
        id: &StrBytes,
        join: &Join,
        token: Token,
        around: Surroundings<'_>,
    ) -> Result<GroupOutcome, (StrBytes, ErrorCode)> {
        // As in Kafka, no refusal names the member, except the one that gives it its id.
        let refused = |refused: GroupRefusal| (StrBytes::default(), refused.code);
        let limits = self.options.classic;
        let ask = self.ask(id, around);
        let group = self.consumer_group(id).map_err(refused)?;
        let is_unknown = join.member_id.is_empty();
        let member_id = if is_unknown {
            &join.fresh_id
        } else {
            &join.member_id
        };
        group.check_room(member_id, ask).map_err(refused)?;
        if group.member(member_id).is_none() {
            let bytes = ClassicGroup::new(limits).growth(join);
            self.check_members(id, bytes)
                .map_err(|error| (StrBytes::default(), error))?;
        }
        if !group.supports(&join.protocol_type, &join.protocols) {
            return Err((StrBytes::default(), ErrorCode::InconsistentGroupProtocol));
        }
        if is_unknown && join.instance_id.is_none() && join.id_required {
            return Err((join.fresh_id.clone(), ErrorCode::MemberIdRequired));
        }
        let join = ClassicJoin {
            join,
            id: member_id.clone(),
        };
        let (mut decision, machine) = group.join_classic(&join, ask, limits).map_err(refused)?;
        let answer = vec![(token, Reply::Join(decision.answer.clone()))];
        let (records, mut outcome) = match machine {
            None => (self.note(id, &mut decision), GroupOutcome::default()),
            Some((machine, rebalances)) => self.downgrade(id, machine, rebalances, around.0),
        };
        let append = Append {
            answers: answer,
            ..Append::of(records)
        };
        outcome.appends.insert(0, append);
        Ok(outcome)
    }

    pub(super) fn sync_consumer_group(
        &mut self,
        id: &StrBytes,
        sync: &Sync,
        token: Token,
        around: Surroundings<'_>,
    ) -> GroupOutcome {
        let ask = self.ask(id, around);
        let group = self.consumer_group(id).map_err(|refused| refused.code);
        match group.and_then(|group| group.sync(sync, ask)) {
            Ok(mut decision) => {
                let records = self.note(id, &mut decision);
                // The answer waits for earlier records in flight, because the assignment may depend
                // on them.
                let append = Append {
                    answers: vec![(token, Reply::Sync(decision.answer))],
                    ..Append::of(records)
                };
                GroupOutcome {
                    appends: vec![append],
                    ..GroupOutcome::default()
                }
            }
            Err(error) => GroupOutcome {
                replies: vec![(token, Reply::Sync(sync_refused(error)))],
                ..GroupOutcome::default()
            },
        }
    }

    pub(super) fn beat_consumer_group(
        &mut self,
        id: &StrBytes,
        (member, instance, generation): (&StrBytes, Option<&StrBytes>, i32),
        around: Surroundings<'_>,
    ) -> Result<(), ErrorCode> {
        let ask = self.ask(id, around);
        let group = self.consumer_group(id).map_err(|refused| refused.code)?;
        let mut decision = group.beat_classic(member, instance, generation, ask)?;
        self.note(id, &mut decision);
        decision.answer
    }

    pub(super) fn leave_consumer_group(
        &mut self,
        id: &StrBytes,
        leavers: &[Leaver],
        around: Surroundings<'_>,
    ) -> (Vec<LeaveResult>, GroupOutcome) {
        let Ok(group) = self.consumer_group(id) else {
            return (Vec::new(), GroupOutcome::default());
        };
        let (departed, gone) = group.departing(leavers);
        let (records, mut outcome) = self.depart(id, &gone, around);
        if !records.is_empty() {
            outcome.appends.insert(0, Append::of(records));
        }
        (departed, outcome)
    }

    /// Removes the members that have timed out.
    pub(super) fn expire_consumers(
        &mut self,
        id: &StrBytes,
        now: ClockReading,
        cluster: &dyn Cluster,
    ) -> GroupOutcome {
        let group = self.by_id.get_mut(id);
        let Some(consumer) = group.and_then(|group| group.consumer.as_mut()) else {
            return GroupOutcome::default();
        };
        let gone: BTreeSet<StrBytes> = consumer.overdue(now.at).into_iter().collect();
        let mut outcome = GroupOutcome::default();
        if !gone.is_empty() && self.is_consumer(id) {
            tracing::info!(group = %id, members = ?gone, "members are given up");
            let (records, told) = self.depart(id, &gone, (now, cluster));
            outcome = told;
            outcome.appends.insert(0, Append::of(records));
        }
        self.arm(id);
        outcome
    }

    /// Removes members; if all others have the classic protocol, the group is downgraded.
    fn depart(
        &mut self,
        id: &StrBytes,
        gone: &BTreeSet<StrBytes>,
        around: Surroundings<'_>,
    ) -> (Vec<GroupRecord>, GroupOutcome) {
        let ask = self.ask(id, around);
        let limits = self.options.classic;
        let Ok(group) = self.consumer_group(id) else {
            return (Vec::new(), GroupOutcome::default());
        };
        if group.downgrades_without(gone, ask.options, limits) {
            let machine = group.downgraded(gone, None, limits, around);
            return self.downgrade(id, machine, true, around.0);
        }
        let mut decision = group.fence(gone, ask);
        (self.note(id, &mut decision), GroupOutcome::default())
    }

    /// Converts the group to the classic protocol.
    fn downgrade(
        &mut self,
        id: &StrBytes,
        machine: ClassicGroup,
        rebalances: bool,
        now: ClockReading,
    ) -> (Vec<GroupRecord>, GroupOutcome) {
        let Some(group) = self.by_id.get_mut(id) else {
            return (Vec::new(), GroupOutcome::default());
        };
        // The consumer group's tombstones go with the classic group's record; otherwise both groups
        // would exist.
        let Some(consumer) = group.consumer.as_ref() else {
            return (Vec::new(), GroupOutcome::default());
        };
        tracing::info!(group = %id, "a consumer group becomes a classic group");
        let mut records = of_group(id, consumer.removal());
        records.push(GroupRecord::Metadata {
            group: id.clone(),
            value: Some(machine.value()),
        });
        group.set_machine(machine);
        if !rebalances {
            self.arm(id);
            return (records, GroupOutcome::default());
        }
        let effects = group.machine.rebalance(now);
        (records, self.carry(id, effects))
    }

    /// Takes in the timers and jobs of a decision; returns its records.
    fn note<A>(&mut self, id: &StrBytes, decision: &mut Decision<A>) -> Vec<GroupRecord> {
        let limits = self.options.classic;
        let group = self.by_id.entry(id.clone());
        let group = group.or_insert_with(|| Group::new(limits).into());
        let consumer = group.consumer.get_or_insert_default();
        let first = consumer.note(decision);
        if let Some(job) = decision.job.take() {
            self.jobs.push(Work {
                group: id.clone(),
                host: self.asker.clone().unwrap_or_default(),
                job,
            });
        }
        if let Some(first) = first {
            self.arm_at(id, first);
        }
        of_group(id, std::mem::take(&mut decision.records))
    }

    /// Returns true while a group waits for the result of this job.
    pub fn awaits(&self, id: &StrBytes, job: &Job) -> bool {
        let group = self.recorded_group(id).and_then(Group::consumer);
        group.is_some_and(|group| group.awaits(job))
    }

    /// Takes in the result of a group's job.
    pub fn take_in(&mut self, id: &StrBytes, done: JobResult) {
        let group = self.by_id.get_mut(id);
        if let Some(consumer) = group.and_then(|group| group.consumer.as_mut()) {
            consumer.take_in(done);
        }
    }

    fn set_timers(
        &mut self,
        id: &StrBytes,
        timers: &[(StrBytes, crate::group::consumer::TimerChange)],
    ) {
        let mut decision = Decision::of(());
        decision.timers = timers.to_vec();
        self.note(id, &mut decision);
    }

    /// Gives the members of a loaded group a session from `now` on.
    pub(super) fn resume_consumers(
        &mut self,
        id: &StrBytes,
        now: ClockReading,
        cluster: &dyn Cluster,
    ) {
        let settings = self.options.consumer.for_group(id, cluster);
        let group = self.by_id.get_mut(id);
        if let Some(consumer) = group.and_then(|group| group.consumer.as_mut()) {
            consumer.reindex();
            consumer.resume(now, settings.session_timeout);
        }
        self.arm(id);
    }

    /// Restores consumer groups after a failed append.
    ///
    /// Members that were to be removed stay for another session. A group that was to change its
    /// protocol keeps it, and requests that wait in the new group are refused.
    pub(super) fn recover_consumers(
        &mut self,
        records: &[GroupRecord],
        error: ErrorCode,
        now: ClockReading,
    ) -> GroupOutcome {
        let timeout = self.options.consumer.session_timeout_ms.value;
        let timeout = std::time::Duration::from_millis(u64::try_from(timeout).unwrap_or(0));
        let mut outcome = GroupOutcome::default();
        let groups: BTreeSet<&StrBytes> = records
            .iter()
            .filter(|record| matches!(record, GroupRecord::Consumer { .. }))
            .map(GroupRecord::group)
            .collect();
        for id in groups {
            let Some(group) = self.by_id.get_mut(id) else {
                continue;
            };
            if group.consumer().is_some() && !group.machine.is_idle() {
                outcome.replies.extend(group.abandon_machine(error));
            }
            if let Some(consumer) = &mut group.consumer {
                consumer.resume(now, timeout);
            }
            self.arm(id);
        }
        outcome
    }
}

impl Group {
    fn classic_tombstone(&self, id: &StrBytes) -> Option<GroupRecord> {
        self.metadata.latest()?;
        Some(GroupRecord::Metadata {
            group: id.clone(),
            value: None,
        })
    }
}

/// Converts records of a consumer group to group records.
pub(in crate::group) fn of_group(id: &StrBytes, records: Vec<ConsumerRecord>) -> Vec<GroupRecord> {
    let records = records.into_iter().map(|record| GroupRecord::Consumer {
        group: id.clone(),
        record,
    });
    records.collect()
}

fn other_kind(id: &StrBytes) -> GroupRefusal {
    let message = format!("Group {id} is not a consumer group.");
    GroupRefusal::new(ErrorCode::GroupIdNotFound, message)
}
