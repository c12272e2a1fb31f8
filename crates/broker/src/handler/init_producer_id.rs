//! `InitProducerId` (key 22), versions 0-5: a producer id and epoch for an idempotent or a
//! transactional producer.
//!
//! As in Kafka, a producer without a transactional id gets a new producer id each time. A producer
//! with one gets the producer id of that transactional id, with the next epoch, which fences its
//! predecessor; a transaction of the predecessor is aborted first. A client that may write to any
//! topic may be an idempotent producer. Version 3 added the id and epoch
//! with which a producer continues after an error, 4 `PRODUCER_FENCED`.

use std::net::IpAddr;
use std::rc::Rc;

use platform::Platform;
use wire::acl::{Operation, ResourceType};
use wire::messages::{InitProducerIdRequest, InitProducerIdResponse};
use wire::types::{ErrorCode, ProducerId};

use crate::Broker;
use crate::access::Access;
use crate::producer_ids;

pub(crate) async fn handle<P: Platform>(
    broker: &Rc<Broker<P>>,
    request: InitProducerIdRequest,
) -> InitProducerIdResponse {
    match producer_ids::next(broker).await {
        Ok(id) if request.transactional_id.is_none() => answered(Ok((id, 0))),
        Ok(_) => answered(Err(ErrorCode::InvalidRequest)),
        Err(code) => answered(Err(code)),
    }
}

/// Like [`handle`], for a transactional id, on its shard; the address pays for an id that is new.
pub(crate) async fn handle_transactional<P: Platform>(
    broker: Rc<Broker<P>>,
    request: InitProducerIdRequest,
    version: i16,
    client: (IpAddr, Access),
) -> InitProducerIdResponse {
    let id = request.transactional_id.map(|id| id.0.to_string());
    let Some(id) = id.filter(|id| !id.is_empty()) else {
        return answered(Err(ErrorCode::InvalidRequest));
    };
    let expected = match (request.producer_id.0, request.producer_epoch) {
        (-1, -1) => None,
        (-1, _) | (_, -1) => return answered(Err(ErrorCode::InvalidRequest)),
        (id, epoch) => Some((ProducerId(id), epoch)),
    };
    let coordinator = Rc::clone(&broker.transactions);
    let begun = coordinator.begin(client, id, request.transaction_timeout_ms, expected);
    let begun = crate::transaction::change(begun).await;
    answered(super::add_partitions_to_txn::known_to(begun, version >= 4))
}

/// Checks the rights of a client; it may rest.
pub(crate) async fn check_rights(
    request: &InitProducerIdRequest,
    access: &Access,
) -> Result<(), ErrorCode> {
    let Some(id) = &request.transactional_id else {
        let may = access.has_cluster(Operation::IdempotentWrite)
            || access.may_any(Operation::Write, ResourceType::Topic).await;
        let denied = ErrorCode::ClusterAuthorizationFailed;
        return may.then_some(()).ok_or(denied);
    };
    let may = access.may(Operation::Write, ResourceType::TransactionalId, id);
    let denied = ErrorCode::TransactionalIdAuthorizationFailed;
    may.then_some(()).ok_or(denied)
}

pub(crate) fn answered(given: Result<(ProducerId, i16), ErrorCode>) -> InitProducerIdResponse {
    match given {
        Ok((id, epoch)) => InitProducerIdResponse::default()
            .with_producer_id(id.0.into())
            .with_producer_epoch(epoch),
        Err(code) => InitProducerIdResponse::default()
            .with_error_code(code.code())
            .with_producer_id((-1).into())
            .with_producer_epoch(-1),
    }
}
