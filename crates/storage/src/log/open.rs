//! Opening a log: what is in its folder, whose it is, what has to be finished or removed first; then recovery; then the
//! pieces are put together.
//!
//! Files that nobody here has made are named in a warning and left alone.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::rc::Rc;

use platform::Platform;
use platform::disk::{Disk, Open};
use platform::sync::{Notify, Semaphore};
use wire::types::{LeaderEpoch, Offset, TopicId, TopicPartition};

use super::epoch_cache::EpochCache;
use super::producer_state::stray_snapshots;
use super::upkeep::Upkeep;
use super::{Condition, Log, recover};
use crate::checkpoint::{Malformed, leader_epochs, partition_metadata};
use crate::error::{Error, Result};
use crate::options::{LogOptions, OpenAs};
use crate::segment::naming::{self, Name, Role, file_path};
use crate::segment::scan::{Expected, Scan};
use crate::store::Store;

/// What is in a partition's folder, after what was unfinished has been finished or removed.
pub(super) struct Folder {
    pub(super) path: Rc<Path>,
    /// Length of each data file by base offset.
    pub(super) logs: BTreeMap<Offset, u64>,
    /// Producer snapshots.
    pub(super) snapshots: Vec<Offset>,
}

/// Opens the log of `partition` under `dir`.
pub(crate) async fn open<P: Platform>(
    store: &Store<P>,
    dir: &Path,
    partition: TopicPartition,
    topic_id: TopicId,
    options: LogOptions,
    how: OpenAs,
) -> Result<Rc<Log<P>>> {
    let disk = store.disk();
    let path: Rc<Path> = dir.join(naming::folder_name(&partition)).into();
    disk.create_dir(&path)
        .await
        .map_err(Error::io("create", &path))?;
    check_owner(disk, &path, topic_id).await?;
    let mut folder = tidy(disk, path).await?;
    let epochs = read_epochs(disk, &folder.path).await?;
    let recovered = recover::recover(store, &folder, &options, how, epochs).await?;
    let bases: Vec<_> = recovered
        .segments
        .iter()
        .map(|segment| segment.base)
        .collect();
    drop_useless_snapshots(disk, &mut folder, recovered.end, &bases).await?;
    let last_saved = folder
        .snapshots
        .iter()
        .copied()
        .filter(|at| !bases.contains(at))
        .max();
    store
        .shared
        .metrics
        .segments
        .inc_by(i64::try_from(bases.len()).unwrap_or(i64::MAX));
    let log = Rc::new_cyclic(|me| Log {
        me: me.clone(),
        store: store.clone(),
        partition,
        topic_id,
        health: store.health(dir),
        dir: dir.to_path_buf(),
        folder: folder.path,
        options: RefCell::new(Rc::new(options)),
        segments: RefCell::new(recovered.segments),
        start: Cell::new(recovered.log_start),
        end: Cell::new(recovered.end),
        written: Cell::new(recovered.end),
        durable: Cell::new(recovered.end),
        high_watermark: Cell::new(recovered.log_start),
        recovery_point: Cell::new(recovered.recovery_point),
        epochs: RefCell::new(recovered.epochs),
        epochs_dirty: Cell::new(recovered.epochs_changed),
        producers: RefCell::new(recovered.producers),
        condition: RefCell::new(Condition::Open),
        observers: RefCell::default(),
        progress: Notify::new(),
        writing: Semaphore::new(1),
        flush: crate::flush::FlushState::default(),
        upkeep: Upkeep::new(store.shared.platform.random_u64(), last_saved),
        readers: super::read::Readers::default(),
        compaction: super::compact::State::new(how.compacted),
    });
    log.name_first_segment().await?;
    log.upkeep_after_open(recovered.scanned_bytes);
    Ok(log)
}

/// Removes the producer snapshots that describe no point of this log, or one that nothing will start from.
async fn drop_useless_snapshots<D: Disk>(
    disk: &D,
    folder: &mut Folder,
    end: Offset,
    bases: &[Offset],
) -> Result<()> {
    let past_end = folder.snapshots.iter().filter(|at| **at > end).copied();
    let mut useless: Vec<_> = past_end.collect();
    folder.snapshots.retain(|at| *at <= end);
    useless.extend(stray_snapshots(&folder.snapshots, bases));
    folder.snapshots.retain(|at| !useless.contains(at));
    for offset in useless {
        remove(disk, &file_path(&folder.path, offset, Role::Snapshot)).await?;
    }
    Ok(())
}

/// Sees to it that the folder belongs to the topic; a new one does from now on.
async fn check_owner<D: Disk>(disk: &D, folder: &Path, expected: TopicId) -> Result<()> {
    let path = folder.join(partition_metadata::FILE);
    match disk.read_file(&path).await {
        Ok(bytes) => {
            let found = partition_metadata::parse(&path, &bytes).map_err(malformed)?;
            if found == expected {
                return Ok(());
            }
            Err(Error::OtherTopic {
                path: folder.to_path_buf(),
                found,
                expected,
            })
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let bytes = partition_metadata::encode(expected);
            disk.replace_file(&path, &bytes)
                .await
                .map_err(Error::io("write", &path))
        }
        Err(error) => Err(Error::io("read", &path)(error)),
    }
}

async fn read_epochs<D: Disk>(disk: &D, folder: &Path) -> Result<EpochCache> {
    let path = folder.join(leader_epochs::FILE);
    match disk.read_file(&path).await {
        Ok(bytes) => {
            let epochs = leader_epochs::parse(&path, &bytes).map_err(malformed)?;
            Ok(EpochCache::new(&epochs))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(EpochCache::default()),
        Err(error) => Err(Error::io("read", &path)(error)),
    }
}

fn malformed(error: Malformed) -> Error {
    Error::Corrupt {
        position: error.line as u64,
        reason: error.expected,
        path: error.file,
    }
}

/// Lists the folder, completes swaps, and removes what is on its way out, unfinished, or an index without data.
async fn tidy<D: Disk>(disk: &D, path: Rc<Path>) -> Result<Folder> {
    let entries = disk.list(&path).await.map_err(Error::io("list", &path))?;
    let mut names = Vec::new();
    let mut cleaned_from: Option<Offset> = None;
    for entry in entries {
        let name = if entry.is_dir {
            Name::Foreign
        } else {
            naming::classify(&entry.name)
        };
        match name {
            Name::Foreign => {
                let file = path.join(&entry.name);
                tracing::warn!(file = %file.display(), "not a file of this log, left alone");
            }
            Name::Leftover => {
                let cleaned = naming::cleaned_base(&entry.name);
                cleaned_from = cleaned_from.into_iter().chain(cleaned).min();
                remove(disk, &path.join(&entry.name)).await?;
            }
            name => names.push((name, entry)),
        }
    }
    let mut folder = Folder {
        path,
        logs: BTreeMap::new(),
        snapshots: Vec::new(),
    };
    let mut swaps = Vec::new();
    let mut indexes = Vec::new();
    for (name, entry) in names {
        match name {
            Name::Segment(base, Role::Log) => drop(folder.logs.insert(base, entry.len)),
            Name::Segment(base, Role::Snapshot) => folder.snapshots.push(base),
            Name::Segment(base, role) => indexes.push((base, role)),
            // What compaction was still making is worthless, and so is what it had made of the same segments.
            Name::Swap(base, _) if cleaned_from.is_some_and(|from| base >= from) => {
                remove(disk, &folder.path.join(&entry.name)).await?;
            }
            Name::Swap(base, role) => swaps.push((base, role, entry.len)),
            Name::Checkpoint | Name::Leftover | Name::Foreign => {}
        }
    }
    complete_swaps(disk, &mut folder, &swaps, &mut indexes).await?;
    for (base, role) in indexes {
        if !folder.logs.contains_key(&base) {
            let file = file_path(&folder.path, base, role);
            tracing::warn!(file = %file.display(), "an index without its segment is removed");
            remove(disk, &file).await?;
        }
    }
    Ok(folder)
}

/// Puts compacted segments in the place of those they were made of.
async fn complete_swaps<D: Disk>(
    disk: &D,
    folder: &mut Folder,
    swaps: &[(Offset, Role, u64)],
    indexes: &mut Vec<(Offset, Role)>,
) -> Result<()> {
    for &(base, role, len) in swaps {
        if role != Role::Log {
            continue;
        }
        let path = naming::swap_path(&folder.path, base, role);
        let next = next_offset(disk, &path, base, len).await?;
        let replaced: Vec<_> = folder
            .logs
            .range(base..next)
            .map(|(base, _)| *base)
            .collect();
        for old in replaced {
            folder.logs.remove(&old);
            remove(disk, &file_path(&folder.path, old, Role::Log)).await?;
        }
        // Also where the data has gone already: an old index of aborted transactions would hide records of the new data.
        let is_old = |index: &(Offset, Role)| index.0 == base || (base..next).contains(&index.0);
        for (old, role) in indexes.extract_if(.., |index| is_old(index)) {
            remove(disk, &file_path(&folder.path, old, role)).await?;
        }
    }
    if !swaps.is_empty() {
        // The new segment must not have its name while an old one of the same offsets may come back.
        disk.sync_dir(&folder.path)
            .await
            .map_err(Error::io("sync", &folder.path))?;
    }
    let (data, others): (Vec<_>, Vec<_>) =
        swaps.iter().partition(|(_, role, _)| *role == Role::Log);
    for &(base, role, len) in others.into_iter().chain(data) {
        let (from, to) = (
            naming::swap_path(&folder.path, base, role),
            file_path(&folder.path, base, role),
        );
        disk.rename(&from, &to)
            .await
            .map_err(Error::io("rename", &from))?;
        match role {
            Role::Log => drop(folder.logs.insert(base, len)),
            Role::Snapshot => folder.snapshots.push(base),
            role => indexes.push((base, role)),
        }
    }
    if !swaps.is_empty() {
        disk.sync_dir(&folder.path)
            .await
            .map_err(Error::io("sync", &folder.path))?;
    }
    Ok(())
}

/// The offset after the last batch of a data file, by its headers.
async fn next_offset<D: Disk>(disk: &D, path: &Path, base: Offset, len: u64) -> Result<Offset> {
    let file = disk
        .open(path, Open::Read)
        .await
        .map_err(Error::io("open", path))?;
    let mut scan = Scan::new(&file, 0, len, 64 << 10);
    let mut expected = Expected {
        offset: base,
        gaps: true,
        epoch: LeaderEpoch(i32::MIN),
    };
    while let Some(header) = scan.header().await.map_err(Error::io("read", path))? {
        if expected.refuses(&header).is_some() {
            break;
        }
        expected = expected.after(&header);
        scan.skip(&header);
    }
    Ok(expected.offset)
}

/// Removes a file that may be gone already.
pub(super) async fn remove<D: Disk>(disk: &D, path: &Path) -> Result<()> {
    match disk.remove_file(path).await {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => result.map_err(Error::io("remove", path)),
    }
}

impl<P: Platform> Log<P> {
    /// A new log gets its first file at once, so that its name says where it begins.
    async fn name_first_segment(&self) -> Result<()> {
        let active = self.active();
        if active.named.get() {
            return Ok(());
        }
        self.name_segment(&active).await?;
        self.sync_names().await
    }
}
