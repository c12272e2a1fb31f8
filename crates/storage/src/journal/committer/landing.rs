//! Landing, as the committer sees it: when it is wanted, which logs it takes, what it releases.
//!
//! The next layer is the [`Lander`]: it writes segments. Invariants: a landing that is not ended is
//! given up, also when its future is dropped; bytes are free for others when their landing has
//! ended.
//! It does not decide how old or how large a tail may become, or wait between two attempts.

use platform::disk::DiskFile;

use super::{Committer, SharedCommitter};
use crate::journal::error::Result;
use crate::journal::ring::Landing;
use crate::journal::{LogId, Sequence};

/// Logs that are looked at for each that lands.
const LOOKED_AT: usize = 4;

/// Puts parts into segments.
pub trait Lander {
    /// The right to write to the segments of a log.
    type Hold;

    /// Takes that right, if no other task has it now; the landing holds it to its end.
    ///
    /// A log that is truncated is not landing, and one that lands is not truncated.
    fn hold(&self, log: LogId) -> Option<Self::Hold>;

    /// Writes what the parts of each log say, of commits below the landing's, to its segments, and
    /// syncs these and their names; returns the logs for which all of that is durable.
    ///
    /// The others keep their parts, and are tried again.
    fn land(&self, landings: &[HeldLanding<Self::Hold>]) -> impl Future<Output = Vec<LogId>>;
}

/// A landing, and the right to write to the segments of its log.
pub struct HeldLanding<H> {
    /// What it covers.
    pub landing: Landing,
    /// The right.
    pub hold: H,
}

/// Landings that have begun; those that are left when it is dropped are given up.
struct BegunLandings<'a, F: DiskFile, H> {
    of: &'a Committer<F>,
    landings: Vec<HeldLanding<H>>,
}

impl<F: DiskFile> Committer<F> {
    /// Completes when logs are to land: room or memory is wanted, or half of either is used, or the
    /// journal has failed; and a log can.
    ///
    /// After a landing that failed it may complete at once: the caller waits before it tries again.
    pub async fn landing_wanted(&self) {
        while !self.is_landing_wanted() {
            self.shared.changed.notified().await;
        }
    }

    /// Returns true when logs are to land, as [`Committer::landing_wanted`] says.
    pub fn is_landing_wanted(&self) -> bool {
        let shared = &self.shared;
        let is_due = shared.failure().is_some() || shared.load().is_landing_due();
        is_due && shared.queue.borrow().can_land()
    }

    /// Lands the logs with the oldest parts, `logs_max` at most, together; returns how many landed.
    ///
    /// It passes over those to which another task writes now.
    pub async fn land<L: Lander>(&self, lander: &L, logs_max: usize) -> usize {
        let mut begun = BegunLandings {
            of: self,
            landings: Vec::new(),
        };
        let looked_at = logs_max.saturating_mul(LOOKED_AT);
        let landable = self.shared.queue.borrow().landable(looked_at);
        begun.take(lander, &landable, logs_max);
        begun.land(lander).await
    }

    /// Lands these logs together, those that may land now; returns how many landed.
    pub async fn land_these<L: Lander>(&self, lander: &L, logs: &[LogId]) -> usize {
        let mut begun = BegunLandings {
            of: self,
            landings: Vec::new(),
        };
        begun.take(lander, logs, logs.len());
        begun.land(lander).await
    }

    /// Returns the logs that may land and have a part in a commit below `below`.
    pub fn landable_below(&self, below: Sequence) -> Vec<LogId> {
        self.shared.queue.borrow().landable_below(below)
    }

    /// Returns true when no scan reads a commit any more.
    pub fn is_released(&self, sequence: Sequence) -> bool {
        self.shared.queue.borrow().is_released(sequence)
    }

    /// Begins to land a log, if it has parts in durable commits and may land.
    ///
    /// The caller that begins it ends it or gives it up.
    pub fn begin_landing(&self, log: LogId) -> Option<Landing> {
        self.shared.queue.borrow_mut().begin_landing(log)
    }

    /// Notes that the segments have all that a landing covers, synced, under durable names.
    pub fn end_landing(&self, landing: Landing) {
        let bytes = self.shared.queue.borrow_mut().end_landing(landing);
        self.made_room(bytes);
    }

    /// Notes that a landing failed: its parts stay.
    pub fn give_up_landing(&self, landing: Landing) {
        self.shared.queue.borrow_mut().give_up_landing(landing);
    }

    /// Drops the parts of a log that is deleted, durably, after its last commit was acknowledged.
    pub fn forget(&self, log: LogId) {
        let bytes = self.shared.queue.borrow_mut().forget(log);
        self.made_room(bytes);
    }

    /// Completes when no scan reads a commit any more: its parts have landed, and both headers have
    /// passed it.
    pub async fn released(&self, sequence: Sequence) -> Result<()> {
        let shared = &self.shared;
        shared.queue.borrow_mut().want_release(sequence);
        // Once: it wakes others who wait, and they must not wake each other for ever.
        shared.go_on();
        while !shared.queue.borrow().is_released(sequence) {
            if let Some(error) = shared.failure() {
                return Err(error);
            }
            // Nothing happens between the look and the wait: a shard is one thread.
            shared.changed.notified().await;
        }
        Ok(())
    }

    fn made_room(&self, bytes: u64) {
        self.shared.admission.give_back(bytes);
        self.shared.go_on();
    }
}

impl<F: DiskFile, H> BegunLandings<'_, F, H> {
    /// Begins to land logs of these, as far as the lander has the right to.
    fn take<L: Lander<Hold = H>>(&mut self, lander: &L, logs: &[LogId], logs_max: usize) {
        for log in logs {
            if self.landings.len() >= logs_max {
                break;
            }
            let Some(hold) = lander.hold(*log) else {
                continue;
            };
            if let Some(landing) = self.of.begin_landing(*log) {
                self.landings.push(HeldLanding { landing, hold });
            }
        }
    }

    async fn land<L: Lander<Hold = H>>(mut self, lander: &L) -> usize {
        if self.landings.is_empty() {
            return 0;
        }
        let landed = lander.land(&self.landings).await;
        self.end(&landed)
    }

    fn end(&mut self, landed: &[LogId]) -> usize {
        let is_landed = |one: &mut HeldLanding<H>| landed.contains(&one.landing.log);
        let ended: Vec<_> = self.landings.extract_if(.., is_landed).collect();
        let count = ended.len();
        for HeldLanding { landing, hold } in ended {
            self.of.end_landing(landing);
            drop(hold);
        }
        count
    }
}

impl<F: DiskFile, H> Drop for BegunLandings<'_, F, H> {
    fn drop(&mut self) {
        for HeldLanding { landing, hold } in self.landings.drain(..) {
            self.of.give_up_landing(landing);
            drop(hold);
        }
    }
}

impl<F: DiskFile> SharedCommitter<F> {
    /// Notes that a cut waits for room, until the guard is dropped.
    pub(super) fn cut_waits(&self) -> CutWaits<'_, F> {
        self.queue.borrow_mut().cut_waits(true);
        CutWaits(self)
    }
}

/// A cut that waits for room.
pub(super) struct CutWaits<'a, F: DiskFile>(&'a SharedCommitter<F>);

impl<F: DiskFile> Drop for CutWaits<'_, F> {
    fn drop(&mut self) {
        self.0.queue.borrow_mut().cut_waits(false);
    }
}
