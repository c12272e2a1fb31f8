//! `LeaveGroup` (key 13), versions 0-5: removes members. Version 3 added several members in one
//! request, and static ones by name.

use std::rc::Rc;

use platform::Platform;
use wire::messages::leave_group_response::MemberResponse;
use wire::messages::{LeaveGroupRequest, LeaveGroupResponse};
use wire::types::ErrorCode;

use crate::group::classic::Leaver;
use crate::group::{GroupCoordinator, OffsetsLog, owned};

pub(crate) async fn handle<P: Platform, L: OffsetsLog>(
    coordinator: &Rc<GroupCoordinator<P, L>>,
    request: &LeaveGroupRequest,
    version: i16,
) -> LeaveGroupResponse {
    let failed = |error: ErrorCode| LeaveGroupResponse::default().with_error_code(error.code());
    if request.group_id.is_empty() {
        return failed(ErrorCode::InvalidGroupId);
    }
    let leavers: Vec<Leaver> = if version < 3 {
        vec![Leaver {
            member_id: owned(&request.member_id),
            instance_id: None,
        }]
    } else {
        let members = request.members.iter().map(|member| Leaver {
            member_id: owned(&member.member_id),
            instance_id: member.group_instance_id.as_ref().map(owned),
        });
        members.collect()
    };
    let departed = match coordinator.leave(&request.group_id, &leavers).await {
        Ok(departed) => departed,
        Err(error) => return failed(error),
    };
    if version < 3 {
        let error = departed.first().and_then(|one| one.error);
        return LeaveGroupResponse::default().with_error_code(error.map_or(0, |e| e.code()));
    }
    let members = departed.into_iter().map(|one| {
        MemberResponse::default()
            .with_member_id(one.member_id)
            .with_group_instance_id(one.instance_id)
            .with_error_code(one.error.map_or(0, |error| error.code()))
    });
    LeaveGroupResponse::default().with_members(members.collect())
}
