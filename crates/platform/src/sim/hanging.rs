//! Operations of the simulated disk that do not end, because the file system they are on hangs.
//!
//! Invariant: one counts until it goes on, or until nobody waits for it any more.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::Instant;

/// Those of one disk; clones share them.
#[derive(Clone, Default)]
pub(super) struct Hanging(Rc<Shared>);

#[derive(Default)]
struct Shared {
    /// Where, and since when.
    begun: RefCell<BTreeMap<u64, (PathBuf, Instant)>>,
    goes_on: Notify,
}

/// One that hangs.
pub(super) struct Hangs {
    of: Hanging,
    key: u64,
}

impl Hanging {
    /// Counts one that is on the file system at `dir`.
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

    /// For how long the one has hung that began first, of those at `dir` and below.
    pub(super) fn longest(&self, dir: &Path) -> Duration {
        let begun = self.0.begun.borrow();
        let here = begun
            .values()
            .filter(|(at, _)| at.starts_with(dir) || dir.starts_with(at));
        here.map(|(_, since)| since.elapsed())
            .max()
            .unwrap_or_default()
    }

    /// Has all look again.
    pub(super) fn go_on(&self) {
        self.0.goes_on.notify_waiters();
    }
}

impl Hangs {
    /// Waits as long as it `hangs`.
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
