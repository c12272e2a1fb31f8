//! The second step of a decision: computes the target assignment, if the group has a new epoch and
//! the last assignment is old enough. A long computation runs ahead ([`super::ahead`]).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use wire::protocol::StrBytes;
use wire::types::Uuid;

use super::NOTHING;
use super::ahead::{AheadState, AheadTask, TargetAssignments};
use super::draft::Draft;
use super::member::Member;
use super::record::{ConsumerRecord, TargetEpoch};
use crate::group::assignor::{Assignor, ListIndex, Question, Subscriber};

impl<'a> Draft<'a> {
    /// Computes a new target assignment if one is due.
    pub(super) fn retarget(&mut self) {
        if self.target_epoch >= self.epoch || !self.may_assign_now() {
            return;
        }
        let Some(made) = self.made() else {
            return self.begin_without_target();
        };
        let mut records = Vec::new();
        for (id, member) in self.members() {
            let seat = self.group.seats.get(id);
            let known = seat.and_then(|seat| seat.target.latest());
            // The record for a member that replaces another was already written with the old
            // target.
            let replaces = self.replaced.is_some() && *id == self.id;
            let known = if replaces { Some(&self.target) } else { known };
            let partitions = match made.target(id, member) {
                Some(partitions) => partitions,
                None if known.is_some() => &NOTHING,
                None => continue,
            };
            if known != Some(partitions) {
                records.push(ConsumerRecord::Target(id.clone(), Some(partitions.clone())));
            }
        }
        self.decision.records.extend(records);
        let epoch = TargetEpoch {
            epoch: made.epoch,
            made_ms: self.ask.now.wall_ms,
        };
        let record = ConsumerRecord::TargetEpoch(Some(epoch));
        self.decision.records.push(record);
        self.decision.retargeted = true;
        self.target_epoch = made.epoch;
        let target = made.target(&self.id, &self.member);
        self.target = target.cloned().unwrap_or_default();
    }

    /// Returns the assignment, or `None` while it is being computed.
    fn made(&mut self) -> Option<Cow<'a, TargetAssignments>> {
        let ahead = &self.group.ahead;
        if let Some(made) = ahead.assigned(self.target_epoch, self.epoch) {
            return Some(Cow::Borrowed(made));
        }
        if ahead.is_busy() || self.decision.job.is_some() {
            return None;
        }
        let question = self.question();
        let assignor = self.preferred();
        if let Some(made) = TargetAssignments::at_once(self.epoch, assignor, &question) {
            return Some(Cow::Owned(made));
        }
        let what = AheadTask::Assign(self.epoch, assignor, question);
        self.decision.job = Some(AheadState::job(what));
        None
    }

    /// Gives a group without a target an empty one for the previous epoch, so that its members are
    /// in the group, without partitions.
    fn begin_without_target(&mut self) {
        if self.target_epoch > 0 || self.epoch <= 1 {
            return;
        }
        let epoch = TargetEpoch {
            epoch: self.epoch - 1, // Bounded: above one.
            made_ms: 0,
        };
        let record = ConsumerRecord::TargetEpoch(Some(epoch));
        self.decision.records.push(record);
        self.target_epoch = epoch.epoch;
    }

    fn may_assign_now(&self) -> bool {
        let made_ms = self
            .group
            .target_epoch
            .latest()
            .map_or(0, |one| one.made_ms);
        let interval = self.ask.settings.assignment_interval_ms;
        // A time in the future was written before the wall clock was set back: the assignment is
        // then due.
        let waits = (made_ms..made_ms.saturating_add(interval)).contains(&self.ask.now.wall_ms);
        made_ms == 0 || !waits
    }

    /// Returns the assignor that most members ask for; of several, the first in the settings.
    fn preferred(&self) -> Assignor {
        let offered = self.ask.options.assignors.iter().flatten();
        let votes = offered.map(|assignor| {
            let asks = |name: &&StrBytes| name.as_str() == assignor.name();
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
        let mut lists = Lists {
            draft: self,
            all: Vec::new(),
            by_names: BTreeMap::new(),
            by_regex: BTreeMap::new(),
            topics: BTreeMap::new(),
        };
        let members = self.members().map(|(id, member)| {
            let subscriber = Subscriber {
                instance_id: member.instance_id.clone(),
                lists: lists.of(member),
                previous: self.previous_target(id).clone(),
            };
            (id.clone(), subscriber)
        });
        let members = members.collect();
        Question {
            members,
            lists: lists.all,
            topics: lists.topics,
        }
    }
}

/// The lists of a question while it is built.
struct Lists<'a> {
    draft: &'a Draft<'a>,
    // Bounded: lives while one question is built, of a group of at most
    // `groups::weight::GROUP_BYTES_MAX`.
    all: Vec<BTreeSet<Uuid>>,
    // Bounded: lives while one question is built, of a group of at most
    // `groups::weight::GROUP_BYTES_MAX`.
    by_names: BTreeMap<&'a BTreeSet<StrBytes>, ListIndex>,
    // Bounded: lives while one question is built, `groups::consumers::PATTERNS_MAX`.
    by_regex: BTreeMap<&'a StrBytes, ListIndex>,
    // Bounded: lives while one question is built, of a group of at most
    // `groups::weight::GROUP_BYTES_MAX`.
    topics: BTreeMap<Uuid, i32>,
}

impl<'a> Lists<'a> {
    fn of(&mut self, member: &'a Member) -> Vec<ListIndex> {
        let mut lists = Vec::new();
        if !member.topics.is_empty() {
            let known = self.by_names.get(&member.topics).copied();
            lists.push(known.unwrap_or_else(|| {
                let index = self.add(&member.topics);
                self.by_names.insert(&member.topics, index);
                index
            }));
        }
        if let Some(matched) = self.draft.matched(&member.regex) {
            let known = self.by_regex.get(&member.regex).copied();
            lists.push(known.unwrap_or_else(|| {
                let index = self.add(&matched.topics);
                self.by_regex.insert(&member.regex, index);
                index
            }));
        }
        lists
    }

    /// Adds a list of the topics that exist, and returns its index.
    fn add(&mut self, names: &BTreeSet<StrBytes>) -> ListIndex {
        let cluster = self.draft.ask.cluster;
        let shapes = names.iter().filter_map(|name| cluster.shape(name));
        let shapes: BTreeMap<Uuid, i32> = shapes.collect();
        self.all.push(shapes.keys().copied().collect());
        self.topics.extend(shapes);
        self.all.len() - 1
    }
}
