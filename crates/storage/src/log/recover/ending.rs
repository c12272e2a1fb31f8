//! How a recovery leaves the files: cut to the batches that were found good, durably, with nothing
//! after the log's end.
//!
//! It does not: find that end (`recover.rs`).

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::path::Path;
use std::rc::Rc;

use bytes::Bytes;
use platform::Platform;
use platform::disk::{BLOCK_BYTES, Disk, DiskFile, Open};
use wire::types::Offset;

use super::super::files::{remove, set_aside};
use super::super::open::folder::DataFile;
use super::super::open::notes::{self, NotedPlace};
use super::super::truncate::last_block;
use super::cut_off::has_batch_behind;
use super::{CheckedSegment, Recovery, VERIFY_BYTES};
use crate::error::{Error, Result};
use crate::num::index;
use crate::segment::naming::{Role, file_path};
use crate::segment::scan::Scan;
use crate::segment::{File, LoadedIndexes, Segment, load};

/// Most zeros that are kept behind what is set aside.
const PADDING_KEPT_BYTES: u64 = 1 << 20;

/// Returns the end of the last bytes in `from..len` that are not zeros.
///
/// Room that was reserved and not written is zeros.
async fn last_of_records<F: DiskFile>(file: &F, from: u64, len: u64) -> Result<Option<u64>> {
    let mut last = None;
    let mut at = from;
    while at < len {
        let wanted = index(len - at).min(VERIFY_BYTES);
        // Unreadable bytes are no reason to refuse a start: they count as records, and are cut off.
        let Ok(bytes) = file.read_at(at, wanted).await else {
            return Ok(Some(len));
        };
        if let Some(found) = bytes.iter().rposition(|byte| *byte != 0) {
            last = Some(at.saturating_add(found as u64).saturating_add(1));
        }
        if bytes.is_empty() {
            break;
        }
        at = at.saturating_add(bytes.len() as u64);
    }
    Ok(last)
}

/// Returns true for the error of a file system that takes no changes.
fn is_read_only(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == ErrorKind::ReadOnlyFilesystem)
}

impl<P: Platform> Recovery<'_, P> {
    /// Returns the file of a segment to be checked, for reading only where its path takes no
    /// changes.
    ///
    /// The segment then counts as sealed. That is enough if it turns out to be whole, and is not
    /// the last.
    pub(super) async fn file_of(&self, segment: &Segment<P>) -> Result<File<P>> {
        match segment.file(self.store.disk()).await {
            Err(error) if is_read_only(&error) && segment.folder != self.folder.path => {
                segment.trust();
                segment.file(self.store.disk()).await
            }
            result => result,
        }
    }

    /// Refuses a segment that has to be truncated or to grow and can only be read.
    pub(super) async fn open_to_write(&self, segment: &Segment<P>) -> Result<()> {
        if segment.is_sealed() {
            segment.reopen();
            segment.file(self.store.disk()).await?;
        }
        Ok(())
    }

    /// Gives a checked segment its state, and its file the length of its batches, durably.
    pub(super) async fn settle(
        &self,
        segment: &Segment<P>,
        loaded: LoadedIndexes,
        checked: &CheckedSegment,
    ) -> Result<()> {
        let len = segment.size();
        segment.settle(checked.size, checked.expected.offset, loaded);
        if self.clean || self.was_durable(segment, checked) {
            return self.settle_aborted(segment, len).await;
        }
        let path = segment.path(Role::Log);
        let file = segment.file(self.store.disk()).await?;
        if segment.is_sealed() {
            // Its file system takes no changes: the file stays as it was read.
            return Ok(());
        }
        if !checked.whole {
            self.store
                .shared
                .metrics
                .truncated_bytes
                .inc_by(len - checked.size);
            if let Some(last) = last_of_records(&file, checked.size, len).await? {
                // Room that was reserved and not written is zeros; but a batch may end with zeros,
                // too.
                let rest = checked.size..len.min(last.saturating_add(PADDING_KEPT_BYTES));
                let bytes = last.saturating_sub(checked.size);
                let aside = self.keep(segment, &file, rest, checked.expected.offset);
                let aside = aside.await?;
                self.store.shared.metrics.dropped_bytes.inc_by(bytes);
                if let Some(aside) = aside {
                    tracing::error!(file = %path.display(), size = checked.size, bytes, aside = %aside.display(),
                        end = %checked.expected.offset, "a log is damaged: it ends there, and the rest was set aside");
                } else {
                    tracing::warn!(file = %path.display(), size = checked.size, bytes,
                        "what was being written when the process ended was cut off the end of a log");
                }
            } else {
                tracing::debug!(file = %path.display(), size = checked.size, len, "padding was cut off");
            }
            file.set_len(checked.size)
                .await
                .map_err(Error::io("cut", &path))?;
        }
        // After the truncation, which makes room: a start that ends between the two is repeated.
        self.settle_aborted(segment, len).await?;
        // What a killed process had written is there, but only this makes it durable.
        file.sync().await.map_err(Error::file_sync(&path))
    }

    /// Removes the transactions past the segment's end from the index of aborted ones.
    async fn settle_aborted(&self, segment: &Segment<P>, len_before: u64) -> Result<()> {
        if !segment.notes_aborted() || segment.is_sealed() {
            return Ok(());
        }
        load::settle_aborted(self.store.disk(), segment, len_before).await
    }

    /// Removes segments that cannot follow what was found.
    ///
    /// The note of a segment that is away goes before the segment's name does: a start that finds
    /// the note and a file that was set aside takes the file back.
    pub(super) async fn discard(&self, bases: &[Offset]) -> Result<()> {
        let disk = self.store.disk();
        self.refuse_absent(bases)?;
        if self.is_metadata() {
            self.refuse_batches(bases).await?;
        }
        for &base in bases.iter().rev() {
            let folder = &self.data_of(base).folder;
            let file = file_path(folder, base, Role::Log);
            tracing::warn!(file = %file.display(), "a segment after the end of the log is taken out of it");
            self.forget_place(base, folder).await?;
            for role in [Role::OffsetIndex, Role::TimeIndex, Role::TxnIndex] {
                remove(disk, &file_path(folder, base, role)).await?;
            }
            if self.has_batches(base, &file).await? {
                set_aside(self.store, &file).await?;
            } else {
                remove(disk, &file).await?;
            }
        }
        Ok(())
    }

    /// Removes the note of a segment that is away, durably.
    async fn forget_place(&self, base: Offset, folder: &Path) -> Result<()> {
        let home = &self.folder.path;
        if folder == &**home {
            return Ok(());
        }
        let disk = self.store.disk();
        let path = self.store.tiers().and_then(|tiers| tiers.holding(folder));
        let id = path.and_then(|path| NotedPlace::of(path).id);
        notes::remove_away(disk, home, base, id).await?;
        let synced = disk.sync_dir(home).await;
        synced.map_err(Error::dir_sync(home))
    }

    /// Refuses to remove segments of the metadata log that hold batches; an operator may do it.
    async fn refuse_batches(&self, bases: &[Offset]) -> Result<()> {
        for &base in bases {
            let folder = &self.data_of(base).folder;
            let path = file_path(folder, base, Role::Log);
            if self.has_batches(base, &path).await? {
                return Err(Error::Corrupt {
                    path,
                    position: 0,
                    reason: "the log before it is damaged, and it has whole batches",
                });
            }
        }
        Ok(())
    }

    /// Returns the data file of a segment that is not absent.
    fn data_of(&self, base: Offset) -> &DataFile {
        let data = self.folder.logs.get(&base);
        data.expect("what is discarded was refused, or has a file")
    }

    /// Returns true when a data file has a batch whose CRC is right.
    async fn has_batches(&self, base: Offset, path: &Path) -> Result<bool> {
        let len = self.data_of(base).len;
        let file = match self.store.disk().open(path, Open::Read).await {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(Error::io("open", path)(error)),
        };
        Ok(has_batch_behind(&file, 0..len, base).await)
    }

    /// Reads what appends to the last segment need: its last partial block, and the time of its
    /// first batch. The names of a log are made durable, unless all that counts is.
    pub(super) async fn prepare_active(
        &self,
        segments: &VecDeque<Rc<Segment<P>>>,
        is_durable: bool,
    ) -> Result<()> {
        let disk = self.store.disk();
        if !self.clean && !is_durable {
            for folder in self.folder.folders() {
                let synced = disk.sync_dir(&folder).await;
                match synced.map_err(Error::dir_sync(&folder)) {
                    // The names there cannot change any more.
                    Err(error) if is_read_only(&error) && folder != self.folder.path => {
                        tracing::warn!(folder = %folder.display(), %error, "segments are on a path that takes no changes");
                    }
                    result => result?,
                }
            }
        }
        let Some(active) = segments.back() else {
            return Ok(());
        };
        if (self.clean || is_durable) && self.is_plainly_empty(active) {
            active.give_end(Bytes::new());
            return Ok(());
        }
        let path = active.path(Role::Log);
        let size = active.size();
        let file = active.file(disk).await?;
        if size > 0 && active.first_timestamp().is_none() {
            let mut scan = Scan::new(&file, 0, size, BLOCK_BYTES);
            let header = scan.header().await.map_err(Error::io("read", &path))?;
            if let Some(header) = header {
                active.note_first_timestamp(header.max_timestamp.0);
            }
        }
        let bytes = last_block(&file, &path, size).await?;
        active.give_end(bytes);
        Ok(())
    }
}
