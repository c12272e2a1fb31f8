//! One partition's log: a run of segments, of which the last grows, with its leader epochs and producers.
//!
//! Appending is memory only and never waits; a flush starts by itself, one at a time for each log, and what is appended
//! meanwhile goes with the next one. Offsets, in order:
//! `recovery point <= durable <= written <= log end`; `log start <= high watermark <= log end`, of which the high watermark is the owner's.
//! States: *open* -> *full* (no room; back to open when there is) -> *failed* (a write or sync failed, for good) -> *closed*.
//! It does not: validate records (the caller has), replicate, know who waits, or decide what is acknowledged.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};

use platform::Platform;
use platform::sync::{Notify, Semaphore};
use wire::batch::BatchHeader;
use wire::types::{LeaderEpoch, Offset, TimestampMs, TopicId, TopicPartition};

use crate::error::{Error, Result};
use crate::log::views::{Flushing, LogCondition, PathFailure};
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
mod recover;
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

pub use kept::Kept;
pub use relocate::Relocation;
pub use views::{Compacting, LogProducers, LogTiers};

pub use compact::{CompactOptions, CompactPolicy, Compacted, Dirt};
use condition::Condition;
use epoch_cache::EpochCache;
use indexes::IndexOptions;
use offsets::LogOffsets;
use producer_state::{Origin, ProducerCheck, ProducerError, ProducerSnapshot, ProducerStates};
use read::Readers;
use segments::SegmentList;
use upkeep::Upkeep;

/// Told when a log has moved on. Called from within the log: implementations wake others and return.
pub trait Observer {
    /// `written` or `durable` advanced, or the log failed, became full, has room again, or was closed.
    fn progressed(&self);
}

/// One partition's log. See the module's documentation.
pub struct Log<P: Platform> {
    me: Weak<Log<P>>,
    store: Store<P>,
    partition: TopicPartition,
    topic_id: TopicId,
    /// The log directory.
    dir: PathBuf,
    /// The partition's folder in it.
    folder: Rc<Path>,
    health: Rc<DirHealth>,
    options: RefCell<Rc<LogOptions>>,
    pub(crate) segments: SegmentList<P>,
    offsets: LogOffsets,
    epochs: RefCell<EpochCache>,
    /// The epochs have changed since they were written to their file.
    epochs_dirty: Cell<bool>,
    producers: RefCell<ProducerStates>,
    condition: RefCell<Condition>,
    observers: RefCell<Vec<Weak<dyn Observer>>>,
    /// Wakes those who wait for an offset to become durable.
    progress: Notify,
    /// Whoever holds it may write to the segments' files.
    writing: Semaphore,
    /// The log is being cut: it need not agree with itself.
    truncating: Cell<bool>,
    /// What was set aside beside it takes so much room.
    aside_bytes: Cell<i64>,
    /// Whoever holds it finds out for all readers whether an index or the leader epochs are wrong.
    correcting: Semaphore,
    pub(crate) flush: flush::FlushState,
    upkeep: Upkeep<P>,
    limits: limits::State,
    readers: Readers,
    compaction: compact::State,
    tiers: tiers::State,
}

impl<P: Platform> Log<P> {
    /// The partition.
    pub fn topic_partition(&self) -> &TopicPartition {
        &self.partition
    }

    /// The topic's id.
    pub fn topic_id(&self) -> TopicId {
        self.topic_id
    }

    /// The log directory that the partition's folder is in.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The settings.
    pub fn options(&self) -> Rc<LogOptions> {
        Rc::clone(&self.options.borrow())
    }

    /// Replaces the settings. They hold from the next append, roll or retention on.
    pub fn set_options(&self, options: LogOptions) {
        *self.options.borrow_mut() = Rc::new(options);
    }

    /// Offset of the first record that may be read.
    pub fn log_start_offset(&self) -> Offset {
        self.offsets.start()
    }

    /// Offset that the next record will get.
    pub fn log_end_offset(&self) -> Offset {
        self.offsets.end()
    }

    /// Everything below has been written: it survives a killed process.
    pub fn written_offset(&self) -> Offset {
        self.offsets.written()
    }

    /// Everything below has been synced: it survives the loss of power.
    pub fn durable_offset(&self) -> Offset {
        self.offsets.durable()
    }

    /// Everything below is as safe as the log's durability asks of one node.
    pub fn committed_offset(&self) -> Offset {
        match self.options.borrow().durability {
            Durability::Synced => self.offsets.durable(),
            Durability::Replicated => self.offsets.written(),
        }
    }

    /// The high watermark that the owner has set last.
    pub fn high_watermark(&self) -> Offset {
        self.offsets.high_watermark()
    }

    /// Says up to where records are committed: retention deletes nothing beyond, and transactions whose marker lies
    /// below become stable. It may lag and never falls, save by truncation.
    pub fn set_high_watermark(&self, offset: Offset) {
        let offset = offset
            .min(self.offsets.end())
            .max(self.offsets.high_watermark());
        assert!(
            self.offsets.start() <= offset && offset <= self.offsets.end(),
            "the high watermark is in the log"
        );
        if self.offsets.advance_high_watermark(offset) {
            self.producers.borrow_mut().advance_high_watermark(offset);
        }
    }

    /// The first offset of a transaction that is not decided for every reader, or else the log end offset. The last
    /// stable offset is this or the high watermark, whichever is less.
    pub fn stable_offset(&self) -> Offset {
        self.producers
            .borrow()
            .first_unstable_offset()
            .unwrap_or(self.offsets.end())
    }

    /// Bytes of all segments from the log start on.
    pub fn size_bytes(&self) -> u64 {
        self.segments
            .all()
            .iter()
            .map(|segment| segment.size())
            // Saturates: a sum for a decision.
            .fold(0, u64::saturating_add)
    }

    /// How many segments there are.
    pub fn segment_count(&self) -> usize {
        self.segments.len()
    }

    /// The end of the largest epoch that is not above `epoch`, as `OffsetForLeaderEpoch` answers it; (-1, -1) when the
    /// log cannot say.
    pub fn epoch_end(&self, epoch: LeaderEpoch) -> (LeaderEpoch, Offset) {
        let found = self
            .epochs
            .borrow()
            .end_offset_for(epoch, self.offsets.end());
        found.unwrap_or((LeaderEpoch::NONE, Offset(-1)))
    }

    /// The latest leader epoch.
    pub fn latest_epoch(&self) -> Option<LeaderEpoch> {
        self.epochs.borrow().latest().map(|latest| latest.epoch)
    }

    /// The leader epoch in which the record at `offset` was written.
    pub fn epoch_at(&self, offset: Offset) -> Option<LeaderEpoch> {
        self.epochs.borrow().epoch_at(offset)
    }

    /// Says that `epoch` begins at the log end offset, whether anything is written in it or not. One that is older than
    /// what the log has does not: the log takes nothing of it.
    pub fn start_epoch(&self, epoch: LeaderEpoch) {
        if self.latest_epoch().is_some_and(|latest| latest > epoch) {
            return;
        }
        if self.epochs.borrow_mut().assign(epoch, self.offsets.end()) {
            self.epochs_dirty.set(true);
            self.check_cheap();
            Flushing(self).request_flush();
        }
    }

    /// Judges a batch by its producer's earlier ones. A duplicate need not be durable yet: answer it when
    /// [`Log::committed_offset`] is past its last offset.
    pub fn check_producer(
        &self,
        header: &BatchHeader,
        origin: Origin,
    ) -> Result<ProducerCheck, ProducerError> {
        self.producers.borrow().check(header, origin)
    }

    /// The producers that are known, as `DescribeProducers` tells of them.
    pub fn producers(&self) -> Vec<ProducerSnapshot> {
        self.producers.borrow().snapshot()
    }

    /// Adds somebody to be told of progress.
    pub fn observe(&self, observer: Weak<dyn Observer>) {
        let mut observers = self.observers.borrow_mut();
        observers.retain(|observer| observer.strong_count() > 0);
        observers.push(observer);
    }

    /// Why the log takes no appends, if it does not: [`Error::Failed`] for good, [`Error::Full`] for the time being.
    /// Producers that wait get this answer.
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

    /// What it has to say in the checkpoints.
    pub fn points(&self) -> LogPoints {
        LogPoints {
            topic_partition: self.partition.clone(),
            recovery_point: self.offsets.recovery_point(),
            log_start: self.offsets.start(),
            high_watermark: self.offsets.high_watermark(),
            compacted: self.compaction.compacted(),
        }
    }

    /// Which paths of which tiers it is on, what was asked of that, and what is on them.
    pub fn tiers(&self) -> LogTiers<'_, P> {
        LogTiers(self)
    }

    /// Its compaction, but for a round: that is [`Log::compact`].
    pub fn compaction(&self) -> Compacting<'_, P> {
        Compacting(self)
    }

    /// Its producers, but for their batches: those are judged by [`Log::check_producer`].
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

    /// Whether something is being done to the log's files that the next upkeep waits for.
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

    /// Latches the log and its directory after a failure that leaves it unknown what is on the disk.
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

    /// Wakes everybody who may want to know.
    pub(crate) fn tell(&self) {
        self.progress.notify_waiters();
        // Observers may come and go while they are told.
        let observers: Vec<_> = self
            .observers
            .borrow()
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        for observer in observers {
            observer.progressed();
        }
    }
}

/// What an append has to be given beyond the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// Epoch of the leader that appends.
    pub leader_epoch: LeaderEpoch,
    /// With `message.timestamp.type=LogAppendTime`, the timestamp of every record.
    pub log_append_time: Option<TimestampMs>,
}

/// What an append has got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Appended {
    /// Offset of the first record.
    pub base_offset: Offset,
    /// Offset of the last record.
    pub last_offset: Offset,
    /// Largest timestamp of the records.
    pub max_timestamp: TimestampMs,
    /// The log start offset.
    pub log_start: Offset,
}
