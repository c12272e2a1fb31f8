//! `ConsumerGroupDescribe` (key 69), versions 0-1: state, members and assignments of consumer
//! groups. Version 1 added the protocol of each member.
//!
//! The groups of a request may be on several shards: [`handle_group`] answers for one.

use std::rc::Rc;

use platform::Platform;
use wire::messages::GroupId;
use wire::messages::consumer_group_describe_response::DescribedGroup;
use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use super::describe_groups::ALL_OPERATIONS;
use crate::group::{GroupCoordinator, OffsetsLog};

/// Describes one group.
pub(crate) fn handle_group<P: Platform, L: OffsetsLog>(
    coordinator: &Rc<GroupCoordinator<P, L>>,
    group: &GroupId,
    with_operations: bool,
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
            if with_operations {
                answer.with_authorized_operations(ALL_OPERATIONS)
            } else {
                answer
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
