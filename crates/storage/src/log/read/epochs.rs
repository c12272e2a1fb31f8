//! Decides which is wrong when a batch and the log's leader epochs contradict each other.
//!
//! Neither has a checksum: the epoch of a batch, and `leader-epoch-checkpoint`, which is a hint.
//! The other batches of the segment decide. Their epochs do not fall; one that stands alone among
//! others, or falls, is damage. Where the batches agree with each other against what was known, the
//! known epochs were wrong, and are replaced for this segment. Where an epoch would begin one batch
//! earlier or later than known, either may be wrong: a difference of one bit is rot of the batch,
//! unless the batch beyond the segment has the same epoch, and differs from what was known of it,
//! too.

use std::rc::Rc;

use platform::Platform;
use wire::types::{LeaderEpoch, Offset};

use super::WALK_BYTES;
use super::walk::walk_to;
use crate::error::{Error, Result};
use crate::log::epoch_cache::EpochStart;
use crate::log::views::{Flushing, LogReader};
use crate::segment::naming::Role;
use crate::segment::scan::{ExpectedBatch, Scan};
use crate::segment::{CheckOutcome, Segment};

/// Most epochs of a sound segment.
const RUNS_MAX: usize = 1 << 16;

/// Consecutive batches with one epoch.
struct Run {
    start: EpochStart,
    batches: usize,
    /// How many of them differ from what was known.
    differing: usize,
    /// A known epoch differs from theirs in one bit.
    one_bit: bool,
}

/// The epoch of the batch next to a segment, from the batch itself.
#[derive(Clone, Copy)]
struct Neighbour {
    epoch: LeaderEpoch,
    /// Another epoch was known of it.
    differs: bool,
}

impl<P: Platform> LogReader<'_, P> {
    /// Reads the epochs of a segment's batches, once; returns true when the known ones were wrong.
    ///
    /// They are then replaced.
    pub(super) async fn relearn_epochs(self, segment: &Rc<Segment<P>>) -> Result<bool> {
        let now = self.store.clock().now();
        if segment.are_names_lent() || !segment.epochs_asked.may_try(now)? {
            return Ok(false);
        }
        let generation = self.readers.generation.get();
        let path = segment.path(Role::Log);
        let agreed = match self.agreed_runs(segment).await {
            Ok(agreed) => agreed,
            Err(error) => {
                tracing::warn!(file = %path.display(), %error, "the leader epochs of the batches cannot be read");
                segment.epochs_asked.set(self.refused(&error));
                return Err(error);
            }
        };
        if generation != self.readers.generation.get() {
            // The log was truncated meanwhile.
            return Ok(true);
        }
        segment.epochs_asked.set(CheckOutcome::ForGood);
        let Some((runs, walked)) = agreed else {
            return Ok(false);
        };
        tracing::warn!(file = %path.display(), "the batches know other leader epochs than the file, which are used");
        let found: Vec<_> = runs.iter().map(|run| run.start).collect();
        let mut epochs = self.epochs.borrow_mut();
        // Batches that are only in memory were not read; their epochs are right.
        let below = segment.next();
        let below = if segment.is_sealed() { below } else { walked };
        epochs.replace_between(segment.base, below, &found);
        drop(epochs);
        self.epochs_dirty.set(true);
        Flushing(self.0).request_flush();
        Ok(true)
    }

    /// Returns the epochs of a segment's batches, and the offset after them, where they agree.
    ///
    /// They agree with each other or with the batches around, which are read only where necessary.
    async fn agreed_runs(self, segment: &Rc<Segment<P>>) -> Result<Option<(Vec<Run>, Offset)>> {
        let Some((runs, walked)) = self.runs_of(segment).await? else {
            return Ok(None);
        };
        if !agree(&runs, None, None) {
            let before = self.neighbour_at(segment.base.0.checked_sub(1)).await?;
            let after = self.neighbour_at(Some(segment.next().0)).await?;
            if !agree(&runs, before, after) {
                return Ok(None);
            }
        }
        Ok(Some((runs, walked)))
    }

    /// Returns the epochs of a segment's batches as far as they are in its file, and the offset
    /// after them.
    ///
    /// Returns `None` when a batch is damaged.
    async fn runs_of(self, segment: &Rc<Segment<P>>) -> Result<Option<(Vec<Run>, Offset)>> {
        let file = segment.file(self.store.disk()).await?;
        let path = segment.path(Role::Log);
        let end = segment.written();
        let mut scan = Scan::new(&file, 0, end, WALK_BYTES);
        let mut expected = ExpectedBatch {
            offset: segment.base,
            gaps: true,
            epoch: LeaderEpoch(i32::MIN),
        };
        let mut runs: Vec<Run> = Vec::new();
        while scan.position() < end {
            let header = scan.header().await.map_err(Error::io("read", &path))?;
            let Some(header) = header.filter(|header| expected.refuses(header).is_none()) else {
                return Ok(None);
            };
            let epoch = header.leader_epoch;
            let last = header.last_offset();
            let (run, known) = {
                let epochs = self.epochs.borrow();
                (epochs.run_at(last), epochs.epoch_at(last))
            };
            let differing = usize::from(!run.allows(epoch));
            let one_bit = known.is_some_and(|known| (known.0 ^ epoch.0).count_ones() == 1);
            if let Some(last) = runs.last_mut().filter(|last| last.start.epoch == epoch) {
                last.batches = last.batches.saturating_add(1);
                last.differing = last.differing.saturating_add(differing);
                last.one_bit |= differing > 0 && one_bit;
            } else if runs.len() < RUNS_MAX {
                let start = header.base_offset;
                runs.push(Run {
                    start: EpochStart { epoch, start },
                    batches: 1,
                    differing,
                    one_bit: differing > 0 && one_bit,
                });
            } else {
                return Ok(None);
            }
            expected = expected.after(&header);
            scan.skip(&header);
        }
        Ok(Some((runs, expected.offset)))
    }

    /// Returns the batch that holds an offset; `None` where there is none, or a damaged one.
    async fn neighbour_at(self, offset: Option<i64>) -> Result<Option<Neighbour>> {
        let Some(offset) = offset.map(Offset) else {
            return Ok(None);
        };
        let Some(segment) = self.segments.holding(offset) else {
            return Ok(None);
        };
        let epoch = match self.epoch_in(&segment, offset).await {
            Err(Error::Corrupt { .. }) => None,
            found => found?,
        };
        let known = self.epochs.borrow().run_at(offset);
        Ok(epoch.map(|epoch| Neighbour {
            epoch,
            differs: !known.allows(epoch),
        }))
    }

    async fn epoch_in(
        self,
        segment: &Rc<Segment<P>>,
        offset: Offset,
    ) -> Result<Option<LeaderEpoch>> {
        self.load(segment).await?;
        let Some(floor) = segment.floor_entry(offset) else {
            return Ok(None);
        };
        if floor.position >= segment.tail().resident_from() {
            return Ok(self.epochs.borrow().epoch_at(offset));
        }
        let file = segment.file(self.store.disk()).await?;
        let end = segment.file_end(segment.written());
        let Some(found) = walk_to(segment, &file, floor, end, offset).await? else {
            return Ok(None);
        };
        let path = segment.path(Role::Log);
        let mut scan = Scan::new(&file, found.position, end.position, WALK_BYTES);
        let header = scan.header().await.map_err(Error::io("read", &path))?;
        Ok(header.map(|header| header.leader_epoch))
    }
}

/// Returns true when each epoch that was not known of its batches is confirmed.
///
/// It is confirmed by a second batch, or because it continues in the segments around.
fn agree(runs: &[Run], before: Option<Neighbour>, after: Option<Neighbour>) -> bool {
    let differing: usize = runs
        .iter()
        .map(|run| run.differing)
        .fold(0, usize::saturating_add);
    runs.iter().enumerate().all(|(at, run)| {
        let same = |beside: &Neighbour| beside.epoch == run.start.epoch;
        let follows = before.filter(|beside| at == 0 && same(beside));
        let leads = after.filter(|beside| at + 1 == runs.len() && same(beside));
        let beyond = [follows, leads].into_iter().flatten();
        let differ_too = beyond.clone().any(|beside| beside.differs);
        let beside = beyond.count();
        let is_rot = differing == 1 && run.one_bit && beside < 2 && !differ_too;
        run.differing == 0 || (!is_rot && (run.batches > 1 || beside > 0))
    })
}
