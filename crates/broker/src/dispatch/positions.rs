//! Requests about the positions of groups: each group's part runs on the shard that leads its
//! partition of `__consumer_offsets`.
//!
//! Commits to a group are decided in the order in which they come. Rights are asked for before a
//! group is, and again after it may have waited for its log, or for the commits before.

use std::rc::Rc;

use platform::Platform;
use wire::acl::{Operation, ResourceType};
use wire::kafka::NewestVersion;
use wire::messages::{
    OffsetCommitRequest, OffsetFetchRequest, OffsetFetchResponse, TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
};
use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use super::audited;
use super::call::{Call, GuardedCall, at_group};
use super::groups::{client_of, without_repeats};
use super::guards::StepThenHandler;
use super::homes::home_of;
use super::reply::{CloseReason, Reply};
use crate::Broker;
use crate::access::Access;
use crate::group::is_long;
use crate::handler;
use crate::rests::Rests;
use crate::room::Room;
use crate::route::at_homes;

/// Commits offsets; the client that sends them is charged for a group that they create.
pub(super) async fn offset_commit<P: Platform>(
    call: &GuardedCall<'_, P, StepThenHandler>,
) -> Result<Reply, Box<CloseReason>> {
    let (version, host) = (call.header.version, client_of(call.context).host);
    let access = call.access();
    at_group(
        call,
        async move |at, request: NewestVersion<OffsetCommitRequest>| {
            let mut request = request.message;
            // Before the first yield, so that commits to a group are decided in order of arrival.
            let topics = request.topics.iter();
            let notes =
                topics.map(|topic| topic.partitions.iter().map(|it| &it.committed_metadata));
            let place = at.groups.in_line(&request.group_id, &host, is_long(notes));
            let image = at.broker.image();
            handler::offset_commit::name(&mut request, version, &image).await;
            let now = || (at.broker.image(), access.renewed_by(&at.broker));
            let topics = (image, now);
            handler::offset_commit::handle(
                &at.groups,
                &request,
                version,
                (&host, place),
                topics,
                &access,
            )
            .await
        },
    )
    .await
}

/// Deletes offsets.
pub(super) async fn offset_delete<P: Platform>(
    call: &GuardedCall<'_, P, StepThenHandler>,
) -> Result<Reply, Box<CloseReason>> {
    let (access, audited) = (call.access(), call.audited());
    at_group(call, async move |at, request| {
        let now = || (at.broker.image(), access.renewed_by(&at.broker));
        let response = handler::offset_delete::handle(&at.groups, &request, now, &access).await;
        if let Some(audited) = &audited {
            audited::offsets_deleted(audited, &request.group_id, &response);
        }
        response
    })
    .await
}

/// Commits offsets of a transaction.
pub(super) async fn txn_offset_commit<P: Platform>(
    call: &GuardedCall<'_, P, StepThenHandler>,
) -> Result<Reply, Box<CloseReason>> {
    let (version, host) = (call.header.version, client_of(call.context).host);
    let access = call.access();
    at_group(call, async move |at, request| {
        commit_to_the_end(at.broker, request, version, (host, access)).await
    })
    .await
}

/// Runs to its end even if the client disconnects: the groups must know what has been appended.
async fn commit_to_the_end<P: Platform>(
    broker: Rc<Broker<P>>,
    request: TxnOffsetCommitRequest,
    version: i16,
    client: (StrBytes, Access),
) -> TxnOffsetCommitResponse {
    let kept = Rc::new(request);
    let done = handler::txn_offset_commit::handle(broker, Rc::clone(&kept), version, client);
    match platform::task::spawn(done).await {
        Ok(told) => told,
        Err(_) => handler::txn_offset_commit::refused(&kept, ErrorCode::NotCoordinator).await,
    }
}

pub(super) async fn offset_fetch<P: Platform>(
    call: &Call<'_, P>,
    NewestVersion {
        message: request, ..
    }: NewestVersion<OffsetFetchRequest>,
) -> OffsetFetchResponse {
    use handler::offset_fetch::{
        BY_ID, gather, handle_group, hide, identify, judge_again, name, refused, split,
    };
    let (broker, access, version) = (call.broker, call.access(), call.header.version);
    let stable = request.require_stable;
    let groups = split(request, version);
    let mut groups = without_repeats(groups, |group| &group.group_id).await;
    let image = broker.image();
    // For each group the results of its topics that are refused; `None` if the group is.
    let mut refusals = Vec::with_capacity(groups.len());
    let mut asked = Vec::with_capacity(groups.len());
    let mut rests = Rests::new();
    for group in &mut groups {
        rests.item().await;
        if !access.may(Operation::Describe, ResourceType::Group, &group.group_id) {
            refusals.push(None);
            continue;
        }
        refusals.push(Some(name(group, version, &image, &access).await));
        let home = home_of(broker, group.group_id.as_str());
        asked.push((home, group.clone()));
    }
    let room = Room::of(&broker.answers, call.ip());
    let _counted = room.clone();
    let answers = at_homes(broker, asked, move |broker, group| {
        let room = room.clone();
        async move {
            if room.is_full() {
                return refused(&group, room.refusal()).await;
            }
            handle_group(&broker.groups, &group, stable, &room).await
        }
    });
    let mut answers = answers.await.into_iter();
    // `None` if no ACL has changed: the rights are those of before then.
    let renewed = access.renewed_by(broker);
    let mut told = Vec::with_capacity(groups.len());
    for (group, refusals) in groups.iter().zip(refusals) {
        rests.item().await;
        let Some(refusals) = refusals else {
            told.push(refused(group, ErrorCode::GroupAuthorizationFailed).await);
            continue;
        };
        let mut answer = match answers.next().flatten() {
            Some(answer) => answer,
            None => refused(group, ErrorCode::NotCoordinator).await,
        };
        if let Some(access) = &renewed {
            answer = judge_again(group, answer, access).await;
        }
        if group.topics.is_none() {
            hide(&mut answer, renewed.as_ref().unwrap_or(&access)).await;
        }
        if version >= BY_ID {
            identify(&mut answer, &image).await;
        }
        // Last: an unknown id is returned as the client sent it.
        answer.topics.extend(refusals);
        told.push(answer);
    }
    assert!(
        answers.next().is_none(),
        "an answer is of a group that was asked"
    );
    gather(told, version).await
}
