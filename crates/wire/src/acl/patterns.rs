//! Something for each pattern of one type of resource, found by the name of a resource.
//!
//! Literal names and prefixes are sorted lists, each behind a binary search. All prefixes of a name
//! are found from the longest to the shortest: the last prefix that is not greater than the name is
//! one of them, or has in common with it what all of them have, and so the search goes on with that
//! much of the name.
//! Invariants: nothing empty is kept, but for the pattern of every name; copies share what no
//! change has touched.

use std::cmp::Reverse;
use std::iter;
use std::sync::Arc;

use super::binding::{AclBinding, Reach, ResourcePattern};
use super::codes::PatternType;
use super::shared::SharedMap;

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

/// Something for each of some names.
pub(super) type OfNames<T> = SharedMap<Arc<str>, T>;

/// Something for each pattern of one type of resource.
#[derive(Clone, Default, Debug)]
pub(super) struct Patterns<T> {
    /// For every name.
    all: T,
    /// For single names.
    literal: OfNames<T>,
    /// For the names that begin with one.
    prefixed: OfNames<T>,
}

impl<T: PatternContent> Patterns<T> {
    /// Makes the changes, which are in the order of their ACLs.
    pub(super) fn recount(&mut self, changes: &[Recount<'_>]) {
        for changes in changes.chunk_by(|one, next| one.acl.pattern == next.acl.pattern) {
            let Some(pattern) = changes.first().map(|first| &first.acl.pattern) else {
                continue;
            };
            let names = match pattern.pattern_type {
                _ if pattern.is_all() => {
                    self.all.recount(changes);
                    continue;
                }
                PatternType::Literal => &mut self.literal,
                PatternType::Prefixed => &mut self.prefixed,
            };
            names.change(&pattern.name, |kept| {
                kept.recount(changes);
                !kept.is_empty()
            });
        }
    }

    /// Returns what is kept for one pattern, if its name is known.
    pub(super) fn of(&self, pattern: &ResourcePattern) -> Option<&T> {
        match pattern.pattern_type {
            _ if pattern.is_all() => Some(&self.all),
            PatternType::Literal => self.literal.get(&*pattern.name),
            PatternType::Prefixed => self.prefixed.get(&*pattern.name),
        }
    }

    /// Returns true when nothing is kept.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty() && self.literal.is_empty() && self.prefixed.is_empty()
    }

    /// Returns what is kept for the patterns that fit `name`, and how they fit it.
    pub(super) fn fitting<'a, 'n>(
        &'a self,
        name: &'n str,
    ) -> impl Iterator<Item = (Reach, &'a T)> + use<'a, 'n, T> {
        let literal = self.literal.get(name).map(|kept| (Reach::Name, kept));
        let all = iter::once((Reach::All, &self.all));
        let found = literal.into_iter().chain(self.prefixes(name.as_bytes()));
        found.chain(all).filter(|(_, kept)| !kept.is_empty())
    }

    /// Returns what is kept for the prefixes of a name, the longest first.
    fn prefixes<'a, 'n>(
        &'a self,
        name: &'n [u8],
    ) -> impl Iterator<Item = (Reach, &'a T)> + use<'a, 'n, T> {
        let mut rest = Some(name);
        iter::from_fn(move || {
            while let Some(text) = rest {
                let is_before = |known: &Arc<str>| known.as_bytes() <= text;
                let (known, kept) = self.prefixed.last_where(is_before)?;
                let shared = shared_bytes(known.as_bytes(), text);
                let is_prefix = shared == known.len();
                let left = if is_prefix {
                    shared.checked_sub(1)
                } else {
                    assert!(shared < text.len(), "each step leaves less of the name");
                    Some(shared)
                };
                rest = left.and_then(|left| text.get(..left));
                if is_prefix {
                    return Some((Reach::Prefix(Reverse(shared)), kept));
                }
            }
            None
        })
    }

    /// Returns what is kept for every name.
    pub(super) fn all(&self) -> &T {
        &self.all
    }

    /// Returns what is kept for single names, and for the names that begin with one.
    pub(super) fn names(&self) -> (&OfNames<T>, &OfNames<T>) {
        (&self.literal, &self.prefixed)
    }
}

/// Returns how many bytes two texts have in common at their beginning.
fn shared_bytes(one: &[u8], other: &[u8]) -> usize {
    let pairs = one.iter().zip(other);
    pairs.take_while(|(one, other)| one == other).count()
}
