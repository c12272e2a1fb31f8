//! ACLs, clients and policies for tests, from short texts.

use super::{
    AclBinding, Host, Operation, PatternType, PermissionType, Policy, Principal, ResourcePattern,
    ResourceType, StoredCode, super_users,
};

/// Returns the ACL of a text: permission, operation, type of pattern and of resource, name,
/// principal, host. A permission or an operation may be a number, for a code that is not known.
pub(super) fn acl(text: &str) -> AclBinding {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [
        permission,
        operation,
        pattern_type,
        resource_type,
        name,
        principal,
        host,
    ] = words[..]
    else {
        panic!("not seven words: {text}");
    };
    AclBinding {
        pattern: ResourcePattern {
            resource_type: ResourceType::parse(resource_type).unwrap(),
            name: name.into(),
            pattern_type: PatternType::parse(pattern_type).unwrap(),
        },
        principal: Principal::stored(principal),
        host: Host::new(host),
        operation: Operation::parse(operation).map_or_else(
            || StoredCode::Unknown(operation.parse().unwrap()),
            Into::into,
        ),
        permission: PermissionType::parse(permission).map_or_else(
            || StoredCode::Unknown(permission.parse().unwrap()),
            Into::into,
        ),
    }
}

pub(super) fn acls(texts: &[&str]) -> Vec<AclBinding> {
    texts.iter().map(|text| acl(text)).collect()
}

/// Returns the policy with these super users, which forbids where there is no ACL.
pub(super) fn closed(users: &str) -> Policy {
    Policy {
        super_users: super_users(users).unwrap(),
        is_open_without_acl: false,
    }
}
