//! Tasks of a shard. They stay on its thread and need not be `Send`.
//!
//! Invariant: usable only inside [`crate::runtime::run_shard`] (or its simulated twin).

pub use tokio::task::{JoinError, JoinHandle, LocalSet, spawn_local as spawn, yield_now};
pub use tokio::time::error::Elapsed;
use tokio::time::{Duration, Instant};
pub use tokio::time::{timeout, timeout_at};

/// How long work elsewhere goes on before others have their turn.
#[derive(Clone, Copy, Debug)]
pub struct Span(Instant);

impl Span {
    /// From now on.
    pub fn of(length: Duration) -> Self {
        Self(Instant::now() + length)
    }

    /// True when it is over. In a simulation, whose time does not pass while anybody works, never.
    pub fn is_over(&self) -> bool {
        Instant::now() >= self.0
    }
}

/// Has long work done that needs nothing of the shard, on another thread. `None` if the process is ending.
pub async fn elsewhere<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> Option<R> {
    tokio::task::spawn_blocking(work).await.ok()
}
