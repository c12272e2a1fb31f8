//! What the logs of one shard share: the platform, chunk memory, the health of the log directories, metrics.
//!
//! Invariant: a store and its logs belong to one shard and never leave its thread.
//! It does not: know which partitions there should be, or write the checkpoint files that a directory's shards share
//! ([`Store::points`] says what belongs in them).

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use platform::clock::Instant;
use platform::disk::{Disk, Entry};
use platform::sync::{Notify, Semaphore};
use platform::task::{self, JoinHandle};
use platform::{Clock, Platform};
use wire::types::{Offset, TopicPartition};

use crate::error::{Error, Result};
use crate::log::Log;
use crate::log::views::{Flushing, Limiting, Upkeeping};
use crate::metrics::Metrics;
use crate::options::StoreOptions;
use crate::segment::Segment;
use crate::segment::naming;
use crate::tier::table::Charge;
use crate::tier::{TierPath, TierTable};

mod dir_syncs;
pub(crate) mod memory;
mod opening;
mod read_ahead;
mod unnoted;

use dir_syncs::DirSyncs;
use memory::Memory;
use read_ahead::ReadAhead;
use unnoted::Unnoted;

/// How long a checkpoint waits for logs whose files are in use: what is not seen to then is left to the next one.
const LIFT_MAX: Duration = Duration::from_secs(1);
/// How often logs with `Replicated` durability are looked at for `flush_ms`.
const FLUSH_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// So many folders of deleted logs are removed while a start waits.
const LEFTOVERS_AWAITED: usize = 100;

/// A shard's logs; clones share it.
pub struct Store<P: Platform> {
    pub(crate) shared: Rc<Shared<P>>,
}

impl<P: Platform> Clone for Store<P> {
    fn clone(&self) -> Self {
        Self {
            shared: Rc::clone(&self.shared),
        }
    }
}

pub(crate) struct Shared<P: Platform> {
    pub(crate) platform: P,
    pub(crate) options: StoreOptions,
    pub(crate) memory: Memory<P>,
    pub(crate) metrics: Metrics,
    /// Somebody deleted something: logs that wait for room may try again.
    pub(crate) room_made: Notify,
    pub(crate) unnoted: Unnoted,
    logs: RefCell<Vec<Weak<Log<P>>>>,
    dirs: RefCell<BTreeMap<PathBuf, Rc<DirHealth>>>,
    pub(crate) dir_syncs: DirSyncs,
    /// Sealed segments with an open file or loaded indexes, the longest loaded first.
    loaded: RefCell<VecDeque<Weak<Segment<P>>>>,
    pub(crate) read_ahead: ReadAhead<P>,
    /// Large reads that are judged: one at a time.
    pub(crate) checking: Semaphore,
    /// Logs that are being flushed.
    pub(crate) flushing: Cell<usize>,
    /// Open files of segments, when they were last counted.
    pub(crate) open_files: Cell<i64>,
    /// When it was last said that a log passes over a folder which is not its own.
    pub(crate) told_of_taken: Cell<Option<Instant>>,
    /// The tiers, if there are any.
    pub(crate) tiers: Option<Arc<TierTable>>,
    /// The same table, also of a single tier, where paths of it have pools of segment files.
    pub(crate) pools: Option<Arc<TierTable>>,
}

/// Whether a log directory still takes writes.
#[derive(Debug, Default)]
pub(crate) struct DirHealth {
    failed: RefCell<Option<Error>>,
    /// Logs of it that take no appends for want of room.
    full: Cell<usize>,
}

impl DirHealth {
    pub(crate) fn failed(&self) -> Option<Error> {
        self.failed.borrow().clone()
    }

    pub(crate) fn is_failed(&self) -> bool {
        self.failed.borrow().is_some()
    }

    /// A log has no room; said once for all of them.
    pub(crate) fn enter_full(&self, dir: &Path, error: &Error) {
        if self.full.replace(self.full.get() + 1) == 0 {
            tracing::warn!(dir = %dir.display(), %error, "appends are refused until that is over");
        }
    }

    /// It has some again.
    pub(crate) fn leave_full(&self, dir: &Path) {
        if self.leave() == 0 {
            tracing::warn!(dir = %dir.display(), "there is room again: all logs take appends");
        }
    }

    /// It takes no appends any more, whether there is room or not.
    pub(crate) fn end_full(&self) {
        self.leave();
    }

    /// How many logs are left without room.
    fn leave(&self) -> usize {
        assert!(self.full.get() > 0, "a log leaves what it has entered");
        self.full.set(self.full.get() - 1);
        self.full.get()
    }

    /// Latches; true the first time.
    pub(crate) fn fail(&self, error: &Error) -> bool {
        let mut failed = self.failed.borrow_mut();
        let first = failed.is_none();
        failed.get_or_insert_with(|| error.latched());
        first
    }
}

/// What a log has to say in its directory's checkpoint files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogPoints {
    /// Which log.
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
    /// A store without logs.
    pub fn new(platform: P, options: StoreOptions, metrics: Metrics) -> Self {
        Self::with_tiers(platform, options, metrics, None)
    }

    /// The same, with the tiers that its logs' segments may be on. The table is the process's, for all its shards.
    pub fn with_tiers(
        platform: P,
        options: StoreOptions,
        metrics: Metrics,
        tiers: Option<Arc<TierTable>>,
    ) -> Self {
        let shared = Shared {
            memory: Memory::new(&options),
            read_ahead: ReadAhead::new(options.chunk_bytes, options.cache_bytes_max),
            unnoted: Unnoted::new(&options),
            platform,
            options,
            metrics,
            room_made: Notify::new(),
            logs: RefCell::default(),
            dirs: RefCell::default(),
            dir_syncs: DirSyncs::default(),
            loaded: RefCell::default(),
            checking: Semaphore::new(1),
            flushing: Cell::new(0),
            open_files: Cell::new(0),
            told_of_taken: Cell::new(None),
            pools: tiers.clone().filter(|tiers| tiers.has_pools()),
            tiers: tiers.filter(|tiers| tiers.is_tiered()),
        };
        Self {
            shared: Rc::new(shared),
        }
    }

    /// The logs that are open.
    pub fn logs(&self) -> Vec<Rc<Log<P>>> {
        let logs = self.shared.logs.borrow();
        logs.iter()
            .filter_map(Weak::upgrade)
            .filter(|log| !log.is_closed())
            .collect()
    }

    /// Whether this shard saw a write or sync to the log directory fail: nothing more is written to it.
    pub fn dir_failed(&self, dir: &Path) -> bool {
        let dirs = self.shared.dirs.borrow();
        dirs.get(dir).is_some_and(|health| health.is_failed())
    }

    /// Why this shard does not use a log directory or a path of a tier, if so.
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

    /// Segments of this shard that are damaged or on a path that is not there.
    pub fn unreadable_segments(&self) -> u64 {
        let mut unreadable = 0;
        for log in self.logs() {
            log.segments.each(|segment| {
                unreadable += u64::from(segment.is_offline());
            });
        }
        unreadable
    }

    /// What belongs into the checkpoint files of `dir`, for the logs of this shard.
    pub fn points(&self, dir: &Path) -> Vec<LogPoints> {
        // Closed logs too: what a clean stop leaves behind is what the next start wants to know.
        let logs = self.shared.logs.borrow();
        let open_or_closed = logs.iter().filter_map(Weak::upgrade);
        open_or_closed
            .filter(|log| log.dir() == dir)
            .map(|log| log.points())
            .collect()
    }

    /// Waits until so much was saved that the checkpoint files should say so before their time, because a start after a
    /// crash would have to read it again.
    pub async fn checkpoint_due(&self) {
        self.shared.unnoted.enough().await;
    }

    /// The checkpoint files now say `points`, for logs of this shard and others; `with_starts`: that of log starts, too. Who
    /// promises that records are deleted does so after this. Gives the logs of which a start may still take less than they say for
    /// true.
    pub async fn checkpointed(
        &self,
        points: &[LogPoints],
        with_starts: bool,
    ) -> Vec<TopicPartition> {
        let mut limited = Vec::new();
        // For all of them together.
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

    /// A log was deleted: it has nothing to say any more.
    pub(crate) fn forget(&self, deleted: &Log<P>) {
        let is_it = |log: &Weak<Log<P>>| std::ptr::eq(log.as_ptr(), deleted);
        self.shared.logs.borrow_mut().retain(|log| !is_it(log));
    }

    /// Says in one line what the logs that were opened so far have lost by an unclean stop. The counts are the process's.
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

    /// Open files of segments, as they were last counted; a log that is not written to has none.
    pub fn open_files(&self) -> usize {
        usize::try_from(self.shared.open_files.get()).unwrap_or(0)
    }

    /// How many sealed segments have an open file.
    pub(crate) fn open_sealed_files(&self) -> usize {
        let loaded = self.shared.loaded.borrow();
        let segments = loaded.iter().filter_map(Weak::upgrade);
        segments
            .filter(|segment| segment.open_file().is_some())
            .count()
    }

    /// Lets go of the sealed segments' files; who reads one keeps it.
    pub(crate) fn close_sealed_files(&self) {
        for segment in self.shared.loaded.borrow().iter().filter_map(Weak::upgrade) {
            segment.close_if_sealed();
        }
    }

    /// Starts the task that honours `flush_ms`, and closes the files of idle logs. Everything else is flushed when it is
    /// appended.
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
                for log in store.logs() {
                    Flushing(&log).flush_if_due(now_ms);
                }
                store.close_idle_files();
            }
        })
    }

    /// Removes the folders of topics that were deleted before the last stop: some before it returns, which makes room for a
    /// start on a full disk, the rest by and by. What cannot be removed stays.
    pub async fn remove_leftovers(&self, dir: &Path) -> Result<()> {
        let listed = self.disk().list(dir).await;
        let entries = listed.map_err(Error::io("list", dir))?;
        let is_leftover = |entry: &Entry| entry.is_dir && naming::is_deleted_folder(&entry.name);
        let leftovers = entries.into_iter().filter(is_leftover);
        let mut leftovers = leftovers.map(|entry| dir.join(entry.name));
        for path in leftovers.by_ref().take(LEFTOVERS_AWAITED) {
            self.remove_leftover(&path).await;
        }
        let later: Vec<_> = leftovers.collect();
        if later.is_empty() {
            return Ok(());
        }
        tracing::info!(dir = %dir.display(), folders = later.len(), "folders of deleted logs are being removed");
        let store = self.clone();
        task::spawn(async move {
            for path in later {
                store.remove_leftover(&path).await;
            }
            store.shared.room_made.notify_waiters();
        });
        Ok(())
    }

    async fn remove_leftover(&self, path: &Path) {
        if let Err(error) = self.disk().remove_dir(path).await {
            // The next start tries it again. Nobody needs it, so it keeps nobody from starting.
            tracing::warn!(folder = %path.display(), %error, "a deleted log's folder stays");
        }
    }

    /// The tiers, if there are any.
    pub fn tiers(&self) -> Option<&Arc<TierTable>> {
        self.shared.tiers.as_ref()
    }

    /// The paths of all tiers on which a log that is at home in `home` may have segments elsewhere.
    pub(crate) fn paths_away_from(&self, home: &Path) -> Vec<Arc<TierPath>> {
        let Some(tiers) = self.tiers() else {
            return Vec::new();
        };
        let paths = tiers.paths().iter();
        let others = paths.filter(|path| home.parent() != Some(path.dir()));
        others.cloned().collect()
    }

    /// Counts a segment of `bytes` bytes in `folder` on its path.
    pub(crate) fn charge(&self, folder: &Path, bytes: u64) -> Option<Charge> {
        let path = self.tiers()?.holding(folder)?;
        Some(Charge::new(path, bytes))
    }

    /// Bytes of a segment are wanted from its medium.
    pub(crate) fn note_read(&self, segment: &Segment<P>) {
        if let Some(charge) = segment.charge() {
            segment.was_read(self.clock().wall_ms());
            charge.path().note_hit();
        }
    }

    /// So many bytes of it came.
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

    /// The health of a log directory, shared by its logs.
    pub(crate) fn health(&self, dir: &Path) -> Rc<DirHealth> {
        let mut dirs = self.shared.dirs.borrow_mut();
        Rc::clone(dirs.entry(dir.to_path_buf()).or_default())
    }

    /// Remembers that a sealed segment was loaded, and unloads the oldest beyond the bound.
    pub(crate) fn note_loaded(&self, segment: &Rc<Segment<P>>) {
        let mut loaded = self.shared.loaded.borrow_mut();
        // Noted once only: an older note would have it unloaded although it was just loaded.
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
