//! Memory of requests, counted before it is taken.
//!
//! Invariant: the sum of what is held never exceeds the bound. Who finds too little waits in line;
//! nobody overtakes.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A bound on bytes, shared by all connections of all shards.
#[derive(Clone, Debug)]
pub struct Budget {
    free: Arc<Semaphore>,
    bytes_max: usize,
}

/// Bytes taken; dropping them gives them back.
#[derive(Debug)]
pub(super) struct Taken {
    _permit: OwnedSemaphorePermit,
}

/// A place in the line for bytes.
pub(super) type Waiting = Pin<Box<dyn Future<Output = Taken>>>;

impl Budget {
    /// A budget of `bytes_max`.
    pub fn new(bytes_max: usize) -> Self {
        let bytes_max = bytes_max.min(Semaphore::MAX_PERMITS);
        Self {
            free: Arc::new(Semaphore::new(bytes_max)),
            bytes_max,
        }
    }

    /// The bound.
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Bytes taken now.
    pub fn used_bytes(&self) -> usize {
        self.bytes_max - self.free.available_permits()
    }

    /// Takes `bytes` at once if they are free and nobody waits.
    pub(super) fn try_take(&self, bytes: u32) -> Option<Taken> {
        let permit = Arc::clone(&self.free).try_acquire_many_owned(bytes).ok()?;
        Some(Taken { _permit: permit })
    }

    /// Takes `bytes`, which must not exceed the bound, when they are free.
    pub(super) fn take(&self, bytes: u32) -> Waiting {
        let free = Arc::clone(&self.free);
        Box::pin(async move {
            let permit = free.acquire_many_owned(bytes).await;
            Taken {
                _permit: permit.expect("the semaphore is never closed"),
            }
        })
    }
}
