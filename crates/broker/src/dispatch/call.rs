//! The steps of every request: take a place, decode, check the rights, run the handler where the
//! row says, encode the response.
//!
//! Invariants: the steps run in this order, and only the handler waits for clients or disks. The
//! rights are checked once the request is decoded, because they are rights on what it names, and by
//! the ACLs of that moment: the request may have waited for its place. Produce and Fetch have
//! codecs of their own, so their handlers respond without these steps; a Produce, which overlaps
//! others, waits for nothing before its appends begin. It does not charge quotas (`pace.rs`), or
//! know an API (`dispatch.rs`).

use std::cell::Cell;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::ops::Deref;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use platform::Platform;
use platform::task::Heavy;
use wire::error::EncodeError;
use wire::kafka::shape::DECODED_BYTES_MAX;
use wire::kafka::{self, Request, RequestHeader, Response};
use wire::protocol::Encodable;

use super::errors::{self, Errors};
use super::guards::{Asker, Checks};
use super::homes::{self, OfGroup, OfTransaction};
use super::reply::{CloseReason, Reply};
use super::row::{Quota, Row, Runs, Size};
use crate::Broker;
use crate::access::Access;
use crate::audit::AuditedRequest;
use crate::broker::Groups;
use crate::controller::{Caller, Controller};
use crate::handler::Context;
use crate::many::{LARGE_BYTES, RequestPlace};
use crate::names::CONTROLLER_SHARD;
use crate::quota::{QuotaKind, RequestTime};
use crate::transaction;

/// A request in progress.
pub(super) struct Call<'a, P: Platform> {
    pub(super) broker: &'a Rc<Broker<P>>,
    /// The client that sent it.
    pub(super) context: &'a Context,
    /// What that client might do when the request began.
    access: Access,
    /// Measures the time that it takes, if that is charged.
    pub(super) busy: &'a RequestTime,
    pub(super) header: RequestHeader,
    pub(super) row: &'static Row,
    body_bytes: usize,
    body: Cell<Bytes>,
}

impl<'a, P: Platform> Call<'a, P> {
    pub(super) fn new(
        broker: &'a Rc<Broker<P>>,
        context: &'a Context,
        busy: &'a RequestTime,
        row: &'static Row,
        Request { header, body }: Request,
    ) -> Self {
        Self {
            broker,
            context,
            access: Access::of(broker, context, header.api),
            busy,
            row,
            header,
            body_bytes: body.len(),
            body: Cell::new(body),
        }
    }

    /// Takes the body; works once.
    pub(super) fn take_body(&self) -> Bytes {
        self.body.take()
    }

    /// Returns the size of the body.
    pub(super) const fn body_bytes(&self) -> usize {
        self.body_bytes
    }

    /// Returns true for a large request: a thread outside the shard decodes it.
    fn is_decoded_beside(&self) -> bool {
        self.body_bytes > LARGE_BYTES
    }

    /// Returns true for a large request whose items take long to encode, too.
    ///
    /// Other responses are encoded on the shard, because one that waits in that thread's queue is
    /// not counted.
    fn is_encoded_beside(&self) -> bool {
        let is_of_many = self.row.runs == Runs::Controller || self.row.size == Size::Own;
        is_of_many && self.body_bytes > LARGE_BYTES
    }

    /// Returns what the client may do now.
    pub(super) fn access(&self) -> Access {
        self.access.now(self.broker)
    }

    /// Returns what the client might do when the request began, for a handler that waits for
    /// nothing before it judges, or that asks again after it has waited.
    pub(super) const fn access_at_first(&self) -> &Access {
        &self.access
    }

    /// Returns the request for an auditor, if events are wanted.
    pub(super) fn audited(&self) -> Option<AuditedRequest> {
        AuditedRequest::of(&self.broker.options.audit, self.context, self.header.api)
    }

    /// Returns the client's address.
    pub(super) fn ip(&self) -> IpAddr {
        self.context.peer.ip()
    }

    /// Runs slow work that needs nothing of the shard on another thread, at the client's expense.
    async fn beside<R: Send + 'static>(
        &self,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Option<R> {
        let payer = (self.ip(), self.busy);
        self.broker.beside_for(payer, work).await
    }

    fn asserts_it_runs(&self, runs: &[Runs]) {
        let row = self.row.runs;
        assert!(runs.contains(&row), "a request runs where its row says");
    }
}

/// A call, with the step of its row that checks the rights.
pub(super) struct GuardedCall<'a, P: Platform, G> {
    call: &'a Call<'a, P>,
    step: PhantomData<G>,
}

impl<'a, P: Platform, G> GuardedCall<'a, P, G> {
    pub(super) const fn of(call: &'a Call<'a, P>) -> Self {
        let step = PhantomData;
        Self { call, step }
    }
}

impl<'a, P: Platform, G> Deref for GuardedCall<'a, P, G> {
    type Target = Call<'a, P>;

    fn deref(&self) -> &Call<'a, P> {
        self.call
    }
}

/// Handles a request on the shard of its connection.
pub(super) async fn here<P, G, T, R>(
    call: &GuardedCall<'_, P, G>,
    work: impl AsyncFnOnce(T) -> R,
) -> Result<Reply, Box<CloseReason>>
where
    P: Platform,
    G: Checks<T>,
    T: wire::protocol::Request<Response = R> + Send + 'static,
    R: Encodable + Errors + Send + 'static,
{
    call.asserts_it_runs(&[Runs::Here, Runs::Partitions]);
    let work = async |asked, _| Ok((work(asked).await, Duration::ZERO));
    carried_out(call, work).await
}

/// Handles a request about very many things on the shard of its connection, with its place.
///
/// The handler gives the place up before it waits for disks.
pub(super) async fn with_place<P, G, T, R>(
    call: &GuardedCall<'_, P, G>,
    work: impl AsyncFnOnce(T, Option<RequestPlace>) -> R,
) -> Result<Reply, Box<CloseReason>>
where
    P: Platform,
    G: Checks<T>,
    T: wire::protocol::Request<Response = R> + Send + 'static,
    R: Encodable + Errors + Send + 'static,
{
    call.asserts_it_runs(&[Runs::Here, Runs::Partitions]);
    let work = async |asked, place| Ok((work(asked, place).await, Duration::ZERO));
    carried_out(call, work).await
}

/// Handles a request on the shard of the controller, subject to the controller mutation quota.
pub(super) async fn gated<P, G, T, R, F>(
    call: &GuardedCall<'_, P, G>,
    work: F,
) -> Result<Reply, Box<CloseReason>>
where
    P: Platform,
    G: Checks<T>,
    T: wire::protocol::Request<Response = R> + Send + 'static,
    R: Encodable + Errors + Send + 'static,
    F: AsyncFnOnce(Rc<Controller<P>>, Heavy<T>, Caller) -> (R, Duration) + Send + 'static,
{
    call.asserts_it_runs(&[Runs::Controller]);
    let version = call.header.version;
    let caller = Caller {
        principal: call.context.session.principal(),
        client_id: call.context.client_id.clone(),
        strict: matches!(call.row.quota, Quota::Mutations { strict_since } if version >= strict_since),
        access: call.access.clone(),
        audited: call.audited().map(Box::new),
    };
    let broker = call.broker;
    let is_heavy = call.is_encoded_beside();
    let work = async |asked: T, _| {
        let asked = Heavy::new(asked, is_heavy);
        let decide = |broker: Rc<Broker<P>>| async move {
            Some(work(broker.controller().ok()?, asked, caller).await)
        };
        // A request that waits for its turn is dropped with its client.
        let decided = broker.shards.call_abandoned(CONTROLLER_SHARD, decide);
        let (response, pause) = decided.await.flatten().ok_or(CloseReason::Stopping)?;
        broker.metrics.quotas.throttled(QuotaKind::Mutation, pause);
        Ok((response, pause))
    };
    carried_out(call, work).await
}

/// Handles a request on the shard of the controller, without that quota.
pub(super) async fn controlled<P, G, T, R, F>(
    call: &GuardedCall<'_, P, G>,
    work: F,
) -> Result<Reply, Box<CloseReason>>
where
    P: Platform,
    G: Checks<T>,
    T: wire::protocol::Request<Response = R> + Send + 'static,
    R: Encodable + Errors + Send + 'static,
    F: AsyncFnOnce(Rc<Controller<P>>, Heavy<T>, Caller) -> R + Send + 'static,
{
    let unpaused = async move |controller, asked, caller| {
        (work(controller, asked, caller).await, Duration::ZERO)
    };
    gated(call, unpaused).await
}

/// The broker and the groups of the shard on which a group lives.
pub(super) struct GroupHome<P: Platform> {
    pub(super) broker: Rc<Broker<P>>,
    pub(super) groups: Rc<Groups<P>>,
}

/// Handles a request about one group on the group's shard.
pub(super) async fn at_group<P, G, T, R, F>(
    call: &GuardedCall<'_, P, G>,
    work: F,
) -> Result<Reply, Box<CloseReason>>
where
    P: Platform,
    G: Checks<T>,
    T: OfGroup<Response = R>,
    R: Encodable + Errors + Send + 'static,
    F: AsyncFnOnce(GroupHome<P>, T) -> R + Send + 'static,
{
    call.asserts_it_runs(&[Runs::Group]);
    let broker = call.broker;
    let work = async |asked: T, _| {
        let home = homes::home_of(broker, asked.group());
        let answered = broker.shards.call(home, |broker| async move {
            let groups = Rc::clone(&broker.groups);
            work(GroupHome { broker, groups }, asked).await
        });
        Ok((answered.await.ok_or(CloseReason::Stopping)?, Duration::ZERO))
    };
    carried_out(call, work).await
}

/// Handles a request about one transactional id on the id's shard.
pub(super) async fn at_transaction<P, G, T, R, F>(
    call: &GuardedCall<'_, P, G>,
    work: F,
) -> Result<Reply, Box<CloseReason>>
where
    P: Platform,
    G: Checks<T>,
    T: OfTransaction<Response = R>,
    R: Encodable + Errors + Send + 'static,
    F: AsyncFnOnce(Rc<Broker<P>>, T) -> R + Send + 'static,
{
    call.asserts_it_runs(&[Runs::Transaction]);
    let broker = call.broker;
    let work = async |asked: T, _| {
        // A request without an id is handled on this shard.
        let id = asked.id();
        let home = id.map_or(broker.shards.me(), |id| transaction::home_of(broker, id));
        let answered = broker
            .shards
            .call(home, |broker| async move { work(broker, asked).await });
        Ok((answered.await.ok_or(CloseReason::Stopping)?, Duration::ZERO))
    };
    carried_out(call, work).await
}

/// Runs all steps of a request except the charge.
///
/// `work` returns the response, and for how long the connection is throttled.
async fn carried_out<P, G, T, R>(
    call: &GuardedCall<'_, P, G>,
    work: impl AsyncFnOnce(T, Option<RequestPlace>) -> Result<(R, Duration), Box<CloseReason>>,
) -> Result<Reply, Box<CloseReason>>
where
    P: Platform,
    G: Checks<T>,
    T: wire::protocol::Request<Response = R> + Send + 'static,
    R: Encodable + Errors + Send + 'static,
{
    // Until the response is sent, each item takes many times the memory that it takes in the
    // request.
    let place = match call.row.size {
        Size::Few => None,
        Size::Many | Size::Own => {
            let bytes = call.body_bytes();
            call.broker.place_for_bytes(bytes, call.ip()).await
        }
    };
    let (_kept, given) = match call.row.size {
        Size::Own => (None, place),
        Size::Few | Size::Many => (place, None),
    };
    // What waits is boxed, so that it does not enlarge the futures of requests that need none of
    // it.
    let asked = if call.is_decoded_beside() {
        Box::pin(decoded_beside(call)).await?
    } else {
        decoded(call)?
    };
    let refused = if call.access.is_limited() {
        Box::pin(refusal(call, &asked)).await
    } else {
        None
    };
    let (response, pause) = match refused {
        Some(refused) => (*refused, Duration::ZERO),
        None => work(asked, given).await?,
    };
    errors::count(&call.broker.metrics, call.header.api, &response);
    let response = if call.is_encoded_beside() {
        Box::pin(encoded_beside(call, response)).await?
    } else {
        encoded(&call.header, &response)?
    };
    Ok(if pause.is_zero() {
        Reply::Send(response)
    } else {
        Reply::Pause(Some(response), pause)
    })
}

/// Returns the response of a request that the step before its handler refuses, boxed because few
/// have one.
async fn refusal<P, G, T>(call: &GuardedCall<'_, P, G>, asked: &T) -> Option<Box<T::Response>>
where
    P: Platform,
    G: Checks<T>,
    T: wire::protocol::Request,
{
    assert!(call.access.is_limited(), "others are refused nothing");
    // The request may have waited for its place, or for the thread that decodes.
    let access = call.access();
    let by = Asker {
        rights: call.row.rights,
        access: &access,
        version: call.header.version,
    };
    G::refusal(&by, asked).await.map(Box::new)
}

/// Decodes the body.
fn decoded<P, T>(call: &Call<'_, P>) -> Result<T, Box<CloseReason>>
where
    P: Platform,
    T: wire::protocol::Request,
{
    let asked = kafka::decode_request(call.header.version, &call.take_body(), DECODED_BYTES_MAX);
    asked.map_err(|source| CloseReason::malformed(&call.header, source).into())
}

/// Decodes the body off the shard.
async fn decoded_beside<P, T>(call: &Call<'_, P>) -> Result<T, Box<CloseReason>>
where
    P: Platform,
    T: wire::protocol::Request + Send + 'static,
{
    let (body, version) = (call.take_body(), call.header.version);
    let decode = move || kafka::decode_request(version, &body, DECODED_BYTES_MAX);
    let asked = call.beside(decode).await;
    let asked = asked.ok_or(CloseReason::Stopping)?;
    asked.map_err(|source| CloseReason::malformed(&call.header, source).into())
}

/// Encodes the response.
fn encoded<R: Encodable>(header: &RequestHeader, response: &R) -> Result<Response, EncodeError> {
    kafka::encode_response(header.api, header.version, header.correlation_id, response)
}

/// Encodes the response off the shard.
async fn encoded_beside<P, R>(call: &Call<'_, P>, response: R) -> Result<Response, Box<CloseReason>>
where
    P: Platform,
    R: Encodable + Send + 'static,
{
    let RequestHeader {
        api,
        version,
        correlation_id,
        ..
    } = call.header;
    let encode = move || kafka::encode_response(api, version, correlation_id, &response);
    let encoded = call.beside(encode).await;
    Ok(encoded.ok_or(CloseReason::Stopping)??)
}
