//! `DeleteRecords` (key 21), versions 0-2: raises a partition's log start offset; -1 means up to
//! the high watermark.
//!
//! The response is sent when the new log start offset is durable, so that deleted records do not
//! come back after a crash. It does not wait for other directories or other logs. A partition that
//! a request names several times is deleted from once, up to the last of the offsets, and answered
//! once, as in Kafka. A client needs the right to delete on each topic.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use platform::Platform;
use platform::clock::Instant;
use wire::acl::Operation;
use wire::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsTopicResult,
};
use wire::messages::{DeleteRecordsRequest, DeleteRecordsResponse, TopicName};
use wire::types::{ErrorCode, Offset, TopicPartition};

use crate::Broker;
use crate::access::Access;
use crate::checkpoints::CheckpointStates;
use crate::fetch_session::TopicKey;
use crate::names::is_internal;
use crate::partition::Partition;
use crate::rests::{Rests, each};
use crate::route::at_partitions;
use crate::topic_rights::TopicRight;

pub(crate) async fn handle<P: Platform>(
    broker: &Rc<Broker<P>>,
    access: &Access,
    request: DeleteRecordsRequest,
) -> DeleteRecordsResponse {
    let mut rests = Rests::new();
    let asked = by_partition(&request, &mut rests).await;
    let mut items = Vec::new();
    let mut right = TopicRight::new(access, Operation::Delete);
    for (name, partitions) in &asked {
        let key = TopicKey::Name(name.as_str().into());
        let allowed = right.check(broker, &key);
        rests.item().await;
        for (&index, &offset) in partitions {
            let target = allowed.and_then(|()| broker.target(&key, index));
            items.push((target, offset));
            rests.item().await;
        }
    }
    let timeout = Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
    let deadline = broker.platform.clock().after(timeout);
    let access = access.clone();
    let starts = at_partitions(broker, items, move |broker, partition, offset| {
        raise(broker, access.clone(), partition, (offset, deadline))
    });
    let mut starts = durable(broker, starts.await).await.into_iter();
    let mut topics = Vec::with_capacity(asked.len());
    for (name, partitions) in asked {
        rests.items(partitions.len().max(1)).await;
        let partitions = partitions.into_keys().zip(starts.by_ref());
        let partitions = partitions.map(|(index, start)| {
            let answer = DeleteRecordsPartitionResult::default().with_partition_index(index);
            match start {
                Ok(start) => answer.with_low_watermark(start.0),
                Err(code) => answer.with_low_watermark(-1).with_error_code(code.code()),
            }
        });
        topics.push(
            DeleteRecordsTopicResult::default()
                .with_name(name.clone())
                .with_partitions(partitions.collect()),
        );
    }
    DeleteRecordsResponse::default().with_topics(topics)
}

/// The offset before which to delete, of each partition of each topic.
// Bounded: lives with one request, `wire::kafka::shape::DECODED_BYTES_MAX`.
type RequestedOffsets<'a> = BTreeMap<&'a TopicName, BTreeMap<i32, Offset>>;

/// Returns what a request asks of each partition that it names.
///
/// Each partition costs a task and a wait: a request could name one 245,760 times.
async fn by_partition<'a>(
    request: &'a DeleteRecordsRequest,
    rests: &mut Rests,
) -> RequestedOffsets<'a> {
    let mut asked = RequestedOffsets::new();
    for topic in &request.topics {
        let partitions = asked.entry(&topic.name).or_default();
        for partition in &topic.partitions {
            partitions.insert(partition.partition_index, Offset(partition.offset));
            rests.item().await;
        }
        rests.item().await;
    }
    asked
}

/// A log whose start was raised.
struct RaisedLogStart {
    start: Offset,
    log: TopicPartition,
    /// The directories whose checkpoints must contain the new start.
    dirs: Vec<PathBuf>,
}

/// Returns the log start offsets that survive a crash.
async fn durable<P: Platform>(
    broker: &Broker<P>,
    deleted: Vec<Result<RaisedLogStart, ErrorCode>>,
) -> Vec<Result<Offset, ErrorCode>> {
    let mut dirs = BTreeSet::new();
    let mut rests = Rests::new();
    for deleted in deleted.iter().flatten() {
        dirs.extend(deleted.dirs.iter().cloned());
        rests.item().await;
    }
    let written = if dirs.is_empty() {
        CheckpointStates::default()
    } else {
        broker.checkpoint_in(dirs).await
    };
    let durable = |deleted: Result<RaisedLogStart, ErrorCode>| {
        let RaisedLogStart { start, log, dirs } = deleted?;
        let is_durable = dirs.iter().all(|dir| written.holds(dir, &log));
        is_durable
            .then_some(start)
            .ok_or(ErrorCode::KafkaStorageError)
    };
    each(deleted, durable).await
}

/// Raises the log start of a partition, once all acknowledged records are visible to readers.
async fn raise<P: Platform>(
    broker: Rc<Broker<P>>,
    access: Access,
    partition: Rc<Partition<P>>,
    (offset, deadline): (Offset, Instant),
) -> Result<RaisedLogStart, ErrorCode> {
    // Acknowledged records may be deleted even if they are not visible to readers yet, so the high
    // watermark has to settle first.
    partition.settled(deadline).await;
    access.check_again(&broker, Operation::Delete, &partition.name)?;
    let start = delete_before(&partition, offset)?;
    // A log that is moving needs the new start in the directory that it moves to as well.
    let moves_to = broker.moves.of(&partition);
    let moves_to = moves_to.iter().map(|moving| moving.dir());
    let dirs = std::iter::once(partition.log.dir()).chain(moves_to);
    Ok(RaisedLogStart {
        start,
        log: partition.name.clone(),
        dirs: dirs.map(Into::into).collect(),
    })
}

fn delete_before<P: Platform>(
    partition: &Partition<P>,
    asked: Offset,
) -> Result<Offset, ErrorCode> {
    // During the wait, the partition may have lost its leader here, or may have been deleted.
    if partition.is_closed() {
        return Err(ErrorCode::NotLeaderOrFollower);
    }
    if is_internal(&partition.name.topic) {
        return Err(ErrorCode::InvalidTopicException);
    }
    if !partition.config().delete {
        return Err(ErrorCode::PolicyViolation);
    }
    let end = partition.high_watermark();
    let offset = if asked.0 == -1 { end } else { asked };
    if offset < Offset::ZERO || offset > end {
        return Err(ErrorCode::OffsetOutOfRange);
    }
    partition
        .log
        .set_log_start(offset)
        .map_err(|error| partition.storage_error(&error))?;
    Ok(partition.log.log_start_offset())
}
