//! `DescribeGroups` (key 15), versions 0-6: state, members and assignments of classic groups.
//!
//! Version 3 added authorized operations, 4 static members, 6 an error (with a message) for an
//! unknown group, which is "Dead" before. The groups of a request may be on several shards:
//! [`handle_group`] answers for one.

use std::rc::Rc;

use platform::Platform;
use wire::acl::ResourceType;
use wire::messages::GroupId;
use wire::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use crate::access::Access;
use crate::group::classic::{ClassicGroup, ClassicGroupState};
use crate::group::groups::GroupRef;
use crate::group::{GroupCoordinator, OffsetsLog};

/// Describes one group; with the operations that a client may do, if it asks for them.
pub(crate) fn handle_group<P: Platform, L: OffsetsLog>(
    coordinator: &Rc<GroupCoordinator<P, L>>,
    group: &GroupId,
    operations_of: Option<&Access>,
    version: i16,
) -> DescribedGroup {
    let described = coordinator.read(group, |groups| match groups.get(group) {
        Some(GroupRef::Classic(machine)) => describe(machine),
        Some(GroupRef::Consumer(_)) => missing(group, "is not a classic group", version),
        None => missing(group, "not found", version),
    });
    let answer = match described {
        Ok(answer) => answer,
        Err(error) => return refused(group, error),
    };
    let answer = answer.with_group_id(group.clone());
    match operations_of {
        // Only groups that are described have operations.
        Some(access) if version >= 3 && answer.error_code == 0 => {
            answer.with_authorized_operations(access.operations(ResourceType::Group, group))
        }
        _ => answer,
    }
}

/// Returns the error for a group that cannot be read.
pub(crate) fn refused(group: &GroupId, error: ErrorCode) -> DescribedGroup {
    DescribedGroup::default()
        .with_group_id(group.clone())
        .with_error_code(error.code())
}

fn missing(group: &GroupId, why: &str, version: i16) -> DescribedGroup {
    let dead = DescribedGroup::default().with_group_state(StrBytes::from_static_str("Dead"));
    if version < 6 {
        return dead;
    }
    let message = format!("Group {} {why}.", group.as_str());
    dead.with_error_code(ErrorCode::GroupIdNotFound.code())
        .with_error_message(Some(StrBytes::from_string(message)))
}

fn describe(group: &ClassicGroup) -> DescribedGroup {
    // Metadata and assignments are consistent only in a stable group.
    let protocol = group
        .protocol()
        .filter(|_| group.state() == ClassicGroupState::Stable);
    let members = group.members().map(|(id, member)| {
        let metadata = protocol
            .map(|protocol| member.metadata(protocol))
            .unwrap_or_default();
        DescribedGroupMember::default()
            .with_member_id(id.clone())
            .with_group_instance_id(member.instance_id.clone())
            .with_client_id(member.client_id.clone())
            .with_client_host(member.client_host.clone())
            .with_member_metadata(metadata)
            .with_member_assignment(member.assignment.clone())
    });
    DescribedGroup::default()
        .with_group_state(StrBytes::from_static_str(group.state().name()))
        .with_protocol_type(group.protocol_type())
        .with_protocol_data(protocol.cloned().unwrap_or_default())
        .with_members(members.collect())
}
