//! One simulated file: what readers see, what is durable, and the changes between the two.
//!
//! Invariants: `durable` plus every change of `pending` in order gives `live`, unless a failed sync
//! dropped changes; a crash image consists of durable bytes, zeroes, and bytes of pending writes at
//! their positions, sector by sector, with all of those that were made durable by themselves, which
//! wait there only behind others that were not. Mapped files are durable after each completed write
//! and reservation, and writes in flight tear at any cache line; a length needs a sync.

use bytes::Bytes;

use super::rng::Rng;
use super::sparse::SparseContent;
use crate::disk::BLOCK_BYTES;

/// The unit that a device writes atomically.
pub(super) const SECTOR_BYTES: usize = 512;

/// The unit that a store to mapped memory writes atomically.
const LINE_BYTES: usize = 64;

/// How much of the unsynced data survives a crash.
#[derive(Clone, Copy)]
pub(super) struct Survival {
    percent: u64,
}

impl Survival {
    /// Draws a percentage, with nothing, half and everything as frequent cases.
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let percent = match rng.below(4) {
            0 => 0,
            1 => 100,
            2 => 50,
            _ => rng.below(101),
        };
        Self { percent }
    }

    pub(super) fn survives(self, rng: &mut Rng) -> bool {
        rng.chance(self.percent)
    }
}

/// A change of a file's bytes.
#[derive(Clone)]
pub(super) enum Change {
    Write {
        position: u64,
        bytes: Bytes,
    },
    SetLen(u64),
    /// Extends the file to at least this length.
    Extend(u64),
}

impl Change {
    fn apply(&self, to: &mut SparseContent) {
        match self {
            Self::Write { position, bytes } => to.write(*position, bytes),
            Self::SetLen(len) => to.set_len(*len),
            Self::Extend(len) => {
                if *len > to.len() {
                    to.set_len(*len);
                }
            }
        }
    }

    /// Returns the parts of a write that survive when it is torn.
    ///
    /// The parts are sectors of a block, with most blocks whole; or cache lines.
    fn torn(&self, rng: &mut Rng, survival: Survival, mapped: bool) -> Vec<Change> {
        let Self::Write { position, bytes } = self else {
            return if survival.survives(rng) {
                vec![self.clone()]
            } else {
                Vec::new()
            };
        };
        // Cache lines leave the processor in any order; a device writes most blocks whole.
        let (atom, torn_percent) = if mapped {
            (LINE_BYTES, 60)
        } else {
            (SECTOR_BYTES, 10)
        };
        let mut kept = Vec::new();
        for start in (0..bytes.len()).step_by(BLOCK_BYTES) {
            let end = bytes.len().min(start + BLOCK_BYTES);
            let block_torn = rng.chance(torn_percent);
            let block_survives = survival.survives(rng);
            for sector in (start..end).step_by(atom) {
                let survives = if block_torn {
                    survival.survives(rng)
                } else {
                    block_survives
                };
                if survives {
                    kept.push(Self::Write {
                        position: position + sector as u64,
                        bytes: bytes.slice(sector..end.min(sector + atom)),
                    });
                }
            }
        }
        kept
    }
}

/// A change that is not in the durable bytes.
#[derive(Clone)]
struct Pending {
    change: Change,
    /// True when every crash leaves it whole: it is here only because an earlier change may yet be
    /// lost.
    is_durable: bool,
}

impl Pending {
    /// Returns what a crash, or a failed sync, leaves of it.
    fn left(&self, rng: &mut Rng, survival: Survival, mapped: bool) -> Vec<Change> {
        if self.is_durable {
            return vec![self.change.clone()];
        }
        self.change.torn(rng, survival, mapped)
    }
}

/// The content of a file.
#[derive(Clone, Default)]
pub(super) struct Content {
    live: SparseContent,
    durable: SparseContent,
    pending: Vec<Pending>,
    /// Number of changes that have left `pending`.
    settled: u64,
    /// Room reserved by `allocate`, in bytes.
    reserved: u64,
    /// True on the medium `dax`.
    mapped: bool,
    /// Modification time (wall clock, milliseconds).
    modified_ms: i64,
}

impl Content {
    pub(super) fn durable(bytes: &[u8]) -> Self {
        let mut content = Self::default();
        content.live.write(0, bytes);
        content.durable = content.live.clone();
        content
    }

    /// Sets whether the file behaves as on the medium `dax` from now on.
    pub(super) fn set_mapped(&mut self, mapped: bool) {
        self.mapped = mapped;
    }

    /// Returns the modification time.
    pub(super) fn modified_ms(&self) -> i64 {
        self.modified_ms
    }

    /// Sets the modification time.
    ///
    /// It survives a power loss, which is the worst case when it is wrong.
    pub(super) fn set_modified(&mut self, modified_ms: i64) {
        self.modified_ms = modified_ms;
    }

    pub(super) fn live(&self) -> &SparseContent {
        &self.live
    }

    pub(super) fn durable_bytes(&self) -> SparseContent {
        let mut bytes = self.durable.clone();
        for pending in self.pending.iter().filter(|pending| pending.is_durable) {
            pending.change.apply(&mut bytes);
        }
        bytes
    }

    pub(super) fn apply(&mut self, change: Change) {
        let durable = match change {
            Change::Extend(len) => {
                self.reserved = self.reserved.max(len);
                true
            }
            Change::SetLen(len) => {
                self.reserved = self.reserved.min(len);
                false
            }
            Change::Write { .. } => true,
        };
        change.apply(&mut self.live);
        self.pending.push(Pending {
            change,
            is_durable: false,
        });
        if self.mapped && durable {
            // The call that made this change has synced the length, or there was nothing to sync.
            self.sync(u64::MAX);
        }
    }

    /// Applies a write that is durable when it completes; no other change becomes durable by it.
    pub(super) fn apply_durably(&mut self, write: Change) {
        let is_write = matches!(write, Change::Write { .. });
        assert!(is_write, "only a write is durable by itself");
        if self.mapped {
            return self.apply(write);
        }
        write.apply(&mut self.live);
        self.pend_durable(write);
    }

    /// Applies what is left of a durable write that failed: it is torn and in doubt, or it is whole
    /// for readers and what is not on the disk never gets there.
    pub(super) fn apply_durably_failed(&mut self, write: &Change, rng: &mut Rng) {
        if self.mapped || rng.chance(50) {
            return self.apply_torn(write, rng);
        }
        let survival = Survival::draw(rng);
        write.apply(&mut self.live);
        for part in write.torn(rng, survival, self.mapped) {
            self.pend_durable(part);
        }
    }

    fn pend_durable(&mut self, change: Change) {
        self.pending.push(Pending {
            change,
            is_durable: true,
        });
        self.settle_durable();
    }

    /// Applies parts of a change that did not complete.
    pub(super) fn apply_torn(&mut self, change: &Change, rng: &mut Rng) {
        let survival = Survival::draw(rng);
        for part in change.torn(rng, survival, self.mapped) {
            self.apply(part);
        }
    }

    /// Returns a mark for all changes made so far.
    pub(super) fn mark(&self) -> u64 {
        self.settled + self.pending.len() as u64
    }

    /// Makes the changes before `mark` durable.
    pub(super) fn sync(&mut self, mark: u64) {
        for pending in self.settle(mark) {
            pending.change.apply(&mut self.durable);
        }
        self.settle_durable();
    }

    /// Moves durable changes on, up to the first that is not durable.
    fn settle_durable(&mut self) {
        if self.pending.first().is_none_or(|first| !first.is_durable) {
            return;
        }
        let first = self.pending.iter().position(|pending| !pending.is_durable);
        let count = first.unwrap_or(self.pending.len());
        for pending in self.settle(self.settled + count as u64) {
            pending.change.apply(&mut self.durable);
        }
    }

    fn settle(&mut self, mark: u64) -> Vec<Pending> {
        let count = usize::try_from(mark.saturating_sub(self.settled)).unwrap_or(usize::MAX);
        let count = count.min(self.pending.len());
        self.settled += count as u64;
        self.pending.drain(..count).collect()
    }

    /// Simulates a failed sync of Linux.
    ///
    /// Some changes reach the disk and the others never do, but readers see them until the next
    /// start.
    pub(super) fn sync_failed(&mut self, rng: &mut Rng) {
        let survival = Survival::draw(rng);
        for pending in self.settle(u64::MAX) {
            for part in pending.left(rng, survival, self.mapped) {
                part.apply(&mut self.durable);
            }
        }
    }

    /// Returns the content after a power loss.
    pub(super) fn crashed(&self, rng: &mut Rng) -> Self {
        let mut durable = self.durable.clone();
        let survival = Survival::draw(rng);
        for pending in &self.pending {
            for part in pending.left(rng, survival, self.mapped) {
                part.apply(&mut durable);
            }
        }
        Self {
            live: durable.clone(),
            reserved: self.reserved.min(durable.len()),
            durable,
            pending: Vec::new(),
            settled: 0,
            mapped: self.mapped,
            modified_ms: self.modified_ms,
        }
    }

    pub(super) fn flip(&mut self, position: u64, bit: u8) {
        self.live.flip(position, bit);
        self.durable.flip(position, bit);
    }

    /// Returns the additional room that a write needs.
    pub(super) fn growth_of_write(&self, position: u64, len: u64) -> u64 {
        let mut after = self.live.block_count() * BLOCK_BYTES as u64;
        after += self.live.missing_blocks(position, len) * BLOCK_BYTES as u64;
        after.max(self.reserved) - self.used_bytes()
    }

    /// Returns the additional room that a reservation needs.
    pub(super) fn growth_of_reservation(&self, len: u64) -> u64 {
        len.saturating_sub(self.used_bytes())
    }

    /// Returns the room used on the disk.
    ///
    /// Reserved and written blocks mostly coincide, so the larger count applies.
    pub(super) fn used_bytes(&self) -> u64 {
        let written = self.live.block_count() * BLOCK_BYTES as u64;
        written.max(self.reserved)
    }
}
