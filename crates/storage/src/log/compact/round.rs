//! One round of compaction, from the plan to the last segment in place.
//!
//! It fills the offset map, judges each batch, and writes what is left, one group of segments after
//! the other.
//! It does not: decide which segments become one (`plan.rs`), or give names (`swap.rs`).

use std::rc::Rc;

use platform::Platform;
use platform::buf::block_floor;
use platform::disk::{BLOCK_BYTES, DiskFile, IoClass};
use wire::batch::retain::emptied;
use wire::batch::{BatchError, BatchHeader};
use wire::types::Offset;

use super::offset_map::OffsetMap;
use super::output::Output;
use super::pace::Pace;
use super::plan::{self, Limits};
use super::survival::{self, BatchRemainder, Producers, Survival, SurvivalError};
use super::transactions::Transactions;
use super::walk::Walk;
use super::{CompactOptions, CompactPolicy, CompactionRound, Dirt};
use crate::error::{Error, Result};
use crate::log::views::{Compacting, LogReader, LogTiers, Swapping};
use crate::segment::naming::Role;
use crate::segment::{POSITION_MAX, Segment};

/// Least and most bytes of one read or write.
const BUFFER_BYTES: (usize, usize) = (16 << 10, 4 << 20);
/// Largest segment: an index cannot hold a larger position.
const SEGMENT_BYTES_MAX: u64 = POSITION_MAX;

/// Why a header can be parsed: the batch was encoded here.
const WRITTEN_HERE: &str = "it was written here";

type Segments<P> = [Rc<Segment<P>>];

/// The bytes of one group of segments, before and after.
struct ReplacedBytes {
    before: u64,
    after: u64,
}

impl<P: Platform> Compacting<'_, P> {
    /// Runs one round; returns an error, whatever its cause, when the round cannot be finished.
    pub(super) async fn round(
        self,
        policy: &CompactPolicy,
        options: &CompactOptions,
    ) -> Result<Option<CompactionRound>> {
        let pace = Pace::new(self.0, options.bytes_per_second_max);
        Swapping(self.0).sweep_unfinished().await?;
        let now = self.store.clock().reading();
        let now_ms = now.earliest_ms();
        let (segments, is_whole) = self.compactable();
        let facts = self.facts(&segments, policy).await?;
        if !is_whole && !self.is_part_due(&facts, policy, now_ms) {
            return Ok(None);
        }
        let dirt = plan::dirt(&facts, self.first_dirty(), self.stable(), policy, now_ms);
        if dirt.dirty_bytes == 0 || dirt.first_dirty >= dirt.first_uncleanable {
            return Ok(None);
        }
        let buffer_bytes = block_floor(options.buffer_bytes / 2)
            .clamp(BUFFER_BYTES.0.max(BLOCK_BYTES), BUFFER_BYTES.1);
        let map = self
            .newest(&segments, dirt, options, buffer_bytes, &pace)
            .await?;
        let end = Offset(map.latest().0 + 1);
        if end <= dirt.first_dirty {
            return Ok(None);
        }
        let limits = Limits {
            segment: u64::from(self.options().segment_bytes).min(SEGMENT_BYTES_MAX),
            index_interval: self.options().index_interval_bytes,
            index: u64::from(self.options().index_bytes_max),
        };
        let groups = plan::groups(&facts, end, limits);
        let first = segments.first().map_or(end, |first| first.base);
        // Those past the end of the round in a rewritten segment too: its index names them.
        let last = groups.last().and_then(|group| segments.get(group.end - 1));
        let below = last.map_or(end, |last| last.next());
        let aborted = self.aborted_transactions(first, below).await?;
        let mut survival = Survival {
            map: &map,
            transactions: Transactions::new(aborted),
            producers: Producers::default(),
            end: dirt.first_uncleanable,
            now,
            delete_retention_ms: policy.delete_retention_ms,
            removals: is_whole,
        };
        let (mut bytes_before, mut bytes_after) = (0_u64, 0_u64);
        for group in groups {
            let group = &segments[group];
            survival.producers = Producers::new(&self.producers_in_pieces().await);
            let replaced = self
                .compact_group(group, &mut survival, buffer_bytes, &pace)
                .await?;
            bytes_before = bytes_before.saturating_add(replaced.before);
            bytes_after = bytes_after.saturating_add(replaced.after);
        }
        self.compaction.got_to(end, is_whole);
        let (bytes_read, bytes_written) = pace.bytes();
        Ok(Some(CompactionRound {
            from: dirt.first_dirty,
            to: end,
            bytes_before,
            bytes_after,
            bytes_read,
            bytes_written,
            map_utilization: map.utilization(),
            map_bytes: map.bytes(),
        }))
    }

    /// Returns the segments after the last one that cannot be read or replaced; true if that is
    /// all.
    ///
    /// The segments before are skipped. The rest is compacted as usual, except that tombstones and
    /// markers stay, which may concern records in the skipped part, and the next round begins where
    /// this one did.
    pub(super) fn compactable(self) -> (Vec<Rc<Segment<P>>>, bool) {
        let segments = self.segments.all();
        let stays = |segment: &Rc<Segment<P>>| {
            segment.is_offline() || LogTiers(self.0).is_on_failed_path(&segment.folder)
        };
        let from = segments.iter().rposition(stays).map_or(0, |at| at + 1);
        (segments.range(from..).cloned().collect(), from == 0)
    }

    /// Returns true when a round over a part is due.
    ///
    /// The rule is that of any round, counted from where the last one ended.
    fn is_part_due(
        self,
        facts: &[plan::SegmentFacts],
        policy: &CompactPolicy,
        now_ms: i64,
    ) -> bool {
        let readable_from = facts.first().map_or(self.offsets.end(), |first| first.base);
        if readable_from > self.first_dirty() {
            // The unreadable dirty part may hold the newest record of a key.
            return false;
        }
        let Some(end) = self.compaction.part_end.get() else {
            return true;
        };
        let dirt = plan::dirt(facts, end, self.stable(), policy, now_ms);
        dirt.is_due(policy)
    }

    /// Returns the newest offset of each key of the dirty part, as far as there is room.
    async fn newest(
        self,
        segments: &Segments<P>,
        dirt: Dirt,
        options: &CompactOptions,
        buffer_bytes: usize,
        pace: &Pace<'_, P>,
    ) -> Result<OffsetMap> {
        let Dirt {
            first_dirty: from,
            first_uncleanable: below,
            ..
        } = dirt;
        let platform = &self.store.shared.platform;
        let secret = [platform.random_u64(), platform.random_u64()];
        assert!(from < below, "a round has something to do");
        let offsets = below.since(from).unsigned_abs();
        let (bytes_max, load) = (options.map_bytes_max, options.map_load_factor);
        let mut map = OffsetMap::new(bytes_max, load, offsets, secret);
        let mut transactions = Transactions::new(self.aborted_transactions(from, below).await?);
        let dirty = |segment: &&Rc<Segment<P>>| segment.next() > from && segment.base < below;
        for segment in segments.iter().filter(dirty) {
            LogReader(self.0).load(segment).await?;
            let position = segment.floor(from).unwrap_or(0);
            let file = segment.file(self.store.disk()).await?;
            let file = file.of_class(IoClass::Background);
            let base = if position == 0 {
                segment.base
            } else {
                Offset::ZERO
            };
            let span = (position, segment.size());
            let bounds = (base, segment.next());
            let mut walk = Walk::new(&file, segment.path(Role::Log), span, bounds, buffer_bytes);
            while let Some((header, batch)) = walk.next().await? {
                if header.base_offset >= below {
                    break;
                }
                let noted =
                    survival::note(pace, &mut map, &mut transactions, from, &header, &batch);
                match noted.await.map_err(|why| why_not(why, &walk))? {
                    Ok(work_bytes) => pace.step(batch.len(), 0, work_bytes).await?,
                    Err(_full) => return Ok(map),
                }
            }
            // A gap at the end of a segment has no records.
            map.cover(segment.next().min(below).plus(-1));
        }
        Ok(map)
    }

    /// Rewrites neighbours as one, and puts it in their place.
    async fn compact_group(
        self,
        group: &Segments<P>,
        survival: &mut Survival<'_>,
        buffer_bytes: usize,
        pace: &Pace<'_, P>,
    ) -> Result<ReplacedBytes> {
        let before: u64 = group
            .iter()
            .map(|segment| segment.size())
            .fold(0, u64::saturating_add);
        let mut left_to_read = before;
        let mut output = Output::new(self.0, group, buffer_bytes);
        let mut last = None;
        for segment in group {
            let file = segment.file(self.store.disk()).await?;
            let file = file.of_class(IoClass::Background);
            let span = (0, segment.size());
            let path = segment.path(Role::Log);
            let bounds = (segment.base, segment.next());
            let mut walk = Walk::new(&file, path, span, bounds, buffer_bytes);
            while let Some((header, batch)) = walk.next().await? {
                left_to_read = left_to_read.saturating_sub(batch.len() as u64);
                last = Some((header, segment.base));
                let judged = survival.judge(pace, &header, &batch).await;
                let judged = judged.map_err(|why| why_not(why, &walk))?;
                if let Some(txn) = judged.aborted {
                    output.note_aborted(txn);
                }
                let room = room_for_longer(output.size(), left_to_read);
                match fitting(judged.left, batch.len(), room) {
                    BatchRemainder::Nothing => output.differ(self.0, pace).await?,
                    BatchRemainder::Same => output.add(self.0, pace, &header, &batch).await?,
                    BatchRemainder::Less(batch) => {
                        output.differ(self.0, pace).await?;
                        let header = BatchHeader::parse(&batch).expect(WRITTEN_HERE);
                        output.add(self.0, pace, &header, &batch).await?;
                    }
                }
                pace.step(batch.len(), 0, judged.work_bytes).await?;
            }
        }
        if let Some((header, base)) = last
            && group.len() > 1
            && output.next() <= base
        {
            // A start that finishes the swap learns from the last offset which old segments the
            // file replaces. It must be all of them: from one that stays, a record could come back
            // without the tombstone in the next one.
            let batch = emptied(&header).map_err(|_| Error::Invalid {
                reason: "an empty batch is longer than any",
            })?;
            output.differ(self.0, pace).await?;
            let header = BatchHeader::parse(&batch).expect(WRITTEN_HERE);
            output.add(self.0, pace, &header, &batch).await?;
        }
        let Some(made) = output.finish(self.0, pace).await? else {
            let after = before;
            return Ok(ReplacedBytes { before, after });
        };
        pace.check()?;
        let after = made.size;
        Swapping(self.0).put_in_place(group, made, pace).await?;
        Ok(ReplacedBytes { before, after })
    }
}

/// Keeps a batch as it is where its longer form would make the segment outgrow its index.
///
/// A delete horizon makes timestamps longer.
fn fitting(left: BatchRemainder, bytes: usize, room: u64) -> BatchRemainder {
    match left {
        BatchRemainder::Less(less) if less.len() > bytes && less.len() as u64 > room => {
            BatchRemainder::Same
        }
        left => left,
    }
}

/// Returns by how much batches may grow, given the bytes written and the bytes left.
///
/// A file that came from elsewhere may be longer than a segment of ours: there is no room then.
fn room_for_longer(written: u64, left: u64) -> u64 {
    SEGMENT_BYTES_MAX.saturating_sub(written.saturating_add(left))
}

fn why_not<F: DiskFile>(why: SurvivalError, walk: &Walk<'_, F>) -> Error {
    match why {
        SurvivalError::Damaged(error) => walk.damage(unreadable(&error)),
        SurvivalError::Over(error) => error,
    }
}

fn unreadable(error: &BatchError) -> &'static str {
    match error {
        BatchError::Decompress { .. } => "the records of a batch cannot be decompressed",
        BatchError::Framing { reason, .. } => reason,
        _ => "a batch cannot be read",
    }
}

#[cfg(test)]
mod tests {
    use super::{SEGMENT_BYTES_MAX, room_for_longer};

    #[test]
    fn a_segment_longer_than_any_of_ours_leaves_no_room_and_no_panic() {
        assert_eq!(room_for_longer(10, 20), SEGMENT_BYTES_MAX - 30);
        assert_eq!(room_for_longer(0, 3 << 30), 0);
        assert_eq!(room_for_longer(u64::MAX, 1), 0);
    }
}
