//! The result of a run: the first broken promise, or the counts and the trace.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

/// A broken promise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The seed of the run.
    pub seed: u64,
    /// The number of the life, from 0.
    pub life: usize,
    /// The description.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, life, what } = self;
        write!(f, "seed {seed}, life {life}: {what}")
    }
}

impl std::error::Error for Violation {}

/// The result of a run without a violation; the counts show whether the run covered enough.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// A hash of all events, in order.
    pub trace: u64,
    /// The number of events of each kind.
    pub counts: Counts,
}

/// The number of events of each kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Batches that got offsets.
    pub appended: u64,
    /// Batches that were acknowledged as safe.
    pub acknowledged: u64,
    /// Batches that were sent again and recognised as duplicates.
    pub duplicates: u64,
    /// Batches that readers got.
    pub read: u64,
    /// Appends that were refused.
    pub refused: u64,
    /// Truncations.
    pub truncated: u64,
    /// Segments that retention deleted.
    pub retained: u64,
    /// Starts without a log directory that were refused.
    pub absent: u64,
    /// Segments that moved to a slow path, in runs with two of them.
    pub moved: u64,
    /// Reads that were refused after a start because a path was away.
    pub away: u64,
    /// Lives that ended by a clean stop.
    pub stops: u64,
    /// Lives that ended by a kill.
    pub kills: u64,
    /// Lives that ended with a power loss, including those after a clean stop.
    pub crashes: u64,
    /// Lives in which a log failed, that is, took no more appends.
    pub failed: u64,
    /// Appended batches that were missing after a restart; acknowledged ones only where the promise
    /// allows it.
    pub lost: u64,
    /// Reads that were refused because of damaged bytes.
    pub damaged: u64,
    /// Commits of journals that starts have replayed.
    pub replayed: u64,
}

impl Counts {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        let Self {
            appended,
            acknowledged,
            duplicates,
            read,
            refused,
            truncated,
            retained,
            absent,
            moved,
            away,
            stops,
            kills,
            crashes,
            failed,
            lost,
            damaged,
            replayed,
        } = other;
        self.appended += appended;
        self.acknowledged += acknowledged;
        self.duplicates += duplicates;
        self.read += read;
        self.refused += refused;
        self.truncated += truncated;
        self.retained += retained;
        self.absent += absent;
        self.moved += moved;
        self.away += away;
        self.stops += stops;
        self.kills += kills;
        self.crashes += crashes;
        self.failed += failed;
        self.lost += lost;
        self.damaged += damaged;
        self.replayed += replayed;
    }
}

/// The record of what the actors of a life observe; clones share it.
#[derive(Clone, Default)]
pub(crate) struct Journal {
    inner: Rc<ReportState>,
}

#[derive(Default)]
struct ReportState {
    trace: Cell<u64>,
    counts: Cell<Counts>,
    violation: RefCell<Option<String>>,
}

impl Journal {
    /// Adds an event to the trace (FNV-1a over its words).
    pub(crate) fn note(&self, words: &[i64]) {
        let mut trace = self.inner.trace.get();
        for byte in words.iter().flat_map(|word| word.to_le_bytes()) {
            trace = (trace ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.inner.trace.set(trace);
    }

    /// Updates the counts.
    pub(crate) fn count(&self, count: impl FnOnce(&mut Counts)) {
        let mut counts = self.inner.counts.get();
        count(&mut counts);
        self.inner.counts.set(counts);
    }

    /// Records a broken promise; the first one stays.
    pub(crate) fn violated(&self, what: impl FnOnce() -> String) {
        self.inner.violation.borrow_mut().get_or_insert_with(what);
    }

    /// Records a broken promise unless `kept`.
    pub(crate) fn check(&self, kept: bool, what: impl FnOnce() -> String) {
        if !kept {
            self.violated(what);
        }
    }

    pub(crate) fn violation(&self) -> Option<String> {
        self.inner.violation.borrow().clone()
    }

    pub(crate) fn report(&self) -> Report {
        Report {
            trace: self.inner.trace.get(),
            counts: self.inner.counts.get(),
        }
    }
}
