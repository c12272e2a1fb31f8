//! What a log's folders hold: at home and, with tiers, in the folder of the same name on other
//! paths.
//!
//! `open/gather.rs` finds it out. Here are the result, and whose a folder on another path is.
//! Files that this broker did not make are named in a warning and left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use platform::Platform;
use platform::disk::{Disk, Entry};
use wire::types::{Offset, TopicId, TopicPartition, Uuid};

use super::malformed;
use super::notes::{DebtList, NotedPlace};
use crate::checkpoint::partition_metadata;
use crate::error::{Error, Result};
use crate::segment::looked::LookedFiles;
use crate::segment::naming::{self, Name};
use crate::store::Store;

/// Longest time from the cut of a data file to its indexes in a seal; a move writes them later.
const SEAL_MS_MAX: i64 = 2_000;

/// What was found of a log.
pub(in crate::log) struct Folder {
    /// The log's home.
    pub(in crate::log) path: Rc<Path>,
    /// What was read of home when it was listed.
    pub(in crate::log) look: LookedFiles,
    /// The data files by base offset.
    pub(in crate::log) logs: BTreeMap<Offset, DataFile>,
    /// Producer snapshots, which are at home.
    pub(in crate::log) snapshots: Vec<Offset>,
    /// Segments on a path that is absent, and where.
    pub(in crate::log) absent: BTreeMap<Offset, NotedPlace>,
    /// Folders with copies of absent segments that do not count.
    pub(in crate::log) shadows: BTreeMap<Offset, Vec<Rc<Path>>>,
    /// What directories owe that are absent or could not pay.
    pub(in crate::log) owed: BTreeMap<Offset, DebtList>,
    /// The debts among these that could not be written.
    pub(in crate::log) unwritten: BTreeSet<Offset>,
    /// Whether there is a note of segments with an index of aborted transactions, and which it
    /// names.
    pub(in crate::log) is_noted: bool,
    pub(in crate::log) noted: BTreeSet<Offset>,
    /// The noted segments, and those for which such an index was found.
    pub(in crate::log) aborted: BTreeSet<Offset>,
    /// All folders that were read, with or without segments.
    pub(in crate::log) read: Vec<Rc<Path>>,
    /// A file was set aside in one of them, before this start.
    pub(in crate::log) has_asides: bool,
    /// Files of segments that were set aside elsewhere, by base offset.
    pub(in crate::log) asides: Vec<(Offset, PathBuf)>,
}

impl Folder {
    /// Returns the base offsets of its segments, absent ones included.
    pub(in crate::log) fn bases(&self) -> Vec<Offset> {
        let mut bases: Vec<_> = self
            .logs
            .keys()
            .chain(self.absent.keys())
            .copied()
            .collect();
        bases.sort_unstable();
        bases
    }

    /// Returns home, and the other folders that have segments.
    pub(in crate::log) fn folders(&self) -> Vec<Rc<Path>> {
        let mut folders = vec![Rc::clone(&self.path)];
        for data in self.logs.values() {
            if !folders.contains(&data.folder) {
                folders.push(Rc::clone(&data.folder));
            }
        }
        folders
    }

    /// Returns the bytes of what was set aside in the folders, and notes the files elsewhere.
    ///
    /// A folder that cannot be listed now counts as empty.
    pub(in crate::log) async fn count_asides<D: Disk>(&mut self, disk: &D) -> i64 {
        let mut bytes = 0_u64;
        for folder in &self.read {
            let entries = disk.list(folder).await.unwrap_or_default();
            let is_aside = |entry: &&Entry| {
                !entry.is_dir && matches!(naming::classify(&entry.name), Name::Aside)
            };
            for aside in entries.iter().filter(is_aside) {
                bytes = bytes.saturating_add(aside.len);
                if let Some(base) = naming::aside_base(&aside.name)
                    && *folder != self.path
                {
                    self.asides.push((base, folder.join(&aside.name)));
                }
            }
        }
        i64::try_from(bytes).unwrap_or(i64::MAX)
    }
}

/// A data file as it was found.
#[derive(Clone)]
pub(in crate::log) struct DataFile {
    pub(in crate::log) folder: Rc<Path>,
    pub(in crate::log) len: u64,
    /// When it was last written to; a copy keeps that time.
    pub(in crate::log) modified_ms: Option<i64>,
    /// When its offset index was written: with its last batches, or when the file came to this
    /// folder.
    pub(in crate::log) indexed_ms: Option<i64>,
}

impl DataFile {
    /// Returns when it was sealed and when it came to its folder, as far as the times of its files
    /// show.
    pub(in crate::log) fn ages(&self, now_ms: i64) -> (i64, i64) {
        let sealed_ms = self.modified_ms.map_or(now_ms, |ms| ms.min(now_ms));
        let indexed_ms = self.indexed_ms.map_or(sealed_ms, |ms| ms.min(now_ms));
        let was_moved = indexed_ms - sealed_ms > SEAL_MS_MAX;
        let arrived_ms = if was_moved { indexed_ms } else { sealed_ms };
        (sealed_ms, arrived_ms)
    }
}

/// What is in the place of a log's folder on another path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::log) enum FolderClaim {
    /// The log's folder: it names the topic.
    Ours,
    /// Nothing any more: it was the folder of another topic of the same name, and has been renamed.
    Nothing,
    /// A former home of the log, which has moved: nothing in it counts, and all of it goes.
    OldHome,
}

/// Checks that a folder on another path names the topic, and is no log's home.
///
/// A folder that names no topic names this one from now on.
pub(in crate::log) async fn claim<P: Platform>(
    store: &Store<P>,
    folder: &Path,
    partition: &TopicPartition,
    topic_id: TopicId,
) -> Result<FolderClaim> {
    let disk = store.disk();
    let path = folder.join(partition_metadata::PART_FILE);
    let mut found = named_in(disk, &path).await?;
    if found.is_none() {
        // A path of the fastest tier is a log directory: the folder may be a home, also of another
        // topic.
        found = named_in(disk, &folder.join(partition_metadata::FILE)).await?;
        if found == Some(topic_id) {
            return Ok(FolderClaim::OldHome);
        }
    }
    let Some(found) = found else {
        let bytes = partition_metadata::encode(topic_id);
        let written = disk.replace_file(&path, &bytes).await;
        written.map_err(Error::io("write", &path))?;
        return Ok(FolderClaim::Ours);
    };
    if found == topic_id {
        return Ok(FolderClaim::Ours);
    }
    let aside = set_aside(store, folder, partition).await?;
    tracing::warn!(folder = %folder.display(), topic_id = %found, aside = %aside.display(),
        "segments of a topic that is no more have been set aside");
    Ok(FolderClaim::Nothing)
}

/// Returns the topic that a file names; `None` when there is no such file.
async fn named_in<D: Disk>(disk: &D, path: &Path) -> Result<Option<TopicId>> {
    match disk.read_file(path).await {
        Ok(bytes) => Ok(Some(
            partition_metadata::parse(path, &bytes).map_err(malformed)?,
        )),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", path)(error)),
    }
}

/// Returns true for a folder on another path that is another topic's, or may be.
///
/// The owner of a folder is unknown when the file that names it cannot be read.
pub(in crate::log) async fn is_of_other<D: Disk>(
    disk: &D,
    folder: &Path,
    topic_id: TopicId,
) -> bool {
    for name in [partition_metadata::PART_FILE, partition_metadata::FILE] {
        match named_in(disk, &folder.join(name)).await {
            Ok(Some(named)) => return named != topic_id,
            Ok(None) => {}
            Err(error) => {
                tracing::error!(folder = %folder.display(), %error,
                    "nobody knows whose segments these are: they are left alone though a log of the name is deleted");
                return true;
            }
        }
    }
    false
}

/// Renames a folder that is in the way, as Kafka names stray folders; nothing of it is lost.
async fn set_aside<P: Platform>(
    store: &Store<P>,
    folder: &Path,
    partition: &TopicPartition,
) -> Result<PathBuf> {
    let platform = &store.shared.platform;
    let unique = Uuid::from_u64_pair(platform.random_u64(), platform.random_u64());
    let dir = folder.parent().expect("a log's folder lies in a directory");
    let aside = dir.join(naming::stray_folder_name(partition, unique));
    let renamed = store.disk().rename(folder, &aside).await;
    renamed.map_err(Error::io("rename", folder))?;
    let synced = store.disk().sync_dir(dir).await;
    synced.map_err(Error::dir_sync(dir))?;
    Ok(aside)
}
