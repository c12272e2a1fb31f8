//! Operations of the simulated disk that do not end, because their file system hangs.
//!
//! Invariant: an operation counts until it continues, or until its caller stops waiting. Not here:
//! which file systems hang (`sim/mounts.rs`).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::Instant;

/// The hanging operations of one disk; clones share them.
#[derive(Clone, Default)]
pub(super) struct HangingOperations(Rc<HangingState>);

#[derive(Default)]
struct HangingState {
    /// The file system and the start time of each operation.
    begun: RefCell<BTreeMap<u64, (PathBuf, Instant)>>,
    goes_on: Notify,
}

/// A hanging operation.
pub(super) struct Hangs {
    of: HangingOperations,
    key: u64,
}

impl HangingOperations {
    /// Records an operation on the file system at `dir`.
    pub(super) fn begin(&self, dir: PathBuf) -> Hangs {
        let mut begun = self.0.begun.borrow_mut();
        let key = begun.keys().next_back().map_or(0, |last| last + 1);
        begun.insert(key, (dir, Instant::now()));
        drop(begun);
        Hangs {
            of: self.clone(),
            key,
        }
    }

    /// Returns the age of the oldest hanging operation on a file system at, below or above `dir`.
    pub(super) fn longest(&self, dir: &Path) -> Duration {
        let begun = self.0.begun.borrow();
        let here = begun
            .values()
            .filter(|(at, _)| at.starts_with(dir) || dir.starts_with(at));
        here.map(|(_, since)| since.elapsed())
            .max()
            .unwrap_or_default()
    }

    /// Makes all hanging operations check again whether they still hang.
    pub(super) fn go_on(&self) {
        self.0.goes_on.notify_waiters();
    }
}

impl Hangs {
    /// Waits as long as `hangs` returns true.
    pub(super) async fn end(self, hangs: impl Fn() -> bool) {
        loop {
            let goes_on = self.of.0.goes_on.notified();
            if !hangs() {
                return;
            }
            goes_on.await;
        }
    }
}

impl Drop for Hangs {
    fn drop(&mut self) {
        self.of.0.begun.borrow_mut().remove(&self.key);
    }
}
