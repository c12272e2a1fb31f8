//! Departures of members: by their own request, by a tool's request, or after a timeout.

use std::collections::BTreeSet;

use wire::protocol::StrBytes;

use super::draft::removal;
use super::heartbeat::HeartbeatAnswer;
use super::member::{Assignment, LEAVE_STATIC, Progress};
use super::record::{ConsumerRecord, Epoch};
use super::timer_change::TimerChange;
use super::{Ask, ConsumerGroup, Decision, GroupRefusal};
use crate::group::classic::{LeaveResult, Leaver};
use crate::group::metadata_hash;

/// A request of a member to leave.
pub struct Leave<'a> {
    /// The member id.
    pub member_id: &'a StrBytes,
    /// The `group.instance.id` of a static member.
    pub instance_id: Option<&'a StrBytes>,
    /// -1, or -2 for a static member that will rejoin.
    pub epoch: i32,
}

impl ConsumerGroup {
    /// Decides on a departure; returns the members to remove, if any.
    pub fn leave(
        &self,
        leave: &Leave<'_>,
    ) -> Result<(Decision<HeartbeatAnswer>, Vec<StrBytes>), GroupRefusal> {
        let id = leave.member_id;
        match leave.instance_id {
            None if self.member(id).is_none() => return Err(GroupRefusal::unknown_member(id)),
            None => {}
            Some(instance) => self.check_instance(id, instance)?,
        }
        let answer = HeartbeatAnswer {
            member_id: id.clone(),
            epoch: leave.epoch,
            ..HeartbeatAnswer::default()
        };
        let mut decision = Decision::of(answer);
        if leave.epoch != LEAVE_STATIC || leave.instance_id.is_none() {
            return Ok((decision, vec![id.clone()]));
        }
        let now = self.progress(id);
        // Epoch 0 is below every member epoch: the next member with this instance id has had these
        // partitions since before any epoch.
        let assigned = now.assigned.iter().map(|(topic, held)| {
            let held = held.keys().map(|partition| (*partition, 0));
            (*topic, held.collect())
        });
        let away = Progress {
            epoch: LEAVE_STATIC,
            assigned: assigned.collect::<Assignment>(),
            revoking: Assignment::new(),
            ..now.clone()
        };
        let record = ConsumerRecord::Progress(id.clone(), Some(away));
        decision.records.push(record);
        decision.timers.push((id.clone(), TimerChange::Rebalanced));
        Ok((decision, Vec::new()))
    }

    /// Returns which of the `leavers`, as the classic protocol names them, are members.
    pub fn departing(&self, leavers: &[Leaver]) -> (Vec<LeaveResult>, BTreeSet<StrBytes>) {
        let mut gone = BTreeSet::new();
        let mut departed = Vec::with_capacity(leavers.len());
        for leaver in leavers {
            let found = self.find(leaver);
            let error = match found {
                Ok(id) => {
                    gone.insert(id);
                    None
                }
                Err(refused) => Some(refused.code),
            };
            departed.push(LeaveResult {
                member_id: leaver.member_id.clone(),
                instance_id: leaver.instance_id.clone(),
                error,
            });
        }
        (departed, gone)
    }

    fn find(&self, leaver: &Leaver) -> Result<StrBytes, GroupRefusal> {
        let id = &leaver.member_id;
        match &leaver.instance_id {
            None if self.member(id).is_none() => Err(GroupRefusal::unknown_member(id)),
            None => Ok(id.clone()),
            Some(instance) => {
                let holder = self.static_member(instance);
                let holder = holder.ok_or_else(|| GroupRefusal::unknown_member(instance))?;
                if !id.is_empty() {
                    self.check_instance(id, instance)?;
                }
                Ok(holder.clone())
            }
        }
    }

    /// Removes members and raises the group epoch.
    pub fn fence(&self, gone: &BTreeSet<StrBytes>, ask: Ask<'_>) -> Decision<()> {
        let mut decision = Decision::of(());
        if gone.is_empty() {
            return decision;
        }
        for id in gone {
            decision.records.extend(removal(id));
            decision.timers.push((id.clone(), TimerChange::Gone));
        }
        let stay = || self.members().filter(|(id, _)| !gone.contains(*id));
        let patterns: BTreeSet<&StrBytes> = stay().map(|(_, member)| &member.regex).collect();
        let mut topics: BTreeSet<StrBytes> = stay()
            .flat_map(|(_, member)| member.topics.iter().cloned())
            .collect();
        for (regex, matched) in &self.matched {
            let Some(matched) = matched.latest() else {
                continue;
            };
            if patterns.contains(regex) {
                topics.extend(matched.topics.iter().cloned());
            } else {
                decision
                    .records
                    .push(ConsumerRecord::Regex(regex.clone(), None));
            }
        }
        let epoch = Epoch {
            epoch: self.epoch().saturating_add(1),
            metadata_hash: metadata_hash::of(&topics, ask.cluster),
        };
        decision.records.push(ConsumerRecord::Epoch(Some(epoch)));
        decision.compared = Some((ask.cluster.version(), epoch.epoch));
        decision
    }

    /// Returns the tombstones of the whole group.
    pub fn removal(&self) -> Vec<ConsumerRecord> {
        let ids = || self.seats.keys().cloned();
        let has =
            |id: &StrBytes, part: fn(&super::Seat) -> bool| self.seats.get(id).is_some_and(part);
        let mut records = Vec::new();
        for id in ids().filter(|id| has(id, |seat| seat.progress.latest().is_some())) {
            records.push(ConsumerRecord::Progress(id, None));
        }
        for id in ids().filter(|id| has(id, |seat| seat.target.latest().is_some())) {
            records.push(ConsumerRecord::Target(id, None));
        }
        records.push(ConsumerRecord::TargetEpoch(None));
        for id in ids().filter(|id| has(id, |seat| seat.member.latest().is_some())) {
            records.push(ConsumerRecord::Member(id, None));
        }
        let matched = self.matched.iter();
        for (regex, _) in matched.filter(|(_, matched)| matched.latest().is_some()) {
            records.push(ConsumerRecord::Regex(regex.clone(), None));
        }
        if self.old_topics.latest().is_some() {
            records.push(ConsumerRecord::OldTopics(None));
        }
        records.push(ConsumerRecord::Epoch(None));
        records
    }
}
