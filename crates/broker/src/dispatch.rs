//! From a frame to its handler, by the table of requests (`dispatch/table.rs`).
//!
//! Order: a [`ParsedRequest`] that overlaps may be polled while earlier ones of its connection
//! still wait, so it does everything that depends on the connection's order in its first poll.
//! Every other call runs alone.

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::indexing_slicing,
        reason = "numbers of clients reach this: an overflow or an index out of bounds ends the broker"
    )
)]

mod call;
mod descriptions;
mod errors;
mod groups;
mod homes;
mod pace;
mod reply;
mod row;
mod table;
mod transactions;

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use bytes::Bytes;
use platform::Platform;
use wire::kafka::{self, Api, Request};

use crate::Broker;
use crate::answers::FLOOR_BYTES;
use crate::handler::{self, Context};
use crate::quota::{Busy, timed};
use call::Call;
pub use reply::{CloseReason, Reply};
use row::{Loss, Order, Row};
pub use row::{Operation, ResourceType};
pub use table::rights;

/// Answers the requests of connections: the broker, or what a test puts in its place.
pub trait Service: 'static {
    /// Takes one request: the frame without its four bytes of length.
    ///
    /// The work must begin in the first poll of the reply, not in this call: the connection may
    /// hold it back until the requests before it are answered. A reply that was polled is polled
    /// until it is ready, even without a peer (for a limited time), unless it only reads.
    fn call(&self, context: Context, frame: Bytes) -> ParsedRequest<impl Future<Output = Reply>>;
}

impl<P: Platform> Service for Rc<Broker<P>> {
    fn call(&self, context: Context, frame: Bytes) -> ParsedRequest<impl Future<Output = Reply>> {
        call(self, context, &frame)
    }
}

/// A request that is parsed and ready to run.
pub struct ParsedRequest<F = Pin<Box<dyn Future<Output = Reply>>>> {
    /// True when it may run while earlier overlapping requests of the connection still wait. The
    /// first polls run in the order of the requests.
    pub overlaps: bool,
    /// API, for metrics and logs.
    pub api: Option<Api>,
    /// True if it changes nothing, and is dropped while it waits when its client disconnects.
    pub only_reads: bool,
    /// The reply.
    pub reply: F,
}

/// Parses a frame and prepares its handler. Nothing runs before the reply is polled.
pub fn call<P: Platform>(broker: &Rc<Broker<P>>, context: Context, frame: &Bytes) -> ParsedRequest {
    let request = match Request::parse(frame) {
        Ok(request) => request,
        Err(error) => {
            let reply = Box::pin(std::future::ready(Reply::Close(error.into())));
            return ParsedRequest {
                overlaps: false,
                api: None,
                only_reads: false,
                reply,
            };
        }
    };
    let (api, version) = (request.header.api, request.header.version);
    let context = Context {
        client_id: request.header.client_id.clone(),
        frame_bytes: frame.len(),
        ..context
    };
    let row = Row::of(api);
    let overlaps = match row.order {
        Order::Alone => false,
        Order::OverlapsUnlessTransactional => !kafka::produce::names_transaction(&request),
    };
    let broker = Rc::clone(broker);
    let reply = Box::pin(async move {
        if !broker.limits_time() {
            let answered = answer(&broker, &context, &Busy::default(), row, request).await;
            let reply = roomy(&broker, &context, (row, api), answered);
            return pace::told((row, api, version), reply);
        }
        let busy = Busy::with(broker.platform.clock().clone());
        // Boxed, so that this does not enlarge the futures of requests that are not timed.
        let answered = Box::pin(answer(&broker, &context, &busy, row, request));
        let reply = roomy(&broker, &context, (row, api), timed(&busy, answered).await);
        let asked = (row, api, version);
        Box::pin(pace::paced(&broker, &context, &busy, asked, reply)).await
    });
    ParsedRequest {
        overlaps,
        api: Some(api),
        only_reads: row.loss == Loss::NothingWhileItWaits,
        reply,
    }
}

/// Returns the reply, or closes the connection instead of sending a large response of a repeatable
/// request while clients have too many responses to read.
///
/// Most responses cannot express that refusal. The disconnected client retries, by which time the
/// clients that do not read have been disconnected too.
fn roomy<P: Platform>(
    broker: &Broker<P>,
    context: &Context,
    (row, api): (&Row, Api),
    answered: Result<Reply, CloseReason>,
) -> Reply {
    match answered {
        Ok(Reply::Send(response) | Reply::Pause(Some(response), _))
            if row.loss == Loss::Nothing
                && response.size_bytes() > FLOOR_BYTES
                && broker.answers.is_over(context.peer.ip()) =>
        {
            Reply::Close(CloseReason::NoRoom(api))
        }
        Ok(reply) => reply,
        Err(reason) => Reply::Close(reason),
    }
}

/// Answers any request.
async fn answer<P: Platform>(
    broker: &Rc<Broker<P>>,
    context: &Context,
    busy: &Busy,
    row: &'static Row,
    request: Request,
) -> Result<Reply, CloseReason> {
    if request.is_unknown_api_versions() {
        let response = handler::api_versions::unsupported(&broker.image());
        let code = response.error_code;
        broker.metrics.errors.count(Api::ApiVersions.name(), code);
        let id = request.header.correlation_id;
        let response = kafka::encode_response(Api::ApiVersions, 0, id, &response)?;
        return Ok(Reply::Send(response));
    }
    table::handle(&Call::new(broker, context, busy, row, request)).await
}
