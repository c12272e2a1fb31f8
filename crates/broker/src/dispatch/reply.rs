//! The outcome of a request: a response, or the end of its connection.

use std::time::Duration;

use wire::error::{DecodeError, EncodeError, FrameError};
use wire::kafka::{Api, RequestHeader, Response};
use wire::types::ErrorCode;

/// The outcome of a request.
#[derive(Debug)]
pub enum Reply {
    /// A response.
    Send(Response),
    /// A response, if the client wants one; the broker reads nothing from the connection for this
    /// long, because a quota is used up.
    Pause(Option<Response>, Duration),
    /// No response, because the client wants none.
    Nothing,
    /// The connection must end: the bytes are not a supported request, or the response cannot be
    /// encoded.
    Close(CloseReason),
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
        /// The client id.
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
    /// The client lacks a right that the whole request needs.
    #[error("the client may not ask for {0:?}")]
    NotAllowed(Api),
    /// The shard that would answer is stopping.
    #[error("the broker is stopping")]
    Stopping,
}

impl CloseReason {
    /// Returns the reason to close a connection whose request does not decode.
    pub(crate) fn malformed(header: &RequestHeader, source: DecodeError) -> Self {
        Self::Body {
            api: header.api.name(),
            version: header.version,
            client: header.client_id.to_string(),
            source,
        }
    }
}
