//! The state that every actor of a life uses: the log, its ledger, the journal, and the signals of
//! progress and stop.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use platform::sim::Rng;
use platform::sync::Notify;
use storage::{Error, FailureKind, Log, Observer};
use wire::types::LeaderEpoch;

use crate::checker::places::Places;
use crate::ledger::LogLedger;
use crate::plan::{LogPlan, Trouble};
use crate::report::Journal;
use crate::world::{PlantedBug, World};

/// Wakes the actors that wait for a log.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    notify: Notify,
}

impl Progress {
    pub(crate) fn wake(&self) {
        self.notify.notify_waiters();
    }
}

impl Observer for Progress {
    fn progressed(&self) {
        self.wake();
    }
}

/// One log in one life; clones share it.
pub(crate) struct Actor<W: World> {
    pub(crate) world: W,
    pub(crate) log: Rc<Log<W>>,
    pub(crate) ledger: Rc<RefCell<LogLedger>>,
    pub(crate) journal: Journal,
    pub(crate) plan: Rc<LogPlan>,
    pub(crate) trouble: Trouble,
    /// A tier path is missing in this life, so segments on it are refused for now.
    pub(crate) missing: bool,
    /// A tier path failed before the log was open, so segments on it are known only from notes.
    pub(crate) has_failed_path: bool,
    /// The places of all segments before the log was opened, in runs with two slow paths.
    pub(crate) places: Option<Rc<Places>>,
    /// A tier path becomes or is read-only in this life; a log that writes to it takes no more
    /// appends.
    pub(crate) read_only: bool,
    pub(crate) planted: Option<PlantedBug>,
    /// The leader epoch that appends are stamped with.
    pub(crate) epoch: Rc<Cell<i32>>,
    pub(crate) progress: Rc<Progress>,
    pub(crate) stopping: Rc<Cell<bool>>,
}

impl<W: World> Clone for Actor<W> {
    fn clone(&self) -> Self {
        Self {
            world: self.world.clone(),
            log: Rc::clone(&self.log),
            ledger: Rc::clone(&self.ledger),
            journal: self.journal.clone(),
            plan: Rc::clone(&self.plan),
            trouble: self.trouble,
            missing: self.missing,
            has_failed_path: self.has_failed_path,
            places: self.places.clone(),
            read_only: self.read_only,
            planted: self.planted,
            epoch: Rc::clone(&self.epoch),
            progress: Rc::clone(&self.progress),
            stopping: Rc::clone(&self.stopping),
        }
    }
}

impl<W: World> Actor<W> {
    pub(crate) fn epoch(&self) -> LeaderEpoch {
        LeaderEpoch(self.epoch.get())
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.world.clock().wall_ms()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// Returns true when the log takes no more appends in this life.
    pub(crate) fn is_over(&self) -> bool {
        let failed = self.log.failed();
        failed
            .is_some_and(|error| matches!(error.kind(), FailureKind::Failed | FailureKind::Closed))
    }

    /// Waits until the log has progressed, or it is time to stop.
    pub(crate) async fn progressed(&self) {
        self.progress.notify.notified().await;
        self.log.check_invariants();
    }

    /// Sleeps for a random time up to `max_ms`.
    pub(crate) async fn pause(&self, rng: &mut Rng, max_ms: u64) {
        let pause = Duration::from_micros(rng.below(max_ms * 1000 + 1));
        self.world.clock().sleep(pause).await;
        self.log.check_invariants();
    }

    /// Records a broken promise of this log unless `kept`.
    pub(crate) fn check(&self, kept: bool, what: impl FnOnce() -> String) {
        let name = &self.ledger.borrow().name;
        self.journal.check(kept, || format!("{name}: {}", what()));
    }

    /// Checks whether the failure of something other than an append or a read is allowed.
    pub(crate) fn check_error(&self, doing: &str, error: &Error) {
        let rotten = self.ledger.borrow().rotten;
        let excused = match error.kind() {
            FailureKind::Corrupt => rotten,
            FailureKind::Closed => self.is_stopping(),
            FailureKind::Retry if self.missing => true,
            FailureKind::Retry | FailureKind::Failed if self.read_only => true,
            FailureKind::Retry | FailureKind::Full | FailureKind::Failed => {
                rotten || self.trouble.fails_operations()
            }
            FailureKind::Invalid => false,
        };
        self.check(excused, || format!("{doing} failed: {error}"));
    }
}
