//! Synchronization within a shard and between shards.
//!
//! A selection of tokio's primitives; do not use the omitted ones, especially mutexes.
//! Not here: tasks and timeouts (`task.rs`).

pub use tokio::sync::{
    Notify, OwnedSemaphorePermit, Semaphore, SemaphorePermit, TryAcquireError, broadcast, mpsc,
    oneshot, watch,
};
