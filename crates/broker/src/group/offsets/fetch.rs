//! Fetches of offsets, in pieces: a request may name 200,000 partitions, and a group may have as
//! many offsets.
//!
//! Each piece is consistent, the answer is not: what it says of a partition was true at some time
//! while the client waited. Whether an open transaction is about to change an offset is read at the
//! same time as the offset. Not here: the pauses ([`crate::group::coordinator`]).

use std::collections::BTreeMap;
use std::ops::Bound;

use wire::messages::TopicName;
use wire::messages::offset_fetch_request::OffsetFetchRequestGroup;
use wire::messages::offset_fetch_response::{
    OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};
use wire::protocol::StrBytes;
use wire::records::offsets::OffsetCommitValue;
use wire::types::{ErrorCode, Uuid};

use crate::group::consumer::ConsumerGroup;
use crate::group::groups::{Group, Groups, Position};
use crate::group::open::OfGroup;
use crate::group::versioned::VersionedValue;

/// Most bytes of metadata in an answer beyond the metadata of the group, counted once.
const REPEATED_BYTES_MAX: usize = 16 << 20;

/// An answer that is being built.
#[derive(Default)]
pub(crate) struct OffsetFetchAnswer {
    topics: Vec<OffsetFetchResponseTopics>,
    /// Where the request continues: the index of its topic, and of the topic's partition.
    at: (usize, usize),
    /// The last partition that was returned, for a request for all offsets.
    last: Option<(StrBytes, i32)>,
    /// Bytes of metadata.
    note_bytes: usize,
    /// Approximate bytes of the answer since the last [`OffsetFetchAnswer::take_bytes`].
    piece_bytes: usize,
    /// True when an offset in it is being appended; the append may fail.
    tells_staged: bool,
}

/// Bytes in an answer of an offset without its metadata, and of a topic without its name.
const FIELDS_BYTES: usize = 32;

impl OffsetFetchAnswer {
    /// Returns the offsets that were found.
    pub(crate) fn into_topics(self) -> Vec<OffsetFetchResponseTopics> {
        self.topics
    }

    /// Returns the approximate bytes of the answer since the last call.
    pub(crate) fn take_bytes(&mut self) -> usize {
        std::mem::take(&mut self.piece_bytes)
    }

    /// Returns true when an offset in the answer is being appended.
    pub(crate) fn tells_staged(&self) -> bool {
        self.tells_staged
    }

    /// Counts the answer for one partition.
    fn note(
        &mut self,
        finding: OffsetLookup<'_>,
        offset: Option<&VersionedValue<Position>>,
        told: usize,
    ) {
        self.tells_staged |= finding.latest && offset.is_some_and(VersionedValue::is_staged);
        self.note_bytes = self.note_bytes.saturating_add(told);
        let bytes = told.saturating_add(FIELDS_BYTES);
        self.piece_bytes = self.piece_bytes.saturating_add(bytes);
    }

    /// Begins the answer for a topic.
    fn begin_topic(&mut self, answer: OffsetFetchResponseTopics) {
        let bytes = answer.name.len().saturating_add(FIELDS_BYTES);
        self.piece_bytes = self.piece_bytes.saturating_add(bytes);
        self.topics.push(answer);
    }
}

/// How a piece reads offsets.
#[derive(Clone, Copy)]
struct OffsetLookup<'a> {
    group: Option<&'a Group>,
    /// The partitions that open transactions are about to change, for a client that asks for stable
    /// offsets.
    unstable: Option<&'a OfGroup>,
    /// Also read offsets that are being appended, for an answer that waits until they are
    /// committed.
    latest: bool,
}

impl OffsetLookup<'_> {
    fn position<'a>(&self, offset: &'a VersionedValue<Position>) -> Option<&'a OffsetCommitValue> {
        let position = if self.latest {
            offset.latest()
        } else {
            offset.committed()
        };
        position.map(|position| &position.value)
    }

    fn told(
        &self,
        topic: &StrBytes,
        index: i32,
        value: Option<&OffsetCommitValue>,
    ) -> OffsetFetchResponsePartitions {
        let moves = |all: &OfGroup| all.contains_key(&(topic.clone(), index));
        if self.unstable.is_some_and(moves) {
            return fetched(index, None).with_error_code(ErrorCode::UnstableOffsetCommit.code());
        }
        fetched(index, value)
    }
}

impl Groups {
    /// Checks the member id and the member epoch of a request, if it has them.
    pub(crate) fn check_fetch(&self, request: &OffsetFetchRequestGroup) -> Result<(), ErrorCode> {
        match self.consumer_group(&request.group_id) {
            Ok(group) => check_consumer_fetch(group, request),
            Err(_) => Ok(()),
        }
    }

    /// Finds up to `count` more offsets: the committed ones, or with `stable` the latest ones;
    /// returns true when there may be more.
    ///
    /// With `stable`, an offset that an open transaction is about to change gets an error. Returns
    /// `None` when a request names the same partitions so often that the answer exceeds its bound.
    pub(crate) fn fetch_some(
        &self,
        request: &OffsetFetchRequestGroup,
        stable: bool,
        count: usize,
        fetched: &mut OffsetFetchAnswer,
    ) -> Option<bool> {
        let finding = OffsetLookup {
            group: self.recorded_group(&request.group_id),
            unstable: self.open.all_of(&request.group_id).filter(|_| stable),
            latest: stable,
        };
        if request.topics.is_some() {
            let kept = finding.group.map_or(0, Group::offsets_bytes);
            let more = asked_for(request, finding, count, fetched);
            let bound = kept.saturating_add(REPEATED_BYTES_MAX);
            return (fetched.note_bytes <= bound).then_some(more);
        }
        Some(all_there_are(finding, count, fetched))
    }
}

fn asked_for(
    request: &OffsetFetchRequestGroup,
    finding: OffsetLookup<'_>,
    count: usize,
    told: &mut OffsetFetchAnswer,
) -> bool {
    let mut left = count;
    while left > 0 {
        let asked = request.topics.as_ref();
        let Some(topic) = asked.and_then(|asked| asked.get(told.at.0)) else {
            return false;
        };
        let (name, indexes) = (&topic.name, &topic.partition_indexes);
        let offsets = finding.group.and_then(|group| group.offsets.get(&name.0));
        let Some(some) = indexes.get(told.at.1..) else {
            unreachable!("the place is within the topic");
        };
        let some = some.get(..left).unwrap_or(some);
        let answers = some.iter().map(|index| {
            let offset = offsets.and_then(|offsets| offsets.get(index));
            let value = offset.and_then(|offset| finding.position(offset));
            let value = value.filter(|value| same_topic(value, topic.topic_id));
            told.note(
                finding,
                offset,
                value.map_or(0, |value| value.metadata.len()),
            );
            finding.told(name, *index, value)
        });
        let answers: Vec<_> = answers.collect();
        left = left.saturating_sub(answers.len().max(1));
        if told.at.1 == 0 {
            let answer = topic_answer(name.clone(), Vec::with_capacity(indexes.len()));
            told.begin_topic(answer.with_topic_id(topic.topic_id));
        }
        told.at.1 = told.at.1.saturating_add(answers.len());
        if let Some(last) = told.topics.last_mut() {
            last.partitions.extend(answers);
        }
        if told.at.1 >= indexes.len() {
            told.at = (told.at.0.saturating_add(1), 0);
        }
    }
    true
}

fn all_there_are(finding: OffsetLookup<'_>, count: usize, told: &mut OffsetFetchAnswer) -> bool {
    let Some(group) = finding.group else {
        return false;
    };
    let last = told.last.take();
    let from = match &last {
        None => Bound::Unbounded,
        Some((topic, _)) => Bound::Included(topic.clone()),
    };
    let after = |topic: &StrBytes| match &last {
        Some((name, index)) if name == topic => Bound::Excluded(*index),
        _ => Bound::Unbounded,
    };
    let topics = group.offsets.range((from, Bound::Unbounded));
    let all = topics.flat_map(|(topic, offsets): (_, &BTreeMap<i32, _>)| {
        let offsets = offsets.range((after(topic), Bound::Unbounded));
        offsets.map(move |(index, offset)| (topic, *index, offset))
    });
    let mut seen = 0;
    for (topic, index, offset) in all.take(count) {
        seen += 1;
        told.last = Some((topic.clone(), index));
        let value = finding.position(offset);
        told.note(
            finding,
            Some(offset),
            value.map_or(0, |value| value.metadata.len()),
        );
        let Some(value) = value else {
            continue;
        };
        let answer = finding.told(topic, index, Some(value));
        match told.topics.last_mut() {
            Some(last) if last.name.0 == *topic => last.partitions.push(answer),
            _ => {
                let name = TopicName(topic.clone());
                told.begin_topic(topic_answer(name, vec![answer]));
            }
        }
    }
    seen == count
}

/// Checks that a request with a member id comes from that member, in its epoch.
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
