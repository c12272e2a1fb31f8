//! Committed offsets: commit, fetch, delete, expiry.
//!
//! Which topics and partitions exist is the caller's knowledge: it is asked for with every request
//! and is not kept here.

use std::collections::{BTreeMap, BTreeSet};

use wire::messages::offset_commit_request::OffsetCommitRequestTopic;
use wire::messages::offset_commit_response::OffsetCommitResponsePartition;
use wire::messages::offset_delete_response::{
    OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use wire::messages::offset_fetch_request::OffsetFetchRequestGroup;
use wire::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};
use wire::messages::{
    OffsetCommitRequest, OffsetCommitResponse, OffsetDeleteRequest, OffsetDeleteResponse, TopicName,
};
use wire::protocol::StrBytes;
use wire::records::offsets::OffsetCommitValue;
use wire::types::{ErrorCode, TopicId, Uuid};

mod by_id;

pub(crate) use by_id::{COMMIT_BY_ID, commit_answer, unknown_to};

use super::classic::State;
use super::consumer::ConsumerGroup;
use super::groups::{GROUP_BYTES, Group, Groups, OFFSET_BYTES, Position};
use super::open::Unstable;
use super::records::GroupRecord;
use super::{Now, Since, owned};

/// Which topics and partitions there are.
pub trait Topics {
    /// The topic's id, if there is such a topic.
    fn topic_id(&self, name: &str) -> Option<TopicId>;
    /// True when the topic has this partition.
    fn has_partition(&self, name: &str, partition: i32) -> bool;
}

impl Topics for crate::image::Image {
    fn topic_id(&self, name: &str) -> Option<TopicId> {
        self.topic_by_name(name).map(|topic| topic.id)
    }

    fn has_partition(&self, name: &str, partition: i32) -> bool {
        self.topic_by_name(name)
            .is_some_and(|topic| topic.partitions.contains_key(&partition))
    }
}

/// How offsets are committed.
#[derive(Clone, Copy)]
struct Commit {
    /// Version of `OffsetCommit` whose errors the client knows.
    version: i16,
    /// They count when a transaction is committed.
    transactional: bool,
}

impl Commit {
    /// What to say of a partition that is not there.
    fn unknown(self, topic: &OffsetCommitRequestTopic) -> ErrorCode {
        unknown_to(self.version, topic)
    }
}

impl Groups {
    /// Handles a commit: records, and the answer for when they are in the log. Partitions that do
    /// not exist are answered so before the group is asked.
    pub fn commit(
        &mut self,
        request: &OffsetCommitRequest,
        version: i16,
        topics: &impl Topics,
        now: Now,
    ) -> (Vec<GroupRecord>, OffsetCommitResponse) {
        let how = Commit {
            version,
            transactional: false,
        };
        self.commit_how(request, how, topics, now)
    }

    /// As [`Groups::commit`], in a transaction: a producer from before members were named may commit whoever is in the
    /// group, and no rebalance is in the way.
    pub fn commit_in_transaction(
        &mut self,
        request: &OffsetCommitRequest,
        topics: &impl Topics,
        now: Now,
    ) -> (Vec<GroupRecord>, OffsetCommitResponse) {
        let how = Commit {
            version: 8,
            transactional: true,
        };
        self.commit_how(request, how, topics, now)
    }

    fn commit_how(
        &mut self,
        request: &OffsetCommitRequest,
        how: Commit,
        topics: &impl Topics,
        now: Now,
    ) -> (Vec<GroupRecord>, OffsetCommitResponse) {
        let mut accepted: Option<Result<(), ErrorCode>> = None;
        // One copy for all records: an id may be long, and partitions many.
        let group = owned(&request.group_id);
        let mut records = Vec::new();
        let mut answers = Vec::with_capacity(request.topics.len());
        for topic in &request.topics {
            let id = topics.topic_id(&topic.name);
            let name = owned(&topic.name);
            let mut partitions = Vec::with_capacity(topic.partitions.len());
            for partition in &topic.partitions {
                let index = partition.partition_index;
                let known = id.filter(|_| topics.has_partition(&topic.name, index));
                let result = match known {
                    None => Err(how.unknown(topic)),
                    Some(id) => accepted
                        .get_or_insert_with(|| self.check_commit(request, how, topics, now))
                        .and_then(|()| self.value(request, partition, id, now)),
                };
                let answer = OffsetCommitResponsePartition::default().with_partition_index(index);
                partitions.push(match result {
                    Err(error) => answer.with_error_code(error.code()),
                    Ok(value) => {
                        records.push(GroupRecord::Offset {
                            group: group.clone(),
                            topic: name.clone(),
                            partition: index,
                            value: Some(value),
                        });
                        answer
                    }
                });
            }
            answers.push(commit_answer(topic, partitions));
        }
        let mut answer = OffsetCommitResponse::default().with_topics(answers);
        if let Err(error) = self.check_growth(&group, self.growth(&group, &records)) {
            records.clear();
            let partitions = answer.topics.iter_mut();
            let partitions = partitions.flat_map(|topic| &mut topic.partitions);
            for partition in partitions.filter(|partition| partition.error_code == 0) {
                partition.error_code = error.code();
            }
        }
        (records, answer)
    }

    /// What positions take that the group does not have yet. Those that it has it may always move.
    fn growth(&self, id: &StrBytes, records: &[GroupRecord]) -> usize {
        let known = self.recorded_group(id);
        let new = records.iter().filter(|record| match record {
            GroupRecord::Offset {
                topic, partition, ..
            } => known
                .and_then(|group| group.offsets.get(topic)?.get(partition))
                .is_none(),
            _ => false,
        });
        let offsets = new.fold(0, |all: usize, record| {
            // The group's name is there once.
            let own = record.size().saturating_sub(id.len());
            all.saturating_add(own).saturating_add(OFFSET_BYTES)
        });
        if known.is_none() && offsets > 0 {
            offsets.saturating_add(GROUP_BYTES).saturating_add(id.len())
        } else {
            offsets
        }
    }

    fn value(
        &self,
        request: &OffsetCommitRequest,
        partition: &wire::messages::offset_commit_request::OffsetCommitRequestPartition,
        topic: TopicId,
        now: Now,
    ) -> Result<OffsetCommitValue, ErrorCode> {
        let note = partition
            .committed_metadata
            .as_ref()
            .map_or("", StrBytes::as_str);
        if note.encode_utf16().count() > self.options.offset_metadata_max {
            return Err(ErrorCode::OffsetMetadataTooLarge);
        }
        let retention = request.retention_time_ms;
        let expires = if retention == -1 {
            -1
        } else {
            now.wall_ms.saturating_add(retention)
        };
        Ok(OffsetCommitValue {
            offset: partition.committed_offset,
            leader_epoch: partition.committed_leader_epoch,
            metadata: note.to_owned(),
            commit_timestamp: now.wall_ms,
            expire_timestamp: expires,
            topic_id: topic.0,
        })
    }

    /// Who may commit: members of this generation, and anybody without a generation while nobody is
    /// in the group.
    fn check_commit(
        &mut self,
        request: &OffsetCommitRequest,
        how: Commit,
        topics: &impl Topics,
        now: Now,
    ) -> Result<(), ErrorCode> {
        if let Ok(group) = self.consumer_group(&request.group_id) {
            return check_consumer_commit(group, request, how, topics);
        }
        let generation = request.generation_id_or_member_epoch;
        let instance = request.group_instance_id.as_ref();
        let Some(machine) = self.machine(&request.group_id) else {
            return match generation {
                ..0 => Ok(()),
                _ if how.version >= 9 => Err(ErrorCode::GroupIdNotFound),
                _ => Err(ErrorCode::IllegalGeneration),
            };
        };
        if generation < 0 && machine.state() == State::Empty {
            return Ok(());
        }
        if generation >= 0 || !request.member_id.is_empty() || instance.is_some() {
            machine.check_member(&request.member_id, instance)?;
            if generation != machine.generation() {
                return Err(ErrorCode::IllegalGeneration);
            }
        } else if !how.transactional && machine.state() != State::Empty {
            return Err(ErrorCode::UnknownMemberId);
        }
        if !how.transactional && machine.state() == State::CompletingRebalance {
            return Err(ErrorCode::RebalanceInProgress);
        }
        machine.touch(&request.member_id, now);
        Ok(())
    }

    /// Handles a fetch of offsets: of those committed, or (`latest`) also of those on their way,
    /// for an answer that waits until they are committed.
    pub fn fetch(
        &self,
        request: &OffsetFetchRequestGroup,
        latest: bool,
    ) -> Result<OffsetFetchResponseGroup, ErrorCode> {
        if let Ok(group) = self.consumer_group(&request.group_id) {
            check_consumer_fetch(group, request)?;
        }
        let group = self.recorded_group(&request.group_id);
        let find = |topic: &StrBytes, partition: i32| {
            let offset = group?.offsets.get(topic)?.get(&partition)?;
            let position = if latest {
                offset.latest()
            } else {
                offset.committed()
            };
            position.map(|position| &position.value)
        };
        let topics = if let Some(topics) = &request.topics {
            let asked = topics.iter().map(|topic| {
                let answers = topic.partition_indexes.iter().map(|index| {
                    let value = find(&topic.name, *index);
                    fetched(
                        *index,
                        value.filter(|value| same_topic(value, topic.topic_id)),
                    )
                });
                topic_answer(topic.name.clone(), answers.collect()).with_topic_id(topic.topic_id)
            });
            asked.collect()
        } else {
            let all = group
                .into_iter()
                .flat_map(|group| &group.offsets)
                .filter_map(|(name, all)| {
                    let found = all
                        .keys()
                        .filter_map(|index| Some((*index, find(name, *index)?)));
                    let answers: Vec<_> = found
                        .map(|(index, value)| fetched(index, Some(value)))
                        .collect();
                    let name = TopicName(name.clone());
                    (!answers.is_empty()).then(|| topic_answer(name, answers))
                });
            all.collect()
        };
        let answer = OffsetFetchResponseGroup::default().with_group_id(request.group_id.clone());
        Ok(answer.with_topics(topics))
    }

    /// Handles a deletion of offsets.
    pub fn delete_offsets(
        &self,
        request: &OffsetDeleteRequest,
        topics: &impl Topics,
    ) -> (Vec<GroupRecord>, OffsetDeleteResponse) {
        let id = &request.group_id;
        let failed = |error: ErrorCode| {
            (
                Vec::new(),
                OffsetDeleteResponse::default().with_error_code(error.code()),
            )
        };
        let Some(group) = self.existing_group(id) else {
            return failed(ErrorCode::GroupIdNotFound);
        };
        let consumer = group.consumer();
        let holds = group.machine.state() != State::Empty && !group.machine.is_consumer();
        if consumer.is_none() && holds {
            return failed(ErrorCode::NonEmptyGroup);
        }
        let unstable = self.open.of_group(id);
        let (id, mut gone) = (owned(id), BTreeSet::new());
        let mut answers = Vec::with_capacity(request.topics.len());
        for topic in &request.topics {
            let name = owned(&topic.name);
            let subscribed = match consumer {
                Some(consumer) => consumer.is_subscribed_to(&topic.name),
                None => group.machine.is_subscribed_to(&topic.name),
            };
            let mut partitions = Vec::with_capacity(topic.partitions.len());
            for partition in &topic.partitions {
                let index = partition.partition_index;
                let answer = OffsetDeleteResponsePartition::default().with_partition_index(index);
                let error = if !topics.has_partition(&topic.name, index) {
                    Some(ErrorCode::UnknownTopicOrPartition)
                } else if subscribed {
                    Some(ErrorCode::GroupSubscribedToTopic)
                } else {
                    None
                };
                partitions.push(answer.with_error_code(error.map_or(0, |error| error.code())));
                let offset = group
                    .offsets
                    .get(&topic.name.0)
                    .and_then(|all| all.get(&index));
                let is_there = offset.is_some_and(|offset| offset.latest().is_some())
                    || unstable.contains_key(&(name.clone(), index));
                if error.is_none() && is_there {
                    gone.insert((name.clone(), index));
                }
            }
            let answer = OffsetDeleteResponseTopic::default().with_name(topic.name.clone());
            answers.push(answer.with_partitions(partitions));
        }
        let gone = gone.iter();
        let records = gone.map(|(topic, partition)| tombstone(&id, topic, *partition));
        (
            records.collect(),
            OffsetDeleteResponse::default().with_topics(answers),
        )
    }

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

    /// Offsets of topics that are gone, also of those in open transactions; each group's records apart.
    pub fn topics_deleted(&self, gone: &[(StrBytes, TopicId)]) -> Vec<Vec<GroupRecord>> {
        let mut by_name: BTreeMap<&StrBytes, Vec<Uuid>> = BTreeMap::new();
        for (name, id) in gone {
            by_name.entry(name).or_default().push(id.0);
        }
        let is_gone = |topic: &StrBytes, had: Uuid| {
            let ids = by_name.get(topic);
            ids.is_some_and(|ids| had.is_nil() || ids.contains(&had))
        };
        let mut lost: BTreeMap<&StrBytes, Vec<GroupRecord>> = BTreeMap::new();
        for (id, group) in self.existing() {
            let records = lost.entry(id).or_default();
            delete_where(id, group, records, |topic, _, position| {
                is_gone(topic, position.value.topic_id)
            });
        }
        for (id, unstable) in self.open.by_group() {
            let records = lost.entry(id).or_default();
            let known = self.existing_group(id);
            for ((topic, partition), had) in unstable {
                let offset = known.and_then(|group| group.offsets.get(&topic)?.get(&partition));
                let position = offset.and_then(|offset| offset.latest());
                let is_told =
                    position.is_some_and(|position| is_gone(&topic, position.value.topic_id));
                if is_gone(&topic, had) && !is_told {
                    records.push(tombstone(id, &topic, partition));
                }
            }
        }
        let lost = lost.into_values();
        lost.filter(|records| !records.is_empty()).collect()
    }
}

/// A member commits in its epoch, or in an older one that is not older than that in which it got
/// the partition; anybody commits without an epoch while nobody is in the group.
fn check_consumer_commit(
    group: &ConsumerGroup,
    request: &OffsetCommitRequest,
    how: Commit,
    topics: &impl Topics,
) -> Result<(), ErrorCode> {
    let epoch = request.generation_id_or_member_epoch;
    let id = &request.member_id;
    // A producer from before members were named.
    let is_nameless = id.is_empty() && request.group_instance_id.is_none();
    if epoch < 0 && (group.is_empty() || (how.transactional && is_nameless)) {
        return Ok(());
    }
    let member = group.member(id).ok_or(ErrorCode::UnknownMemberId)?;
    let stale = if member.classic.is_some() || how.transactional {
        ErrorCode::IllegalGeneration
    } else if how.version < 9 {
        return Err(ErrorCode::UnsupportedVersion);
    } else {
        ErrorCode::StaleMemberEpoch
    };
    let progress = group.progress(id);
    if epoch == progress.epoch {
        return Ok(());
    }
    if epoch > progress.epoch {
        return Err(stale);
    }
    for topic in &request.topics {
        let known = topics.topic_id(&topic.name);
        let asked = topic.partitions.iter().map(|one| one.partition_index);
        for partition in asked.filter(|one| topics.has_partition(&topic.name, *one)) {
            let since = known.and_then(|topic| progress.held_since(topic.0, partition));
            if since.is_none_or(|since| epoch < since) {
                return Err(stale);
            }
        }
    }
    Ok(())
}

/// Whoever says which member it is, is that member, in its epoch.
fn check_consumer_fetch(
    group: &ConsumerGroup,
    request: &OffsetFetchRequestGroup,
) -> Result<(), ErrorCode> {
    let id = match &request.member_id {
        None if request.member_epoch < 0 => return Ok(()),
        None => return Err(ErrorCode::UnknownMemberId),
        Some(id) => id,
    };
    let member = group.member(id).ok_or(ErrorCode::UnknownMemberId)?;
    if request.member_epoch == group.progress(id).epoch {
        return Ok(());
    }
    Err(match member.classic {
        Some(_) => ErrorCode::IllegalGeneration,
        None => ErrorCode::StaleMemberEpoch,
    })
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

fn same_topic(value: &OffsetCommitValue, asked: Uuid) -> bool {
    value.topic_id.is_nil() || asked.is_nil() || value.topic_id == asked
}

fn topic_answer(
    name: TopicName,
    partitions: Vec<OffsetFetchResponsePartitions>,
) -> OffsetFetchResponseTopics {
    OffsetFetchResponseTopics::default()
        .with_name(name)
        .with_partitions(partitions)
}

fn fetched(index: i32, value: Option<&OffsetCommitValue>) -> OffsetFetchResponsePartitions {
    let answer = OffsetFetchResponsePartitions::default().with_partition_index(index);
    match value {
        Some(value) => answer
            .with_committed_offset(value.offset)
            .with_committed_leader_epoch(value.leader_epoch)
            .with_metadata(Some(StrBytes::from_string(value.metadata.clone()))),
        None => answer
            .with_committed_offset(-1)
            .with_committed_leader_epoch(-1)
            .with_metadata(Some(StrBytes::default())),
    }
}
