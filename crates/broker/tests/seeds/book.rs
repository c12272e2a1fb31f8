//! What the clients of all lives were told, and the first promise that was broken.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use platform::Platform;
use platform::clock::Instant;
use platform::sim::Rng;

use crate::harness::Cluster;

/// The book; clones share it.
pub(crate) type SharedBook = Rc<RefCell<Book>>;

/// How often things happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) committed: u64,
    pub(crate) aborted: u64,
    pub(crate) fenced: u64,
    pub(crate) unsure: u64,
    pub(crate) taken_over: u64,
    pub(crate) expired: u64,
    pub(crate) synced: u64,
    pub(crate) positions: u64,
    pub(crate) stale: u64,
    pub(crate) stops: u64,
    pub(crate) kills: u64,
    pub(crate) crashes: u64,
    pub(crate) jumps: u64,
    pub(crate) spells: u64,
    pub(crate) granted: u64,
    pub(crate) revoked: u64,
}

impl Counts {
    pub(crate) fn named(&self) -> [(&'static str, u64); 16] {
        [
            ("committed", self.committed),
            ("aborted", self.aborted),
            ("fenced", self.fenced),
            ("left unsure", self.unsure),
            ("taken over by another member", self.taken_over),
            ("expired", self.expired),
            ("synced", self.synced),
            ("committed as a position", self.positions),
            ("refused as stale", self.stale),
            ("stopped", self.stops),
            ("killed", self.kills),
            ("crashed", self.crashes),
            ("jumped", self.jumps),
            ("short of something", self.spells),
            ("granted", self.granted),
            ("revoked", self.revoked),
        ]
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.committed += other.committed;
        self.aborted += other.aborted;
        self.fenced += other.fenced;
        self.unsure += other.unsure;
        self.taken_over += other.taken_over;
        self.expired += other.expired;
        self.synced += other.synced;
        self.positions += other.positions;
        self.stale += other.stale;
        self.stops += other.stops;
        self.kills += other.kills;
        self.crashes += other.crashes;
        self.jumps += other.jumps;
        self.spells += other.spells;
        self.granted += other.granted;
        self.revoked += other.revoked;
    }
}

/// Positions of one group in one partition.
#[derive(Default)]
pub(crate) struct Positions {
    /// The last one that was acknowledged, and in which generation.
    pub(crate) told: Option<(i64, i32)>,
    /// Those that were sent afterwards and may count or not.
    pub(crate) unsure: Vec<i64>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Book {
    pub(crate) counts: Counts,
    violation: Option<String>,
    /// Simulated milliseconds of the lives before this one.
    pub(crate) before_ms: u64,
    /// By chain: numbers below were committed, as its client was told.
    pub(crate) committed: BTreeMap<usize, i64>,
    /// Who has a partition of the consumer group, and until when that is sure.
    pub(crate) held: BTreeMap<i32, (usize, u64)>,
    /// By generation of the classic group and partition: who has it.
    pub(crate) generations: BTreeMap<(i32, i32), usize>,
    /// By partition: positions of the classic group.
    pub(crate) positions: BTreeMap<i32, Positions>,
    /// By ACL and user: the values that it may have.
    pub(crate) rights: BTreeMap<String, BTreeSet<i64>>,
    /// The next position to commit.
    pub(crate) next_position: i64,
    trace: u64,
}

impl Book {
    /// Writes down a broken promise; the first one counts.
    pub(crate) fn check(&mut self, kept: bool, what: impl FnOnce() -> String) {
        if !kept && self.violation.is_none() {
            self.violation = Some(what());
        }
    }

    pub(crate) fn violation(&self) -> Option<String> {
        self.violation.clone()
    }

    /// Adds something that happened to the trace (FNV-1a).
    pub(crate) fn note(&mut self, words: &[i64]) {
        for byte in words.iter().flat_map(|word| word.to_le_bytes()) {
            self.trace = (self.trace ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub(crate) fn trace(&self) -> u64 {
        self.trace
    }
}

/// One life, as its clients see it; clones share it.
#[derive(Clone)]
pub(crate) struct Life {
    pub(crate) cluster: Rc<Cluster>,
    pub(crate) book: SharedBook,
    pub(crate) began: Instant,
}

impl Life {
    /// Simulated time over all lives, whatever the wall clock says.
    pub(crate) fn now_ms(&self) -> u64 {
        let in_life = self.cluster.platform.clock().now() - self.began;
        self.book.borrow().before_ms + u64::try_from(in_life.as_millis()).unwrap()
    }

    pub(crate) fn count(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut self.book.borrow_mut().counts);
    }

    /// Waits up to `max_ms`.
    pub(crate) async fn pause(&self, rng: &mut Rng, max_ms: u64) {
        self.cluster.pass_ms(rng.below(max_ms + 1)).await;
    }
}
