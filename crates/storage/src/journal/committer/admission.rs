//! The bound of the bytes that are handed in and not landed: callers wait for their share in order.
//!
//! Invariants: a larger caller is not overtaken by smaller ones; a caller that is dropped has taken
//! nothing; once it is closed no caller waits and none is admitted.
//! It does not know which bytes landed (`tails`).

use std::cell::Cell;

use platform::sync::{Semaphore, TryAcquireError};

use crate::num::index;

/// No bound is larger: a semaphore counts no further.
const BYTES_MAX: u64 = 1 << 60;

/// The bytes that may be handed in.
pub(super) struct Admission {
    /// A permit for each byte that is free.
    free: Semaphore,
    bytes_max: u64,
    waiting: Cell<usize>,
}

impl Admission {
    /// Starts with all bytes free.
    pub(super) fn new(bytes_max: u64) -> Self {
        let bytes_max = bytes_max.min(BYTES_MAX);
        Self {
            free: Semaphore::new(index(bytes_max)),
            bytes_max,
            waiting: Cell::new(0),
        }
    }

    /// Takes bytes, when they are free; returns false when it is closed.
    ///
    /// They are no more than may be taken at all. Calls `begins_to_wait` if they are not free now.
    pub(super) async fn admit(&self, bytes: u64, begins_to_wait: impl FnOnce()) -> bool {
        let count = u32::try_from(bytes).expect("a commit is far shorter than 4 GiB");
        assert!(bytes <= self.bytes_max, "a commit is always admitted");
        match self.free.try_acquire_many(count) {
            Ok(taken) => taken.forget(),
            Err(TryAcquireError::Closed) => return false,
            Err(TryAcquireError::NoPermits) => {
                let _waiting = WaitingCount::begin(&self.waiting);
                begins_to_wait();
                match self.free.acquire_many(count).await {
                    Ok(taken) => taken.forget(),
                    Err(_) => return false,
                }
            }
        }
        true
    }

    /// Gives bytes back that were taken.
    pub(super) fn give_back(&self, bytes: u64) {
        self.free.add_permits(index(bytes));
        assert!(
            self.free.available_permits() <= index(self.bytes_max),
            "what is given back was taken"
        );
    }

    /// Ends all waiting.
    pub(super) fn close(&self) {
        self.free.close();
    }

    /// Returns the bound.
    pub(super) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Returns the bytes that are taken.
    pub(super) fn taken(&self) -> u64 {
        let free = self.free.available_permits() as u64;
        self.bytes_max.saturating_sub(free)
    }

    /// Returns true when a caller waits.
    pub(super) fn is_waited_for(&self) -> bool {
        self.waiting.get() > 0
    }
}

/// One who waits, until it is dropped.
struct WaitingCount<'a>(&'a Cell<usize>);

impl<'a> WaitingCount<'a> {
    fn begin(count: &'a Cell<usize>) -> Self {
        count.set(count.get().saturating_add(1));
        Self(count)
    }
}

impl Drop for WaitingCount<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}
