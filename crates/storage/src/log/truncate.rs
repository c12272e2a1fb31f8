//! Cutting the end off a log, when its leader says that it went another way.
//!
//! While it is cut the log takes no appends. What is cut is gone from the file, durably, before anything new is written, so
//! that no stale batch can ever be found behind a new one. Order: producer snapshots past the cut, segments past it (the
//! last first), then the file that holds it; after a crash in between the log ends somewhere at or past the cut, without a gap.
//! The checkpoint files of the directory go on saying what they said: see `limits.rs`.

use std::rc::Rc;

use bytes::Bytes;
use platform::Platform;
use platform::disk::{BLOCK_BYTES, Disk, DiskFile};
use wire::types::Offset;

use super::Log;
use super::indexes::Indexes;
use super::open::remove;
use super::producer_state::ProducerStates;
use super::read::walk::{Floor, walk_to};
use super::txn_index::TxnIndex;
use crate::error::{Error, Result};
use crate::segment::load::{self, Saved};
use crate::segment::naming::{self, Name, Role, file_path};
use crate::segment::scan::{NO_BATCH, Scan};
use crate::segment::tail::Tail;
use crate::segment::{Loaded, Segment};

/// Bytes of one read of a walk over headers.
const WALK_BYTES: usize = 16 << 10;

impl<P: Platform> Log<P> {
    /// Cuts the log so that it ends at `offset`; a batch that holds `offset` goes as a whole. Nothing happens when the log
    /// ends there or before. Below the log start, everything goes and the log begins anew at `offset`.
    pub async fn truncate_to(&self, offset: Offset) -> Result<()> {
        if offset >= self.end.get() {
            return Ok(());
        }
        if offset < self.start.get() {
            return self.truncate_fully_and_start_at(offset).await;
        }
        let refused = async {
            self.refuse_absent_from(offset)?;
            self.refuse_unknown_producers(offset).await
        };
        self.held(refused, self.cut(offset)).await
    }

    /// Deletes everything; the log begins and ends at `offset`.
    pub async fn truncate_fully_and_start_at(&self, offset: Offset) -> Result<()> {
        let refused = async { self.refuse_absent_from(Offset(i64::MIN)) };
        self.held(refused, self.start_anew(offset)).await
    }

    /// Does something to the files while nobody else does, unless it is refused before anything has changed. A failure
    /// half-way latches the log.
    async fn held(
        &self,
        refused: impl Future<Output = Result<()>>,
        change: impl Future<Output = Result<()>>,
    ) -> Result<()> {
        let _gate = self
            .upkeep
            .gate
            .acquire()
            .await
            .map_err(|_| Error::Closed)?;
        self.flush.hold(true);
        self.compaction.interrupt();
        let result = async {
            self.flush().await?;
            let _permit = self.may_write().await?;
            refused.await?;
            let changed = change.await;
            if let Err(error) = &changed {
                self.fail(error);
            }
            changed
        }
        .await;
        self.flush.hold(false);
        self.request_flush();
        self.tell();
        result
    }

    async fn cut(&self, offset: Offset) -> Result<()> {
        self.patiently(async || self.remove_snapshots_past(offset).await)
            .await?;
        let Some(segment) = self.segment_with(offset) else {
            return Ok(());
        };
        self.patiently(async || self.load(&segment).await).await?;
        self.patiently(async || self.remove_segments_past(segment.base).await)
            .await?;
        let position = self
            .patiently(async || self.position_of(&segment, offset).await)
            .await?;
        let end = self.cut_segment(&segment, position, offset).await?;
        self.end.set(end);
        self.written.set(end);
        self.durable.set(end);
        // A start within the batch that went has nothing to start at.
        let start = self.start.replace(end.min(self.start.get()));
        self.high_watermark.set(self.high_watermark.get().min(end));
        let recovery_point = self
            .recovery_point
            .replace(end.min(self.recovery_point.get()));
        self.limit_checkpoints(recovery_point, start);
        if self.epochs.borrow_mut().truncate_from_end(end) {
            self.epochs_dirty.set(true);
        }
        self.upkeep.truncate_to(end);
        self.compaction.truncate_to(end);
        self.forget_readers();
        self.patiently(async || self.rebuild_producers(end).await)
            .await
    }

    /// What is on a path that is not there cannot be cut off, and would come back with it.
    fn refuse_absent_from(&self, offset: Offset) -> Result<()> {
        let segments = self.segments.borrow();
        let absent = segments
            .iter()
            .find(|segment| segment.absent.get() && segment.next.get() > offset);
        match absent.and_then(|segment| segment.offline()) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Without the segments on a path that is not there, only a snapshot after them says who has written what, and what
    /// is sent again would be taken again.
    async fn refuse_unknown_producers(&self, offset: Offset) -> Result<()> {
        let absent = {
            let segments = self.segments.borrow();
            let last = segments.iter().rev().find(|segment| segment.absent.get());
            last.cloned()
        };
        let Some(absent) = absent else { return Ok(()) };
        // No snapshot is of the middle of a batch, so those that are not past the cut are not past the new end.
        let snapshots = self.snapshots_on_disk().await?;
        let after = snapshots.into_iter().rev();
        for at in after.filter(|at| (absent.next.get()..=offset).contains(at)) {
            if self.snapshot_at(at).await?.is_some() {
                return Ok(());
            }
        }
        Err(absent.offline().unwrap_or(Error::Closed))
    }

    /// Removes the segments whose base is past `base`, the last first.
    async fn remove_segments_past(&self, base: Offset) -> Result<()> {
        loop {
            // One after the other on the disk, too: no gap may be left by a crash.
            self.sync_names().await?;
            let last = self.active();
            if last.base <= base {
                break;
            }
            self.remove_files(&last).await?;
            self.segments.borrow_mut().pop_back();
            self.store.shared.metrics.segments.dec();
        }
        Ok(())
    }

    /// Removes a segment's files. What another path does not let go of does not count any more all the same, and is owed.
    async fn remove_files(&self, segment: &Segment<P>) -> Result<()> {
        let roles = [
            Role::OffsetIndex,
            Role::TimeIndex,
            Role::TxnIndex,
            Role::Log,
        ];
        let removed = async {
            if !self.is_home(&segment.folder) {
                self.pass_over_asides(segment.base, &segment.folder).await?;
                self.remove_swap(segment).await?;
            }
            for role in roles {
                remove(self.store.disk(), &segment.path(role)).await?;
            }
            if self.is_home(&segment.folder) {
                return Ok(());
            }
            self.sync_folder(&segment.folder).await
        };
        self.gone_or_owed(segment, removed.await).await
    }

    async fn position_of(&self, segment: &Rc<Segment<P>>, offset: Offset) -> Result<u64> {
        let file = segment.file(self.store.disk()).await?;
        let size = segment.size.get();
        let end = segment.file_end(size);
        let start = Floor {
            position: 0,
            offset: segment.base,
        };
        let floor = segment.floor_entry(offset).unwrap_or(start);
        let found = match walk_to(segment, &file, floor, end, offset).await {
            // It may be the index that is wrong.
            Err(Error::Corrupt { .. }) if floor.position > 0 => {
                walk_to(segment, &file, start, end, offset).await?
            }
            found => found?,
        };
        Ok(found.map_or(size, |found| found.position))
    }

    /// Makes `segment` the active one again, `position` bytes long; gives the offset at which it ends.
    async fn cut_segment(
        &self,
        segment: &Rc<Segment<P>>,
        position: u64,
        offset: Offset,
    ) -> Result<Offset> {
        let disk = self.store.disk();
        let path = segment.path(Role::Log);
        segment.cuts.set(segment.cuts.get() + 1);
        segment.sealed.set(false);
        segment.rolled.set(false);
        segment.close_file();
        let file = self.patiently(async || segment.file(disk).await).await?;
        let (end, is_misled) = self.end_before(segment, position, offset).await?;
        file.set_len(position)
            .await
            .map_err(Error::io("cut", &path))?;
        file.sync().await.map_err(Error::file_sync(&path))?;
        let partial = position % BLOCK_BYTES as u64;
        let bytes = if partial == 0 {
            Bytes::new()
        } else {
            let len = usize::try_from(partial).unwrap_or(0);
            file.read_at(position - partial, len)
                .await
                .map_err(Error::io("read", &path))?
        };
        *segment.tail.borrow_mut() = Tail::at(position, bytes);
        for cell in [
            &segment.size,
            &segment.written,
            &segment.synced,
            &segment.allocated,
        ] {
            cell.set(position);
        }
        segment.next.set(end);
        if position == 0 {
            segment.first_timestamp.set(None);
        }
        self.cut_indexes(segment, position, end, is_misled).await
    }

    /// The offset after the last batch that ends at `position`, and whether the index is wrong.
    async fn end_before(
        &self,
        segment: &Segment<P>,
        position: u64,
        offset: Offset,
    ) -> Result<(Offset, bool)> {
        let floor = segment.floor(offset.plus(-1)).unwrap_or(0).min(position);
        if let Some(end) = self.end_from(segment, floor, position).await? {
            return Ok((end, false));
        }
        match self.end_from(segment, 0, position).await? {
            Some(end) => Ok((end, true)),
            None => Err(Error::Corrupt {
                path: segment.path(Role::Log),
                position: floor,
                reason: NO_BATCH,
            }),
        }
    }

    /// The same by the batches from `floor` on; `None` where they do not lead there.
    async fn end_from(
        &self,
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
        &self,
        segment: &Rc<Segment<P>>,
        position: u64,
        end: Offset,
        is_misled: bool,
    ) -> Result<Offset> {
        let path = segment.path(Role::Log);
        let file = segment.file(self.store.disk()).await?;
        // The segment keeps them meanwhile, so that no reader loads the old ones from the disk again.
        let loaded = segment.loaded.borrow().clone();
        let mut loaded = loaded.unwrap_or(Loaded {
            indexes: Indexes::new(segment.base, self.index_options()),
            aborted: TxnIndex::new(),
        });
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
                let at = u32::try_from(scan.position()).map_err(|_| Error::Corrupt {
                    path: path.clone(),
                    position: scan.position(),
                    reason: NO_BATCH,
                })?;
                loaded.indexes.append(&header, at);
            } else {
                loaded.indexes.observe(&header);
            }
            scan.skip(&header);
        }
        segment
            .largest
            .set(loaded.indexes.largest_timestamp().into());
        *segment.loaded.borrow_mut() = Some(loaded);
        remove(self.store.disk(), &segment.path(Role::TxnIndex)).await?;
        let Some(saved) = Saved::of(segment) else {
            return Err(Error::Closed);
        };
        let Err(error) = load::save(self.store.disk(), segment, &saved).await else {
            return Ok(end);
        };
        tracing::warn!(file = %path.display(), %error, "the indexes cannot be saved and will be made anew");
        // Those on the disk know of batches that are no more.
        for role in [Role::OffsetIndex, Role::TimeIndex, Role::TxnIndex] {
            remove(self.store.disk(), &segment.path(role)).await?;
        }
        Ok(end)
    }

    async fn remove_snapshots_past(&self, offset: Offset) -> Result<()> {
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
        self.sync_names().await
    }

    pub(super) async fn snapshots_on_disk(&self) -> Result<Vec<Offset>> {
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

    /// Restores the producers as of `end`.
    async fn rebuild_producers(&self, end: Offset) -> Result<()> {
        let mut states = self.producers_at(end).await?;
        states.advance_high_watermark(self.high_watermark.get());
        *self.producers.borrow_mut() = states;
        Ok(())
    }

    async fn start_anew(&self, offset: Offset) -> Result<()> {
        let disk = self.store.disk();
        let snapshots = self.patiently(async || self.snapshots_on_disk().await);
        for at in snapshots.await? {
            remove(disk, &file_path(&self.folder, at, Role::Snapshot)).await?;
        }
        let old: Vec<_> = self.segments.borrow().iter().cloned().collect();
        for segment in old.iter().rev() {
            self.patiently(async || self.remove_files(segment).await)
                .await?;
        }
        let fresh = || self.new_segment(offset, self.store.clock().wall_ms());
        let fresh = self.patiently(async || self.named_segment(&fresh).await);
        let fresh = fresh.await?;
        self.patiently(async || self.sync_names().await).await?;
        let mut segments = self.segments.borrow_mut();
        segments.clear();
        segments.push_back(fresh);
        drop(segments);
        self.store
            .shared
            .metrics
            .segments
            .dec_by(i64::try_from(old.len()).unwrap_or(1) - 1);
        let start = self.start.replace(offset);
        let recovery_point = self.recovery_point.replace(offset);
        for cell in [&self.end, &self.written, &self.durable] {
            cell.set(offset);
        }
        self.high_watermark.set(offset);
        self.limit_checkpoints(recovery_point, start);
        self.epochs.borrow_mut().clear();
        self.epochs_dirty.set(true);
        self.upkeep.truncate_to(Offset(-1));
        self.compaction.truncate_to(offset);
        self.forget_readers();
        *self.producers.borrow_mut() = ProducerStates::new(offset);
        Ok(())
    }
}
