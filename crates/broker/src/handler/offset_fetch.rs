//! `OffsetFetch` (key 9), versions 1-10: reads a group's positions.
//!
//! Version 2 brought "all of them" and an error for the whole group, 7 `require_stable`, 8 several
//! groups at once, 10 topics by id. The groups of a request may live on several shards: [`split`]
//! takes a request apart, [`handle_group`] answers one group where it lives, [`gather`] puts the
//! answer together. Ids are turned into names before ([`name`]) and names into ids after
//! ([`identify`]): a group keeps positions by the names of topics.

use std::rc::Rc;

use platform::Platform;
use wire::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use wire::messages::{OffsetFetchRequest, OffsetFetchResponse};
use wire::protocol::StrBytes;
use wire::types::{ErrorCode, TopicId, Uuid};

use crate::group::{GroupCoordinator, OffsetsLog, Unstable};
use crate::image::Image;

/// The groups that a request asks for.
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

/// Gives the topics that a group is asked about their names. The topics that there are not, apart.
pub(crate) fn name(
    group: &mut OffsetFetchRequestGroup,
    image: &Image,
) -> Vec<OffsetFetchResponseTopics> {
    let mut unknown = Vec::new();
    let Some(asked) = &mut group.topics else {
        return unknown;
    };
    asked.retain_mut(|topic| {
        let Some(name) = image.topic_name(TopicId(topic.topic_id)) else {
            unknown.push(without_positions(topic, ErrorCode::UnknownTopicId));
            return false;
        };
        topic.name = name;
        true
    });
    unknown
}

/// Gives the topics of an answer their ids. Those without one are not told of: who asked for all positions would not know
/// whose they are.
pub(crate) fn identify(group: &mut OffsetFetchResponseGroup, image: &Image) {
    group.topics.retain_mut(|topic| {
        if topic.topic_id.is_nil() {
            topic.topic_id = image
                .topic_by_name(&topic.name)
                .map_or(Uuid::nil(), |known| known.id.0);
        }
        !topic.topic_id.is_nil()
    });
}

/// One group's positions.
pub(crate) async fn handle_group<P: Platform, L: OffsetsLog>(
    coordinator: &Rc<GroupCoordinator<P, L>>,
    request: &OffsetFetchRequestGroup,
    require_stable: bool,
) -> OffsetFetchResponseGroup {
    let group = request.group_id.as_str();
    let fetched: Result<Result<_, _>, _> = if require_stable {
        coordinator
            .read_stable(group, |groups| groups.fetch(request, true))
            .await
    } else {
        coordinator.read(group, |groups| groups.fetch(request, false))
    };
    let fetched = fetched.unwrap_or_else(Err);
    let mut fetched = fetched.unwrap_or_else(|error| refused(request, error));
    if require_stable && fetched.error_code == 0 {
        let unstable = coordinator
            .unstable_offsets(&request.group_id)
            .unwrap_or_default();
        withhold(&mut fetched, &unstable);
    }
    fetched
}

/// Tells those who want stable offsets to come back for the ones that an open transaction has written.
fn withhold(fetched: &mut OffsetFetchResponseGroup, unstable: &Unstable) {
    for topic in &mut fetched.topics {
        let name = &topic.name;
        for partition in &mut topic.partitions {
            let index = partition.partition_index;
            if unstable.contains_key(&(name.0.clone(), index)) {
                partition.committed_offset = -1;
                partition.committed_leader_epoch = -1;
                partition.metadata = Some(StrBytes::default());
                partition.error_code = ErrorCode::UnstableOffsetCommit.code();
            }
        }
    }
}

/// A group that cannot be asked.
pub(crate) fn refused(
    request: &OffsetFetchRequestGroup,
    error: ErrorCode,
) -> OffsetFetchResponseGroup {
    let topics = request.topics.iter().flatten();
    let topics = topics.map(|topic| without_positions(topic, error));
    OffsetFetchResponseGroup::default()
        .with_group_id(request.group_id.clone())
        .with_topics(topics.collect())
        .with_error_code(error.code())
}

fn without_positions(
    topic: &OffsetFetchRequestTopics,
    error: ErrorCode,
) -> OffsetFetchResponseTopics {
    let partitions = topic.partition_indexes.iter().map(|index| {
        OffsetFetchResponsePartitions::default()
            .with_partition_index(*index)
            .with_committed_offset(-1)
            .with_committed_leader_epoch(-1)
            .with_metadata(Some(StrBytes::default()))
            .with_error_code(error.code())
    });
    OffsetFetchResponseTopics::default()
        .with_name(topic.name.clone())
        .with_topic_id(topic.topic_id)
        .with_partitions(partitions.collect())
}

/// The answers of all groups as one response. From version 2 on, a group's error stands for all its
/// partitions.
pub(crate) fn gather(
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
    let topics = group.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.into_iter().map(|partition| {
            OffsetFetchResponsePartition::default()
                .with_partition_index(partition.partition_index)
                .with_committed_offset(partition.committed_offset)
                .with_committed_leader_epoch(partition.committed_leader_epoch)
                .with_metadata(partition.metadata)
                .with_error_code(partition.error_code)
        });
        OffsetFetchResponseTopic::default()
            .with_name(topic.name)
            .with_partitions(partitions.collect())
    });
    OffsetFetchResponse::default()
        .with_topics(topics.collect())
        .with_error_code(group.error_code)
}
