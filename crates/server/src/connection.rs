//! One connection of a client: frames in, replies out, in order and within limits.

mod service;

pub use service::{Called, ClientSoftware, Reply, RequestContext, Service};

use std::time::Duration;

/// Limits of a connection.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Longest frame.
    pub frame_bytes_max: usize,
    /// Closed when nothing happens for this long; `None` never.
    pub idle_max: Option<Duration>,
    /// A frame that has begun and a reply that is being sent must make progress within this time.
    pub stall_max: Duration,
    /// Requests begun and not yet answered.
    pub overlapped_max: usize,
    /// Bytes of requests begun and not yet answered (one may be larger).
    pub overlapped_bytes_max: usize,
    /// How long requests of a peer that has gone are still worked on.
    pub abandoned_max: Duration,
}
