//! `OffsetFetch` (key 9), versions 1-10: reads a group's committed offsets.
//!
//! Version 2 added "all offsets" and an error for the whole group, 7 `require_stable`, 8 several
//! groups in one request, 10 topics by id. The groups of a request may be on several shards:
//! [`split`] splits a request, [`handle_group`] answers for one group on its shard, [`gather`]
//! builds the response. A group keeps offsets by topic name, so ids are turned into names before
//! ([`name`]) and names into ids after ([`identify`]). Topics that the client may not describe are
//! refused before the group is asked; in an answer about all topics they are left out ([`hide`]).
//! Rights that the client has lost while its group waited for the log count ([`judge_again`]).

use std::rc::Rc;

use platform::Platform;
use wire::acl::{Operation, ResourceType};
use wire::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use wire::messages::{OffsetFetchRequest, OffsetFetchResponse, TopicName};
use wire::protocol::StrBytes;
use wire::types::{ErrorCode, TopicId, Uuid};

use crate::access::Access;
use crate::group::{GroupCoordinator, OffsetsLog};
use crate::image::Image;
use crate::rests::Rests;
use crate::room::Room;

/// Returns the groups of a request.
pub(crate) fn split(request: OffsetFetchRequest, version: i16) -> Vec<OffsetFetchRequestGroup> {
    if version >= 8 {
        return request.groups;
    }
    let topics = request.topics.map(|topics| {
        let topics = topics.into_iter().map(|topic| {
            OffsetFetchRequestTopics::default()
                .with_name(topic.name)
                .with_partition_indexes(topic.partition_indexes)
        });
        topics.collect()
    });
    vec![
        OffsetFetchRequestGroup::default()
            .with_group_id(request.group_id)
            .with_topics(topics),
    ]
}

/// The first version that names topics by id.
pub(crate) const BY_ID: i16 = 10;

/// Sets the names of a group's topics if the version has ids, and returns separately the results of
/// unknown ids, and of topics that the client may not describe.
pub(crate) async fn name(
    group: &mut OffsetFetchRequestGroup,
    version: i16,
    image: &Image,
    access: &Access,
) -> Vec<OffsetFetchResponseTopics> {
    let (mut known, mut refused) = (Vec::new(), Vec::new());
    let by_id = version >= BY_ID;
    let Some(asked) = group
        .topics
        .as_mut()
        .filter(|_| by_id || access.is_limited())
    else {
        return refused;
    };
    let (mut rests, count) = (Rests::new(), asked.len());
    for mut topic in std::mem::take(asked) {
        rests.item().await;
        let name = if by_id {
            image.topic_name(TopicId(topic.topic_id))
        } else {
            Some(topic.name.clone())
        };
        let sees = |name: &TopicName| access.may(Operation::Describe, ResourceType::Topic, name);
        let error = match &name {
            None => Some(ErrorCode::UnknownTopicId),
            Some(name) if !sees(name) => Some(ErrorCode::TopicAuthorizationFailed),
            Some(_) => None,
        };
        if let Some(error) = error {
            rests.items(topic.partition_indexes.len()).await;
            refused.push(without_positions(&topic, error));
        } else {
            topic.name = name.unwrap_or_default();
            known.push(topic);
        }
    }
    let judged = known.len().saturating_add(refused.len());
    assert!(judged == count, "a topic is asked for or refused");
    *asked = known;
    refused
}

/// Takes back what the client may not be told any more.
pub(crate) async fn judge_again(
    group: &OffsetFetchRequestGroup,
    mut answer: OffsetFetchResponseGroup,
    access: &Access,
) -> OffsetFetchResponseGroup {
    if !access.may(Operation::Describe, ResourceType::Group, &group.group_id) {
        return refused(group, ErrorCode::GroupAuthorizationFailed).await;
    }
    if group.topics.is_none() {
        // They are left out.
        return answer;
    }
    let mut rests = Rests::new();
    for topic in &mut answer.topics {
        if !access.may(Operation::Describe, ResourceType::Topic, &topic.name) {
            for partition in &mut topic.partitions {
                let index = partition.partition_index;
                *partition = without_position(index, ErrorCode::TopicAuthorizationFailed);
            }
        }
        rests.items(topic.partitions.len().saturating_add(1)).await;
    }
    answer
}

/// Leaves topics out of an answer about all topics that the client may not describe.
pub(crate) async fn hide(group: &mut OffsetFetchResponseGroup, access: &Access) {
    if !access.is_limited() {
        return;
    }
    let mut seen = Vec::with_capacity(group.topics.len());
    let mut rests = Rests::new();
    for topic in std::mem::take(&mut group.topics) {
        if access.sees(ResourceType::Topic, &topic.name) {
            seen.push(topic);
        }
        rests.item().await;
    }
    group.topics = seen;
}

/// Sets the ids of a response's topics.
///
/// Topics without an id are left out: a client that requested all offsets could not tell which
/// topics they belong to.
pub(crate) async fn identify(group: &mut OffsetFetchResponseGroup, image: &Image) {
    let mut known = Vec::with_capacity(group.topics.len());
    let mut rests = Rests::new();
    for mut topic in std::mem::take(&mut group.topics) {
        if topic.topic_id.is_nil() {
            topic.topic_id = image
                .topic_by_name(&topic.name)
                .map_or(Uuid::nil(), |known| known.id.0);
        }
        if !topic.topic_id.is_nil() {
            known.push(topic);
        }
        rests.item().await;
    }
    group.topics = known;
}

/// Returns one group's offsets, as far as there is room for them.
pub(crate) async fn handle_group<P: Platform, L: OffsetsLog>(
    coordinator: &Rc<GroupCoordinator<P, L>>,
    request: &OffsetFetchRequestGroup,
    require_stable: bool,
    room: &Room,
) -> OffsetFetchResponseGroup {
    match coordinator.fetch(request, require_stable, room).await {
        Ok(fetched) => fetched,
        Err(error) => refused(request, error).await,
    }
}

/// Returns the error for a group that cannot be read.
pub(crate) async fn refused(
    request: &OffsetFetchRequestGroup,
    error: ErrorCode,
) -> OffsetFetchResponseGroup {
    let mut topics = Vec::new();
    let mut rests = Rests::new();
    for topic in request.topics.iter().flatten() {
        topics.push(without_positions(topic, error));
        rests
            .items(topic.partition_indexes.len().saturating_add(1))
            .await;
    }
    OffsetFetchResponseGroup::default()
        .with_group_id(request.group_id.clone())
        .with_topics(topics)
        .with_error_code(error.code())
}

fn without_positions(
    topic: &OffsetFetchRequestTopics,
    error: ErrorCode,
) -> OffsetFetchResponseTopics {
    let indexes = topic.partition_indexes.iter();
    let partitions = indexes.map(|index| without_position(*index, error));
    OffsetFetchResponseTopics::default()
        .with_name(topic.name.clone())
        .with_topic_id(topic.topic_id)
        .with_partitions(partitions.collect())
}

fn without_position(index: i32, error: ErrorCode) -> OffsetFetchResponsePartitions {
    OffsetFetchResponsePartitions::default()
        .with_partition_index(index)
        .with_committed_offset(-1)
        .with_committed_leader_epoch(-1)
        .with_metadata(Some(StrBytes::default()))
        .with_error_code(error.code())
}

/// Combines the groups into one response. From version 2 on, a group's error replaces its
/// partitions.
pub(crate) async fn gather(
    mut groups: Vec<OffsetFetchResponseGroup>,
    version: i16,
) -> OffsetFetchResponse {
    for group in &mut groups {
        if group.error_code != 0 && version >= 2 {
            group.topics.clear();
        }
    }
    if version >= 8 {
        return OffsetFetchResponse::default().with_groups(groups);
    }
    let Some(group) = groups.into_iter().next() else {
        return OffsetFetchResponse::default();
    };
    let mut topics = Vec::with_capacity(group.topics.len());
    let mut rests = Rests::new();
    for topic in group.topics {
        rests.items(topic.partitions.len().saturating_add(1)).await;
        let partitions = topic.partitions.into_iter().map(|partition| {
            OffsetFetchResponsePartition::default()
                .with_partition_index(partition.partition_index)
                .with_committed_offset(partition.committed_offset)
                .with_committed_leader_epoch(partition.committed_leader_epoch)
                .with_metadata(partition.metadata)
                .with_error_code(partition.error_code)
        });
        let answer = OffsetFetchResponseTopic::default().with_name(topic.name);
        topics.push(answer.with_partitions(partitions.collect()));
    }
    OffsetFetchResponse::default()
        .with_topics(topics)
        .with_error_code(group.error_code)
}
