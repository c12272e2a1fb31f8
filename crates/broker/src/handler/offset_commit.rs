//! `OffsetCommit` (key 8), versions 2-10: stores positions, answered when they are in the log.
//!
//! Versions 2-4 carry a retention time, 6 brought the leader epoch, 7 static members, 9 the error
//! for a group that is not there, 10 topics by id.

use std::rc::Rc;

use platform::Platform;
use wire::kafka::Newest;
use wire::messages::offset_commit_response::OffsetCommitResponsePartition;
use wire::messages::{OffsetCommitRequest, OffsetCommitResponse};
use wire::protocol::StrBytes;
use wire::types::{ErrorCode, TopicId};

use crate::group::{COMMIT_BY_ID, GroupCoordinator, OffsetsLog, Topics, commit_answer, unknown_to};
use crate::image::Image;

/// Gives topics that are named by id their names; one that is not there has none.
pub(crate) fn named(
    request: Newest<OffsetCommitRequest>,
    version: i16,
    image: &Image,
) -> OffsetCommitRequest {
    let mut request = request.message;
    if version < COMMIT_BY_ID {
        return request;
    }
    for topic in &mut request.topics {
        let name = image.topic_name(TopicId(topic.topic_id));
        topic.name = name.unwrap_or_default();
    }
    request
}

pub(crate) async fn handle<P: Platform, L: OffsetsLog>(
    coordinator: &Rc<GroupCoordinator<P, L>>,
    request: &OffsetCommitRequest,
    version: i16,
    host: &StrBytes,
    topics: &impl Topics,
) -> OffsetCommitResponse {
    let group = request.group_id.as_str();
    let commit = coordinator.write(group, |groups, now| {
        groups.asked_by(host);
        groups.commit(request, version, topics, now)
    });
    commit
        .await
        .unwrap_or_else(|error| refused(request, version, topics, error))
}

/// Every partition with `error`, save for those that do not exist.
fn refused(
    request: &OffsetCommitRequest,
    version: i16,
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
                unknown_to(version, topic)
            };
            OffsetCommitResponsePartition::default()
                .with_partition_index(index)
                .with_error_code(error.code())
        });
        commit_answer(topic, partitions.collect())
    });
    OffsetCommitResponse::default().with_topics(answers.collect())
}
