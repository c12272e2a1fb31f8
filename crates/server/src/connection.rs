//! One connection of a client: frames in, replies out, in order and within limits.
//!
//! `frames` reads, the broker answers, `replies` writes, `watch` enforces the time limits;
//! `conversation` is the loop over them, with the requests in progress, and `transport` is below
//! them all: a socket, with or without TLS. Memory of requests comes from the `budget`, their
//! buffers from `buffers`. This module knows nothing about the contents of a frame, except the two
//! numbers at its start that label metrics.

#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        reason = "numbers of clients reach this: an index out of bounds ends the broker"
    )
)]

mod bell;
mod budget;
mod buffers;
mod conversation;
mod fault_lines;
mod frames;
mod replies;
mod transport;
mod turns;
mod unsent;
mod watch;

use std::fmt;
use std::io;
use std::time::Duration;

use broker::answers::Answers;
use broker::dispatch::{CloseReason, LoginFailure, Service};
use broker::handler::Context;
use tokio::sync::watch as signal;
use tokio::time::Instant;

pub use budget::Budget;
pub use buffers::Buffers;
pub use fault_lines::ClientFaultLines;
pub use frames::ReadError;
pub(crate) use transport::control;
#[cfg(test)]
pub(crate) use transport::harness;
pub use transport::{Scratch, Secured, TlsStream, Transport};
pub use turns::WriteTurns;

use crate::admission::Stranger;
use crate::metrics::RequestMeter;

/// Limits of a connection.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Longest frame.
    pub frame_bytes_max: usize,
    /// Time without activity after which it is closed; `None` never.
    pub idle_max: Option<Duration>,
    /// A frame that has begun and a reply that is being sent must make progress within this time.
    pub stall_max: Duration,
    /// Requests begun and not yet answered.
    pub overlapped_max: usize,
    /// Bytes of requests begun and not yet answered (one may be larger).
    pub overlapped_bytes_max: usize,
    /// How long requests of a disconnected peer continue.
    pub abandoned_max: Duration,
}

/// What the connections of a shard share.
#[derive(Clone)]
pub struct Environment {
    /// Their limits.
    pub limits: Limits,
    /// Memory of requests, in the whole process.
    pub budget: Budget,
    /// Memory of responses, in the whole process.
    pub answers: Answers,
    /// Buffers of this shard.
    pub buffers: Buffers,
    /// Turns for large answers, of this shard.
    pub write_turns: WriteTurns,
    /// Where records of TLS are opened and sealed, of this shard.
    pub scratch: Scratch,
    /// Lines about connections that ended badly, of this shard.
    pub fault_lines: ClientFaultLines,
    /// Counters.
    pub meter: RequestMeter,
    /// True: finish the requests that have begun, then end.
    pub stop: signal::Receiver<bool>,
}

/// Why a connection ended.
#[derive(Debug)]
pub enum End {
    /// The peer closed it, between two frames.
    Closed,
    /// Nothing happened for too long.
    Idle,
    /// A frame or a reply made no progress.
    Stalled,
    /// The client did not log in in time.
    NotLoggedIn,
    /// The client was not logged in, and there were too many like it.
    Crowded,
    /// The peer sent something that is not a frame.
    BadFrame(ReadError),
    /// The service asked to close it.
    Service(CloseReason),
    /// The socket failed.
    Broken(io::Error),
    /// The server is stopping.
    Stopping,
}

impl End {
    /// Returns a word for metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Idle => "idle",
            Self::Stalled => "stalled",
            Self::NotLoggedIn => "not_logged_in",
            Self::Crowded => "crowded",
            Self::Service(CloseReason::Login(_)) => "login",
            Self::BadFrame(_) => "bad_frame",
            Self::Service(_) => "bad_request",
            Self::Broken(_) => "broken",
            Self::Stopping => "stopping",
        }
    }
}

impl End {
    /// Returns the failed login instead of the way its client left, if the client was to confirm
    /// that its token is not accepted. The log would not say why otherwise.
    fn or_unconfirmed(self, unconfirmed: Option<LoginFailure>) -> Self {
        match (self, unconfirmed) {
            (Self::Closed | Self::Idle | Self::NotLoggedIn | Self::Broken(_), Some(failure)) => {
                Self::Service(failure.into())
            }
            (end, _) => end,
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("closed by the peer"),
            Self::Idle => f.write_str("idle for connections.max.idle.ms"),
            Self::Stalled => f.write_str("no progress within socket.stall.timeout.ms"),
            Self::NotLoggedIn => f.write_str("not logged in within authentication.timeout.ms"),
            Self::Crowded => {
                f.write_str("not logged in, and too many are not (max.connections.unauthenticated)")
            }
            Self::BadFrame(error) => error.fmt(f),
            Self::Service(reason) => reason.fmt(f),
            Self::Broken(error) => write!(f, "socket: {error}"),
            Self::Stopping => f.write_str("server is stopping"),
        }
    }
}

/// A connection as it comes to its shard.
pub struct Newcomer {
    /// Its bytes.
    pub transport: Transport,
    /// Its client.
    pub context: Context,
    /// When it was accepted: a login has a certain time from then on.
    pub since: Instant,
    /// Counts it until its client is logged in.
    pub stranger: Option<Stranger>,
}

/// Serves one connection until it ends, and logs a warning if the peer is to blame, unless there
/// were many just now.
pub async fn serve<S: Service>(newcomer: Newcomer, service: &S, environment: &Environment) -> End {
    let Newcomer {
        transport,
        context,
        since,
        stranger,
    } = newcomer;
    let login = conversation::Login::of(&context.session, since, stranger);
    let end = conversation::hold(transport, service, (&context, login), environment).await;
    let end = end.or_unconfirmed(LoginFailure::unconfirmed(&context.session));
    let (peer, listener) = (context.peer, &*context.listener);
    match &end {
        End::Closed | End::Idle | End::Stopping | End::Broken(_) => {
            tracing::debug!(%peer, listener, reason = %end, "connection ended");
        }
        End::Stalled | End::NotLoggedIn | End::Crowded | End::BadFrame(_) | End::Service(_) => {
            if let Some(left_out) = environment.fault_lines.turn(end.label(), Instant::now()) {
                tracing::warn!(%peer, listener, reason = %end, left_out, "connection closed");
            }
        }
    }
    end
}

#[cfg(test)]
mod tests;
