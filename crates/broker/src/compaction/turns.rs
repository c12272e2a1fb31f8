//! How many logs are compacted at once, over all shards.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the logs that are being compacted; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    taken: Arc<AtomicUsize>,
}

/// The right to compact one log, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    taken: Arc<AtomicUsize>,
}

impl Turns {
    /// A turn, if fewer than `at_once_max` are taken.
    pub(super) fn begin(&self, at_once_max: usize) -> Option<Turn> {
        let more = |taken: usize| (taken < at_once_max).then_some(taken + 1);
        let begun = self
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        begun.ok().map(|_| Turn {
            taken: Arc::clone(&self.taken),
        })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_allowed_at_once_though_that_changes() {
        let turns = Turns::default();
        let first = turns.begin(2);
        let second = turns.clone().begin(2);
        assert!(first.is_some() && second.is_some());
        assert!(turns.begin(2).is_none());
        assert!(turns.begin(3).is_some());
        drop(first);
        assert!(turns.begin(1).is_none());
        drop(second);
        assert!(turns.begin(1).is_some());
        assert!(turns.begin(0).is_none());
    }
}
