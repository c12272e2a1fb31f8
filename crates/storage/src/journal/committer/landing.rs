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

/// Puts parts into segments.
pub trait Lander {
    /// Writes what the parts of each log say, of commits below the landing's, to its segments, and
    /// syncs these and their names; returns the logs for which all of that is durable.
    ///
    /// The others keep their parts, and are tried again.
    fn land(&self, landings: &[Landing]) -> impl Future<Output = Vec<LogId>>;
}

/// Landings that have begun; those that are left when it is dropped are given up.
struct BegunLandings<'a, F: DiskFile> {
    of: &'a Committer<F>,
    landings: Vec<Landing>,
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

    fn is_landing_wanted(&self) -> bool {
        let shared = &self.shared;
        let is_due = shared.failure().is_some() || shared.load().is_landing_due();
        is_due && shared.queue.borrow().can_land()
    }

    /// Lands the logs with the oldest parts, `logs_max` at most, together; returns how many landed.
    pub async fn land(&self, lander: &impl Lander, logs_max: usize) -> usize {
        let mut begun = BegunLandings {
            of: self,
            landings: Vec::new(),
        };
        while begun.landings.len() < logs_max
            && let Some(landing) = self.shared.queue.borrow_mut().begin_oldest_landing()
        {
            begun.landings.push(landing);
        }
        if begun.landings.is_empty() {
            return 0;
        }
        let landed = lander.land(&begun.landings).await;
        begun.end(&landed)
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

impl<F: DiskFile> BegunLandings<'_, F> {
    fn end(&mut self, landed: &[LogId]) -> usize {
        let is_landed = |landing: &mut Landing| landed.contains(&landing.log);
        let ended: Vec<_> = self.landings.extract_if(.., is_landed).collect();
        let count = ended.len();
        for landing in ended {
            self.of.end_landing(landing);
        }
        count
    }
}

impl<F: DiskFile> Drop for BegunLandings<'_, F> {
    fn drop(&mut self) {
        for landing in self.landings.drain(..) {
            self.of.give_up_landing(landing);
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
