//! `OffsetCommit` (key 8), versions 2-10: stores positions, answered when they are in the log.
//!
//! Versions 2-4 carry a retention time, 6 brought the leader epoch, 7 static members, 9 the error
//! for a group that is not there, 10 topics by id.

use std::rc::Rc;
use std::sync::Arc;

use platform::Platform;
use wire::messages::{OffsetCommitRequest, OffsetCommitResponse};
use wire::protocol::StrBytes;
use wire::types::{ErrorCode, TopicId};

use crate::group::coordinator::InLine;
use crate::group::{COMMIT_BY_ID, Commit, GroupCoordinator, OffsetsLog, Readied, Topics, Verdict};
use crate::image::Image;
use crate::rests::Rests;

/// Gives topics that are named by id their names; one that is not there has none.
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

/// A request that was named by `seen`, and has its place among the commits to its group. `topics` are those of the moment.
pub(crate) async fn handle<P: Platform, L: OffsetsLog, T: Topics>(
    coordinator: &Rc<GroupCoordinator<P, L>>,
    request: &OffsetCommitRequest,
    version: i16,
    (host, place): (&StrBytes, InLine),
    (seen, topics): (Arc<T>, impl Fn() -> Arc<T>),
) -> OffsetCommitResponse {
    let how = Commit::plain(version);
    let mut readied = Readied::of(request, how, &*seen, coordinator.commit_rules()).await;
    let place = in_turn(place).await;
    let verdict = match coordinator.fits_log(&request.group_id, readied.log_bytes()) {
        Err(error) => Verdict::Refused(error),
        Ok(false) => Verdict::NoRoom(ErrorCode::UnknownServerError),
        Ok(true) => {
            // Only of what fits, which is little: it is done in one piece with the decision.
            let now = topics();
            if !Arc::ptr_eq(&seen, &now) {
                readied.check_again(request, &*now);
            }
            let verdict = decide(coordinator, request, &mut readied, host, place);
            verdict.await.unwrap_or_else(Verdict::Refused)
        }
    };
    readied.told(request, verdict).await
}

/// The place, when those before it have theirs in the log.
pub(crate) async fn in_turn(mut place: InLine) -> InLine {
    if let Some(place) = &mut place {
        place.turn().await;
    }
    place
}

async fn decide<P: Platform, L: OffsetsLog>(
    coordinator: &Rc<GroupCoordinator<P, L>>,
    request: &OffsetCommitRequest,
    readied: &mut Readied,
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
