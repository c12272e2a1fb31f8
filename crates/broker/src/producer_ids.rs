//! Producer ids for idempotent producers, given out from blocks that the controller allocates.
//!
//! Invariant: an id is given out only once: a block is durable in the metadata log before its first
//! id is used, and the rest of a block is discarded at a restart.

mod ask;

use std::cell::Cell;
use std::sync::Arc;

use platform::sync::{OwnedSemaphorePermit, Semaphore};
use wire::types::ProducerId;

use crate::queues::owned_turn;

pub(crate) use ask::next;

/// The rest of this shard's block.
pub(crate) struct ProducerIds {
    next: Cell<i64>,
    end: Cell<i64>,
    /// Held while the shard requests a block from the controller; concurrent requests take ids from
    /// that block.
    asking: Arc<Semaphore>,
}

impl Default for ProducerIds {
    fn default() -> Self {
        Self {
            next: Cell::new(0),
            end: Cell::new(0),
            asking: Arc::new(Semaphore::new(1)),
        }
    }
}

impl ProducerIds {
    /// Returns the next id, if the block has one.
    pub(crate) fn take(&self) -> Option<ProducerId> {
        let next = self.next.get();
        (next < self.end.get()).then(|| {
            self.next.set(next + 1);
            ProducerId(next)
        })
    }

    /// Waits for the turn to request a block.
    pub(crate) async fn turn(&self) -> OwnedSemaphorePermit {
        owned_turn(&self.asking).await
    }

    /// Begins a new block.
    pub(crate) fn refill(&self, first: i64, count: i64) {
        assert!(
            self.next.get() >= self.end.get(),
            "a block is used up before the next"
        );
        self.next.set(first);
        self.end.set(first.saturating_add(count));
    }
}
