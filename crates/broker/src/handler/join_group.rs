//! `JoinGroup` (key 11), versions 0-9: joins a rebalance and waits for its end.
//!
//! Version 1 added a separate rebalance timeout, 4 the round trip for a member id, 5 static
//! members, 7 the protocol type in responses, 9 assignments that need not be computed again.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use platform::Platform;
use wire::messages::{JoinGroupRequest, JoinGroupResponse};
use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use crate::access::Access;
use crate::group::classic::{Join, join_refused};
use crate::group::{Client, GroupCoordinator, OffsetsLog, owned};

/// Maximum metadata of one member over all its protocols with their names, in bytes.
const METADATA_BYTES_MAX: usize = 8 << 20;

/// Maximum protocols of one member.
const PROTOCOLS_MAX: usize = 1_000;

pub(crate) async fn handle<P: Platform, L: OffsetsLog>(
    coordinator: &Rc<GroupCoordinator<P, L>>,
    request: JoinGroupRequest,
    version: i16,
    client: &Client,
    access: &Access,
) -> JoinGroupResponse {
    let response = if let Err(error) = check(coordinator, &request) {
        join_refused(request.member_id.clone(), error)
    } else {
        let group = owned(&request.group_id);
        let random = (coordinator.random_u64(), coordinator.random_u64());
        let join = join(&request, version, client, random);
        coordinator.join(&group, join, access).await
    };
    known_to(response, version)
}

/// Returns the error of a client that is not even told its member id.
pub(crate) fn refused(code: ErrorCode, version: i16) -> JoinGroupResponse {
    known_to(join_refused(StrBytes::default(), code), version)
}

/// Returns the response as clients of this version read it: older ones know no missing protocol.
fn known_to(mut response: JoinGroupResponse, version: i16) -> JoinGroupResponse {
    if version < 7 && response.protocol_name.is_none() {
        response.protocol_name = Some(StrBytes::default());
    }
    response
}

fn check<P: Platform, L: OffsetsLog>(
    coordinator: &GroupCoordinator<P, L>,
    request: &JoinGroupRequest,
) -> Result<(), ErrorCode> {
    if request.group_id.is_empty() {
        return Err(ErrorCode::InvalidGroupId);
    }
    let options = coordinator.options();
    let session = u64::try_from(request.session_timeout_ms).map(Duration::from_millis);
    let allowed = options.session_timeout_min..=options.session_timeout_max;
    if !session.is_ok_and(|session| allowed.contains(&session)) {
        return Err(ErrorCode::InvalidSessionTimeout);
    }
    let metadata = request.protocols.iter().fold(0, |all: usize, protocol| {
        let bytes = protocol.metadata.len().saturating_add(protocol.name.len());
        all.saturating_add(bytes)
    });
    if metadata > METADATA_BYTES_MAX || request.protocols.len() > PROTOCOLS_MAX {
        return Err(ErrorCode::InvalidRequest);
    }
    Ok(())
}

fn join(request: &JoinGroupRequest, version: i16, client: &Client, random: (u64, u64)) -> Join {
    let instance_id = request.group_instance_id.as_ref().map(owned);
    let name = instance_id.as_ref().unwrap_or(&client.id);
    let unique = unique_id(random);
    let rebalance = if version == 0 {
        request.session_timeout_ms
    } else {
        request.rebalance_timeout_ms
    };
    Join {
        member_id: owned(&request.member_id),
        fresh_id: StrBytes::from_string(format!("{}-{unique}", name.as_str())),
        instance_id,
        client_id: owned(&client.id),
        client_host: owned(&client.host),
        session_timeout_ms: request.session_timeout_ms,
        rebalance_timeout_ms: rebalance,
        protocol_type: owned(&request.protocol_type),
        protocols: request
            .protocols
            .iter()
            .map(|protocol| {
                (
                    owned(&protocol.name),
                    Bytes::copy_from_slice(&protocol.metadata),
                )
            })
            .collect(),
        id_required: version >= 4,
        can_skip_assignment: version >= 9,
    }
}

/// Returns a random (version 4) UUID.
fn unique_id((high, low): (u64, u64)) -> uuid::Uuid {
    let bits = (u128::from(high) << 64) | u128::from(low);
    uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid()
}
