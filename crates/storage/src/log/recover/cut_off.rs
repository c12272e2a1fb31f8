//! What becomes of the bytes behind the last good batch of a log that was not left cleanly.
//!
//! A process that ends while it writes leaves the beginnings of batches that were never
//! acknowledged: these are dropped. Two signs show that it is more than that: the log ends below
//! its recovery point, where everything was durable; or there is a whole batch behind the invalid
//! bytes. Then all of it is kept beside the log, as `<base>.log.from-<position>.<time>.aside`.
//! Invariants: the bytes are durable under that name before they are cut off the log. They take no
//! more room than before, but both exist for a moment: without room the log is opened later. A
//! metadata log that has whole batches there is not truncated, but refused.
//! The work is bounded: the rest of one file is read once, and CRCs are computed over
//! [`CRC_BYTES_MAX`]; in doubt all is kept.

use std::ops::Range;
use std::path::{Path, PathBuf};

use platform::Platform;
use platform::buf::{BufPool, block_ceil};
use platform::disk::{BLOCK_BYTES, Disk, DiskFile, Open};
use wire::batch::HEADER_BYTES;
use wire::types::Offset;

use super::super::files::{free_aside, remove};
use super::{Recovery, VERIFY_BYTES};
use crate::error::{Error, Result};
use crate::num::index;
use crate::segment::naming::Role;
use crate::segment::scan::{Scan, may_be_batch};
use crate::segment::{File, Segment};

/// Most bytes over which CRCs are computed in the search for a whole batch.
const CRC_BYTES_MAX: u64 = 64 << 20;

impl<P: Platform> Recovery<'_, P> {
    /// Keeps the bytes in `rest`, behind a log that ends with `end`, if they are worth it.
    ///
    /// Returns the name under which it keeps them.
    pub(super) async fn keep(
        &self,
        segment: &Segment<P>,
        file: &File<P>,
        rest: Range<u64>,
        end: Offset,
    ) -> Result<Option<PathBuf>> {
        let has_batches = has_batch_behind(file, rest.clone(), end).await;
        if !has_batches && end >= self.durable {
            return Ok(None);
        }
        let path = segment.path(Role::Log);
        if self.is_metadata() && has_batches {
            return Err(Error::Corrupt {
                path,
                position: rest.start,
                reason: "no valid batch begins there, and there are valid ones behind it",
            });
        }
        let name = path.file_name().expect("a file of a log has a name");
        let name = name.to_string_lossy();
        let part = path.with_file_name(format!("{name}.from-{}", rest.start));
        let aside = free_aside(self.store.disk(), &part, self.now_ms).await?;
        match self.copy(file, rest, &aside).await {
            // One unreadable batch is no reason to refuse a start.
            Err(error @ Error::Full { .. }) if self.is_metadata() => {
                tracing::error!(file = %path.display(), %error, "there is no room to keep a damaged batch");
                return Ok(None);
            }
            copied => copied?,
        }
        self.store.shared.metrics.set_aside.inc();
        Ok(Some(aside))
    }

    /// Copies a part of a file to a new one; durable when it returns.
    async fn copy(&self, file: &File<P>, part: Range<u64>, to: &Path) -> Result<()> {
        let disk = self.store.disk();
        let mut unfinished = to.as_os_str().to_owned();
        unfinished.push(".tmp");
        let unfinished = PathBuf::from(unfinished);
        remove(disk, &unfinished).await?;
        let written = write_copy(disk, file, part, &unfinished).await;
        if let Err(error) = written {
            // Others may need the room.
            let _ = remove(disk, &unfinished).await;
            return Err(error);
        }
        let renamed = disk.rename(&unfinished, to).await;
        renamed.map_err(Error::io("rename", &unfinished))?;
        let dir = to.parent().expect("a file lies in a directory");
        let synced = disk.sync_dir(dir).await;
        synced.map_err(Error::dir_sync(dir))
    }
}

async fn write_copy<D: Disk>(disk: &D, file: &D::File, part: Range<u64>, to: &Path) -> Result<()> {
    let copy = disk.open(to, Open::Create).await;
    let copy = copy.map_err(Error::io("create", to))?;
    let pool = BufPool::new(2 * VERIFY_BYTES);
    let mut at = part.start;
    while at < part.end {
        let left = part.end.saturating_sub(at);
        let len = index(left).min(VERIFY_BYTES);
        let mut block = pool.take(block_ceil(len));
        block.fill(0);
        let (bytes, _) = block.split_at_mut(len); // Bounded: rounded up to blocks.
        read_what_can_be(file, at, bytes).await;
        let position = at.saturating_sub(part.start);
        let written = copy.write_at(position, vec![block.freeze()]).await;
        written.map_err(Error::io("write", to))?;
        at = at.saturating_add(len as u64);
    }
    let cut = copy.set_len(part.end.saturating_sub(part.start)).await;
    cut.map_err(Error::io("cut", to))?;
    copy.sync().await.map_err(Error::file_sync(to))
}

/// Reads into `bytes`; what the disk does not return stays zero.
async fn read_what_can_be<F: DiskFile>(file: &F, from: u64, bytes: &mut [u8]) {
    let whole = file.read_at(from, bytes.len()).await;
    if let Ok(read) = whole {
        if let Some(to) = bytes.get_mut(..read.len()) {
            to.copy_from_slice(&read);
        }
        return;
    }
    for (at, block) in (0_u64..).zip(bytes.chunks_mut(BLOCK_BYTES)) {
        let position = from.saturating_add(at.saturating_mul(BLOCK_BYTES as u64));
        if let Ok(read) = file.read_at(position, block.len()).await
            && let Some(to) = block.get_mut(..read.len())
        {
            to.copy_from_slice(&read);
        }
    }
}

/// Returns true when a part of a file has a whole batch with offsets from `end` on.
///
/// It also returns true when the search would take too long, when the part cannot be read, or when
/// it begins with a message of an older format, which a write never leaves.
pub(crate) async fn has_batch_behind<F: DiskFile>(file: &F, part: Range<u64>, end: Offset) -> bool {
    let mut scan = Scan::new(file, part.start, part.end, BLOCK_BYTES);
    if scan.is_older_format(end).await.unwrap_or(true) {
        return true;
    }
    let mut crc_bytes = 0_u64;
    let mut at = part.start;
    while at < part.end {
        let left = part.end.saturating_sub(at);
        let wanted = usize::try_from(left).map_or(VERIFY_BYTES, |left| left.min(VERIFY_BYTES));
        let Ok(bytes) = file.read_at(at, wanted).await else {
            return true;
        };
        for (position, header) in (at..).zip(bytes.windows(HEADER_BYTES)) {
            let room = part.end.saturating_sub(position);
            let Some(header) = may_be_batch(header, end, room) else {
                continue;
            };
            crc_bytes = crc_bytes.saturating_add(header.size_bytes as u64);
            if crc_bytes > CRC_BYTES_MAX {
                return true;
            }
            let mut scan = Scan::new(file, position, part.end, VERIFY_BYTES);
            if scan.crc_is_right(&header).await.unwrap_or(true) {
                return true;
            }
        }
        if wanted as u64 == left {
            break;
        }
        // A header may lie across two reads.
        let step = wanted.saturating_sub(HEADER_BYTES - 1).max(1);
        at = at.saturating_add(step as u64);
    }
    false
}
