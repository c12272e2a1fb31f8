//! `TxnOffsetCommit` (key 28), versions 0-5: a group's offsets that take effect when the
//! transaction commits.
//!
//! Version 3 added the member, so that a member that was removed from the group cannot commit;
//! version 5 belongs to transaction protocol 2: it adds the group's partition of
//! `__consumer_offsets` to the transaction. The offsets are written as a batch of the producer,
//! which the transaction's marker ends.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use platform::Platform;
use wire::acl::{Operation, ResourceType};
use wire::batch::builder::BatchBuilder;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use wire::messages::{
    OffsetCommitRequest, OffsetCommitResponse, TxnOffsetCommitRequest, TxnOffsetCommitResponse,
};
use wire::protocol::StrBytes;
use wire::types::{ErrorCode, Offset, ProducerId, TimestampMs};

use crate::Broker;
use crate::access::Access;
use crate::group::coordinator::{InLine, LoggedRecord};
use crate::group::records::GroupRecord;
use crate::group::{CheckedCommit, Commit, Verdict, is_long};
use crate::handler::offset_commit::in_turn;
use crate::image::Image;
use crate::names::OFFSETS_TOPIC;
use crate::partition::{Acks, TransactionProof};
use crate::rests::Rests;
use crate::transaction::{admit_offsets, told_of_admission};

/// A commit whose topics and offsets were checked.
struct CheckedTxnCommit {
    plain: OffsetCommitRequest,
    readied: CheckedCommit,
    /// The image with which the topics were looked up.
    seen: Arc<Image>,
    place: InLine,
}

pub(crate) async fn handle<P: Platform>(
    broker: Rc<Broker<P>>,
    request: Rc<TxnOffsetCommitRequest>,
    version: i16,
    (host, access): (StrBytes, Access),
) -> TxnOffsetCommitResponse {
    let group = request.group_id.as_str();
    if group.is_empty() {
        return refused(&request, ErrorCode::InvalidGroupId).await;
    }
    let partition = match broker.groups.partition_of(group) {
        Ok(partition) => partition,
        Err(code) => return refused(&request, code).await,
    };
    // Before the first yield, so that commits to a group are decided in order of arrival.
    let topics = request.topics.iter();
    let notes = topics.map(|topic| topic.partitions.iter().map(|it| &it.committed_metadata));
    let place = broker
        .groups
        .in_line(&request.group_id, &host, is_long(notes));
    // The rules and records are those of a plain commit. The steps that yield come first, because a
    // producer's admission holds only for the moment.
    let plain = as_plain(&request).await;
    let seen = broker.image();
    let (how, rules) = (Commit::in_transaction(), broker.groups.commit_rules());
    let readied = CheckedCommit::of(&plain, how, &*seen, rules, &access).await;
    let mut asked = CheckedTxnCommit {
        plain,
        readied,
        seen,
        place: in_turn(place).await,
    };
    let client = (version, &host, &access);
    match commit(&broker, &request, &mut asked, partition, client).await {
        Ok(verdict) => told(asked.readied.told(&asked.plain, verdict).await).await,
        Err(code) => refused(&request, code).await,
    }
}

/// Commits the offsets; an error applies to every partition, also to unknown ones.
async fn commit<P: Platform>(
    broker: &Rc<Broker<P>>,
    request: &TxnOffsetCommitRequest,
    asked: &mut CheckedTxnCommit,
    partition: i32,
    (version, host, access): (i16, &StrBytes, &Access),
) -> Result<Verdict, ErrorCode> {
    let (group, groups) = (request.group_id.as_str(), &broker.groups);
    let producer = (ProducerId(request.producer_id.0), request.producer_epoch);
    let id = request.transactional_id.0.to_string();
    let admitted = admit_offsets(broker, &id, producer, partition, version).await;
    let verified = match admitted {
        Ok(verified) => verified,
        Err(code) => return Ok(Verdict::Refused(told_of_admission(code, version))),
    };
    // The topic may have been recreated meanwhile, with another number of partitions.
    if groups.partition_of(group) != Ok(partition) {
        return Err(ErrorCode::NotCoordinator);
    }
    // Checked first, because `check_again` looks at the whole request in one piece.
    if !groups.fits_log(group, asked.readied.log_bytes())? {
        return Ok(Verdict::NoRoom(told_of_append(ErrorCode::MessageTooLarge)));
    }
    let (image, renewed) = (broker.image(), access.renewed_by(broker));
    if let Some(code) = renewed.as_ref().and_then(|access| lost(access, &id, group)) {
        return Ok(Verdict::Refused(code));
    }
    if renewed.is_some() || !Arc::ptr_eq(&asked.seen, &image) {
        let renewed = renewed.as_ref();
        asked.readied.check_again(&asked.plain, &*image, renewed);
    }
    let verdict = groups.decide(group, |groups, now| {
        groups.asked_by(host);
        groups.commit(&asked.plain, &asked.readied, now)
    })?;
    let records = asked.readied.taken(verdict);
    if records.is_empty() {
        return Ok(verdict);
    }
    let place = asked.place.take();
    let stored = store(broker, partition, producer, (verified, place), &records).await;
    Ok(match stored {
        Ok(()) => verdict,
        Err(ErrorCode::InvalidTxnState) => {
            Verdict::NoRoom(told_of_admission(ErrorCode::TransactionAbortable, version))
        }
        Err(code) => Verdict::NoRoom(code),
    })
}

/// Returns the error of a client that may not commit offsets of this group in the transactions of
/// this id, asked again after a wait.
pub(crate) fn lost(access: &Access, id: &str, group: &str) -> Option<ErrorCode> {
    if !access.may(Operation::Write, ResourceType::TransactionalId, id) {
        return Some(ErrorCode::TransactionalIdAuthorizationFailed);
    }
    let may = access.may(Operation::Read, ResourceType::Group, group);
    (!may).then_some(ErrorCode::GroupAuthorizationFailed)
}

/// Appends the records as a batch of the producer, and keeps them until its transaction ends.
async fn store<P: Platform>(
    broker: &Rc<Broker<P>>,
    partition: i32,
    (producer_id, epoch): (ProducerId, i16),
    (verified, place): (TransactionProof, InLine),
    records: &[GroupRecord],
) -> Result<(), ErrorCode> {
    let topic = broker.image().topic_by_name(OFFSETS_TOPIC).map(|it| it.id);
    let topic = topic.ok_or(ErrorCode::CoordinatorNotAvailable)?;
    let led = broker.led((topic, partition));
    let led = led.map_err(|_| ErrorCode::NotCoordinator)?;
    let bytes = records.iter().map(GroupRecord::size);
    if bytes.fold(0, usize::saturating_add) > led.config().max_message_bytes {
        return Err(told_of_append(ErrorCode::MessageTooLarge));
    }
    let clock = broker.platform.clock();
    let now = TimestampMs(clock.wall_ms());
    let builder = BatchBuilder::new(Offset::ZERO, led.leader_epoch()).transactional(true);
    let mut builder = builder.producer(producer_id, epoch, -1);
    let raw: Vec<(Bytes, Option<Bytes>)> = records.iter().map(GroupRecord::encode).collect();
    for (key, value) in &raw {
        builder.add(now, Some(key), value.as_deref(), &[]);
    }
    let batch = builder.finish_whole();
    let batch = batch.map_err(|_| ErrorCode::UnknownServerError)?;
    let accepted = led.append_for_producer(&batch, verified, clock);
    let accepted = accepted.map_err(|error| told_of_append(error.code))?;
    let written = raw
        .into_iter()
        .zip(0..)
        .map(|((key, value), index)| LoggedRecord {
            key,
            value,
            offset: accepted.base_offset.plus(index),
            timestamp: now,
        });
    broker
        .groups
        .opened(partition, producer_id, written.collect());
    drop(place);
    let deadline = clock.after(broker.options.group.offset_commit_timeout);
    let safe = led.acknowledged(accepted, Acks::All, deadline).await;
    safe.map_err(told_of_append)
}

fn told_of_append(code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError => ErrorCode::NotCoordinator,
        ErrorCode::RequestTimedOut => ErrorCode::CoordinatorNotAvailable,
        ErrorCode::MessageTooLarge => ErrorCode::InvalidCommitOffsetSize,
        code => code,
    }
}

async fn as_plain(request: &TxnOffsetCommitRequest) -> OffsetCommitRequest {
    let mut topics = Vec::with_capacity(request.topics.len());
    let mut rests = Rests::new();
    for topic in &request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in &topic.partitions {
            let plain = OffsetCommitRequestPartition::default()
                .with_partition_index(partition.partition_index)
                .with_committed_offset(partition.committed_offset)
                .with_committed_leader_epoch(partition.committed_leader_epoch)
                .with_committed_metadata(partition.committed_metadata.clone());
            partitions.push(plain);
            rests.item().await;
        }
        let plain = OffsetCommitRequestTopic::default().with_name(topic.name.clone());
        topics.push(plain.with_partitions(partitions));
        rests.item().await;
    }
    OffsetCommitRequest::default()
        .with_group_id(request.group_id.clone())
        .with_generation_id_or_member_epoch(request.generation_id)
        .with_member_id(request.member_id.clone())
        .with_group_instance_id(request.group_instance_id.clone())
        .with_topics(topics)
}

/// Converts the response of a plain commit into one of a commit in a transaction.
async fn told(plain: OffsetCommitResponse) -> TxnOffsetCommitResponse {
    let mut topics = Vec::with_capacity(plain.topics.len());
    let mut rests = Rests::new();
    for topic in plain.topics {
        rests.items(topic.partitions.len().saturating_add(1)).await;
        let partitions = topic.partitions.into_iter().map(|partition| {
            TxnOffsetCommitResponsePartition::default()
                .with_partition_index(partition.partition_index)
                .with_error_code(partition.error_code)
        });
        let told = TxnOffsetCommitResponseTopic::default().with_name(topic.name);
        topics.push(told.with_partitions(partitions.collect()));
    }
    TxnOffsetCommitResponse::default().with_topics(topics)
}

/// Returns the same error for every partition.
pub(crate) async fn refused(
    request: &TxnOffsetCommitRequest,
    code: ErrorCode,
) -> TxnOffsetCommitResponse {
    let mut topics = Vec::with_capacity(request.topics.len());
    let mut rests = Rests::new();
    for topic in &request.topics {
        rests.items(topic.partitions.len().saturating_add(1)).await;
        let partitions = topic.partitions.iter().map(|partition| {
            TxnOffsetCommitResponsePartition::default()
                .with_partition_index(partition.partition_index)
                .with_error_code(code.code())
        });
        let told = TxnOffsetCommitResponseTopic::default().with_name(topic.name.clone());
        topics.push(told.with_partitions(partitions.collect()));
    }
    TxnOffsetCommitResponse::default().with_topics(topics)
}
