//! Committed offsets: commit ([`commit`]), fetch ([`fetch`]), delete ([`delete`]), expiry.
//!
//! Which topics and partitions exist is the caller's knowledge: it is asked for with every request
//! and is not kept here.

use std::collections::BTreeMap;

use wire::protocol::StrBytes;
use wire::types::{ErrorCode, TopicId, Uuid};

mod by_id;
mod commit;
mod delete;
mod fetch;

pub(crate) use by_id::{COMMIT_BY_ID, commit_answer, unknown_to};
pub(crate) use commit::{Commit, Readied, Verdict, is_long};
pub(crate) use delete::Going;
pub(crate) use fetch::Fetched;

use super::classic::State;
use super::consumer::ConsumerGroup;
use super::groups::{Group, Groups, Position};
use super::open::Unstable;
use super::records::GroupRecord;
use super::{Now, Since, owned};

impl Groups {
    /// Handles a deletion of a group. What an open transaction has written goes too: its end would bring the group back.
    pub fn delete_group(&self, id: &StrBytes) -> Result<Vec<GroupRecord>, ErrorCode> {
        let id = &owned(id);
        let unstable = self.open.of_group(id);
        let has = |group: &Group, (topic, partition): &(StrBytes, i32)| {
            let offset = group.offsets.get(topic).and_then(|all| all.get(partition));
            offset.is_some_and(|offset| offset.latest().is_some())
        };
        let written = unstable.keys();
        let Some(group) = self.existing_group(id) else {
            let gone = written.map(|(topic, partition)| tombstone(id, topic, *partition));
            let records: Vec<GroupRecord> = gone.collect();
            return Some(records)
                .filter(|records| !records.is_empty())
                .ok_or(ErrorCode::GroupIdNotFound);
        };
        let consumer = group.consumer();
        if group.machine.state() != State::Empty || consumer.is_some_and(|group| !group.is_empty())
        {
            return Err(ErrorCode::NonEmptyGroup);
        }
        let mut records = Vec::new();
        delete_where(id, group, &mut records, |_, _, _| true);
        let written = written.filter(|place| !has(group, place));
        records.extend(written.map(|(topic, partition)| tombstone(id, topic, *partition)));
        records.extend(end_of_group(id, group));
        Ok(records)
    }

    /// Offsets that nobody has needed for too long, and groups that nothing is left of; each group's records apart. What an
    /// open transaction is about to move stays, and so does its group. Looks at `count` groups `after` one, and says
    /// after which to go on, if there are more.
    pub fn expire_offsets(
        &self,
        after: Option<&StrBytes>,
        count: usize,
        now: Now,
    ) -> (Vec<Vec<GroupRecord>>, Option<StrBytes>) {
        let mut last = None;
        let mut expired = Vec::new();
        for (id, group) in self.all_after(after).take(count) {
            last = Some(id);
            if !group.exists() {
                continue;
            }
            let records = self.expire_group(id, group, &self.open.of_group(id), now);
            expired.extend(Some(records).filter(|records| !records.is_empty()));
        }
        let more = last.filter(|last| self.all_after(Some(*last)).next().is_some());
        (expired, more.cloned())
    }

    fn expire_group(
        &self,
        id: &StrBytes,
        group: &Group,
        unstable: &Unstable,
        now: Now,
    ) -> Vec<GroupRecord> {
        if let Some(consumer) = group.consumer() {
            return self.expire_consumer_group(id, (group, consumer), unstable, now);
        }
        let machine = &group.machine;
        let empty = machine.state() == State::Empty;
        // What the time of an offset is counted from: a group of members that has been left, its
        // last change.
        let left = machine
            .state_since()
            .filter(|_| empty && machine.has_protocol_type());
        let reading = machine.is_consumer()
            && machine.knows_subscriptions()
            && machine.state() == State::Stable;
        let mut records = Vec::new();
        if empty || reading {
            let retention = self.options.offsets_retention_ms;
            delete_where(id, group, &mut records, |topic, partition, position| {
                let since = left.unwrap_or(position.since);
                is_expired(position, since, retention, now)
                    && !machine.is_subscribed_to(topic)
                    && !unstable.contains_key(&(topic.clone(), partition))
            });
        }
        if machine.is_idle() && unstable.is_empty() && offsets_of(group) == records.len() {
            records.extend(end_of_group(id, group));
        }
        records
    }

    /// Offsets of a consumer group expire a while after they were committed, unless the group reads
    /// the topic.
    fn expire_consumer_group(
        &self,
        id: &StrBytes,
        (group, consumer): (&Group, &ConsumerGroup),
        unstable: &Unstable,
        now: Now,
    ) -> Vec<GroupRecord> {
        let retention = self.options.offsets_retention_ms;
        let read = consumer.topics();
        let mut records = Vec::new();
        delete_where(id, group, &mut records, |topic, partition, position| {
            is_expired(position, position.since, retention, now)
                && !read.contains(topic)
                && !unstable.contains_key(&(topic.clone(), partition))
        });
        if consumer.is_empty() && unstable.is_empty() && offsets_of(group) == records.len() {
            records.extend(end_of_group(id, group));
        }
        records
    }

    /// Offsets of topics that are gone, also of those in open transactions; each group's records apart. Looks at `count` groups
    /// `after` one, and says after which to go on, if there may be more.
    pub fn topics_deleted(
        &self,
        gone: &GoneTopics,
        after: Option<&StrBytes>,
        count: usize,
    ) -> (Vec<Vec<GroupRecord>>, Option<StrBytes>) {
        let (mut lost, mut seen, mut last) = (BTreeMap::new(), 0, None);
        for (id, group) in self.all_after(after).take(count) {
            (seen, last) = (seen + 1, Some(id));
            if !group.exists() {
                continue;
            }
            let mut records = Vec::new();
            delete_where(id, group, &mut records, |topic, _, position| {
                gone.had(topic, position.value.topic_id)
            });
            lost.insert(id, records);
        }
        // What is open is little, and comes with the first.
        let open = after.is_none().then(|| self.open.by_group());
        for (id, unstable) in open.into_iter().flatten() {
            let records = lost.entry(id).or_default();
            let known = self.existing_group(id);
            for ((topic, partition), had) in unstable {
                let offset = known.and_then(|group| group.offsets.get(&topic)?.get(&partition));
                let position = offset.and_then(|offset| offset.latest());
                let is_told =
                    position.is_some_and(|position| gone.had(&topic, position.value.topic_id));
                if gone.had(&topic, had) && !is_told {
                    records.push(tombstone(id, &topic, partition));
                }
            }
        }
        let lost = lost.into_values();
        let lost = lost.filter(|records| !records.is_empty()).collect();
        (lost, last.filter(|_| seen == count).cloned())
    }
}

/// Topics that are gone: the ids that they had, by name.
// Bounded: lives while their offsets are looked for; those of one change of the metadata, `controller::RECORDS_PER_REQUEST_MAX`.
pub struct GoneTopics(BTreeMap<StrBytes, Vec<Uuid>>);

impl GoneTopics {
    /// These.
    pub fn of(gone: impl IntoIterator<Item = (StrBytes, TopicId)>) -> Self {
        let mut by_name: BTreeMap<StrBytes, Vec<Uuid>> = BTreeMap::new();
        for (name, id) in gone {
            by_name.entry(name).or_default().push(id.0);
        }
        Self(by_name)
    }

    /// True for what was said of one of them, and not of a successor.
    fn had(&self, topic: &StrBytes, id: Uuid) -> bool {
        let ids = self.0.get(topic);
        ids.is_some_and(|ids| id.is_nil() || ids.contains(&id))
    }
}

/// By the time that has passed, whatever the wall clock shows. A client of old versions names the time at which its
/// offset expires: so long after its commit.
fn is_expired(position: &Position, since: Since, retention: i64, now: Now) -> bool {
    let value = &position.value;
    if value.expire_timestamp == -1 {
        return since.age_ms(now) >= retention;
    }
    let asked = value
        .expire_timestamp
        .saturating_sub(value.commit_timestamp);
    position.since.age_ms(now) >= asked
}

fn offsets_of(group: &Group) -> usize {
    let offsets = group.offsets.values().flat_map(BTreeMap::values);
    offsets.filter(|offset| offset.latest().is_some()).count()
}

/// The tombstones of a group without members, beside those of its offsets.
fn end_of_group(id: &StrBytes, group: &Group) -> Vec<GroupRecord> {
    let id = owned(id);
    match group.consumer() {
        Some(consumer) => super::groups::of_group(&id, consumer.removal()),
        None => vec![GroupRecord::Metadata {
            group: id,
            value: None,
        }],
    }
}

fn delete_where(
    id: &StrBytes,
    group: &Group,
    records: &mut Vec<GroupRecord>,
    goes: impl Fn(&StrBytes, i32, &Position) -> bool,
) {
    for (topic, offsets) in &group.offsets {
        for (partition, offset) in offsets {
            if offset
                .latest()
                .is_some_and(|position| goes(topic, *partition, position))
            {
                records.push(tombstone(id, topic, *partition));
            }
        }
    }
}

/// Of names that are the groups' own, so that many tombstones of a group share them.
fn tombstone(group: &StrBytes, topic: &StrBytes, partition: i32) -> GroupRecord {
    GroupRecord::Offset {
        group: group.clone(),
        topic: topic.clone(),
        partition,
        value: None,
    }
}
