//! `AddOffsetsToTxn` (key 25), versions 0-4: adds a group's offsets to a transaction, as the
//! partition of `__consumer_offsets` that holds them.
//!
//! Creates that topic if no client has looked up a group before; while that takes long, the
//! producer gets an error to retry. Version 2 added `PRODUCER_FENCED`.

use std::rc::Rc;

use platform::Platform;
use wire::messages::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};
use wire::types::{ErrorCode, ProducerId};

use super::add_partitions_to_txn::known_to;
use super::txn_offset_commit::lost;
use crate::Broker;
use crate::access::Access;
use crate::names::OFFSETS_TOPIC;

pub(crate) async fn handle<P: Platform>(
    broker: Rc<Broker<P>>,
    request: AddOffsetsToTxnRequest,
    version: i16,
    access: &Access,
) -> AddOffsetsToTxnResponse {
    let added = known_to(add(&broker, &request, access).await, version >= 2);
    let code = added.err().map_or(0, |code| code.code());
    AddOffsetsToTxnResponse::default().with_error_code(code)
}

async fn add<P: Platform>(
    broker: &Rc<Broker<P>>,
    request: &AddOffsetsToTxnRequest,
    access: &Access,
) -> Result<(), ErrorCode> {
    let (id, group) = (request.transactional_id.0.to_string(), &request.group_id);
    if id.is_empty() {
        return Err(ErrorCode::InvalidRequest);
    }
    let partition = match broker.groups.partition_of(group.as_str()) {
        Err(ErrorCode::NotCoordinator) => {
            if !broker.create_own(OFFSETS_TOPIC).await {
                return Err(ErrorCode::CoordinatorNotAvailable);
            }
            let renewed = access.renewed_by(broker);
            if let Some(code) = renewed.and_then(|access| lost(&access, id.as_str(), group)) {
                return Err(code);
            }
            broker.groups.partition_of(group.as_str())?
        }
        known => known?,
    };
    let producer = (ProducerId(request.producer_id.0), request.producer_epoch);
    let partitions = vec![(OFFSETS_TOPIC.to_owned(), partition)];
    let coordinator = Rc::clone(&broker.transactions);
    crate::transaction::change(coordinator.add(id, producer, partitions, 0)).await
}
