//! How a recovery leaves the files: cut to the batches that were found good, durably, with nothing after the log's end.

use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;
use platform::Platform;
use platform::disk::{BLOCK_BYTES, Disk, DiskFile};
use wire::types::Offset;

use super::super::open::remove;
use super::{Checked, Recovery};
use crate::error::{Error, Result};
use crate::segment::naming::{Role, file_path};
use crate::segment::scan::Scan;
use crate::segment::tail::Tail;
use crate::segment::{Loaded, Segment};

impl<P: Platform> Recovery<'_, P> {
    /// Gives a checked segment its state, and its file the length of its batches, durably.
    pub(super) async fn settle(
        &self,
        segment: &Segment<P>,
        loaded: Loaded,
        checked: &Checked,
    ) -> Result<()> {
        let len = segment.size.get();
        segment.size.set(checked.size);
        segment.written.set(checked.size);
        segment.synced.set(checked.size);
        segment.allocated.set(checked.size);
        *segment.tail.borrow_mut() = Tail::absent(checked.size);
        segment.next.set(checked.expected.offset);
        segment
            .largest
            .set(loaded.indexes.largest_timestamp().into());
        *segment.loaded.borrow_mut() = Some(loaded);
        if self.clean {
            return Ok(());
        }
        let path = segment.path(Role::Log);
        let file = segment.file(self.store.disk()).await?;
        if !checked.whole {
            self.store
                .shared
                .metrics
                .truncated_bytes
                .inc_by(len - checked.size);
            tracing::info!(file = %path.display(), size = checked.size, len,
                "cut to the end of the last valid batch");
            file.set_len(checked.size)
                .await
                .map_err(Error::io("cut", &path))?;
        }
        // What a killed process had written is there, but it is durable only now.
        file.sync().await.map_err(Error::file_sync(&path))
    }

    /// Removes segments that cannot follow what was found.
    pub(super) async fn discard(&self, bases: &[Offset]) -> Result<()> {
        let disk = self.store.disk();
        self.refuse_absent(bases)?;
        for &base in bases.iter().rev() {
            let folder = self.folder.logs.get(&base).map(|data| &data.folder);
            let folder = folder.unwrap_or(&self.folder.path);
            let file = file_path(folder, base, Role::Log);
            tracing::warn!(file = %file.display(), "a segment after the end of the log is removed");
            for role in [
                Role::OffsetIndex,
                Role::TimeIndex,
                Role::TxnIndex,
                Role::Log,
            ] {
                remove(disk, &file_path(folder, base, role)).await?;
            }
        }
        Ok(())
    }

    /// Reads what appends to the last segment need: its last partial block, and the time of its first batch.
    pub(super) async fn prepare_active(&self, segments: &VecDeque<Rc<Segment<P>>>) -> Result<()> {
        let disk = self.store.disk();
        if !self.clean {
            for folder in self.folder.folders() {
                let synced = disk.sync_dir(&folder).await;
                synced.map_err(Error::dir_sync(&folder))?;
            }
        }
        let Some(active) = segments.back() else {
            return Ok(());
        };
        let path = active.path(Role::Log);
        let size = active.size.get();
        let file = active.file(disk).await?;
        if size > 0 && active.first_timestamp.get().is_none() {
            let mut scan = Scan::new(&file, 0, size, BLOCK_BYTES);
            let header = scan.header().await.map_err(Error::io("read", &path))?;
            let timestamp = header.map(|header| header.max_timestamp.0);
            active
                .first_timestamp
                .set(timestamp.filter(|timestamp| *timestamp >= 0));
        }
        let partial = size % BLOCK_BYTES as u64;
        let bytes = if partial == 0 {
            Bytes::new()
        } else {
            let len = usize::try_from(partial).unwrap_or(0);
            file.read_at(size - partial, len)
                .await
                .map_err(Error::io("read", &path))?
        };
        *active.tail.borrow_mut() = Tail::at(size, bytes);
        Ok(())
    }
}
