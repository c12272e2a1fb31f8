//! `ListGroups` (key 16), versions 0-5: all groups, by state (version 4) and type (version 5) if
//! asked.
//!
//! Groups live on every shard: [`handle`] answers for one, [`gather`] puts the answers together. Ours: more groups than an answer
//! has room for are refused as a whole; whoever has so many asks by state or type.

use std::collections::BTreeSet;
use std::rc::Rc;

use platform::Platform;
use wire::messages::list_groups_response::ListedGroup;
use wire::messages::{GroupId, ListGroupsRequest, ListGroupsResponse};
use wire::protocol::StrBytes;

use crate::group::groups::Kind;
use crate::group::{GroupCoordinator, OffsetsLog};
use crate::room::Room;

/// What a group takes in an answer beside its names, while the answer is made.
const GROUP_BYTES: usize = 64;

pub(crate) async fn handle<P: Platform, L: OffsetsLog>(
    coordinator: &Rc<GroupCoordinator<P, L>>,
    request: &ListGroupsRequest,
    room: &Room,
) -> ListGroupsResponse {
    // Once, not for each group: a request may name anything any number of times.
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
            Kind::Classic(group) => {
                let state = group.state().name();
                (classic, "classic", state, group.protocol_type())
            }
            Kind::Consumer(group) => {
                let protocol_type = StrBytes::from_static_str("consumer");
                (consumer, "consumer", group.state().name(), protocol_type)
            }
        };
        if wanted && fits && in_state(state) {
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
