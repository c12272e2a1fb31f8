//! Names of logs that a disk has something to do with just now: a log is opened or deleted under it.
//!
//! Invariant: a log is opened under a name that nobody else uses, on whichever shard. A disk that hangs may have a deletion go
//! on long after the metadata have forgotten the topic; a log of the same name must not begin, in whichever directory, while
//! that one's folders still have to be renamed.

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
// Unbounded: logs that are opened or deleted just now, each of which has a folder.
pub(crate) struct Claims(Arc<Mutex<BTreeMap<TopicPartition, usize>>>);

/// A name is in use until this is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    of: Claims,
    name: TopicPartition,
}

impl Claims {
    /// Claims a name; none while another has it.
    pub(crate) fn claim(&self, name: &TopicPartition) -> Option<Claim> {
        let mut names = self.names();
        (!names.contains_key(name)).then(|| self.used(&mut names, name))
    }

    /// Uses a name whoever else does: for what takes it away from a folder.
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
        // A panic elsewhere leaves the counts whole: each is changed in one piece.
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
