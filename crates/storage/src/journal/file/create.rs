//! A new ring: zeros written through, both headers, then the name.
//!
//! Invariants: until the file is whole and durable it has another name, which the next creation
//! removes; memory and single writes are bounded whatever the size; a file that has the ring's name
//! is never replaced.
//! It does not choose the size, or the directory.

use std::io::ErrorKind;
use std::path::Path;

use platform::buf::AlignedBuf;
use platform::disk::{Disk, DiskFile, Open};

use super::{
    OpenRing, PIECE_BYTES, RingFile, check_medium, dir_of, draft_of, remove_if_there, sync_dir_of,
};
use crate::journal::RingSize;
use crate::journal::error::{JournalError, Result};
use crate::journal::header::RingId;
use crate::journal::ring::Ring;
use crate::num::index;

/// Makes a ring's file, and opens it for its first use; `random` gives the incarnation.
///
/// When it fails, what it wrote is removed as far as that is possible. If its last step fails, the
/// sync of the directory, the file may be there: it is a whole ring without commits.
pub async fn create<D: Disk>(
    disk: &D,
    path: &Path,
    id: RingId,
    size: RingSize,
    random: u64,
) -> Result<OpenRing<D::File>> {
    if !id.is_possible() {
        let reason = "a ring takes a cluster id of 1 to 1,024 bytes";
        return Err(JournalError::Unfit { reason });
    }
    check_medium(disk, path)?;
    refuse_existing(disk, path).await?;
    let draft = draft_of(path);
    remove_if_there(disk, &draft).await?;
    check_room(disk, path, size).await?;
    let made = make(disk, path, &draft, Ring::new(id, size, random)).await;
    if made.is_err() {
        // Whether or not that works: the first failure counts, and the next creation tries again.
        drop(disk.remove_file(&draft).await);
    }
    let ring = made.map_err(|error| error.of_making(path, size.file_bytes()))?;
    sync_dir_of(disk, path).await?;
    Ok(ring)
}

/// Makes the draft, and renames it.
async fn make<D: Disk>(
    disk: &D,
    path: &Path,
    draft: &Path,
    ring: Ring,
) -> Result<OpenRing<D::File>> {
    let needed = ring.size().file_bytes();
    let created = disk.open(draft, Open::Create).await;
    let file = created.map_err(JournalError::io("create", draft))?;
    fill(&file, draft, needed).await?;
    let ring = RingFile::new(file, path).begin(ring).await?;
    let renamed = disk.rename(draft, path).await;
    renamed.map_err(JournalError::io("rename", draft))?;
    Ok(ring)
}

/// Writes zeros over the whole length, so that no later write changes more than bytes.
async fn fill<F: DiskFile>(file: &F, draft: &Path, needed: u64) -> Result<()> {
    let reserved = file.allocate(needed).await;
    reserved.map_err(JournalError::io("reserve room for", draft))?;
    let zeros = AlignedBuf::zeroed(PIECE_BYTES).freeze();
    let mut at = 0;
    while at < needed {
        let piece = needed.saturating_sub(at).min(PIECE_BYTES as u64);
        let written = file.write_at(at, vec![zeros.slice(..index(piece))]).await;
        written.map_err(JournalError::io("write", draft))?;
        at = at.saturating_add(piece);
    }
    let synced = file.sync().await;
    synced.map_err(JournalError::io("sync", draft))
}

async fn refuse_existing<D: Disk>(disk: &D, path: &Path) -> Result<()> {
    match disk.open(path, Open::Read).await {
        Ok(_) => Err(JournalError::Exists {
            path: path.to_path_buf(),
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(JournalError::io("open", path)(error)),
    }
}

async fn check_room<D: Disk>(disk: &D, path: &Path, size: RingSize) -> Result<()> {
    let dir = dir_of(path);
    let space = disk.space(dir).await;
    let free = space
        .map_err(JournalError::io("look for room in", dir))?
        .free;
    let needed = size.file_bytes();
    if free < needed {
        return Err(JournalError::NoRoom {
            path: path.to_path_buf(),
            needed,
            free: Some(free),
        });
    }
    Ok(())
}
