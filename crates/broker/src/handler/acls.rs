//! `DescribeAcls` (key 29), versions 1-3: the ACLs that a filter means, by the resources that they
//! protect. Version 1 added patterns, 3 users as a resource.
//!
//! Resources and their ACLs are in the order of people's lists; Kafka's are in none. An ACL with
//! several ids is listed once. An unknown code is listed as it was stored; Kafka fails. Not here:
//! changes (`controller/decide/create_acls.rs`, `delete_acls.rs`).

use std::collections::{BTreeMap, BTreeSet};

use wire::StrBytes;
use wire::acl::{AclBinding, RawFilter, ResourcePattern};
use wire::messages::describe_acls_response::{AclDescription, DescribeAclsResource};
use wire::messages::{DescribeAclsRequest, DescribeAclsResponse};
use wire::types::ErrorCode;

use crate::image::{Image, acl_bytes};
use crate::rests::{Rests, each};
use crate::room::Room;

const NO_AUTHORIZER: StrBytes =
    StrBytes::from_static_str("No Authorizer is configured on the broker");

/// Answers as a broker without an authorizer does.
pub(crate) fn disabled() -> DescribeAclsResponse {
    DescribeAclsResponse::default()
        .with_error_code(ErrorCode::SecurityDisabled.code())
        .with_error_message(Some(NO_AUTHORIZER))
}

/// Answers from the image.
pub(crate) async fn describe(
    image: &Image,
    request: &DescribeAclsRequest,
    room: &Room,
) -> DescribeAclsResponse {
    // Kafka answers that nothing went wrong with an empty text.
    let response = DescribeAclsResponse::default().with_error_message(Some(StrBytes::default()));
    let Some(filter) = RawFilter::from(request).for_description() else {
        return response;
    };
    let mut resources: BTreeMap<&ResourcePattern, BTreeSet<&AclBinding>> = BTreeMap::new();
    let mut rests = Rests::new();
    for (_, acl) in image.acls().iter() {
        rests.item().await;
        if !filter.matches(acl) {
            continue;
        }
        if !room.has(acl_bytes(acl)) {
            let code = room.refusal().code();
            return DescribeAclsResponse::default()
                .with_error_code(code)
                .with_error_message(None);
        }
        resources.entry(&acl.pattern).or_default().insert(acl);
    }
    let mut told = Vec::with_capacity(resources.len());
    for (pattern, acls) in resources {
        told.push(
            DescribeAclsResource::default()
                .with_resource_type(pattern.resource_type.code())
                .with_resource_name(text(&pattern.name))
                .with_pattern_type(pattern.pattern_type.code())
                .with_acls(each(acls, description).await),
        );
        rests.item().await;
    }
    response.with_resources(told)
}

fn description(acl: &AclBinding) -> AclDescription {
    AclDescription::default()
        .with_principal(text(acl.principal.as_str()))
        .with_host(text(acl.host.as_str()))
        .with_operation(acl.operation.code())
        .with_permission_type(acl.permission.code())
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

#[cfg(test)]
mod tests;
