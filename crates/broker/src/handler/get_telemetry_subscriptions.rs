//! `GetTelemetrySubscriptions` (key 71), version 0: assigns a client its instance id, and returns
//! which metrics it is to send.
//!
//! The zero id requests a new id. A client that no subscription matches gets an empty list, and the
//! default interval after which to ask again.

use std::rc::Rc;

use platform::Platform;
use wire::StrBytes;
use wire::messages::{GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse};
use wire::types::Uuid;

use crate::Broker;
use crate::handler::Context;
use crate::log_dirs;

/// The codecs that a push may use, the best first: zstd, lz4, gzip, snappy.
const CODECS: [i8; 4] = [4, 3, 1, 2];

pub(crate) async fn handle<P: Platform>(
    broker: &Rc<Broker<P>>,
    context: &Context,
    request: GetTelemetrySubscriptionsRequest,
) -> GetTelemetrySubscriptionsResponse {
    let id = if request.client_instance_id == Uuid::nil() {
        log_dirs::random_uuid(&broker.platform)
    } else {
        request.client_instance_id
    };
    let client = context.telemetry_client(id);
    let told = broker.at_telemetry(id, move |broker| async move {
        let telemetry = &broker.telemetry;
        let told = telemetry.subscriptions.of(&broker.image(), &client);
        let now = broker.platform.clock().now();
        telemetry.ask(&client, &told, now)?;
        Ok(told)
    });
    let bytes_max = i32::try_from(broker.options.telemetry_bytes_max).unwrap_or(i32::MAX);
    match told.await {
        Ok(told) => GetTelemetrySubscriptionsResponse::default()
            .with_client_instance_id(id)
            .with_subscription_id(told.id)
            .with_accepted_compression_types(CODECS.to_vec())
            .with_push_interval_ms(told.interval_ms)
            .with_telemetry_max_bytes(bytes_max)
            .with_delta_temporality(true)
            .with_requested_metrics(
                told.metrics
                    .into_iter()
                    .map(StrBytes::from_string)
                    .collect(),
            ),
        Err(code) => GetTelemetrySubscriptionsResponse::default().with_error_code(code.code()),
    }
}
