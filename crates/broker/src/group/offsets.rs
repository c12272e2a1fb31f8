//! Committed offsets: commit ([`commit`]), fetch ([`fetch`]), delete ([`delete`]), expiry.
//!
//! The caller passes in which topics and partitions exist with every request; they are not kept
//! here.

use std::collections::BTreeMap;

use wire::protocol::StrBytes;
use wire::types::{ErrorCode, TopicId, Uuid};

mod by_id;
mod commit;
mod delete;
mod fetch;

pub(crate) use by_id::{COMMIT_BY_ID, commit_answer, unknown_to};
pub(crate) use commit::{CheckedCommit, Commit, Verdict, is_long};
pub(crate) use delete::OffsetDeletion;
pub(crate) use fetch::OffsetFetchAnswer;

use super::classic::ClassicGroupState;
use super::consumer::ConsumerGroup;
use super::groups::{Group, Groups, Position};
use super::open::UnstablePartitions;
use super::records::GroupRecord;
use super::{ClockReading, EventAge, owned};

impl Groups {
    /// Handles a deletion of a group.
    ///
    /// Offsets in open transactions are deleted too: otherwise the end of the transaction would
    /// restore the group.
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
        if group.machine.state() != ClassicGroupState::Empty
            || consumer.is_some_and(|group| !group.is_empty())
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

    /// Returns the tombstones of expired offsets and of groups with nothing left, separately for
    /// each group.
    ///
    /// An offset that an open transaction is about to change does not expire, nor does its group.
    /// Checks `count` groups after `after`, and returns where to continue if there are more.
    pub fn expire_offsets(
        &self,
        after: Option<&StrBytes>,
        count: usize,
        now: ClockReading,
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
        unstable: &UnstablePartitions,
        now: ClockReading,
    ) -> Vec<GroupRecord> {
        if let Some(consumer) = group.consumer() {
            return self.expire_consumer_group(id, (group, consumer), unstable, now);
        }
        let machine = &group.machine;
        let empty = machine.state() == ClassicGroupState::Empty;
        // Offsets of a group whose members have all left age from that change; others from their
        // commit.
        let left = machine
            .state_since()
            .filter(|_| empty && machine.has_protocol_type());
        let reading = machine.is_consumer()
            && machine.knows_subscriptions()
            && machine.state() == ClassicGroupState::Stable;
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

    /// Expires offsets of a consumer group after the retention time, unless the group reads the
    /// topic.
    fn expire_consumer_group(
        &self,
        id: &StrBytes,
        (group, consumer): (&Group, &ConsumerGroup),
        unstable: &UnstablePartitions,
        now: ClockReading,
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

    /// Returns the tombstones of offsets of deleted topics, including those in open transactions,
    /// separately for each group.
    ///
    /// Checks `count` groups after `after`, and returns where to continue if there may be more.
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
        // There are few open transactions: all are handled with the first groups.
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

/// Deleted topics: their ids, by name.
// Bounded: lives while the offsets are deleted; the topics of one metadata change,
// `controller::RECORDS_PER_REQUEST_MAX`.
pub struct GoneTopics(BTreeMap<StrBytes, Vec<Uuid>>);

impl GoneTopics {
    /// Creates the set of these topics.
    pub fn of(gone: impl IntoIterator<Item = (StrBytes, TopicId)>) -> Self {
        let mut by_name: BTreeMap<StrBytes, Vec<Uuid>> = BTreeMap::new();
        for (name, id) in gone {
            by_name.entry(name).or_default().push(id.0);
        }
        Self(by_name)
    }

    /// Returns true for an offset of one of the deleted topics, and false for one of a new topic
    /// with the same name.
    fn had(&self, topic: &StrBytes, id: Uuid) -> bool {
        let ids = self.0.get(topic);
        ids.is_some_and(|ids| id.is_nil() || ids.contains(&id))
    }
}

/// Returns true when an offset has expired, by elapsed time and not by the wall clock.
///
/// An old client sends the time when its offset expires, which is converted to a time after the
/// commit.
fn is_expired(position: &Position, since: EventAge, retention: i64, now: ClockReading) -> bool {
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

/// Returns the tombstones of a group without members, except those of its offsets.
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

/// Returns the tombstone of an offset; `group` and `topic` are copies that many tombstones share.
fn tombstone(group: &StrBytes, topic: &StrBytes, partition: i32) -> GroupRecord {
    GroupRecord::Offset {
        group: group.clone(),
        topic: topic.clone(),
        partition,
        value: None,
    }
}
