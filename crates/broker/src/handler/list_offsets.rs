//! `ListOffsets` (key 2), versions 1-11: offsets by timestamp or by name.
//!
//! Special timestamps: -1 latest (high watermark, or last stable offset for read committed), -2
//! earliest, -3 the record with the largest timestamp (v7), -4 earliest local (v8; the log start
//! offset while no log has an object tier), -5 last tiered (v9; none), -6 the first offset not yet
//! in the object tier (v11; none). Version 4 added the leader epoch to request and response.
//!
//! Records that were acknowledged before the request count: the handler waits until the high
//! watermark covers them. A client needs the right to describe each topic, also after that wait and
//! after the reads.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use platform::Platform;
use storage::TimestampAndOffset;
use wire::acl::Operation;
use wire::messages::list_offsets_request::ListOffsetsPartition;
use wire::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use wire::messages::{ListOffsetsRequest, ListOffsetsResponse, TopicName};
use wire::types::{ErrorCode, LeaderEpoch, Offset, TimestampMs};

use crate::Broker;
use crate::access::Access;
use crate::fetch_session::TopicKey;
use crate::partition::{Isolation, Partition};
use crate::rests::Rests;
use crate::route::at_partitions_abandoned;
use crate::topic_rights::take_denied;

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;

const _: () = assert!(
    EARLIEST_PENDING_UPLOAD < 0 && LATEST < 0,
    "no special time is a time"
);

/// Maximum wait for the high watermark to reach the log end offset; after it, the current one is
/// returned.
const SETTLES: Duration = Duration::from_secs(5);

/// Result for one partition: offset, its timestamp, its leader epoch.
type OffsetAnswer = (Offset, TimestampMs, LeaderEpoch);

const NOTHING: OffsetAnswer = (Offset(-1), TimestampMs::NONE, LeaderEpoch::NONE);

#[derive(Clone, Copy)]
struct Question {
    timestamp: i64,
    claimed_epoch: LeaderEpoch,
    isolation: Isolation,
}

pub(crate) async fn handle<P: Platform>(
    broker: &Rc<Broker<P>>,
    access: &Access,
    mut request: ListOffsetsRequest,
    version: i16,
) -> ListOffsetsResponse {
    let topics = &mut request.topics;
    let denied = take_denied(access, Operation::Describe, topics, |topic| &topic.name).await;
    let isolation = Isolation::from_wire(request.isolation_level);
    let mut items = Vec::new();
    let mut rests = Rests::new();
    let twice = named_twice(&request).await;
    for topic in &request.topics {
        let key = TopicKey::Name(topic.name.as_str().into());
        for partition in &topic.partitions {
            let question = Question {
                timestamp: partition.timestamp,
                claimed_epoch: LeaderEpoch(partition.current_leader_epoch),
                isolation,
            };
            let index = partition.partition_index;
            let target = if !twice.is_empty() && twice.contains(&(topic.name.clone(), index)) {
                Err(ErrorCode::InvalidRequest)
            } else {
                broker.target(&key, index)
            };
            items.push((target, question));
            rests.item().await;
        }
    }
    let deadline = broker.platform.clock().after(SETTLES);
    let access = access.clone();
    let answers = at_partitions_abandoned(broker, items, move |broker, partition, question| {
        let access = access.clone();
        async move {
            if !matches!(question.timestamp, EARLIEST | EARLIEST_LOCAL) {
                partition.settled(deadline).await;
            }
            let found = answer(&partition, question, version).await;
            access.check_again(&broker, Operation::Describe, &partition.name)?;
            found
        }
    });
    let mut answers = answers.await.into_iter();
    // One error, however often the request names the partition.
    let mut refused = twice.clone();
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().zip(answers.by_ref());
        let partitions = partitions
            .filter(|(asked, _)| {
                let place = || (topic.name.clone(), asked.partition_index);
                twice.is_empty() || !twice.contains(&place()) || refused.remove(&place())
            })
            .map(|(asked, answer)| told(asked, answer, version))
            .collect();
        ListOffsetsTopicResponse::default()
            .with_name(topic.name.clone())
            .with_partitions(partitions)
    });
    let mut topics: Vec<_> = topics.collect();
    let code = ErrorCode::TopicAuthorizationFailed;
    topics.extend(denied.into_iter().map(|topic| {
        let partitions = topic.partitions.iter();
        let partitions = partitions.map(|asked| told(asked, Err(code), version));
        ListOffsetsTopicResponse::default()
            .with_partitions(partitions.collect())
            .with_name(topic.name)
    }));
    ListOffsetsResponse::default().with_topics(topics)
}

fn told(
    asked: &ListOffsetsPartition,
    answer: Result<OffsetAnswer, ErrorCode>,
    version: i16,
) -> ListOffsetsPartitionResponse {
    let (code, found) = match answer {
        Ok(found) => (0, found),
        Err(code) => (code.code(), NOTHING),
    };
    let response = ListOffsetsPartitionResponse::default()
        .with_partition_index(asked.partition_index)
        .with_error_code(code)
        .with_offset(found.0.0)
        .with_timestamp(found.1.0);
    if version >= 4 {
        response.with_leader_epoch(found.2.0)
    } else {
        response
    }
}

/// Returns the partitions that the request names more than once: their results would be ambiguous.
async fn named_twice(request: &ListOffsetsRequest) -> BTreeSet<(TopicName, i32)> {
    let mut named = BTreeSet::new();
    let all = request.topics.iter().flat_map(|topic| {
        let indexes = topic.partitions.iter().map(|asked| asked.partition_index);
        indexes.map(|index| (&topic.name, index))
    });
    let mut twice = BTreeSet::new();
    let mut rests = Rests::new();
    for (name, index) in all {
        if !named.insert((name, index)) {
            twice.insert((name.clone(), index));
        }
        rests.item().await;
    }
    twice
}

async fn answer<P: Platform>(
    partition: &Partition<P>,
    question: Question,
    version: i16,
) -> Result<OffsetAnswer, ErrorCode> {
    partition.check_epoch(question.claimed_epoch)?;
    let end = partition.readable_end(question.isolation);
    let epoch_at = |offset: Offset| partition.log.epoch_at(offset).unwrap_or(LeaderEpoch::NONE);
    let failed = |error: storage::Error| partition.storage_error(&error);
    let found = |found: TimestampAndOffset| (found.offset, found.timestamp, found.leader_epoch);
    let answer = match question.timestamp {
        LATEST => Some((end, TimestampMs::NONE, partition.leader_epoch())),
        EARLIEST => {
            let start = partition.log.log_start_offset();
            Some((start, TimestampMs::NONE, epoch_at(start)))
        }
        EARLIEST_LOCAL if version >= 8 => {
            let start = partition.log.log_start_offset();
            Some((start, TimestampMs::NONE, epoch_at(start)))
        }
        LATEST_TIERED if version >= 9 => Some(NOTHING),
        EARLIEST_PENDING_UPLOAD if version >= 11 => Some(NOTHING),
        MAX_TIMESTAMP if version >= 7 => partition
            .log
            .max_timestamp(end)
            .await
            .map_err(failed)?
            .map(found),
        timestamp if timestamp >= 0 => {
            let first = partition
                .log
                .offset_for_timestamp(TimestampMs(timestamp), end);
            first.await.map_err(failed)?.map(found)
        }
        _ => return Err(ErrorCode::UnsupportedVersion),
    };
    Ok(answer.unwrap_or(NOTHING))
}
