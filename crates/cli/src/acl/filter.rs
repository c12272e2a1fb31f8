//! Which ACLs a command means: by resource, principal, host, operation and permission.

use clap::{Args, ValueEnum};
use wire::acl::{CLUSTER_NAME, Operation, PatternType, PermissionType, ResourceType};
use wire::messages::DescribeAclsRequest;
use wire::messages::delete_acls_request::DeleteAclsFilter;

use super::entry;
use crate::ask::text;

/// The code of ANY.
pub(super) const ANY: i8 = 1;
/// The code of MATCH, a pattern type of requests only.
const MATCH: i8 = 2;

/// How the names of ACLs are compared with that of the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Pattern {
    /// ACLs with this name, literal and prefixed.
    Any,
    /// ACLs that apply to a resource with this name: also prefixes of it, and `*`.
    Match,
    /// Literal ACLs with this name.
    Literal,
    /// Prefixed ACLs with this name.
    Prefixed,
}

/// Whether an ACL permits or forbids.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Permission {
    Allow,
    Deny,
}

/// The options that say which ACLs.
#[derive(Debug, Args, Default)]
pub(super) struct Filter {
    /// ACLs of this topic.
    #[arg(long, value_name = "NAME", group = "resource")]
    topic: Option<String>,
    /// ACLs of this group.
    #[arg(long, value_name = "ID", group = "resource")]
    group: Option<String>,
    /// ACLs of this transactional id.
    #[arg(long, value_name = "ID", group = "resource")]
    transactional_id: Option<String>,
    /// ACLs of the cluster.
    #[arg(long, group = "resource")]
    cluster: bool,
    /// How names are compared.
    #[arg(long, value_enum, value_name = "HOW", requires = "resource")]
    pattern: Option<Pattern>,
    /// ACLs of this principal, such as User:ada.
    #[arg(long, value_name = "TYPE:NAME", value_parser = entry::principal)]
    principal: Option<String>,
    /// ACLs for clients at this address.
    #[arg(long, value_name = "ADDRESS")]
    host: Option<String>,
    /// ACLs of this operation.
    #[arg(long, value_parser = entry::operation)]
    operation: Option<Operation>,
    /// ACLs that permit, or ACLs that forbid.
    #[arg(long, value_enum)]
    permission: Option<Permission>,
}

impl Filter {
    /// Returns true if no option says which ACLs.
    pub(super) fn is_empty(&self) -> bool {
        let (_, name) = self.resource();
        let others = [&self.principal, &self.host];
        name.is_none()
            && others.iter().all(|one| one.is_none())
            && self.operation.is_none()
            && self.permission.is_none()
    }

    fn resource(&self) -> (i8, Option<&str>) {
        let named = [
            (ResourceType::Topic, self.topic.as_deref()),
            (ResourceType::Group, self.group.as_deref()),
            (
                ResourceType::TransactionalId,
                self.transactional_id.as_deref(),
            ),
            (ResourceType::Cluster, self.cluster.then_some(CLUSTER_NAME)),
        ];
        let found = named.into_iter().find(|(_, name)| name.is_some());
        found.map_or((ANY, None), |(resource, name)| (resource.code(), name))
    }

    fn pattern(&self) -> i8 {
        match self.pattern {
            None | Some(Pattern::Any) => ANY,
            Some(Pattern::Match) => MATCH,
            Some(Pattern::Literal) => PatternType::Literal.code(),
            Some(Pattern::Prefixed) => PatternType::Prefixed.code(),
        }
    }

    fn permission(&self) -> i8 {
        match self.permission {
            None => ANY,
            Some(Permission::Allow) => PermissionType::Allow.code(),
            Some(Permission::Deny) => PermissionType::Deny.code(),
        }
    }

    /// Returns the request for a list.
    pub(super) fn to_describe(&self) -> DescribeAclsRequest {
        let (resource, name) = self.resource();
        DescribeAclsRequest::default()
            .with_resource_type_filter(resource)
            .with_resource_name_filter(name.map(text))
            .with_pattern_type_filter(self.pattern())
            .with_principal_filter(self.principal.as_deref().map(text))
            .with_host_filter(self.host.as_deref().map(text))
            .with_operation(self.operation.map_or(ANY, Operation::code))
            .with_permission_type(self.permission())
    }

    /// Returns the same for a deletion.
    pub(super) fn to_delete(&self) -> DeleteAclsFilter {
        let same = self.to_describe();
        DeleteAclsFilter::default()
            .with_resource_type_filter(same.resource_type_filter)
            .with_resource_name_filter(same.resource_name_filter)
            .with_pattern_type_filter(same.pattern_type_filter)
            .with_principal_filter(same.principal_filter)
            .with_host_filter(same.host_filter)
            .with_operation(same.operation)
            .with_permission_type(same.permission_type)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        filter: Filter,
    }

    fn filter(line: &[&str]) -> Result<Filter, clap::Error> {
        let line = ["command"].into_iter().chain(line.iter().copied());
        Command::try_parse_from(line).map(|command| command.filter)
    }

    #[test]
    fn what_is_not_said_is_any() {
        let none = filter(&[]).unwrap();
        assert!(none.is_empty());
        let request = none.to_describe();
        assert_eq!(request.resource_type_filter, ANY);
        assert_eq!(request.resource_name_filter, None);
        assert_eq!((request.operation, request.permission_type), (ANY, ANY));

        let some = filter(&["--cluster", "--permission", "deny", "--operation", "alter"]);
        let request = some.unwrap().to_delete();
        assert_eq!(request.resource_type_filter, ResourceType::Cluster.code());
        assert_eq!(
            request.resource_name_filter.as_deref(),
            Some("kafka-cluster")
        );
        assert_eq!(request.operation, Operation::Alter.code());
        assert_eq!(request.permission_type, PermissionType::Deny.code());

        let prefix = filter(&["--topic", "a", "--pattern", "match"]).unwrap();
        assert_eq!(prefix.to_describe().pattern_type_filter, MATCH);
        assert!(!prefix.is_empty());
        for wrong in [
            &["--topic", "a", "--group", "b"][..],
            &["--pattern", "match"],
            &["--principal", "ada"],
        ] {
            assert!(filter(wrong).is_err(), "{wrong:?}");
        }
    }
}
