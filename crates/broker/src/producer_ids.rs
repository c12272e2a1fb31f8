//! Identities for idempotent producers, handed out from blocks that the controller allots.
//!
//! Invariant: an id is given out once, ever: a block is durable in the metadata log before its first id is used, and
//! what is left of a block is forgotten at a restart.

use std::cell::Cell;
use std::rc::Rc;

use platform::Platform;
use platform::sync::Semaphore;
use wire::types::{ErrorCode, ProducerId};

use crate::Broker;
use crate::broker::CONTROLLER_SHARD;

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
        self.next.set(first);
        self.end.set(first.saturating_add(count));
    }
}

/// A new id; asks the controller for a block when this shard's is used up.
pub(crate) async fn next<P: Platform>(broker: &Rc<Broker<P>>) -> Result<ProducerId, ErrorCode> {
    loop {
        if let Some(id) = broker.producer_ids.take() {
            return Ok(id);
        }
        let asking = broker.producer_ids.asking.acquire().await;
        if asking.is_err() {
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        if let Some(id) = broker.producer_ids.take() {
            return Ok(id);
        }
        let block = broker.shards.call(CONTROLLER_SHARD, |broker| async move {
            broker.controller()?.allocate_producer_ids().await
        });
        let block = block.await.ok_or(ErrorCode::CoordinatorNotAvailable)?;
        let (first, count) = block.map_err(told)?;
        broker.producer_ids.refill(first, count);
    }
}

/// What a producer is told, so that it asks again, where the controller cannot write just now.
fn told(code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::KafkaStorageError | ErrorCode::RequestTimedOut | ErrorCode::NotController => {
            ErrorCode::CoordinatorLoadInProgress
        }
        code => code,
    }
}
