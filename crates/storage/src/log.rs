//! One partition's log: a sequence of segments, the last of them active, with its leader epochs and
//! producers.
//!
//! Appending writes to memory only and never waits. A flush starts by itself, one at a time for
//! each log; what is appended during a flush goes with the next one. Offsets, in order:
//! `recovery point <= durable <= written <= log end`; `log start <= high watermark <= log end`. The
//! owner sets the high watermark.
//! States: *open* -> *full* (no room; back to open when there is room) -> *failed* (a write or sync
//! failed; final) -> *closed*.
//! It does not: validate records (the caller has), replicate, know which requests wait, or decide
//! which records are acknowledged.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};

use platform::Platform;
use platform::sync::{Notify, Semaphore};
use platform::task::yield_now;
use wire::types::{LeaderEpoch, Offset, ProducerId, TimestampMs, TopicId, TopicPartition};

use crate::error::Error;
use crate::log::views::{LogCondition, PathFailure};
use crate::options::{Durability, LogOptions};
use crate::store::{DirHealth, LogPoints, Store};

mod aborted;
pub mod append;
mod asides;
mod batches;
mod close;
mod compact;
mod condition;
pub mod epoch_cache;
mod files;
pub(crate) mod flush;
pub mod indexes;
mod invariants;
mod kept;
mod limits;
pub mod lookup;
pub mod offset_index;
mod offsets;
pub(crate) mod open;
mod owing;
pub mod producer_state;
mod producers;
mod read;
pub(crate) mod recover;
mod relocate;
mod replay;
mod reserve;
mod retention;
mod segment_event;
mod segments;
mod spill;
mod switch;
mod taken;
mod tiers;
pub mod time_index;
mod truncate;
pub mod txn_index;
pub(crate) mod upkeep;
pub(crate) mod views;

pub use kept::RetentionReason;
pub use relocate::Relocation;
pub use views::{Compacting, LogProducers, LogTiers};

pub use compact::{CompactOptions, CompactPolicy, CompactionRound, Dirt};
use condition::Condition;
use epoch_cache::EpochCache;
use indexes::IndexOptions;
use offsets::LogOffsets;
use producer_state::{ProducerSnapshot, ProducerStates};
use read::Readers;
use segments::SegmentList;
use upkeep::Upkeep;

/// Producers that are looked at in one go: some 0.1 ms.
const SNAPSHOT_PIECE: usize = 512;

/// An observer of a log's progress.
///
/// The log calls it from within: an implementation wakes others and returns.
pub trait Observer {
    /// Reports that `written` or `durable` advanced, or that the log failed, became full, has room
    /// again, or was closed.
    fn progressed(&self);
}

/// One partition's log; see the module's documentation.
pub struct Log<P: Platform> {
    me: Weak<Log<P>>,
    store: Store<P>,
    partition: TopicPartition,
    topic_id: TopicId,
    /// The log directory.
    dir: PathBuf,
    /// The partition's folder in the log directory.
    folder: Rc<Path>,
    health: Rc<DirHealth>,
    options: RefCell<Rc<LogOptions>>,
    pub(crate) segments: SegmentList<P>,
    offsets: LogOffsets,
    epochs: RefCell<EpochCache>,
    /// True when the epochs have changed since they were last written to their file.
    epochs_dirty: Cell<bool>,
    /// True when an epoch has begun that is not in the file and has no batch yet.
    epoch_begun: Cell<bool>,
    /// The end of the log, if its files are what a clean stop leaves of a log that ends there.
    as_left: Cell<Option<Offset>>,
    producers: RefCell<ProducerStates>,
    condition: RefCell<Condition>,
    observers: RefCell<Vec<Weak<dyn Observer>>>,
    /// Wakes the tasks that wait for an offset to become durable.
    progress: Notify,
    /// The holder may write to the segments' files.
    writing: Semaphore,
    /// True while the log is truncated: its parts may contradict each other.
    truncating: Cell<bool>,
    /// Bytes of the files that were set aside beside the log.
    aside_bytes: Cell<i64>,
    /// The holder finds out, for all readers, whether an index or the leader epochs are wrong.
    correcting: Semaphore,
    pub(crate) flush: flush::FlushState,
    upkeep: Upkeep<P>,
    limits: limits::LimitState,
    readers: Readers,
    compaction: compact::CompactionState,
    tiers: tiers::LogTierState,
    /// The journal that its small appends go through, if there is one.
    journal: Option<flush::journaled::LogJournal<P>>,
}

impl<P: Platform> Log<P> {
    /// Returns the partition.
    pub fn topic_partition(&self) -> &TopicPartition {
        &self.partition
    }

    /// Returns the topic's id.
    pub fn topic_id(&self) -> TopicId {
        self.topic_id
    }

    /// Returns the log directory that the partition's folder is in.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the settings.
    pub fn options(&self) -> Rc<LogOptions> {
        Rc::clone(&self.options.borrow())
    }

    /// Replaces the settings; they apply from the next append, roll or retention pass on.
    pub fn set_options(&self, options: LogOptions) {
        *self.options.borrow_mut() = Rc::new(options);
    }

    /// Returns the offset of the first record that may be read.
    pub fn log_start_offset(&self) -> Offset {
        self.offsets.start()
    }

    /// Returns the offset that the next record will get.
    pub fn log_end_offset(&self) -> Offset {
        self.offsets.end()
    }

    /// Returns the offset below which everything is written: it survives a killed process.
    pub fn written_offset(&self) -> Offset {
        self.offsets.written()
    }

    /// Returns the offset below which everything is synced: it survives a power loss.
    pub fn durable_offset(&self) -> Offset {
        self.offsets.durable()
    }

    /// Returns the offset below which everything is as safe as the log's durability asks of one
    /// node.
    pub fn committed_offset(&self) -> Offset {
        match self.options.borrow().durability {
            Durability::Synced => self.offsets.durable(),
            Durability::Replicated => self.offsets.written(),
        }
    }

    /// Returns the high watermark that the owner has set last.
    pub fn high_watermark(&self) -> Offset {
        self.offsets.high_watermark()
    }

    /// Sets the offset up to which records are committed.
    ///
    /// Retention deletes nothing beyond it, and transactions whose marker lies below it become
    /// stable. It may lag. Only truncation lowers it.
    pub fn set_high_watermark(&self, offset: Offset) {
        let offset = offset
            .min(self.offsets.end())
            .max(self.offsets.high_watermark());
        assert!(
            self.offsets.start() <= offset && offset <= self.offsets.end(),
            "the high watermark is in the log"
        );
        if self.offsets.advance_high_watermark(offset) {
            self.store.touch();
            self.producers.borrow_mut().advance_high_watermark(offset);
        }
    }

    /// Returns the first offset that is not decided for every reader, or else the log end offset.
    ///
    /// The last stable offset is this or the high watermark, whichever is less.
    pub fn stable_offset(&self) -> Offset {
        self.producers
            .borrow()
            .first_unstable_offset()
            .unwrap_or(self.offsets.end())
    }

    /// Returns the bytes of all segments.
    pub fn size_bytes(&self) -> u64 {
        self.segments
            .all()
            .iter()
            .map(|segment| segment.size())
            // Saturates: the sum is only compared with limits.
            .fold(0, u64::saturating_add)
    }

    /// Returns the number of segments.
    pub fn segment_count(&self) -> usize {
        self.segments.len()
    }

    /// Returns the end of the largest epoch that is not above `epoch`, for `OffsetForLeaderEpoch`.
    ///
    /// Returns (-1, -1) when the log cannot say.
    pub fn epoch_end(&self, epoch: LeaderEpoch) -> (LeaderEpoch, Offset) {
        let found = self
            .epochs
            .borrow()
            .end_offset_for(epoch, self.offsets.end());
        found.unwrap_or((LeaderEpoch::NONE, Offset(-1)))
    }

    /// Returns the latest leader epoch.
    pub fn latest_epoch(&self) -> Option<LeaderEpoch> {
        self.epochs.borrow().latest().map(|latest| latest.epoch)
    }

    /// Returns the leader epoch in which the record at `offset` was written.
    pub fn epoch_at(&self, offset: Offset) -> Option<LeaderEpoch> {
        self.epochs.borrow().epoch_at(offset)
    }

    /// Notes that `epoch` begins at the log end offset, whether or not a record is written in it.
    ///
    /// An epoch older than the log's latest is ignored: the log takes no batch of it. The file has
    /// it with the first batch of it: ten thousand logs that get an epoch at a start must not write
    /// ten thousand files for it. If there is none, the next start begins a later epoch at the same
    /// offset, which takes its place.
    pub fn start_epoch(&self, epoch: LeaderEpoch) {
        if self.latest_epoch().is_some_and(|latest| latest > epoch) {
            return;
        }
        if self.epochs.borrow_mut().assign(epoch, self.offsets.end()) {
            self.epoch_begun.set(true);
            self.check_cheap();
        }
    }

    /// Returns the known producers.
    pub fn producers(&self) -> Vec<ProducerSnapshot> {
        self.producers.borrow().snapshot()
    }

    fn producers_after(&self, after: Option<ProducerId>, most: usize) -> Vec<ProducerSnapshot> {
        let producers = self.producers.borrow();
        producers.snapshots_after(after, most)
    }

    /// Returns the known producers, as `DescribeProducers` reports them: each as it was at some
    /// moment of the call, in which others of the thread have their turns.
    pub async fn producers_in_pieces(&self) -> Vec<ProducerSnapshot> {
        let producers = self.producers.borrow().producer_count();
        let mut all = Vec::with_capacity(producers);
        loop {
            let after = all.last().map(|last: &ProducerSnapshot| last.producer_id);
            // Others may come behind these as fast as pieces are taken: then the rest is one.
            let is_overtaken = all.len() > producers.saturating_mul(2);
            let most = if is_overtaken {
                usize::MAX
            } else {
                SNAPSHOT_PIECE
            };
            let piece = self.producers_after(after, most);
            let is_last = piece.len() < most;
            all.extend(piece);
            if is_last {
                return all;
            }
            yield_now().await;
        }
    }

    /// Adds an observer of progress.
    pub fn observe(&self, observer: Weak<dyn Observer>) {
        let mut observers = self.observers.borrow_mut();
        observers.retain(|observer| observer.strong_count() > 0);
        observers.push(observer);
    }

    /// Returns why the log takes no appends, or `None` if it takes them.
    ///
    /// [`Error::Failed`] is final, [`Error::Full`] is temporary. Producers that wait get this
    /// error.
    pub fn failed(&self) -> Option<Error> {
        match &*self.condition.borrow() {
            Condition::Open => self.health.failed(),
            Condition::Full(error) | Condition::Failed(error) => Some(error.clone()),
            Condition::Closed => Some(Error::Closed),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        matches!(&*self.condition.borrow(), Condition::Closed)
    }

    /// Returns what the checkpoints record of the log.
    pub fn points(&self) -> LogPoints {
        LogPoints {
            topic_partition: self.partition.clone(),
            recovery_point: self.offsets.recovery_point(),
            log_start: self.offsets.start(),
            high_watermark: self.offsets.high_watermark(),
            compacted: self.compaction.compacted(),
        }
    }

    /// Returns the view of its tiers: the paths it is on, the moves asked for, the bytes on each
    /// path.
    pub fn tiers(&self) -> LogTiers<'_, P> {
        LogTiers(self)
    }

    /// Returns the view of its compaction; a round itself is [`Log::compact`].
    pub fn compaction(&self) -> Compacting<'_, P> {
        Compacting(self)
    }

    /// Returns the view of its producers; [`Log::check_producer`] judges their batches.
    pub fn producer_states(&self) -> LogProducers<'_, P> {
        LogProducers(self)
    }

    pub(crate) fn me(&self) -> Option<Rc<Self>> {
        self.me.upgrade()
    }

    pub(crate) fn store(&self) -> &Store<P> {
        &self.store
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns true while an operation on the log's files makes the next upkeep wait.
    pub fn is_under_upkeep(&self) -> bool {
        self.upkeep.gate.available_permits() == 0
    }

    fn index_options(&self) -> IndexOptions {
        let options = self.options.borrow();
        IndexOptions {
            interval_bytes: options.index_interval_bytes,
            bytes_max: options.index_bytes_max,
        }
    }

    /// Latches the log and its directory after a failure that leaves the content of the disk
    /// unknown.
    pub(crate) fn fail(&self, error: &Error) {
        if self.is_closed() {
            return;
        }
        if matches!(&*self.condition.borrow(), Condition::Failed(_)) {
            return;
        }
        tracing::error!(partition = %self.partition, %error, "the log failed and takes no appends");
        self.store.shared.metrics.flush_errors.inc();
        LogCondition(self).become_finally(Condition::Failed(error.latched()));
        PathFailure(self).fail_dir(error);
        self.tell();
    }
}

/// What an append needs beyond the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// Epoch of the leader that appends.
    pub leader_epoch: LeaderEpoch,
    /// With `message.timestamp.type=LogAppendTime`, the timestamp of every record.
    pub log_append_time: Option<TimestampMs>,
}

/// The offsets and timestamps that an append got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogAppendInfo {
    /// Offset of the first record.
    pub base_offset: Offset,
    /// Offset of the last record.
    pub last_offset: Offset,
    /// Largest timestamp of the records.
    pub max_timestamp: TimestampMs,
    /// The log start offset.
    pub log_start: Offset,
}
