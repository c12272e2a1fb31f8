//! Compaction: keeps only the newest record of each key, in its place; Kafka's cleaner, with its
//! guarantees and its files.
//!
//! A round: note the newest offset of each key in the dirty part, front to back, as far as memory
//! goes (`compact/offset_map.rs`) -> rewrite the segments from the start of the log to there,
//! without records that have a newer one (`compact/survival.rs`), small neighbours as one -> put
//! each in the place of those it was made of (`compact/swap.rs`). Then everything up to there is
//! clean.
//! Invariants: offsets, timestamps and order stay; the newest record of a key below the high
//! watermark is never removed, except a tombstone after its time; the active segment, and what is
//! not decided for every reader, are not touched. Readers of the old segments read them to the end.
//! A round gives up, and leaves no trace, when the log is truncated or closed during it. Batches
//! that are large when decompressed are opened and rewritten off the shard; see `compact/pace.rs`.
//! It does not: decide when, or which log (the owner does, by [`Dirt`]), or write the checkpoint.

use std::cell::Cell;
use std::rc::Rc;

use platform::Platform;
use platform::clock::Reading;
use platform::disk::BLOCK_BYTES;
use platform::sync::Semaphore;
use wire::types::Offset;

use super::Log;
use crate::error::{Error, FailureKind, Result};
use crate::log::views::{Compacting, LogCondition, Looking, PathFailure, Swapping};
use crate::segment::Segment;
use crate::segment::naming::Role;
use crate::segment::scan::Scan;

mod key_hash;
mod offset_map;
mod output;
mod pace;
mod plan;
mod round;
mod survival;
mod swap;
mod transactions;
mod walk;

use plan::SegmentFacts;
pub use plan::{CompactPolicy, Dirt};

/// The settings of a round of compaction.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CompactOptions {
    /// `log.cleaner.dedupe.buffer.size`, this round's part: memory for the offset map.
    pub map_bytes_max: usize,
    /// `log.cleaner.io.buffer.load.factor`: how full the map may become.
    pub map_load_factor: f64,
    /// `log.cleaner.io.buffer.size`, this round's part: memory for reading and writing.
    pub buffer_bytes: usize,
    /// `log.cleaner.io.max.bytes.per.second`, this round's part: bytes read and written.
    pub bytes_per_second_max: f64,
}

/// What a round did.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CompactionRound {
    /// The log was clean below this offset before the round.
    pub from: Offset,
    /// The log is clean below this offset now.
    pub to: Offset,
    /// Bytes of the examined segments before the round.
    pub bytes_before: u64,
    /// Bytes of the segments that replaced them.
    pub bytes_after: u64,
    /// Bytes read, some of them twice.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Part of the offset map that was used, from 0 to 1.
    pub map_utilization: f64,
    /// Bytes of the offset map.
    pub map_bytes: usize,
}

/// The state of a log's compaction.
pub(super) struct CompactionState {
    /// Everything below is compacted; `None` before the first round.
    compacted: Cell<Option<Offset>>,
    /// The end of the last round that had to skip a part of the log.
    part_end: Cell<Option<Offset>>,
    /// Held while a round is under way.
    turn: Semaphore,
    /// Grows when what a round has read may be gone.
    interruptions: Cell<u64>,
    stopping: Cell<bool>,
    uncleanable: Cell<bool>,
}

impl CompactionState {
    pub(super) fn new(compacted: Option<Offset>) -> Self {
        Self {
            compacted: Cell::new(compacted),
            part_end: Cell::new(None),
            turn: Semaphore::new(1),
            interruptions: Cell::new(0),
            stopping: Cell::new(false),
            uncleanable: Cell::new(false),
        }
    }

    pub(super) fn compacted(&self) -> Option<Offset> {
        self.compacted.get()
    }

    /// Notes that a round over all of the log, or over a part of it, has reached `end`.
    fn got_to(&self, end: Offset, is_whole: bool) {
        let reached = if is_whole {
            &self.compacted
        } else {
            &self.part_end
        };
        reached.set(Some(end));
    }

    /// Ends the round that is under way without a result: the log is about to be truncated.
    pub(super) fn interrupt(&self) {
        self.interruptions.set(self.interruptions.get() + 1);
    }

    /// Lowers the compacted offsets to `end`, where the log now ends or begins again.
    pub(super) fn truncate_to(&self, end: Offset) {
        let compacted = self.compacted.get();
        self.compacted.set(compacted.map(|offset| offset.min(end)));
        let part_end = self.part_end.get();
        self.part_end.set(part_end.map(|offset| offset.min(end)));
    }
}

impl<P: Platform> Log<P> {
    /// Compacts what may be; `None` when there is nothing, or the log changed meanwhile.
    ///
    /// Damage is returned as an error once; afterwards the log is not compacted any more.
    pub async fn compact(
        &self,
        policy: &CompactPolicy,
        options: &CompactOptions,
    ) -> Result<Option<CompactionRound>> {
        let Ok(_turn) = self.compaction.turn.try_acquire() else {
            return Ok(None);
        };
        let interruptions = self.compaction.interruptions.get();
        if Compacting(self).is_round_over(interruptions) || Compacting(self).is_uncleanable() {
            return Ok(None);
        }
        let result = Compacting(self).round(policy, options).await;
        if let (Err(error), false) = (&result, LogCondition(self).is_beyond_repair()) {
            // The unfinished output is useless. What stays of it, the next round or the next start
            // removes.
            if error.is_of_a_write() {
                PathFailure(self).fail_path(error);
            }
            let swept = Swapping(self).sweep_unfinished().await;
            if Compacting(self).is_round_over(interruptions) {
                return Ok(None);
            }
            swept?;
            if error.kind() == FailureKind::Corrupt {
                self.store.shared.metrics.corruptions.inc();
                self.compaction.uncleanable.set(true);
            }
        }
        result
    }
}

impl<P: Platform> Compacting<'_, P> {
    /// Returns the offset below which everything is compacted; `None` if compaction never began.
    pub fn compacted_offset(self) -> Option<Offset> {
        self.compaction.compacted.get()
    }

    /// Marks the log as being compacted; returns true the first time.
    ///
    /// The owner checkpoints this before the first round, so that a start does not take the gaps
    /// that compaction leaves for damage.
    pub fn begin_compacting(self) -> bool {
        let is_first = self.compaction.compacted.get().is_none();
        if is_first {
            self.compaction.compacted.set(Some(self.offsets.start()));
        }
        is_first
    }

    /// Takes the mark back because the checkpoint could not be written.
    ///
    /// No round begins, and the next attempt is the first again.
    pub fn has_not_compacted(self) {
        self.compaction.compacted.set(None);
    }

    /// Returns true when damage was found that no round gets past.
    pub fn is_uncleanable(self) -> bool {
        self.compaction.uncleanable.get()
    }

    /// Returns how dirty the log is.
    ///
    /// If only a part of it can be compacted, the result is as if the last round had covered all of
    /// it. If the unreadable part is dirty, the log can only wait, and nothing is reported as
    /// dirty.
    pub async fn dirt(self, policy: &CompactPolicy, now: impl Into<Reading>) -> Result<Dirt> {
        // A record is old enough when it is by both clocks.
        let now_ms = now.into().earliest_ms();
        let (segments, is_whole) = self.compactable();
        let mut first_dirty = self.first_dirty();
        if !is_whole {
            let readable_from = segments
                .first()
                .map_or(self.offsets.end(), |first| first.base);
            if readable_from > first_dirty {
                return Ok(plan::dirt(&[], first_dirty, first_dirty, policy, now_ms));
            }
            first_dirty = self.compaction.part_end.get().unwrap_or(first_dirty);
        }
        let facts = self.facts(&segments, policy).await?;
        let stable = self.stable();
        Ok(plan::dirt(&facts, first_dirty, stable, policy, now_ms))
    }

    /// Ends the round that is under way, and lets none begin.
    pub(super) async fn stop_compacting(self) {
        self.compaction.stopping.set(true);
        drop(self.compaction.turn.acquire().await);
    }

    /// Returns true when a round that began at `interruptions` must not continue.
    fn is_round_over(self, interruptions: u64) -> bool {
        self.compaction.stopping.get()
            || LogCondition(self.0).is_beyond_repair()
            || self.compaction.interruptions.get() != interruptions
    }

    /// Returns where the dirty part begins.
    fn first_dirty(self) -> Offset {
        let (start, end) = (self.offsets.start(), self.offsets.end());
        let compacted = self.compaction.compacted.get().unwrap_or(start);
        if compacted > end {
            start
        } else {
            compacted.max(start)
        }
    }

    /// Returns the offset below which everything is durable and decided for every reader.
    fn stable(self) -> Offset {
        let decided = self.stable_offset().min(self.offsets.high_watermark());
        decided.min(self.durable_offset())
    }

    async fn facts(
        self,
        segments: &[Rc<Segment<P>>],
        policy: &CompactPolicy,
    ) -> Result<Vec<SegmentFacts>> {
        let first_dirty = self.first_dirty();
        let mut facts = Vec::with_capacity(segments.len());
        for segment in segments {
            let is_sealed = segment.is_sealed();
            let mut fact = SegmentFacts {
                base: segment.base,
                next: segment.next(),
                size: segment.size(),
                is_sealed,
                largest_ms: None,
                first_ms: None,
            };
            let is_dirty = is_sealed && fact.next > first_dirty;
            if is_dirty && policy.min_lag_ms > 0 {
                let largest = Looking(self.0).largest_timestamp(segment).await?;
                fact.largest_ms = largest.map(|(timestamp, _)| timestamp.0);
            }
            if is_dirty && policy.max_lag_ms < i64::MAX {
                fact.first_ms = self.first_timestamp(segment).await?;
            }
            facts.push(fact);
        }
        Ok(facts)
    }

    async fn first_timestamp(self, segment: &Rc<Segment<P>>) -> Result<Option<i64>> {
        if segment.first_timestamp().is_none() && segment.size() > 0 {
            let path = segment.path(Role::Log);
            let file = segment.file(self.store.disk()).await?;
            let mut scan = Scan::new(&file, 0, segment.size(), BLOCK_BYTES);
            let header = scan.header().await.map_err(Error::io("read", &path))?;
            let timestamp = header.map(|header| header.max_timestamp.0);
            segment.remember_first_timestamp(timestamp);
        }
        Ok(segment.first_timestamp())
    }
}
