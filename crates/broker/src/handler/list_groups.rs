//! `ListGroups` (key 16), versions 0-5: all groups, filtered by state (version 4) and type (version
//! 5).
//!
//! Groups are on every shard: [`handle`] answers for one shard, [`gather`] combines the responses.
//! Groups that the client may not describe are left out.
//! Unlike Kafka, the request is refused as a whole if the groups do not fit into a response; a
//! client with more groups filters by state or type.

use std::collections::BTreeSet;
use std::rc::Rc;

use platform::Platform;
use wire::acl::ResourceType;
use wire::messages::list_groups_response::ListedGroup;
use wire::messages::{GroupId, ListGroupsRequest, ListGroupsResponse};
use wire::protocol::StrBytes;

use crate::access::Access;
use crate::group::groups::GroupRef;
use crate::group::{GroupCoordinator, OffsetsLog};
use crate::room::Room;

/// Memory of a group in a response in addition to its names, while the response is built.
const GROUP_BYTES: usize = 64;

pub(crate) async fn handle<P: Platform, L: OffsetsLog>(
    coordinator: &Rc<GroupCoordinator<P, L>>,
    request: &ListGroupsRequest,
    room: &Room,
    access: &Access,
) -> ListGroupsResponse {
    // Done once, not for each group: a request may repeat its filters any number of times.
    let states = request.states_filter.iter().map(|state| state.trim());
    let states: BTreeSet<String> = states.map(str::to_ascii_lowercase).collect();
    let in_state = |state: &str| states.is_empty() || states.contains(&state.to_ascii_lowercase());
    let of_type = |kind: &str| {
        let mut types = request.types_filter.iter();
        types.len() == 0 || types.any(|asked| asked.eq_ignore_ascii_case(kind))
    };
    let (classic, consumer) = (of_type("classic"), of_type("consumer"));
    let (mut listed, mut fits) = (Vec::new(), true);
    let looked = coordinator.visit_all(|id, group| {
        let (wanted, kind, state, protocol_type) = match group {
            GroupRef::Classic(group) => {
                let state = group.state().name();
                (classic, "classic", state, group.protocol_type())
            }
            GroupRef::Consumer(group) => {
                let protocol_type = StrBytes::from_static_str("consumer");
                (consumer, "consumer", group.state().name(), protocol_type)
            }
        };
        let wanted = wanted && fits && in_state(state);
        if wanted && access.sees(ResourceType::Group, id) {
            fits = room.has(
                id.len()
                    .saturating_add(protocol_type.len())
                    .saturating_add(GROUP_BYTES),
            );
            listed.push(
                ListedGroup::default()
                    .with_group_id(GroupId(id.clone()))
                    .with_protocol_type(protocol_type)
                    .with_group_state(StrBytes::from_static_str(state))
                    .with_group_type(StrBytes::from_static_str(kind)),
            );
        }
    });
    let looked = looked
        .await
        .and_then(|()| fits.then_some(()).ok_or_else(|| room.refusal()));
    match looked {
        Ok(()) => ListGroupsResponse::default().with_groups(listed),
        Err(error) => ListGroupsResponse::default().with_error_code(error.code()),
    }
}

/// Combines the responses of all shards; an error of one shard is the response.
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
