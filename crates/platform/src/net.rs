//! Connections to other machines: a stream of bytes each way, real or simulated.

use std::future::Future;
use std::io;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::clock::Instant;

/// What connects to other machines.
pub trait Net: Clone + 'static {
    /// A stream of bytes each way.
    type Stream: AsyncRead + AsyncWrite + Unpin + 'static;

    /// Connects to a host by name or address.
    fn connect(
        &self,
        host: &str,
        port: u16,
        deadline: Instant,
    ) -> impl Future<Output = io::Result<Self::Stream>>;
}
