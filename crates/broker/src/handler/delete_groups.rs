//! `DeleteGroups` (key 42), versions 0-2: removes groups without members, and their offsets.
//!
//! The groups of a request may be on several shards: [`handle_group`] deletes one.

use std::rc::Rc;

use platform::Platform;
use wire::messages::GroupId;
use wire::messages::delete_groups_response::DeletableGroupResult;
use wire::types::ErrorCode;

use crate::group::{GroupCoordinator, OffsetsLog};

/// Deletes one group.
pub(crate) async fn handle_group<P: Platform, L: OffsetsLog>(
    coordinator: &Rc<GroupCoordinator<P, L>>,
    group: &GroupId,
) -> DeletableGroupResult {
    let delete = coordinator.write(group, |groups, _| match groups.delete_group(group) {
        Ok(records) => (records, Ok(())),
        Err(error) => (Vec::new(), Err(error)),
    });
    let deleted = delete.await.unwrap_or_else(Err);
    result(group, deleted.err())
}

/// Returns the result for one group.
pub(crate) fn result(group: &GroupId, error: Option<ErrorCode>) -> DeletableGroupResult {
    DeletableGroupResult::default()
        .with_group_id(group.clone())
        .with_error_code(error.map_or(0, |error| error.code()))
}
