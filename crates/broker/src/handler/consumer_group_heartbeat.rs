//! `ConsumerGroupHeartbeat` (key 68), versions 0-1: keeps a member of a consumer group alive, and
//! returns its assignment.
//!
//! Version 1 added regular expressions, and member ids that the client generates.

use std::rc::Rc;

use platform::Platform;
use wire::acl::{Operation, ResourceType};
use wire::messages::consumer_group_heartbeat_response::{Assignment, TopicPartitions};
use wire::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};
use wire::protocol::StrBytes;
use wire::types::{ErrorCode, Uuid, uuid_to_base64};

use crate::access::Access;
use crate::group::assignor::Partitions;
use crate::group::consumer::member::{JOIN, LEAVE, LEAVE_STATIC};
use crate::group::consumer::{GroupRefusal, Heartbeat, HeartbeatAnswer, Leave};
use crate::group::{Client, GroupCoordinator, OffsetsLog, SeenCluster, owned};
use crate::rests::Rests;

/// The first version whose clients generate their member ids.
const OWN_IDS: i16 = 1;

pub(crate) async fn handle<P: Platform, L: OffsetsLog>(
    coordinator: &Rc<GroupCoordinator<P, L>>,
    request: &ConsumerGroupHeartbeatRequest,
    version: i16,
    client: &Client,
    served: bool,
    access: &Access,
) -> ConsumerGroupHeartbeatResponse {
    if !served {
        return refused(GroupRefusal::new(ErrorCode::UnsupportedVersion, ""));
    }
    if let Err(code) = check_rights(request, access).await {
        return refused(GroupRefusal::new(code, ""));
    }
    if let Err(error) = check(coordinator, request, version) {
        return refused(error);
    }
    let group = owned(&request.group_id);
    let answer = if request.member_epoch < JOIN {
        let member_id = owned(&request.member_id);
        coordinator
            .decide_and_write(&group, |groups, around| {
                let leave = Leave {
                    member_id: &member_id,
                    instance_id: request.instance_id.as_ref(),
                    epoch: request.member_epoch,
                };
                groups.consumer_leave(&group, &leave, around)
            })
            .await
    } else {
        let fresh = (coordinator.random_u64(), coordinator.random_u64());
        let beat = heartbeat(request, client, fresh);
        coordinator
            .decide_and_write(&group, |groups, (now, cluster)| {
                let seen = SeenCluster::by(access, cluster);
                groups.consumer_heartbeat(&group, &beat, (now, &seen))
            })
            .await
    };
    answer.map_or_else(refused, respond)
}

/// Checks that the client may read the group, and describe every topic that it names.
async fn check_rights(
    request: &ConsumerGroupHeartbeatRequest,
    access: &Access,
) -> Result<(), ErrorCode> {
    if !access.may(Operation::Read, ResourceType::Group, &request.group_id) {
        return Err(ErrorCode::GroupAuthorizationFailed);
    }
    if !access.is_limited() {
        return Ok(());
    }
    let mut rests = Rests::new();
    for name in request.subscribed_topic_names.iter().flatten() {
        if !access.may(Operation::Describe, ResourceType::Topic, name) {
            return Err(ErrorCode::TopicAuthorizationFailed);
        }
        rests.item().await;
    }
    Ok(())
}

fn check<P: Platform, L: OffsetsLog>(
    coordinator: &GroupCoordinator<P, L>,
    request: &ConsumerGroupHeartbeatRequest,
    version: i16,
) -> Result<(), GroupRefusal> {
    let refuse = |message: &str| Err(GroupRefusal::new(ErrorCode::InvalidRequest, message));
    let is_blank = |text: &StrBytes| text.trim().is_empty();
    let epoch = request.member_epoch;
    let names_itself = version >= OWN_IDS || epoch > JOIN || epoch == LEAVE;
    if names_itself && is_blank(&request.member_id) {
        return refuse("MemberId can't be empty.");
    }
    if is_blank(&request.group_id) {
        return refuse("GroupId can't be empty.");
    }
    if request.instance_id.as_ref().is_some_and(is_blank) {
        return refuse("InstanceId can't be empty.");
    }
    if request.rack_id.as_ref().is_some_and(is_blank) {
        return refuse("RackId can't be empty.");
    }
    if epoch == JOIN {
        if request.rebalance_timeout_ms == -1 {
            return refuse("RebalanceTimeoutMs must be provided in first request.");
        }
        if request
            .topic_partitions
            .as_ref()
            .is_none_or(|owned| !owned.is_empty())
        {
            return refuse("TopicPartitions must be empty when (re-)joining.");
        }
        if request.subscribed_topic_names.is_none() && request.subscribed_topic_regex.is_none() {
            return refuse(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when \
                 (re-)joining.",
            );
        }
    } else if epoch == LEAVE_STATIC && request.instance_id.is_none() {
        return refuse("InstanceId can't be null.");
    } else if epoch < LEAVE_STATIC {
        return refuse("MemberEpoch is invalid.");
    }
    let offered = coordinator.options().consumer.assignors;
    let offered = || offered.iter().flatten().map(|assignor| assignor.name());
    match &request.server_assignor {
        Some(asked) if !offered().any(|name| name == asked.as_str()) => {
            let all: Vec<&str> = offered().collect();
            let message = format!(
                "ServerAssignor {asked} is not supported. Supported assignors: {}.",
                all.join(", ")
            );
            Err(GroupRefusal::new(ErrorCode::UnsupportedAssignor, message))
        }
        _ => Ok(()),
    }
}

fn heartbeat(
    request: &ConsumerGroupHeartbeatRequest,
    client: &Client,
    fresh: (u64, u64),
) -> Heartbeat {
    let member_id = if request.member_id.is_empty() {
        StrBytes::from_string(uuid_to_base64(Uuid::from_u64_pair(fresh.0, fresh.1)))
    } else {
        owned(&request.member_id)
    };
    let names = request.subscribed_topic_names.as_ref();
    let owns = request.topic_partitions.as_ref().map(|topics| {
        let mut all = Partitions::new();
        for topic in topics {
            let mine = all.entry(topic.topic_id).or_default();
            mine.extend(topic.partitions.iter().copied());
        }
        all
    });
    Heartbeat {
        member_id,
        epoch: request.member_epoch,
        instance_id: request.instance_id.as_ref().map(owned),
        rack_id: request.rack_id.as_ref().map(owned),
        rebalance_timeout_ms: Some(request.rebalance_timeout_ms).filter(|ms| *ms != -1),
        topics: names.map(|names| names.iter().map(|name| owned(name)).collect()),
        regex: request.subscribed_topic_regex.as_ref().map(owned),
        assignor: request.server_assignor.as_ref().map(owned),
        owned: owns,
        client: Client {
            id: owned(&client.id),
            host: owned(&client.host),
        },
    }
}

fn respond(answer: HeartbeatAnswer) -> ConsumerGroupHeartbeatResponse {
    let assignment = answer.assignment.map(|partitions| {
        let topics = partitions.into_iter().map(|(topic, partitions)| {
            TopicPartitions::default()
                .with_topic_id(topic)
                .with_partitions(partitions.into_iter().collect())
        });
        Assignment::default().with_topic_partitions(topics.collect())
    });
    ConsumerGroupHeartbeatResponse::default()
        .with_member_id(Some(answer.member_id))
        .with_member_epoch(answer.epoch)
        .with_heartbeat_interval_ms(answer.heartbeat_interval_ms)
        .with_assignment(assignment)
}

fn refused(refused: GroupRefusal) -> ConsumerGroupHeartbeatResponse {
    let message = Some(refused.message).filter(|message| !message.is_empty());
    ConsumerGroupHeartbeatResponse::default()
        .with_error_code(refused.code.code())
        .with_error_message(message.map(StrBytes::from_string))
}
