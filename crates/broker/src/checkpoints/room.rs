//! Room for the checkpoint files of a log directory, for when its disk is full: a file of zeros that gives way to them.
//!
//! A checkpoint is replaced as a whole, so the new one needs room beside the old. Without it a full disk would keep
//! `DeleteRecords` from being remembered, which is what makes room. Invariant: the file is the broker's own, holds nothing, and is
//! made anew when it is missing and there is room; who removes it loses nothing else.

use std::io;
use std::path::{Path, PathBuf};

use platform::disk::{Disk, DiskFile, Open};

/// The file's name in a log directory.
pub(crate) const FILE: &str = "reserved-room";
/// Its length: the four checkpoints of some ten thousand logs, one at a time.
const RESERVE_BYTES: u64 = 1 << 20;
/// What part of a file system it may take.
const RESERVE_SHARE: u64 = 256;
/// What a small file may take beside its bytes: the last block, and one for names.
const SLACK_BYTES: u64 = 8 << 10;

const _: () = assert!(
    SLACK_BYTES < RESERVE_BYTES,
    "the room is for more than the last block"
);
const _: () = assert!(RESERVE_SHARE > 1, "the room is a part of the file system");

/// Writes a small file, if need be in the place of reserved room.
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

/// Makes the reserve of a directory whole again, if there is room.
pub(super) async fn regain<D: Disk>(disk: &D, dir: &Path) {
    let total = disk.space(dir).await.map_or(u64::MAX, |space| space.total);
    let bytes = RESERVE_BYTES.min(total / RESERVE_SHARE);
    if let Err(error) = try_regain(disk, &dir.join(FILE), bytes).await {
        tracing::debug!(dir = %dir.display(), %error, "no room is kept for the checkpoints");
    }
}

async fn try_regain<D: Disk>(disk: &D, path: &Path, mut bytes: u64) -> io::Result<()> {
    let file = match disk.open(path, Open::Create).await {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            disk.open(path, Open::Write).await?
        }
        opened => opened?,
    };
    loop {
        match file.allocate(bytes).await {
            Err(error) if is_full(&error) && bytes > SLACK_BYTES => bytes /= 2,
            done => return done,
        }
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
