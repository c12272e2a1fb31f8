//! From a frame to its handler: one match over the API keys, and nothing else.
//!
//! Order: a [`Called`] that overlaps may be polled while earlier ones of its connection still wait; everything it does
//! that has to keep the order of the connection it does in its first poll. Every other call runs alone.

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::indexing_slicing,
        reason = "numbers of clients reach this: an overflow or an index out of bounds ends the broker"
    )
)]

mod administration;
mod groups;
mod pace;
mod records;
mod security;
mod transactions;

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use platform::Platform;
use wire::error::{DecodeError, EncodeError, FrameError};
use wire::kafka::shape::DECODED_BYTES_MAX;
use wire::kafka::{self, Api, Request, RequestHeader, Response};
use wire::protocol::Encodable;
use wire::types::ErrorCode;

use crate::Broker;
use crate::answers::FLOOR_BYTES;
use crate::broker::CONTROLLER_SHARD;
use crate::controller::{Caller, Controller, Rules};
use crate::handler::metadata::TooMany;
use crate::handler::{self, Context};
use crate::many::{LARGE_BYTES, Place};
use crate::quota::{Busy, Kind, timed};
use crate::room::Room;

/// What becomes of a request.
#[derive(Debug)]
pub enum Reply {
    /// An answer.
    Send(Response),
    /// An answer, if the client wants one; and nothing more is taken from the connection for so
    /// long, because a quota is used up.
    Pause(Option<Response>, Duration),
    /// The client wants no answer.
    Nothing,
    /// The bytes were no request that we can answer, or our answer has no bytes: the connection must end.
    Close(CloseReason),
}

/// Why a connection must end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// The frame has no header that we serve.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The body does not decode.
    #[error("{api} version {version} from client {client:?}: {source}")]
    Body {
        /// Name of the API.
        api: &'static str,
        /// Its version.
        version: i16,
        /// What the client calls itself.
        client: String,
        /// What is wrong.
        source: DecodeError,
    },
    /// The answer cannot be encoded: a fault of ours.
    #[error(transparent)]
    Answer(#[from] EncodeError),
    /// A produce request failed whose sender wants no answer: it has to notice somehow.
    #[error("a produce request with acks=0 failed: {0:?}")]
    Unanswered(ErrorCode),
    /// Too many answers have not been taken yet for one so large; the client may ask again.
    #[error("the answer to {0:?} finds no room among those that clients have not taken yet")]
    NoRoom(Api),
    /// Whoever would answer is stopping.
    #[error("the broker is stopping")]
    Stopping,
}

/// A request that has been understood and is ready to run.
pub struct Called {
    /// True when it may run while earlier overlapping requests of the connection still wait.
    pub overlaps: bool,
    /// API, for metrics and logs.
    pub api: Option<Api>,
    /// The answer.
    pub reply: Pin<Box<dyn Future<Output = Reply>>>,
}

/// Takes a frame apart and readies its handler. Nothing runs before the reply is polled.
pub fn call<P: Platform>(broker: &Rc<Broker<P>>, context: Context, frame: &Bytes) -> Called {
    let request = match Request::parse(frame) {
        Ok(request) => request,
        Err(error) => {
            let reply = Box::pin(std::future::ready(Reply::Close(error.into())));
            return Called {
                overlaps: false,
                api: None,
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
    let overlaps = api == Api::Produce && !kafka::produce::names_transaction(&request);
    let broker = Rc::clone(broker);
    let reply = Box::pin(async move {
        if !broker.limits_time() {
            let answered = answer(&broker, &context, &Busy::default(), request).await;
            let reply = roomy(&broker, &context, api, answered);
            return pace::told((api, version), reply);
        }
        let busy = Busy::with(broker.platform.clock().clone());
        // Boxed, so that nobody else's requests grow by what this needs.
        let answered = Box::pin(answer(&broker, &context, &busy, request));
        let reply = roomy(&broker, &context, api, timed(&busy, answered).await);
        Box::pin(pace::paced(&broker, &context, &busy, (api, version), reply)).await
    });
    Called {
        overlaps,
        api: Some(api),
        reply,
    }
}

/// The reply, unless it is a large answer to a question while clients have more answers to take than may be: the protocol has
/// no words for that in most answers, and a client that is cut off asks again, when whoever does not read has been cut off, too.
fn roomy<P: Platform>(
    broker: &Broker<P>,
    context: &Context,
    api: Api,
    answered: Result<Reply, CloseReason>,
) -> Reply {
    match answered {
        Ok(Reply::Send(response) | Reply::Pause(Some(response), _))
            if is_question(api)
                && response.size_bytes() > FLOOR_BYTES
                && broker.answers.is_over(context.peer.ip()) =>
        {
            Reply::Close(CloseReason::NoRoom(api))
        }
        Ok(reply) => reply,
        Err(reason) => Reply::Close(reason),
    }
}

/// True when nothing is lost with an answer: it changes nothing, and nobody waits in a group for it. Fetches find less
/// instead.
fn is_question(api: Api) -> bool {
    match api {
        Api::Produce | Api::Fetch => false,
        Api::Metadata | Api::OffsetFetch | Api::FindCoordinator | Api::ElectLeaders => true,
        api => api.name().starts_with("Describe") || api.name().starts_with("List"),
    }
}

/// Boxed each: a request takes the memory that its own API needs, not what the hungriest does.
async fn answer<P: Platform>(
    b: &Rc<Broker<P>>,
    c: &Context,
    busy: &Busy,
    request: Request,
) -> Result<Reply, CloseReason> {
    let v = request.header.version;
    let id = request.header.correlation_id;
    match request.header.api {
        Api::Produce => Box::pin(records::produce(b, c, busy, request)).await,
        Api::Fetch => Box::pin(records::fetch(b, c, busy, request)).await,
        Api::ApiVersions if request.is_unknown_api_versions() => {
            let response = handler::api_versions::unsupported(&b.image());
            Ok(Reply::Send(kafka::encode_response(
                Api::ApiVersions,
                0,
                id,
                &response,
            )?))
        }
        Api::ApiVersions => {
            run(request, async |r| {
                handler::api_versions::handle(b, &c.software, &r, v)
            })
            .await
        }
        Api::ListOffsets | Api::OffsetForLeaderEpoch | Api::DeleteRecords => {
            Box::pin(records::positions(b, request)).await
        }
        Api::InitProducerId
        | Api::AddPartitionsToTxn
        | Api::AddOffsetsToTxn
        | Api::EndTxn
        | Api::WriteTxnMarkers
        | Api::DescribeProducers
        | Api::DescribeTransactions
        | Api::ListTransactions => Box::pin(transactions::answer(b, c, request)).await,
        Api::CreateTopics
        | Api::DeleteTopics
        | Api::CreatePartitions
        | Api::AlterConfigs
        | Api::AlterClientQuotas
        | Api::AlterUserScramCredentials
        | Api::AlterPartitionReassignments
        | Api::UpdateFeatures
        | Api::DescribeQuorum
        | Api::IncrementalAlterConfigs => Box::pin(change(b, c, request)).await,
        Api::Metadata
        | Api::DescribeCluster
        | Api::DescribeTopicPartitions
        | Api::DescribeConfigs => Box::pin(describe(b, c, request)).await,
        Api::DescribeClientQuotas
        | Api::DescribeUserScramCredentials
        | Api::ElectLeaders
        | Api::ListPartitionReassignments
        | Api::AlterReplicaLogDirs
        | Api::DescribeLogDirs
        | Api::GetTelemetrySubscriptions
        | Api::PushTelemetry
        | Api::ListConfigResources => Box::pin(administration::answer(b, c, request)).await,
        api if security::is_about(api) => Box::pin(security::answer(b, c, request)).await,
        _ => Box::pin(groups::answer(b, c, request)).await,
    }
}

/// Requests that change metadata: decided by the controller.
async fn change<P: Platform>(
    b: &Rc<Broker<P>>,
    c: &Context,
    request: Request,
) -> Result<Reply, CloseReason> {
    let v = request.header.version;
    // From this version on, clients know that their quota of changes can be used up.
    let strict_since = match request.header.api {
        Api::CreateTopics => 6,
        Api::DeleteTopics => 5,
        _ => 3,
    };
    let caller = Caller {
        client_id: c.client_id.clone(),
        strict: v >= strict_since,
    };
    match request.header.api {
        Api::CreateTopics => {
            gated(b, c, request, async move |c, r| {
                c.create_topics(&r, &caller).await
            })
            .await
        }
        Api::DeleteTopics => {
            gated(b, c, request, async move |c, r| {
                c.delete_topics(&r, v, &caller).await
            })
            .await
        }
        Api::CreatePartitions => {
            gated(b, c, request, async move |c, r| {
                c.create_partitions(&r, &caller).await
            })
            .await
        }
        Api::AlterConfigs => {
            controlled(b, c, request, async |c, r| c.alter_configs(&r).await).await
        }
        Api::AlterPartitionReassignments => {
            controlled(b, c, request, async |c, r| {
                c.alter_partition_reassignments(&r).await
            })
            .await
        }
        Api::UpdateFeatures => {
            controlled(b, c, request, async move |c, r| {
                c.update_features(&r, v).await
            })
            .await
        }
        Api::DescribeQuorum => {
            controlled(b, c, request, async move |c, r| {
                handler::describe_quorum::handle(c.quorum(), &r, v)
            })
            .await
        }
        _ => change_clients_or_settings(b, c, request).await,
    }
}

/// The same about clients and settings.
async fn change_clients_or_settings<P: Platform>(
    b: &Rc<Broker<P>>,
    c: &Context,
    request: Request,
) -> Result<Reply, CloseReason> {
    match request.header.api {
        Api::AlterUserScramCredentials => {
            controlled(b, c, request, async |c, r| {
                c.alter_user_scram_credentials(&r).await
            })
            .await
        }
        Api::AlterClientQuotas => {
            controlled(b, c, request, async |c, r| c.alter_client_quotas(&r).await).await
        }
        _ => {
            controlled(b, c, request, async |c, r| {
                c.incremental_alter_configs(&r).await
            })
            .await
        }
    }
}

/// As [`controlled`], for what a quota of changes holds back.
async fn gated<P, T, R, F>(
    broker: &Rc<Broker<P>>,
    context: &Context,
    request: Request,
    work: F,
) -> Result<Reply, CloseReason>
where
    P: Platform,
    T: wire::protocol::Request + Send + 'static,
    R: Encodable + Send + 'static,
    F: AsyncFnOnce(Rc<Controller<P>>, T) -> (R, Duration) + Send + 'static,
{
    let is_large = request.body.len() > LARGE_BYTES;
    let (header, asked) = decoded_beside(broker, context, request).await?;
    let decide =
        |broker: Rc<Broker<P>>| async move { Some(work(broker.controller().ok()?, asked).await) };
    // What waits for its turn is forgotten with its client.
    let decided = broker.shards.call_abandoned(CONTROLLER_SHARD, decide);
    let (response, pause) = decided.await.flatten().ok_or(CloseReason::Stopping)?;
    broker.metrics.quotas.throttled(Kind::Mutation, pause);
    match encoded_beside(broker, is_large.then_some(context), header, response).await? {
        Reply::Send(response) if !pause.is_zero() => Ok(Reply::Pause(Some(response), pause)),
        reply => Ok(reply),
    }
}

/// As [`run`], on the shard of the controller.
async fn controlled<P, T, R, F>(
    broker: &Rc<Broker<P>>,
    context: &Context,
    request: Request,
    work: F,
) -> Result<Reply, CloseReason>
where
    P: Platform,
    T: wire::protocol::Request + Send + 'static,
    R: Encodable + Send + 'static,
    F: AsyncFnOnce(Rc<Controller<P>>, T) -> R + Send + 'static,
{
    let is_large = request.body.len() > LARGE_BYTES;
    let (header, asked) = decoded_beside(broker, context, request).await?;
    let decide =
        |broker: Rc<Broker<P>>| async move { Some(work(broker.controller().ok()?, asked).await) };
    let decided = broker.shards.call_abandoned(CONTROLLER_SHARD, decide);
    let response = decided.await.flatten().ok_or(CloseReason::Stopping)?;
    encoded_beside(broker, is_large.then_some(context), header, response).await
}

/// Requests that are answered from the image.
async fn describe<P: Platform>(
    b: &Rc<Broker<P>>,
    c: &Context,
    request: Request,
) -> Result<Reply, CloseReason> {
    let v = request.header.version;
    let cluster_id = &b.log_dirs.cluster_id;
    let node = b.options.node_id;
    match request.header.api {
        Api::Metadata => {
            run(request, async |r| {
                if b.options.auto_create_topics {
                    let rules = Rules {
                        image: &b.image(),
                        options: &b.options,
                    };
                    match handler::metadata::missing(rules, &r, v).await {
                        Ok(missing) if missing.is_empty() => {}
                        Ok(missing) => b.create_asked(c.peer.ip(), missing).await,
                        Err(TooMany(topics)) => {
                            b.making.warn_too_many(topics, b.platform.clock().now());
                        }
                    }
                }
                let asked = handler::metadata::Asked {
                    listener: &c.listener,
                    cluster_id,
                    node,
                    version: v,
                };
                handler::metadata::handle(&b.image(), asked, &r).await
            })
            .await
        }
        Api::DescribeCluster => {
            run(request, async |r| {
                handler::describe_cluster::handle(&b.image(), &c.listener, cluster_id, node, &r, v)
            })
            .await
        }
        Api::DescribeTopicPartitions => {
            run(request, async |r| {
                let image = b.image();
                let described =
                    handler::describe_topic_partitions::handle(&image, &c.listener, &r).await;
                described
                    .unwrap_or_else(|code| handler::describe_topic_partitions::refuse(&r, code))
            })
            .await
        }
        _ => {
            run(request, async |r| {
                let rules = Rules {
                    image: &b.image(),
                    options: &b.options,
                };
                let room = Room::of(&b.answers, c.peer.ip());
                handler::describe_configs::handle(rules, &r, v, &room).await
            })
            .await
        }
    }
}

/// Decodes the body, runs the handler, encodes its answer.
async fn run<T: wire::protocol::Request, R: Encodable>(
    request: Request,
    handle: impl AsyncFnOnce(T) -> R,
) -> Result<Reply, CloseReason> {
    let (header, asked) = decoded(request)?;
    let response = handle(asked).await;
    encoded(&header, &response)
}

/// As [`run`], for a request that may name very many things. Whoever handles it gives its place up before it waits for disks.
async fn run_many<P, T, R>(
    broker: &Rc<Broker<P>>,
    context: &Context,
    request: Request,
    handle: impl AsyncFnOnce(T, Option<Place>) -> R,
) -> Result<Reply, CloseReason>
where
    P: Platform,
    T: wire::protocol::Request + Send + 'static,
    R: Encodable + Send + 'static,
{
    let is_large = request.body.len() > LARGE_BYTES;
    let place = broker
        .place_for_bytes(request.body.len(), context.peer.ip())
        .await;
    let (header, asked) = decoded_beside(broker, context, request).await?;
    let response = handle(asked, place).await;
    encoded_beside(broker, is_large.then_some(context), header, response).await
}

/// Decodes a large request where it holds up nobody.
async fn decoded_beside<P, T>(
    broker: &Rc<Broker<P>>,
    context: &Context,
    request: Request,
) -> Result<(RequestHeader, T), CloseReason>
where
    P: Platform,
    T: wire::protocol::Request + Send + 'static,
{
    if request.body.len() <= LARGE_BYTES {
        return decoded(request);
    }
    let decode = move || decoded(request);
    let done = Box::pin(broker.beside(context.peer.ip(), decode)).await;
    done.unwrap_or(Err(CloseReason::Stopping))
}

/// Encodes the answer to a large request in the same way.
async fn encoded_beside<P, R>(
    broker: &Rc<Broker<P>>,
    large: Option<&Context>,
    header: RequestHeader,
    response: R,
) -> Result<Reply, CloseReason>
where
    P: Platform,
    R: Encodable + Send + 'static,
{
    let Some(context) = large else {
        return encoded(&header, &response);
    };
    let encode = move || encoded(&header, &response);
    let done = Box::pin(broker.beside(context.peer.ip(), encode)).await;
    done.unwrap_or(Err(CloseReason::Stopping))
}

fn decoded<T: wire::protocol::Request>(
    request: Request,
) -> Result<(RequestHeader, T), CloseReason> {
    let Request { header, body } = request;
    let asked = kafka::decode_request(header.version, &body, DECODED_BYTES_MAX);
    let asked = asked.map_err(|source| malformed(&header, source))?;
    Ok((header, asked))
}

fn encoded<R: Encodable>(header: &RequestHeader, response: &R) -> Result<Reply, CloseReason> {
    let RequestHeader {
        api,
        version,
        correlation_id,
        ..
    } = header;
    Ok(Reply::Send(kafka::encode_response(
        *api,
        *version,
        *correlation_id,
        response,
    )?))
}

fn malformed(header: &RequestHeader, source: DecodeError) -> CloseReason {
    CloseReason::Body {
        api: header.api.name(),
        version: header.version,
        client: header.client_id.to_string(),
        source,
    }
}
