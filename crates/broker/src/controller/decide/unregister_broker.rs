//! `UnregisterBroker` (key 64), version 0: removes a broker that no longer exists from the
//! metadata.
//!
//! A log that Kafka wrote may name other brokers. This node is refused: it is the only one, it
//! answers the request, and without its registration no client could produce or consume until its
//! next start.

use wire::messages::{UnregisterBrokerRequest, UnregisterBrokerResponse};
use wire::records::metadata::UnregisterBrokerRecord;
use wire::types::{ErrorCode, NodeId};

use crate::controller::{ControllerDecision, Refusal, Rules};

/// Decides on a request.
pub(crate) fn handle(
    rules: Rules<'_>,
    request: &UnregisterBrokerRequest,
) -> ControllerDecision<UnregisterBrokerResponse> {
    let judged = judge(rules, NodeId(request.broker_id.0));
    let records = judged.as_ref().map(|record| vec![record.clone().into()]);
    let records = records.unwrap_or_default();
    let (code, message) = Refusal::parts(judged.map(drop));
    let response = UnregisterBrokerResponse::default()
        .with_error_code(code)
        .with_error_message(message);
    ControllerDecision { records, response }
}

fn judge(rules: Rules<'_>, id: NodeId) -> Result<UnregisterBrokerRecord, Refusal> {
    let Some(broker) = rules.image.broker(id) else {
        let message = format!("Broker ID {} is not currently registered", id.0);
        return Err(Refusal::new(ErrorCode::BrokerIdNotRegistered, message));
    };
    if id == rules.options.node_id {
        let message = format!(
            "Broker {} is the only node of this cluster, and the one that answers: stop it instead of unregistering it",
            id.0
        );
        return Err(Refusal::new(ErrorCode::InvalidRequest, message));
    }
    Ok(UnregisterBrokerRecord {
        broker_id: id.0,
        broker_epoch: broker.epoch,
    })
}

#[cfg(test)]
mod tests;
