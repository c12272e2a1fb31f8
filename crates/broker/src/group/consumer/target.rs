//! The second step: the target assignment, when the group has a new epoch and the last assignment
//! is old enough.

use std::collections::{BTreeMap, BTreeSet};

use wire::types::Uuid;

use super::draft::{Draft, topics_of};
use super::record::{ConsumerRecord, TargetEpoch};
use crate::group::assignor::{Assignor, Question, Subscriber};

impl Draft<'_> {
    /// Makes a new target assignment if one is due.
    pub(super) fn retarget(&mut self) {
        if self.target_epoch >= self.epoch || !self.may_assign_now() {
            return;
        }
        let question = self.question();
        let answer = self.preferred().assign(&question);
        for (id, partitions) in &answer {
            let known = self
                .group
                .seats
                .get(id)
                .and_then(|seat| seat.target.latest());
            // A member that took a place has just been written with what the place had.
            let replaces = self.replaced.is_some() && *id == self.id;
            let known = if replaces { Some(&self.target) } else { known };
            if known != Some(partitions) {
                let record = ConsumerRecord::Target(id.clone(), Some(partitions.clone()));
                self.decision.records.push(record);
            }
        }
        let epoch = TargetEpoch {
            epoch: self.epoch,
            made_ms: self.ask.now.wall_ms,
        };
        let record = ConsumerRecord::TargetEpoch(Some(epoch));
        self.decision.records.push(record);
        self.target_epoch = self.epoch;
        self.target = answer.get(&self.id).cloned().unwrap_or_default();
    }

    fn may_assign_now(&self) -> bool {
        let made_ms = self
            .group
            .target_epoch
            .latest()
            .map_or(0, |one| one.made_ms);
        let interval = self.ask.settings.assignment_interval_ms;
        // A time in the future is of a wall clock that has been set back since: that is due, too.
        let waits = (made_ms..made_ms.saturating_add(interval)).contains(&self.ask.now.wall_ms);
        made_ms == 0 || !waits
    }

    /// The assignor that most members ask for; of several, the first of the settings.
    fn preferred(&self) -> Assignor {
        let offered = self.ask.options.assignors.iter().flatten();
        let votes = offered.map(|assignor| {
            let asks = |name: &&wire::protocol::StrBytes| name.as_str() == assignor.name();
            let names = self
                .members()
                .filter_map(|(_, member)| member.assignor.as_ref());
            (names.filter(asks).count(), *assignor)
        });
        let most = votes.rev().max_by_key(|(count, _)| *count);
        most.filter(|(count, _)| *count > 0)
            .map_or(self.ask.options.default_assignor(), |(_, assignor)| {
                assignor
            })
    }

    fn question(&self) -> Question {
        let mut topics: BTreeMap<Uuid, i32> = BTreeMap::new();
        let members = self.members().map(|(id, member)| {
            let shapes = topics_of(self, member).filter_map(|name| self.ask.cluster.shape(name));
            let shapes: BTreeMap<Uuid, i32> = shapes.collect();
            let read: BTreeSet<Uuid> = shapes.keys().copied().collect();
            topics.extend(shapes);
            let subscriber = Subscriber {
                instance_id: member.instance_id.clone(),
                topics: read,
                previous: self.previous_target(id).clone(),
            };
            (id.clone(), subscriber)
        });
        let members = members.collect();
        Question { members, topics }
    }
}
