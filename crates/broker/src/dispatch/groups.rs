//! Requests about groups: each group's request runs on the shard that leads its partition of
//! `__consumer_offsets`.
//!
//! While that topic does not exist, the request runs on this shard, and the coordinator returns the
//! error.

use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;

use platform::Platform;
use wire::kafka::Newest;
use wire::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, DeleteGroupsRequest,
    DeleteGroupsResponse, DescribeGroupsRequest, DescribeGroupsResponse, FindCoordinatorRequest,
    FindCoordinatorResponse, GroupId, ListGroupsRequest, ListGroupsResponse, OffsetCommitRequest,
    OffsetFetchRequest, OffsetFetchResponse, TxnOffsetCommitRequest, TxnOffsetCommitResponse,
};
use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use super::call::{Call, at_group};
use super::homes::home_of;
use super::reply::{CloseReason, Reply};
use crate::Broker;
use crate::group::{Client, is_long};
use crate::handler::{self, Context};
use crate::names::{GROUP_VERSION, OFFSETS_TOPIC, TRANSACTIONS_TOPIC};
use crate::rests::{Rests, each};
use crate::room::Room;
use crate::route::at_homes;
use crate::shards::ShardIndex;

pub(super) async fn join_group<P: Platform>(call: &Call<'_, P>) -> Result<Reply, CloseReason> {
    let (version, client) = (call.header.version, client_of(call.context));
    at_group(call, async move |at, r| {
        handler::join_group::handle(&at.groups, r, version, &client).await
    })
    .await
}

pub(super) async fn consumer_group_heartbeat<P: Platform>(
    call: &Call<'_, P>,
) -> Result<Reply, CloseReason> {
    let (version, client) = (call.header.version, client_of(call.context));
    at_group(call, async move |at, r| {
        let served = serves_consumer_groups(&at.broker);
        handler::consumer_group_heartbeat::handle(&at.groups, &r, version, &client, served).await
    })
    .await
}

/// Commits offsets; the client that sends them is charged for a group that they create.
pub(super) async fn offset_commit<P: Platform>(call: &Call<'_, P>) -> Result<Reply, CloseReason> {
    let (v, host) = (call.header.version, client_of(call.context).host);
    at_group(call, async move |at, r: Newest<OffsetCommitRequest>| {
        let mut r = r.message;
        // Before the first yield, so that commits to a group are decided in order of arrival.
        let topics = r.topics.iter();
        let notes = topics.map(|topic| topic.partitions.iter().map(|it| &it.committed_metadata));
        let place = at.groups.in_line(&r.group_id, &host, is_long(notes));
        let image = at.broker.image();
        handler::offset_commit::name(&mut r, v, &image).await;
        let topics = (image, || at.broker.image());
        handler::offset_commit::handle(&at.groups, &r, v, (&host, place), topics).await
    })
    .await
}

/// Commits offsets of a transaction.
pub(super) async fn txn_offset_commit<P: Platform>(
    call: &Call<'_, P>,
) -> Result<Reply, CloseReason> {
    let (v, host) = (call.header.version, client_of(call.context).host);
    at_group(call, async move |at, r| {
        commit_to_the_end(at.broker, r, v, host).await
    })
    .await
}

/// Runs to its end even if the client disconnects: the groups must know what has been appended.
async fn commit_to_the_end<P: Platform>(
    broker: Rc<Broker<P>>,
    request: TxnOffsetCommitRequest,
    version: i16,
    host: StrBytes,
) -> TxnOffsetCommitResponse {
    let kept = Rc::new(request);
    let done = handler::txn_offset_commit::handle(broker, Rc::clone(&kept), version, host);
    match platform::task::spawn(done).await {
        Ok(told) => told,
        Err(_) => handler::txn_offset_commit::refused(&kept, ErrorCode::NotCoordinator).await,
    }
}

fn client_of(context: &Context) -> Client {
    Client {
        id: context.client_id.clone(),
        host: StrBytes::from_string(format!("/{}", context.peer.ip())),
    }
}

/// The first groups of a request that are answered as often as they are named.
const REPEATED_MAX: usize = 100;

/// Removes groups that were named before, beyond the first [`REPEATED_MAX`].
///
/// So the existing groups bound the cost of a response, not their size times the length of the
/// request.
async fn without_repeats<T>(asked: Vec<T>, group: impl Fn(&T) -> &GroupId) -> Vec<T> {
    if asked.len() <= 1 {
        return asked;
    }
    let (mut seen, mut kept) = (HashSet::new(), Vec::with_capacity(asked.len()));
    let mut rests = Rests::new();
    for (before, one) in asked.into_iter().enumerate() {
        if seen.insert(group(&one).clone()) || before < REPEATED_MAX {
            kept.push(one);
        }
        rests.item().await;
    }
    kept
}

/// Returns true if both the broker's settings and the cluster's features enable consumer groups.
fn serves_consumer_groups<P: Platform>(broker: &Broker<P>) -> bool {
    broker.options.group.consumer_protocol && broker.image().feature(GROUP_VERSION) >= 1
}

/// Returns each group with its shard.
async fn homes<P: Platform>(broker: &Broker<P>, groups: &[GroupId]) -> Vec<(ShardIndex, GroupId)> {
    let home = |group: &GroupId| (home_of(broker, group.as_str()), group.clone());
    each(groups, home).await
}

pub(super) async fn find_coordinator<P: Platform>(
    broker: &Rc<Broker<P>>,
    context: &Context,
    request: &FindCoordinatorRequest,
    version: i16,
) -> FindCoordinatorResponse {
    let topic = match request.key_type {
        handler::find_coordinator::TRANSACTION => TRANSACTIONS_TOPIC,
        _ => OFFSETS_TOPIC,
    };
    let known = broker.image().topic_by_name(topic).is_some();
    let served = [
        handler::find_coordinator::GROUP,
        handler::find_coordinator::TRANSACTION,
    ];
    if served.contains(&request.key_type) && !known {
        broker.create_missing(vec![topic.to_owned()]).await;
    }
    let image = broker.image();
    handler::find_coordinator::handle(request, version, |_| {
        image
            .topic_by_name(topic)
            .ok_or(ErrorCode::CoordinatorNotAvailable)?;
        let brokers = image.alive_brokers(&context.listener);
        let mut me = brokers.filter(|(broker_of, _)| broker_of.id == broker.options.node_id.0);
        let (_, endpoint) = me.next().ok_or(ErrorCode::CoordinatorNotAvailable)?;
        Ok(handler::find_coordinator::Node {
            id: broker.options.node_id,
            host: endpoint.host.clone(),
            port: endpoint.port,
        })
    })
    .await
}

pub(super) async fn offset_fetch<P: Platform>(
    broker: &Rc<Broker<P>>,
    context: &Context,
    Newest {
        message: request, ..
    }: Newest<OffsetFetchRequest>,
    version: i16,
) -> OffsetFetchResponse {
    let stable = request.require_stable;
    let groups = handler::offset_fetch::split(request, version);
    let mut groups = without_repeats(groups, |group| &group.group_id).await;
    let by_id = version >= handler::offset_fetch::BY_ID;
    let image = broker.image();
    let mut unknown = Vec::with_capacity(groups.len());
    let mut asked = Vec::with_capacity(groups.len());
    let mut rests = Rests::new();
    for group in &mut groups {
        unknown.push(if by_id {
            handler::offset_fetch::name(group, &image).await
        } else {
            Vec::new()
        });
        let home = home_of(broker, group.group_id.as_str());
        asked.push((home, group.clone()));
        rests.item().await;
    }
    let room = Room::of(&broker.answers, context.peer.ip());
    let _counted = room.clone();
    let answers = at_homes(broker, asked, move |broker, group| {
        let room = room.clone();
        async move {
            if room.is_full() {
                return handler::offset_fetch::refused(&group, room.refusal()).await;
            }
            handler::offset_fetch::handle_group(&broker.groups, &group, stable, &room).await
        }
    });
    let mut told = Vec::with_capacity(groups.len());
    let mut rests = Rests::new();
    for ((answer, group), unknown) in answers.await.into_iter().zip(&groups).zip(unknown) {
        let mut answer = match answer {
            Some(answer) => answer,
            None => handler::offset_fetch::refused(group, ErrorCode::NotCoordinator).await,
        };
        if by_id {
            handler::offset_fetch::identify(&mut answer, &image).await;
            // Last: an unknown id is returned as the client sent it.
            answer.topics.extend(unknown);
        }
        told.push(answer);
        rests.item().await;
    }
    handler::offset_fetch::gather(told, version).await
}

pub(super) async fn describe_groups<P: Platform>(
    broker: &Rc<Broker<P>>,
    context: &Context,
    request: DescribeGroupsRequest,
    version: i16,
) -> DescribeGroupsResponse {
    use handler::describe_groups::{handle_group, refused};
    let operations = request.include_authorized_operations;
    let groups = without_repeats(request.groups, |group| group).await;
    let asked = homes(broker, &groups).await;
    let room = Room::of(&broker.answers, context.peer.ip());
    let _counted = room.clone();
    let answers = at_homes(broker, asked, move |broker, group: GroupId| {
        let told = || handle_group(&broker.groups, &group, operations, version);
        let told = room.tell(version, told);
        std::future::ready(told.unwrap_or_else(|| refused(&group, room.refusal())))
    });
    let answers = groups.iter().zip(answers.await);
    let gone = |group| refused(group, ErrorCode::NotCoordinator);
    let told = |(group, answer): (_, Option<_>)| answer.unwrap_or_else(|| gone(group));
    DescribeGroupsResponse::default().with_groups(each(answers, told).await)
}

pub(super) async fn describe_consumer_groups<P: Platform>(
    broker: &Rc<Broker<P>>,
    context: &Context,
    request: ConsumerGroupDescribeRequest,
    version: i16,
) -> ConsumerGroupDescribeResponse {
    use handler::consumer_group_describe::{handle_group, refused};
    let operations = request.include_authorized_operations;
    let served = serves_consumer_groups(broker);
    let groups = without_repeats(request.group_ids, |group| group).await;
    if !served {
        let refused = |group| refused(group, ErrorCode::UnsupportedVersion, None);
        let refused = each(&groups, refused).await;
        return ConsumerGroupDescribeResponse::default().with_groups(refused);
    }
    let asked = homes(broker, &groups).await;
    let room = Room::of(&broker.answers, context.peer.ip());
    let _counted = room.clone();
    let answers = at_homes(broker, asked, move |broker, group: GroupId| {
        let told = room.tell(version, || handle_group(&broker.groups, &group, operations));
        std::future::ready(told.unwrap_or_else(|| refused(&group, room.refusal(), None)))
    });
    let answers = groups.iter().zip(answers.await);
    let gone = |group| refused(group, ErrorCode::NotCoordinator, None);
    let told = |(group, answer): (_, Option<_>)| answer.unwrap_or_else(|| gone(group));
    ConsumerGroupDescribeResponse::default().with_groups(each(answers, told).await)
}

pub(super) async fn delete_groups<P: Platform>(
    broker: &Rc<Broker<P>>,
    request: DeleteGroupsRequest,
) -> DeleteGroupsResponse {
    use handler::delete_groups::{handle_group, result};
    let groups = without_repeats(request.groups_names, |group| group).await;
    let asked = homes(broker, &groups).await;
    let answers = at_homes(broker, asked, |broker, group: GroupId| async move {
        handle_group(&broker.groups, &group).await
    });
    let answers = groups.iter().zip(answers.await);
    let gone = |group| result(group, Some(ErrorCode::NotCoordinator));
    let told = |(group, answer): (_, Option<_>)| answer.unwrap_or_else(|| gone(group));
    DeleteGroupsResponse::default().with_results(each(answers, told).await)
}

pub(super) async fn list_groups<P: Platform>(
    broker: &Rc<Broker<P>>,
    context: &Context,
    request: ListGroupsRequest,
) -> ListGroupsResponse {
    let request = Arc::new(request);
    let room = Room::of_list(&broker.answers, context.peer.ip());
    let there = room.clone();
    let answers = broker.shards.call_all(move |broker| {
        let (request, room) = (Arc::clone(&request), there.clone());
        async move { handler::list_groups::handle(&broker.groups, &request, &room).await }
    });
    handler::list_groups::gather(answers.await)
}
