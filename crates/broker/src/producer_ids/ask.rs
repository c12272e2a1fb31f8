//! How a shard comes by a new id: from its block, or from a new one of the controller.
//!
//! Invariant: one question is under way at a time. It does not: allot blocks (the controller does).

use std::rc::Rc;

use platform::Platform;
use wire::types::{ErrorCode, ProducerId};

use crate::Broker;
use crate::names::CONTROLLER_SHARD;
use crate::queues::turn_at;

/// A new id; asks the controller for a block when this shard's is used up.
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

/// What a producer is told, so that it asks again, where the controller cannot write just now.
fn told(code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::KafkaStorageError | ErrorCode::RequestTimedOut | ErrorCode::NotController => {
            ErrorCode::CoordinatorLoadInProgress
        }
        code => code,
    }
}
