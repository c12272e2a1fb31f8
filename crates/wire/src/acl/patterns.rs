//! Something for each pattern of one type of resource, found by the name of a resource.
//!
//! The names are sorted, and each knows the longest other name that is a prefix of it and has
//! something for prefixes. All patterns that fit a name are then behind one binary search: at the
//! last name that is not greater, or at one of its prefixes.
//! Invariant: nothing empty is kept, but for the pattern of every name.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::{iter, mem};

use super::binding::{AclBinding, Reach};
use super::codes::PatternType;

/// What is kept for a pattern, made of the ACLs that have it.
pub(super) trait Kept: Clone + Default {
    /// Takes an ACL in.
    fn add(&mut self, acl: &Arc<AclBinding>);
    /// Takes an ACL out; returns false when it is not there.
    fn remove(&mut self, acl: &AclBinding) -> bool;
    /// Returns true when no ACL is left.
    fn is_empty(&self) -> bool;
}

/// One change of the ACLs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change<'a> {
    /// The ACL.
    pub(super) acl: &'a Arc<AclBinding>,
    /// Whether it comes or goes.
    pub(super) is_added: bool,
}

impl Change<'_> {
    fn apply(&self, kept: &mut impl Kept) -> bool {
        if self.is_added {
            kept.add(self.acl);
            return true;
        }
        kept.remove(self.acl)
    }
}

/// Something for each pattern of one type of resource.
#[derive(Clone, Default, Debug)]
pub(super) struct Patterns<T> {
    /// For every name.
    all: T,
    /// In ascending order.
    names: Vec<Known<T>>,
}

/// A name that patterns have.
#[derive(Clone, Debug)]
struct Known<T> {
    text: Arc<str>,
    literal: T,
    prefixed: T,
    /// Where the longest shorter prefix is that has something for prefixes.
    above: Option<usize>,
}

impl<T: Kept> Patterns<T> {
    /// Makes the changes, and returns those that changed something.
    pub(super) fn change<'a>(&mut self, changes: &[Change<'a>]) -> Vec<Change<'a>> {
        let names = mem::take(&mut self.names).into_iter();
        let mut names: BTreeMap<Arc<str>, (T, T)> = names
            .map(|known| (known.text, (known.literal, known.prefixed)))
            .collect();
        let mut made = Vec::with_capacity(changes.len());
        for change in changes {
            let pattern = &change.acl.pattern;
            let is_made = if pattern.is_all() {
                change.apply(&mut self.all)
            } else {
                let (literal, prefixed) = names.entry(Arc::clone(&pattern.name)).or_default();
                match pattern.pattern_type {
                    PatternType::Literal => change.apply(literal),
                    PatternType::Prefixed => change.apply(prefixed),
                }
            };
            made.extend(is_made.then_some(*change));
        }
        names.retain(|_, (literal, prefixed)| !literal.is_empty() || !prefixed.is_empty());
        self.names = linked(names);
        made
    }

    /// Returns true when nothing is kept.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty() && self.names.is_empty()
    }

    /// Returns what is kept for the patterns that fit `name`, and how they fit it.
    pub(super) fn fitting<'a>(
        &'a self,
        name: &str,
    ) -> impl Iterator<Item = (Reach, &'a T)> + use<'a, T> {
        let after = self.names.partition_point(|known| *known.text <= *name);
        let nearest = after.checked_sub(1).and_then(|at| self.names.get(at));
        // A prefix of the nearest name is a prefix of this one up to where they differ.
        let shared = nearest.map_or(0, |known| shared_bytes(&known.text, name));
        let own = nearest.filter(|known| shared == name.len() && known.text.len() == shared);
        let chain = iter::successors(nearest, move |known| self.names.get(known.above?));
        let prefixes = chain.filter(move |known| known.text.len() <= shared);
        let all = iter::once((Reach::All, &self.all));
        let literal = own.map(|known| (Reach::Name, &known.literal));
        let found = literal.into_iter().chain(prefixes.map(|known| {
            let reach = Reach::Prefix(Reverse(known.text.len()));
            (reach, &known.prefixed)
        }));
        found.chain(all).filter(|(_, kept)| !kept.is_empty())
    }

    /// Returns what is kept for every name.
    pub(super) fn all(&self) -> &T {
        &self.all
    }

    /// Returns what is kept for each other pattern, in their order.
    pub(super) fn others(&self) -> impl Iterator<Item = &T> {
        let names = self.names.iter();
        names.flat_map(|known| [&known.literal, &known.prefixed])
    }
}

/// Returns the names with the places of their prefixes.
fn linked<T: Kept>(names: BTreeMap<Arc<str>, (T, T)>) -> Vec<Known<T>> {
    let mut linked: Vec<Known<T>> = Vec::with_capacity(names.len());
    // The names so far that later ones may begin with; each is a prefix of the next.
    let mut open: Vec<usize> = Vec::new();
    for (text, (literal, prefixed)) in names {
        let is_prefix = |at: &usize| {
            let known = linked.get(*at);
            known.is_some_and(|known| text.starts_with(&*known.text))
        };
        while open.pop_if(|at| !is_prefix(at)).is_some() {}
        assert!(
            open.len() <= text.len(),
            "each prefix is shorter than the next, so a chain has no more of them than bytes"
        );
        let above = open.last().copied();
        let at = linked.len();
        assert!(
            above.is_none_or(|above| above < at),
            "a prefix precedes what begins with it, so every chain of prefixes ends"
        );
        if !prefixed.is_empty() {
            open.push(at);
        }
        linked.push(Known {
            text,
            literal,
            prefixed,
            above,
        });
    }
    linked
}

/// Returns how many bytes two texts have in common at their beginning.
fn shared_bytes(one: &str, other: &str) -> usize {
    let pairs = one.bytes().zip(other.bytes());
    pairs.take_while(|(one, other)| one == other).count()
}
