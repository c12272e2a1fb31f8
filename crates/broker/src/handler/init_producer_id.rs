//! `InitProducerId` (key 22), versions 0-5: an identity for an idempotent producer.
//!
//! A producer without a transactional id gets a new identity each time, as from Kafka. Transactions are not served yet,
//! and a transactional id is refused with an error that clients do not retry.

use std::rc::Rc;

use platform::Platform;
use wire::messages::{InitProducerIdRequest, InitProducerIdResponse};
use wire::types::{ErrorCode, ProducerId};

use crate::Broker;
use crate::broker::CONTROLLER_SHARD;

pub(crate) async fn handle<P: Platform>(
    broker: &Rc<Broker<P>>,
    request: InitProducerIdRequest,
) -> InitProducerIdResponse {
    let refused = |code: ErrorCode| {
        InitProducerIdResponse::default()
            .with_error_code(code.code())
            .with_producer_id((-1).into())
            .with_producer_epoch(-1)
    };
    if request.transactional_id.is_some() {
        return refused(ErrorCode::InvalidRequest);
    }
    match next_id(broker).await {
        Ok(id) => InitProducerIdResponse::default()
            .with_producer_id(id.0.into())
            .with_producer_epoch(0),
        Err(code) => refused(code),
    }
}

async fn next_id<P: Platform>(broker: &Rc<Broker<P>>) -> Result<ProducerId, ErrorCode> {
    loop {
        if let Some(id) = broker.producer_ids.take() {
            return Ok(id);
        }
        let block = broker.shards.call(CONTROLLER_SHARD, |broker| async move {
            broker.controller()?.allocate_producer_ids().await
        });
        let (first, count) = block.await.ok_or(ErrorCode::CoordinatorNotAvailable)??;
        broker.producer_ids.refill(first, count);
    }
}
