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

use super::binding::{AclBinding, Reach, ResourcePattern};
use super::codes::PatternType;

/// How often an ACL is there, and how often it will be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recount<'a> {
    /// The ACL.
    pub(super) acl: &'a Arc<AclBinding>,
    /// How often it is there.
    pub(super) before: usize,
    /// How often it will be there.
    pub(super) after: usize,
}

/// What is kept for a pattern, made of the ACLs that have it.
pub(super) trait PatternContent: Clone + Default {
    /// Takes ACLs in and out.
    fn recount(&mut self, changes: &[Recount<'_>]);
    /// Returns true when no ACL is left.
    fn is_empty(&self) -> bool;
}

/// Something for each pattern of one type of resource.
#[derive(Clone, Default, Debug)]
pub(super) struct Patterns<T> {
    /// For every name.
    all: T,
    /// In ascending order.
    names: Vec<KnownName<T>>,
}

/// A name that patterns have.
#[derive(Clone, Debug)]
pub(super) struct KnownName<T> {
    /// The name.
    pub(super) text: Arc<str>,
    /// For this name.
    pub(super) literal: T,
    /// For the names that begin with it.
    pub(super) prefixed: T,
    /// Where the longest shorter prefix is that has something for prefixes.
    above: Option<usize>,
}

impl<T: PatternContent> Patterns<T> {
    /// Makes the changes, which are in the order of their ACLs; costs all names, however few
    /// change.
    pub(super) fn recount(&mut self, changes: &[Recount<'_>]) {
        let names = mem::take(&mut self.names).into_iter();
        let mut names: BTreeMap<Arc<str>, (T, T)> = names
            .map(|known| (known.text, (known.literal, known.prefixed)))
            .collect();
        for changes in changes.chunk_by(|one, next| one.acl.pattern == next.acl.pattern) {
            let Some(pattern) = changes.first().map(|first| &first.acl.pattern) else {
                continue;
            };
            let kept = if pattern.is_all() {
                &mut self.all
            } else {
                let (literal, prefixed) = names.entry(Arc::clone(&pattern.name)).or_default();
                match pattern.pattern_type {
                    PatternType::Literal => literal,
                    PatternType::Prefixed => prefixed,
                }
            };
            kept.recount(changes);
        }
        names.retain(|_, (literal, prefixed)| !literal.is_empty() || !prefixed.is_empty());
        self.names = linked(names);
    }

    /// Returns what is kept for one pattern, if its name is known.
    pub(super) fn of(&self, pattern: &ResourcePattern) -> Option<&T> {
        if pattern.is_all() {
            return Some(&self.all);
        }
        let found = self
            .names
            .binary_search_by(|known| known.text.cmp(&pattern.name));
        let known = self.names.get(found.ok()?)?;
        Some(match pattern.pattern_type {
            PatternType::Literal => &known.literal,
            PatternType::Prefixed => &known.prefixed,
        })
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

    /// Returns the names of the other patterns, in ascending order.
    pub(super) fn names(&self) -> &[KnownName<T>] {
        &self.names
    }
}

/// Returns the names with the places of their prefixes.
fn linked<T: PatternContent>(names: BTreeMap<Arc<str>, (T, T)>) -> Vec<KnownName<T>> {
    let mut linked: Vec<KnownName<T>> = Vec::with_capacity(names.len());
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
        linked.push(KnownName {
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
