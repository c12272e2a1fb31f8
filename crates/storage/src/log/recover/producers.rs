//! Producers as of where a recovery begins to check: the newest snapshot that is not past it, and
//! the batches after.
//!
//! A damaged snapshot is skipped; it does not end the recovery.

use std::collections::VecDeque;
use std::path::Path;
use std::rc::Rc;

use platform::Platform;
use platform::disk::is_unreadable;
use wire::batch::BatchHeader;
use wire::types::Offset;

use super::super::producer_state::{ProducerSnapshot, ProducerStates, snapshot};
use super::super::replay::{replay, show, tell_of};
use super::{Recovery, Start, WALK_BYTES};
use crate::error::{Error, Result};
use crate::segment::naming::{Role, file_path};
use crate::segment::scan::Scan;
use crate::segment::stamps::FileEnd;
use crate::segment::{File, LoadedIndexes, Segment};

impl<P: Platform> Recovery<'_, P> {
    /// Restores the producers as of the start of what is to be checked (or later, where that is
    /// trusted).
    pub(super) async fn restore_producers(
        &mut self,
        sealed: &VecDeque<Rc<Segment<P>>>,
        opened: &Rc<Segment<P>>,
        start: Start,
        snapshot_max: Offset,
    ) -> Result<()> {
        self.begin_with_snapshot(snapshot_max).await?;
        // Between the snapshot and the start everything is trusted, so headers are enough.
        let there = sealed.iter().filter(|segment| !segment.is_absent());
        for segment in there.chain([opened]) {
            let is_opened = Rc::ptr_eq(segment, opened);
            let next = if is_opened {
                start.expected.offset
            } else {
                segment.next()
            };
            if next > self.producers.end() {
                let end = if is_opened {
                    start.position
                } else {
                    segment.size()
                };
                self.replay_headers(segment, end, next).await?;
            }
        }
        Ok(())
    }

    /// Returns what the snapshot at `offset` holds; `None` when it is damaged.
    async fn snapshot_at(&self, offset: Offset) -> Result<Option<Vec<ProducerSnapshot>>> {
        let path = file_path(&self.folder.path, offset, Role::Snapshot);
        let disk = self.store.disk();
        let look = &self.folder.look;
        let bytes = match look.read(disk, &path, snapshot::FILE_BYTES_MAX).await {
            Ok(bytes) => bytes,
            // An empty file is no snapshot.
            Err(error) if is_unreadable(&error) => Vec::new(),
            Err(error) => return Err(Error::io("read", &path)(error)),
        };
        match snapshot::parse_at(offset, &bytes) {
            Ok(producers) => Ok(Some(producers)),
            Err(error) => {
                tracing::warn!(file = %path.display(), %error, "a damaged producer snapshot is not used");
                Ok(None)
            }
        }
    }

    /// Returns the offset from which all batches are there, of those below the first one that is
    /// read.
    ///
    /// Those before it were deleted, or are on an absent path.
    fn replayable_from(&self) -> Offset {
        let bases = self.folder.bases();
        let is_absent = |base: &Offset| self.folder.absent.contains_key(base);
        let after = bases.iter().zip(bases.iter().skip(1)).rev();
        let after = after.map(|(base, next)| is_absent(base).then_some(*next));
        let from = after.flatten().next();
        from.or(bases.first().copied())
            .expect("a log that is recovered has segments")
    }

    /// Takes the producers of the newest snapshot that can be read and is not past `max`.
    async fn begin_with_snapshot(&mut self, max: Offset) -> Result<()> {
        let from = self.replayable_from();
        let mut offsets = self.folder.snapshots.clone();
        offsets.sort_unstable();
        let usable = offsets.partition_point(|offset| *offset <= max);
        // Bounded: no more than there are.
        let later = offsets.split_off(usable);
        let expiration_ms = self.options.producer_id_expiration_ms;
        let now = self.store.clock().reading();
        self.producers = ProducerStates::new(from);
        for offset in offsets.into_iter().rev() {
            if let Some(producers) = self.snapshot_at(offset).await? {
                self.producers = ProducerStates::restore(offset, &producers, now, expiration_ms);
                // A snapshot without producers is valid, too.
                if offset >= from {
                    return Ok(());
                }
                break;
            }
        }
        if from == Offset::ZERO {
            return Ok(());
        }
        // A later snapshot has the last writes of producers whose batches cannot be replayed.
        for offset in later {
            if let Some(producers) = self.snapshot_at(offset).await? {
                let producers: Vec<_> = producers.iter().filter_map(|p| as_of(from, p)).collect();
                self.producers = ProducerStates::restore(from, &producers, now, expiration_ms);
                return Ok(());
            }
        }
        if !self.folder.absent.is_empty() {
            tracing::warn!(folder = %self.folder.path.display(), %from,
                "no snapshot tells of the producers whose batches are on a path that is not there: until they write again, \
                 a batch that they send again is not recognised");
            self.producers = ProducerStates::new(from);
        }
        Ok(())
    }

    /// Restores the producers as of the end of the log, after a snapshot of a longer one.
    ///
    /// Returns false when that is not what a clean stop leaves.
    pub(super) async fn restore_below(
        &mut self,
        segments: &VecDeque<Rc<Segment<P>>>,
        end: Offset,
    ) -> Result<bool> {
        if self.clean {
            return Ok(false);
        }
        tracing::warn!(folder = %self.folder.path.display(), %end, snapshot = %self.producers.end(),
            "a producer snapshot is of a longer log and is not used");
        self.begin_with_snapshot(end).await?;
        for segment in segments.iter().filter(|segment| !segment.is_absent()) {
            if segment.next() > self.producers.end() {
                self.replay_headers(segment, segment.size(), segment.next())
                    .await?;
            }
        }
        Ok(true)
    }

    /// Shows the producers the first `size` bytes of a segment, with the offsets before `next`.
    async fn replay_headers(
        &mut self,
        segment: &Segment<P>,
        size: u64,
        next: Offset,
    ) -> Result<()> {
        let file = segment.file(self.store.disk()).await?;
        let path = segment.path(Role::Log);
        let mut scan = Scan::new(&file, 0, size, WALK_BYTES);
        let end = FileEnd {
            position: size,
            next: Some(next),
            bound: next,
        };
        let replayed = replay(&mut scan, (segment.base, end), &mut self.producers, drop);
        if let Some(damage) = replayed.await.map_err(Error::io("read", &path))? {
            tell_of(&path, damage);
            self.store.shared.metrics.corruptions.inc();
        }
        Ok(())
    }

    /// Shows the producers a batch that was found good.
    pub(super) async fn replay(
        &mut self,
        scan: &mut Scan<'_, File<P>>,
        header: &BatchHeader,
        loaded: &mut LoadedIndexes,
        path: &Path,
    ) -> Result<()> {
        let shown = show(scan, header, &mut self.producers).await;
        if let Some(aborted) = shown.map_err(Error::io("read", path))? {
            loaded.aborted.append(aborted);
        }
        Ok(())
    }
}

/// Returns a producer as of `from`, from a later snapshot; the batches from there on have the rest.
fn as_of(from: Offset, later: &ProducerSnapshot) -> Option<ProducerSnapshot> {
    if later.last_offset < from {
        return Some(*later);
    }
    // Its transaction was open then; its last batch was another one.
    let start = later.transaction_start.filter(|start| *start < from)?;
    Some(ProducerSnapshot {
        last_sequence: -1,
        last_offset: Offset(-1),
        offset_delta: 0,
        transaction_start: Some(start),
        ..*later
    })
}
