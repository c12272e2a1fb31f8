//! The decision, as a plain function over a list of ACLs: what the index must equal.
//!
//! In this order: a super user may do everything; any ACL that forbids it forbids it; any ACL that
//! permits it permits it; a resource whose name no ACL fits, for any principal, is left to the
//! setting `allow.everyone.if.no.acl.found`; the rest is forbidden. An ACL of a later release
//! counts among those that fit ([`AclBinding::effect`]). Where several ACLs decide alike, the
//! decision names the one that fits the resource most closely, so it is the same for every order of
//! the list.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use super::binding::{AclBinding, Reach};
use super::codes::{Operation, PatternType, PermissionType, ResourceType};
use super::principal::Principal;

/// What the operator set, besides ACLs.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Policy {
    /// Who may do everything (`super.users`).
    // Unbounded: an operator lists them in one setting.
    pub super_users: BTreeSet<Principal>,
    /// Whether resources without ACLs are free for all (`allow.everyone.if.no.acl.found`).
    pub is_open_without_acl: bool,
}

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Client<'a> {
    principal: &'a Principal,
    address: IpAddr,
}

impl<'a> Client<'a> {
    /// Returns a client with this principal, whose connection comes from `address`.
    pub fn new(principal: &'a Principal, address: IpAddr) -> Self {
        Self {
            principal,
            address: address.to_canonical(),
        }
    }

    /// Returns the principal.
    pub fn principal(&self) -> &'a Principal {
        self.principal
    }

    /// Returns the address, which is no IPv4 address in IPv6 form.
    pub const fn address(&self) -> IpAddr {
        self.address
    }

    fn is_meant_by(&self, acl: &AclBinding) -> bool {
        let is_principal =
            acl.principal == *self.principal || acl.principal.as_str() == Principal::EVERYONE;
        is_principal && acl.host.is_for(self.address, acl.effect())
    }
}

/// What it asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Action<'a> {
    /// The operation.
    pub operation: Operation,
    /// The type of the resource.
    pub resource_type: ResourceType,
    /// The name of the resource.
    pub name: &'a str,
}

impl Action<'_> {
    /// Returns the question with which "on any resource of this type" begins.
    ///
    /// Kafka asks for this name to find super users and resources without ACLs, so a topic that
    /// really has it is treated like any other.
    pub(super) const fn on_some_name(operation: Operation, resource_type: ResourceType) -> Self {
        Self {
            operation,
            resource_type,
            name: "hardcode",
        }
    }
}

/// An answer, with the rule that it follows from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision<'a> {
    /// Yes: a super user.
    SuperUser,
    /// No: this ACL forbids it.
    Denied(&'a AclBinding),
    /// Yes: this ACL permits it.
    Allowed(&'a AclBinding),
    /// No ACL fits the resource: as the operator set.
    NoAcl {
        /// Whether it is allowed.
        allowed: bool,
    },
    /// No: there are ACLs for the resource, and none of them permits it.
    NoMatch,
}

impl<'a> Decision<'a> {
    /// Returns the answer.
    pub const fn is_allowed(&self) -> bool {
        match self {
            Self::SuperUser | Self::Allowed(_) => true,
            Self::NoAcl { allowed } => *allowed,
            Self::Denied(_) | Self::NoMatch => false,
        }
    }

    /// Returns the ACL that decided, if one did.
    pub const fn acl(&self) -> Option<&'a AclBinding> {
        match self {
            Self::Denied(acl) | Self::Allowed(acl) => Some(*acl),
            Self::SuperUser | Self::NoAcl { .. } | Self::NoMatch => None,
        }
    }
}

impl fmt::Display for Decision<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SuperUser => to.write_str("super user"),
            Self::Denied(acl) | Self::Allowed(acl) => acl.fmt(to),
            Self::NoAcl { .. } => to.write_str("no ACL for the resource"),
            Self::NoMatch => to.write_str("no ACL that permits it"),
        }
    }
}

impl Policy {
    /// Returns the decision that needs no ACL, for a super user.
    pub(super) fn on_super_user(&self, client: &Client<'_>) -> Option<Decision<'static>> {
        let is_super = self.super_users.contains(client.principal);
        is_super.then_some(Decision::SuperUser)
    }

    /// Returns the decision on a resource that no ACL fits.
    pub(super) const fn on_no_acl(&self) -> Decision<'static> {
        Decision::NoAcl {
            allowed: self.is_open_without_acl,
        }
    }
}

/// The closest ACL that forbids, and the closest one that permits.
#[derive(Default)]
pub(super) struct ClosestAcls<'a> {
    deny: Option<(Reach, &'a AclBinding)>,
    allow: Option<(Reach, &'a AclBinding)>,
}

impl<'a> ClosestAcls<'a> {
    /// Takes notice of an ACL that fits.
    pub(super) fn offer(&mut self, reach: Reach, acl: &'a AclBinding) {
        let closest = match acl.effect() {
            PermissionType::Deny => &mut self.deny,
            PermissionType::Allow => &mut self.allow,
        };
        if closest.is_none_or(|found| (reach, acl) < found) {
            *closest = Some((reach, acl));
        }
    }

    /// Returns the decision that follows; `None` when no ACL was offered.
    pub(super) fn decision(&self) -> Option<Decision<'a>> {
        let deny = self.deny.map(|(_, acl)| Decision::Denied(acl));
        deny.or(self.allow.map(|(_, acl)| Decision::Allowed(acl)))
    }
}

/// Decides whether `client` may do `action`.
pub fn decide<'a>(
    policy: &Policy,
    acls: impl IntoIterator<Item = &'a AclBinding>,
    client: &Client<'_>,
    action: &Action<'_>,
) -> Decision<'a> {
    if let Some(decision) = policy.on_super_user(client) {
        return decision;
    }
    let mut closest = ClosestAcls::default();
    let mut otherwise = policy.on_no_acl();
    for acl in acls {
        let is_type = acl.pattern.resource_type == action.resource_type;
        let Some(reach) = acl.pattern.reach(action.name).filter(|_| is_type) else {
            continue;
        };
        otherwise = Decision::NoMatch;
        if client.is_meant_by(acl) && acl.covers(action.operation) {
            closest.offer(reach, acl);
        }
    }
    closest.decision().unwrap_or(otherwise)
}

/// Decides whether `client` may do `operation` on at least one resource of a type, as an idempotent
/// producer asks before it names a topic.
///
/// Only ACLs of this very operation count, and of ALL. An ACL that permits is worth nothing where
/// another forbids all that it permits: on every name, on the same name, or on a prefix of it.
/// Kafka passes over ACLs that forbid on the empty prefix, or whose permission is not known.
pub fn decide_any<'a>(
    policy: &Policy,
    acls: &'a [AclBinding],
    client: &Client<'_>,
    operation: Operation,
    resource_type: ResourceType,
) -> Decision<'a> {
    let action = Action::on_some_name(operation, resource_type);
    let on_some_name = decide(policy, acls, client, &action);
    if on_some_name.is_allowed() {
        return on_some_name;
    }
    let meant = acls.iter().filter(|acl| {
        acl.pattern.resource_type == resource_type
            && acl.names(operation)
            && client.is_meant_by(acl)
    });
    let (denied, allowed): (Vec<&AclBinding>, Vec<&AclBinding>) =
        meant.partition(|acl| acl.effect() == PermissionType::Deny);
    let mut on_all = ClosestAcls::default();
    for acl in denied.iter().chain(&allowed).copied() {
        if acl.pattern.is_all() {
            on_all.offer(Reach::All, acl);
        }
    }
    on_all.decision().unwrap_or_else(|| {
        let is_worth = |acl: &&AclBinding| !denied.iter().any(|deny| outweighs(deny, acl));
        let closest = allowed.into_iter().filter(is_worth).min();
        closest.map_or(Decision::NoMatch, Decision::Allowed)
    })
}

/// Returns true when `deny` forbids all names that `allow` permits; neither is for every name.
fn outweighs(deny: &AclBinding, allow: &AclBinding) -> bool {
    match (deny.pattern.pattern_type, allow.pattern.pattern_type) {
        (PatternType::Prefixed, _) => allow.pattern.name.starts_with(&*deny.pattern.name),
        (PatternType::Literal, PatternType::Literal) => deny.pattern.name == allow.pattern.name,
        (PatternType::Literal, PatternType::Prefixed) => false,
    }
}

#[cfg(test)]
mod tests;
