//! Produce and Fetch: requests with their own codecs, which charge their byte quotas themselves.

use std::time::Duration;

use platform::Platform;
use platform::task::yield_now;
use wire::error::EncodeError;
use wire::kafka::fetch::Encoding;
use wire::kafka::{self, Response};

use super::call::{Call, malformed};
use super::reply::{CloseReason, Reply};
use crate::handler;
use crate::handler::produce::ProduceReply;
use crate::quota::{Charge, QuotaKind, wire_ms};
use crate::rests::PIECE;

/// Appends, and charges the producer for the bytes of its request. Without a response (`acks=0`)
/// its time is free, as in Kafka.
pub(super) async fn produce<P: Platform>(call: &Call<'_, P>) -> Result<Reply, CloseReason> {
    call.check_allowed()?;
    let (b, c, busy) = (call.broker, call.context, call.busy);
    let (v, id) = (call.header.version, call.header.correlation_id);
    // Decoding takes the body, so the frame's memory is free for the next request once the records
    // are in the log's memory.
    let asked = kafka::produce::ProduceRequest::decode(&call.take_body(), v);
    let asked = asked.map_err(|source| malformed(&call.header, source))?;
    let client = c.client_id.as_str();
    let outcome = handler::produce::handle(b, asked, v, (client, c.peer)).await;
    #[allow(clippy::cast_precision_loss, reason = "frames are far smaller")]
    let bytes = c.frame_bytes as f64;
    let mut pause = b
        .charge(QuotaKind::Produce, client, bytes, Charge::Used)
        .await;
    match outcome {
        ProduceReply::Answer(mut response) => {
            let time = b.charge(QuotaKind::Request, client, busy.percent(), Charge::Used);
            pause = pause.max(time.await);
            response.throttle_time_ms = wire_ms(pause);
            let response = response.encode(v, id)?;
            Ok(if pause.is_zero() {
                Reply::Send(response)
            } else {
                Reply::Pause(Some(response), pause)
            })
        }
        ProduceReply::Silence if pause.is_zero() => Ok(Reply::Nothing),
        ProduceReply::Silence => Ok(Reply::Pause(None, pause)),
        ProduceReply::Hangup(code) => Err(CloseReason::Unanswered(code)),
    }
}

/// Reads, and charges the consumer for the bytes of the response. A throttled consumer gets only
/// the throttle time.
pub(super) async fn fetch<P: Platform>(call: &Call<'_, P>) -> Result<Reply, CloseReason> {
    call.check_allowed()?;
    let (b, c, busy) = (call.broker, call.context, call.busy);
    let (v, id) = (call.header.version, call.header.correlation_id);
    let peer = call.ip();
    let mut place = b.place_for_bytes(call.body_bytes(), peer).await;
    let body = call.take_body();
    let asked = if place.is_none() {
        kafka::fetch::FetchRequest::decode(&body, v)
    } else {
        let decode = move || kafka::fetch::FetchRequest::decode(&body, v);
        b.beside(peer, decode).await.ok_or(CloseReason::Stopping)?
    };
    let asked = asked.map_err(|source| malformed(&call.header, source))?;
    let client = c.client_id.as_str();
    let mut time = Duration::ZERO;
    let mut bytes_pause = Duration::ZERO;
    let limits = (peer, b.fetch_bytes_max(client));
    let response = handler::fetch::handle(b, asked, v, limits, &mut place, async |size| {
        time = b
            .charge(QuotaKind::Request, client, busy.percent(), Charge::Used)
            .await;
        let charge = if time.is_zero() {
            Charge::IfAllowed
        } else {
            Charge::Never
        };
        #[allow(clippy::cast_precision_loss, reason = "answers are far smaller")]
        let bytes = size as f64;
        bytes_pause = b.charge(QuotaKind::Fetch, client, bytes, charge).await;
        time.is_zero() && bytes_pause.is_zero()
    });
    let mut response = response.await;
    let pause = time.max(bytes_pause);
    response.throttle_time_ms = wire_ms(pause);
    let response = if response.parts() <= PIECE {
        response.encode(v, id)?
    } else {
        in_turns(response.begin(v, id)?).await?
    };
    Ok(if pause.is_zero() {
        Reply::Send(response)
    } else {
        Reply::Pause(Some(response), pause)
    })
}

/// Encodes a large response, and yields in between.
async fn in_turns(mut encoding: Encoding) -> Result<Response, EncodeError> {
    while encoding.more(PIECE) {
        yield_now().await;
    }
    encoding.finish()
}
