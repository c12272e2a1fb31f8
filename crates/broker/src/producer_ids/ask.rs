//! How a shard gets a new producer id: from its block, or from a new block of the controller.
//!
//! Invariants: a shard requests one block at a time. A request waits for a block no longer than
//! [`SOON`]: as in Kafka, the producer asks again. A block that comes later is for those who ask
//! next. It does not allocate blocks (the controller does).

use std::rc::Rc;

use platform::{Platform, task};
use wire::types::{ErrorCode, ProducerId};

use crate::Broker;
use crate::making::SOON;
use crate::names::CONTROLLER_SHARD;

/// Returns a new id; requests a block from the controller if this shard's is used up.
pub(crate) async fn next<P: Platform>(broker: &Rc<Broker<P>>) -> Result<ProducerId, ErrorCode> {
    if let Some(id) = broker.producer_ids.take() {
        return Ok(id);
    }
    // Boxed, because few requests come here. One that waits for too long takes no id, and leaves
    // the block to those who ask next.
    let taken = task::timeout(SOON, Box::pin(next_of_blocks(broker))).await;
    taken.unwrap_or(Err(ErrorCode::CoordinatorLoadInProgress))
}

async fn next_of_blocks<P: Platform>(broker: &Rc<Broker<P>>) -> Result<ProducerId, ErrorCode> {
    loop {
        let turn = broker.producer_ids.turn().await;
        if let Some(id) = broker.producer_ids.take() {
            return Ok(id);
        }
        let me = Rc::clone(broker);
        let refilled = task::spawn(async move {
            let _turn = turn;
            refill(&me).await
        });
        // The shard is stopping if the task is gone.
        refilled.await.unwrap_or(Err(ErrorCode::NotCoordinator))?;
    }
}

/// Gets a new block.
async fn refill<P: Platform>(broker: &Rc<Broker<P>>) -> Result<(), ErrorCode> {
    let block = broker.shards.call(CONTROLLER_SHARD, |broker| async move {
        broker.controller()?.allocate_producer_ids().await
    });
    let block = block.await.ok_or(ErrorCode::CoordinatorNotAvailable)?;
    let (first, count) = block.map_err(told)?;
    broker.producer_ids.refill(first, count);
    Ok(())
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
