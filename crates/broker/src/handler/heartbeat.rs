//! `Heartbeat` (key 12), versions 0-4: keeps a member alive and informs it of rebalances. Version 3
//! added static members.
//!
//! While the group is being loaded, the response is a success: the member cannot expire, and an
//! error would make it look for another coordinator.

use std::rc::Rc;

use platform::Platform;
use wire::messages::{HeartbeatRequest, HeartbeatResponse};
use wire::types::ErrorCode;

use crate::group::{GroupCoordinator, OffsetsLog};

pub(crate) fn handle<P: Platform, L: OffsetsLog>(
    coordinator: &Rc<GroupCoordinator<P, L>>,
    request: &HeartbeatRequest,
) -> HeartbeatResponse {
    let instance = request.group_instance_id.as_ref();
    let beat = if request.group_id.is_empty() {
        Err(ErrorCode::InvalidGroupId)
    } else {
        let generation = request.generation_id;
        coordinator.heartbeat(&request.group_id, &request.member_id, instance, generation)
    };
    HeartbeatResponse::default().with_error_code(match beat {
        Ok(()) | Err(ErrorCode::CoordinatorLoadInProgress) => 0,
        Err(error) => error.code(),
    })
}
