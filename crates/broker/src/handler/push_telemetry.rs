//! `PushTelemetry` (key 72), version 0: a client sends what it measured, as OpenTelemetry metrics.
//!
//! Judged before it is decompressed; what is in it becomes metrics of this broker. Bytes that are no metrics are
//! `INVALID_RECORD`, as when Kafka's receiver fails.

use std::rc::Rc;

use platform::Platform;
use wire::batch::compression::Compression;
use wire::messages::{PushTelemetryRequest, PushTelemetryResponse};
use wire::telemetry;
use wire::types::{ErrorCode, Uuid};

use crate::Broker;
use crate::handler::Context;
use crate::telemetry::{Push, Subscription};

/// Bytes of a push once it is decompressed.
const DECOMPRESSED_BYTES_MAX: usize = 16 << 20;
/// Values of one push.
const SAMPLES_MAX: usize = 5000;
/// Ids below this one have a meaning of their own.
const RESERVED_IDS: u128 = 100;

pub(crate) async fn handle<P: Platform>(
    broker: &Rc<Broker<P>>,
    context: &Context,
    request: PushTelemetryRequest,
) -> PushTelemetryResponse {
    let id = request.client_instance_id;
    let answer = |code: ErrorCode| PushTelemetryResponse::default().with_error_code(code.code());
    if is_reserved(id) {
        return answer(ErrorCode::InvalidRequest);
    }
    let client = context.telemetry_client(id);
    let pushed = broker.at_telemetry(id, move |broker| {
        let codec = Compression::from_code(request.compression_type.into());
        let subscription = Subscription::of(&broker.image(), &client);
        let push = Push {
            subscription: request.subscription_id,
            terminating: request.terminating,
            known_codec: codec.is_ok(),
            bytes: request.metrics.len(),
        };
        let now_ms = broker.platform.clock().wall_ms();
        let bytes_max = broker.options.telemetry_bytes_max;
        let telemetry = &broker.telemetry;
        telemetry.push(id, subscription, push, bytes_max, now_ms)?;
        let received = telemetry.received();
        let plain =
            codec.and_then(|codec| codec.decompress(&request.metrics, DECOMPRESSED_BYTES_MAX));
        let samples = plain
            .ok()
            .and_then(|plain| telemetry::samples(&plain, SAMPLES_MAX).ok());
        let Some(samples) = samples else {
            received.malformed();
            return Err(ErrorCode::InvalidRecord);
        };
        received.keep(id, &client.called, samples, request.metrics.len());
        Ok(())
    });
    match pushed.await {
        Ok(()) => PushTelemetryResponse::default(),
        Err(code) => answer(code),
    }
}

fn is_reserved(id: Uuid) -> bool {
    id.as_u128() < RESERVED_IDS
}
