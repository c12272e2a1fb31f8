//! Tasks of a shard. They stay on its thread and need not be `Send`.
//!
//! Invariant: usable only inside [`crate::runtime::run_shard`] (or its simulated twin).

pub use tokio::task::{JoinError, JoinHandle, LocalSet, spawn_local as spawn, yield_now};
pub use tokio::time::error::Elapsed;
pub use tokio::time::{timeout, timeout_at};

/// Has long work done that needs nothing of the shard, on another thread. `None` if the process is ending.
pub async fn elsewhere<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> Option<R> {
    tokio::task::spawn_blocking(work).await.ok()
}
