//! `TxnOffsetCommit` (key 28), versions 0-5: a group's positions that count when the transaction is committed.
//!
//! Version 3 brought the member, so that one that has been left out of the group cannot commit; version 5 is that of
//! transaction protocol 2: the group's partition of `__consumer_offsets` is taken into the transaction with it. The
//! positions are written as a batch of the producer, which the transaction's marker ends.

use std::rc::Rc;

use bytes::Bytes;
use platform::Platform;
use wire::batch::builder::BatchBuilder;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use wire::messages::{OffsetCommitRequest, TxnOffsetCommitRequest, TxnOffsetCommitResponse};
use wire::protocol::StrBytes;
use wire::types::{ErrorCode, Offset, ProducerId, TimestampMs};

use crate::Broker;
use crate::group::coordinator::Written;
use crate::group::records::GroupRecord;
use crate::image::{Image, OFFSETS_TOPIC};
use crate::partition::{Acks, Verified};
use crate::transaction::{admit_offsets, told_of_admission};

pub(crate) async fn handle<P: Platform>(
    broker: Rc<Broker<P>>,
    request: TxnOffsetCommitRequest,
    version: i16,
    host: StrBytes,
) -> TxnOffsetCommitResponse {
    let producer = (ProducerId(request.producer_id.0), request.producer_epoch);
    let id = request.transactional_id.0.to_string();
    if request.group_id.is_empty() {
        return answer(&request, |_, _| Some(ErrorCode::InvalidGroupId));
    }
    let partition = match broker.groups.partition_of(request.group_id.as_str()) {
        Ok(partition) => partition,
        Err(code) => return answer(&request, |_, _| Some(code)),
    };
    let admitted = admit_offsets(&broker, &id, producer, partition, version).await;
    let verified = match admitted {
        Ok(verified) => verified,
        Err(code) => {
            let code = told_of_admission(code, version);
            return answer(&request, |topic, index| {
                let known = is_there(&broker.image(), &request, topic, index);
                Some(if known {
                    code
                } else {
                    ErrorCode::UnknownTopicOrPartition
                })
            });
        }
    };
    // The topic may have been made anew meanwhile, with another number of partitions.
    if broker.groups.partition_of(request.group_id.as_str()) != Ok(partition) {
        return answer(&request, |_, _| Some(ErrorCode::NotCoordinator));
    }
    // The same rules as for a plain commit, and the same records.
    let plain = as_plain(&request);
    let image = broker.image();
    let decided = broker
        .groups
        .decide(request.group_id.as_str(), |groups, now| {
            groups.asked_by(&host);
            groups.commit_in_transaction(&plain, &*image, now)
        });
    let (records, told) = match decided {
        Ok(decided) => decided,
        Err(code) => return answer(&request, |_, _| Some(code)),
    };
    let stored = if records.is_empty() {
        Ok(())
    } else {
        let stored = store(&broker, partition, producer, verified, &records).await;
        stored.map_err(|code| match code {
            ErrorCode::InvalidTxnState => {
                told_of_admission(ErrorCode::TransactionAbortable, version)
            }
            code => code,
        })
    };
    let told: Vec<Vec<i16>> = told
        .topics
        .iter()
        .map(|topic| topic.partitions.iter().map(|it| it.error_code).collect())
        .collect();
    answer(&request, |topic, index| {
        let code = told.get(topic).and_then(|codes| codes.get(index)).copied();
        code.filter(|code| *code != 0)
            .and_then(ErrorCode::try_from_code)
            .or(stored.err())
    })
}

/// True when the partition at this place of the request exists: one that does not is told so, whoever asks.
fn is_there(image: &Image, request: &TxnOffsetCommitRequest, topic: usize, index: usize) -> bool {
    let place = request.topics.get(topic).and_then(|topic| {
        let partition = topic.partitions.get(index)?;
        Some((topic.name.as_str(), partition.partition_index))
    });
    place.is_some_and(|(name, partition)| {
        let topic = image.topic_by_name(name);
        topic.is_some_and(|topic| topic.partitions.contains_key(&partition))
    })
}

/// Appends the records as a batch of the producer, and keeps them until its transaction ends.
async fn store<P: Platform>(
    broker: &Rc<Broker<P>>,
    partition: i32,
    (producer_id, epoch): (ProducerId, i16),
    verified: Verified,
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
    let batch = builder.finish();
    let batch = batch.map_err(|_| ErrorCode::UnknownServerError)?;
    let accepted = led.append_for_producer(&batch, verified, clock);
    let accepted = accepted.map_err(|error| told_of_append(error.code))?;
    let written = raw
        .into_iter()
        .zip(0..)
        .map(|((key, value), index)| Written {
            key,
            value,
            offset: accepted.base_offset.plus(index),
            timestamp: now,
        });
    broker
        .groups
        .opened(partition, producer_id, written.collect());
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

fn as_plain(request: &TxnOffsetCommitRequest) -> OffsetCommitRequest {
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            OffsetCommitRequestPartition::default()
                .with_partition_index(partition.partition_index)
                .with_committed_offset(partition.committed_offset)
                .with_committed_leader_epoch(partition.committed_leader_epoch)
                .with_committed_metadata(partition.committed_metadata.clone())
        });
        OffsetCommitRequestTopic::default()
            .with_name(topic.name.clone())
            .with_partitions(partitions.collect())
    });
    OffsetCommitRequest::default()
        .with_group_id(request.group_id.clone())
        .with_generation_id_or_member_epoch(request.generation_id)
        .with_member_id(request.member_id.clone())
        .with_group_instance_id(request.group_instance_id.clone())
        .with_topics(topics.collect())
}

/// Answers each partition, which `error` is told by its place in the request.
fn answer(
    request: &TxnOffsetCommitRequest,
    error: impl Fn(usize, usize) -> Option<ErrorCode>,
) -> TxnOffsetCommitResponse {
    let topics = request.topics.iter().enumerate().map(|(at, topic)| {
        let partitions = topic.partitions.iter().enumerate();
        let partitions = partitions.map(|(index, partition)| {
            TxnOffsetCommitResponsePartition::default()
                .with_partition_index(partition.partition_index)
                .with_error_code(error(at, index).map_or(0, |code| code.code()))
        });
        TxnOffsetCommitResponseTopic::default()
            .with_name(topic.name.clone())
            .with_partitions(partitions.collect())
    });
    TxnOffsetCommitResponse::default().with_topics(topics.collect())
}

/// Every partition with the same error.
pub(crate) fn refused(
    request: &TxnOffsetCommitRequest,
    code: ErrorCode,
) -> TxnOffsetCommitResponse {
    answer(request, |_, _| Some(code))
}
