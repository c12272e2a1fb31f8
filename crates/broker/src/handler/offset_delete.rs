//! `OffsetDelete` (key 47), version 0: forgets positions of topics that the group does not read.

use std::rc::Rc;

use platform::Platform;
use wire::messages::{OffsetDeleteRequest, OffsetDeleteResponse};
use wire::types::ErrorCode;

use crate::group::{GroupCoordinator, OffsetsLog, Topics};

pub(crate) async fn handle<P: Platform, L: OffsetsLog>(
    coordinator: &Rc<GroupCoordinator<P, L>>,
    request: &OffsetDeleteRequest,
    topics: &impl Topics,
) -> OffsetDeleteResponse {
    let failed = |error: ErrorCode| OffsetDeleteResponse::default().with_error_code(error.code());
    if request.group_id.is_empty() {
        return failed(ErrorCode::InvalidGroupId);
    }
    let delete = coordinator.write(&request.group_id, |groups, _| {
        groups.delete_offsets(request, topics)
    });
    delete.await.unwrap_or_else(failed)
}
