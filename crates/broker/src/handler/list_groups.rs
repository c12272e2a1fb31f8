//! `ListGroups` (key 16), versions 0-5: all groups, by state (version 4) and type (version 5) if
//! asked.
//!
//! Groups live on every shard: [`handle`] answers for one, [`gather`] puts the answers together.

use std::collections::BTreeSet;
use std::rc::Rc;

use platform::Platform;
use wire::messages::list_groups_response::ListedGroup;
use wire::messages::{GroupId, ListGroupsRequest, ListGroupsResponse};
use wire::protocol::StrBytes;

use crate::group::groups::Kind;
use crate::group::{GroupCoordinator, OffsetsLog};

pub(crate) fn handle<P: Platform, L: OffsetsLog>(
    coordinator: &Rc<GroupCoordinator<P, L>>,
    request: &ListGroupsRequest,
) -> ListGroupsResponse {
    let states: BTreeSet<String> = request
        .states_filter
        .iter()
        .map(|state| state.trim().to_ascii_lowercase())
        .collect();
    let types: BTreeSet<String> = request
        .types_filter
        .iter()
        .map(|kind| kind.to_ascii_lowercase())
        .collect();
    let mut listed = Vec::new();
    let looked = coordinator.read_all(|groups| {
        for (id, group) in groups.iter() {
            let (kind, state, protocol_type) = match group {
                Kind::Classic(group) => ("classic", group.state().name(), group.protocol_type()),
                Kind::Consumer(group) => {
                    let protocol_type = StrBytes::from_static_str("consumer");
                    ("consumer", group.state().name(), protocol_type)
                }
            };
            let of_type = types.is_empty() || types.contains(kind);
            let in_state = states.is_empty() || states.contains(&state.to_ascii_lowercase());
            if of_type && in_state {
                listed.push(
                    ListedGroup::default()
                        .with_group_id(GroupId(id.clone()))
                        .with_protocol_type(protocol_type)
                        .with_group_state(StrBytes::from_static_str(state))
                        .with_group_type(StrBytes::from_static_str(kind)),
                );
            }
        }
    });
    match looked {
        Ok(()) => ListGroupsResponse::default().with_groups(listed),
        Err(error) => ListGroupsResponse::default().with_error_code(error.code()),
    }
}

/// The answers of all shards as one; an error of one of them is the answer.
pub(crate) fn gather(answers: impl IntoIterator<Item = ListGroupsResponse>) -> ListGroupsResponse {
    let mut all = ListGroupsResponse::default();
    for answer in answers {
        if answer.error_code != 0 {
            return answer;
        }
        all.groups.extend(answer.groups);
    }
    all
}
