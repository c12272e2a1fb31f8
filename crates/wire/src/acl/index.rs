//! The decisions of `acl/decide.rs`, at a cost that does not depend on unrelated ACLs.
//!
//! An index has, for each type of resource, the ACLs of each principal by their patterns. A
//! decision looks at the patterns of the client's principal and of `User:*` that fit the name;
//! only when none of them decides, it looks at whether anybody's pattern fits.
//! Invariants: an index never changes. [`AclIndex::with`] makes another one, which shares the ACLs
//! of all principals without a change. Its cost is that of the names and the principals of the
//! types that change, so changes are better made together. The same ACL can be in it more than
//! once, as under several ids, and is in force until the last one goes.
//! Not here: ids, and lists of ACLs for clients.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::binding::{AclBinding, Reach, ResourcePattern};
use super::codes::{Operation, PatternType, PermissionType, ResourceType};
use super::decide::{Action, Client, Closest, Decision, Policy};
use super::patterns::{Change, Kept, Patterns};
use super::principal::Principal;

/// ACLs, prepared for decisions.
#[derive(Clone, Default, Debug)]
pub struct AclIndex {
    // Unbounded: one entry for each type of resource.
    types: BTreeMap<ResourceType, Arc<OfType>>,
}

/// The ACLs of one type of resource.
#[derive(Clone, Default, Debug)]
struct OfType {
    // Unbounded: as many as the principals that administrators gave ACLs, all kept in the log.
    principals: HashMap<Principal, Arc<Patterns<Rules>>>,
    /// How many ACLs there are for each pattern, whoever they are for.
    counts: Patterns<Count>,
    count: usize,
}

/// The ACLs of one principal with one pattern, in order.
#[derive(Clone, Default, Debug)]
struct Rules(Vec<Arc<AclBinding>>);

/// The number of ACLs with one pattern.
#[derive(Clone, Default, Debug)]
struct Count(usize);

impl Kept for Rules {
    fn add(&mut self, acl: &Arc<AclBinding>) {
        let at = self.0.partition_point(|other| other < acl);
        self.0.insert(at, Arc::clone(acl));
    }

    fn remove(&mut self, acl: &AclBinding) -> bool {
        let found = self.0.binary_search_by(|other| (**other).cmp(acl));
        found.map(|at| self.0.remove(at)).is_ok()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Kept for Count {
    fn add(&mut self, _: &Arc<AclBinding>) {
        self.0 = self.0.saturating_add(1);
    }

    fn remove(&mut self, _: &AclBinding) -> bool {
        let left = self.0.checked_sub(1);
        self.0 = left.unwrap_or(0); // What is not there is told below.
        left.is_some()
    }

    fn is_empty(&self) -> bool {
        self.0 == 0
    }
}

impl AclIndex {
    /// Returns an index of these ACLs.
    pub fn new(acls: &[Arc<AclBinding>]) -> Self {
        Self::default().with(acls, &[])
    }

    /// Returns an index with the ACLs of `added`, and then without those of `removed`; what is
    /// removed and not there is left out of account.
    #[must_use]
    pub fn with(&self, added: &[Arc<AclBinding>], removed: &[Arc<AclBinding>]) -> Self {
        let mut changes: BTreeMap<ResourceType, BTreeMap<&Principal, Vec<Change<'_>>>> =
            BTreeMap::new();
        for change in each(added, true).chain(each(removed, false)) {
            let of_type = changes.entry(change.acl.pattern.resource_type).or_default();
            let of_principal = of_type.entry(&change.acl.principal).or_default();
            of_principal.push(change);
        }
        let mut next = self.clone();
        for (resource_type, changes) in changes {
            let of_type = next.types.entry(resource_type).or_default();
            Arc::make_mut(of_type).change(changes);
        }
        next
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
        let mut closest = Closest::default();
        for patterns in of_type.meant(client) {
            for (reach, Rules(acls)) in patterns.fitting(action.name) {
                let fits =
                    |acl: &&Arc<AclBinding>| client.is_at(acl) && acl.covers(action.operation);
                for acl in acls.iter().filter(fits) {
                    closest.offer(reach, acl);
                }
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

    /// Decides whether `client` may do `operation` on at least one resource of a type.
    pub fn decide_any(
        &self,
        policy: &Policy,
        client: &Client<'_>,
        operation: Operation,
        resource_type: ResourceType,
    ) -> Decision<'_> {
        let action = Action::on_some_name(operation, resource_type);
        let on_some_name = self.decide(policy, client, &action);
        if on_some_name.is_allowed() {
            return on_some_name;
        }
        let Some(of_type) = self.types.get(&resource_type) else {
            return Decision::NoMatch;
        };
        let applies = |acl: &&Arc<AclBinding>| client.is_at(acl) && acl.names(operation);
        let mut on_all = Closest::default();
        for patterns in of_type.meant(client) {
            for acl in patterns.all().0.iter().filter(applies) {
                on_all.offer(Reach::All, acl);
            }
        }
        on_all.decision().unwrap_or_else(|| {
            let is_denied = |pattern: &ResourcePattern| {
                let mut rules = of_type
                    .meant(client)
                    .flat_map(|own| outweighing(own, pattern));
                rules.any(|acl| acl.permission == PermissionType::Deny && applies(&acl))
            };
            let closest = of_type
                .meant(client)
                .filter_map(|patterns| first_allowed(patterns, applies, is_denied))
                .min();
            closest.map_or(Decision::NoMatch, Decision::Allowed)
        })
    }
}

impl OfType {
    fn change(&mut self, changes: BTreeMap<&Principal, Vec<Change<'_>>>) {
        let mut made = Vec::new();
        for (principal, changes) in changes {
            let patterns = self.principals.entry(principal.clone()).or_default();
            made.extend(Arc::make_mut(patterns).change(&changes));
            if patterns.is_empty() {
                self.principals.remove(principal);
            }
        }
        let counted = self.counts.change(&made);
        assert_eq!(counted.len(), made.len(), "what a principal has is counted");
        let added = made.iter().filter(|made| made.is_added).count();
        let count = self.count.saturating_add(added);
        let removed = made.len().saturating_sub(added);
        assert!(removed <= count, "only what is there is removed");
        self.count = count.saturating_sub(removed);
    }

    /// Returns the patterns of the ACLs that are for the client, if it has the right address.
    fn meant(&self, client: &Client<'_>) -> impl Iterator<Item = &Patterns<Rules>> {
        let principal = client.principal().as_str();
        let own = self.principals.get(principal);
        let others = self.principals.get(Principal::EVERYONE);
        let others = others.filter(|_| principal != Principal::EVERYONE);
        own.into_iter().chain(others).map(Arc::as_ref)
    }
}

fn each(acls: &[Arc<AclBinding>], is_added: bool) -> impl Iterator<Item = Change<'_>> {
    acls.iter().map(move |acl| Change { acl, is_added })
}

/// Returns the first ACL that permits something which no other forbids.
fn first_allowed(
    patterns: &Patterns<Rules>,
    applies: impl Fn(&&Arc<AclBinding>) -> bool,
    is_denied: impl Fn(&ResourcePattern) -> bool,
) -> Option<&AclBinding> {
    patterns.others().find_map(|Rules(acls)| {
        let mut allows = acls
            .iter()
            .filter(|acl| acl.permission == PermissionType::Allow);
        let allow = allows.find(|acl| applies(acl))?;
        (!is_denied(&allow.pattern)).then_some(&**allow)
    })
}

/// Returns the ACLs whose patterns fit all names that `pattern` fits.
fn outweighing<'a>(
    patterns: &'a Patterns<Rules>,
    pattern: &ResourcePattern,
) -> impl Iterator<Item = &'a Arc<AclBinding>> + use<'a> {
    let is_prefix = pattern.pattern_type == PatternType::Prefixed;
    let fitting = patterns.fitting(&pattern.name);
    // A name is not all of the names that begin with it.
    let outweighing = fitting.filter(move |(reach, _)| !(is_prefix && *reach == Reach::Name));
    outweighing.flat_map(|(_, Rules(acls))| acls)
}

#[cfg(test)]
mod tests;
