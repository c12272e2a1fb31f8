//! What a commit is told of topics that it names by id, or by name: its answer names them in the same way.

use wire::messages::offset_commit_request::OffsetCommitRequestTopic;
use wire::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use wire::types::ErrorCode;

/// The first version of `OffsetCommit` that names topics by id.
pub(crate) const COMMIT_BY_ID: i16 = 10;

/// What to say of a partition that is not there: from the version on that names topics by id, an id without a topic is
/// that.
pub(crate) fn unknown_to(version: i16, topic: &OffsetCommitRequestTopic) -> ErrorCode {
    if version >= COMMIT_BY_ID && topic.name.is_empty() {
        ErrorCode::UnknownTopicId
    } else {
        ErrorCode::UnknownTopicOrPartition
    }
}

/// The answer for a topic, named as it was asked for.
pub(crate) fn commit_answer(
    topic: &OffsetCommitRequestTopic,
    partitions: Vec<OffsetCommitResponsePartition>,
) -> OffsetCommitResponseTopic {
    OffsetCommitResponseTopic::default()
        .with_name(topic.name.clone())
        .with_topic_id(topic.topic_id)
        .with_partitions(partitions)
}
