//! `PushTelemetry` (key 72), version 0: receives a client's metrics in OpenTelemetry format.
//!
//! The request is judged before it is decompressed, which happens off the shard; the requested
//! metrics in it become metrics of this broker. Bytes that are not metrics, or that exceed the
//! limit of a push, are `INVALID_RECORD`, as when Kafka's receiver fails.

use std::net::IpAddr;
use std::rc::Rc;

use bytes::Bytes;
use platform::Platform;
use wire::batch::compression::Compression;
use wire::messages::{PushTelemetryRequest, PushTelemetryResponse};
use wire::types::{ErrorCode, Uuid};

use crate::Broker;
use crate::handler::Context;
use crate::quota::RequestTime;
use crate::rests::{PIECE, Rests};
use crate::telemetry::{Client, Push, ReceivedMetrics, Subscription};

/// Maximum decompressed size of a push, as a multiple of `telemetry.max.bytes`.
const DECOMPRESSED_TIMES_MAX: usize = 4;
/// An uncompressed push up to this size is decoded on the shard.
const SMALL_BYTES: usize = 16 << 10;
/// Samples that are stored between two yields: each has texts to escape and look up.
const KEPT_AT_ONCE: usize = 128;
/// Ids below this one are reserved.
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
    let peer = context.peer.ip();
    let pushed = broker.at_telemetry(id, move |broker| async move {
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
        let codec = codec.map_err(|_| ErrorCode::UnsupportedCompressionType)?;
        let pushed = (codec, request.metrics);
        take(&broker, (&client, peer), &asked, pushed).await
    });
    match pushed.await {
        Ok(()) => PushTelemetryResponse::default(),
        Err(code) => answer(code),
    }
}

/// Decodes a push, off the shard if that may take long, and stores it in pieces.
async fn take<P: Platform>(
    broker: &Rc<Broker<P>>,
    (client, peer): (&Client, IpAddr),
    asked: &Subscription,
    (codec, pushed): (Compression, Bytes),
) -> Result<(), ErrorCode> {
    let received = broker.telemetry.received();
    if !received.wants(asked, pushed.len()) {
        return Ok(());
    }
    let plain_max = broker.options.telemetry_bytes_max;
    let plain_max = plain_max.saturating_mul(DECOMPRESSED_TIMES_MAX);
    let samples = if codec == Compression::None && pushed.len() <= SMALL_BYTES {
        ReceivedMetrics::read(codec, &pushed, plain_max)
    } else {
        let read = move || ReceivedMetrics::read(codec, &pushed, plain_max);
        // It is read where the client's metrics are kept, whose time is not the request's.
        let of_another = RequestTime::default();
        let read = broker.beside((peer, &of_another), read).await;
        read.ok_or(ErrorCode::UnknownServerError)?
    };
    let mut rests = Rests::new();
    let mut left = received.readable(samples)?.into_iter();
    loop {
        let some: Vec<_> = left.by_ref().take(KEPT_AT_ONCE).collect();
        // If the client was removed meanwhile, what is stored for it would never be removed.
        if some.is_empty() || !broker.telemetry.knows(client.id) {
            return Ok(());
        }
        received.keep(client, asked, some);
        rests.items(PIECE).await;
    }
}

fn is_reserved(id: Uuid) -> bool {
    id.as_u128() < RESERVED_IDS
}
