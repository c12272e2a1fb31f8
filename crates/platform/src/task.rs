//! Tasks of a shard. They stay on its thread and need not be `Send`.
//!
//! Invariant: usable only inside [`crate::runtime::run_shard`] (or its simulated twin).

pub use tokio::task::{JoinError, JoinHandle, LocalSet, spawn_local as spawn, yield_now};
pub use tokio::time::error::Elapsed;
pub use tokio::time::{timeout, timeout_at};
