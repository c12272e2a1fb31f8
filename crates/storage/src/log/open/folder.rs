//! What a log's folders hold: at home and, with tiers, in the folder of the same name on other paths.
//!
//! `open/gather.rs` finds it out. Here are the result, and whose a folder on another path is.
//! Files that nobody here has made are named in a warning and left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use platform::Platform;
use platform::disk::{Disk, Entry};
use wire::types::{Offset, TopicId, TopicPartition, Uuid};

use super::malformed;
use super::notes::{Owed, Place};
use crate::checkpoint::partition_metadata;
use crate::error::{Error, Result};
use crate::segment::naming::{self, Name};
use crate::store::Store;

/// A seal writes the indexes so soon after it has cut the data file; a move writes them anew.
const SEAL_MS_MAX: i64 = 2_000;

/// What there is of a log.
pub(in crate::log) struct Folder {
    /// Its home.
    pub(in crate::log) path: Rc<Path>,
    /// Each data file by base offset.
    pub(in crate::log) logs: BTreeMap<Offset, DataFile>,
    /// Producer snapshots; they are at home.
    pub(in crate::log) snapshots: Vec<Offset>,
    /// Segments that are on a path which is not there, and where.
    pub(in crate::log) absent: BTreeMap<Offset, Place>,
    /// Folders with copies of them that do not count.
    pub(in crate::log) shadows: BTreeMap<Offset, Vec<Rc<Path>>>,
    /// What directories that are not there, or could not, owe.
    pub(in crate::log) owed: BTreeMap<Offset, Owed>,
    /// Those of which that could not be written.
    pub(in crate::log) unwritten: BTreeSet<Offset>,
    /// There is a note of segments with an index of aborted transactions: which it names.
    pub(in crate::log) is_noted: bool,
    pub(in crate::log) noted: BTreeSet<Offset>,
    /// Those, and those that such an index was found of.
    pub(in crate::log) aborted: BTreeSet<Offset>,
    /// All folders that were read, with or without segments.
    pub(in crate::log) read: Vec<Rc<Path>>,
    /// Something was set aside in one of them, before this start.
    pub(in crate::log) has_asides: bool,
    /// What was set aside of segments elsewhere, by their base offsets.
    pub(in crate::log) asides: Vec<(Offset, PathBuf)>,
}

impl Folder {
    /// Where its segments begin, of those that are not there, too.
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

    /// Home, and the others that have segments.
    pub(in crate::log) fn folders(&self) -> Vec<Rc<Path>> {
        let mut folders = vec![Rc::clone(&self.path)];
        for data in self.logs.values() {
            if !folders.contains(&data.folder) {
                folders.push(Rc::clone(&data.folder));
            }
        }
        folders
    }

    /// Bytes of what was set aside in the folders, of which those elsewhere are noted. What cannot be listed now counts for
    /// nothing.
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
    /// When it was last written to; a copy of it keeps that time.
    pub(in crate::log) modified_ms: Option<i64>,
    /// When its offset index was written: with its last batches, or when it came here.
    pub(in crate::log) indexed_ms: Option<i64>,
}

impl DataFile {
    /// When it was sealed and when it came to its folder, as far as the times of its files tell.
    pub(in crate::log) fn ages(&self, now_ms: i64) -> (i64, i64) {
        let sealed_ms = self.modified_ms.map_or(now_ms, |ms| ms.min(now_ms));
        let indexed_ms = self.indexed_ms.map_or(sealed_ms, |ms| ms.min(now_ms));
        let was_moved = indexed_ms - sealed_ms > SEAL_MS_MAX;
        let arrived_ms = if was_moved { indexed_ms } else { sealed_ms };
        (sealed_ms, arrived_ms)
    }
}

/// What there is in the place of a log's folder on another path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::log) enum Claimed {
    /// Its folder: it names the topic.
    Ours,
    /// Nothing any more: it was another topic's of the same name, and is out of the way now.
    Nothing,
    /// The log was at home there, and has moved: what is in it does not count, and all of it goes.
    OldHome,
}

/// Sees to it that a folder on another path names the topic, from now on if it names none, and is no log's home.
pub(in crate::log) async fn claim<P: Platform>(
    store: &Store<P>,
    folder: &Path,
    partition: &TopicPartition,
    topic_id: TopicId,
) -> Result<Claimed> {
    let disk = store.disk();
    let path = folder.join(partition_metadata::PART_FILE);
    let mut found = named_in(disk, &path).await?;
    if found.is_none() {
        // A path of the fastest tier is a log directory: what is there may be a home, and of another topic.
        found = named_in(disk, &folder.join(partition_metadata::FILE)).await?;
        if found == Some(topic_id) {
            return Ok(Claimed::OldHome);
        }
    }
    let Some(found) = found else {
        let bytes = partition_metadata::encode(topic_id);
        let written = disk.replace_file(&path, &bytes).await;
        written.map_err(Error::io("write", &path))?;
        return Ok(Claimed::Ours);
    };
    if found == topic_id {
        return Ok(Claimed::Ours);
    }
    let aside = set_aside(store, folder, partition).await?;
    tracing::warn!(folder = %folder.display(), topic_id = %found, aside = %aside.display(),
        "segments of a topic that is no more have been set aside");
    Ok(Claimed::Nothing)
}

/// The topic that a file names; `None`: there is no such file.
async fn named_in<D: Disk>(disk: &D, path: &Path) -> Result<Option<TopicId>> {
    match disk.read_file(path).await {
        Ok(bytes) => Ok(Some(
            partition_metadata::parse(path, &bytes).map_err(malformed)?,
        )),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", path)(error)),
    }
}

/// True for a folder on another path that is not the topic's, or may not be: nobody knows whose one is that cannot say so.
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

/// Renames a folder that is in the way, as Kafka names strays. Nothing of it is lost.
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
