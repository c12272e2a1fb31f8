//! The authorizer as an operator has set it: who may do everything, what holds where no ACL is, and
//! whether what ACLs forbid is refused.
//!
//! Pure. Not here: ACLs (`image/acls.rs`), decisions on requests (`wire::acl`, `dispatch`), and
//! whether a client can be a super user, which follows from its listener (the server's settings).

use std::collections::BTreeSet;

use wire::acl::{
    AclBinding, CLUSTER_NAME, Operation, PatternType, PermissionType, Policy, Principal,
    ResourceType,
};

use crate::image::Acls;

/// What the operator set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Authorizer {
    /// Super users, and the default where no ACL is.
    pub policy: Policy,
    /// What follows from a decision.
    pub mode: AuthorizerMode,
}

/// What follows when a client may not do what it asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AuthorizerMode {
    /// It is refused.
    Enforce,
    /// It is done, and noted: for an operator who wants to know what ACLs would refuse.
    Log,
}

/// Who may change ACLs, and so give themselves every right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Administrators<'a> {
    /// Everybody: nothing is about the cluster, and what no ACL is about is open.
    Everybody,
    /// Super users, and principals with an ACL that permits it. Other ACLs may forbid it to some of
    /// them.
    // Bounded: `controller::bounds::ACLS_BYTES_MAX`.
    These(BTreeSet<&'a str>),
}

impl Authorizer {
    /// Returns who may change ACLs.
    pub fn administrators<'a>(&'a self, acls: &'a Acls) -> Administrators<'a> {
        let on_cluster: Vec<_> = acls
            .iter()
            .map(|(_, acl)| &**acl)
            .filter(|acl| is_on_cluster(acl))
            .collect();
        if on_cluster.is_empty() && self.policy.is_open_without_acl {
            return Administrators::Everybody;
        }
        let super_users = self.policy.super_users.iter().map(Principal::as_str);
        let permitted = on_cluster.into_iter().filter(|acl| permits_to_alter(acl));
        let permitted = permitted.map(|acl| acl.principal.as_str());
        Administrators::These(super_users.chain(permitted).collect())
    }
}

fn is_on_cluster(acl: &AclBinding) -> bool {
    let pattern = &acl.pattern;
    let is_name = match pattern.pattern_type {
        PatternType::Literal => pattern.is_all() || *pattern.name == *CLUSTER_NAME,
        PatternType::Prefixed => CLUSTER_NAME.starts_with(&*pattern.name),
    };
    pattern.resource_type == ResourceType::Cluster && is_name
}

fn permits_to_alter(acl: &AclBinding) -> bool {
    let is_named = acl.operation.is(Operation::Alter) || acl.operation.is(Operation::All);
    is_named && acl.effect() == PermissionType::Allow && acl.principal.is_complete()
}

#[cfg(test)]
mod tests {
    use wire::records::metadata::AccessControlEntryRecord;
    use wire::types::Uuid;

    use super::*;
    use crate::image::Image;

    fn image(acls: &[(&str, Operation, PermissionType)]) -> Image {
        let mut image = Image::empty();
        for (id, (principal, operation, permission)) in (0..).zip(acls) {
            let record = AccessControlEntryRecord {
                id: Uuid::from_u128(id),
                resource_type: ResourceType::Cluster.code(),
                resource_name: CLUSTER_NAME.into(),
                pattern_type: PatternType::Literal.code(),
                principal: (*principal).into(),
                host: "*".into(),
                operation: operation.code(),
                permission_type: permission.code(),
            };
            image.replay(record.into()).unwrap();
        }
        image
    }

    #[test]
    fn who_may_change_acls_is_a_super_user_or_has_an_acl() {
        use Operation::{All, Alter, Describe};
        use PermissionType::{Allow, Deny};
        let authorizer = |open| Authorizer {
            policy: Policy {
                super_users: wire::acl::super_users("User:root").unwrap(),
                is_open_without_acl: open,
            },
            mode: AuthorizerMode::Enforce,
        };
        let check = |open, image: &Image, expected: &[&str]| {
            let authorizer = authorizer(open);
            let found = authorizer.administrators(image.acls());
            let expected = expected.iter().copied().collect();
            assert_eq!(found, Administrators::These(expected));
        };
        check(false, &Image::empty(), &["User:root"]);
        let some = image(&[
            ("User:a", All, Allow),
            ("User:b", Alter, Allow),
            ("User:c", Alter, Deny),
            ("User:d", Describe, Allow),
            ("nobody", All, Allow),
        ]);
        check(true, &some, &["User:a", "User:b", "User:root"]);
        let open = authorizer(true);
        let nothing = Image::empty();
        let everybody = open.administrators(nothing.acls());
        assert_eq!(everybody, Administrators::Everybody);
    }
}
