//! `OffsetCommit` (key 8), versions 2-9: stores positions, answered when they are in the log.
//!
//! Versions 2-4 carry a retention time, 6 brought the leader epoch, 7 static members, 9 the error
//! for a group that is not there.

use std::rc::Rc;

use platform::Platform;
use wire::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use wire::messages::{OffsetCommitRequest, OffsetCommitResponse};
use wire::types::ErrorCode;

use crate::group::{GroupCoordinator, OffsetsLog, Topics};

pub(crate) async fn handle<P: Platform, L: OffsetsLog>(
    coordinator: &Rc<GroupCoordinator<P, L>>,
    request: &OffsetCommitRequest,
    version: i16,
    topics: &impl Topics,
) -> OffsetCommitResponse {
    let group = request.group_id.as_str();
    let commit = coordinator.write(group, |groups, now| {
        groups.commit(request, version, topics, now)
    });
    commit
        .await
        .unwrap_or_else(|error| refused(request, topics, error))
}

/// Every partition with `error`, save for those that do not exist.
fn refused(
    request: &OffsetCommitRequest,
    topics: &impl Topics,
    error: ErrorCode,
) -> OffsetCommitResponse {
    let answers = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            let index = partition.partition_index;
            let known = topics.has_partition(&topic.name, index);
            let error = if known {
                error
            } else {
                ErrorCode::UnknownTopicOrPartition
            };
            OffsetCommitResponsePartition::default()
                .with_partition_index(index)
                .with_error_code(error.code())
        });
        OffsetCommitResponseTopic::default()
            .with_name(topic.name.clone())
            .with_partitions(partitions.collect())
    });
    OffsetCommitResponse::default().with_topics(answers.collect())
}
