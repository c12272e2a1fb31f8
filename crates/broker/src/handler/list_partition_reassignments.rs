//! `ListPartitionReassignments` (key 46), version 0: partitions with a reassignment in progress.
//!
//! On a standalone node, only a directory that belonged to a cluster has any.

use std::collections::BTreeMap;

use wire::StrBytes;
use wire::messages::list_partition_reassignments_response::{
    OngoingPartitionReassignment, OngoingTopicReassignment,
};
use wire::messages::{
    BrokerId, ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
};

use crate::image::{Image, PartitionImage, TopicImage};
use crate::rests::Rests;

/// Answers from the image.
pub(crate) async fn handle(
    image: &Image,
    request: &ListPartitionReassignmentsRequest,
) -> ListPartitionReassignmentsResponse {
    let mut topics = Vec::new();
    let mut rests = Rests::new();
    let Some(named) = &request.topics else {
        for topic in image.topics() {
            topics.extend(ongoing(topic, topic.partitions.iter()));
            rests.items(topic.partitions.len()).await;
        }
        return told(topics);
    };
    for wanted in named {
        rests.item().await;
        let Some(topic) = image.topic_by_name(wanted.name.as_str()) else {
            continue;
        };
        // Iterates over the request, not over the topic: a request may name a topic many times.
        let mut asked = BTreeMap::new();
        for index in &wanted.partition_indexes {
            asked.extend(topic.partitions.get_key_value(index));
            rests.item().await;
        }
        topics.extend(ongoing(topic, asked.into_iter()));
    }
    told(topics)
}

fn told(topics: Vec<OngoingTopicReassignment>) -> ListPartitionReassignmentsResponse {
    ListPartitionReassignmentsResponse::default()
        .with_error_message(None)
        .with_topics(topics)
}

/// Returns the partitions with a reassignment in progress.
fn ongoing<'a>(
    topic: &TopicImage,
    partitions: impl Iterator<Item = (&'a i32, &'a PartitionImage)>,
) -> Option<OngoingTopicReassignment> {
    let moving =
        |partition: &PartitionImage| !partition.adding.is_empty() || !partition.removing.is_empty();
    let partitions = partitions.filter(|(_, partition)| moving(partition));
    let ids = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect();
    let partitions: Vec<_> = partitions
        .map(|(index, partition)| {
            OngoingPartitionReassignment::default()
                .with_partition_index(*index)
                .with_replicas(ids(&partition.replicas))
                .with_adding_replicas(ids(&partition.adding))
                .with_removing_replicas(ids(&partition.removing))
        })
        .collect();
    (!partitions.is_empty()).then(|| {
        OngoingTopicReassignment::default()
            .with_name(StrBytes::from_string(topic.name.to_string()).into())
            .with_partitions(partitions)
    })
}
