//! Truncates the end of a log, when it has diverged from its leader's.
//!
//! During a truncation the log takes no appends. What is cut off is gone from the file, durably,
//! before anything new is written, so that no stale batch can ever be found behind a new one.
//! Order: producer snapshots past the new end, segments past it (the last first), then the file
//! that holds it; after a crash in between the log ends somewhere at or past the new end, without a
//! gap.
//! The checkpoint files of the directory are not changed here: see `limits.rs`.

use std::path::Path;
use std::rc::Rc;

use bytes::Bytes;
use platform::Platform;
use platform::disk::{BLOCK_BYTES, Disk, DiskFile};
use wire::types::Offset;

use super::Log;
use super::condition::Condition;
use super::files::remove;
use super::indexes::Indexes;
use super::producer_state::ProducerStates;
use super::read::walk::{Floor, walk_to};
use super::segments::SegmentEvent;
use crate::error::{Error, Result};
use crate::log::views::{
    Flushing, Journaling, Limiting, LogCondition, LogFolders, LogReader, LogTiers, Rebuilding,
    Swapping, Truncating,
};
use crate::num::index;
use crate::segment::load::{self, SavedIndexes};
use crate::segment::naming::{self, Name, Role, file_path};
use crate::segment::scan::{NO_BATCH, Scan};
use crate::segment::stamps::WRONG_OFFSET;
use crate::segment::{HAS_INDEXES, Segment};

/// Bytes of one read of a walk over headers.
const WALK_BYTES: usize = 16 << 10;

/// Returns the bytes of the last partial block of a data file that is `size` bytes long.
pub(super) async fn last_block<F: DiskFile>(file: &F, path: &Path, size: u64) -> Result<Bytes> {
    let partial = size % BLOCK_BYTES as u64;
    if partial == 0 {
        return Ok(Bytes::new());
    }
    let bytes = file.read_at(size - partial, index(partial)).await;
    let bytes = bytes.map_err(Error::io("read", path))?;
    if bytes.len() as u64 == partial {
        return Ok(bytes);
    }
    Err(Error::Corrupt {
        path: path.to_path_buf(),
        position: size,
        reason: "the file is shorter than its batches",
    })
}

impl<P: Platform> Log<P> {
    /// Truncates the log so that it ends at `offset`; a batch that holds `offset` goes as a whole.
    ///
    /// Nothing happens when the log ends there or before. Below the log start, everything goes and
    /// the log begins again at `offset`.
    pub async fn truncate_to(&self, offset: Offset) -> Result<()> {
        if offset >= self.offsets.end() {
            return Ok(());
        }
        if offset < self.offsets.start() {
            return self.truncate_fully_and_start_at(offset).await;
        }
        let refused = async {
            Truncating(self).refuse_absent_from(offset)?;
            // The cut would wait for room that does not come.
            Journaling(self).refuse_stuck()?;
            Truncating(self).refuse_unknown_producers(offset).await
        };
        Truncating(self)
            .held(refused, Truncating(self).cut(offset))
            .await
    }

    /// Deletes everything; the log then begins and ends at `offset`.
    pub async fn truncate_fully_and_start_at(&self, offset: Offset) -> Result<()> {
        let refused = async {
            Truncating(self).refuse_absent_from(Offset(i64::MIN))?;
            Journaling(self).all_settled_soon().await
        };
        Truncating(self)
            .held(refused, Truncating(self).start_anew(offset))
            .await
    }
}

/// A guard that has appends refused for as long as it lives.
///
/// If it is dropped while the log is being truncated, the log may contradict itself: it takes
/// nothing more, and the next start reads what is there.
struct AppendHold<'a, P: Platform>(&'a Log<P>);

impl<'a, P: Platform> AppendHold<'a, P> {
    fn begin(log: &'a Log<P>) -> Self {
        log.flush.hold();
        Self(log)
    }
}

impl<P: Platform> Drop for AppendHold<'_, P> {
    fn drop(&mut self) {
        let log = self.0;
        if log.truncating.replace(false) && !log.is_closed() {
            let reason = "whoever cut it has gone before it was cut".into();
            tracing::error!(partition = %log.partition, %reason, "the log takes no appends");
            LogCondition(log).become_finally(Condition::Failed(Error::Failed { reason }));
        }
        log.flush.hold_no_more();
        Flushing(log).request_flush();
        log.tell();
    }
}

impl<P: Platform> Truncating<'_, P> {
    pub(super) async fn snapshots_on_disk(self) -> Result<Vec<Offset>> {
        let listed = self.store.disk().list(&self.folder).await;
        let entries = listed.map_err(Error::io("list", &self.folder))?;
        let mut offsets: Vec<_> = entries
            .iter()
            .filter_map(|entry| match naming::classify(&entry.name) {
                Name::Segment(offset, Role::Snapshot) => Some(offset),
                _ => None,
            })
            .collect();
        offsets.sort_unstable();
        Ok(offsets)
    }

    /// Changes the files with exclusive access, unless `refused` fails before anything has changed.
    ///
    /// A failure half-way latches the log, and so does a caller that is dropped half-way.
    async fn held(
        self,
        refused: impl Future<Output = Result<()>>,
        change: impl Future<Output = Result<()>>,
    ) -> Result<()> {
        let _gate = self
            .upkeep
            .gate
            .acquire()
            .await
            .map_err(|_| Error::Closed)?;
        let _holding = AppendHold::begin(self.0);
        self.compaction.interrupt();
        self.flush().await?;
        let _turn = Journaling(self.0).turn().await?;
        let _permit = Flushing(self.0).may_write().await?;
        LogCondition(self.0).refuse_beyond_repair()?;
        Journaling(self.0).land_in_right().await?;
        refused.await?;
        self.truncating.set(true);
        self.as_left.set(None);
        let changed = change.await;
        self.truncating.set(false);
        match &changed {
            Ok(()) => self.check_invariants(),
            Err(error) => self.fail(error),
        }
        changed
    }

    async fn cut(self, offset: Offset) -> Result<()> {
        if offset >= self.offsets.end() {
            // Another truncation was faster.
            return Ok(());
        }
        if offset < self.offsets.start() {
            // Retention was faster.
            return self.start_anew(offset).await;
        }
        Flushing(self.0)
            .patiently(async || self.remove_snapshots_past(offset).await)
            .await?;
        // The log holds every offset between its start and its end.
        let segment = self.segments.holding(offset);
        let segment = segment.expect("one ends past each offset before the end");
        Flushing(self.0)
            .patiently(async || LogReader(self.0).load(&segment).await)
            .await?;
        let loaded = segment.loaded().clone();
        let loaded = loaded.expect("a load leaves the indexes in memory");
        if self.journal.is_some() {
            let position = Flushing(self.0).patiently(async || {
                let position = self.position_of(&segment, offset);
                position.await
            });
            let position = position.await?;
            let noted = Journaling(self.0).note_cut(segment.base, position, offset);
            noted.await?;
        }
        Flushing(self.0)
            .patiently(async || self.remove_segments_past(segment.base).await)
            .await?;
        let position = Flushing(self.0)
            .patiently(async || self.position_of(&segment, offset).await)
            .await?;
        // Loads of other logs may evict the indexes of this segment; it keeps them until it is
        // active again.
        segment.keep_indexes(loaded);
        let end = self.cut_segment(&segment, position, offset).await?;
        assert!(
            segment.base <= end && end <= offset,
            "a cut ends within what it cuts"
        );
        // A log start within the batch that went is lowered, too: there is nothing to start at.
        let (start, recovery_point) = self.offsets.cut_to(end);
        Limiting(self.0).limit_checkpoints(recovery_point, start);
        if self.epochs.borrow_mut().truncate_from_end(end) {
            self.epochs_dirty.set(true);
        }
        Journaling(self.0).was_cut(segment.base, segment.size());
        self.upkeep.truncate_to(end);
        self.compaction.truncate_to(end);
        let event = SegmentEvent::Truncated { segment };
        self.segment_changed(&event);
        Flushing(self.0)
            .patiently(async || self.rebuild_producers(end).await)
            .await
    }

    /// Refuses an absent segment past `offset`: it cannot be truncated, and would come back with
    /// its path.
    fn refuse_absent_from(self, offset: Offset) -> Result<()> {
        let segments = self.segments.all();
        let mut past = segments.iter().filter(|segment| segment.next() > offset);
        past.find_map(|segment| segment.absence())
            .map_or(Ok(()), Err)
    }

    /// Refuses when only absent segments, and no snapshot after them, have the producers' state.
    ///
    /// Without it, a batch that a producer sends again would be appended again.
    async fn refuse_unknown_producers(self, offset: Offset) -> Result<()> {
        let absent = {
            let segments = self.segments.all();
            let mut backwards = segments.iter().rev();
            backwards.find_map(|segment| Some((segment.next(), segment.absence()?)))
        };
        let Some((behind_it, error)) = absent else {
            return Ok(());
        };
        // No snapshot is of the middle of a batch, so one that is not past `offset` is not past the
        // new end.
        let snapshots = self.snapshots_on_disk().await?;
        let after = snapshots.into_iter().rev();
        for at in after.filter(|at| (behind_it..=offset).contains(at)) {
            if Rebuilding(self.0).snapshot_at(at).await?.is_some() {
                return Ok(());
            }
        }
        Err(error)
    }

    /// Removes the segments whose base is past `base`, the last first.
    async fn remove_segments_past(self, base: Offset) -> Result<()> {
        loop {
            // One after the other on the disk, too: a crash must not leave a gap.
            Flushing(self.0).sync_names().await?;
            let last = self.segments.active();
            if last.base <= base {
                break;
            }
            self.remove_files(&last).await?;
            let event = self.segments.remove_last(&last);
            self.segment_changed(&event);
        }
        Ok(())
    }

    /// Removes a segment's files.
    ///
    /// A copy that another path does not release no longer counts, and is owed.
    async fn remove_files(self, segment: &Segment<P>) -> Result<()> {
        let roles = [
            Role::OffsetIndex,
            Role::TimeIndex,
            Role::TxnIndex,
            Role::Log,
        ];
        let removed = async {
            if !self.is_home(&segment.folder) {
                LogFolders(self.0)
                    .pass_over_asides(segment.base, &segment.folder)
                    .await?;
                Swapping(self.0).remove_swap(segment).await?;
            }
            for role in roles {
                remove(self.store.disk(), &segment.path(role)).await?;
            }
            if self.is_home(&segment.folder) {
                return Ok(());
            }
            LogFolders(self.0).sync_folder(&segment.folder).await
        };
        LogFolders(self.0)
            .gone_or_owed(segment, removed.await)
            .await
    }

    async fn position_of(self, segment: &Rc<Segment<P>>, offset: Offset) -> Result<u64> {
        let file = segment.file(self.store.disk()).await?;
        let size = segment.size();
        let end = segment.file_end(size);
        let start = Floor {
            position: 0,
            offset: segment.base,
        };
        let floor = segment.floor_entry(offset).unwrap_or(start);
        let found = match walk_to(segment, &file, floor, end, offset).await {
            // The index may be wrong.
            Err(Error::Corrupt { .. }) if floor.position > 0 => {
                walk_to(segment, &file, start, end, offset).await?
            }
            found => found?,
        };
        // If nothing at or past the offset is in this file, all of it stays.
        Ok(found.map_or(size, |found| found.position))
    }

    /// Makes `segment` the active one again, `position` bytes long; returns the offset at which it
    /// ends.
    async fn cut_segment(
        self,
        segment: &Rc<Segment<P>>,
        position: u64,
        offset: Offset,
    ) -> Result<Offset> {
        let disk = self.store.disk();
        let path = segment.path(Role::Log);
        segment.reopen();
        let file = Flushing(self.0)
            .patiently(async || segment.file(disk).await)
            .await?;
        let (end, is_misled) = self.end_before(segment, position, offset).await?;
        file.set_len(position)
            .await
            .map_err(Error::io("cut", &path))?;
        file.sync().await.map_err(Error::file_sync(&path))?;
        let bytes = last_block(&file, &path, position).await?;
        segment.cut_back(position, end, bytes);
        self.cut_indexes(segment, position, end, is_misled).await
    }

    /// Returns the offset after the last batch that ends at `position`, and whether the index is
    /// wrong.
    async fn end_before(
        self,
        segment: &Segment<P>,
        position: u64,
        offset: Offset,
    ) -> Result<(Offset, bool)> {
        let floor = segment.floor(offset.plus(-1)).unwrap_or(0).min(position);
        let (end, is_misled) = match self.end_from(segment, floor, position).await? {
            Some(end) => (Some(end), false),
            None => (self.end_from(segment, 0, position).await?, true),
        };
        // No CRC covers a base offset: the walk may end anywhere.
        let reason = match end {
            Some(end) if segment.base <= end && end <= offset => return Ok((end, is_misled)),
            Some(_) => WRONG_OFFSET,
            None => NO_BATCH,
        };
        Err(Error::Corrupt {
            path: segment.path(Role::Log),
            position: floor,
            reason,
        })
    }

    /// Returns that offset by the batches from `floor` on; `None` where they do not lead to
    /// `position`.
    async fn end_from(
        self,
        segment: &Segment<P>,
        floor: u64,
        position: u64,
    ) -> Result<Option<Offset>> {
        let path = segment.path(Role::Log);
        let file = segment.file(self.store.disk()).await?;
        let mut scan = Scan::new(&file, floor, position, WALK_BYTES);
        let mut end = segment.base;
        while let Some(header) = scan.header().await.map_err(Error::io("read", &path))? {
            end = header.next_offset();
            scan.skip(&header);
        }
        let led_there = scan.position() == position && (floor < position || position == 0);
        Ok(led_there.then_some(end))
    }

    async fn cut_indexes(
        self,
        segment: &Rc<Segment<P>>,
        position: u64,
        end: Offset,
        is_misled: bool,
    ) -> Result<Offset> {
        let path = segment.path(Role::Log);
        let file = segment.file(self.store.disk()).await?;
        // The segment keeps its indexes meanwhile, so that no reader loads the old ones from the
        // disk again.
        let loaded = segment.loaded().clone();
        let mut loaded = loaded.expect(HAS_INDEXES);
        if is_misled {
            tracing::warn!(file = %path.display(), "an index pointed between batches and is built anew");
            loaded.indexes = Indexes::new(segment.base, self.index_options());
        }
        loaded.indexes.truncate_to(end);
        loaded.aborted.truncate_to(end);
        let from = u64::from(loaded.indexes.observe_from());
        let mut scan = Scan::new(&file, from, position, WALK_BYTES);
        while let Some(header) = scan.header().await.map_err(Error::io("read", &path))? {
            if is_misled {
                loaded.indexes.append(&header, scan.position());
            } else {
                loaded.indexes.observe(&header);
            }
            scan.skip(&header);
        }
        segment.replace_indexes(loaded);
        remove(self.store.disk(), &segment.path(Role::TxnIndex)).await?;
        let saved = SavedIndexes::of(segment).expect(HAS_INDEXES);
        let Err(error) = load::save(self.store.disk(), segment, &saved).await else {
            return Ok(end);
        };
        tracing::warn!(file = %path.display(), %error, "the indexes cannot be saved and will be made anew");
        // Those on the disk name batches that are gone.
        for role in [Role::OffsetIndex, Role::TimeIndex, Role::TxnIndex] {
            remove(self.store.disk(), &segment.path(role)).await?;
        }
        Ok(end)
    }

    async fn remove_snapshots_past(self, offset: Offset) -> Result<()> {
        for at in self.snapshots_on_disk().await? {
            if at > offset {
                remove(
                    self.store.disk(),
                    &file_path(&self.folder, at, Role::Snapshot),
                )
                .await?;
            }
        }
        self.flush.names.note(None);
        Flushing(self.0).sync_names().await
    }

    /// Restores the producers as of `end`.
    async fn rebuild_producers(self, end: Offset) -> Result<()> {
        let (mut states, _) = Rebuilding(self.0).producers_at(end).await?;
        states.advance_high_watermark(self.offsets.high_watermark());
        *self.producers.borrow_mut() = states;
        Ok(())
    }

    async fn start_anew(self, offset: Offset) -> Result<()> {
        Journaling(self.0).all_settled().await?;
        let disk = self.store.disk();
        let snapshots = Flushing(self.0).patiently(async || self.snapshots_on_disk().await);
        for at in snapshots.await? {
            remove(disk, &file_path(&self.folder, at, Role::Snapshot)).await?;
        }
        let old: Vec<_> = self.segments.snapshot();
        for segment in old.iter().rev() {
            Flushing(self.0)
                .patiently(async || self.remove_files(segment).await)
                .await?;
        }
        let fresh = || LogTiers(self.0).new_segment(offset, self.store.clock().wall_ms());
        let fresh = Flushing(self.0)
            .patiently(async || LogFolders(self.0).named_segment(&fresh).await)
            .await?;
        Flushing(self.0)
            .patiently(async || Flushing(self.0).sync_names().await)
            .await?;
        for event in self.segments.restart(&fresh) {
            self.segment_changed(&event);
        }
        let (start, recovery_point) = self.offsets.restart_at(offset);
        Journaling(self.0).was_cut(offset, 0);
        Limiting(self.0).limit_checkpoints(recovery_point, start);
        self.epochs.borrow_mut().clear();
        self.epochs_dirty.set(true);
        self.upkeep.truncate_to(Offset(-1));
        self.compaction.truncate_to(offset);
        LogReader(self.0).forget_readers();
        *self.producers.borrow_mut() = ProducerStates::new(offset);
        Ok(())
    }
}
