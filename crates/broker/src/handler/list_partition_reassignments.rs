//! `ListPartitionReassignments` (key 46), version 0: partitions that are on their way from one set of
//! replicas to another. On one node there are some only in a directory that was a cluster's.

use wire::StrBytes;
use wire::messages::list_partition_reassignments_response::{
    OngoingPartitionReassignment, OngoingTopicReassignment,
};
use wire::messages::{
    BrokerId, ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
};

use crate::image::{Image, PartitionImage, TopicImage};

/// Answers from the image.
pub(crate) fn handle(
    image: &Image,
    request: &ListPartitionReassignmentsRequest,
) -> ListPartitionReassignmentsResponse {
    let topics: Vec<_> = match &request.topics {
        None => image
            .topics()
            .filter_map(|topic| ongoing(topic, |_| true))
            .collect(),
        Some(named) => {
            let of_one = |wanted: &wire::messages::list_partition_reassignments_request::ListPartitionReassignmentsTopics| {
                let topic = image.topic_by_name(wanted.name.as_str())?;
                ongoing(topic, |index| wanted.partition_indexes.contains(&index))
            };
            named.iter().filter_map(of_one).collect()
        }
    };
    ListPartitionReassignmentsResponse::default()
        .with_error_message(None)
        .with_topics(topics)
}

fn ongoing(topic: &TopicImage, wanted: impl Fn(i32) -> bool) -> Option<OngoingTopicReassignment> {
    let moving =
        |partition: &PartitionImage| !partition.adding.is_empty() || !partition.removing.is_empty();
    let partitions = topic.partitions.iter();
    let partitions = partitions.filter(|(index, partition)| wanted(**index) && moving(partition));
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
