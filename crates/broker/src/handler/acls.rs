//! `DescribeAcls` (key 29), `CreateAcls` (key 30), `DeleteAcls` (key 31), versions 1-3: without an authorizer, as a Kafka
//! without one answers them.
//!
//! Nobody is asked who he is, so nobody may do less than everything: there are no ACLs to show, and none are kept that
//! nobody would heed. The answer says so before it looks at what is asked. Version 1 brought patterns, 3 users as a
//! resource.

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
