//! The number of bytes that the logs of a shard have saved but the checkpoint files do not cover
//! yet.
//!
//! After a crash those bytes are read again although they were saved.
//! It does not write the checkpoint files.

use std::cell::Cell;

use platform::sync::Notify;

use crate::options::StoreOptions;

/// The files should be written after this many times the save interval of one log.
const SAVES: u64 = 4;

/// Counts saved bytes and notifies when they exceed a bound.
pub(crate) struct UnnotedBytes {
    bytes: Cell<u64>,
    bytes_max: u64,
    much: Notify,
}

impl UnnotedBytes {
    pub(crate) fn new(options: &StoreOptions) -> Self {
        Self {
            bytes: Cell::new(0),
            bytes_max: options.save_interval_bytes.saturating_mul(SAVES),
            much: Notify::new(),
        }
    }

    /// Adds `bytes` that a log has saved.
    pub(crate) fn add(&self, bytes: u64) {
        self.bytes.set(self.bytes.get().saturating_add(bytes));
        if self.is_much() {
            self.much.notify_one();
        }
    }

    /// Waits until the bound is reached, then restarts the count.
    pub(crate) async fn enough(&self) {
        while !self.is_much() {
            self.much.notified().await;
        }
        self.bytes.set(0);
    }

    fn is_much(&self) -> bool {
        self.bytes.get() >= self.bytes_max
    }
}
