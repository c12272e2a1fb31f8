//! The service that answers requests, as a connection sees it.

use std::cell::RefCell;
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

pub use broker::handler::ClientSoftware;

/// Turns the frames of one connection into replies. One per shard; in production the broker.
pub trait Service: 'static {
    /// Takes one request: the frame without its four bytes of length.
    ///
    /// The work must begin in the first poll of the future, not in this call: the connection may
    /// hold it back until the requests before it are answered. A future that was polled is polled
    /// until it is ready, even without a peer (for [`super::Limits::abandoned_max`] at most),
    /// unless it only reads.
    fn call(&self, context: &RequestContext, frame: Bytes) -> Called<impl Future<Output = Reply>>;
}

/// A request that was taken.
#[derive(Debug)]
pub struct Called<F> {
    /// True if it may begin while earlier requests that also overlap still wait. The first polls
    /// run in the order of the requests.
    pub overlaps: bool,
    /// True if it changes nothing: it may be dropped when its client is gone.
    pub only_reads: bool,
    /// The work, which ends with the reply.
    pub future: F,
}

/// The outcome of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// A whole response frame in parts, including its length.
    Send(Vec<Bytes>),
    /// The same, possibly empty; no further request is begun or read for this time.
    Pause(Vec<Bytes>, Duration),
    /// No response (Produce with acks=0).
    Nothing,
    /// Closes the connection, for this reason.
    Close(String),
}

/// Where a request comes from.
#[derive(Debug)]
pub struct RequestContext {
    /// Number of the connection, unique in this process.
    pub connection: u64,
    /// Address of the client.
    pub peer: SocketAddr,
    /// Name of the listener that accepted it.
    pub listener: Arc<str>,
    /// The name and version that the client reports. The service stores here what it reads from
    /// `ApiVersions`.
    pub client: Rc<RefCell<ClientSoftware>>,
}
