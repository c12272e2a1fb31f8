//! Answers of a commit name topics as the request does: by id or by name.

use wire::messages::offset_commit_request::OffsetCommitRequestTopic;
use wire::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use wire::types::ErrorCode;

/// The first version of `OffsetCommit` that names topics by id.
pub(crate) const COMMIT_BY_ID: i16 = 10;

/// Returns the error for an unknown partition.
///
/// In versions that name topics by id, it is `UnknownTopicId` for an id without a topic.
pub(crate) fn unknown_to(version: i16, topic: &OffsetCommitRequestTopic) -> ErrorCode {
    if version >= COMMIT_BY_ID && topic.name.is_empty() {
        ErrorCode::UnknownTopicId
    } else {
        ErrorCode::UnknownTopicOrPartition
    }
}

/// Returns the answer for a topic, named as in the request.
pub(crate) fn commit_answer(
    topic: &OffsetCommitRequestTopic,
    partitions: Vec<OffsetCommitResponsePartition>,
) -> OffsetCommitResponseTopic {
    OffsetCommitResponseTopic::default()
        .with_name(topic.name.clone())
        .with_topic_id(topic.topic_id)
        .with_partitions(partitions)
}
