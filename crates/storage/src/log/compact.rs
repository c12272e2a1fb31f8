//! Compaction: of the records of each key only the newest stays, in its place; Kafka's cleaner, with its guarantees and
//! its files.
//!
//! A round: note the newest offset of each key in the dirty part, front to back, as far as memory goes
//! (`compact/offset_map.rs`) -> write the segments from the start of the log to there anew, without what has a newer
//! record (`compact/survival.rs`), small neighbours as one -> put each in the place of those it was made of
//! (`compact/swap.rs`). Then everything up to there is clean.
//! Invariants: offsets, timestamps and order stay; the newest record of a key below the high watermark is never
//! removed, save a tombstone after its time; the active segment, and what is not decided for every reader, is not touched.
//! Whoever reads the old segments reads them to the end. A round gives up, and leaves no trace, when the log is cut or closed
//! under it. Batches that are large when decompressed are opened and written anew beside the shard; see `compact/pace.rs`.
//! It does not: decide when, or which log (the owner does, by [`Dirt`]), or write the checkpoint.

use std::cell::Cell;
use std::rc::Rc;

use platform::Platform;
use platform::clock::Reading;
use platform::disk::BLOCK_BYTES;
use platform::sync::Semaphore;
use wire::types::Offset;

use super::Log;
use crate::error::{Error, Kind, Result};
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

/// How a round of compaction goes about it.
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
pub struct Compacted {
    /// The log was clean below.
    pub from: Offset,
    /// It is clean below, now.
    pub to: Offset,
    /// Bytes of the segments that were looked at, before.
    pub bytes_before: u64,
    /// Bytes of the segments that are there instead.
    pub bytes_after: u64,
    /// Bytes read, some of them twice.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Part of the offset map that was used.
    pub map_utilization: f64,
    /// Bytes of the offset map.
    pub map_bytes: usize,
}

/// What a log knows of its compaction.
pub(super) struct State {
    /// Everything below is compacted. `None`: never begun.
    compacted: Cell<Option<Offset>>,
    /// The end of the last round that had to leave a part of the log alone.
    part_end: Cell<Option<Offset>>,
    /// Held while a round is under way.
    turn: Semaphore,
    /// Grows when what a round has read may be gone.
    interruptions: Cell<u64>,
    stopping: Cell<bool>,
    uncleanable: Cell<bool>,
}

impl State {
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

    /// A round over all of the log, or a part of it, has got to `end`.
    fn got_to(&self, end: Offset, is_whole: bool) {
        let reached = if is_whole {
            &self.compacted
        } else {
            &self.part_end
        };
        reached.set(Some(end));
    }

    /// The log is about to be cut: the round that is under way comes to nothing.
    pub(super) fn interrupt(&self) {
        self.interruptions.set(self.interruptions.get() + 1);
    }

    /// The log ends at `end` now, or begins anew there.
    pub(super) fn truncate_to(&self, end: Offset) {
        let compacted = self.compacted.get();
        self.compacted.set(compacted.map(|offset| offset.min(end)));
        let part_end = self.part_end.get();
        self.part_end.set(part_end.map(|offset| offset.min(end)));
    }
}

impl<P: Platform> Log<P> {
    /// Compacts what may be; `None` when there is nothing, or the log was changed under it. Damage is an error once,
    /// and the log not touched any more.
    pub async fn compact(
        &self,
        policy: &CompactPolicy,
        options: &CompactOptions,
    ) -> Result<Option<Compacted>> {
        let Ok(_turn) = self.compaction.turn.try_acquire() else {
            return Ok(None);
        };
        let interruptions = self.compaction.interruptions.get();
        if Compacting(self).is_round_over(interruptions) || Compacting(self).is_uncleanable() {
            return Ok(None);
        }
        let result = Compacting(self).round(policy, options).await;
        if let (Err(error), false) = (&result, LogCondition(self).is_beyond_repair()) {
            // What was being made is of no use. What stays, the next round or the next start removes.
            if error.is_of_a_write() {
                PathFailure(self).fail_path(error);
            }
            let swept = Swapping(self).sweep_unfinished().await;
            if Compacting(self).is_round_over(interruptions) {
                return Ok(None);
            }
            swept?;
            if error.kind() == Kind::Corrupt {
                self.store.shared.metrics.corruptions.inc();
                self.compaction.uncleanable.set(true);
            }
        }
        result
    }
}

impl<P: Platform> Compacting<'_, P> {
    /// Everything below is compacted; `None` if compaction never began.
    pub fn compacted_offset(self) -> Option<Offset> {
        self.compaction.compacted.get()
    }

    /// Says that the log is being compacted. The owner has this in the checkpoint before the first round, so that the
    /// gaps it leaves are known for what they are. True the first time.
    pub fn begin_compacting(self) -> bool {
        let is_first = self.compaction.compacted.get().is_none();
        if is_first {
            self.compaction.compacted.set(Some(self.offsets.start()));
        }
        is_first
    }

    /// The checkpoint could not be written: no round begins, and the next that would is the first again.
    pub fn has_not_compacted(self) {
        self.compaction.compacted.set(None);
    }

    /// True when damage was found that no round gets past.
    pub fn is_uncleanable(self) -> bool {
        self.compaction.uncleanable.get()
    }

    /// How dirty the log is. Of one that cannot all be compacted, as if the last round had got through; nothing of one
    /// that can wait only.
    pub async fn dirt(self, policy: &CompactPolicy, now: impl Into<Reading>) -> Result<Dirt> {
        // What is old enough by both clocks is.
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

    /// No round is under way afterwards, and none begins.
    pub(super) async fn stop_compacting(self) {
        self.compaction.stopping.set(true);
        drop(self.compaction.turn.acquire().await);
    }

    /// True when a round that began at `interruptions` must not go on.
    fn is_round_over(self, interruptions: u64) -> bool {
        self.compaction.stopping.get()
            || LogCondition(self.0).is_beyond_repair()
            || self.compaction.interruptions.get() != interruptions
    }

    /// Where the dirty part begins.
    fn first_dirty(self) -> Offset {
        let (start, end) = (self.offsets.start(), self.offsets.end());
        let compacted = self.compaction.compacted.get().unwrap_or(start);
        if compacted > end {
            start
        } else {
            compacted.max(start)
        }
    }

    /// What lies below is decided for every reader, and durable.
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
