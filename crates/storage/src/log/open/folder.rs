//! What a log's folders hold: at home and, with tiers, in the folder of the same name on other paths; with what was
//! unfinished finished or removed.
//!
//! Invariants: a copy that was on its way (`.moving`) is removed, its source is still there; of two complete copies the
//! one on the faster tier stays, once it has been read and found whole; while a path is absent nothing is concluded from
//! what is not found, and the notes at home (`.away`) say which segments are meant.
//! Files that nobody here has made are named in a warning and left alone.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use platform::Platform;
use platform::disk::{Disk, Open, is_not_now};
use wire::types::{LeaderEpoch, Offset, TopicId, TopicPartition, Uuid};

use super::{malformed, remove};
use crate::checkpoint::partition_metadata;
use crate::error::{Error, Result};
use crate::segment::naming::{self, Name, Role, away_path, file_path};
use crate::segment::scan::{Expected, Scan};
use crate::store::Store;

/// Bytes of one read while a copy is read through.
const VERIFY_BYTES: usize = 1 << 20;
/// Bytes of one read while only headers are looked at.
const WALK_BYTES: usize = 64 << 10;
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
    pub(in crate::log) absent: BTreeMap<Offset, PathBuf>,
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

/// One of the folders.
struct Part {
    folder: Rc<Path>,
    logs: BTreeMap<Offset, u64>,
    snapshots: Vec<Offset>,
    indexes: Vec<(Offset, Role)>,
    swaps: Vec<(Offset, Role, u64)>,
    /// When each file was last written to.
    times: BTreeMap<(Offset, Role), i64>,
    away: Vec<Offset>,
    /// The first offset that a compaction had not finished.
    cleaned_from: Option<Offset>,
}

/// Gathers what there is of the log whose home is `home`.
pub(super) async fn gather<P: Platform>(
    store: &Store<P>,
    home: Rc<Path>,
    partition: &TopicPartition,
    topic_id: TopicId,
) -> Result<Folder> {
    let disk = store.disk();
    let entries = disk.list(&home).await.map_err(Error::io("list", &home))?;
    let mut parts = vec![Part::tidy(disk, Rc::clone(&home), entries).await?];
    let mut absent_dirs = Vec::new();
    for path in store.paths_away_from(&home) {
        let folder: Rc<Path> = path.dir().join(home.file_name().unwrap_or_default()).into();
        if path.failed().is_some() {
            absent_dirs.push(path.dir().to_path_buf());
            continue;
        }
        match disk.list(&folder).await {
            Ok(entries) => {
                if claim(store, &folder, partition, topic_id).await? {
                    parts.push(Part::tidy(disk, folder, entries).await?);
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let away = parts.first().map(|part| part.away.clone());
                if is_noted(disk, &home, &away.unwrap_or_default(), path.dir()).await? {
                    if path.fail("segments should be there, and not even their folder is") {
                        tracing::error!(dir = %path.dir().display(), missing = %folder.display(),
                            "a tier's path has lost its folders: is its file system mounted?");
                    }
                    absent_dirs.push(path.dir().to_path_buf());
                }
            }
            Err(error) if is_not_now(&error) => return Err(Error::io("list", &folder)(error)),
            Err(error) => {
                if path.fail(&error.to_string()) {
                    tracing::error!(dir = %path.dir().display(), %error,
                        "a tier's path cannot be read: what is on it is offline");
                }
                absent_dirs.push(path.dir().to_path_buf());
            }
        }
    }
    drop_overtaken_swaps(disk, &mut parts).await?;
    complete_swaps(disk, &mut parts).await?;
    keep_one_copy(disk, &mut parts).await?;
    for part in &parts {
        part.remove_orphans(disk).await?;
    }
    let absent = settle_notes(disk, &home, &parts, &absent_dirs).await?;
    Ok(merged(home, parts, absent))
}

fn merged(home: Rc<Path>, parts: Vec<Part>, absent: BTreeMap<Offset, PathBuf>) -> Folder {
    let mut whole = Folder {
        path: home,
        logs: BTreeMap::new(),
        snapshots: Vec::new(),
        absent,
    };
    for part in parts {
        for (base, len) in part.logs {
            let time = |role| part.times.get(&(base, role)).copied();
            let file = DataFile {
                folder: Rc::clone(&part.folder),
                len,
                modified_ms: time(Role::Log),
                indexed_ms: time(Role::OffsetIndex),
            };
            // The faster tier comes first and stays.
            whole.logs.entry(base).or_insert(file);
        }
        whole.snapshots.extend(part.snapshots);
    }
    whole
}

/// Sees to it that a folder on another path names the topic, from now on if it names none; false if it was another
/// topic's of the same name, and is out of the way now.
pub(in crate::log) async fn claim<P: Platform>(
    store: &Store<P>,
    folder: &Path,
    partition: &TopicPartition,
    topic_id: TopicId,
) -> Result<bool> {
    let disk = store.disk();
    let path = folder.join(partition_metadata::PART_FILE);
    match disk.read_file(&path).await {
        Ok(bytes) => {
            let found = partition_metadata::parse(&path, &bytes).map_err(malformed)?;
            if found == topic_id {
                return Ok(true);
            }
            let aside = set_aside(store, folder, partition).await?;
            tracing::warn!(folder = %folder.display(), topic_id = %found, aside = %aside.display(),
                "segments of a topic that is no more have been set aside");
            Ok(false)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let bytes = partition_metadata::encode(topic_id);
            let written = disk.replace_file(&path, &bytes).await;
            written.map_err(Error::io("write", &path))?;
            Ok(true)
        }
        Err(error) => Err(Error::io("read", &path)(error)),
    }
}

/// Renames a folder that is in the way, as Kafka names strays. Nothing of it is lost.
async fn set_aside<P: Platform>(
    store: &Store<P>,
    folder: &Path,
    partition: &TopicPartition,
) -> Result<PathBuf> {
    let platform = &store.shared.platform;
    let unique = Uuid::from_u64_pair(platform.random_u64(), platform.random_u64());
    let dir = folder.parent().unwrap_or(folder);
    let aside = dir.join(naming::stray_folder_name(partition, unique));
    let renamed = store.disk().rename(folder, &aside).await;
    renamed.map_err(Error::io("rename", folder))?;
    let synced = store.disk().sync_dir(dir).await;
    synced.map_err(Error::dir_sync(dir))?;
    Ok(aside)
}

impl Part {
    /// Sorts the names in a folder, and removes what is on its way out or unfinished.
    async fn tidy<D: Disk>(
        disk: &D,
        folder: Rc<Path>,
        entries: Vec<platform::disk::Entry>,
    ) -> Result<Self> {
        let mut part = Self {
            folder,
            logs: BTreeMap::new(),
            snapshots: Vec::new(),
            indexes: Vec::new(),
            swaps: Vec::new(),
            times: BTreeMap::new(),
            away: Vec::new(),
            cleaned_from: None,
        };
        for entry in entries {
            let name = if entry.is_dir {
                Name::Foreign
            } else {
                naming::classify(&entry.name)
            };
            if let Name::Segment(base, role) = name {
                part.times.insert((base, role), entry.modified_ms);
            }
            match name {
                Name::Foreign => {
                    let file = part.folder.join(&entry.name);
                    tracing::warn!(file = %file.display(), "not a file of this log, left alone");
                }
                Name::Leftover => {
                    let cleaned = naming::cleaned_base(&entry.name);
                    part.cleaned_from = part.cleaned_from.into_iter().chain(cleaned).min();
                    remove(disk, &part.folder.join(&entry.name)).await?;
                }
                Name::Segment(base, Role::Log) => drop(part.logs.insert(base, entry.len)),
                Name::Segment(base, Role::Snapshot) => part.snapshots.push(base),
                Name::Segment(base, role) => part.indexes.push((base, role)),
                Name::Swap(base, role) => part.swaps.push((base, role, entry.len)),
                Name::Away(base) => part.away.push(base),
                Name::Checkpoint | Name::SetAside => {}
            }
        }
        Ok(part)
    }

    /// Removes indexes without data.
    async fn remove_orphans<D: Disk>(&self, disk: &D) -> Result<()> {
        for &(base, role) in &self.indexes {
            if !self.logs.contains_key(&base) {
                let file = file_path(&self.folder, base, role);
                tracing::warn!(file = %file.display(), "an index without its segment is removed");
                remove(disk, &file).await?;
            }
        }
        Ok(())
    }

    /// Removes the segments in `range`, data first, and their indexes also where the data has gone already: an old index
    /// of aborted transactions would hide records of the new data. True when there was something.
    async fn remove_replaced<D: Disk>(
        &mut self,
        disk: &D,
        base: Offset,
        next: Offset,
    ) -> Result<bool> {
        let replaced: Vec<_> = self
            .logs
            .range(base..next.max(base))
            .map(|(base, _)| *base)
            .collect();
        let mut removed = !replaced.is_empty();
        for old in replaced {
            self.logs.remove(&old);
            remove(disk, &file_path(&self.folder, old, Role::Log)).await?;
        }
        let is_old = |index: &(Offset, Role)| index.0 == base || (base..next).contains(&index.0);
        for (old, role) in self.indexes.extract_if(.., |index| is_old(index)) {
            removed = true;
            remove(disk, &file_path(&self.folder, old, role)).await?;
        }
        Ok(removed)
    }

    async fn sync<D: Disk>(&self, disk: &D) -> Result<()> {
        let synced = disk.sync_dir(&self.folder).await;
        synced.map_err(Error::dir_sync(&self.folder))
    }
}

/// What compaction was still making is worthless, and so is what it had made of the same segments.
async fn drop_overtaken_swaps<D: Disk>(disk: &D, parts: &mut [Part]) -> Result<()> {
    let Some(from) = parts.iter().filter_map(|part| part.cleaned_from).min() else {
        return Ok(());
    };
    for part in parts {
        for (base, role, _) in part.swaps.extract_if(.., |swap| swap.0 >= from) {
            remove(disk, &naming::swap_path(&part.folder, base, role)).await?;
        }
    }
    Ok(())
}

/// Puts compacted segments in the place of those they were made of, wherever these are.
async fn complete_swaps<D: Disk>(disk: &D, parts: &mut [Part]) -> Result<()> {
    for at in 0..parts.len() {
        let swaps = std::mem::take(&mut parts[at].swaps);
        if swaps.is_empty() {
            continue;
        }
        for &(base, role, len) in &swaps {
            if role != Role::Log {
                continue;
            }
            let path = naming::swap_path(&parts[at].folder, base, role);
            let next = next_offset(disk, &path, base, len).await?;
            for (index, part) in parts.iter_mut().enumerate() {
                if part.remove_replaced(disk, base, next).await? && index != at {
                    part.sync(disk).await?;
                }
            }
        }
        // The new segment must not have its name while an old one of the same offsets may come back.
        parts[at].sync(disk).await?;
        let part = &mut parts[at];
        let (data, others): (Vec<_>, Vec<_>) =
            swaps.iter().partition(|(_, role, _)| *role == Role::Log);
        for &(base, role, len) in others.into_iter().chain(data) {
            let (from, to) = (
                naming::swap_path(&part.folder, base, role),
                file_path(&part.folder, base, role),
            );
            disk.rename(&from, &to)
                .await
                .map_err(Error::io("rename", &from))?;
            match role {
                Role::Log => drop(part.logs.insert(base, len)),
                Role::Snapshot => part.snapshots.push(base),
                role => part.indexes.push((base, role)),
            }
        }
        part.sync(disk).await?;
    }
    Ok(())
}

/// Where a segment has two complete copies, keeps the one on the faster tier, if all of it is good.
async fn keep_one_copy<D: Disk>(disk: &D, parts: &mut [Part]) -> Result<()> {
    for slow in 1..parts.len() {
        let bases: Vec<_> = parts[slow].logs.keys().copied().collect();
        for base in bases {
            let others = parts.get(..slow).unwrap_or_default();
            let Some(fast) = others.iter().position(|part| part.logs.contains_key(&base)) else {
                continue;
            };
            let faster_end = sound_end(disk, &parts[fast], base).await?;
            let slower_end = sound_end(disk, &parts[slow], base).await?;
            let keeps_faster = match (faster_end, slower_end) {
                (Some(faster), Some(slower)) => faster >= slower,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => {
                    tracing::error!(base = base.0, folder = %parts[slow].folder.display(),
                        "a segment has two copies and both are damaged: both are left alone");
                    continue;
                }
            };
            let (kept, dropped) = if keeps_faster {
                (fast, slow)
            } else {
                (slow, fast)
            };
            let kept = parts[kept].folder.display().to_string();
            let part = &mut parts[dropped];
            tracing::warn!(base = base.0, kept, removed = %part.folder.display(),
                "a segment had two copies: its move was not finished");
            part.remove_replaced(disk, base, base.plus(1)).await?;
            part.sync(disk).await?;
        }
    }
    Ok(())
}

/// The offset after the last batch of a data file all of which is good; `None` if it is not.
async fn sound_end<D: Disk>(disk: &D, part: &Part, base: Offset) -> Result<Option<Offset>> {
    let len = part.logs.get(&base).copied().unwrap_or(0);
    let path = file_path(&part.folder, base, Role::Log);
    let file = disk.open(&path, Open::Read).await;
    let file = file.map_err(Error::io("open", &path))?;
    let mut scan = Scan::new(&file, 0, len, VERIFY_BYTES);
    let mut expected = after_base(base);
    while scan.position() < len {
        let Some(header) = scan.header().await.map_err(Error::io("read", &path))? else {
            return Ok(None);
        };
        let crc_is_right = scan.crc_is_right(&header).await;
        if expected.refuses(&header).is_some() || !crc_is_right.map_err(Error::io("read", &path))? {
            return Ok(None);
        }
        expected = expected.after(&header);
        scan.skip(&header);
    }
    Ok(Some(expected.offset))
}

fn after_base(base: Offset) -> Expected {
    Expected {
        offset: base,
        gaps: true,
        epoch: LeaderEpoch(i32::MIN),
    }
}

/// The offset after the last batch of a data file, by its headers.
async fn next_offset<D: Disk>(disk: &D, path: &Path, base: Offset, len: u64) -> Result<Offset> {
    let file = disk
        .open(path, Open::Read)
        .await
        .map_err(Error::io("open", path))?;
    let mut scan = Scan::new(&file, 0, len, WALK_BYTES);
    let mut expected = after_base(base);
    while let Some(header) = scan.header().await.map_err(Error::io("read", path))? {
        if expected.refuses(&header).is_some() {
            break;
        }
        expected = expected.after(&header);
        scan.skip(&header);
    }
    Ok(expected.offset)
}

/// Removes notes that mean nothing any more; gives those of segments on paths that are not there.
async fn settle_notes<D: Disk>(
    disk: &D,
    home: &Path,
    parts: &[Part],
    absent_dirs: &[PathBuf],
) -> Result<BTreeMap<Offset, PathBuf>> {
    let mut absent = BTreeMap::new();
    let Some((at_home, others)) = parts.split_first() else {
        return Ok(absent);
    };
    for &base in &at_home.away {
        if others.iter().any(|part| part.logs.contains_key(&base)) {
            continue;
        }
        let note = away_path(home, base);
        if !absent_dirs.is_empty() && !at_home.logs.contains_key(&base) {
            let bytes = disk
                .read_file(&note)
                .await
                .map_err(Error::io("read", &note))?;
            let dir = PathBuf::from(String::from_utf8_lossy(&bytes).trim_end());
            if absent_dirs.contains(&dir) {
                absent.insert(base, dir);
                continue;
            }
        }
        remove(disk, &note).await?;
    }
    for part in others {
        for base in part.logs.keys().filter(|base| !at_home.away.contains(base)) {
            write_note(disk, home, *base, &part.folder).await?;
        }
    }
    Ok(absent)
}

/// True when home has a note of a segment on `dir`. Folders outlive their last segment, so one that is not there means
/// that the path is not what it was.
async fn is_noted<D: Disk>(disk: &D, home: &Path, away: &[Offset], dir: &Path) -> Result<bool> {
    for &base in away {
        let note = away_path(home, base);
        let bytes = disk.read_file(&note).await;
        let bytes = bytes.map_err(Error::io("read", &note))?;
        if Path::new(String::from_utf8_lossy(&bytes).trim_end()) == dir {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Notes at home that the segment at `base` is in `folder`; durable when it returns.
pub(in crate::log) async fn write_note<D: Disk>(
    disk: &D,
    home: &Path,
    base: Offset,
    folder: &Path,
) -> Result<()> {
    let note = away_path(home, base);
    let dir = folder.parent().unwrap_or(folder);
    let bytes = format!("{}\n", dir.display()).into_bytes();
    let written = disk.replace_file(&note, &bytes).await;
    written.map_err(Error::io("write", &note))
}
