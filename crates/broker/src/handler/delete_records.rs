//! `DeleteRecords` (key 21), versions 0-2: raises a partition's log start offset; -1 means up to
//! the high watermark.
//!
//! The response is sent when the new log start offset is durable, so that deleted records do not
//! come back after a crash. It does not wait for other directories or other logs.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use platform::Platform;
use wire::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsTopicResult,
};
use wire::messages::{DeleteRecordsRequest, DeleteRecordsResponse};
use wire::types::{ErrorCode, Offset, TopicPartition};

use crate::Broker;
use crate::checkpoints::CheckpointStates;
use crate::fetch_session::TopicKey;
use crate::names::is_internal;
use crate::partition::Partition;
use crate::rests::{Rests, each};
use crate::route::at_partitions;

pub(crate) async fn handle<P: Platform>(
    broker: &Rc<Broker<P>>,
    request: DeleteRecordsRequest,
) -> DeleteRecordsResponse {
    let mut items = Vec::new();
    let mut rests = Rests::new();
    for topic in &request.topics {
        let key = TopicKey::Name(topic.name.as_str().into());
        for partition in &topic.partitions {
            items.push((
                broker.target(&key, partition.partition_index),
                Offset(partition.offset),
            ));
            rests.item().await;
        }
    }
    let timeout = Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
    let deadline = broker.platform.clock().after(timeout);
    let starts = at_partitions(broker, items, move |broker, partition, offset| async move {
        // Acknowledged records may be deleted even if they are not visible to readers yet, so the
        // high watermark has to settle first.
        partition.settled(deadline).await;
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
    });
    let mut starts = durable(broker, starts.await).await.into_iter();
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic
            .partitions
            .iter()
            .zip(starts.by_ref())
            .map(|(asked, start)| {
                let answer = DeleteRecordsPartitionResult::default()
                    .with_partition_index(asked.partition_index);
                match start {
                    Ok(start) => answer.with_low_watermark(start.0),
                    Err(code) => answer.with_low_watermark(-1).with_error_code(code.code()),
                }
            });
        let partitions = partitions.collect();
        DeleteRecordsTopicResult::default()
            .with_name(topic.name)
            .with_partitions(partitions)
    });
    let topics = topics.collect();
    DeleteRecordsResponse::default().with_topics(topics)
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
