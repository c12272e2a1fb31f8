//! What a connection asks and gets: it gives a frame, and gets a response or the end of it.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use wire::error::{DecodeError, EncodeError, FrameError};
use wire::kafka::{Api, RequestHeader, Response};
use wire::sasl::{Mechanism, Refusal};
use wire::text::cut;
use wire::types::ErrorCode;

use crate::handler::Context;
use crate::session::Session;

/// Answers the requests of connections: the broker, or what a test puts in its place.
pub trait Service: 'static {
    /// Takes one request: the frame without its four bytes of length.
    ///
    /// The work must begin in the first poll of the reply, not in this call: the connection may
    /// hold it back until the requests before it are answered. A reply that was polled is polled
    /// until it is ready, even without a peer (for a limited time), unless it only reads.
    fn call(&self, context: Context, frame: Bytes) -> ParsedRequest<impl Future<Output = Reply>>;

    /// Returns the session with which a connection to a listener begins.
    fn session(&self, _listener: &str) -> Session {
        Session::default()
    }
}

/// How much of a client id the log has.
const CLIENT_BYTES_MAX: usize = 256;

/// The work on a request.
pub(crate) type ReplyFuture = Pin<Box<dyn Future<Output = Reply>>>;

/// A request that is parsed and ready to run.
pub struct ParsedRequest<F = ReplyFuture> {
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

/// The outcome of a request.
///
/// Reasons are boxed: a reply is moved a dozen times, and only the last of a connection has one.
#[derive(Debug)]
pub enum Reply {
    /// A response.
    Send(Response),
    /// A response, if the client wants one; the broker reads nothing from the connection for this
    /// long, because a quota is used up.
    Pause(Option<Response>, Duration),
    /// No response, because the client wants none.
    Nothing,
    /// A response, and then the end of the connection.
    Last(Response, Box<CloseReason>),
    /// The connection must end: the bytes are not a supported request, or the response cannot be
    /// encoded.
    Close(Box<CloseReason>),
}

/// Why a connection must end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// The frame has no supported header.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The body does not decode.
    #[error("{api} version {version} from client {client:?}: {source}")]
    Body {
        /// Name of the API.
        api: &'static str,
        /// Its version.
        version: i16,
        /// The client id; the beginning, if it is long.
        client: String,
        /// The decoding error.
        source: DecodeError,
    },
    /// The response cannot be encoded, which is a bug of the broker.
    #[error(transparent)]
    Answer(#[from] EncodeError),
    /// A produce request failed whose client wants no response: closing the connection is the only
    /// signal.
    #[error("a produce request with acks=0 failed: {0:?}")]
    Unanswered(ErrorCode),
    /// There is no memory left for this response, because clients have not read theirs; the client
    /// may retry.
    #[error("the answer to {0:?} finds no room among those that clients have not taken yet")]
    NoRoom(Api),
    /// The client has not logged in as it has to.
    #[error(transparent)]
    Login(#[from] LoginFailure),
    /// The shard that would answer is stopping.
    #[error("the broker is stopping")]
    Stopping,
}

/// Why a login fails: for the log of the broker. It tells nothing of what the client sent: what
/// should be a name may be a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginFailure {
    /// Another request than those of a login.
    #[error("{0:?} before the login is complete")]
    Unexpected(Api),
    /// A mechanism that the listener does not have.
    #[error("login by a mechanism that the listener does not have")]
    Mechanism,
    /// The exchange has failed.
    #[error("login by {name} failed: {1}", name = .0.name())]
    Refused(Mechanism, Refusal),
    /// A login again by another mechanism.
    #[error("login again by another mechanism")]
    OtherMechanism,
    /// A new login as another principal.
    #[error("login again as another principal")]
    OtherPrincipal,
    /// The session has ended, and the client has not logged in again.
    #[error("the session is over (connections.max.reauth.ms, or the end of its token)")]
    Expired,
    /// Something after a failed login.
    #[error("a request after a failed login")]
    After,
}

impl LoginFailure {
    /// Returns the failure that the client of the session was told and has not confirmed: clients
    /// that end the connection instead (some libraries do) have failed all the same.
    pub fn unconfirmed(session: &Session) -> Option<Self> {
        let refusal = session.rejection()?;
        Some(Self::Refused(Mechanism::Oauthbearer, refusal))
    }
}

impl From<EncodeError> for Box<CloseReason> {
    fn from(error: EncodeError) -> Self {
        Self::new(error.into())
    }
}

impl CloseReason {
    /// Returns the reason to close a connection whose request does not decode.
    pub(crate) fn malformed(header: &RequestHeader, source: DecodeError) -> Self {
        Self::Body {
            api: header.api.name(),
            version: header.version,
            // It may be of 32 KiB, and of a stranger's making.
            client: cut(&header.client_id, CLIENT_BYTES_MAX).to_owned(),
            source,
        }
    }
}
