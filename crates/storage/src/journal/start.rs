//! The rings of a log directory at a start: void ones go, the others are replayed, and those that
//! no shard uses any more are removed.
//!
//! Order: every ring with a mark that is newer than its headers is removed, then the mark; then all
//! others are replayed together; then surplus ones are removed. After an interruption the next
//! start does the same again.
//! Invariant: a ring with commits goes only when its mark is whole, and says that no header of the
//! ring is newer. It does not open rings for commits: each shard opens its own (`open_ring`).

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use platform::Platform;
use platform::disk::Disk;
use wire::types::Uuid;

use super::error::{JournalError, Result};
use super::file::{self, OpenRing, RingRow};
use super::header::RingId;
use super::names::{parse_ring_name, ring_path, rings_in};
use super::replay::{LogDirectory, ReplayReport, replay};
use super::{RingSize, void};
use crate::checkpoint::{clean_shutdown, meta_properties};

/// The open file of a ring.
type File<P> = <<P as Platform>::Disk as Disk>::File;

/// Brings the log directory to the state in which its logs may be opened: its segments have what
/// its rings had.
///
/// `rings_dir` is where the rings are; `shards` is how many shards use one from now on.
pub async fn prepare<P: Platform>(
    platform: &P,
    directory: &LogDirectory<'_>,
    rings_dir: &Path,
    shards: u32,
) -> Result<ReplayReport> {
    let disk = platform.disk();
    remove_void(disk, directory, rings_dir).await?;
    let rings = rings_in(disk, rings_dir, directory.directory_id).await?;
    let replayed = replay(platform, directory, &rings).await?;
    for ring in replayed.rings {
        if ring.shard >= shards {
            file::remove(disk, &ring.path).await?;
        }
    }
    Ok(replayed.report)
}

/// Does the same as [`prepare`] for a log directory that no broker uses, by what is in it.
///
/// Afterwards its segments have everything, and no ring has commits. `rings_dir` is where the rings
/// are, if not in the directory itself.
pub async fn recover<P: Platform>(
    platform: &P,
    dir: &Path,
    rings_dir: Option<&Path>,
) -> Result<ReplayReport> {
    let disk = platform.disk();
    let file = dir.join(meta_properties::FILE);
    let bytes = disk.read_file(&file).await;
    let bytes = bytes.map_err(JournalError::io("read", &file))?;
    let identity = meta_properties::parse(&file, &bytes);
    let identity = identity.map_err(|error| JournalError::NoIdentity {
        reason: error.to_string().into(),
    })?;
    let Some(directory_id) = identity.directory_id else {
        // Directories got their ids before they got rings.
        return Ok(ReplayReport::default());
    };
    let directory = LogDirectory {
        path: dir,
        cluster_id: &identity.cluster_id,
        directory_id,
        left_clean: is_left_clean(disk, dir).await?,
    };
    prepare(platform, &directory, rings_dir.unwrap_or(dir), u32::MAX).await
}

/// Returns true when the directory says that it was left by a clean stop.
async fn is_left_clean<D: Disk>(disk: &D, dir: &Path) -> Result<bool> {
    let mark = dir.join(clean_shutdown::FILE);
    match disk.read_file(&mark).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(JournalError::io("read", &mark)(error)),
    }
}

/// Opens the ring of a shard, or makes it, after [`prepare`].
///
/// A ring of another size is replaced.
pub async fn open_ring<P: Platform>(
    platform: &P,
    id: RingId,
    rings_dir: &Path,
    size: RingSize,
) -> Result<OpenRing<File<P>>> {
    let disk = platform.disk();
    let path = ring_path(rings_dir, id.directory_id, id.shard);
    let random = platform.random_u64();
    let found = match file::open(disk, &path, &id.cluster_id, id.directory_id).await {
        Err(JournalError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => None,
        found => Some(found?),
    };
    let Some(found) = found else {
        return file::create(disk, &path, id, size, random).await;
    };
    let mut commits: u64 = 0;
    // The replay has read all of it, and begun a use that has no commits yet.
    let read = found.glance(|_| commits = commits.saturating_add(1));
    let read = read.await?;
    if commits > 0 {
        return Err(JournalError::Unfit {
            reason: "a ring with commits is replayed before it is opened",
        });
    }
    if read.header().size == size && read.header().id == id {
        match read.begin(random).await {
            Err(JournalError::WornOut { .. }) => {}
            begun => return begun,
        }
    }
    file::remove(disk, &path).await?;
    file::create(disk, &path, id, size, random).await
}

/// Removes the rings that are void, with their marks, and marks that say nothing any more.
async fn remove_void<D: Disk>(
    disk: &D,
    directory: &LogDirectory<'_>,
    rings_dir: &Path,
) -> Result<()> {
    for (mark, ring) in marks_in(disk, directory.path, directory.directory_id).await? {
        let bytes = disk.read_file(&mark).await;
        let bytes = bytes.map_err(JournalError::io("read", &mark))?;
        let Some(generation_max) = void::parse(&bytes) else {
            return Err(JournalError::Unreadable { path: mark });
        };
        let ring = rings_dir.join(ring);
        if newest_generation(disk, &ring).await? <= Some(generation_max) {
            tracing::warn!(ring = %ring.display(),
                "a journal failed and its logs went on without it: it is not read");
            file::remove(disk, &ring).await?;
        }
        let removed = disk.remove_file(&mark).await;
        removed.map_err(JournalError::io("remove", &mark))?;
        let synced = disk.sync_dir(directory.path).await;
        synced.map_err(JournalError::io("sync", directory.path))?;
    }
    Ok(())
}

/// Returns the marks in a log directory, with the names of their rings.
async fn marks_in<D: Disk>(
    disk: &D,
    dir: &Path,
    directory_id: Uuid,
) -> Result<Vec<(PathBuf, String)>> {
    let listed = disk.list(dir).await;
    let entries = listed.map_err(JournalError::io("list", dir))?;
    let mut marks = Vec::new();
    for entry in entries.iter().filter(|entry| !entry.is_dir) {
        let Some(ring) = void::ring_name(&entry.name) else {
            continue;
        };
        if parse_ring_name(ring).is_some_and(|(id, _)| id == directory_id) {
            marks.push((dir.join(&entry.name), ring.to_owned()));
        }
    }
    Ok(marks)
}

/// Returns the newest generation of the whole headers of a ring; `None` where there is none.
async fn newest_generation<D: Disk>(disk: &D, ring: &Path) -> Result<Option<u64>> {
    let mut newest = None;
    let looked = file::look(disk, ring, |row| {
        if let RingRow::Header { generation, .. } = row {
            newest = newest.max(Some(generation));
        }
    });
    match looked.await {
        Err(JournalError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(None),
        looked => looked.map(|()| newest),
    }
}
