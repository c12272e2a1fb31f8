//! A client without a socket: encodes requests as clients do, hands the frame to `dispatch`,
//! decodes the answer.

use std::cell::RefCell;
use std::future::Future;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use broker::dispatch::{CloseReason, ParsedRequest, Reply, call};
use broker::handler::{ClientSoftware, Context};
use broker::session::Session;
use bytes::{Bytes, BytesMut};
use wire::kafka::Api;
use wire::messages::{RequestHeader, ResponseHeader};
use wire::protocol::{Decodable, Encodable, Request};
use wire::types::Uuid;
use wire::{StrBytes, types::TopicId};

use super::{Cluster, SimBroker};

const CORRELATION_ID: i32 = 4711;

/// The frame of a request, without its length.
pub(crate) fn frame<R: Request>(version: i16, request: &R) -> Bytes {
    frame_of("harness", version, request)
}

/// The frame of a request from a client with this id.
pub(crate) fn frame_of<R: Request>(client: &'static str, version: i16, request: &R) -> Bytes {
    let mut frame = header_of(client, R::KEY, version);
    request
        .encode(&mut frame, version)
        .unwrap_or_else(|error| panic!("{} {version}: {error}", R::KEY));
    frame.freeze()
}

/// The header of a request.
pub(crate) fn header(key: i16, version: i16) -> BytesMut {
    header_of("harness", key, version)
}

fn header_of(client: &'static str, key: i16, version: i16) -> BytesMut {
    let api = Api::from_key(key).expect("a served API");
    let mut frame = BytesMut::new();
    RequestHeader::default()
        .with_request_api_key(key)
        .with_request_api_version(version)
        .with_correlation_id(CORRELATION_ID)
        .with_client_id(Some(StrBytes::from_static_str(client)))
        .encode(&mut frame, api.request_header_version(version))
        .expect("a header");
    frame
}

/// Decodes the answer to a request of this version; it must be answered, and by nothing more than
/// the answer.
pub(crate) fn decode<R: Request>(version: i16, reply: Reply) -> R::Response {
    let api = Api::from_key(R::KEY).expect("a served API");
    let response = match reply {
        Reply::Send(response) | Reply::Pause(Some(response), _) => response,
        other => panic!("{} {version} is not answered: {other:?}", api.name()),
    };
    let mut bytes = response.to_bytes();
    let length = bytes.split_to(4);
    assert_eq!(
        length[..],
        u32::try_from(bytes.len()).unwrap().to_be_bytes()
    );
    let header = ResponseHeader::decode(&mut bytes, api.response_header_version(version));
    assert_eq!(header.expect("a header").correlation_id, CORRELATION_ID);
    let response = R::Response::decode(&mut bytes, version);
    let response =
        response.unwrap_or_else(|error| panic!("answer of {} {version}: {error}", api.name()));
    assert!(bytes.is_empty(), "{} {version}: bytes are left", api.name());
    response
}

thread_local! {
    /// As in the server, a session is not made for each request. All clients of a cluster that need
    /// not show who they are share this one.
    static OPEN: RefCell<Rc<Session>> = RefCell::default();
}

/// Forgets what the sessions with an earlier cluster know.
pub(super) fn begin_sessions() {
    OPEN.take();
}

fn context() -> Context {
    Context {
        listener: Arc::from("PLAINTEXT"),
        peer: ([127, 0, 0, 1], 50_000).into(),
        software: Rc::default(),
        session: OPEN.with(|open| Rc::clone(&open.borrow())),
        client_id: StrBytes::default(),
        frame_bytes: 0,
    }
}

/// A frame's fate on a connection whose client has said what it is.
pub(crate) fn called_as(
    broker: &SimBroker,
    software: &Rc<RefCell<ClientSoftware>>,
    frame: &Bytes,
) -> ParsedRequest {
    let software = Rc::clone(software);
    let context = Context {
        software,
        ..context()
    };
    call(broker, context, frame)
}

pub(crate) fn called(broker: &SimBroker, frame: &Bytes) -> ParsedRequest {
    call(broker, context(), frame)
}

impl Cluster {
    /// A frame's fate on the connection of some shard.
    pub(crate) fn reply(
        &self,
        shard: usize,
        frame: &Bytes,
    ) -> impl Future<Output = Reply> + 'static + use<> {
        called(&self.brokers[shard], frame).reply
    }

    /// Asks the first shard.
    pub(crate) async fn ask<R: Request>(&self, version: i16, request: &R) -> R::Response {
        self.ask_at(0, version, request).await
    }

    /// Asks over one connection, which remembers what the client has said it is.
    pub(crate) async fn ask_as<R: Request>(
        &self,
        software: &Rc<RefCell<ClientSoftware>>,
        version: i16,
        request: &R,
    ) -> R::Response {
        let frame = frame(version, request);
        let reply = called_as(&self.brokers[0], software, &frame).reply.await;
        decode::<R>(version, reply)
    }

    /// Asks over a connection of some shard.
    pub(crate) async fn ask_at<R: Request>(
        &self,
        shard: usize,
        version: i16,
        request: &R,
    ) -> R::Response {
        self.asking(shard, version, request).await
    }

    /// As [`Cluster::ask_at`], for a task of its own.
    pub(crate) fn asking<R: Request>(
        &self,
        shard: usize,
        version: i16,
        request: &R,
    ) -> impl Future<Output = R::Response> + 'static + use<R> {
        let reply = self.reply(shard, &frame(version, request));
        async move { decode::<R>(version, reply.await) }
    }

    /// As [`Cluster::asking`], over a connection of its own.
    pub(crate) fn asking_in<R: Request>(
        &self,
        session: &Rc<Session>,
        (shard, version): (usize, i16),
        request: &R,
    ) -> impl Future<Output = R::Response> + 'static + use<R> {
        let context = Context {
            session: Rc::clone(session),
            ..context()
        };
        let reply = call(&self.brokers[shard], context, &frame(version, request)).reply;
        async move { decode::<R>(version, reply.await) }
    }

    /// Asks over a connection of the first shard that comes from some address.
    pub(crate) fn asking_from<R: Request>(
        &self,
        peer: IpAddr,
        version: i16,
        request: &R,
    ) -> impl Future<Output = R::Response> + 'static + use<R> {
        let context = Context {
            peer: (peer, 50_000).into(),
            ..context()
        };
        let reply = call(&self.brokers[0], context, &frame(version, request)).reply;
        async move { decode::<R>(version, reply.await) }
    }

    /// Sends what must end the connection.
    pub(crate) async fn refused(&self, frame: &Bytes) -> CloseReason {
        match self.reply(0, frame).await {
            Reply::Close(reason) => *reason,
            other => panic!("answered: {other:?}"),
        }
    }

    pub(crate) fn topic_id(&self, name: &str) -> TopicId {
        let image = self.brokers[0].image();
        image
            .topic_by_name(name)
            .map_or(TopicId(Uuid::nil()), |topic| topic.id)
    }
}
