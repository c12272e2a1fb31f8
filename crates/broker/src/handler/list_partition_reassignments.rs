//! `ListPartitionReassignments` (key 46), version 0: partitions that are on their way from one set of
//! replicas to another. On one node there are some only in a directory that was a cluster's.

use std::collections::BTreeSet;

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
            .filter_map(|topic| ongoing(topic, topic.partitions.iter()))
            .collect(),
        Some(named) => {
            let of_one = |wanted: &wire::messages::list_partition_reassignments_request::ListPartitionReassignmentsTopics| {
                let topic = image.topic_by_name(wanted.name.as_str())?;
                // From what is asked for, not from all that there is: a topic may be named again and again.
                let indexes: BTreeSet<_> = wanted.partition_indexes.iter().collect();
                let asked = indexes.into_iter();
                ongoing(topic, asked.filter_map(|index| topic.partitions.get_key_value(index)))
            };
            named.iter().filter_map(of_one).collect()
        }
    };
    ListPartitionReassignmentsResponse::default()
        .with_error_message(None)
        .with_topics(topics)
}

/// Those of the partitions that are on their way.
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
