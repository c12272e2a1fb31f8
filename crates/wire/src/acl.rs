//! Access control lists: their values, and the decision whether a principal may do something.
//!
//! - `codes`, `principal`, `host`, `binding`: the values, with Kafka's codes, names, comparisons;
//! - `raw`: from the numbers and texts of requests and records to values, or to Kafka's errors;
//! - `filter`: which ACLs a request to describe or to delete them means;
//! - `decide`: the decision as a plain function over a list, which is the definition;
//! - `index`, `patterns`, `rules`, `worth`: the same decisions, at a cost that does not depend on
//!   other principals' ACLs; `shared`: the map below them, which shares what does not change;
//! - `operations`: the bits of the operations that a client may do, as answers carry them;
//! - `unlike`: the ACLs that mean other clients here than in Kafka.
//!
//! Semantics are those of Kafka 4.3's `StandardAuthorizer`, with these differences:
//! - addresses are compared as addresses, not as text (`host`);
//! - an ACL for a principal without colon applies to no client; Kafka fails each request that
//!   reaches it;
//! - where any resource of a type is asked for, an ACL that forbids on the empty prefix, or whose
//!   permission is not known, forbids as elsewhere; Kafka passes over it.
//!
//! Invariants: all of it is pure, and a decision names the rule that it follows from.
//! Not here: which right a request needs, sessions, audit.

mod binding;
mod codes;
mod decide;
mod filter;
#[cfg(test)]
mod given;
mod host;
mod index;
mod operations;
mod patterns;
mod principal;
mod quoted;
mod raw;
mod rules;
mod shared;
mod unlike;
mod worth;

pub use binding::{AclBinding, ResourcePattern};
pub use codes::{Operation, PatternType, PermissionType, ResourceType, StoredCode};
pub use decide::{Action, Client, Decision, Policy, decide, decide_any};
pub use filter::{AclFilter, PatternFilter};
pub use host::{Host, KafkaDifference};
pub use index::{AclIndex, Change};
pub use operations::{NOT_ASKED, authorized_operations, supported_operations};
pub use principal::{Principal, PrincipalError, super_users};
pub use raw::{AclError, CLUSTER_NAME, RawAcl, RawFilter, UnplacedAcl};
pub use shared::SharedMap;
pub use unlike::unlike_kafka;
pub use worth::NamesWalk;

/// How many ACLs one request may create or delete.
pub const CHANGES_MAX: usize = 10_000;
