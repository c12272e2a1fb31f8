//! The mark in `meta.properties` that names the rings that count.
//!
//! States of a log directory: unmarked (its segments have everything, and no ring counts) -> marked
//! (the rings that the mark names count) -> unmarked, by a replay at a start or by a clean stop.
//! Invariants: a directory is marked before the first commit, and unmarked when its segments have
//! everything, synced; when it is marked there is no void mark of an earlier use in it; unmarking
//! needs no room, since the file that takes the place of the marked one was written before it.
//! It does not say when that is (`start`, and those who use journals).

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use platform::disk::Disk;
use wire::types::{TimestampMs, Uuid};

use super::error::{JournalError, Result};
use super::names::{is_lock, parse_ring_name};
use super::void;
use crate::checkpoint::journal_mark::JournalMark;
use crate::checkpoint::meta_properties::{self, MetaProperties};

/// The file that takes the place of `meta.properties` when no ring counts any more.
pub const SPARE_FILE: &str = "meta.properties.unmarked";

/// What a ring has behind its name while it is made.
const DRAFT: &str = ".tmp";

/// Returns true for a file that a journal has in a log directory, by its name.
pub fn is_of_journal(name: &str) -> bool {
    let of_ring = void::ring_name(name).unwrap_or(name);
    let ring = of_ring.strip_suffix(DRAFT).unwrap_or(of_ring);
    name == SPARE_FILE || is_lock(name) || parse_ring_name(ring).is_some()
}

/// Returns what a log directory says of itself, and of the rings that count.
pub async fn read<D: Disk>(disk: &D, dir: &Path) -> Result<MetaProperties> {
    let file = dir.join(meta_properties::FILE);
    let bytes = disk.read_file(&file).await;
    let bytes = bytes.map_err(JournalError::io("read", &file))?;
    meta_properties::parse_marked(&file, &bytes).map_err(|error| JournalError::NoIdentity {
        reason: error.to_string().into(),
    })
}

/// Marks an unmarked log directory, durably: from now on these rings count.
///
/// They have no commits yet.
pub async fn mark<D: Disk>(
    disk: &D,
    dir: &Path,
    journal: JournalMark,
    now: TimestampMs,
) -> Result<()> {
    let meta = read(disk, dir).await?;
    let Some(directory_id) = meta.directory_id.filter(|_| meta.journal.is_none()) else {
        return Err(JournalError::Unfit {
            reason: "a log directory with an id is marked, once",
        });
    };
    // A later use of a ring that was replaced may have generations that such a mark covers.
    remove_void_marks(disk, dir, directory_id).await?;
    let spare = dir.join(SPARE_FILE);
    replace(disk, &spare, &meta, now).await?;
    let marked = MetaProperties {
        journal: Some(journal),
        ..meta
    };
    replace(disk, &dir.join(meta_properties::FILE), &marked, now).await
}

/// Unmarks a log directory, durably: no ring counts any more.
pub async fn unmark<D: Disk>(disk: &D, dir: &Path, now: TimestampMs) -> Result<()> {
    let mut meta = read(disk, dir).await?;
    if meta.journal.take().is_none() {
        return Ok(());
    }
    let (file, spare) = (dir.join(meta_properties::FILE), dir.join(SPARE_FILE));
    let bytes = disk.read_file(&spare).await;
    let is_whole = bytes.is_ok_and(|bytes| {
        let found = meta_properties::parse(&spare, &bytes);
        found.is_ok_and(|found| found == meta)
    });
    if !is_whole {
        return replace(disk, &file, &meta, now).await;
    }
    let renamed = disk.rename(&spare, &file).await;
    renamed.map_err(JournalError::io("rename", &spare))?;
    let synced = disk.sync_dir(dir).await;
    synced.map_err(JournalError::io("sync", dir))
}

async fn replace<D: Disk>(
    disk: &D,
    file: &Path,
    meta: &MetaProperties,
    now: TimestampMs,
) -> Result<()> {
    let bytes = meta_properties::encode(meta, now);
    let replaced = disk.replace_file(file, &bytes).await;
    replaced.map_err(JournalError::io("write", file))
}

/// Removes the void marks of a log directory's rings, durably: none of these counts.
async fn remove_void_marks<D: Disk>(disk: &D, dir: &Path, directory_id: Uuid) -> Result<()> {
    let marks = void_marks_in(disk, dir, directory_id).await?;
    if marks.is_empty() {
        return Ok(());
    }
    for (mark, _) in &marks {
        match disk.remove_file(mark).await {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(JournalError::io("remove", mark)(error));
            }
            _ => {}
        }
    }
    let synced = disk.sync_dir(dir).await;
    synced.map_err(JournalError::io("sync", dir))
}

/// Returns the void marks in a log directory, with the shards of their rings.
pub(super) async fn void_marks_in<D: Disk>(
    disk: &D,
    dir: &Path,
    directory_id: Uuid,
) -> Result<Vec<(PathBuf, u32)>> {
    let listed = disk.list(dir).await;
    let entries = listed.map_err(JournalError::io("list", dir))?;
    let mut marks = Vec::new();
    for entry in entries.iter().filter(|entry| !entry.is_dir) {
        let ring = void::ring_name(&entry.name).and_then(parse_ring_name);
        if let Some((_, shard)) = ring.filter(|(id, _)| *id == directory_id) {
            marks.push((dir.join(&entry.name), shard));
        }
    }
    Ok(marks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_journal_are_known_by_their_names() {
        for name in [
            "AAAAAAAAAAAAAAAAAAAABw.12.ring",
            "AAAAAAAAAAAAAAAAAAAABw.12.ring.tmp",
            "AAAAAAAAAAAAAAAAAAAABw.12.ring.void",
            "AAAAAAAAAAAAAAAAAAAABw.rings.lock",
            "meta.properties.unmarked",
        ] {
            assert!(is_of_journal(name), "{name}");
        }
        for name in ["meta.properties", "orders.ring", "x.void", ".tmp"] {
            assert!(!is_of_journal(name), "{name}");
        }
    }
}
