//! One ACL as it is shown, and the table of some.
//!
//! Words are those of Kafka's tools. A code that is not known here is shown as a number.

use std::net::IpAddr;

use serde::Serialize;
use wire::acl::{AclBinding, Operation, PatternType, PermissionType, ResourceType, StoredCode};
use wire::messages::DescribeAclsResponse;
use wire::messages::create_acls_request::AclCreation;
use wire::messages::delete_acls_response::DeleteAclsMatchingAcl;

use crate::ask::text;
use crate::show::Table;

/// One ACL. The order is that of lists: by resource, then by principal.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub(crate) struct Entry {
    pub(super) resource_type: String,
    pub(super) name: String,
    pub(super) pattern: String,
    pub(super) principal: String,
    pub(super) host: String,
    pub(super) operation: String,
    pub(super) permission: String,
}

impl Entry {
    /// Returns all ACLs of an answer, in the order of lists.
    pub(super) fn all(answer: DescribeAclsResponse) -> Vec<Self> {
        let mut all = Vec::new();
        for resource in answer.resources {
            for acl in resource.acls {
                all.push(Self {
                    resource_type: word::<ResourceType>(resource.resource_type),
                    name: resource.resource_name.to_string(),
                    pattern: word::<PatternType>(resource.pattern_type),
                    principal: acl.principal.to_string(),
                    host: acl.host.to_string(),
                    operation: word::<Operation>(acl.operation),
                    permission: word::<PermissionType>(acl.permission_type),
                });
            }
        }
        all.sort();
        all
    }

    /// Returns an ACL that was deleted.
    pub(super) fn of(acl: &DeleteAclsMatchingAcl) -> Self {
        Self {
            resource_type: word::<ResourceType>(acl.resource_type),
            name: acl.resource_name.to_string(),
            pattern: word::<PatternType>(acl.pattern_type),
            principal: acl.principal.to_string(),
            host: acl.host.to_string(),
            operation: word::<Operation>(acl.operation),
            permission: word::<PermissionType>(acl.permission_type),
        }
    }

    /// Returns an ACL that a request makes.
    pub(super) fn made(acl: &AclCreation) -> Self {
        Self {
            resource_type: word::<ResourceType>(acl.resource_type),
            name: acl.resource_name.to_string(),
            pattern: word::<PatternType>(acl.resource_pattern_type),
            principal: acl.principal.to_string(),
            host: acl.host.to_string(),
            operation: word::<Operation>(acl.operation),
            permission: word::<PermissionType>(acl.permission_type),
        }
    }

    /// Returns the ACL in one line.
    pub(crate) fn line(&self) -> String {
        let Self {
            resource_type,
            name,
            pattern,
            principal,
            host,
            operation,
            permission,
        } = self;
        format!(
            "{permission} {principal} from {host}: {operation} {resource_type} {name} ({pattern})"
        )
    }
}

impl From<&AclBinding> for Entry {
    fn from(acl: &AclBinding) -> Self {
        Self {
            resource_type: acl.pattern.resource_type.name().to_owned(),
            name: acl.pattern.name.to_string(),
            pattern: acl.pattern.pattern_type.name().to_owned(),
            principal: acl.principal.to_string(),
            host: acl.host.as_str().to_owned(),
            operation: acl.operation.to_string(),
            permission: acl.permission.to_string(),
        }
    }
}

/// Returns the word for a code.
fn word<T: Coded>(code: i8) -> String {
    T::word(code)
}

/// A value with codes and words.
trait Coded {
    fn word(code: i8) -> String;
}

macro_rules! coded {
    ($($name:ty),*) => {$(
        impl Coded for $name {
            fn word(code: i8) -> String {
                match <$name>::from_code(code) {
                    Some(value) => value.name().to_owned(),
                    None => StoredCode::<$name>::Unknown(code).to_string(),
                }
            }
        }
    )*};
}

coded!(ResourceType, PatternType, Operation, PermissionType);

/// Returns the table of some ACLs.
pub(super) fn table(entries: &[Entry]) -> String {
    let mut table = Table::headed(&[
        "RESOURCE",
        "NAME",
        "PATTERN",
        "PRINCIPAL",
        "HOST",
        "OPERATION",
        "PERMISSION",
    ]);
    for entry in entries {
        let entry = entry.clone();
        table.row([
            entry.resource_type,
            entry.name,
            entry.pattern,
            entry.principal,
            entry.host,
            entry.operation,
            entry.permission,
        ]);
    }
    table.render()
}

/// Returns an ACL of a request.
pub(super) fn creation(
    (resource_type, name, pattern): (ResourceType, &str, PatternType),
    (principal, host): (&str, &str),
    operation: Operation,
    permission: PermissionType,
) -> AclCreation {
    AclCreation::default()
        .with_resource_type(resource_type.code())
        .with_resource_name(text(name))
        .with_resource_pattern_type(pattern.code())
        .with_principal(text(principal))
        .with_host(text(host))
        .with_operation(operation.code())
        .with_permission_type(permission.code())
}

/// Reads the name of an operation.
pub(crate) fn operation(text: &str) -> Result<Operation, String> {
    Operation::parse(text).ok_or_else(|| {
        let all: Vec<_> = Operation::ALL.iter().map(|one| one.name()).collect();
        format!("must be one of {}", all.join(", "))
    })
}

/// Reads the host of a new ACL: brokers compare it with the addresses of clients, and look up no
/// name, so an ACL for one would never apply.
pub(super) fn host(text: &str) -> Result<String, String> {
    let address = text.split_once('%').map_or(text, |(address, _)| address);
    if text == "*" || address.parse::<IpAddr>().is_ok() {
        return Ok(text.to_owned());
    }
    Err("must be an IP address, or '*' for all: brokers look up no names".to_owned())
}

/// Reads a principal.
pub(crate) fn principal(text: &str) -> Result<String, String> {
    match text.split_once(':') {
        Some((kind, name)) if !kind.is_empty() && !name.is_empty() => Ok(text.to_owned()),
        _ => Err(format!("a principal has a type: User:{text}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_kafkas_and_what_is_unknown_is_a_number() {
        let acl = creation(
            (ResourceType::Topic, "orders", PatternType::Prefixed),
            ("User:ada", "*"),
            Operation::DescribeConfigs,
            PermissionType::Deny,
        );
        assert_eq!(
            Entry::made(&acl).line(),
            "DENY User:ada from *: DESCRIBE_CONFIGS TOPIC orders (PREFIXED)"
        );
        assert_eq!(
            Entry::made(&acl.with_operation(77)).operation,
            "UNKNOWN(77)"
        );
        assert_eq!(
            operation("describe-configs"),
            Ok(Operation::DescribeConfigs)
        );
        assert!(operation("x").unwrap_err().contains("READ"));
        assert!(host("broker.example.org").unwrap_err().contains("IP"));
        assert!(host("*").is_ok() && host("10.0.0.1").is_ok() && host("::1").is_ok());
        assert!(principal("ada").unwrap_err().contains("User:ada"));
        assert!(principal("User:ada").is_ok() && principal("User:").is_err());
    }
}
