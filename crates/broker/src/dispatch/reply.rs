//! What comes of a request: an answer, or the end of its connection.

use std::time::Duration;

use wire::error::{DecodeError, EncodeError, FrameError};
use wire::kafka::{Api, Response};
use wire::types::ErrorCode;

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
    /// Who asks has not the right that the whole of it needs.
    #[error("the client may not ask for {0:?}")]
    NotAllowed(Api),
    /// Whoever would answer is stopping.
    #[error("the broker is stopping")]
    Stopping,
}
