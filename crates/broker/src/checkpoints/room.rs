//! Reserved space for the checkpoint files of a log directory with a full disk: a file of zeros
//! that shrinks to make room for them.
//!
//! A checkpoint is replaced as a whole, so the new one needs space beside the old. Without that, a
//! full disk would keep `DeleteRecords`, which frees space, from becoming durable. Invariant: the
//! file is the broker's own, holds no data, and is created again when it is missing and there is
//! space; removing it loses nothing else.

use std::io;
use std::path::{Path, PathBuf};

use platform::disk::{Disk, DiskFile, Open};

use super::CheckpointFiles;

/// The name of the file in a log directory.
pub(crate) const FILE: &str = "reserved-room";
/// Its length: the four checkpoints of about ten thousand logs, written one at a time.
const RESERVE_BYTES: u64 = 1 << 20;
/// Its maximum share of the file system, as a divisor.
const RESERVE_SHARE: u64 = 256;
/// What a small file may take in addition to its bytes: the last block, and one for directory
/// entries.
const SLACK_BYTES: u64 = 8 << 10;

const _: () = assert!(
    SLACK_BYTES < RESERVE_BYTES,
    "the room is for more than the last block"
);
const _: () = assert!(RESERVE_SHARE > 1, "the room is a part of the file system");

/// Writes a small file, if necessary in the reserved space.
pub(crate) async fn replace<D: Disk>(disk: &D, path: &Path, bytes: &[u8]) -> io::Result<()> {
    match disk.replace_file(path, bytes).await {
        Err(error) if is_full(&error) => {
            let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            give(disk, &reserve_of(path), len.saturating_add(SLACK_BYTES)).await?;
            disk.replace_file(path, bytes).await
        }
        result => result,
    }
}

/// Restores the reserve of a directory, if there is space.
///
/// A reserve that this process made and that has its length is left as it is: to reserve the same
/// blocks again writes to the file system's journal. The length alone is not enough, because a copy
/// of the directory may have the file without its blocks.
pub(super) async fn regain<D: Disk>(disk: &D, dir: &Path, files: &CheckpointFiles) {
    let total = disk.space(dir).await.map_or(u64::MAX, |space| space.total);
    let bytes = RESERVE_BYTES.min(total / RESERVE_SHARE);
    if let Err(error) = try_regain(disk, &dir.join(FILE), bytes, files).await {
        tracing::debug!(dir = %dir.display(), %error, "no room is kept for the checkpoints");
    }
}

async fn try_regain<D: Disk>(
    disk: &D,
    path: &Path,
    bytes: u64,
    files: &CheckpointFiles,
) -> io::Result<()> {
    if files.is_reserved(path) && has_length(disk, path, bytes).await {
        return Ok(());
    }
    let file = match disk.open(path, Open::Create).await {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            disk.open(path, Open::Write).await?
        }
        opened => opened?,
    };
    files.note_reserved(path, false);
    let mut part = bytes;
    loop {
        match file.allocate(part).await {
            Err(error) if is_full(&error) && part > SLACK_BYTES => part /= 2,
            Err(error) => return Err(error),
            Ok(()) => break,
        }
    }
    files.note_reserved(path, part == bytes);
    Ok(())
}

/// Returns true if a file has at least this length.
async fn has_length<D: Disk>(disk: &D, path: &Path, bytes: u64) -> bool {
    match disk.open(path, Open::Read).await {
        Ok(file) => file.len().await.is_ok_and(|len| len >= bytes),
        Err(_) => false,
    }
}

async fn give<D: Disk>(disk: &D, path: &Path, bytes: u64) -> io::Result<()> {
    let file = disk.open(path, Open::Write).await?;
    let len = file.len().await?;
    file.set_len(len.saturating_sub(bytes)).await
}

fn reserve_of(path: &Path) -> PathBuf {
    path.with_file_name(FILE)
}

fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}
