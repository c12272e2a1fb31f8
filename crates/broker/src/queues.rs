//! Queues that let few of their jobs run at a time: above all the work that a shard runs on another
//! thread.
//!
//! Invariants: at most as many jobs of a kind run at a time as there are turns. One job of each key
//! (a network) has a turn or waits for one, and the others of the key wait behind it, so that many
//! or long jobs of one client do not keep another from its turn.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use platform::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// Waits for a turn.
///
/// The semaphore is never closed: without a turn, work would begin beside the work that it must
/// wait for.
pub(crate) async fn turn_at(turns: &Semaphore) -> SemaphorePermit<'_> {
    let Ok(turn) = turns.acquire().await else {
        unreachable!("turns are never closed");
    };
    turn
}

/// Does the same for a turn that outlives its borrower.
pub(crate) async fn owned_turn(turns: &Arc<Semaphore>) -> OwnedSemaphorePermit {
    let Ok(turn) = Arc::clone(turns).acquire_owned().await else {
        unreachable!("turns are never closed");
    };
    turn
}

/// The queues, one for each key.
pub(crate) struct Queues<K> {
    shard: Arc<Semaphore>,
    // Bounded: networks with a connection that waits, `max.connections`, or with a group,
    // `groups::GROUPS_MAX`.
    by_key: RefCell<BTreeMap<K, Weak<Semaphore>>>,
}

/// A turn, which ends when it is dropped.
pub(crate) type Turn = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl<K: Ord + Clone> Queues<K> {
    /// Creates empty queues for `turns` turns.
    pub(crate) fn new(turns: usize) -> Self {
        assert!(turns > 0, "somebody has a turn");
        Self {
            shard: Arc::new(Semaphore::new(turns)),
            by_key: RefCell::default(),
        }
    }

    /// Waits for a turn of `key`.
    pub(crate) async fn turn_of(&self, key: &K) -> Turn {
        let line = self.of(key);
        self.turn(&line).await
    }

    /// Returns the queue of a key.
    pub(crate) fn of(&self, key: &K) -> Arc<Semaphore> {
        let mut by_key = self.by_key.borrow_mut();
        if let Some(line) = by_key.get(key).and_then(Weak::upgrade) {
            return line;
        }
        by_key.retain(|_, line| line.strong_count() > 0);
        let line = Arc::new(Semaphore::new(1));
        by_key.insert(key.clone(), Arc::downgrade(&line));
        line
    }

    /// Waits for a turn of the key with this queue.
    ///
    /// The semaphores are never closed.
    pub(crate) async fn turn(&self, line: &Arc<Semaphore>) -> Turn {
        let first = owned_turn(line).await;
        (first, owned_turn(&self.shard).await)
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn many_jobs_of_one_address_keep_another_only_from_every_second_turn() {
        let lines = Queues::<&str>::new(1);
        let (mine, theirs) = ("a", "b");
        let mut cx = Context::from_waker(Waker::noop());
        let (mine, theirs) = (lines.of(&mine), lines.of(&theirs));
        let mut all: Vec<_> = (0..100).map(|_| Box::pin(lines.turn(&mine))).collect();
        let ready: Vec<_> = all
            .iter_mut()
            .map(|turn| turn.as_mut().poll(&mut cx))
            .collect();
        let mut other = Box::pin(lines.turn(&theirs));
        assert!(other.as_mut().poll(&mut cx).is_pending());
        assert_eq!(ready.iter().filter(|turn| turn.is_ready()).count(), 1);
        drop(ready);
        assert!(other.as_mut().poll(&mut cx).is_ready());
        assert_eq!(lines.by_key.borrow().len(), 2);
        drop((all, other));
        drop((mine, theirs));
        lines.of(&"c");
        assert_eq!(lines.by_key.borrow().len(), 1, "only who has a job");
    }

    #[test]
    fn one_has_no_second_turn_while_another_might_want_it() {
        let lines = Queues::<&str>::new(2);
        let mut cx = Context::from_waker(Waker::noop());
        let mut turn = |key| {
            let mut turn = Box::pin(lines.turn_of(key));
            let ready = turn.as_mut().poll(&mut cx);
            (turn, ready)
        };
        let (_first, has) = turn(&"a");
        assert!(has.is_ready());
        let (_second, waits) = turn(&"a");
        assert!(waits.is_pending());
        let (_other, has_too) = turn(&"b");
        assert!(has_too.is_ready(), "the second is for others");
        assert!(turn(&"c").1.is_pending(), "there are two");
    }
}
