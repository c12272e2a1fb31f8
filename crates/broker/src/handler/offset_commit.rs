//! `OffsetCommit` (key 8), versions 2-10: stores committed offsets; answers when they are in the
//! log.
//!
//! Versions 2-4 carry a retention time, 6 added the leader epoch, 7 static members, 9 the error for
//! an unknown group, 10 topics by id.

use std::rc::Rc;
use std::sync::Arc;

use platform::Platform;
use wire::acl::{Operation, ResourceType};
use wire::messages::offset_commit_response::OffsetCommitResponsePartition;
use wire::messages::{OffsetCommitRequest, OffsetCommitResponse};
use wire::protocol::StrBytes;
use wire::types::{ErrorCode, TopicId};

use crate::access::Access;
use crate::group::coordinator::InLine;
use crate::group::{
    COMMIT_BY_ID, CheckedCommit, Commit, GroupCoordinator, OffsetsLog, Topics, Verdict,
    commit_answer,
};
use crate::image::Image;
use crate::rests::Rests;

/// Sets the names of topics that are given by id; an unknown id leaves the name empty.
pub(crate) async fn name(request: &mut OffsetCommitRequest, version: i16, image: &Image) {
    if version < COMMIT_BY_ID {
        return;
    }
    let mut rests = Rests::new();
    for topic in &mut request.topics {
        let name = image.topic_name(TopicId(topic.topic_id));
        topic.name = name.unwrap_or_default();
        rests.item().await;
    }
}

/// Commits a request whose topics were named with `seen`, and that has its place in the line of
/// commits to its group.
///
/// `now` returns the current topics, and what the client may do now if that may have changed.
pub(crate) async fn handle<P: Platform, L: OffsetsLog, T: Topics>(
    coordinator: &Rc<GroupCoordinator<P, L>>,
    request: &OffsetCommitRequest,
    version: i16,
    (host, place): (&StrBytes, InLine),
    (seen, now): (Arc<T>, impl Fn() -> (Arc<T>, Option<Access>)),
    access: &Access,
) -> OffsetCommitResponse {
    let (how, rules) = (Commit::plain(version), coordinator.commit_rules());
    let mut readied = CheckedCommit::of(request, how, &*seen, rules, access).await;
    let place = in_turn(place).await;
    let verdict = match coordinator.fits_log(&request.group_id, readied.log_bytes()) {
        Err(error) => Verdict::Refused(error),
        Ok(false) => Verdict::NoRoom(ErrorCode::UnknownServerError),
        Ok(true) => {
            // Only a request that fits is checked again, which is little work: it runs without a
            // yield, together with the decision.
            let (topics, renewed) = now();
            // The rights are those of the connection's shard, which may have had older ACLs than
            // this one has had since the request came.
            if renewed.is_some() || !Arc::ptr_eq(&seen, &topics) {
                readied.check_again(request, &*topics, renewed.as_ref());
            }
            let group = &request.group_id;
            if renewed
                .is_some_and(|access| !access.may(Operation::Read, ResourceType::Group, group))
            {
                Verdict::Refused(ErrorCode::GroupAuthorizationFailed)
            } else {
                let verdict = decide(coordinator, request, &mut readied, host, place);
                // An error of the coordinator or of the log: the commit is not acknowledged.
                verdict.await.unwrap_or_else(Verdict::Refused)
            }
        }
    };
    readied.told(request, verdict).await
}

/// Returns the same error for every partition.
pub(crate) async fn refused(
    request: &OffsetCommitRequest,
    code: ErrorCode,
) -> OffsetCommitResponse {
    let mut topics = Vec::with_capacity(request.topics.len());
    let mut rests = Rests::new();
    for topic in &request.topics {
        let partitions = topic.partitions.iter().map(|partition| {
            OffsetCommitResponsePartition::default()
                .with_partition_index(partition.partition_index)
                .with_error_code(code.code())
        });
        topics.push(commit_answer(topic, partitions.collect()));
        rests.items(topic.partitions.len().saturating_add(1)).await;
    }
    OffsetCommitResponse::default().with_topics(topics)
}

/// Returns the place once the commits before it are in the log.
pub(crate) async fn in_turn(mut place: InLine) -> InLine {
    if let Some(place) = &mut place {
        place.turn().await;
    }
    place
}

async fn decide<P: Platform, L: OffsetsLog>(
    coordinator: &Rc<GroupCoordinator<P, L>>,
    request: &OffsetCommitRequest,
    readied: &mut CheckedCommit,
    host: &StrBytes,
    place: InLine,
) -> Result<Verdict, ErrorCode> {
    let group = request.group_id.as_str();
    let commit = coordinator.write_in_line(group, place, |groups, now| {
        groups.asked_by(host);
        let verdict = groups.commit(request, readied, now);
        (readied.taken(verdict), verdict)
    });
    commit.await
}
