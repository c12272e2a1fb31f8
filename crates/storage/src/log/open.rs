//! Opens a log: gathers what is in its folders (`open/gather.rs`), checks their owner, recovers,
//! and assembles the parts.
//!
//! Invariant: a folder that names another topic is not opened.
//! It does not: find out where the log ends (`recover.rs`).

use std::cell::{Cell, RefCell};
use std::io::ErrorKind;
use std::path::Path;
use std::rc::Rc;

use platform::Platform;
use platform::disk::{Disk, Medium, SMALL_FILE_BYTES_MAX, is_unreadable};
use platform::sync::{Notify, Semaphore};
use wire::types::{Offset, TopicId, TopicPartition};

use super::condition::Condition;
use super::epoch_cache::EpochCache;
use super::files::{remove, set_aside};
use super::flush::journaled::{self, LogJournal};
use super::offsets::LogOffsets;
use super::producer_state::stray_snapshots;
use super::segments::SegmentList;
use super::upkeep::Upkeep;
use super::{Log, recover};
use crate::checkpoint::{MalformedFileError, leader_epochs, partition_metadata};
use crate::error::{Error, Result};
use crate::log::views::{
    Flushing, Journaling, LogFolders, LogTiers, Opening, Rebuilding, Upkeeping,
};
use crate::num::gauge;
use crate::options::{LogOptions, OpenAs};
use crate::segment::looked::LookedFiles;
use crate::segment::naming::{self, Role, file_path};
use crate::store::Store;

pub(super) mod folder;
mod gather;
pub(super) mod look;
pub(super) mod notes;
mod part;

use folder::Folder;

/// Opens the log of a partition under `dir`.
///
/// `is_new` says that the topic was created since this broker started.
pub(crate) async fn open<P: Platform>(
    store: &Store<P>,
    dir: &Path,
    (partition, topic_id): (TopicPartition, TopicId),
    options: LogOptions,
    how: OpenAs,
    is_new: bool,
) -> Result<Rc<Log<P>>> {
    let disk = store.disk();
    let path: Rc<Path> = dir.join(naming::folder_name(&partition)).into();
    let journal = journaled::before_opening(store, dir, (&partition, topic_id)).await?;
    let looked = look::look_or_make(store, dir, &path, is_new).await?;
    check_owner(disk, &looked.0, &path, topic_id).await?;
    let asides_before = store.shared.metrics.set_aside.get();
    let mut folder = gather::gather(store, path, looked, (&partition, topic_id), is_new).await?;
    let (recovered, limits) = recovered(store, &folder, &options, how, topic_id).await?;
    let bases: Vec<_> = recovered
        .segments
        .iter()
        .map(|segment| segment.base)
        .collect();
    drop_useless_snapshots(disk, &mut folder, recovered.end, &bases).await?;
    let last_saved = last_saved(&folder, &bases);
    let aside_bytes = count_asides(store, &mut folder, asides_before).await;
    let journal = LogJournal::begin(journal, recovered.segments.back());
    let is_as_left = recovered.is_as_left && folder.snapshots.contains(&recovered.end);
    let log = Rc::new_cyclic(|me| Log {
        me: me.clone(),
        store: store.clone(),
        partition,
        topic_id,
        health: store.health(dir),
        dir: dir.to_path_buf(),
        folder: Rc::clone(&folder.path),
        options: RefCell::new(Rc::new(options)),
        segments: SegmentList::new(recovered.segments),
        offsets: LogOffsets::new(recovered.log_start, recovered.end, recovered.recovery_point),
        epochs: RefCell::new(recovered.epochs),
        epochs_dirty: Cell::new(recovered.epochs_changed),
        epoch_begun: Cell::new(false),
        as_left: Cell::new(None),
        producers: RefCell::new(recovered.producers),
        condition: RefCell::new(Condition::Open),
        observers: RefCell::default(),
        progress: Notify::new(),
        writing: Semaphore::new(1),
        truncating: Cell::new(false),
        correcting: Semaphore::new(1),
        aside_bytes: Cell::new(aside_bytes),
        flush: crate::log::flush::FlushState::default(),
        upkeep: Upkeep::new(store.shared.platform.random_u64(), last_saved),
        limits,
        readers: super::read::Readers::default(),
        compaction: super::compact::CompactionState::new(how.compacted),
        tiers: super::tiers::LogTierState::of(&folder),
        journal,
    });
    if recovered.are_names_unsure {
        LogFolders(&log).note_changed(&log.folder);
    }
    Opening(&log).begin().await?;
    Journaling(&log).opened();
    Rebuilding(&log).keep_noted(&folder.noted).await;
    log.as_left.set(is_as_left.then_some(recovered.end));
    Upkeeping(&log).upkeep_after_open(recovered.scanned_bytes);
    log.check_invariants();
    Ok(log)
}

/// Returns the end of the newest snapshot of producers that is not one of a segment's base.
fn last_saved(folder: &Folder, bases: &[Offset]) -> Option<Offset> {
    let snapshots = folder.snapshots.iter().copied();
    snapshots.filter(|at| !bases.contains(at)).max()
}

/// Counts the bytes that were set aside beside the log, now or before.
async fn count_asides<P: Platform>(store: &Store<P>, folder: &mut Folder, before: u64) -> i64 {
    let metrics = &store.shared.metrics;
    if !folder.has_asides && metrics.set_aside.get() == before {
        return 0;
    }
    let bytes = folder.count_asides(store.disk()).await;
    metrics.set_aside_bytes.inc_by(bytes);
    bytes
}

/// Recovers the log from its files, within the limits that are known of it.
async fn recovered<P: Platform>(
    store: &Store<P>,
    folder: &Folder,
    options: &LogOptions,
    how: OpenAs,
    topic_id: TopicId,
) -> Result<(recover::RecoveredLog<P>, super::limits::LimitState)> {
    let epochs = read_epochs(store, folder).await?;
    let limited = super::limits::FoundLimits::read(store, folder).await?;
    let known = limited.limit(how);
    let recovered = recover::recover(store, folder, options, known, epochs, topic_id).await?;
    let limits = limited.state(store, &folder.path, how, &recovered).await?;
    Ok((recovered, limits))
}

/// Removes the producer snapshots that describe no point of this log, or that no start will use.
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

/// Checks that the folder belongs to the topic; a folder without an owner does from now on.
async fn check_owner<D: Disk>(
    disk: &D,
    look: &LookedFiles,
    folder: &Path,
    expected: TopicId,
) -> Result<()> {
    let path = folder.join(partition_metadata::FILE);
    match look.read(disk, &path, SMALL_FILE_BYTES_MAX).await {
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

/// Reads the leader epochs from their file; a damaged file is set aside.
///
/// The batches have the epochs, too.
async fn read_epochs<P: Platform>(store: &Store<P>, folder: &Folder) -> Result<EpochCache> {
    let path = folder.path.join(leader_epochs::FILE);
    let look = &folder.look;
    let found = match look.read(store.disk(), &path, SMALL_FILE_BYTES_MAX).await {
        Ok(bytes) if bytes.is_empty() => "empty".to_owned(),
        Ok(bytes) => match leader_epochs::parse(&path, &bytes) {
            Ok(epochs) => return Ok(EpochCache::new(&epochs)),
            Err(error) => error.to_string(),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(EpochCache::default()),
        Err(error) if is_unreadable(&error) => error.to_string(),
        Err(error) => return Err(Error::io("read", &path)(error)),
    };
    tracing::warn!(file = %path.display(), found,
        "the leader epochs cannot be read and are taken from the batches");
    set_aside(store, &path).await?;
    Ok(EpochCache::default())
}

fn malformed(error: MalformedFileError) -> Error {
    Error::Corrupt {
        position: error.line as u64,
        reason: error.expected,
        path: error.file,
    }
}

impl<P: Platform> Opening<'_, P> {
    /// Names the first segment, then counts the segments: from then on the log is certain to be
    /// closed.
    async fn begin(self) -> Result<()> {
        let metrics = &self.store.shared.metrics;
        self.close_found_file();
        self.name_first_segment().await.inspect_err(|_| {
            metrics.set_aside_bytes.dec_by(self.aside_bytes.take());
        })?;
        // A close subtracts only what was counted here.
        metrics.segments.inc_by(gauge(self.segment_count()));
        Ok(())
    }

    /// Closes the file of a log that was found: its first append opens it again, and reserves room
    /// behind its end.
    fn close_found_file(self) {
        let active = self.segments.active();
        let is_mapped = self.store.disk().medium(&active.folder) != Medium::File;
        if active.is_named() && active.synced() == active.size() && !is_mapped {
            active.close_file();
        }
    }

    /// Gives a new log its first file at once: its name says where the log begins.
    ///
    /// With tiers, the file is where new segments go.
    async fn name_first_segment(self) -> Result<()> {
        let active = self.segments.active();
        if active.is_named() {
            return Ok(());
        }
        if self.store.tiers().is_some() {
            let base = active.base;
            let first = || {
                let now_ms = self.store.clock().wall_ms();
                let new = LogTiers(self.0).new_segment(base, now_ms);
                let event = self.segments.replace(&[self.segments.active()], &new);
                self.segment_changed(&event);
                new
            };
            LogFolders(self.0).named_segment(&first).await?;
        } else {
            Flushing(self.0).name_segment(&active).await?;
        }
        Flushing(self.0).sync_names().await
    }
}
