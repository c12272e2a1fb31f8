//! `PushTelemetry` (key 72), version 0: a client sends what it measured, as OpenTelemetry metrics.
//!
//! Judged before it is decompressed; what is in it and was asked for becomes metrics of this broker. Bytes that are no
//! metrics, or come to more than a push may, are `INVALID_RECORD`, as when Kafka's receiver fails.

use std::rc::Rc;

use platform::Platform;
use wire::batch::compression::Compression;
use wire::messages::{PushTelemetryRequest, PushTelemetryResponse};
use wire::types::{ErrorCode, Uuid};

use crate::Broker;
use crate::handler::Context;
use crate::telemetry::Push;

/// A push may decompress to so many times `telemetry.max.bytes`.
const DECOMPRESSED_TIMES_MAX: usize = 4;
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
        let telemetry = &broker.telemetry;
        let asked = telemetry.subscriptions.of(&broker.image(), &client);
        let push = Push {
            subscription: request.subscription_id,
            terminating: request.terminating,
            known_codec: codec.is_ok(),
            bytes: request.metrics.len(),
        };
        let now = broker.platform.clock().now();
        let bytes_max = broker.options.telemetry_bytes_max;
        telemetry.push(&client, &asked, push, bytes_max, now)?;
        let plain_max = bytes_max.saturating_mul(DECOMPRESSED_TIMES_MAX);
        let codec = codec.map_err(|_| ErrorCode::UnsupportedCompressionType)?;
        let received = telemetry.received();
        received.take(&client, &asked, codec, &request.metrics, plain_max)
    });
    match pushed.await {
        Ok(()) => PushTelemetryResponse::default(),
        Err(code) => answer(code),
    }
}

fn is_reserved(id: Uuid) -> bool {
    id.as_u128() < RESERVED_IDS
}
