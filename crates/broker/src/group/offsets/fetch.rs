//! Fetches of offsets, some at a time: a request may name 200,000 partitions, and a group have as many positions.
//!
//! Each piece is of one moment, the answer is not: what a client is told of a partition was so at some time while it waited. Whether
//! a transaction is about to move a position is found in the same moment as the position. Not here: who rests in between
//! ([`crate::group::coordinator`]).

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
use crate::group::versioned::Versioned;

/// Bytes of notes that an answer may have beside those of the group, each told once.
const REPEATED_BYTES_MAX: usize = 16 << 20;

/// An answer that is being put together.
#[derive(Default)]
pub(crate) struct Fetched {
    topics: Vec<OffsetFetchResponseTopics>,
    /// Where the request goes on: its topic, and the partition of that.
    at: (usize, usize),
    /// The last partition that was told of, for who asks for all.
    last: Option<(StrBytes, i32)>,
    /// Bytes of the notes.
    note_bytes: usize,
    /// About how many bytes of an answer the last piece has.
    piece_bytes: usize,
    /// Some of it was on its way to the log, and may not arrive.
    tells_staged: bool,
}

/// Bytes of an answer for a position beside its note, and for a topic beside its name.
const FIELDS_BYTES: usize = 32;

impl Fetched {
    /// What was found.
    pub(crate) fn into_topics(self) -> Vec<OffsetFetchResponseTopics> {
        self.topics
    }

    /// About how many bytes of an answer were found since this was asked last.
    pub(crate) fn take_bytes(&mut self) -> usize {
        std::mem::take(&mut self.piece_bytes)
    }

    /// True when some of it was on its way to the log.
    pub(crate) fn tells_staged(&self) -> bool {
        self.tells_staged
    }

    /// Counts what is told of one partition.
    fn note(&mut self, finding: Finding<'_>, offset: Option<&Versioned<Position>>, told: usize) {
        self.tells_staged |= finding.latest && offset.is_some_and(Versioned::is_staged);
        self.note_bytes = self.note_bytes.saturating_add(told);
        let bytes = told.saturating_add(FIELDS_BYTES);
        self.piece_bytes = self.piece_bytes.saturating_add(bytes);
    }

    /// Begins to tell of a topic.
    fn begin_topic(&mut self, answer: OffsetFetchResponseTopics) {
        let bytes = answer.name.len().saturating_add(FIELDS_BYTES);
        self.piece_bytes = self.piece_bytes.saturating_add(bytes);
        self.topics.push(answer);
    }
}

/// How positions are told.
#[derive(Clone, Copy)]
struct Finding<'a> {
    group: Option<&'a Group>,
    /// The partitions that transactions are about to move, for who wants to know.
    unstable: Option<&'a OfGroup>,
    /// Also positions that are on their way to the log, for an answer that waits until they are there.
    latest: bool,
}

impl Finding<'_> {
    fn position<'a>(&self, offset: &'a Versioned<Position>) -> Option<&'a OffsetCommitValue> {
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
    /// Whether whoever asks may.
    pub(crate) fn check_fetch(&self, request: &OffsetFetchRequestGroup) -> Result<(), ErrorCode> {
        match self.consumer_group(&request.group_id) {
            Ok(group) => check_consumer_fetch(group, request),
            Err(_) => Ok(()),
        }
    }

    /// Finds `count` positions more: those committed, or (`stable`) the latest, and that they are about to move. True when there may be
    /// more. None when so much is told again and again that the answer has no bound.
    pub(crate) fn fetch_some(
        &self,
        request: &OffsetFetchRequestGroup,
        stable: bool,
        count: usize,
        fetched: &mut Fetched,
    ) -> Option<bool> {
        let finding = Finding {
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
    finding: Finding<'_>,
    count: usize,
    told: &mut Fetched,
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

fn all_there_are(finding: Finding<'_>, count: usize, told: &mut Fetched) -> bool {
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
