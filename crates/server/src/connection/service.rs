//! What answers requests, as a connection sees it.

use std::cell::RefCell;
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

pub use broker::handler::ClientSoftware;

/// Turns the frames of one connection into replies. One per shard; a broker in production.
pub trait Service: 'static {
    /// Takes one request: the frame without its four bytes of length.
    ///
    /// The work must begin in the first poll of the future, not here: the connection may hold it
    /// back until the requests before it are answered. A future that has been polled is polled
    /// until it is ready, even when the peer has gone (for [`super::Limits::abandoned_max`] at
    /// most), unless it only reads.
    fn call(&self, context: &RequestContext, frame: Bytes) -> Called<impl Future<Output = Reply>>;
}

/// A request that was taken.
#[derive(Debug)]
pub struct Called<F> {
    /// It may begin while requests before it that say the same are still waiting. What it does in
    /// its first poll is done in the order of the requests.
    pub overlaps: bool,
    /// It changes nothing: it may be dropped when nobody waits for its answer any more.
    pub only_reads: bool,
    /// The rest of it.
    pub future: F,
}

/// What comes of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// A whole response frame, its length included, one part after the other.
    Send(Vec<Bytes>),
    /// The same, possibly nothing; and no further request is begun or read for so long.
    Pause(Vec<Bytes>, Duration),
    /// No answer at all (Produce with acks=0).
    Nothing,
    /// The connection is closed, for this reason.
    Close(String),
}

/// Where a request comes from.
#[derive(Debug)]
pub struct RequestContext {
    /// Number of the connection, unique in this process.
    pub connection: u64,
    /// The other end.
    pub peer: SocketAddr,
    /// Name of the listener that accepted it.
    pub listener: Arc<str>,
    /// What the client says it is. Kept here for the service, which reads it from
    /// `ApiVersions`.
    pub client: Rc<RefCell<ClientSoftware>>,
}
