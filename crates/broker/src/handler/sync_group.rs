//! `SyncGroup` (key 14), versions 0-5: submits the leader's assignments, and waits for the member's
//! own.
//!
//! Version 3 added static members, 5 the protocol type and name, which must be the group's.

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use platform::Platform;
use wire::messages::{SyncGroupRequest, SyncGroupResponse};
use wire::types::ErrorCode;

use crate::group::classic::{Sync, sync_refused};
use crate::group::{GroupCoordinator, OffsetsLog, owned};
use crate::rests::Rests;

pub(crate) async fn handle<P: Platform, L: OffsetsLog>(
    coordinator: &Rc<GroupCoordinator<P, L>>,
    request: SyncGroupRequest,
    version: i16,
) -> SyncGroupResponse {
    let says_protocol = request.protocol_type.is_some() && request.protocol_name.is_some();
    if version >= 5 && !says_protocol {
        return sync_refused(ErrorCode::InconsistentGroupProtocol);
    }
    if request.group_id.is_empty() {
        return sync_refused(ErrorCode::InvalidGroupId);
    }
    // Bounded: lives with one request, `wire::kafka::shape::DECODED_BYTES_MAX`.
    let mut assignments = BTreeMap::new();
    let mut rests = Rests::new();
    for one in &request.assignments {
        let assignment = Bytes::copy_from_slice(&one.assignment);
        assignments.insert(owned(&one.member_id), assignment);
        rests.item().await;
    }
    let sync = Sync {
        member_id: owned(&request.member_id),
        instance_id: request.group_instance_id.as_ref().map(owned),
        generation: request.generation_id,
        protocol_type: request
            .protocol_type
            .as_ref()
            .filter(|_| version >= 5)
            .map(owned),
        protocol: request
            .protocol_name
            .as_ref()
            .filter(|_| version >= 5)
            .map(owned),
        assignments,
    };
    coordinator.sync(&owned(&request.group_id), sync).await
}
