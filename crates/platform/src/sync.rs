//! Waiting for one another, inside a shard and between shards.
//!
//! Chosen from tokio's; what is not here is not meant to be used (mutexes above all).

pub use tokio::sync::{
    Notify, OwnedSemaphorePermit, Semaphore, SemaphorePermit, TryAcquireError, broadcast, mpsc,
    oneshot, watch,
};
