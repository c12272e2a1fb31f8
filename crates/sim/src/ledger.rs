//! The model that the logs are compared with: which batches were accepted and what was promised.
//!
//! There is one [`LogLedger`] per log. It holds the batches that the log must have or may have
//! (accepted, not yet safe), and the extent of each promise. After a restart the log may have lost
//! batches that were not safe; after the check [`LogLedger::recovered`] removes them from the
//! ledger, too.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;
use storage::Durability;
use wire::types::{Offset, TimestampMs};

/// The identity of an idempotent batch: producer, epoch, first sequence.
pub type BatchId = (i64, i16, i32);

/// A batch that was accepted.
#[derive(Clone, Debug)]
pub struct LedgerBatch {
    /// The bytes as they must be stored, with offset and epoch stamped.
    pub bytes: Bytes,
    /// The offset after its last record.
    pub next: Offset,
    /// The leader epoch that it was stamped with.
    pub epoch: i32,
    /// The timestamps of its records, as a lookup returns them.
    pub timestamps: Vec<TimestampMs>,
    /// The identity, if the batch is idempotent.
    pub id: Option<BatchId>,
}

/// The model of one log.
#[derive(Debug)]
pub struct LogLedger {
    /// The name for messages.
    pub name: String,
    /// The durability that the log promises.
    pub durability: Durability,
    /// The batches by base offset, without gaps, from the promised log start on; during a
    /// truncation and after a failed one also those to be truncated.
    pub batches: BTreeMap<Offset, LedgerBatch>,
    ids: HashMap<BatchId, Offset>,
    /// Batches that were stored and then deleted on purpose.
    deleted: HashSet<BatchId>,
    /// Everything below must survive a power loss.
    pub power_safe: Offset,
    /// Everything below must survive a kill.
    pub kill_safe: Offset,
    /// The last observed log start offset.
    pub log_start: Offset,
    /// The promised log start offset, which is saved in the checkpoint.
    pub log_start_saved: Offset,
    /// The highest log start offset so far: leader epochs that end before it may be forgotten,
    /// although the log may start at a lower offset again after a crash.
    pub log_start_max: Offset,
    /// Segments that begin below were deleted in this life; only a power loss may restore them.
    pub gone_below: Offset,
    /// The log start offset according to notes, when a path was missing or failed while the log was
    /// opened; the segments in the notes may have been deleted before.
    pub start_by_note: Option<Offset>,
    /// A truncation to this offset has begun, and its end was not observed.
    pub truncating: Option<Offset>,
    /// Incremented by each truncation; earlier knowledge of the log is then invalid.
    pub generation: u64,
    /// Bits of its files were flipped: the log may refuse anything, but must not return wrong
    /// records.
    pub rotten: bool,
    /// The log can no longer be opened, because of flipped bits.
    pub dead: bool,
    /// Safe batches were lost legitimately, so producers may meet a gap.
    pub has_lost: bool,
}

impl LogLedger {
    /// Creates the ledger of a log without records.
    pub fn new(name: String, durability: Durability) -> Self {
        Self {
            name,
            durability,
            batches: BTreeMap::new(),
            ids: HashMap::new(),
            deleted: HashSet::new(),
            power_safe: Offset::ZERO,
            kill_safe: Offset::ZERO,
            log_start: Offset::ZERO,
            log_start_saved: Offset::ZERO,
            log_start_max: Offset::ZERO,
            gone_below: Offset::ZERO,
            start_by_note: None,
            truncating: None,
            generation: 0,
            rotten: false,
            dead: false,
            has_lost: false,
        }
    }

    /// Returns the offset that the next batch must get.
    pub fn end(&self) -> Offset {
        let last = self.batches.last_key_value();
        last.map_or(self.log_start, |(_, batch)| batch.next.max(self.log_start))
    }

    /// Adds a batch that got its offsets.
    pub fn accept(&mut self, base: Offset, batch: LedgerBatch) {
        if let Some(id) = batch.id {
            self.ids.insert(id, base);
        }
        self.batches.insert(base, batch);
    }

    /// Notes that everything below `below` was acknowledged as safe.
    pub fn acknowledge(&mut self, below: Offset) {
        self.kill_safe = self.kill_safe.max(below);
        if self.durability == Durability::Synced {
            self.power_safe = self.power_safe.max(below);
        }
    }

    /// Returns the base offset of the batch with this identity, if the log has it.
    pub fn find(&self, id: BatchId) -> Option<Offset> {
        self.ids.get(&id).copied()
    }

    /// Returns true when the log had the batch with this identity until it was deleted before a log
    /// start offset.
    pub fn had(&self, id: BatchId) -> bool {
        self.deleted.contains(&id)
    }

    /// Returns the batch that holds `offset`.
    pub fn batch_at(&self, offset: Offset) -> Option<(Offset, &LedgerBatch)> {
        let (base, batch) = self.batches.range(..=offset).next_back()?;
        (batch.next > offset).then_some((*base, batch))
    }

    /// Notes a truncation: everything from `end` on is gone.
    pub fn truncated(&mut self, end: Offset) {
        self.forget_from(end);
        self.power_safe = self.power_safe.min(end);
        self.kill_safe = self.kill_safe.min(end);
        self.log_start = self.log_start.min(end);
        self.log_start_saved = self.log_start_saved.min(end);
        self.log_start_max = self.log_start_max.min(end);
        self.gone_below = self.gone_below.min(end);
        self.truncating = None;
        self.generation += 1;
        self.has_lost = true;
    }

    /// Sets the current log start offset.
    pub fn starts_at(&mut self, start: Offset) {
        self.log_start = start;
        self.log_start_max = self.log_start_max.max(start);
    }

    /// Notes the promise that the log starts at `start` or later, and removes the batches before
    /// it.
    pub fn start_saved(&mut self, start: Offset) {
        self.log_start_saved = self.log_start_saved.max(start);
        let mut kept = self.batches.split_off(&start);
        // The batch that contains `start` stays.
        if let Some(last) = self.batches.last_entry()
            && last.get().next > start
        {
            let (base, batch) = last.remove_entry();
            kept.insert(base, batch);
        }
        let deleted = self.batches.values().filter_map(|batch| batch.id);
        self.deleted.extend(deleted);
        self.batches = kept;
        self.index_ids();
    }

    /// Notes that the log was reopened as `[start, end)`, and returns how many batches it has lost.
    pub fn recovered(&mut self, start: Offset, end: Offset) -> usize {
        let before = self.batches.len();
        self.forget_from(end);
        let lost = before - self.batches.len();
        if end < self.kill_safe || end < self.power_safe {
            self.has_lost = true;
        }
        self.power_safe = self.power_safe.min(end);
        self.kill_safe = self.kill_safe.min(end);
        self.truncating = None;
        self.generation += 1;
        self.starts_at(start);
        self.log_start_max = self.log_start_max.min(end);
        self.log_start_saved = self.log_start_saved.min(start);
        self.gone_below = Offset::ZERO;
        lost
    }

    fn forget_from(&mut self, end: Offset) {
        self.batches.split_off(&end);
        while self
            .batches
            .last_key_value()
            .is_some_and(|(_, batch)| batch.next > end)
        {
            self.batches.pop_last();
        }
        self.index_ids();
    }

    fn index_ids(&mut self) {
        let ids = self
            .batches
            .iter()
            .filter_map(|(base, batch)| Some((batch.id?, *base)));
        self.ids = ids.collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_batches_before_a_log_start_are_known_as_deleted() {
        for (start, deleted) in [(0, 0), (2, 0), (3, 1), (4, 1), (6, 2), (9, 3)] {
            let mut ledger = LogLedger::new("log".to_owned(), Durability::Synced);
            for base in [0_i32, 3, 6] {
                let batch = LedgerBatch {
                    bytes: Bytes::new(),
                    next: Offset(i64::from(base) + 3),
                    epoch: 0,
                    timestamps: Vec::new(),
                    id: Some((1, 0, base)),
                };
                ledger.accept(Offset(i64::from(base)), batch);
            }
            ledger.start_saved(Offset(start));
            for (at, base) in [0, 3, 6].into_iter().enumerate() {
                let id = (1, 0, base);
                assert_eq!(ledger.had(id), at < deleted, "{base}, start {start}");
                assert_eq!(
                    ledger.find(id).is_some(),
                    at >= deleted,
                    "{base}, start {start}"
                );
            }
        }
    }
}
