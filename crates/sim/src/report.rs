//! What a run gives: the first promise that was broken, or what it has done and its trace.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

/// A broken promise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The run.
    pub seed: u64,
    /// Which life of it, from 0.
    pub life: usize,
    /// What was found.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, life, what } = self;
        write!(f, "seed {seed}, life {life}: {what}")
    }
}

impl std::error::Error for Violation {}

/// What a run without a violation has done. The counts show whether it was worth anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Sums up everything that happened, in order.
    pub trace: u64,
    /// What happened how often.
    pub counts: Counts,
}

/// What happened how often.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Batches that got offsets.
    pub appended: u64,
    /// Batches whose producer was told that they are safe.
    pub acknowledged: u64,
    /// Batches that were sent again and recognised.
    pub duplicates: u64,
    /// Batches that readers were given.
    pub read: u64,
    /// Appends that were refused.
    pub refused: u64,
    /// Truncations.
    pub truncated: u64,
    /// Segments that retention deleted.
    pub retained: u64,
    /// Starts without a log directory that were refused.
    pub absent: u64,
    /// Segments that came to a slow path from wherever, where there are two.
    pub moved: u64,
    /// Reads that were refused right after a start, since a path was away.
    pub away: u64,
    /// Lives that ended by a clean stop.
    pub stops: u64,
    /// Lives that ended by a kill.
    pub kills: u64,
    /// Lives that ended by a loss of power.
    pub crashes: u64,
    /// Lives in which a log failed and took no more appends.
    pub failed: u64,
    /// Batches that had been appended and were not there after a restart (none of them acknowledged).
    pub lost: u64,
    /// Answers that refused damaged bytes.
    pub damaged: u64,
}

impl Counts {
    /// Adds another run's.
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
    }
}

/// Where the actors of a life write down what they see; clones share it.
#[derive(Clone, Default)]
pub(crate) struct Journal {
    inner: Rc<Inner>,
}

#[derive(Default)]
struct Inner {
    trace: Cell<u64>,
    counts: Cell<Counts>,
    violation: RefCell<Option<String>>,
}

impl Journal {
    /// Adds something that happened to the trace (FNV-1a over its words).
    pub(crate) fn note(&self, words: &[i64]) {
        let mut trace = self.inner.trace.get();
        for byte in words.iter().flat_map(|word| word.to_le_bytes()) {
            trace = (trace ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.inner.trace.set(trace);
    }

    /// Counts something.
    pub(crate) fn count(&self, count: impl FnOnce(&mut Counts)) {
        let mut counts = self.inner.counts.get();
        count(&mut counts);
        self.inner.counts.set(counts);
    }

    /// Writes down a broken promise; the first one counts.
    pub(crate) fn violated(&self, what: impl FnOnce() -> String) {
        self.inner.violation.borrow_mut().get_or_insert_with(what);
    }

    /// Writes down a broken promise unless `kept`.
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
