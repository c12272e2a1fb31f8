//! Makes ACLs and filters, or Kafka's errors, from the numbers and texts of requests and records.
//!
//! A new ACL is judged in Kafka's order: the name of the cluster and an empty name first, then the
//! type of the resource, the type of the pattern, the operation, the permission, the principal.
//! Hosts are not judged. An ACL of the metadata log is only read ([`RawAcl::read`]), because older
//! releases stored what is refused today, and later ones may store what is not known today.
//! Not here: duplicates, limits (texts are as long as a request lets them be; a bound on the bytes
//! of all ACLs belongs to the handler of `CreateAcls`), and the requests that Kafka does not answer
//! at all (it closes the connection of a client that sends the code 0, which is UNKNOWN).

use super::binding::{AclBinding, ResourcePattern};
use super::codes::{ANY, Operation, PatternType, PermissionType, ResourceType, StoredCode};
use super::filter::{AclFilter, PatternFilter};
use super::host::Host;
use super::principal::{Principal, PrincipalError};
use super::quoted::QuotedText;
use crate::messages::DescribeAclsRequest;
use crate::messages::create_acls_request::AclCreation;
use crate::messages::delete_acls_request::DeleteAclsFilter;
use crate::records::metadata::AccessControlEntryRecord;
use crate::text::cut;
use crate::types::{ErrorCode, Uuid};

/// The name of the only resource of its type.
pub const CLUSTER_NAME: &str = "kafka-cluster";

/// How much of a name the error about an ACL without place repeats, in bytes.
const SHOWN_BYTES_MAX: usize = 200;

const RESOURCE_TYPE: &str = "resourceType";
const PATTERN_TYPE: &str = "patternType";

/// The code of MATCH, a type of patterns in filters.
const MATCH: i8 = 2;

const _: () = assert!(
    PatternType::from_code(MATCH).is_none() && PatternType::from_code(ANY).is_none(),
    "what filters may ask is not what ACLs may have"
);

/// The reason why a request's ACL or filter is refused, in Kafka's words.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AclError {
    /// The cluster has another name.
    #[error("The only valid name for the CLUSTER resource is {}", CLUSTER_NAME)]
    ClusterName,
    /// A resource without name.
    #[error("Invalid empty resource name")]
    EmptyName,
    /// A code that an ACL cannot have.
    ///
    /// The words are Kafka's for an unknown code. For ANY and MATCH Kafka has none: it fails while
    /// it builds the values of the request, and answers each of its ACLs with
    /// `UNKNOWN_SERVER_ERROR`. Here the others of the request are created.
    #[error("Invalid {field} {found}")]
    Code {
        /// The field.
        field: &'static str,
        /// Kafka's name of the code.
        found: &'static str,
    },
    /// A principal without type.
    #[error(transparent)]
    Principal(#[from] PrincipalError),
    /// A filter with an unknown type of resource or pattern.
    #[error("Unknown patternFilter.")]
    PatternFilter,
    /// A filter with an unknown operation or permission.
    #[error("Unknown entryFilter.")]
    EntryFilter,
}

impl AclError {
    fn code(field: &'static str, code: i8) -> Self {
        let found = match (field, code) {
            (_, ANY) => "ANY",
            (PATTERN_TYPE, MATCH) => "MATCH",
            _ => "UNKNOWN",
        };
        Self::Code { field, found }
    }

    /// Returns the code that Kafka answers.
    pub const fn error_code(&self) -> ErrorCode {
        ErrorCode::InvalidRequest
    }
}

/// A stored ACL for which there is no place, because its resources are unknown.
///
/// A broker that left it out could permit what it forbids, so a broker that enforces ACLs refuses
/// to start with it, and does not replay it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("an ACL on {} has the {field} {code}, which is not known here", QuotedText(.name))]
pub struct UnplacedAcl {
    /// The field that says so, in Kafka's spelling.
    pub field: &'static str,
    /// Its code.
    pub code: i8,
    /// The name in the ACL; the beginning, if it is long.
    pub name: String,
}

impl From<UnplacedAcl> for AclError {
    fn from(UnplacedAcl { field, code, .. }: UnplacedAcl) -> Self {
        Self::code(field, code)
    }
}

/// The fields of an ACL, as a request or a record has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawAcl<'a> {
    /// Code of the type of resource.
    pub resource_type: i8,
    /// Name of the resource, or a prefix.
    pub name: &'a str,
    /// Code of the type of pattern.
    pub pattern_type: i8,
    /// Principal, as `type:name`.
    pub principal: &'a str,
    /// Host.
    pub host: &'a str,
    /// Code of the operation.
    pub operation: i8,
    /// Code of the permission.
    pub permission: i8,
}

impl<'a> From<&'a AclCreation> for RawAcl<'a> {
    fn from(creation: &'a AclCreation) -> Self {
        Self {
            resource_type: creation.resource_type,
            name: &creation.resource_name,
            pattern_type: creation.resource_pattern_type,
            principal: &creation.principal,
            host: &creation.host,
            operation: creation.operation,
            permission: creation.permission_type,
        }
    }
}

impl<'a> From<&'a AccessControlEntryRecord> for RawAcl<'a> {
    fn from(record: &'a AccessControlEntryRecord) -> Self {
        Self {
            resource_type: record.resource_type,
            name: &record.resource_name,
            pattern_type: record.pattern_type,
            principal: &record.principal,
            host: &record.host,
            operation: record.operation,
            permission: record.permission_type,
        }
    }
}

impl RawAcl<'_> {
    /// Returns the ACL that a client asks to create.
    pub fn validate(self) -> Result<AclBinding, AclError> {
        if self.resource_type == ResourceType::Cluster.code() && self.name != CLUSTER_NAME {
            return Err(AclError::ClusterName);
        }
        if self.name.is_empty() {
            return Err(AclError::EmptyName);
        }
        let acl = self.read()?;
        if acl.operation.known().is_none() {
            return Err(AclError::code("operation", self.operation));
        }
        if acl.permission.known().is_none() {
            return Err(AclError::code("permissionType", self.permission));
        }
        Principal::parse(self.principal)?;
        assert!(acl.is_understood(), "what is created can be enforced");
        Ok(acl)
    }

    /// Returns the ACL that a record holds.
    ///
    /// What a record says is kept, because a resource whose ACL is left out could be open to all
    /// (`allow.everyone.if.no.acl.found`):
    /// - a name is not judged;
    /// - a principal without colon is that of no client. Kafka fails every request that reaches
    ///   such an ACL; here the other ACLs decide;
    /// - an operation that is not known is none that a client asks for;
    /// - a permission that is not known forbids, as in Kafka.
    ///
    /// Only where the type of the resource or of the pattern is not known, the ACL has no place.
    pub fn read(self) -> Result<AclBinding, UnplacedAcl> {
        let unplaced = |field, code| UnplacedAcl {
            field,
            code,
            name: cut(self.name, SHOWN_BYTES_MAX).to_owned(),
        };
        let resource_type = ResourceType::from_code(self.resource_type)
            .ok_or_else(|| unplaced(RESOURCE_TYPE, self.resource_type))?;
        let pattern_type = PatternType::from_code(self.pattern_type)
            .ok_or_else(|| unplaced(PATTERN_TYPE, self.pattern_type))?;
        Ok(AclBinding {
            pattern: ResourcePattern {
                resource_type,
                name: self.name.into(),
                pattern_type,
            },
            principal: Principal::stored(self.principal),
            host: Host::new(self.host),
            operation: StoredCode::<Operation>::from_code(self.operation),
            permission: StoredCode::<PermissionType>::from_code(self.permission),
        })
    }
}

impl AclBinding {
    /// Returns the record that keeps the ACL under `id` in the metadata log.
    pub fn to_record(&self, id: Uuid) -> AccessControlEntryRecord {
        AccessControlEntryRecord {
            id,
            resource_type: self.pattern.resource_type.code(),
            resource_name: (*self.pattern.name).to_owned(),
            pattern_type: self.pattern.pattern_type.code(),
            principal: self.principal.as_str().to_owned(),
            host: self.host.as_str().to_owned(),
            operation: self.operation.code(),
            permission_type: self.permission.code(),
        }
    }
}

/// The fields of a filter, as a request has them; a text that is absent is any.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawFilter<'a> {
    /// Code of the type of resource.
    pub resource_type: i8,
    /// Name of the resource.
    pub name: Option<&'a str>,
    /// Code of the type of pattern.
    pub pattern_type: i8,
    /// Principal.
    pub principal: Option<&'a str>,
    /// Host.
    pub host: Option<&'a str>,
    /// Code of the operation.
    pub operation: i8,
    /// Code of the permission.
    pub permission: i8,
}

impl<'a> From<&'a DescribeAclsRequest> for RawFilter<'a> {
    fn from(request: &'a DescribeAclsRequest) -> Self {
        Self {
            resource_type: request.resource_type_filter,
            name: request.resource_name_filter.as_deref(),
            pattern_type: request.pattern_type_filter,
            principal: request.principal_filter.as_deref(),
            host: request.host_filter.as_deref(),
            operation: request.operation,
            permission: request.permission_type,
        }
    }
}

impl<'a> From<&'a DeleteAclsFilter> for RawFilter<'a> {
    fn from(filter: &'a DeleteAclsFilter) -> Self {
        Self {
            resource_type: filter.resource_type_filter,
            name: filter.resource_name_filter.as_deref(),
            pattern_type: filter.pattern_type_filter,
            principal: filter.principal_filter.as_deref(),
            host: filter.host_filter.as_deref(),
            operation: filter.operation,
            permission: filter.permission_type,
        }
    }
}

impl RawFilter<'_> {
    /// Returns the filter of a client that asks for ACLs; `None` for one that means none, because
    /// it has a code that is not known.
    ///
    /// Kafka answers that with an empty list, and not with an error as [`Self::for_deletion`] does.
    pub fn for_description(self) -> Option<AclFilter> {
        self.for_deletion().ok()
    }

    /// Returns the filter of a client that deletes ACLs.
    pub fn for_deletion(self) -> Result<AclFilter, AclError> {
        let pattern_type = match self.pattern_type {
            ANY => Some(PatternFilter::Any),
            MATCH => Some(PatternFilter::Match),
            code => PatternType::from_code(code).map(PatternFilter::Is),
        };
        Ok(AclFilter {
            resource_type: or_any(
                self.resource_type,
                ResourceType::from_code,
                AclError::PatternFilter,
            )?,
            name: self.name.map(str::to_owned),
            pattern_type: pattern_type.ok_or(AclError::PatternFilter)?,
            principal: self.principal.map(str::to_owned),
            host: self.host.map(str::to_owned),
            operation: or_any(self.operation, Operation::from_code, AclError::EntryFilter)?,
            permission: or_any(
                self.permission,
                PermissionType::from_code,
                AclError::EntryFilter,
            )?,
        })
    }
}

/// Reads a code of a filter, `None` for any; `unknown` is the error for an unknown one.
fn or_any<T>(
    code: i8,
    from_code: impl Fn(i8) -> Option<T>,
    unknown: AclError,
) -> Result<Option<T>, AclError> {
    match code {
        ANY => Ok(None),
        code => from_code(code).map(Some).ok_or(unknown),
    }
}

#[cfg(test)]
mod tests;
