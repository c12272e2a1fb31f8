//! Identities for idempotent producers, handed out from blocks that the controller allots.
//!
//! Invariant: an id is given out once, ever: a block is durable in the metadata log before its first id is used, and
//! what is left of a block is forgotten at a restart.

mod ask;

use std::cell::Cell;

use platform::sync::Semaphore;
use wire::types::ProducerId;

pub(crate) use ask::next;

/// What is left of this shard's block.
pub(crate) struct ProducerIds {
    next: Cell<i64>,
    end: Cell<i64>,
    /// Held while the controller is asked for a block: whoever comes meanwhile takes from that one.
    asking: Semaphore,
}

impl Default for ProducerIds {
    fn default() -> Self {
        Self {
            next: Cell::new(0),
            end: Cell::new(0),
            asking: Semaphore::new(1),
        }
    }
}

impl ProducerIds {
    /// The next id, if the block has one.
    pub(crate) fn take(&self) -> Option<ProducerId> {
        let next = self.next.get();
        (next < self.end.get()).then(|| {
            self.next.set(next + 1);
            ProducerId(next)
        })
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
