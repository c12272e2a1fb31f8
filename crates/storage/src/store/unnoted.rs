//! How much the logs of a shard have saved that the checkpoint files do not know of yet.
//!
//! After a crash that much is read again, though it was saved. Not here: writing the files.

use std::cell::Cell;

use platform::sync::Notify;

use crate::options::StoreOptions;

/// Saves of one log's worth after which the files should be written.
const SAVES: u64 = 4;

/// Counts what is saved, and tells when it is much.
pub(crate) struct Unnoted {
    bytes: Cell<u64>,
    bytes_max: u64,
    much: Notify,
}

impl Unnoted {
    pub(crate) fn new(options: &StoreOptions) -> Self {
        Self {
            bytes: Cell::new(0),
            bytes_max: options.save_interval_bytes.saturating_mul(SAVES),
            much: Notify::new(),
        }
    }

    /// A log has saved `bytes` more.
    pub(crate) fn add(&self, bytes: u64) {
        self.bytes.set(self.bytes.get().saturating_add(bytes));
        if self.is_much() {
            self.much.notify_one();
        }
    }

    /// Waits until it is much, and begins to count anew.
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
