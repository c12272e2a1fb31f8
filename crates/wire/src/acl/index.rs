//! The decisions of `acl/decide.rs`, at a cost that does not depend on unrelated ACLs.
//!
//! An index has, for each type of resource, the ACLs of each principal by their patterns, and those
//! of a pattern by the addresses of their clients. A decision looks at the patterns of the client's
//! principal and of `User:*` that fit the name; only when none of them decides, it looks at whether
//! a pattern of any principal fits.
//! Invariants: an index never changes. [`AclIndex::with`] makes another one, which shares the ACLs
//! of all principals without a change. The same ACL can be in it more than once, as under several
//! ids, and is in force until the last one goes.
//! Cost: a change costs a hundredth of the names of its type of resource, and all ACLs of its
//! pattern and principal ([`SharedMap`]). An index is built once, at the end of a replay, and
//! changed once for each batch that is committed.
//! Not here: ids, and lists of ACLs for clients.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::binding::{AclBinding, Reach};
use super::codes::{Operation, ResourceType};
use super::decide::{Action, Client, ClosestAcls, Decision, Policy};
use super::patterns::{Patterns, Recount};
use super::principal::Principal;
use super::rules::{Count, Rules};
use super::shared::SharedMap;
use super::worth::{NamesWalk, first_worth};

/// One change of the ACLs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// One comes.
    Added(Arc<AclBinding>),
    /// One goes.
    Removed(Arc<AclBinding>),
}

impl Change {
    const fn acl(&self) -> &Arc<AclBinding> {
        match self {
            Self::Added(acl) | Self::Removed(acl) => acl,
        }
    }
}

/// ACLs, prepared for decisions.
#[derive(Clone, Default, Debug)]
pub struct AclIndex {
    // Unbounded: one entry for each type of resource.
    types: BTreeMap<ResourceType, Arc<OfType>>,
}

/// The ACLs of one type of resource.
#[derive(Clone, Default, Debug)]
struct OfType {
    principals: SharedMap<Principal, Arc<Patterns<Rules>>>,
    /// Those of `User:*`, which every decision looks at.
    everyone: Option<Arc<Patterns<Rules>>>,
    /// How many ACLs there are for each pattern, of all principals.
    counts: Patterns<Count>,
    count: usize,
}

impl AclIndex {
    /// Returns an index of these ACLs.
    pub fn new(acls: &[Arc<AclBinding>]) -> Self {
        let changes: Vec<Change> = acls.iter().cloned().map(Change::Added).collect();
        Self::default().with(&changes)
    }

    /// Returns an index with these changes, made in their order; what is removed and not there at
    /// that point is left out of account.
    #[must_use]
    pub fn with(&self, changes: &[Change]) -> Self {
        let mut next = self.clone();
        let net = self.net(changes);
        let type_of = |change: &Recount<'_>| change.acl.pattern.resource_type;
        for changes in net.chunk_by(|one, other| type_of(one) == type_of(other)) {
            if let Some(resource_type) = changes.first().map(type_of) {
                let of_type = next.types.entry(resource_type).or_default();
                Arc::make_mut(of_type).recount(changes);
            }
        }
        next
    }

    /// Returns what the changes come to, in the order of the ACLs.
    fn net<'a>(&self, changes: &'a [Change]) -> Vec<Recount<'a>> {
        let mut net: BTreeMap<&AclBinding, Recount<'a>> = BTreeMap::new();
        for change in changes {
            let acl = change.acl();
            let recount = net.entry(acl).or_insert_with(|| {
                let before = self.times(acl);
                let after = before;
                Recount { acl, before, after }
            });
            recount.after = match change {
                Change::Added(_) => recount.after.saturating_add(1),
                Change::Removed(_) => recount.after.saturating_sub(1),
            };
        }
        let changed = |recount: &Recount<'_>| recount.before != recount.after;
        net.into_values().filter(changed).collect()
    }

    /// Returns how often an ACL is there.
    fn times(&self, acl: &AclBinding) -> usize {
        let of_type = self.types.get(&acl.pattern.resource_type);
        let patterns = of_type.and_then(|of_type| of_type.principals.get(&acl.principal));
        let rules = patterns.and_then(|patterns| patterns.of(&acl.pattern));
        rules.map_or(0, |rules| rules.times(acl))
    }

    /// Returns the number of ACLs.
    pub fn count(&self) -> usize {
        let counts = self.types.values().map(|of_type| of_type.count);
        counts.fold(0, usize::saturating_add)
    }

    /// Decides whether `client` may do `action`.
    pub fn decide(
        &self,
        policy: &Policy,
        client: &Client<'_>,
        action: &Action<'_>,
    ) -> Decision<'_> {
        if let Some(decision) = policy.on_super_user(client) {
            return decision;
        }
        let Some(of_type) = self.types.get(&action.resource_type) else {
            return policy.on_no_acl();
        };
        let mut closest = ClosestAcls::default();
        for (reach, acl) in of_type.concerning(client, action.name) {
            if acl.covers(action.operation) {
                closest.offer(reach, acl);
            }
        }
        closest.decision().unwrap_or_else(|| {
            let has_acl = of_type.counts.fitting(action.name).next().is_some();
            if has_acl {
                Decision::NoMatch
            } else {
                policy.on_no_acl()
            }
        })
    }

    /// Returns true if the ACL is there.
    pub fn has(&self, acl: &AclBinding) -> bool {
        self.times(acl) > 0
    }

    /// Decides whether `client` may do `operation` on at least one resource of a type.
    pub fn decide_any(
        &self,
        policy: &Policy,
        client: &Client<'_>,
        operation: Operation,
        resource_type: ResourceType,
    ) -> Decision<'_> {
        let quickly = self.decide_any_quickly(policy, client, operation, resource_type);
        quickly.unwrap_or_else(|| {
            let (asked, mut walk) = ((operation, resource_type), NamesWalk::default());
            let decision = self.decide_any_by_names(client, asked, &mut walk, usize::MAX);
            decision.unwrap_or(Decision::NoMatch) // No index has more names.
        })
    }

    /// Decides the same, if that takes no look at all names; `None` if it does.
    pub fn decide_any_quickly(
        &self,
        policy: &Policy,
        client: &Client<'_>,
        operation: Operation,
        resource_type: ResourceType,
    ) -> Option<Decision<'_>> {
        let action = Action::on_some_name(operation, resource_type);
        let on_some_name = self.decide(policy, client, &action);
        if on_some_name.is_allowed() {
            return Some(on_some_name);
        }
        let Some(of_type) = self.types.get(&resource_type) else {
            return Some(Decision::NoMatch);
        };
        let applies = |acl: &AclBinding| acl.names(operation);
        let mut on_all = ClosestAcls::default();
        for patterns in of_type.meant(client) {
            let acls = patterns.all().at(client.address());
            for acl in acls.filter(|acl| applies(acl)) {
                on_all.offer(Reach::All, acl);
            }
        }
        on_all.decision()
    }

    /// Decides what [`Self::decide_any_quickly`] leaves open, by all names of the client's ACLs: it
    /// is the same for all policies.
    ///
    /// Looks at `names_max` names, and returns `None` if that is not enough: the next call with the
    /// same walk goes on after them.
    pub fn decide_any_by_names(
        &self,
        client: &Client<'_>,
        (operation, resource_type): (Operation, ResourceType),
        walk: &mut NamesWalk,
        names_max: usize,
    ) -> Option<Decision<'_>> {
        let Some(of_type) = self.types.get(&resource_type) else {
            return Some(Decision::NoMatch);
        };
        let applies = |acl: &AclBinding| acl.names(operation);
        let (meant, piece) = (of_type.meant(client), (walk, names_max));
        match first_worth(meant, client.address(), applies, piece) {
            ControlFlow::Break(worth) => Some(worth.map_or(Decision::NoMatch, Decision::Allowed)),
            ControlFlow::Continue(()) => None,
        }
    }
}

impl OfType {
    /// Makes the changes, which are in the order of their ACLs.
    fn recount(&mut self, changes: &[Recount<'_>]) {
        let mut of_principals: BTreeMap<&Principal, Vec<Recount<'_>>> = BTreeMap::new();
        for change in changes {
            let of_principal = of_principals.entry(&change.acl.principal).or_default();
            of_principal.push(*change);
        }
        for (principal, changes) in of_principals {
            self.principals.change(principal, |patterns| {
                Arc::make_mut(patterns).recount(&changes);
                !patterns.is_empty()
            });
        }
        self.everyone = self.principals.get(Principal::EVERYONE).cloned();
        self.counts.recount(changes);
        for Recount { before, after, .. } in changes {
            assert!(*before <= self.count, "only what is there is removed");
            self.count = self.count.saturating_sub(*before).saturating_add(*after);
        }
    }

    /// Returns the patterns of the ACLs that are for the client, if it has the right address.
    fn meant(&self, client: &Client<'_>) -> impl Iterator<Item = &Patterns<Rules>> {
        let principal = client.principal().as_str();
        let own = self.principals.get(principal);
        let others = self.everyone.as_ref();
        let others = others.filter(|_| principal != Principal::EVERYONE);
        own.into_iter().chain(others).map(Arc::as_ref)
    }

    /// Returns the ACLs that are for the client, on patterns that fit the name.
    fn concerning<'a>(
        &'a self,
        client: &Client<'_>,
        name: &str,
    ) -> impl Iterator<Item = (Reach, &'a AclBinding)> {
        let fitting = self
            .meant(client)
            .flat_map(move |patterns| patterns.fitting(name));
        let address = client.address();
        fitting.flat_map(move |(reach, rules)| rules.at(address).map(move |acl| (reach, acl)))
    }
}

#[cfg(test)]
mod tests;
