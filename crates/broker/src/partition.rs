//! One partition that this shard leads: its log, its leader epoch and its high watermark.
//!
//! `partition/producing.rs` decides when an append is refused and when it counts as acknowledged,
//! this file up to which offset a reader may read. The high watermark follows what is durable
//! (`durability=synced`) or written (`replicated`) on the in-sync replicas, which today are this
//! node only; it never decreases.
//!
//! Not here: offsets of segments, files, flushing (`storage`), requests (`handler`).

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use platform::clock::Instant;
use platform::sync::Notify;
use platform::task::timeout_at;
use platform::{Clock, Platform};
use prometheus_client::metrics::gauge::Gauge;
use storage::log::producer_state::Origin;
use storage::{Log, Observer, Stamp};
use wire::batch::WholeBatch;
use wire::batch::builder::BatchBuilder;
use wire::types::{ErrorCode, LeaderEpoch, Offset, TimestampMs, TopicId, TopicPartition};

use crate::changes::Changes;
use crate::error::{AppendError, error_code};
use crate::metrics::{Metrics, TopicMetrics};
use crate::purgatory::{Registration, Waiter, Waiters};
use crate::topic_config::TopicConfig;
use crate::transaction::Ending;

mod producing;
mod verifying;

pub(crate) use producing::JudgingError;
pub use producing::{AcceptedAppend, Acks};
use verifying::VerificationGuards;
pub(crate) use verifying::{Guard, TransactionProof};

/// Failed reads for each log line.
const FAILED_READS_PER_LINE: u64 = 1000;

/// A partition led by this shard.
pub struct Partition<P: Platform> {
    /// Its topic's id.
    pub topic_id: TopicId,
    /// Its topic and index.
    pub name: TopicPartition,
    /// Its records.
    pub log: Rc<Log<P>>,
    leader_epoch: Cell<LeaderEpoch>,
    high_watermark: Cell<Offset>,
    config: RefCell<Arc<TopicConfig>>,
    closed: Cell<bool>,
    /// True if it takes no more appends, but still acknowledges those that it has.
    leaving: Cell<bool>,
    /// True if it counts in `offline_partitions`: this shard leads it, but its log takes no
    /// appends.
    offline: Cell<bool>,
    offline_partitions: Gauge,
    progress: Notify,
    /// Fetches that wait for the high watermark, and for the last stable offset.
    waiting: [Waiters; 2],
    verifying: RefCell<VerificationGuards>,
    /// The first unstable offset, and since when it has been the first.
    unstable: Cell<Option<(Offset, Instant)>>,
    /// Number of failed reads.
    failed_reads: Cell<u64>,
    /// Where its changes are counted.
    changes: (Rc<Changes>, usize),
    pub(crate) metrics: TopicMetrics,
}

/// How far a reader may read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isolation {
    /// Up to the high watermark.
    ReadUncommitted,
    /// Up to the last stable offset.
    ReadCommitted,
}

impl Isolation {
    /// Returns the isolation level of a request.
    pub fn from_wire(level: i8) -> Self {
        if level == 1 {
            Self::ReadCommitted
        } else {
            Self::ReadUncommitted
        }
    }
}

impl<P: Platform> Partition<P> {
    /// Leads `log` in `epoch`.
    ///
    /// The high watermark starts at the committed offset of the log: a log that was just opened
    /// holds only records that survived, so all of them are readable.
    pub(crate) fn lead(
        topic_id: TopicId,
        name: TopicPartition,
        log: Rc<Log<P>>,
        epoch: LeaderEpoch,
        config: Arc<TopicConfig>,
        (metrics, changes): (&Metrics, &Rc<Changes>),
    ) -> Rc<Self> {
        log.start_epoch(epoch);
        let place = Changes::place_of((topic_id, name.partition));
        let partition = Rc::new(Self {
            topic_id,
            metrics: metrics.topic(&name.topic),
            offline: Cell::new(false),
            offline_partitions: metrics.offline_partitions.clone(),
            name,
            leader_epoch: Cell::new(epoch),
            high_watermark: Cell::new(log.log_start_offset()),
            config: RefCell::new(config),
            closed: Cell::new(false),
            leaving: Cell::new(false),
            progress: Notify::new(),
            waiting: Default::default(),
            verifying: RefCell::default(),
            unstable: Cell::new(None),
            failed_reads: Cell::new(0),
            changes: (Rc::clone(changes), place),
            log,
        });
        let observer: Weak<Self> = Rc::downgrade(&partition);
        partition.log.observe(observer);
        partition.advance_high_watermark();
        partition.count_offline();
        partition.count_change();
        partition
    }

    /// Returns the epoch of this leadership.
    pub fn leader_epoch(&self) -> LeaderEpoch {
        self.leader_epoch.get()
    }

    /// Returns by how much this leadership's epoch must be raised to be later than all epochs in
    /// the log; `None` if it is.
    pub(crate) fn epochs_behind(&self) -> Option<(TopicPartition, i32)> {
        let logged = self.log.latest_epoch()?;
        let by = logged.0.saturating_sub(self.leader_epoch.get().0);
        (by > 0).then(|| (self.name.clone(), by.saturating_add(1)))
    }

    /// Begins a new leadership of the same log.
    pub fn advance_epoch(&self, epoch: LeaderEpoch) {
        if epoch > self.leader_epoch.get() {
            self.leader_epoch.set(epoch);
            self.log.start_epoch(epoch);
            // Wakes fetches that wait for a leader of another epoch, so that they get the error
            // now.
            self.alarm();
        }
    }

    /// Returns the high watermark, up to which every reader may read.
    pub fn high_watermark(&self) -> Offset {
        self.high_watermark.get()
    }

    /// Returns the offset up to which a reader with this isolation may read.
    pub fn readable_end(&self, isolation: Isolation) -> Offset {
        match isolation {
            Isolation::ReadUncommitted => self.high_watermark.get(),
            Isolation::ReadCommitted => self.log.stable_offset().min(self.high_watermark.get()),
        }
    }

    /// Returns the topic's current settings.
    pub fn config(&self) -> Arc<TopicConfig> {
        Arc::clone(&self.config.borrow())
    }

    /// Applies changed settings.
    pub fn reconfigure(&self, config: Arc<TopicConfig>) {
        self.log.set_options(config.log_options());
        *self.config.borrow_mut() = config;
        self.progressed();
    }

    /// Checks the leader epoch of a client: an older one is fenced, a newer one is not known here
    /// yet.
    pub fn check_epoch(&self, claimed: LeaderEpoch) -> Result<(), ErrorCode> {
        let current = self.leader_epoch.get();
        if claimed < LeaderEpoch(0) || claimed == current {
            Ok(())
        } else if claimed < current {
            Err(ErrorCode::FencedLeaderEpoch)
        } else {
            Err(ErrorCode::UnknownLeaderEpoch)
        }
    }

    /// Returns where a client's log diverges from this one: its last record has epoch
    /// `last_fetched`, and it continues at `from`.
    pub fn divergence(
        &self,
        last_fetched: LeaderEpoch,
        from: Offset,
    ) -> Result<Option<(LeaderEpoch, Offset)>, ErrorCode> {
        if last_fetched < LeaderEpoch(0) {
            return Ok(None);
        }
        let (epoch, end) = self.log.epoch_end(last_fetched);
        if epoch < LeaderEpoch(0) || end < Offset::ZERO {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        Ok((epoch < last_fetched || end < from).then_some((epoch, end)))
    }

    /// Returns true once this shard no longer leads it.
    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Appends the marker that ends a transaction. Decides and copies; does not wait.
    pub(crate) fn end_transaction(
        &self,
        ending: Ending,
        clock: &Clock,
    ) -> Result<AcceptedAppend, AppendError> {
        self.takes_appends()?;
        if ending.raises_epoch && self.is_in_transaction(ending.producer_id, ending.epoch) {
            return Err(ErrorCode::InvalidProducerEpoch.into());
        }
        let now_ms = clock.wall_ms();
        let (key, value) = ending.marker.encode();
        let builder = BatchBuilder::new(Offset::ZERO, self.leader_epoch.get());
        let builder = builder.transactional(true).control(true);
        let mut builder = builder.producer(ending.producer_id, ending.epoch, -1);
        builder.add(TimestampMs(now_ms), Some(&key), Some(&value), &[]);
        let batch = builder
            .finish_whole()
            .map_err(|_| ErrorCode::UnknownServerError)?;
        self.log
            .producer_states()
            .check_marker(batch.header(), ending.marker)?;
        let accepted = self.append_own(&batch, now_ms)?;
        self.verifying.borrow_mut().end(ending.producer_id);
        Ok(accepted)
    }

    /// Appends a group coordinator's batch on behalf of a transactional producer. Decides and
    /// copies; does not wait.
    pub(crate) fn append_for_producer(
        &self,
        batch: &WholeBatch,
        verified: TransactionProof,
        clock: &Clock,
    ) -> Result<AcceptedAppend, AppendError> {
        self.takes_appends()?;
        if batch.size_bytes() > self.config().max_message_bytes {
            return Err(ErrorCode::MessageTooLarge.into());
        }
        let header = batch.header();
        self.log.check_producer(header, Origin::Coordinator)?;
        self.check_verified(header, verified)?;
        let accepted = self.append_own(batch, clock.wall_ms())?;
        self.note_opened(header);
        Ok(accepted)
    }

    fn append_own(&self, batch: &WholeBatch, now_ms: i64) -> Result<AcceptedAppend, AppendError> {
        let stamp = Stamp {
            leader_epoch: self.leader_epoch.get(),
            log_append_time: None,
        };
        let appended = self.log.append(batch, stamp, now_ms)?;
        Ok(AcceptedAppend {
            base_offset: appended.base_offset,
            last_offset: appended.last_offset,
            log_append_time: TimestampMs::NONE,
            work_bytes: batch.size_bytes(),
        })
    }

    /// Waits until the outcome of an append is known.
    ///
    /// It is committed, or only the next reading of the log can tell, because the log failed
    /// permanently or is no longer led here. A log without room holds the accepted append and
    /// writes it when there is room: this waits for that without a limit, in a task that does not
    /// end with the client.
    pub(crate) async fn fate(&self, accepted: AcceptedAppend) -> Result<(), ErrorCode> {
        let end = accepted.last_offset.plus(1);
        loop {
            // Registered before the check, so that no progress is missed in between.
            let progress = self.progress.notified();
            if self.high_watermark.get() >= end {
                return Ok(());
            }
            if self.closed.get() {
                return Err(ErrorCode::NotLeaderOrFollower);
            }
            if self.log.failed().is_some_and(|error| !error.is_passing()) {
                return Err(ErrorCode::KafkaStorageError);
            }
            progress.await;
        }
    }

    /// Waits until the high watermark reaches the current log end offset, the log has failed, the
    /// leadership has ended or the deadline passes.
    ///
    /// An append with `acks=1` is acknowledged before that; a client that then requests offsets of
    /// the partition relies on it.
    pub(crate) async fn settled(&self, deadline: Instant) {
        let end = self.log.log_end_offset();
        loop {
            // Registered before the check, so that no progress is missed in between.
            let progress = self.progress.notified();
            let stuck = self.closed.get() || self.log.failed().is_some();
            if self.high_watermark.get() >= end || stuck {
                return;
            }
            if timeout_at(deadline, progress).await.is_err() {
                return;
            }
        }
    }

    /// Refuses new appends; requests that wait for theirs continue to wait.
    pub(crate) fn leave(&self) {
        self.leaving.set(true);
    }

    /// Accepts appends again.
    pub(crate) fn stay(&self) {
        self.leaving.set(false);
    }

    /// Ends the leadership, and wakes all requests that wait here.
    pub fn resign(&self) {
        self.closed.set(true);
        self.progressed();
        self.alarm();
    }

    /// Returns the number of fetches that wait here for more bytes.
    pub fn waiting_fetches(&self) -> usize {
        self.waiting
            .iter()
            .map(Waiters::count)
            .fold(0, usize::saturating_add)
    }

    /// Wakes `waiter`, which calls this partition `name`, once `bytes` more can be read at this
    /// isolation.
    ///
    /// With `None`, only a change of the partition's state wakes it.
    pub(crate) fn wake(
        &self,
        waiter: &Rc<Waiter>,
        name: usize,
        bytes: Option<u64>,
        isolation: Isolation,
    ) -> Registration {
        let end = self.readable_end(isolation);
        let between = |from, to| self.log.available_bytes(from, to, usize::MAX);
        self.waiting_at(isolation)
            .register(waiter, name, bytes, end, between)
    }

    fn waiting_at(&self, isolation: Isolation) -> &Waiters {
        let [committed, stable] = &self.waiting;
        match isolation {
            Isolation::ReadUncommitted => committed,
            Isolation::ReadCommitted => stable,
        }
    }

    fn alarm(&self) {
        self.waiting.iter().for_each(Waiters::alarm);
        self.count_change();
    }

    /// Counts a change after it was made, for fetches that remember what they found.
    fn count_change(&self) {
        let (changes, place) = &self.changes;
        changes.count(*place);
    }

    /// Updates the count of offline partitions. The log itself logs, once, what happened to it.
    fn count_offline(&self) {
        let offline = !self.closed.get() && self.log.failed().is_some();
        match (self.offline.replace(offline), offline) {
            (false, true) => {
                self.offline_partitions.inc();
            }
            (true, false) => {
                self.offline_partitions.dec();
            }
            _ => {}
        }
    }

    /// Returns true if the same transaction has held back readers of committed records for longer
    /// than `longest`, as observed by these calls.
    pub(crate) fn has_late_transaction(&self, now: Instant, longest: Duration) -> bool {
        let first = self.log.stable_offset();
        if first >= self.high_watermark.get() {
            self.unstable.set(None);
            return false;
        }
        let known = self.unstable.get().filter(|(offset, _)| *offset == first);
        let (_, since) = known.unwrap_or((first, now));
        self.unstable.set(Some((first, since)));
        now.saturating_duration_since(since) > longest
    }

    /// Logs why a read failed, and returns Kafka's error for it.
    pub(crate) fn storage_error(&self, error: &storage::Error) -> ErrorCode {
        // Clients retry immediately, and without end.
        let before = self.failed_reads.get();
        self.failed_reads.set(before.wrapping_add(1));
        if before.is_multiple_of(FAILED_READS_PER_LINE) {
            tracing::error!(partition = %self.name, %error, failed_before = before, "reading failed");
        }
        error_code(error)
    }
}
