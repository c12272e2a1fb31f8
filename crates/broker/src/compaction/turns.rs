//! Limits how many logs are compacted at the same time, over all shards.
//!
//! Each round has its share of the memory for compaction until it ends. Invariant: at most the
//! configured number of rounds run, plus at most the same number that wait for a disk that hangs.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the logs that are being compacted; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Turns(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    taken: AtomicUsize,
    /// Rounds that gave their turn up but have not ended.
    left: AtomicUsize,
}

/// The permission to compact one log, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    counts: Arc<Counts>,
    is_left: Cell<bool>,
}

impl Turns {
    /// Returns a turn, if fewer than `at_once_max` are taken.
    pub(super) fn begin(&self, at_once_max: usize) -> Option<Turn> {
        is_one_more(&self.0.taken, at_once_max).then(|| Turn {
            counts: Arc::clone(&self.0),
            is_left: Cell::new(false),
        })
    }
}

impl Turn {
    /// Gives the turn to other rounds, although this round, which waits for a disk that hangs, has
    /// not ended.
    ///
    /// The round keeps its turn if `left_max` rounds have given theirs up already.
    pub(super) fn leave(&self, left_max: usize) {
        if !self.is_left.get() && is_one_more(&self.counts.left, left_max) {
            self.is_left.set(true);
            one_less(&self.counts.taken);
        }
    }
}

/// Increments a count that is below `max`.
fn is_one_more(count: &AtomicUsize, max: usize) -> bool {
    let more = |count: usize| (count < max).then_some(count + 1);
    let counted = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    counted.is_ok()
}

/// Decrements a count. An underflow would leave no turns.
fn one_less(count: &AtomicUsize) {
    let before = count.fetch_sub(1, Ordering::Relaxed);
    assert!(before > 0, "a turn that was taken is given back once");
}

impl Drop for Turn {
    fn drop(&mut self) {
        let counts = &self.counts;
        let is_left = self.is_left.get();
        let count = if is_left { &counts.left } else { &counts.taken };
        one_less(count);
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

    #[test]
    fn rounds_that_wait_for_a_disk_leave_their_turns_to_as_many_others_and_to_no_more() {
        let turns = Turns::default();
        let waiting = turns.begin(1).unwrap();
        assert!(turns.begin(1).is_none());
        waiting.leave(1);
        waiting.leave(1);
        let second = turns.begin(1).unwrap();
        assert!(turns.begin(1).is_none());
        second.leave(1);
        assert!(turns.begin(1).is_none(), "as many are left as may be");
        drop(waiting);
        assert!(turns.begin(1).is_none(), "that was not one of the turns");
        second.leave(1);
        let third = turns.begin(1).unwrap();
        drop(second);
        assert!(turns.begin(1).is_none());
        drop(third);
        assert!(turns.begin(1).is_some());
    }
}
