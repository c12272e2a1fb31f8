//! Keeps what a ring has of a log that does not get it, before the ring forgets it.
//!
//! Each run of bytes becomes a file `<base>.log.from-<position>.<time>.aside`, which nothing reads
//! or removes. Invariants: the bytes are durable under that name when it returns; a file that is
//! there is never replaced, and counts if it holds the bytes. It does not keep cuts.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use platform::buf::AlignedBuf;
use platform::disk::{Disk, DiskFile, Entry, Open};

use super::image::{Extent, LogImage};
use crate::journal::BLOCK;
use crate::journal::error::{JournalError, Result};
use crate::journal::file::RingBytes;
use crate::num::index;
use crate::segment::naming::{Role, file_name, is_set_aside, set_aside_name};

/// Bytes of one write.
const PIECE_BYTES: usize = 1 << 20;

/// Where the bytes of a log are kept.
pub(super) struct AsidePlace<'a> {
    pub(super) dir: &'a Path,
    /// What the names begin with.
    pub(super) prefix: String,
    pub(super) now_ms: i64,
}

/// Keeps the bytes of a log; returns where.
pub(super) async fn keep<D: Disk>(
    disk: &D,
    ring: &mut RingBytes<'_, D::File>,
    image: &LogImage,
    place: &AsidePlace<'_>,
) -> Result<Vec<PathBuf>> {
    let listed = disk.list(place.dir).await;
    let there = listed.map_err(JournalError::io("list", place.dir))?;
    let mut kept = Vec::new();
    for (&segment, image) in &image.segments {
        let data = file_name(segment, Role::Log);
        let follows = |one: &Extent, next: &Extent| one.stop() == next.position;
        for run in image.extents.chunk_by(follows) {
            let position = run.first().map_or(0, |first| first.position);
            let name = format!("{}{data}.from-{position}", place.prefix);
            let before = kept_before(disk, ring, run, place, (&name, &there)).await?;
            if let Some(path) = before {
                kept.push(path);
                continue;
            }
            let path = free_name(disk, place, &name).await?;
            copy(disk, ring, run, &path).await?;
            kept.push(path);
        }
    }
    let synced = disk.sync_dir(place.dir).await;
    synced.map_err(JournalError::io("sync", place.dir))?;
    Ok(kept)
}

/// Returns the file in which an earlier start has kept the same bytes, before it was interrupted:
/// starts that fail again and again do not fill the disk.
async fn kept_before<D: Disk>(
    disk: &D,
    ring: &mut RingBytes<'_, D::File>,
    run: &[Extent],
    place: &AsidePlace<'_>,
    (name, there): (&str, &[Entry]),
) -> Result<Option<PathBuf>> {
    let lengths = run.iter().map(|extent| u64::from(extent.length));
    let length = lengths.fold(0, u64::saturating_add);
    assert!(length > 0, "a run has bytes");
    for entry in there {
        let is_of_it = is_set_aside(&entry.name, name) && entry.len == length && !entry.is_dir;
        let path = place.dir.join(&entry.name);
        if is_of_it && holds(disk, ring, run, &path).await? {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// Returns true when a file holds the bytes; it was synced before it got its name.
async fn holds<D: Disk>(
    disk: &D,
    ring: &mut RingBytes<'_, D::File>,
    run: &[Extent],
    path: &Path,
) -> Result<bool> {
    let opened = disk.open(path, Open::Read).await;
    let file = opened.map_err(JournalError::io("open", path))?;
    let mut position: u64 = 0;
    for extent in run {
        let ours = ring.at(extent.place, extent.length).await?;
        let found = file.read_at(position, ours.len()).await;
        if found.map_err(JournalError::io("read", path))? != ours {
            return Ok(false);
        }
        position = position.saturating_add(u64::from(extent.length));
    }
    Ok(true)
}

/// Returns a path that no file has.
async fn free_name<D: Disk>(disk: &D, place: &AsidePlace<'_>, name: &str) -> Result<PathBuf> {
    let mut at_ms = place.now_ms;
    loop {
        let path = place.dir.join(set_aside_name(name, at_ms));
        match disk.open(&path, Open::Read).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(path),
            Err(error) => return Err(JournalError::io("open", &path)(error)),
            Ok(_) => at_ms = at_ms.saturating_add(1),
        }
    }
}

/// Copies bytes that follow each other to a file of their own.
async fn copy<D: Disk>(
    disk: &D,
    ring: &mut RingBytes<'_, D::File>,
    run: &[Extent],
    path: &Path,
) -> Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".tmp");
    let draft = PathBuf::from(draft);
    match disk.remove_file(&draft).await {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(JournalError::io("remove", &draft)(error));
        }
        _ => {}
    }
    let created = disk.open(&draft, Open::Create).await;
    let file = created.map_err(JournalError::io("create", &draft))?;
    let written = write(&file, ring, run, &draft).await;
    if written.is_err() {
        // Others may need the room.
        drop(disk.remove_file(&draft).await);
    }
    written?;
    let renamed = disk.rename(&draft, path).await;
    renamed.map_err(JournalError::io("rename", &draft))
}

async fn write<F: DiskFile>(
    file: &F,
    ring: &mut RingBytes<'_, F>,
    run: &[Extent],
    path: &Path,
) -> Result<()> {
    let mut gathered = Vec::new();
    let mut position: u64 = 0;
    for extent in run {
        gathered.extend_from_slice(ring.at(extent.place, extent.length).await?);
        while gathered.len() >= PIECE_BYTES {
            let rest = gathered.split_off(PIECE_BYTES); // Bounded: it is not shorter.
            write_piece(file, position, &gathered, path).await?;
            position = position.saturating_add(gathered.len() as u64);
            gathered = rest;
        }
    }
    write_piece(file, position, &gathered, path).await?;
    let length = position.saturating_add(gathered.len() as u64);
    let cut = file.set_len(length).await;
    cut.map_err(JournalError::io("cut", path))?;
    let synced = file.sync().await;
    synced.map_err(JournalError::io("sync", path))
}

/// Writes bytes at the start of a block, padded with zeros.
async fn write_piece<F: DiskFile>(
    file: &F,
    position: u64,
    bytes: &[u8],
    path: &Path,
) -> Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let mut blocks = AlignedBuf::zeroed(bytes.len().next_multiple_of(index(BLOCK)));
    let into = blocks.get_mut(..bytes.len());
    into.expect("it is rounded up").copy_from_slice(bytes);
    let written = file.write_at(position, vec![blocks.freeze()]).await;
    written.map_err(JournalError::io("write", path))
}
