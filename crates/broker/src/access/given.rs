//! What a client may do under a few ACLs, for tests.

use std::sync::Arc;

use wire::acl::{Operation, RawAcl, ResourceType};
use wire::types::Uuid;

use super::Access;
use crate::authorizer::AuthorizerMode;
use crate::image::{Acls, Image};

/// Returns what a client may do that has these rights and no others.
pub(crate) fn limited_to(rights: &[(ResourceType, &str, Operation)]) -> Access {
    Access::given(acls(rights), AuthorizerMode::Enforce, "User:ada")
}

/// Returns that of the same client while denials are only logged.
pub(crate) fn logged(rights: &[(ResourceType, &str, Operation)]) -> Access {
    Access::given(acls(rights), AuthorizerMode::Log, "User:ada")
}

fn acls(rights: &[(ResourceType, &str, Operation)]) -> Arc<Acls> {
    let mut image = Image::empty();
    for (id, (resource_type, name, operation)) in (0..).zip(rights) {
        let raw = RawAcl {
            resource_type: resource_type.code(),
            name,
            pattern_type: 3,
            principal: "User:ada",
            host: "*",
            operation: operation.code(),
            permission: 3,
        };
        let acl = raw.validate().expect("an ACL");
        let record = acl.to_record(Uuid::from_u128(id));
        image.replay(record.into()).expect("it fits");
    }
    Arc::clone(image.acls())
}
