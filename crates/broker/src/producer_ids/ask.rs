//! How a shard gets a new producer id: from its block, or from a new block of the controller.
//!
//! Invariant: a shard requests one block at a time. It does not allocate blocks (the controller
//! does).

use std::rc::Rc;

use platform::Platform;
use wire::types::{ErrorCode, ProducerId};

use crate::Broker;
use crate::names::CONTROLLER_SHARD;
use crate::queues::turn_at;

/// Returns a new id; requests a block from the controller if this shard's is used up.
pub(crate) async fn next<P: Platform>(broker: &Rc<Broker<P>>) -> Result<ProducerId, ErrorCode> {
    loop {
        if let Some(id) = broker.producer_ids.take() {
            return Ok(id);
        }
        let _asking = turn_at(&broker.producer_ids.asking).await;
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

/// Returns the error for the producer: one that makes it retry if the controller cannot write now.
fn told(code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::KafkaStorageError | ErrorCode::RequestTimedOut | ErrorCode::NotController => {
            ErrorCode::CoordinatorLoadInProgress
        }
        code => code,
    }
}
