//! Requests about groups: each group's request runs on the shard that leads its partition of
//! `__consumer_offsets`.
//!
//! While that topic does not exist, the request runs on this shard, and the coordinator returns the
//! error.
//!
//! Rights on groups that a request names many times are asked for before the groups, and again on
//! the shard of each: the request may have waited.

use std::collections::HashSet;
use std::sync::Arc;

use platform::Platform;
use wire::acl::{Operation, ResourceType};
use wire::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, DeleteGroupsRequest,
    DeleteGroupsResponse, DescribeGroupsRequest, DescribeGroupsResponse, GroupId, JoinGroupRequest,
    ListGroupsRequest, ListGroupsResponse, SyncGroupRequest,
};
use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use super::call::{Call, GuardedCall, at_group};
use super::guards::{Handler, Step};
use super::homes::home_of;
use super::reply::{CloseReason, Reply};
use crate::Broker;
use crate::access::Access;
use crate::group::classic::sync_refused;
use crate::group::{Client, owned};
use crate::handler::{self, Context};
use crate::names::GROUP_VERSION;
use crate::rests::{Rests, each};
use crate::room::Room;
use crate::route::at_homes;
use crate::shards::ShardIndex;

/// Joins a group; a client that has lost its right while others joined learns nothing of them.
///
/// Kafka judges it before the wait only and answers it, but refuses its next request, even a
/// `LeaveGroup`. So there as here it is a member until its session ends; here it learns of no other
/// member.
pub(super) async fn join_group<P: Platform>(
    call: &GuardedCall<'_, P, Step>,
) -> Result<Reply, Box<CloseReason>> {
    use handler::join_group::{handle, refused};
    let (version, client) = (call.header.version, client_of(call.context));
    let access = call.access();
    at_group(call, async move |at, request: JoinGroupRequest| {
        let group = GroupId(owned(&request.group_id));
        let joined = handle(&at.groups, request, version, &client, &access).await;
        if has_lost(&access, &at.broker, Operation::Read, &group) {
            return refused(DENIED, version);
        }
        joined
    })
    .await
}

/// Waits for an assignment, for a client that may still read the group when it is made.
///
/// What a leader hands in counts for the others, whatever it may do then: as for a join.
pub(super) async fn sync_group<P: Platform>(
    call: &GuardedCall<'_, P, Step>,
) -> Result<Reply, Box<CloseReason>> {
    let (version, access) = (call.header.version, call.access());
    at_group(call, async move |at, request: SyncGroupRequest| {
        let group = GroupId(owned(&request.group_id));
        let synced = handler::sync_group::handle(&at.groups, request, version).await;
        if has_lost(&access, &at.broker, Operation::Read, &group) {
            return sync_refused(DENIED);
        }
        synced
    })
    .await
}

pub(super) async fn consumer_group_heartbeat<P: Platform>(
    call: &GuardedCall<'_, P, Handler>,
) -> Result<Reply, Box<CloseReason>> {
    use handler::consumer_group_heartbeat::handle;
    let (version, client) = (call.header.version, client_of(call.context));
    let access = call.access();
    at_group(call, async move |at, request| {
        let served = serves_consumer_groups(&at.broker);
        let access = access.now(&at.broker);
        handle(&at.groups, &request, version, &client, served, &access).await
    })
    .await
}

pub(super) fn client_of(context: &Context) -> Client {
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
pub(super) async fn without_repeats<T>(asked: Vec<T>, group: impl Fn(&T) -> &GroupId) -> Vec<T> {
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

/// Returns whether a client has lost its right on a group since it was judged.
fn has_lost<P: Platform>(
    access: &Access,
    broker: &Broker<P>,
    operation: Operation,
    group: &GroupId,
) -> bool {
    access.has_lost(broker, operation, ResourceType::Group, group)
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

pub(super) async fn describe_groups<P: Platform>(
    call: &Call<'_, P>,
    request: DescribeGroupsRequest,
) -> DescribeGroupsResponse {
    use handler::describe_groups::{handle_group, refused};
    let (broker, version, access) = (call.broker, call.header.version, call.access());
    let operations = request.include_authorized_operations;
    let groups = without_repeats(request.groups, |group| group).await;
    let (groups, denied) = parted(&access, Operation::Describe, groups).await;
    let asked = homes(broker, &groups).await;
    let room = Room::of(&broker.answers, call.ip());
    let _counted = room.clone();
    let answers = at_homes(broker, asked, move |broker, group: GroupId| {
        if has_lost(&access, &broker, Operation::Describe, &group) {
            return std::future::ready(refused(&group, DENIED));
        }
        let operations_of = operations.then_some(&access);
        let told = || handle_group(&broker.groups, &group, operations_of, version);
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
    let (broker, version, access) = (call.broker, call.header.version, call.access());
    let operations = request.include_authorized_operations;
    let served = serves_consumer_groups(broker);
    let groups = without_repeats(request.group_ids, |group| group).await;
    if !served {
        let refused = |group| refused(group, ErrorCode::UnsupportedVersion, None);
        let refused = each(&groups, refused).await;
        return ConsumerGroupDescribeResponse::default().with_groups(refused);
    }
    let (groups, denied) = parted(&access, Operation::Describe, groups).await;
    let asked = homes(broker, &groups).await;
    let room = Room::of(&broker.answers, call.ip());
    let _counted = room.clone();
    let answers = at_homes(broker, asked, move |broker, group: GroupId| {
        if has_lost(&access, &broker, Operation::Describe, &group) {
            return std::future::ready(refused(&group, DENIED, None));
        }
        let operations_of = operations.then_some(&access);
        let told = || handle_group(&broker.groups, &group, operations_of);
        let told = room.tell(version, told);
        std::future::ready(told.unwrap_or_else(|| refused(&group, room.refusal(), None)))
    });
    let answers = groups.iter().zip(answers.await);
    let gone = |group| refused(group, ErrorCode::NotCoordinator, None);
    let told = |(group, answer): (_, Option<_>)| answer.unwrap_or_else(|| gone(group));
    let mut described = each(answers, told).await;
    hide(&mut described, &call.access()).await;
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
    let (broker, access) = (call.broker, call.access());
    let groups = without_repeats(request.groups_names, |group| group).await;
    let (groups, denied) = parted(&access, Operation::Delete, groups).await;
    let asked = homes(broker, &groups).await;
    let answers = at_homes(broker, asked, move |broker, group: GroupId| {
        let access = access.clone();
        async move {
            if has_lost(&access, &broker, Operation::Delete, &group) {
                return result(&group, Some(DENIED));
            }
            handle_group(&broker.groups, &group).await
        }
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
    let (broker, access) = (call.broker, call.access());
    let request = Arc::new(request);
    let room = Room::of_list(&broker.answers, call.ip());
    let there = room.clone();
    let answers = broker.shards.call_all(move |broker| {
        let (request, room) = (Arc::clone(&request), there.clone());
        let mut access = access.now(&broker);
        if access.has_cluster(Operation::Describe) {
            access = Access::unlimited();
        }
        async move { handler::list_groups::handle(&broker.groups, &request, &room, &access).await }
    });
    handler::list_groups::gather(answers.await)
}
