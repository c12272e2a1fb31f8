//! Commits of offsets: a request is checked in pieces, then decided without a pause.
//!
//! A request may name 200,000 partitions. The checks that do not depend on the group run with
//! pauses ([`CheckedCommit`]): which topics the client may read, which partitions exist, whose
//! metadata is too long, how many bytes the records take. The decision ([`Groups::commit`]) looks
//! at the group once, and at no more partitions than fit into one batch of the log; the answer is
//! again built with pauses ([`CheckedCommit::told`]). Invariant: every partition in a decision
//! exists at that moment, and the client may read its topic ([`CheckedCommit::check_again`]). Not
//! here: the order of commits to a group ([`crate::handler::offset_commit`]).

use wire::acl::{Operation, ResourceType};
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_commit_response::OffsetCommitResponsePartition;
use wire::messages::{OffsetCommitRequest, OffsetCommitResponse};
use wire::protocol::StrBytes;
use wire::records::offsets::OffsetCommitValue;
use wire::types::{ErrorCode, TopicId};

use super::{COMMIT_BY_ID, commit_answer, unknown_to};
use crate::access::Access;
use crate::group::classic::ClassicGroupState;
use crate::group::cluster::Topics;
use crate::group::consumer::ConsumerGroup;
use crate::group::groups::{GROUP_BYTES, Groups, OFFSET_BYTES};
use crate::group::records::GroupRecord;
use crate::group::{ClockReading, owned};
use crate::rests::{PIECE, Rests};

/// Returns true when a request, given the metadata of its partitions by topic, is so long that it
/// is checked with pauses.
pub(crate) fn is_long<'a, T>(topics: impl IntoIterator<Item = T>) -> bool
where
    T: IntoIterator<Item = &'a Option<StrBytes>>,
{
    let mut left = PIECE;
    for notes in topics {
        let notes = notes.into_iter().map(|note| {
            let note = note.as_ref().map_or(0, |note| note.len() / NOTE_BYTES);
            note.saturating_add(1)
        });
        for worth in notes.chain([1]) {
            left = left.saturating_sub(worth);
            if left == 0 {
                return true;
            }
        }
    }
    false
}

/// The error for a topic that the client may not read.
const DENIED: ErrorCode = ErrorCode::TopicAuthorizationFailed;

/// Bytes of metadata that are as much work as a partition.
const NOTE_BYTES: usize = 1024;

/// The kind of a commit.
#[derive(Clone, Copy)]
pub(crate) struct Commit {
    /// The version of `OffsetCommit` whose errors the client knows.
    version: i16,
    /// True when the offsets take effect only when a transaction is committed.
    transactional: bool,
}

impl Commit {
    /// Returns the kind of a plain commit with this request version.
    pub(crate) const fn plain(version: i16) -> Self {
        Self {
            version,
            transactional: false,
        }
    }

    /// Returns the kind of a commit in a transaction.
    ///
    /// A producer of a version without member ids may commit even while the group has members, and
    /// a rebalance does not prevent it.
    pub(crate) const fn in_transaction() -> Self {
        Self {
            version: 8,
            transactional: true,
        }
    }
}

/// The decision on a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// The commit is accepted, except for partitions with an error of their own.
    Taken,
    /// The client may not commit: the error goes to every existing partition.
    Refused(ErrorCode),
    /// There is no room for the offsets that would have been accepted.
    NoRoom(ErrorCode),
}

/// A commit that has been checked.
pub(crate) struct CheckedCommit {
    how: Commit,
    /// The records to write, and for each the index of its topic and of its partition in the
    /// request.
    records: Vec<GroupRecord>,
    places: Vec<(usize, usize)>,
    /// True when some partition exists, even if its metadata is too long.
    knows_some: bool,
    /// Least bytes that the records take in the log.
    log_bytes: usize,
    /// The answer with the errors that do not depend on the group.
    answer: OffsetCommitResponse,
}

impl CheckedCommit {
    /// Checks a request with pauses; topics that the client may not read, and partitions that do
    /// not exist, get their errors before the group is checked.
    pub(crate) async fn of(
        request: &OffsetCommitRequest,
        how: Commit,
        topics: &impl Topics,
        (now_ms, note_max): (i64, usize),
        access: &Access,
    ) -> Self {
        // All records share one copy: an id may be long, and partitions many.
        let group = owned(&request.group_id);
        let mut readied = Self {
            how,
            records: Vec::new(),
            places: Vec::new(),
            knows_some: false,
            log_bytes: 0,
            answer: OffsetCommitResponse::default(),
        };
        let mut rests = Rests::new();
        for (at, topic) in request.topics.iter().enumerate() {
            let denied = is_denied(how.version, topic, access);
            let id = topics.topic_id(&topic.name).filter(|_| !denied);
            let name = owned(&topic.name);
            let mut answers = Vec::with_capacity(topic.partitions.len());
            for (within, partition) in topic.partitions.iter().enumerate() {
                let index = partition.partition_index;
                let known = id.filter(|_| topics.has_partition(&topic.name, index));
                readied.knows_some |= known.is_some();
                let value = match known {
                    None if denied => Err(DENIED),
                    None => Err(unknown_to(how.version, topic)),
                    Some(id) => value(request, partition, id, (now_ms, note_max)),
                };
                let answer = OffsetCommitResponsePartition::default().with_partition_index(index);
                answers
                    .push(answer.with_error_code(value.as_ref().err().map_or(0, ErrorCode::code)));
                if let Ok(value) = value {
                    let record = GroupRecord::Offset {
                        group: group.clone(),
                        topic: name.clone(),
                        partition: index,
                        value: Some(value),
                    };
                    readied.log_bytes = readied.log_bytes.saturating_add(record.log_bytes());
                    readied.records.push(record);
                    readied.places.push((at, within));
                }
                let note = partition.committed_metadata.as_ref();
                let note = note.map_or(0, |note| note.len() / NOTE_BYTES);
                rests.items(note.saturating_add(1)).await;
            }
            readied.answer.topics.push(commit_answer(topic, answers));
            rests.item().await;
        }
        readied
    }

    /// Returns the least bytes that the records take in the log.
    pub(crate) fn log_bytes(&self) -> usize {
        self.log_bytes
    }

    /// Checks again, after a pause, whether the partitions exist, and whether the client may still
    /// read the topics if that may have changed.
    pub(crate) fn check_again(
        &mut self,
        request: &OffsetCommitRequest,
        topics: &impl Topics,
        renewed: Option<&Access>,
    ) {
        let records = std::mem::take(&mut self.records);
        let places = std::mem::take(&mut self.places);
        let version = self.how.version;
        // The records of a topic come together.
        let mut last = None;
        for (record, place) in records.into_iter().zip(places) {
            let Some(asked) = request.topics.get(place.0) else {
                unreachable!("a record is of a topic of the request");
            };
            let denied = match (renewed, last) {
                (None, _) => false,
                (Some(_), Some((at, denied))) if at == place.0 => denied,
                (Some(access), _) => is_denied(version, asked, access),
            };
            last = Some((place.0, denied));
            if !denied && is_there(&record, topics) {
                self.records.push(record);
                self.places.push(place);
                continue;
            }
            let told = self.answer.topics.get_mut(place.0);
            if let Some(told) = told.and_then(|topic| topic.partitions.get_mut(place.1)) {
                let unknown = unknown_to(version, asked);
                told.error_code = if denied { DENIED } else { unknown }.code();
            }
        }
    }

    /// Returns the records if the verdict is to write them.
    pub(crate) fn taken(&mut self, verdict: Verdict) -> Vec<GroupRecord> {
        match verdict {
            Verdict::Taken => std::mem::take(&mut self.records),
            _ => Vec::new(),
        }
    }

    /// Returns the records.
    fn records(&self) -> &[GroupRecord] {
        &self.records
    }

    /// Builds the answer with pauses.
    pub(crate) async fn told(
        mut self,
        request: &OffsetCommitRequest,
        verdict: Verdict,
    ) -> OffsetCommitResponse {
        if verdict == Verdict::Taken {
            return self.answer;
        }
        let mut rests = Rests::new();
        for (asked, topic) in request.topics.iter().zip(&mut self.answer.topics) {
            let unknown = unknown_to(self.how.version, asked).code();
            for partition in &mut topic.partitions {
                match verdict {
                    Verdict::Refused(error)
                        if ![unknown, DENIED.code()].contains(&partition.error_code) =>
                    {
                        partition.error_code = error.code();
                    }
                    Verdict::NoRoom(error) if partition.error_code == 0 => {
                        partition.error_code = error.code();
                    }
                    _ => {}
                }
                rests.item().await;
            }
            rests.item().await;
        }
        self.answer
    }
}

/// Returns true for a topic that the client may not read; an unknown id denies nothing.
fn is_denied(version: i16, topic: &OffsetCommitRequestTopic, access: &Access) -> bool {
    let is_unknown_id = version >= COMMIT_BY_ID && topic.name.is_empty();
    !is_unknown_id && !access.may(Operation::Read, ResourceType::Topic, &topic.name)
}

fn is_there(record: &GroupRecord, topics: &impl Topics) -> bool {
    let GroupRecord::Offset {
        topic,
        partition,
        value: Some(value),
        ..
    } = record
    else {
        return false;
    };
    topics.topic_id(topic) == Some(TopicId(value.topic_id))
        && topics.has_partition(topic, *partition)
}

fn value(
    request: &OffsetCommitRequest,
    partition: &OffsetCommitRequestPartition,
    topic: TopicId,
    (now_ms, note_max): (i64, usize),
) -> Result<OffsetCommitValue, ErrorCode> {
    let note = partition.committed_metadata.as_ref();
    let note = note.map_or("", StrBytes::as_str);
    if note.encode_utf16().count() > note_max {
        return Err(ErrorCode::OffsetMetadataTooLarge);
    }
    let retention = request.retention_time_ms;
    let expires = if retention == -1 {
        -1
    } else {
        now_ms.saturating_add(retention)
    };
    Ok(OffsetCommitValue {
        offset: partition.committed_offset,
        leader_epoch: partition.committed_leader_epoch,
        metadata: note.to_owned(),
        commit_timestamp: now_ms,
        expire_timestamp: expires,
        topic_id: topic.0,
    })
}

impl Groups {
    /// Decides whether the group accepts a commit, whose records are [`CheckedCommit::records`].
    pub(crate) fn commit(
        &mut self,
        request: &OffsetCommitRequest,
        readied: &CheckedCommit,
        now: ClockReading,
    ) -> Verdict {
        if !readied.knows_some {
            return Verdict::Taken;
        }
        let (how, records) = (readied.how, readied.records());
        if let Err(error) = self.check_commit(request, how, records, now) {
            return Verdict::Refused(error);
        }
        let group = &request.group_id;
        match self.check_growth(group, self.growth(group, records)) {
            Ok(()) => Verdict::Taken,
            Err(error) => Verdict::NoRoom(error),
        }
    }

    /// Returns the bytes of the offsets that are new to the group; changing an existing one is
    /// always allowed.
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
            // The group id is kept once.
            let own = record.size().saturating_sub(id.len());
            all.saturating_add(own).saturating_add(OFFSET_BYTES)
        });
        if known.is_none() && offsets > 0 {
            offsets.saturating_add(GROUP_BYTES).saturating_add(id.len())
        } else {
            offsets
        }
    }

    /// Checks who commits: a member of the current generation, or any client without a generation
    /// while the group has no members.
    fn check_commit(
        &mut self,
        request: &OffsetCommitRequest,
        how: Commit,
        records: &[GroupRecord],
        now: ClockReading,
    ) -> Result<(), ErrorCode> {
        if let Ok(group) = self.consumer_group(&request.group_id) {
            return check_consumer_commit(group, request, how, records);
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
        if generation < 0 && machine.state() == ClassicGroupState::Empty {
            return Ok(());
        }
        if generation >= 0 || !request.member_id.is_empty() || instance.is_some() {
            machine.check_member(&request.member_id, instance)?;
            if generation != machine.generation() {
                return Err(ErrorCode::IllegalGeneration);
            }
        } else if !how.transactional && machine.state() != ClassicGroupState::Empty {
            return Err(ErrorCode::UnknownMemberId);
        }
        if !how.transactional && machine.state() == ClassicGroupState::CompletingRebalance {
            return Err(ErrorCode::RebalanceInProgress);
        }
        machine.touch(&request.member_id, now);
        Ok(())
    }
}

/// Checks a commit to a consumer group.
///
/// A member commits in its epoch, or in an older one that is not before the epoch in which it got
/// the partition. Any client commits without an epoch while the group has no members.
fn check_consumer_commit(
    group: &ConsumerGroup,
    request: &OffsetCommitRequest,
    how: Commit,
    records: &[GroupRecord],
) -> Result<(), ErrorCode> {
    let epoch = request.generation_id_or_member_epoch;
    let id = &request.member_id;
    // A producer of a version without member ids.
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
    for record in records {
        let GroupRecord::Offset {
            partition,
            value: Some(value),
            ..
        } = record
        else {
            continue;
        };
        let since = progress.held_since(value.topic_id, *partition);
        if since.is_none_or(|since| epoch < since) {
            return Err(stale);
        }
    }
    Ok(())
}
