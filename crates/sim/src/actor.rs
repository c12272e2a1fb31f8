//! What every actor of a life has at hand: the log, its ledger, the journal, and the signs to move on or to stop.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use platform::sim::Rng;
use platform::sync::Notify;
use storage::{Error, Kind, Log, Observer};
use wire::types::LeaderEpoch;

use crate::checker::places::Places;
use crate::ledger::LogLedger;
use crate::plan::{LogPlan, Trouble};
use crate::report::Journal;
use crate::world::{Planted, World};

/// Wakes whoever waits for a log.
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
    /// A path of a tier is missing in this life: what is there is refused, as not there now.
    pub(crate) missing: bool,
    /// A path of a tier failed before the log was open: what is there is known by notes alone.
    pub(crate) has_failed_path: bool,
    /// Where there are two slow paths: what was where before the log was opened.
    pub(crate) places: Option<Rc<Places>>,
    /// A path of a tier takes no writes at some time of this life: a log that is written to there takes no more.
    pub(crate) read_only: bool,
    pub(crate) planted: Option<Planted>,
    /// Epoch that appends are stamped with.
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

    /// True when the log takes no more appends in this life.
    pub(crate) fn is_over(&self) -> bool {
        let failed = self.log.failed();
        failed.is_some_and(|error| matches!(error.kind(), Kind::Failed | Kind::Closed))
    }

    /// Completes when the log has moved on, or it is time to stop.
    pub(crate) async fn progressed(&self) {
        self.progress.notify.notified().await;
        self.log.check_invariants();
    }

    /// Sleeps up to `max_ms`.
    pub(crate) async fn pause(&self, rng: &mut Rng, max_ms: u64) {
        let pause = Duration::from_micros(rng.below(max_ms * 1000 + 1));
        self.world.clock().sleep(pause).await;
        self.log.check_invariants();
    }

    /// Writes down a broken promise of this log unless `kept`.
    pub(crate) fn check(&self, kept: bool, what: impl FnOnce() -> String) {
        let name = &self.ledger.borrow().name;
        self.journal.check(kept, || format!("{name}: {}", what()));
    }

    /// Judges the failure of something other than an append or a read.
    pub(crate) fn check_error(&self, doing: &str, error: &Error) {
        let rotten = self.ledger.borrow().rotten;
        let excused = match error.kind() {
            Kind::Corrupt => rotten,
            Kind::Closed => self.is_stopping(),
            Kind::Retry if self.missing => true,
            Kind::Retry | Kind::Failed if self.read_only => true,
            Kind::Retry | Kind::Full | Kind::Failed => rotten || self.trouble.fails_operations(),
            Kind::Invalid => false,
        };
        self.check(excused, || format!("{doing} failed: {error}"));
    }
}
