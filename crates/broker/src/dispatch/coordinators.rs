//! Requests for the coordinator of a group or of a transactional id.
//!
//! The first such request makes the coordinator's topic. A slow creation goes on after the answer,
//! which is that there is no coordinator yet: as in Kafka, the client asks again.

use platform::Platform;
use wire::messages::{FindCoordinatorRequest, FindCoordinatorResponse};
use wire::types::ErrorCode;

use super::call::Call;
use crate::handler::find_coordinator::{GROUP, Node, TRANSACTION, denied_keys, handle, keys};
use crate::names::{OFFSETS_TOPIC, TRANSACTIONS_TOPIC};

/// Finds coordinators; a client that may ask for none of them makes no topic.
pub(super) async fn find<P: Platform>(
    call: &Call<'_, P>,
    request: &FindCoordinatorRequest,
) -> FindCoordinatorResponse {
    let access = call.access();
    let (broker, version) = (call.broker, call.header.version);
    let topic = match request.key_type {
        TRANSACTION => TRANSACTIONS_TOPIC,
        _ => OFFSETS_TOPIC,
    };
    let mut denied = denied_keys(request, version, &access).await;
    let known = broker.image().topic_by_name(topic).is_some();
    if [GROUP, TRANSACTION].contains(&request.key_type) && !known {
        let mut keys = keys(request, version).into_iter();
        if denied.is_empty() || keys.any(|key| !denied.contains_key(&key)) {
            broker.create_own(topic).await;
            if let Some(access) = access.renewed_by(broker) {
                denied = denied_keys(request, version, &access).await;
            }
        }
    }
    let image = broker.image();
    handle(request, version, |key| {
        if let Some(code) = denied.get(key) {
            return Err(*code);
        }
        image
            .topic_by_name(topic)
            .ok_or(ErrorCode::CoordinatorNotAvailable)?;
        let brokers = image.alive_brokers(&call.context.listener);
        let mut me = brokers.filter(|(broker_of, _)| broker_of.id == broker.options.node_id.0);
        let (_, endpoint) = me.next().ok_or(ErrorCode::CoordinatorNotAvailable)?;
        Ok(Node {
            id: broker.options.node_id,
            host: endpoint.host.clone(),
            port: endpoint.port,
        })
    })
    .await
}
