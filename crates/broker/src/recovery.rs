//! Progress of the start of the broker, for `/readyz` and the log.
//!
//! All shards and the admin endpoint share it. States: starting, recovering logs, ready, stopping.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Progress of the start; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Recovery(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    logs_total: AtomicU64,
    logs_opened: AtomicU64,
    ready: AtomicBool,
}

impl Recovery {
    /// Adds to the number of logs to open.
    pub fn expect(&self, logs: u64) {
        self.0.logs_total.fetch_add(logs, Ordering::Relaxed);
    }

    /// Counts a log that was opened or found unusable.
    pub(crate) fn opened(&self) {
        self.0.logs_opened.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets whether requests are served.
    pub fn set_ready(&self, ready: bool) {
        self.0.ready.store(ready, Ordering::Release);
    }

    /// Returns true while requests are served.
    pub fn is_ready(&self) -> bool {
        self.0.ready.load(Ordering::Acquire)
    }

    /// Returns the logs opened so far and the logs to open.
    pub fn progress(&self) -> (u64, u64) {
        let opened = self.0.logs_opened.load(Ordering::Relaxed);
        (
            opened,
            self.0.logs_total.load(Ordering::Relaxed).max(opened),
        )
    }
}
