//! `ConsumerGroupDescribe` (key 69), versions 0-1: state, members and assignments of consumer
//! groups. Version 1 added the protocol of each member.
//!
//! The groups of a request may be on several shards: [`handle_group`] answers for one. A group with
//! a topic that the client may not describe is refused whole ([`hide`]).

use std::collections::HashMap;
use std::rc::Rc;

use platform::Platform;
use wire::acl::{Operation, ResourceType};
use wire::messages::consumer_group_describe_response::DescribedGroup;
use wire::messages::{GroupId, TopicName};
use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use crate::access::Access;
use crate::group::{GroupCoordinator, OffsetsLog};
use crate::rests::Rests;

/// Describes one group.
pub(crate) fn handle_group<P: Platform, L: OffsetsLog>(
    coordinator: &Rc<GroupCoordinator<P, L>>,
    group: &GroupId,
    operations_of: Option<&Access>,
) -> DescribedGroup {
    if group.is_empty() {
        return refused(group, ErrorCode::InvalidGroupId, None);
    }
    let default = coordinator.options().consumer.default_assignor();
    let described = coordinator.look(group, |groups, cluster| {
        let group = groups.consumer_group(group)?;
        Ok::<_, crate::group::consumer::GroupRefusal>(group.describe(default, cluster))
    });
    match described {
        Ok(Ok(answer)) => {
            let answer = answer.with_group_id(group.clone());
            match operations_of {
                Some(access) => {
                    let operations = access.operations(ResourceType::Group, group);
                    answer.with_authorized_operations(operations)
                }
                None => answer,
            }
        }
        Ok(Err(reason)) => refused(group, reason.code, Some(reason.message)),
        Err(error) => refused(group, error, None),
    }
}

/// Returns the error for a group that cannot be described.
pub(crate) fn refused(
    group: &GroupId,
    error: ErrorCode,
    message: Option<String>,
) -> DescribedGroup {
    DescribedGroup::default()
        .with_group_id(group.clone())
        .with_error_code(error.code())
        .with_error_message(message.map(StrBytes::from_string))
}

/// Refuses a group if a member has, or is to get, a topic that the client may not describe.
pub(crate) async fn hide(groups: &mut [DescribedGroup], access: &Access) {
    if !access.is_limited() {
        return;
    }
    // Bounded: lives with one response, whose groups the room for responses bounds.
    let mut known: HashMap<TopicName, bool> = HashMap::new();
    let mut rests = Rests::new();
    for group in groups {
        let members = group.members.iter();
        let assignments = members.flat_map(|one| [&one.assignment, &one.target_assignment]);
        let topics = assignments.flat_map(|assignment| &assignment.topic_partitions);
        let mut is_seen = true;
        for topic in topics {
            let name = &topic.topic_name;
            let may = || access.may(Operation::Describe, ResourceType::Topic, name);
            is_seen &= *known.entry(name.clone()).or_insert_with(may);
            rests.item().await;
        }
        if !is_seen {
            let message = "The group has described topic(s) that the client is not authorized to \
                           describe.";
            let code = ErrorCode::TopicAuthorizationFailed;
            *group = refused(&group.group_id, code, Some(message.to_owned()));
        }
    }
}
