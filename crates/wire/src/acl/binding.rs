//! One ACL, and the comparisons that decide for whom and for what it is.
//!
//! An ACL that a later release stored may have an operation or a permission that this one does not
//! know. It is an ACL all the same: it counts for its pattern, so that a resource with ACLs does
//! not become one without. What is no known permission forbids, as in Kafka.
//! Two ACLs are the same when all their texts and codes are; their order is that of a list for
//! people: by resource, then by principal.

use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;

use super::codes::{Operation, PatternType, PermissionType, ResourceType, StoredCode};
use super::host::Host;
use super::principal::Principal;
use super::quoted::QuotedText;

/// The literal name that stands for every name.
const EVERY_NAME: &str = "*";

/// The resources that an ACL protects.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ResourcePattern {
    /// Their type.
    pub resource_type: ResourceType,
    /// Their name, or how it begins.
    pub name: Arc<str>,
    /// How the name is compared.
    pub pattern_type: PatternType,
}

/// How closely a pattern fits a name: the closest is the smallest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Reach {
    /// It is the name.
    Name,
    /// It is a prefix of this many bytes.
    Prefix(Reverse<usize>),
    /// It is every name.
    All,
}

impl ResourcePattern {
    /// Returns true for the pattern of every name.
    pub fn is_all(&self) -> bool {
        self.pattern_type == PatternType::Literal && *self.name == *EVERY_NAME
    }

    /// Returns how the pattern fits the name of a resource of its type; `None` when it does not.
    pub(super) fn reach(&self, name: &str) -> Option<Reach> {
        match self.pattern_type {
            _ if self.is_all() => Some(Reach::All),
            PatternType::Literal => (*self.name == *name).then_some(Reach::Name),
            PatternType::Prefixed => name
                .starts_with(&*self.name)
                .then_some(Reach::Prefix(Reverse(self.name.len()))),
        }
    }
}

/// One ACL.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AclBinding {
    /// What it protects.
    pub pattern: ResourcePattern,
    /// Whom it permits or forbids something.
    pub principal: Principal,
    /// From where.
    pub host: Host,
    /// What they do; nothing that is asked, if it is not known.
    pub operation: StoredCode<Operation>,
    /// Whether it permits or forbids.
    pub permission: StoredCode<PermissionType>,
}

impl AclBinding {
    /// Returns whether the ACL permits or forbids.
    pub fn effect(&self) -> PermissionType {
        // As in Kafka: what is not understood forbids.
        self.permission.known().unwrap_or(PermissionType::Deny)
    }

    /// Returns true when this release knows all that the ACL says; an operator wants to hear of
    /// others.
    pub fn is_understood(&self) -> bool {
        let is_known = self.operation.known().is_some() && self.permission.known().is_some();
        is_known && self.principal.is_complete()
    }

    /// Returns true when the ACL permits or forbids the operation.
    ///
    /// What permits to read, write, delete or alter permits to describe; what permits to alter
    /// settings permits to see them. What forbids implies nothing.
    pub(super) fn covers(&self, operation: Operation) -> bool {
        use Operation::{Alter, AlterConfigs, Delete, Describe, DescribeConfigs, Read, Write};
        let is_implied = || match (operation, self.operation.known()) {
            (Describe, Some(own)) => matches!(own, Read | Write | Delete | Alter),
            (DescribeConfigs, Some(own)) => own == AlterConfigs,
            _ => false,
        };
        self.names(operation) || (self.effect() == PermissionType::Allow && is_implied())
    }

    /// Returns true when the ACL names the operation, or all of them.
    pub(super) fn names(&self, operation: Operation) -> bool {
        self.operation.is(operation) || self.operation.is(Operation::All)
    }
}

/// One line, in which each text of a client is in quotes: no name makes it look like another ACL.
impl fmt::Display for AclBinding {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ResourcePattern {
            resource_type,
            name,
            pattern_type,
        } = &self.pattern;
        write!(
            to,
            "{} {} on {pattern_type} {resource_type} {} to {} from {}",
            self.permission,
            self.operation,
            QuotedText(name),
            QuotedText(self.principal.as_str()),
            QuotedText(self.host.as_str()),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(pattern_type: PatternType, name: &str) -> ResourcePattern {
        ResourcePattern {
            resource_type: ResourceType::Topic,
            name: name.into(),
            pattern_type,
        }
    }

    #[test]
    fn patterns_fit_names_as_in_kafka() {
        use PatternType::{Literal, Prefixed};
        let prefix = |bytes| Some(Reach::Prefix(Reverse(bytes)));
        for (pattern_type, own, name, reach) in [
            (Literal, "orders", "orders", Some(Reach::Name)),
            (Literal, "orders", "orders-eu", None),
            (Literal, "*", "orders", Some(Reach::All)),
            (Prefixed, "orders", "orders", prefix(6)),
            (Prefixed, "orders", "orders-eu", prefix(6)),
            (Prefixed, "orders", "order", None),
            // Only a literal star is every name.
            (Prefixed, "*", "orders", None),
            (Prefixed, "*", "*a", prefix(1)),
        ] {
            let pattern = pattern(pattern_type, own);
            assert_eq!(pattern.reach(name), reach, "{pattern:?} {name}");
        }
        assert!(Reach::Name < Reach::Prefix(Reverse(3)));
        assert!(Reach::Prefix(Reverse(3)) < Reach::Prefix(Reverse(2)));
        assert!(Reach::Prefix(Reverse(0)) < Reach::All);
    }

    #[test]
    fn a_permission_to_change_implies_one_to_look_and_a_ban_implies_nothing() {
        use Operation::{
            All, Alter, AlterConfigs, ClusterAction, Create, Delete, Describe, DescribeConfigs,
            Read, Write,
        };
        for (operation, covered) in [
            (All, Operation::ALL.to_vec()),
            (Read, vec![Read, Describe]),
            (Write, vec![Write, Describe]),
            (Create, vec![Create]),
            (Delete, vec![Delete, Describe]),
            (Alter, vec![Alter, Describe]),
            (Describe, vec![Describe]),
            (DescribeConfigs, vec![DescribeConfigs]),
            (AlterConfigs, vec![DescribeConfigs, AlterConfigs]),
            (ClusterAction, vec![ClusterAction]),
        ] {
            let mut acl = AclBinding {
                pattern: pattern(PatternType::Literal, "orders"),
                principal: Principal::user("a"),
                host: Host::new("*"),
                operation: operation.into(),
                permission: PermissionType::Allow.into(),
            };
            let covers = |acl: &AclBinding| -> Vec<Operation> {
                let all = Operation::ALL.iter().copied();
                all.filter(|asked| acl.covers(*asked)).collect()
            };
            assert_eq!(covers(&acl), covered);
            acl.permission = PermissionType::Deny.into();
            if operation != All {
                assert_eq!(covers(&acl), [operation]);
            }
        }
    }

    #[test]
    fn what_is_not_known_forbids_and_implies_nothing() {
        use Operation::{All, Describe, Read};
        let covered = |operation: i8, permission: i8| {
            let acl = AclBinding {
                pattern: pattern(PatternType::Literal, "orders"),
                principal: Principal::user("a"),
                host: Host::new("*"),
                operation: StoredCode::<Operation>::from_code(operation),
                permission: StoredCode::<PermissionType>::from_code(permission),
            };
            let all = Operation::ALL.iter().copied();
            let covered: Vec<Operation> = all.filter(|asked| acl.covers(*asked)).collect();
            (acl.effect(), covered, acl.is_understood())
        };
        let (allow, deny) = (PermissionType::Allow, PermissionType::Deny);
        assert_eq!(covered(Read.code(), 3), (allow, vec![Read, Describe], true));
        for permission in [0, 1, 4, -1] {
            let read = covered(Read.code(), permission);
            assert_eq!(read, (deny, vec![Read], false), "{permission}");
            let all = covered(All.code(), permission);
            assert_eq!(all, (deny, Operation::ALL.to_vec(), false), "{permission}");
        }
        for operation in [0, 1, 16, -1] {
            assert_eq!(covered(operation, 3), (allow, vec![], false), "{operation}");
        }
    }

    #[test]
    fn an_acl_is_shown_so_that_no_name_makes_it_another() {
        let acl = |name: &str, principal: &str| AclBinding {
            pattern: pattern(PatternType::Prefixed, name),
            principal: Principal::user(principal),
            host: Host::new("*"),
            operation: Operation::Read.into(),
            permission: PermissionType::Deny.into(),
        };
        assert_eq!(
            acl("a\x1bb", "eve\u{202e}").to_string(),
            r#"DENY READ on PREFIXED TOPIC "a\u{1b}b" to "User:eve\u{202e}" from "*""#
        );
        let forged = acl(r#"a" to "User:b" from "*"#, "eve").to_string();
        assert_eq!(
            forged,
            r#"DENY READ on PREFIXED TOPIC "a\" to \"User:b\" from \"*" to "User:eve" from "*""#
        );
        assert_ne!(forged, acl("a", "b").to_string());
        let later = AclBinding {
            operation: StoredCode::Unknown(99),
            ..acl("a", "b")
        };
        assert_eq!(
            later.to_string(),
            r#"DENY UNKNOWN(99) on PREFIXED TOPIC "a" to "User:b" from "*""#
        );
    }
}
