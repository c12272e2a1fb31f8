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
use platform::clock::Reading;
use platform::sync::{Notify, Semaphore, SemaphorePermit};
use wire::batch::BatchHeader;
use wire::types::{LeaderEpoch, Offset, ProducerId, TimestampMs, TopicId, TopicPartition};

use crate::checkpoint::leader_epochs;
use crate::error::{Error, Result};
use crate::options::{Durability, LogOptions};
use crate::segment::Segment;
use crate::store::{DirHealth, LogPoints, Store};

mod aborted;
pub mod append;
mod asides;
mod close;
mod compact;
pub mod epoch_cache;
pub(crate) mod flush;
pub mod indexes;
mod invariants;
mod kept;
mod limits;
pub mod lookup;
pub mod offset_index;
pub(crate) mod open;
mod owing;
pub mod producer_state;
mod read;
mod recover;
mod relocate;
mod reserve;
mod retention;
mod segment_event;
mod segments;
mod spill;
mod switch;
mod tiers;
pub mod time_index;
mod truncate;
pub mod txn_index;
pub(crate) mod upkeep;
pub(crate) mod views;

pub use kept::Kept;
pub use relocate::Relocation;

pub use compact::{CompactOptions, CompactPolicy, Compacted, Dirt};
use epoch_cache::EpochCache;
use indexes::IndexOptions;
use producer_state::{
    EndMarker, Origin, ProducerCheck, ProducerError, ProducerSnapshot, ProducerStates,
};
use read::Readers;
use segments::SegmentList;
use upkeep::Upkeep;

/// Told when a log has moved on. Called from within the log: implementations wake others and return.
pub trait Observer {
    /// `written` or `durable` advanced, or the log failed, became full, has room again, or was closed.
    fn progressed(&self);
}

/// Whether a log takes appends.
#[derive(Clone, Debug)]
enum Condition {
    Open,
    /// No room, or no descriptors or memory. What was appended is kept in memory and written when there is some.
    Full(Error),
    /// A write or sync failed.
    Failed(Error),
    Closed,
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
    segments: SegmentList<P>,
    start: Cell<Offset>,
    end: Cell<Offset>,
    written: Cell<Offset>,
    durable: Cell<Offset>,
    high_watermark: Cell<Offset>,
    /// Everything below is durable in sealed segments, or indexed and covered by a producer snapshot.
    recovery_point: Cell<Offset>,
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
        self.start.get()
    }

    /// Offset that the next record will get.
    pub fn log_end_offset(&self) -> Offset {
        self.end.get()
    }

    /// Everything below has been written: it survives a killed process.
    pub fn written_offset(&self) -> Offset {
        self.written.get()
    }

    /// Everything below has been synced: it survives the loss of power.
    pub fn durable_offset(&self) -> Offset {
        self.durable.get()
    }

    /// Everything below is as safe as the log's durability asks of one node.
    pub fn committed_offset(&self) -> Offset {
        match self.options.borrow().durability {
            Durability::Synced => self.durable.get(),
            Durability::Replicated => self.written.get(),
        }
    }

    /// The high watermark that the owner has set last.
    pub fn high_watermark(&self) -> Offset {
        self.high_watermark.get()
    }

    /// Says up to where records are committed: retention deletes nothing beyond, and transactions whose marker lies
    /// below become stable. It may lag and never falls, save by truncation.
    pub fn set_high_watermark(&self, offset: Offset) {
        let offset = offset.min(self.end.get()).max(self.high_watermark.get());
        assert!(
            self.start.get() <= offset && offset <= self.end.get(),
            "the high watermark is in the log"
        );
        if offset > self.high_watermark.replace(offset) {
            self.producers.borrow_mut().advance_high_watermark(offset);
        }
    }

    /// The first offset of a transaction that is not decided for every reader, or else the log end offset. The last
    /// stable offset is this or the high watermark, whichever is less.
    pub fn stable_offset(&self) -> Offset {
        self.producers
            .borrow()
            .first_unstable_offset()
            .unwrap_or(self.end.get())
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

    /// Bytes that are in memory only.
    pub fn unwritten_bytes(&self) -> u64 {
        let segments = self.segments.all();
        segments
            .iter()
            .rev()
            .take_while(|segment| !segment.is_sealed())
            .map(|segment| segment.size() - segment.written())
            .fold(0, u64::saturating_add)
    }

    /// How many segments there are.
    pub fn segment_count(&self) -> usize {
        self.segments.len()
    }

    /// The end of the largest epoch that is not above `epoch`, as `OffsetForLeaderEpoch` answers it; (-1, -1) when the
    /// log cannot say.
    pub fn epoch_end(&self, epoch: LeaderEpoch) -> (LeaderEpoch, Offset) {
        let found = self.epochs.borrow().end_offset_for(epoch, self.end.get());
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
        if self.epochs.borrow_mut().assign(epoch, self.end.get()) {
            self.epochs_dirty.set(true);
            self.check_cheap();
            self.request_flush();
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

    /// Judges a transaction marker by what its producer did before.
    pub fn check_marker(
        &self,
        header: &BatchHeader,
        marker: EndMarker,
    ) -> Result<(), ProducerError> {
        self.producers.borrow().check_marker(header, marker)
    }

    /// True when the producer has a transaction open here, in this epoch.
    pub fn is_in_transaction(&self, producer_id: ProducerId, epoch: i16) -> bool {
        let producers = self.producers.borrow();
        producers.is_in_transaction(producer_id, epoch)
    }

    /// True when there are batches or markers of the producer here, or were until lately.
    pub fn knows_producer(&self, producer_id: ProducerId) -> bool {
        self.producers.borrow().knows(producer_id)
    }

    /// The producers that are known, as `DescribeProducers` tells of them.
    pub fn producers(&self) -> Vec<ProducerSnapshot> {
        self.producers.borrow().snapshot()
    }

    /// The largest id below `limit` of a producer that is known.
    pub fn largest_producer_below(&self, limit: ProducerId) -> Option<ProducerId> {
        self.producers.borrow().largest_below(limit)
    }

    /// Forgets producers that have been idle for too long; says how many.
    pub fn expire_producers(&self, now: impl Into<Reading>) -> usize {
        let expiration_ms = self.options.borrow().producer_id_expiration_ms;
        self.producers.borrow_mut().expire(now, expiration_ms)
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

    /// Refuses what a log that failed half-way must not be asked for: it does not agree with itself.
    pub(super) fn refuse_beyond_repair(&self) -> Result<()> {
        match self.failed() {
            Some(error) if self.is_beyond_repair() => Err(error),
            _ => Ok(()),
        }
    }

    /// True when there is no point in writing any more.
    pub(crate) fn is_beyond_repair(&self) -> bool {
        let condition = self.condition.borrow();
        matches!(&*condition, Condition::Failed(_) | Condition::Closed) || self.health.is_failed()
    }

    pub(crate) fn enter_full(&self, error: Error) {
        let mut condition = self.condition.borrow_mut();
        match &mut *condition {
            // It is told once; what it is short of may change.
            Condition::Full(known) => *known = error,
            Condition::Open => {
                tracing::debug!(partition = %self.partition, %error, "appends are refused");
                self.health.enter_full(&self.dir, &error);
                *condition = Condition::Full(error);
                drop(condition);
                self.tell();
            }
            Condition::Failed(_) | Condition::Closed => {}
        }
    }

    pub(crate) fn leave_full(&self) {
        let mut condition = self.condition.borrow_mut();
        if matches!(&*condition, Condition::Full(_)) {
            *condition = Condition::Open;
            drop(condition);
            tracing::debug!(partition = %self.partition, "appends are taken again");
            self.health.leave_full(&self.dir);
            self.tell();
        }
    }

    /// Leaves the state that it is in for good.
    fn become_finally(&self, last: Condition) {
        assert!(
            matches!(last, Condition::Failed(_) | Condition::Closed),
            "there is a way back from the others"
        );
        let before = self.condition.replace(last);
        self.refuses_no_more();
        if matches!(before, Condition::Full(_)) {
            self.health.end_full();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        matches!(&*self.condition.borrow(), Condition::Closed)
    }

    /// What it has to say in the checkpoints.
    pub fn points(&self) -> LogPoints {
        LogPoints {
            topic_partition: self.partition.clone(),
            recovery_point: self.recovery_point.get(),
            log_start: self.start.get(),
            high_watermark: self.high_watermark.get(),
            compacted: self.compaction.compacted(),
        }
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

    /// Completes at the next progress.
    pub(crate) async fn progressed(&self) {
        self.progress.notified().await;
    }

    /// True when nobody writes to the segments' files.
    pub(crate) fn may_write_now(&self) -> bool {
        self.writing.available_permits() > 0
    }

    /// Whether something is being done to the log's files that the next upkeep waits for.
    pub fn is_under_upkeep(&self) -> bool {
        self.upkeep.gate.available_permits() == 0
    }

    /// The right to write to the segments' files, until it is dropped.
    pub(crate) async fn may_write(&self) -> Result<SemaphorePermit<'_>> {
        self.writing.acquire().await.map_err(|_| Error::Closed)
    }

    /// The segments that may have bytes to be written or synced, oldest first.
    pub(crate) fn unsealed_segments(&self) -> Vec<Rc<Segment<P>>> {
        self.segments.unsealed()
    }

    /// True when it advanced.
    pub(crate) fn advance_written(&self, to: Offset) -> bool {
        assert!(to <= self.end.get(), "only what was appended is written");
        to > self.written.replace(to.max(self.written.get()))
    }

    pub(crate) fn advance_durable(&self, to: Offset) {
        assert!(to <= self.written.get(), "only what was written is synced");
        self.durable.set(to.max(self.durable.get()));
    }

    /// Everything below `to` is durable, and a start need not read it again.
    fn advance_recovery_point(&self, to: Offset) {
        assert!(
            to <= self.durable.get(),
            "only what is durable is not read again"
        );
        self.recovery_point.set(to.max(self.recovery_point.get()));
    }

    pub(crate) fn has_unsaved_epochs(&self) -> bool {
        self.epochs_dirty.get()
    }

    /// What the leader epochs' file should hold, if it does not hold it yet.
    pub(crate) fn take_unsaved_epochs(&self) -> Option<Vec<u8>> {
        let dirty = self.epochs_dirty.replace(false);
        dirty.then(|| leader_epochs::encode(self.epochs.borrow().entries()))
    }

    pub(crate) fn epochs_not_saved(&self) {
        self.epochs_dirty.set(true);
    }

    fn index_options(&self) -> IndexOptions {
        let options = self.options.borrow();
        IndexOptions {
            interval_bytes: options.index_interval_bytes,
            bytes_max: options.index_bytes_max,
        }
    }

    pub(crate) fn active(&self) -> Rc<Segment<P>> {
        self.segments.active()
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
        self.become_finally(Condition::Failed(error.latched()));
        self.fail_dir(error);
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
