//! Requests of members: each is decided on the latest state of its group, of either kind.

use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use super::consumers::of_group;
use super::weight::GROUP_BYTES;
use super::{GROUPS_MAX, Group, GroupOutcome, Groups};
use crate::group::ClockReading;
use crate::group::classic::{
    ClassicGroup, Join, LeaveResult, Leaver, Reply, Sync, Token, join_refused, sync_refused,
};
use crate::group::cluster::Cluster;

impl Groups {
    /// Handles a join.
    pub fn join(
        &mut self,
        id: &StrBytes,
        join: Join,
        token: Token,
        now: ClockReading,
        cluster: &dyn Cluster,
    ) -> GroupOutcome {
        self.asked_by(&join.client_host);
        let consumer = self.existing_group(id).and_then(Group::consumer);
        if consumer.is_some_and(|group| !group.is_empty()) {
            return self.join_consumer_group(id, &join, token, (now, cluster));
        }
        // A consumer group without members is replaced.
        let replaced = consumer.map(|group| of_group(id, group.removal()));
        let is_new = replaced.is_some() || self.existing_group(id).is_none();
        let refusal = if is_new && !join.member_id.is_empty() {
            Some(ErrorCode::UnknownMemberId)
        } else if is_new && self.by_id.len() >= GROUPS_MAX {
            Some(ErrorCode::GroupMaxSizeReached)
        } else {
            let known = self.existing_group(id).map(|group| &group.machine);
            let growth = known.map_or_else(
                || {
                    ClassicGroup::new(self.options.classic)
                        .growth(&join)
                        .saturating_add(GROUP_BYTES)
                },
                |machine| machine.growth(&join),
            );
            self.check_members(id, growth).err()
        };
        if let Some(error) = refusal {
            let answer = Reply::Join(join_refused(join.member_id, error));
            return GroupOutcome {
                replies: vec![(token, answer)],
                ..GroupOutcome::default()
            };
        }
        let limits = self.options.classic;
        let group = self
            .by_id
            .entry(id.clone())
            .or_insert_with(|| Group::new(limits).into());
        let effects = group.machine.join(join, is_new, token, now);
        let mut outcome = self.carry(id, effects);
        if let Some(first) = outcome.appends.first_mut() {
            first.records.splice(..0, replaced.into_iter().flatten());
        }
        outcome
    }

    /// Handles a sync.
    pub fn sync(
        &mut self,
        id: &StrBytes,
        sync: Sync,
        token: Token,
        now: ClockReading,
        cluster: &dyn Cluster,
    ) -> GroupOutcome {
        if self.is_consumer(id) {
            return self.sync_consumer_group(id, &sync, token, (now, cluster));
        }
        let Some(machine) = self.machine(id) else {
            let answer = Reply::Sync(sync_refused(ErrorCode::UnknownMemberId));
            let replies = vec![(token, answer)];
            return GroupOutcome {
                replies,
                ..GroupOutcome::default()
            };
        };
        let effects = machine.sync(sync, token, now);
        self.carry(id, effects)
    }

    /// Handles a heartbeat; it only postpones deadlines, so none has to be set earlier.
    pub fn heartbeat(
        &mut self,
        id: &StrBytes,
        member: &StrBytes,
        instance: Option<&StrBytes>,
        generation: i32,
        (now, cluster): (ClockReading, &dyn Cluster),
    ) -> Result<(), ErrorCode> {
        if self.is_consumer(id) {
            let beat = (member, instance, generation);
            return self.beat_consumer_group(id, beat, (now, cluster));
        }
        let machine = self.machine(id).ok_or(ErrorCode::UnknownMemberId)?;
        machine.heartbeat(member, instance, generation, now)
    }

    /// Handles departures.
    pub fn leave(
        &mut self,
        id: &StrBytes,
        leavers: &[Leaver],
        now: ClockReading,
        cluster: &dyn Cluster,
    ) -> (Vec<LeaveResult>, GroupOutcome) {
        if self.is_consumer(id) {
            return self.leave_consumer_group(id, leavers, (now, cluster));
        }
        let Some(machine) = self.machine(id) else {
            let departed = leavers.iter().map(|leaver| LeaveResult {
                member_id: leaver.member_id.clone(),
                instance_id: leaver.instance_id.clone(),
                error: Some(ErrorCode::UnknownMemberId),
            });
            return (departed.collect(), GroupOutcome::default());
        };
        let (departed, effects) = machine.leave(leavers, now);
        (departed, self.carry(id, effects))
    }
}
