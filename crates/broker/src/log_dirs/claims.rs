//! Names of logs that are in use: a log is being opened or deleted under them.
//!
//! Invariant: a log is opened only under a name that no other operation uses, on any shard. On a
//! disk that hangs, a deletion may continue long after the metadata have forgotten the topic; a log
//! of the same name must not be created, in any directory, while the deletion still has to rename
//! its folders.

#![allow(
    clippy::disallowed_types,
    reason = "logs of one name can be on different shards; the lock is held for a look, when one is opened or deleted"
)]

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wire::types::TopicPartition;

/// The names in use; clones share them.
#[derive(Clone, Default, Debug)]
// Unbounded: logs that are being opened or deleted; each has a folder.
pub(crate) struct Claims(Arc<Mutex<BTreeMap<TopicPartition, usize>>>);

/// Keeps a name in use until it is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    of: Claims,
    name: TopicPartition,
}

impl Claims {
    /// Claims a name; `None` while another operation uses it.
    pub(crate) fn claim(&self, name: &TopicPartition) -> Option<Claim> {
        let mut names = self.names();
        (!names.contains_key(name)).then(|| self.used(&mut names, name))
    }

    /// Uses a name even if other operations do: for a deletion, which takes the name away from a
    /// folder.
    pub(crate) fn hold(&self, name: &TopicPartition) -> Claim {
        self.used(&mut self.names(), name)
    }

    fn used(&self, names: &mut BTreeMap<TopicPartition, usize>, name: &TopicPartition) -> Claim {
        let users = names.entry(name.clone()).or_default();
        *users = users.saturating_add(1);
        Claim {
            of: self.clone(),
            name: name.clone(),
        }
    }

    fn names(&self) -> MutexGuard<'_, BTreeMap<TopicPartition, usize>> {
        // A panic elsewhere leaves the counts consistent: each is changed in one step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut names = self.of.names();
        let Entry::Occupied(mut users) = names.entry(self.name.clone()) else {
            unreachable!("a name is in use while it is claimed");
        };
        assert!(*users.get() > 0, "a claim ends once");
        *users.get_mut() = users.get().saturating_sub(1);
        if *users.get() == 0 {
            users.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_ones_at_a_time() {
        let claims = Claims::default();
        let name = |partition| TopicPartition {
            topic: "t".into(),
            partition,
        };
        let first = claims.claim(&name(0));
        assert!(first.is_some());
        assert!(claims.clone().claim(&name(0)).is_none());
        assert!(claims.claim(&name(1)).is_some());
        let deletion = claims.hold(&name(0));
        drop(first);
        assert!(claims.claim(&name(0)).is_none());
        drop(deletion);
        assert!(claims.claim(&name(0)).is_some());
    }
}
