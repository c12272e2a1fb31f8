//! What requests about one group or one transactional id are answered if the client lacks a right:
//! in each, the places where Kafka puts the code.
//!
//! Not here: requests about the cluster (`refusals/cluster.rs`), and which right a request needs.

use wire::acl::ResourceType;
use wire::kafka::NewestVersion;
use wire::messages::{
    AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, EndTxnRequest, HeartbeatRequest,
    HeartbeatResponse, JoinGroupRequest, LeaveGroupRequest, LeaveGroupResponse,
    OffsetCommitRequest, OffsetCommitResponse, OffsetDeleteRequest, OffsetDeleteResponse,
    SyncGroupRequest, TxnOffsetCommitRequest, TxnOffsetCommitResponse,
};
use wire::protocol::Request;
use wire::types::ErrorCode;

use super::guards::RefusableRequest;
use crate::group::classic::sync_refused;
use crate::handler;

/// Requests that name these resources, with their refusal: a function of the request, the code and
/// the version.
macro_rules! refused {
    ($($request:ty { $($kind:ident: $name:ident),* } => $refusal:expr;)*) => {$(
        impl RefusableRequest for $request {
            #[allow(clippy::match_single_binding, reason = "some requests name nothing")]
            fn named(&self, resource_type: ResourceType) -> Option<&str> {
                match resource_type {
                    $(ResourceType::$kind => Some(self.$name.as_str()),)*
                    _ => None,
                }
            }

            async fn refused(
                &self,
                code: ErrorCode,
                version: i16,
            ) -> <Self as Request>::Response {
                let refusal: fn(&Self, ErrorCode, i16) -> <Self as Request>::Response = $refusal;
                refusal(self, code, version)
            }
        }
    )*};
}

mod cluster;

refused! {
    JoinGroupRequest { Group: group_id } => |_, code, version| {
        handler::join_group::refused(code, version)
    };
    SyncGroupRequest { Group: group_id } => |_, code, _| sync_refused(code);
    HeartbeatRequest { Group: group_id } => |_, code, _| {
        HeartbeatResponse::default().with_error_code(code.code())
    };
    LeaveGroupRequest { Group: group_id } => |_, code, _| {
        LeaveGroupResponse::default().with_error_code(code.code())
    };
    OffsetDeleteRequest { Group: group_id } => |_, code, _| {
        OffsetDeleteResponse::default().with_error_code(code.code())
    };
    AddOffsetsToTxnRequest { TransactionalId: transactional_id, Group: group_id } => |_, code, _| {
        AddOffsetsToTxnResponse::default().with_error_code(code.code())
    };
    EndTxnRequest { TransactionalId: transactional_id } => |_, code, _| {
        handler::end_txn::refused(code)
    };
}

impl RefusableRequest for TxnOffsetCommitRequest {
    fn named(&self, resource_type: ResourceType) -> Option<&str> {
        match resource_type {
            ResourceType::TransactionalId => Some(self.transactional_id.as_str()),
            ResourceType::Group => Some(self.group_id.as_str()),
            _ => None,
        }
    }

    async fn refused(&self, code: ErrorCode, _: i16) -> TxnOffsetCommitResponse {
        handler::txn_offset_commit::refused(self, code).await
    }
}

impl RefusableRequest for NewestVersion<OffsetCommitRequest> {
    fn named(&self, resource_type: ResourceType) -> Option<&str> {
        (resource_type == ResourceType::Group).then(|| self.message.group_id.as_str())
    }

    async fn refused(&self, code: ErrorCode, _: i16) -> OffsetCommitResponse {
        handler::offset_commit::refused(&self.message, code).await
    }
}
