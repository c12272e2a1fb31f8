//! `DescribeQuorum` (key 55), versions 0-2: the voters of the metadata log, and their progress.
//!
//! This node is the only voter and the leader. Version 1 added the times, version 2 the directories
//! and the endpoints of controllers: this controller has no endpoint, because only the broker talks
//! to it.

use wire::StrBytes;
use wire::messages::describe_quorum_response::{Node, PartitionData, ReplicaState, TopicData};
use wire::messages::{BrokerId, DescribeQuorumRequest, DescribeQuorumResponse};
use wire::types::ErrorCode;

use crate::controller::quorum::Quorum;
use crate::names::METADATA_TOPIC;

/// Answers for the metadata log; no other topic has a quorum.
pub(crate) fn handle(
    quorum: Quorum,
    request: &DescribeQuorumRequest,
    version: i16,
) -> DescribeQuorumResponse {
    let names_directories = version >= 2;
    let asked = match request.topics.as_slice() {
        [topic] if topic.topic_name.as_str() == METADATA_TOPIC => topic.partitions.as_slice(),
        _ => &[],
    };
    if !matches!(asked, [partition] if partition.partition_index == 0) {
        return refused(request);
    }
    let mut me = ReplicaState::default()
        .with_replica_id(BrokerId(quorum.node.0))
        .with_log_end_offset(quorum.end.0)
        .with_last_fetch_timestamp(quorum.now_ms)
        .with_last_caught_up_timestamp(quorum.now_ms);
    let mut nodes = Vec::new();
    if names_directories {
        me = me.with_replica_directory_id(quorum.directory);
        nodes.push(Node::default().with_node_id(BrokerId(quorum.node.0)));
    }
    let partition = PartitionData::default()
        .with_error_message(None)
        .with_leader_id(BrokerId(quorum.node.0))
        .with_leader_epoch(quorum.epoch.0)
        .with_high_watermark(quorum.high_watermark.0)
        .with_current_voters(vec![me]);
    let topic = TopicData::default()
        .with_topic_name(StrBytes::from_static_str(METADATA_TOPIC).into())
        .with_partitions(vec![partition]);
    DescribeQuorumResponse::default()
        .with_error_message(None)
        .with_topics(vec![topic])
        .with_nodes(nodes)
}

fn refused(request: &DescribeQuorumRequest) -> DescribeQuorumResponse {
    let code = ErrorCode::UnknownTopicOrPartition;
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            PartitionData::default()
                .with_partition_index(partition.partition_index)
                .with_error_code(code.code())
                .with_error_message(Some(StrBytes::from_static_str(
                    "This server does not host this topic-partition.",
                )))
        });
        TopicData::default()
            .with_topic_name(topic.topic_name.clone())
            .with_partitions(partitions.collect())
    });
    DescribeQuorumResponse::default()
        .with_error_message(None)
        .with_topics(topics.collect())
}
