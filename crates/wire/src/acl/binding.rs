//! One ACL, and the comparisons that decide for whom and for what it is.
//!
//! Two ACLs are the same when all their texts and codes are; their order is that of a list for
//! people: by resource, then by principal.

use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;

use super::codes::{Operation, PatternType, PermissionType, ResourceType};
use super::host::Host;
use super::principal::Principal;
use crate::text::EscapedText;

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
    /// What they do.
    pub operation: Operation,
    /// Whether it permits or forbids.
    pub permission: PermissionType,
}

impl AclBinding {
    /// Returns true when the ACL permits or forbids the operation.
    ///
    /// What permits to read, write, delete or alter permits to describe; what permits to alter
    /// settings permits to see them. What forbids implies nothing.
    pub(super) fn covers(&self, operation: Operation) -> bool {
        use Operation::{Alter, AlterConfigs, Delete, Describe, DescribeConfigs, Read, Write};
        let is_implied = || match operation {
            Describe => matches!(self.operation, Read | Write | Delete | Alter),
            DescribeConfigs => self.operation == AlterConfigs,
            _ => false,
        };
        self.names(operation) || (self.permission == PermissionType::Allow && is_implied())
    }

    /// Returns true when the ACL names the operation, or all of them.
    pub(super) fn names(&self, operation: Operation) -> bool {
        self.operation == operation || self.operation == Operation::All
    }
}

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
            EscapedText(name),
            EscapedText(self.principal.as_str()),
            EscapedText(self.host.as_str()),
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
                operation,
                permission: PermissionType::Allow,
            };
            let covers = |acl: &AclBinding| -> Vec<Operation> {
                let all = Operation::ALL.iter().copied();
                all.filter(|asked| acl.covers(*asked)).collect()
            };
            assert_eq!(covers(&acl), covered);
            acl.permission = PermissionType::Deny;
            if operation != All {
                assert_eq!(covers(&acl), [operation]);
            }
        }
    }

    #[test]
    fn an_acl_is_shown_without_characters_that_hide_something() {
        let acl = AclBinding {
            pattern: pattern(PatternType::Prefixed, "a\x1bb"),
            principal: Principal::user("eve\u{202e}"),
            host: Host::new("*"),
            operation: Operation::Read,
            permission: PermissionType::Deny,
        };
        assert_eq!(
            acl.to_string(),
            "DENY READ on PREFIXED TOPIC a\\u{1b}b to User:eve\\u{202e} from *"
        );
    }
}
