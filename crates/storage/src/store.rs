//! The state that the logs of one shard share: the platform, chunk memory, the health of the log
//! directories, metrics.
//!
//! Invariant: a store and its logs belong to one shard and never leave its thread.
//! It does not know which partitions exist, and does not write the checkpoint files that a
//! directory's shards share ([`Store::points`] returns their content).

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use platform::clock::Instant;
use platform::disk::{Disk, Entry};
use platform::sync::{Notify, Semaphore, SemaphorePermit};
use platform::task::{self, JoinHandle};
use platform::{Clock, Platform};
use wire::types::{Offset, TopicPartition};

use crate::error::{Error, Result};
use crate::log::Log;
use crate::log::flush::stirring::Stirring;
use crate::log::views::{Limiting, Upkeeping};
use crate::metrics::Metrics;
use crate::options::StoreOptions;
use crate::segment::Segment;
use crate::segment::naming;
use crate::tier::table::Charge;
use crate::tier::{TierPath, TierTable};

mod dir_syncs;
pub(crate) mod journal;
pub(crate) mod memory;
mod opening;
mod read_ahead;
mod unnoted;

use dir_syncs::DirSyncs;
pub use journal::JournalOptions;
use memory::Memory;
use read_ahead::ReadAhead;
use unnoted::UnnotedBytes;

/// How long a checkpoint waits for logs whose files are in use; it leaves the rest to the next
/// checkpoint.
const LIFT_MAX: Duration = Duration::from_secs(1);
/// How often the flusher checks logs with `Replicated` durability for `flush_ms`.
const FLUSH_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The number of deleted logs' folders in a directory that are removed at the same time.
const REMOVED_AT_ONCE: usize = 2;
/// The number of deleted logs' folders that are removed before a start continues.
const LEFTOVERS_AWAITED: usize = 100;

/// The logs of a shard; clones share them.
pub struct Store<P: Platform> {
    pub(crate) shared: Rc<StoreCore<P>>,
}

impl<P: Platform> Clone for Store<P> {
    fn clone(&self) -> Self {
        Self {
            shared: Rc::clone(&self.shared),
        }
    }
}

pub(crate) struct StoreCore<P: Platform> {
    pub(crate) platform: P,
    pub(crate) options: StoreOptions,
    pub(crate) memory: Memory<P>,
    pub(crate) metrics: Metrics,
    /// Notified after a deletion: logs that wait for room may retry.
    pub(crate) room_made: Notify,
    pub(crate) unnoted: UnnotedBytes,
    logs: RefCell<Vec<Weak<Log<P>>>>,
    dirs: RefCell<BTreeMap<PathBuf, Rc<DirHealth>>>,
    pub(crate) dir_syncs: DirSyncs,
    /// Opening a log reads its files one by one.
    step_by_step: Cell<bool>,
    /// The journals of log directories. Bounded: the log directories.
    pub(crate) journals: RefCell<BTreeMap<PathBuf, Rc<journal::DirJournal<P>>>>,
    /// Why log directories that should have a journal have none. Bounded: the log directories.
    pub(crate) without_journal: RefCell<BTreeMap<PathBuf, String>>,
    /// Sealed segments with an open file or loaded indexes, the least recently loaded first.
    loaded: RefCell<VecDeque<Weak<Segment<P>>>>,
    pub(crate) read_ahead: ReadAhead<P>,
    /// Admits one check of a large read at a time.
    pub(crate) checking: Semaphore,
    /// Logs that are being flushed.
    pub(crate) flushing: Cell<usize>,
    /// Counts what may change what the checkpoint files say of a log.
    touches: Cell<u64>,
    /// Logs that are not known to be at rest.
    pub(crate) stirring: Stirring<Log<P>>,
    /// Open files of segments at the last count.
    pub(crate) open_files: Cell<i64>,
    /// When a log last logged that it skips a folder that is not its own.
    pub(crate) told_of_taken: Cell<Option<Instant>>,
    /// The table of tiers, if tiers are configured.
    pub(crate) tiers: Option<Arc<TierTable>>,
    /// The same table, also with a single tier, if one of its paths has a pool of segment files.
    pub(crate) pools: Option<Arc<TierTable>>,
}

/// Whether a log directory accepts writes.
#[derive(Debug, Default)]
pub(crate) struct DirHealth {
    failed: RefCell<Option<Error>>,
    /// Logs of the directory that refuse appends for lack of room.
    full: Cell<usize>,
    /// Turns of those that remove the folders of deleted logs.
    pub(crate) removing: RemovalTurns,
}

/// Few folders are removed at a time: an opener of a file does not wait for a thousand of them.
#[derive(Debug)]
pub(crate) struct RemovalTurns(Semaphore);

impl Default for RemovalTurns {
    fn default() -> Self {
        Self(Semaphore::new(REMOVED_AT_ONCE))
    }
}

impl RemovalTurns {
    /// Waits for a turn, which ends when it is dropped.
    pub(crate) async fn turn(&self) -> Result<SemaphorePermit<'_>> {
        self.0.acquire().await.map_err(|_| Error::Closed)
    }
}

impl DirHealth {
    pub(crate) fn failed(&self) -> Option<Error> {
        self.failed.borrow().clone()
    }

    pub(crate) fn is_failed(&self) -> bool {
        self.failed.borrow().is_some()
    }

    /// Counts a log without room; the first one is logged.
    pub(crate) fn enter_full(&self, dir: &Path, error: &Error) {
        if self.full.replace(self.full.get() + 1) == 0 {
            tracing::warn!(dir = %dir.display(), %error, "appends are refused until that is over");
        }
    }

    /// Counts a log that has room again; the last one is logged.
    pub(crate) fn leave_full(&self, dir: &Path) {
        if self.leave() == 0 {
            tracing::warn!(dir = %dir.display(), "there is room again: all logs take appends");
        }
    }

    /// Stops counting a log that refuses appends for another reason, whether it has room or not.
    pub(crate) fn end_full(&self) {
        self.leave();
    }

    /// Returns how many logs are left without room.
    fn leave(&self) -> usize {
        assert!(self.full.get() > 0, "a log leaves what it has entered");
        self.full.set(self.full.get() - 1);
        self.full.get()
    }

    /// Latches the directory; returns true the first time.
    pub(crate) fn fail(&self, error: &Error) -> bool {
        let mut failed = self.failed.borrow_mut();
        let first = failed.is_none();
        failed.get_or_insert_with(|| error.latched());
        first
    }
}

/// Removes folders of topics that were deleted before the last stop, and returns those that are
/// left: a start that needs room does not wait for all.
pub async fn remove_some_leftovers<D: Disk>(disk: &D, dir: &Path) -> Result<Vec<PathBuf>> {
    let listed = disk.list(dir).await;
    let entries = listed.map_err(Error::io("list", dir))?;
    let is_leftover = |entry: &Entry| entry.is_dir && naming::is_deleted_folder(&entry.name);
    let leftovers = entries.into_iter().filter(is_leftover);
    let mut leftovers = leftovers.map(|entry| dir.join(entry.name));
    for path in leftovers.by_ref().take(LEFTOVERS_AWAITED) {
        remove_leftover(disk, &path).await;
    }
    Ok(leftovers.collect())
}

async fn remove_leftover<D: Disk>(disk: &D, path: &Path) {
    if let Err(error) = disk.remove_dir(path).await {
        // The next start retries. The folder is unused, so a failure must not prevent the start.
        tracing::warn!(folder = %path.display(), %error, "a deleted log's folder stays");
    }
}

/// The entries of a log in its directory's checkpoint files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogPoints {
    /// The partition of the log.
    pub topic_partition: TopicPartition,
    /// For `recovery-point-offset-checkpoint`.
    pub recovery_point: Offset,
    /// For `log-start-offset-checkpoint`.
    pub log_start: Offset,
    /// For `replication-offset-checkpoint`.
    pub high_watermark: Offset,
    /// For `cleaner-offset-checkpoint`, if the log was ever compacted.
    pub compacted: Option<Offset>,
}

impl<P: Platform> Store<P> {
    /// Creates a store without logs.
    pub fn new(platform: P, options: StoreOptions, metrics: Metrics) -> Self {
        Self::with_tiers(platform, options, metrics, None)
    }

    /// Creates a store with the tiers that its logs' segments may be on.
    ///
    /// All shards of the process share the table.
    pub fn with_tiers(
        platform: P,
        options: StoreOptions,
        metrics: Metrics,
        tiers: Option<Arc<TierTable>>,
    ) -> Self {
        let shared = StoreCore {
            memory: Memory::new(&options),
            read_ahead: ReadAhead::new(options.chunk_bytes, options.cache_bytes_max),
            unnoted: UnnotedBytes::new(&options),
            platform,
            options,
            metrics,
            room_made: Notify::new(),
            logs: RefCell::default(),
            dirs: RefCell::default(),
            dir_syncs: DirSyncs::default(),
            step_by_step: Cell::default(),
            journals: RefCell::default(),
            without_journal: RefCell::default(),
            loaded: RefCell::default(),
            checking: Semaphore::new(1),
            flushing: Cell::new(0),
            touches: Cell::default(),
            stirring: Stirring::default(),
            open_files: Cell::new(0),
            told_of_taken: Cell::new(None),
            pools: tiers.clone().filter(|tiers| tiers.has_pools()),
            tiers: tiers.filter(|tiers| tiers.is_tiered()),
        };
        Self {
            shared: Rc::new(shared),
        }
    }

    /// Returns the open logs.
    pub fn logs(&self) -> Vec<Rc<Log<P>>> {
        let logs = self.shared.logs.borrow();
        logs.iter()
            .filter_map(Weak::upgrade)
            .filter(|log| !log.is_closed())
            .collect()
    }

    /// Returns true if this shard saw a write or sync to the log directory fail; the shard then
    /// writes nothing more to it.
    pub fn dir_failed(&self, dir: &Path) -> bool {
        let dirs = self.shared.dirs.borrow();
        dirs.get(dir).is_some_and(|health| health.is_failed())
    }

    /// Returns the error with which a log directory failed on this shard.
    pub(crate) fn dir_error(&self, dir: &Path) -> Option<Error> {
        self.shared.dirs.borrow().get(dir)?.failed()
    }

    /// Returns why this shard does not use a log directory or a tier path, if so.
    pub fn dir_failure(&self, dir: &Path) -> Option<String> {
        let path = self.tiers().and_then(|tiers| {
            let mut paths = tiers.paths().iter();
            paths.find(|path| path.dir() == dir)
        });
        let of_path = path.and_then(|path| path.failed());
        of_path.map(ToString::to_string).or_else(|| {
            let failed = self.shared.dirs.borrow().get(dir)?.failed();
            failed.map(|error| error.to_string())
        })
    }

    /// Returns how many segments of this shard are damaged or on a missing path.
    pub fn unreadable_segments(&self) -> u64 {
        let mut unreadable = 0;
        for log in self.logs() {
            log.segments.each(|segment| {
                unreadable += u64::from(segment.is_offline());
            });
        }
        unreadable
    }

    /// Returns the entries of this shard's logs for the checkpoint files of `dir`.
    pub fn points(&self, dir: &Path) -> Vec<LogPoints> {
        // Closed logs too: the next start needs the points that a clean stop leaves.
        let logs = self.shared.logs.borrow();
        let open_or_closed = logs.iter().filter_map(Weak::upgrade);
        open_or_closed
            .filter(|log| log.dir() == dir)
            .map(|log| log.points())
            .collect()
    }

    /// Returns a count that is the same as long as no log has done what may change its entries in
    /// the checkpoint files.
    pub fn touches(&self) -> u64 {
        self.shared.touches.get()
    }

    /// Counts what may change the entries of a log.
    pub(crate) fn touch(&self) {
        let touches = self.shared.touches.get();
        self.shared.touches.set(touches.wrapping_add(1));
    }

    /// Waits until the logs have saved enough bytes to write the checkpoint files early.
    ///
    /// Without that, a start after a crash would read those bytes again.
    pub async fn checkpoint_due(&self) {
        self.shared.unnoted.enough().await;
    }

    /// Takes note that the checkpoint files now contain `points`, for logs of this and other
    /// shards.
    ///
    /// `with_starts` means that the file of log start offsets was written, too. A caller that
    /// confirms a deletion of records does so only after this call. Returns the logs whose
    /// `checkpoint-limits` could not be removed: for them a start may still use lower values than
    /// the checkpoint files contain.
    pub async fn checkpointed(
        &self,
        points: &[LogPoints],
        with_starts: bool,
    ) -> Vec<TopicPartition> {
        let mut limited = Vec::new();
        // One deadline for all logs.
        let end = self.clock().after(LIFT_MAX);
        let concerned: Vec<_> = {
            let logs = self.shared.logs.borrow();
            let logs = logs.iter().filter_map(Weak::upgrade);
            let concerned =
                logs.filter(|log| Limiting(log).is_limited() || Upkeeping(log).saves_kept() > 1);
            concerned.collect()
        };
        for log in concerned {
            let of_log = points
                .iter()
                .find(|points| points.topic_partition == *log.topic_partition());
            let Some(points) = of_log else { continue };
            if !log.is_closed() {
                Upkeeping(&log).checkpointed(points.recovery_point).await;
            }
            if with_starts
                && Limiting(&log).is_limited()
                && let Err(error) = Limiting(&log).lift_limits(points, end).await
            {
                limited.push(log.topic_partition().clone());
                if !matches!(error, Error::Busy) {
                    tracing::error!(partition = %log.topic_partition(), %error,
                        "what limits the checkpoints of a log stays until they are written again");
                }
            }
        }
        limited
    }

    /// Removes a deleted log, which has no entries any more.
    pub(crate) fn forget(&self, deleted: &Log<P>) {
        self.touch();
        let is_it = |log: &Weak<Log<P>>| std::ptr::eq(log.as_ptr(), deleted);
        self.shared.logs.borrow_mut().retain(|log| !is_it(log));
    }

    /// Logs in one line what the logs opened so far lost through an unclean stop.
    ///
    /// The counts are those of the process.
    pub fn tell_of_recovery(&self) {
        let metrics = &self.shared.metrics;
        let (logs, dropped_bytes) = (metrics.recovered_logs.get(), metrics.dropped_bytes.get());
        if logs == 0 {
            return;
        }
        if dropped_bytes == 0 {
            tracing::info!(
                logs,
                "unclean stop: the logs were recovered, no bytes of records were dropped"
            );
        } else {
            tracing::warn!(
                logs,
                dropped_bytes,
                "unclean stop: the logs were recovered, bytes after their last valid batches were dropped"
            );
        }
    }

    /// Returns the open files of segments at the last count; an idle log has none.
    pub fn open_files(&self) -> usize {
        usize::try_from(self.shared.open_files.get()).unwrap_or(0)
    }

    /// Returns how many sealed segments have an open file.
    pub(crate) fn open_sealed_files(&self) -> usize {
        let loaded = self.shared.loaded.borrow();
        let segments = loaded.iter().filter_map(Weak::upgrade);
        segments
            .filter(|segment| segment.open_file().is_some())
            .count()
    }

    /// Closes the files of sealed segments; a read in progress keeps its file.
    pub(crate) fn close_sealed_files(&self) {
        for segment in self.shared.loaded.borrow().iter().filter_map(Weak::upgrade) {
            segment.close_if_sealed();
        }
    }

    /// Starts the task that honours `flush_ms` and closes the files of idle logs.
    ///
    /// Everything else is flushed when it is appended.
    pub fn spawn_flusher(&self) -> JoinHandle<()> {
        let shared = Rc::downgrade(&self.shared);
        let clock = self.clock().clone();
        task::spawn(async move {
            loop {
                clock.sleep(FLUSH_CHECK_INTERVAL).await;
                let Some(shared) = shared.upgrade() else {
                    return;
                };
                let store = Self { shared };
                let now_ms = clock.wall_ms();
                store.look_at_stirring_logs(now_ms);
            }
        })
    }

    /// Removes the folders of topics that were deleted before the last stop.
    ///
    /// It removes some before it returns, which makes room for a start on a full disk, and the rest
    /// in the background. A folder that cannot be removed stays.
    pub async fn remove_leftovers(&self, dir: &Path) -> Result<()> {
        let later = remove_some_leftovers(self.disk(), dir).await?;
        if later.is_empty() {
            return Ok(());
        }
        tracing::info!(dir = %dir.display(), folders = later.len(), "folders of deleted logs are being removed");
        let store = self.clone();
        task::spawn(async move {
            for path in later {
                remove_leftover(store.disk(), &path).await;
            }
            store.shared.room_made.notify_waiters();
        });
        Ok(())
    }

    /// Returns the table of tiers, if tiers are configured.
    pub fn tiers(&self) -> Option<&Arc<TierTable>> {
        self.shared.tiers.as_ref()
    }

    /// Returns the tier paths other than the home path on which a log at home in `home` may have
    /// segments.
    pub(crate) fn paths_away_from(&self, home: &Path) -> Vec<Arc<TierPath>> {
        let Some(tiers) = self.tiers() else {
            return Vec::new();
        };
        let paths = tiers.paths().iter();
        let others = paths.filter(|path| home.parent() != Some(path.dir()));
        others.cloned().collect()
    }

    /// Charges a segment of `bytes` bytes in `folder` to its path.
    pub(crate) fn charge(&self, folder: &Path, bytes: u64) -> Option<Charge> {
        let path = self.tiers()?.holding(folder)?;
        Some(Charge::new(path, bytes))
    }

    /// Notes a read of a segment from its medium.
    pub(crate) fn note_read(&self, segment: &Segment<P>) {
        if let Some(charge) = segment.charge() {
            segment.was_read(self.clock().wall_ms());
            charge.path().note_hit();
        }
    }

    /// Notes how many bytes a read of the segment returned.
    pub(crate) fn note_read_bytes(&self, segment: &Segment<P>, bytes: usize) {
        let bytes = bytes as u64;
        self.shared.metrics.read_bytes.inc_by(bytes);
        if let Some(charge) = segment.charge() {
            charge.path().note_read_bytes(bytes);
        }
    }

    pub(crate) fn disk(&self) -> &P::Disk {
        self.shared.platform.disk()
    }

    pub(crate) fn clock(&self) -> &Clock {
        self.shared.platform.clock()
    }

    /// Returns the health of a log directory, shared by its logs.
    pub(crate) fn health(&self, dir: &Path) -> Rc<DirHealth> {
        let mut dirs = self.shared.dirs.borrow_mut();
        Rc::clone(dirs.entry(dir.to_path_buf()).or_default())
    }

    /// Notes that a sealed segment was loaded, and unloads the oldest ones beyond
    /// `open_segments_max`.
    pub(crate) fn note_loaded(&self, segment: &Rc<Segment<P>>) {
        let mut loaded = self.shared.loaded.borrow_mut();
        // An older entry would unload the segment although it was just loaded.
        loaded.retain(|noted| !std::ptr::eq(noted.as_ptr(), Rc::as_ptr(segment)));
        loaded.push_back(Rc::downgrade(segment));
        while loaded.len() > self.shared.options.open_segments_max.max(1) {
            if let Some(oldest) = loaded.pop_front().and_then(|oldest| oldest.upgrade()) {
                oldest.unload();
            }
        }
        assert!(!loaded.is_empty(), "the one that was just loaded stays");
    }
}
