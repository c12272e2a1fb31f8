//! Requests about groups: each group's request runs on the shard that leads its partition of
//! `__consumer_offsets`.
//!
//! While that topic does not exist, the request runs on this shard, and the coordinator returns the
//! error.

use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;

use platform::Platform;
use wire::acl::{Operation, ResourceType};
use wire::kafka::Newest;
use wire::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, DeleteGroupsRequest,
    DeleteGroupsResponse, DescribeGroupsRequest, DescribeGroupsResponse, FindCoordinatorRequest,
    FindCoordinatorResponse, GroupId, ListGroupsRequest, ListGroupsResponse, OffsetCommitRequest,
    OffsetFetchRequest, OffsetFetchResponse, TxnOffsetCommitRequest, TxnOffsetCommitResponse,
};
use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use super::call::{Call, Guarded, at_group};
use super::guards::{First, Handler, Step};
use super::homes::home_of;
use super::reply::{CloseReason, Reply};
use crate::Broker;
use crate::access::Access;
use crate::group::{Client, is_long};
use crate::handler::{self, Context};
use crate::names::{GROUP_VERSION, OFFSETS_TOPIC, TRANSACTIONS_TOPIC};
use crate::rests::{Rests, each};
use crate::room::Room;
use crate::route::at_homes;
use crate::shards::ShardIndex;

pub(super) async fn join_group<P: Platform>(
    call: &Guarded<'_, P, Step>,
) -> Result<Reply, Box<CloseReason>> {
    let (version, client) = (call.header.version, client_of(call.context));
    let access = call.access.clone();
    at_group(call, async move |at, r| {
        handler::join_group::handle(&at.groups, r, version, &client, &access).await
    })
    .await
}

pub(super) async fn consumer_group_heartbeat<P: Platform>(
    call: &Guarded<'_, P, Handler>,
) -> Result<Reply, Box<CloseReason>> {
    use handler::consumer_group_heartbeat::handle;
    let (version, client) = (call.header.version, client_of(call.context));
    let access = call.access.clone();
    at_group(call, async move |at, r| {
        let served = serves_consumer_groups(&at.broker);
        handle(&at.groups, &r, version, &client, served, &access).await
    })
    .await
}

/// Commits offsets; the client that sends them is charged for a group that they create.
pub(super) async fn offset_commit<P: Platform>(
    call: &Guarded<'_, P, First>,
) -> Result<Reply, Box<CloseReason>> {
    let (v, host) = (call.header.version, client_of(call.context).host);
    let access = call.access.clone();
    at_group(call, async move |at, r: Newest<OffsetCommitRequest>| {
        let mut r = r.message;
        // Before the first yield, so that commits to a group are decided in order of arrival.
        let topics = r.topics.iter();
        let notes = topics.map(|topic| topic.partitions.iter().map(|it| &it.committed_metadata));
        let place = at.groups.in_line(&r.group_id, &host, is_long(notes));
        let image = at.broker.image();
        handler::offset_commit::name(&mut r, v, &image).await;
        let topics = (image, || at.broker.image());
        handler::offset_commit::handle(&at.groups, &r, v, (&host, place), topics, &access).await
    })
    .await
}

/// Deletes offsets.
pub(super) async fn offset_delete<P: Platform>(
    call: &Guarded<'_, P, First>,
) -> Result<Reply, Box<CloseReason>> {
    let access = call.access.clone();
    at_group(call, async move |at, r| {
        let image = || at.broker.image();
        handler::offset_delete::handle(&at.groups, &r, image, &access).await
    })
    .await
}

/// Commits offsets of a transaction.
pub(super) async fn txn_offset_commit<P: Platform>(
    call: &Guarded<'_, P, First>,
) -> Result<Reply, Box<CloseReason>> {
    let (v, host) = (call.header.version, client_of(call.context).host);
    let access = call.access.clone();
    at_group(call, async move |at, r| {
        commit_to_the_end(at.broker, r, v, (host, access)).await
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

fn client_of(context: &Context) -> Client {
    Client {
        id: context.client_id.clone(),
        host: StrBytes::from_string(format!("/{}", context.peer.ip())),
    }
}

/// The error for a group with which the client may not do what it asks.
const DENIED: ErrorCode = ErrorCode::GroupAuthorizationFailed;

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

/// Returns the groups with which the client may do this, and the others.
async fn parted(
    access: &Access,
    operation: Operation,
    groups: Vec<GroupId>,
) -> (Vec<GroupId>, Vec<GroupId>) {
    if !access.is_limited() {
        return (groups, Vec::new());
    }
    let (mut allowed, mut denied, count) = (Vec::new(), Vec::new(), groups.len());
    let mut rests = Rests::new();
    for group in groups {
        let may = access.may(operation, ResourceType::Group, &group);
        let part = if may { &mut allowed } else { &mut denied };
        part.push(group);
        rests.item().await;
    }
    let parted = allowed.len().saturating_add(denied.len());
    assert!(parted == count, "each group is in one of the parts");
    (allowed, denied)
}

/// Finds coordinators; a client that may ask for none of them makes no topic.
pub(super) async fn find_coordinator<P: Platform>(
    call: &Call<'_, P>,
    request: &FindCoordinatorRequest,
) -> FindCoordinatorResponse {
    use handler::find_coordinator::{GROUP, Node, TRANSACTION, denied_keys, handle, keys};
    let (broker, version) = (call.broker, call.header.version);
    let topic = match request.key_type {
        TRANSACTION => TRANSACTIONS_TOPIC,
        _ => OFFSETS_TOPIC,
    };
    let denied = denied_keys(request, version, &call.access).await;
    let known = broker.image().topic_by_name(topic).is_some();
    if [GROUP, TRANSACTION].contains(&request.key_type) && !known {
        let mut keys = keys(request, version).into_iter();
        if denied.is_empty() || keys.any(|key| !denied.contains_key(&key)) {
            broker.create_missing(vec![topic.to_owned()]).await;
        }
    }
    let image = broker.image();
    handle(request, version, |key| {
        if let Some(code) = denied.get(key) {
            return Err(*code);
        }
        image
            .topic_by_name(topic)
            .ok_or(ErrorCode::CoordinatorNotAvailable)?;
        let brokers = image.alive_brokers(&call.context.listener);
        let mut me = brokers.filter(|(broker_of, _)| broker_of.id == broker.options.node_id.0);
        let (_, endpoint) = me.next().ok_or(ErrorCode::CoordinatorNotAvailable)?;
        Ok(Node {
            id: broker.options.node_id,
            host: endpoint.host.clone(),
            port: endpoint.port,
        })
    })
    .await
}

pub(super) async fn offset_fetch<P: Platform>(
    call: &Call<'_, P>,
    Newest {
        message: request, ..
    }: Newest<OffsetFetchRequest>,
) -> OffsetFetchResponse {
    use handler::offset_fetch::{
        BY_ID, gather, handle_group, hide, identify, name, refused, split,
    };
    let (broker, access, version) = (call.broker, &call.access, call.header.version);
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
        refusals.push(Some(name(group, version, &image, access).await));
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
    let mut told = Vec::with_capacity(groups.len());
    let mut rests = Rests::new();
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
        if group.topics.is_none() {
            hide(&mut answer, access).await;
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

pub(super) async fn describe_groups<P: Platform>(
    call: &Call<'_, P>,
    request: DescribeGroupsRequest,
) -> DescribeGroupsResponse {
    use handler::describe_groups::{handle_group, refused};
    let (broker, version) = (call.broker, call.header.version);
    let operations = request.include_authorized_operations;
    let operations_of = operations.then(|| call.access.clone());
    let groups = without_repeats(request.groups, |group| group).await;
    let (groups, denied) = parted(&call.access, Operation::Describe, groups).await;
    let asked = homes(broker, &groups).await;
    let room = Room::of(&broker.answers, call.ip());
    let _counted = room.clone();
    let answers = at_homes(broker, asked, move |broker, group: GroupId| {
        let told = || handle_group(&broker.groups, &group, operations_of.as_ref(), version);
        let told = room.tell(version, told);
        std::future::ready(told.unwrap_or_else(|| refused(&group, room.refusal())))
    });
    let answers = groups.iter().zip(answers.await);
    let gone = |group| refused(group, ErrorCode::NotCoordinator);
    let told = |(group, answer): (_, Option<_>)| answer.unwrap_or_else(|| gone(group));
    // As in Kafka, those that are denied come first.
    let mut groups = each(&denied, |group| refused(group, DENIED)).await;
    groups.append(&mut each(answers, told).await);
    DescribeGroupsResponse::default().with_groups(groups)
}

pub(super) async fn describe_consumer_groups<P: Platform>(
    call: &Call<'_, P>,
    request: ConsumerGroupDescribeRequest,
) -> ConsumerGroupDescribeResponse {
    use handler::consumer_group_describe::{handle_group, hide, refused};
    let (broker, version) = (call.broker, call.header.version);
    let operations = request.include_authorized_operations;
    let operations_of = operations.then(|| call.access.clone());
    let served = serves_consumer_groups(broker);
    let groups = without_repeats(request.group_ids, |group| group).await;
    if !served {
        let refused = |group| refused(group, ErrorCode::UnsupportedVersion, None);
        let refused = each(&groups, refused).await;
        return ConsumerGroupDescribeResponse::default().with_groups(refused);
    }
    let (groups, denied) = parted(&call.access, Operation::Describe, groups).await;
    let asked = homes(broker, &groups).await;
    let room = Room::of(&broker.answers, call.ip());
    let _counted = room.clone();
    let answers = at_homes(broker, asked, move |broker, group: GroupId| {
        let told = || handle_group(&broker.groups, &group, operations_of.as_ref());
        let told = room.tell(version, told);
        std::future::ready(told.unwrap_or_else(|| refused(&group, room.refusal(), None)))
    });
    let answers = groups.iter().zip(answers.await);
    let gone = |group| refused(group, ErrorCode::NotCoordinator, None);
    let told = |(group, answer): (_, Option<_>)| answer.unwrap_or_else(|| gone(group));
    let mut described = each(answers, told).await;
    hide(&mut described, &call.access).await;
    // As in Kafka, those that are denied come first.
    let mut groups = each(&denied, |group| refused(group, DENIED, None)).await;
    groups.append(&mut described);
    ConsumerGroupDescribeResponse::default().with_groups(groups)
}

pub(super) async fn delete_groups<P: Platform>(
    call: &Call<'_, P>,
    request: DeleteGroupsRequest,
) -> DeleteGroupsResponse {
    use handler::delete_groups::{handle_group, result};
    let broker = call.broker;
    let groups = without_repeats(request.groups_names, |group| group).await;
    let (groups, denied) = parted(&call.access, Operation::Delete, groups).await;
    let asked = homes(broker, &groups).await;
    let answers = at_homes(broker, asked, |broker, group: GroupId| async move {
        handle_group(&broker.groups, &group).await
    });
    let answers = groups.iter().zip(answers.await);
    let gone = |group| result(group, Some(ErrorCode::NotCoordinator));
    let told = |(group, answer): (_, Option<_>)| answer.unwrap_or_else(|| gone(group));
    let mut results = each(answers, told).await;
    results.extend(each(&denied, |group| result(group, Some(DENIED))).await);
    DeleteGroupsResponse::default().with_results(results)
}

/// Lists the groups; those that the client may describe, unless it may describe the cluster.
pub(super) async fn list_groups<P: Platform>(
    call: &Call<'_, P>,
    request: ListGroupsRequest,
) -> ListGroupsResponse {
    let broker = call.broker;
    let access = if call.access.has_cluster(Operation::Describe) {
        Access::unlimited()
    } else {
        call.access.clone()
    };
    let request = Arc::new(request);
    let room = Room::of_list(&broker.answers, call.ip());
    let there = room.clone();
    let answers = broker.shards.call_all(move |broker| {
        let (request, room) = (Arc::clone(&request), there.clone());
        let access = access.clone();
        async move { handler::list_groups::handle(&broker.groups, &request, &room, &access).await }
    });
    handler::list_groups::gather(answers.await)
}
