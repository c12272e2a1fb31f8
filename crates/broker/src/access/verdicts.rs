//! What the ACLs of one moment have permitted to the client of one connection.
//!
//! A client asks for the same few rights with each request. What was permitted is kept until an ACL
//! changes, up to a bound; what was denied is not, because the operator is to know the rule.
//! Invariants: a verdict counts only for the very ACLs that gave it; what is kept is bounded in
//! names and in bytes. A connection has its own, because principal and address decide with.

#![allow(
    clippy::disallowed_types,
    reason = "a request may ask on another shard; the lock is held for a look into a small map"
)]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use wire::acl::{Action, Operation, ResourceType};

use crate::image::Acls;

/// Names that are kept.
const NAMES_MAX: usize = 256;

/// Bytes of names that are kept.
const BYTES_MAX: usize = 8 << 10;

/// Questions without an answer after which a full cache begins again: the client asks for other
/// names than it did.
const MISSES_MAX: usize = 16 * NAMES_MAX;

/// What was permitted.
#[derive(Default, Debug)]
pub(crate) struct Verdicts(Mutex<KnownVerdicts>);

#[derive(Default, Debug)]
struct KnownVerdicts {
    /// The ACLs that gave the verdicts: nothing else can be at their address while this is kept.
    acls: Weak<Acls>,
    /// A bit for each type and operation, by name.
    // Bounded: `NAMES_MAX` and `BYTES_MAX`.
    permitted: HashMap<Box<str>, u128>,
    bytes: usize,
    misses: usize,
}

impl Verdicts {
    /// Returns whether `acls` permit the action, by `decide` unless they have before.
    #[inline]
    pub(crate) fn permits(
        &self,
        acls: &Arc<Acls>,
        action: &Action<'_>,
        decide: impl FnOnce() -> bool,
    ) -> bool {
        let bit = bit(action.operation, action.resource_type);
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known().knows(acls, (action.name, bit)) {
            return true;
        }
        let is_permitted = decide();
        if is_permitted {
            known().keep(acls, (action.name, bit));
        }
        is_permitted
    }
}

impl KnownVerdicts {
    fn knows(&self, acls: &Arc<Acls>, (name, bit): (&str, u128)) -> bool {
        let is_theirs = std::ptr::eq(self.acls.as_ptr(), Arc::as_ptr(acls));
        let permitted = || self.permitted.get(name).copied().unwrap_or(0);
        is_theirs && permitted() & bit != 0
    }

    fn keep(&mut self, acls: &Arc<Acls>, (name, bit): (&str, u128)) {
        let is_theirs = std::ptr::eq(self.acls.as_ptr(), Arc::as_ptr(acls));
        if !is_theirs || self.misses > MISSES_MAX {
            *self = Self {
                acls: Arc::downgrade(acls),
                ..Self::default()
            };
        }
        if let Some(permitted) = self.permitted.get_mut(name) {
            *permitted |= bit;
            return;
        }
        let bytes = self.bytes.saturating_add(name.len());
        if self.permitted.len() >= NAMES_MAX || bytes > BYTES_MAX {
            self.misses = self.misses.saturating_add(1);
            return;
        }
        self.bytes = bytes;
        self.permitted.insert(name.into(), bit);
    }
}

/// Returns the bit of a type and an operation.
fn bit(operation: Operation, resource_type: ResourceType) -> u128 {
    let (row, column) = (resource_type.code(), operation.code());
    assert!(
        (0..8).contains(&row) && (0..16).contains(&column),
        "the bits of each type are those of all operations"
    );
    1 << (row * 16 + column)
}

#[cfg(test)]
mod tests;
