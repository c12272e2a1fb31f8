//! `EndTxn` (key 26), versions 0-5: commits or aborts a transaction; answers when that decision is
//! durable.
//!
//! Version 2 added `PRODUCER_FENCED`; version 5 belongs to transaction protocol 2: the response
//! contains the producer id and epoch for the next transaction.

use std::rc::Rc;

use platform::Platform;
use wire::messages::{EndTxnRequest, EndTxnResponse};
use wire::types::{ErrorCode, ProducerId};

use super::add_partitions_to_txn::known_to;
use crate::Broker;
use crate::transaction::machine::EndRequest;

pub(crate) async fn handle<P: Platform>(
    broker: Rc<Broker<P>>,
    request: EndTxnRequest,
    version: i16,
) -> EndTxnResponse {
    let id = request.transactional_id.0.to_string();
    let end = EndRequest {
        producer_id: ProducerId(request.producer_id.0),
        epoch: request.producer_epoch,
        commit: request.committed,
        client_version: if version >= 5 { 2 } else { 0 },
        fresh: None,
    };
    let ended = if id.is_empty() {
        Err(ErrorCode::InvalidRequest)
    } else {
        crate::transaction::change(Rc::clone(&broker.transactions).end(id, end)).await
    };
    match known_to(ended, version >= 2) {
        Ok((id, epoch)) => EndTxnResponse::default()
            .with_producer_id(id.0.into())
            .with_producer_epoch(epoch),
        Err(code) => refused(code),
    }
}

/// Returns an error, and no producer id.
pub(crate) fn refused(code: ErrorCode) -> EndTxnResponse {
    EndTxnResponse::default()
        .with_error_code(code.code())
        .with_producer_id((-1).into())
        .with_producer_epoch(-1)
}
