//! Identities for idempotent producers, handed out from blocks that the controller allots.
//!
//! Invariant: an id is given out once, ever: a block is durable in the metadata log before its first id is used, and
//! what is left of a block is forgotten at a restart.

use std::cell::Cell;

use wire::types::ProducerId;

/// What is left of this shard's block.
#[derive(Default)]
pub(crate) struct ProducerIds {
    next: Cell<i64>,
    end: Cell<i64>,
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
        self.next.set(first);
        self.end.set(first.saturating_add(count));
    }
}
