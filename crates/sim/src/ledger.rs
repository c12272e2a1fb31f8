//! What was accepted and what was promised: the model that the logs are compared with.
//!
//! One [`LogLedger`] per log. It holds the batches that the log must have, may have (accepted, not yet safe), and how far
//! each promise reaches. After a restart the log may have lost what was not safe; [`LogLedger::recovered`] then forgets
//! it too, after checking.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;
use storage::Durability;
use wire::types::{Offset, TimestampMs};

/// Identity of an idempotent batch: producer, epoch, first sequence.
pub type BatchId = (i64, i16, i32);

/// A batch that was accepted.
#[derive(Clone, Debug)]
pub struct Accepted {
    /// Its bytes as they must be stored, offset and epoch stamped.
    pub bytes: Bytes,
    /// Offset after its last record.
    pub next: Offset,
    /// Leader epoch it was stamped with.
    pub epoch: i32,
    /// Timestamps of its records, as a lookup sees them.
    pub timestamps: Vec<TimestampMs>,
    /// Who it is of, if idempotent.
    pub id: Option<BatchId>,
}

/// The model of one log.
#[derive(Debug)]
pub struct LogLedger {
    /// Name for messages.
    pub name: String,
    /// What the log promises.
    pub durability: Durability,
    /// By base offset, without gaps, from the promised log start on. While a truncation is under way, or after one that failed, also what it was to cut.
    pub batches: BTreeMap<Offset, Accepted>,
    ids: HashMap<BatchId, Offset>,
    /// Batches that were stored, and deleted on purpose since.
    deleted: HashSet<BatchId>,
    /// Everything below must survive a loss of power.
    pub power_safe: Offset,
    /// Everything below must survive a kill.
    pub kill_safe: Offset,
    /// The log start that was seen last.
    pub log_start: Offset,
    /// The log start that was promised: saved in the checkpoint.
    pub log_start_saved: Offset,
    /// The highest log start that there was: epochs that end before it may be forgotten, although the log may start
    /// earlier again after a crash.
    pub log_start_max: Offset,
    /// Segments that begin below were deleted in this life: nothing but a loss of power may bring them back.
    pub gone_below: Offset,
    /// Where notes said that the log starts, when a path was missing or failed as it was opened; what they told of may have
    /// been deleted before.
    pub start_by_note: Option<Offset>,
    /// A truncation to this offset has begun and has not been seen to end.
    pub truncating: Option<Offset>,
    /// Grows with each truncation: what was known of the log before is void.
    pub generation: u64,
    /// Bits of its files were inverted: it may refuse anything, but not make anything up.
    pub rotten: bool,
    /// It cannot be opened any more, because of rot.
    pub dead: bool,
    /// Batches that were safe are gone, legitimately: producers may meet a gap.
    pub has_lost: bool,
}

impl LogLedger {
    /// A log without records.
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

    /// The offset that the next batch must get.
    pub fn end(&self) -> Offset {
        let last = self.batches.last_key_value();
        last.map_or(self.log_start, |(_, batch)| batch.next.max(self.log_start))
    }

    /// A batch got its offsets.
    pub fn accept(&mut self, base: Offset, batch: Accepted) {
        if let Some(id) = batch.id {
            self.ids.insert(id, base);
        }
        self.batches.insert(base, batch);
    }

    /// Somebody was told that everything below is safe.
    pub fn acknowledge(&mut self, below: Offset) {
        self.kill_safe = self.kill_safe.max(below);
        if self.durability == Durability::Synced {
            self.power_safe = self.power_safe.max(below);
        }
    }

    /// Where the batch with this identity is, if the log has it.
    pub fn find(&self, id: BatchId) -> Option<Offset> {
        self.ids.get(&id).copied()
    }

    /// True when the log had the batch with this identity, until it was deleted with the records before a log start.
    pub fn had(&self, id: BatchId) -> bool {
        self.deleted.contains(&id)
    }

    /// The batch that holds `offset`.
    pub fn batch_at(&self, offset: Offset) -> Option<(Offset, &Accepted)> {
        let (base, batch) = self.batches.range(..=offset).next_back()?;
        (batch.next > offset).then_some((*base, batch))
    }

    /// The log was cut: everything from `end` on is gone.
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

    /// The log starts at `start` for now.
    pub fn starts_at(&mut self, start: Offset) {
        self.log_start = start;
        self.log_start_max = self.log_start_max.max(start);
    }

    /// The log start is promised to be at `start` at least, whatever happens: what lies before is gone.
    pub fn start_saved(&mut self, start: Offset) {
        self.log_start_saved = self.log_start_saved.max(start);
        let mut kept = self.batches.split_off(&start);
        // The batch that `start` lies in stays.
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

    /// The log was opened again and was found to be `[start, end)`. How many batches it has lost.
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
                let batch = Accepted {
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
