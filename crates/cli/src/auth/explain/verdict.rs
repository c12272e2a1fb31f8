//! The verdict on one question about rights, from the ACLs of a cluster and what is known of its
//! settings.
//!
//! The decision is [`wire::acl::decide`], the definition that the broker's index equals. Beyond it:
//! a setting that is not known leaves the answer open, and without an address the answer is that
//! for an address which no ACL names, with those addresses beside it for which it is another.
//!
//! Pure. Invariant: the answer says "allowed" or "denied" only if that follows from what is known;
//! that a principal may be a super user, which is rarely known, is the caller's to say.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use wire::acl::{
    AclBinding, Action, Client, Decision, Operation, PatternType, Policy, Principal, ResourceType,
};

/// Addresses for which a verdict is given besides the one that was asked for.
const ELSEWHERE_MAX: usize = 50;

/// Who asks for what.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) principal: Principal,
    /// The address of the client; `None` for one that no ACL names.
    pub(super) host: Option<IpAddr>,
    pub(super) operation: Operation,
    pub(super) resource_type: ResourceType,
    pub(super) name: String,
}

/// What a cluster tells about rights.
#[derive(Clone, Default, Debug)]
pub(super) struct KnownRights {
    /// The ACLs of the resource's type.
    // Bounded: the longest answer that a client accepts.
    pub(super) acls: Vec<AclBinding>,
    /// `super.users`, if the cluster tells them.
    // Unbounded: an operator lists them in one setting.
    pub(super) super_users: Option<BTreeSet<Principal>>,
    /// `allow.everyone.if.no.acl.found`, if the cluster tells it.
    pub(super) is_open_without_acl: Option<bool>,
}

/// An answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Answer {
    Allowed,
    Denied,
    /// It follows from a setting that the cluster does not tell.
    Unknown,
}

/// An answer with the rule that it follows from.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Verdict<'a> {
    pub(super) answer: Answer,
    pub(super) decision: Decision<'a>,
    /// Addresses that ACLs name for this principal and resource, where the answer is another.
    pub(super) elsewhere: Vec<(IpAddr, Answer)>,
    /// True if there are more such addresses than were looked at.
    pub(super) has_more_elsewhere: bool,
}

impl Question {
    /// Returns what is asked for, as decisions take it.
    pub(super) fn action(&self) -> Action<'_> {
        Action {
            operation: self.operation,
            resource_type: self.resource_type,
            name: &self.name,
        }
    }

    /// Returns true if an ACL is about this resource, for any principal.
    pub(super) fn is_about(&self, acl: &AclBinding) -> bool {
        let pattern = &acl.pattern;
        pattern.resource_type == self.resource_type
            && match pattern.pattern_type {
                PatternType::Literal => pattern.is_all() || *pattern.name == *self.name,
                PatternType::Prefixed => self.name.starts_with(&*pattern.name),
            }
    }

    fn is_for(&self, acl: &AclBinding) -> bool {
        acl.principal == self.principal || acl.principal.as_str() == Principal::EVERYONE
    }
}

/// Returns the verdict.
pub(super) fn judge<'a>(question: &Question, known: &'a KnownRights) -> Verdict<'a> {
    let policy = Policy {
        super_users: known.super_users.clone().unwrap_or_default(),
        is_open_without_acl: known.is_open_without_acl.unwrap_or(false),
    };
    let about = known.acls.iter().filter(|acl| question.is_about(acl));
    let about: Vec<&AclBinding> = about.collect();
    let at = |address: IpAddr| {
        let client = Client::new(&question.principal, address);
        let decision =
            wire::acl::decide(&policy, about.iter().copied(), &client, &question.action());
        (answer(decision, known.is_open_without_acl), decision)
    };
    let mine = about.iter().filter(|acl| question.is_for(acl));
    let named: BTreeSet<IpAddr> = mine.filter_map(|acl| address_of(acl)).collect();
    let (verdict, decision) = at(question.host.unwrap_or_else(|| unnamed(&named)));
    let mut elsewhere = Vec::new();
    if question.host.is_none() {
        let each = named
            .iter()
            .take(ELSEWHERE_MAX)
            .map(|&address| (address, at(address).0));
        elsewhere.extend(each.filter(|(_, other)| *other != verdict));
    }
    Verdict {
        answer: verdict,
        decision,
        elsewhere,
        has_more_elsewhere: question.host.is_none() && named.len() > ELSEWHERE_MAX,
    }
}

fn answer(decision: Decision<'_>, is_open: Option<bool>) -> Answer {
    match (decision, is_open) {
        (Decision::NoAcl { .. }, None) => Answer::Unknown,
        (decision, _) if decision.is_allowed() => Answer::Allowed,
        _ => Answer::Denied,
    }
}

/// Returns the address that an ACL names, if it names one.
fn address_of(acl: &AclBinding) -> Option<IpAddr> {
    let text = acl.host.as_str();
    let text = text.split_once('%').map_or(text, |(before, _)| before);
    text.parse()
        .ok()
        .map(|address: IpAddr| address.to_canonical())
}

/// Returns an address that is not among these: one of those that are kept for examples, or one
/// behind them.
fn unnamed(named: &BTreeSet<IpAddr>) -> IpAddr {
    let first = u32::from(Ipv4Addr::new(192, 0, 2, 1));
    let mut each = (first..=u32::MAX).map(|bits| IpAddr::V4(Ipv4Addr::from(bits)));
    each.find(|address| !named.contains(address))
        .unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
}

#[cfg(test)]
pub(super) mod tests;
