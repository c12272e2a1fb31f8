//! `DescribeAcls` (key 29), `CreateAcls` (key 30), `DeleteAcls` (key 31), versions 1-3: answered as
//! a Kafka broker without an authorizer answers them.
//!
//! There is no authentication yet, so every client may do everything: there are no ACLs to show,
//! and the broker stores none that it would not enforce. The error does not depend on the content
//! of the request. Version 1 added patterns, 3 users as a resource.

use wire::StrBytes;
use wire::messages::create_acls_response::AclCreationResult;
use wire::messages::delete_acls_response::DeleteAclsFilterResult;
use wire::messages::{
    CreateAclsRequest, CreateAclsResponse, DeleteAclsRequest, DeleteAclsResponse,
    DescribeAclsResponse,
};
use wire::types::ErrorCode;

const CODE: ErrorCode = ErrorCode::SecurityDisabled;
const NO_AUTHORIZER: StrBytes = StrBytes::from_static_str("No Authorizer is configured.");
const NO_AUTHORIZER_HERE: StrBytes =
    StrBytes::from_static_str("No Authorizer is configured on the broker");

pub(crate) fn describe() -> DescribeAclsResponse {
    DescribeAclsResponse::default()
        .with_error_code(CODE.code())
        .with_error_message(Some(NO_AUTHORIZER_HERE))
}

pub(crate) fn create(request: &CreateAclsRequest) -> CreateAclsResponse {
    let results = request.creations.iter().map(|_| {
        AclCreationResult::default()
            .with_error_code(CODE.code())
            .with_error_message(Some(NO_AUTHORIZER))
    });
    CreateAclsResponse::default().with_results(results.collect())
}

pub(crate) fn delete(request: &DeleteAclsRequest) -> DeleteAclsResponse {
    let results = request.filters.iter().map(|_| {
        DeleteAclsFilterResult::default()
            .with_error_code(CODE.code())
            .with_error_message(Some(NO_AUTHORIZER))
    });
    DeleteAclsResponse::default().with_filter_results(results.collect())
}
