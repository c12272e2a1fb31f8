//! Filters: which ACLs a request to describe or to delete them means.
//!
//! Texts are compared as texts, hosts too: a filter means ACLs, not clients. A name means other
//! things with other types of patterns: with MATCH it is the name of a resource, and the filter
//! means all ACLs that could apply to it; with ANY, LITERAL and PREFIXED it is the name in the ACL.
//! An ACL whose operation or permission is not known is meant by filters for any.

use super::binding::{AclBinding, ResourcePattern};
use super::codes::{Operation, PatternType, PermissionType, ResourceType};

/// The types of patterns that a filter means.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PatternFilter {
    /// Every type, with the filter's name.
    Any,
    /// Every pattern that fits the resource with the filter's name.
    Match,
    /// This type.
    Is(PatternType),
}

/// A filter; what is `None` is any.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct AclFilter {
    /// Type of the resource.
    pub resource_type: Option<ResourceType>,
    /// Name.
    pub name: Option<String>,
    /// How the name is meant.
    pub pattern_type: PatternFilter,
    /// Principal.
    pub principal: Option<String>,
    /// Host.
    pub host: Option<String>,
    /// Operation of the ACL; ALL is one of them, and implies no other.
    pub operation: Option<Operation>,
    /// Permission.
    pub permission: Option<PermissionType>,
}

impl AclFilter {
    /// The filter that means every ACL.
    pub const ANY: Self = Self {
        resource_type: None,
        name: None,
        pattern_type: PatternFilter::Any,
        principal: None,
        host: None,
        operation: None,
        permission: None,
    };

    /// Returns true when the filter means this ACL.
    pub fn matches(&self, acl: &AclBinding) -> bool {
        let (principal, host) = (self.principal.as_deref(), self.host.as_deref());
        self.means(&acl.pattern)
            && principal.is_none_or(|own| own == acl.principal.as_str())
            && host.is_none_or(|own| own == acl.host.as_str())
            && self.operation.is_none_or(|own| acl.operation.is(own))
            && self.permission.is_none_or(|own| acl.permission.is(own))
    }

    fn means(&self, pattern: &ResourcePattern) -> bool {
        let is_type = match self.pattern_type {
            PatternFilter::Any | PatternFilter::Match => true,
            PatternFilter::Is(own) => own == pattern.pattern_type,
        };
        let is_name = |name: &String| match self.pattern_type {
            PatternFilter::Match => pattern.reach(name).is_some(),
            PatternFilter::Any | PatternFilter::Is(_) => *pattern.name == **name,
        };
        is_type
            && self
                .resource_type
                .is_none_or(|own| own == pattern.resource_type)
            && self.name.as_ref().is_none_or(is_name)
    }
}

#[cfg(test)]
mod tests;
