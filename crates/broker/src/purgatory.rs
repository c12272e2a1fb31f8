//! Requests that wait for a partition to make progress.
//!
//! A fetch with too little data registers one [`Waiter`] at every partition it reads on this shard and sleeps; the
//! first partition whose readable end moves (or that fails, or goes away) wakes it, and it decides again.
//! Invariant: a waiter that was dropped costs its partition nothing after the next wake. Nothing here polls.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use platform::sync::Notify;

/// One sleeping request.
#[derive(Default)]
pub(crate) struct Waiter(Notify);

impl Waiter {
    pub(crate) fn sleeping() -> Rc<Self> {
        Rc::new(Self::default())
    }

    /// Completes when a partition it was registered at has made progress, also if that was before the call.
    pub(crate) async fn woken(&self) {
        self.0.notified().await;
    }
}

/// The requests that wait at one partition.
#[derive(Default)]
pub(crate) struct Waiters(RefCell<Vec<Weak<Waiter>>>);

impl Waiters {
    pub(crate) fn register(&self, waiter: &Rc<Waiter>) {
        let mut waiters = self.0.borrow_mut();
        // Requests that timed out leave dead entries behind; they go when the list would have to grow.
        if waiters.len() == waiters.capacity() {
            waiters.retain(|waiter| waiter.strong_count() > 0);
        }
        waiters.push(Rc::downgrade(waiter));
    }

    pub(crate) fn wake(&self) {
        for waiter in self
            .0
            .borrow_mut()
            .drain(..)
            .filter_map(|waiter| waiter.upgrade())
        {
            waiter.0.notify_one();
        }
    }
}
