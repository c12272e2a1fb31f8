//! `DescribeTopicPartitions` (key 75), version 0: topics in pages, by name.
//!
//! A page holds a bounded number of partitions; the cursor is the start of the next page. Cursor
//! and topic names are compared as text. A request that names no topic means all topics that the
//! client may describe; of those that it names, each page refuses the others, as in Kafka.

use std::collections::BTreeSet;

use wire::StrBytes;
use wire::acl::{Operation, ResourceType};
use wire::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use wire::messages::{BrokerId, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse};
use wire::types::{ErrorCode, Uuid};

use crate::access::Access;
use crate::controller::topic_name;
use crate::image::{Image, PartitionImage};
use crate::names::is_internal;
use crate::rests::{Rests, each};

/// Maximum partitions in one response, whatever the client asks for
/// (`max.request.partition.size.limit`).
const PARTITIONS_MAX: i32 = 2000;

/// Answers a client that connected to `listener`. `Err` fails the whole request.
pub(crate) async fn handle(
    image: &Image,
    access: &Access,
    listener: &str,
    request: &DescribeTopicPartitionsRequest,
) -> Result<DescribeTopicPartitionsResponse, ErrorCode> {
    let cursor = request.cursor.as_ref();
    let from = cursor.map_or("", |cursor| cursor.topic_name.as_str());
    let all = request.topics.is_empty();
    let mut names = if all {
        listed(image, access, from).await
    } else {
        named(request, from).await
    };
    let misplaced = cursor.is_some() && !all && !names.contains(from);
    if misplaced || cursor.is_some_and(|cursor| cursor.partition_index < 0) {
        return Err(ErrorCode::InvalidRequest);
    }
    let denied = if all {
        BTreeSet::new()
    } else {
        take_denied(access, &mut names).await
    };
    let mut room = request.response_partition_limit.clamp(1, PARTITIONS_MAX);
    let mut response = DescribeTopicPartitionsResponse::default();
    let mut rests = Rests::new();
    for name in names {
        rests.item().await;
        let first = cursor.filter(|cursor| cursor.topic_name.as_str() == name);
        let first = first.map_or(0, |cursor| cursor.partition_index);
        if room == 0 {
            response.next_cursor = Some(next(name, 0));
            break;
        }
        let Some(topic) = image.topic_by_name(name) else {
            if !all {
                response.topics.push(unknown(access, name));
            }
            continue;
        };
        let count = topic.partition_count();
        let end = count.min(first.saturating_add(room));
        let partitions: Vec<_> = topic
            .partitions
            .range(first..end.max(first))
            .map(|(index, state)| partition_of(image, listener, *index, state))
            .collect();
        let told = i32::try_from(partitions.len()).unwrap_or(room);
        room = room.saturating_sub(told);
        response.topics.push(
            DescribeTopicPartitionsResponseTopic::default()
                .with_name(Some(StrBytes::from_string(name.to_owned()).into()))
                .with_topic_id(topic.id.0)
                .with_is_internal(is_internal(name))
                .with_partitions(partitions)
                .with_topic_authorized_operations(operations(access, name)),
        );
        if end < count {
            response.next_cursor = Some(next(name, end));
            break;
        }
    }
    let told = |name| refused(name, ErrorCode::TopicAuthorizationFailed);
    response.topics.extend(each(denied, told).await);
    Ok(response)
}

/// Returns the topics of a page of all topics that the client may describe.
async fn listed<'a>(image: &'a Image, access: &Access, from: &str) -> BTreeSet<&'a str> {
    // A page holds at most as many topics as partitions; the next topic is where the next page
    // begins.
    let page = usize::try_from(PARTITIONS_MAX).unwrap_or(usize::MAX);
    let mut names = BTreeSet::new();
    let mut rests = Rests::new();
    for topic in image.topics_from(from) {
        if names.len() > page {
            break;
        }
        if access.sees(ResourceType::Topic, &topic.name) {
            names.insert(topic.name.as_ref());
        }
        rests.item().await;
    }
    names
}

/// Returns the topics that the request names, from the cursor on.
async fn named<'a>(request: &'a DescribeTopicPartitionsRequest, from: &str) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    let mut rests = Rests::new();
    for topic in &request.topics {
        let name = topic.name.as_str();
        if name >= from {
            names.insert(name);
        }
        rests.item().await;
    }
    names
}

/// Takes the topics that the client may not describe out of those that it names.
async fn take_denied<'a>(access: &Access, names: &mut BTreeSet<&'a str>) -> BTreeSet<&'a str> {
    let mut denied = BTreeSet::new();
    if !access.is_limited() {
        return denied;
    }
    let named = names.len();
    let mut rests = Rests::new();
    for name in std::mem::take(names) {
        if access.may(Operation::Describe, ResourceType::Topic, name) {
            names.insert(name);
        } else {
            denied.insert(name);
        }
        rests.item().await;
    }
    let decided = names.len().saturating_add(denied.len());
    assert_eq!(decided, named, "each topic is kept or denied");
    denied
}

fn operations(access: &Access, name: &str) -> i32 {
    access.operations(ResourceType::Topic, name)
}

fn next(topic: &str, partition: i32) -> Cursor {
    Cursor::default()
        .with_topic_name(StrBytes::from_string(topic.to_owned()).into())
        .with_partition_index(partition)
}

fn unknown(access: &Access, name: &str) -> DescribeTopicPartitionsResponseTopic {
    let code = if topic_name::invalid(name).is_some() {
        ErrorCode::InvalidTopicException
    } else {
        ErrorCode::UnknownTopicOrPartition
    };
    refused(name, code)
        .with_is_internal(is_internal(name))
        .with_topic_authorized_operations(operations(access, name))
}

/// Returns the entry of a topic for which the client gets this error only.
fn refused(name: &str, code: ErrorCode) -> DescribeTopicPartitionsResponseTopic {
    DescribeTopicPartitionsResponseTopic::default()
        .with_error_code(code.code())
        .with_name(Some(StrBytes::from_string(name.to_owned()).into()))
        .with_topic_id(Uuid::nil())
}

fn partition_of(
    image: &Image,
    listener: &str,
    index: i32,
    state: &PartitionImage,
) -> DescribeTopicPartitionsResponsePartition {
    let ids = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect::<Vec<_>>();
    let leader = if image.is_alive(state.leader, listener) {
        state.leader
    } else {
        -1
    };
    DescribeTopicPartitionsResponsePartition::default()
        .with_partition_index(index)
        .with_leader_id(leader.into())
        .with_leader_epoch(state.leader_epoch)
        .with_replica_nodes(ids(&state.replicas))
        .with_isr_nodes(ids(&state.isr))
        .with_eligible_leader_replicas(Some(ids(&state.eligible)))
        .with_last_known_elr(Some(ids(&state.last_known_eligible)))
        .with_offline_replicas(ids(&state.offline_replicas(image, listener)))
}

/// Returns the response to a request that is refused as a whole: the protocol has error codes for
/// topics only.
pub(crate) fn refuse(
    request: &DescribeTopicPartitionsRequest,
    code: ErrorCode,
) -> DescribeTopicPartitionsResponse {
    let topics = request.topics.iter().map(|topic| {
        DescribeTopicPartitionsResponseTopic::default()
            .with_name(Some(topic.name.clone()))
            .with_error_code(code.code())
    });
    DescribeTopicPartitionsResponse::default().with_topics(topics.collect())
}

#[cfg(test)]
mod tests;
