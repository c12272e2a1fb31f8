//! One partition that this shard leads: its log, its leader epoch and its high watermark.
//!
//! Rules kept here and nowhere else: when an append is refused, when it counts as acknowledged, up to where a reader
//! may read. The high watermark follows what is durable (`durability=synced`) or written (`replicated`) on the
//! in-sync replicas, which today is this node alone; it never goes back.
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
use storage::log::producer_state::{Origin, ProducerCheck};
use storage::{Appended, Log, Observer, Stamp};
use wire::batch::builder::BatchBuilder;
use wire::batch::{BatchHeader, WholeBatch};
use wire::types::{
    ErrorCode, LeaderEpoch, Offset, ProducerId, TimestampMs, TopicId, TopicPartition,
};

use crate::error::{AppendError, error_code};
use crate::metrics::{Metrics, TopicMetrics};
use crate::purgatory::{Registration, Waiter, Waiters};
use crate::topic_config::TopicConfig;
use crate::transaction::Ending;

mod judging;
mod verifying;

pub(crate) use judging::{Judge, Judged, Unjudged};
use verifying::Verifying;
pub(crate) use verifying::{Guard, Verified};

/// Of so many reads that fail one is told of.
const FAILED_READS_PER_LINE: u64 = 1000;

/// A partition led by this shard.
pub struct Partition<P: Platform> {
    /// Its topic's id.
    pub topic_id: TopicId,
    /// Its name.
    pub name: TopicPartition,
    /// Its records.
    pub log: Rc<Log<P>>,
    leader_epoch: Cell<LeaderEpoch>,
    high_watermark: Cell<Offset>,
    config: RefCell<Arc<TopicConfig>>,
    closed: Cell<bool>,
    /// It takes no more appends, and acknowledges those that it has.
    leaving: Cell<bool>,
    /// Counted in `offline_partitions`: it leads, and its log takes no appends.
    offline: Cell<bool>,
    offline_partitions: Gauge,
    progress: Notify,
    /// Fetches that wait for the high watermark, and for the last stable offset.
    waiting: [Waiters; 2],
    verifying: RefCell<Verifying>,
    /// The first offset that is not stable, and since when it has been that one.
    unstable: Cell<Option<(Offset, Instant)>>,
    /// Reads that failed.
    failed_reads: Cell<u64>,
    pub(crate) metrics: TopicMetrics,
}

/// How far an append must have come before it is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acks {
    /// Not answered at all.
    None,
    /// The write has completed: it survives a killed process.
    Leader,
    /// At or below the high watermark: it survives what the topic's durability promises.
    All,
}

/// What a producer is told of an accepted append.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Accepted {
    /// Offset of the first record.
    pub base_offset: Offset,
    /// Offset of the last record.
    pub last_offset: Offset,
    /// Append time of topics that use it, else none; of a duplicate the time that its first copy has.
    pub log_append_time: TimestampMs,
    /// What judging it took: bytes of records, decompressed, and more for those that got another codec.
    pub work_bytes: usize,
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
    /// The isolation level's number in requests.
    pub fn from_wire(level: i8) -> Self {
        if level == 1 {
            Self::ReadCommitted
        } else {
            Self::ReadUncommitted
        }
    }
}

impl<P: Platform> Partition<P> {
    /// Leads `log` in `epoch`. `checkpointed` is the last high watermark known, used where it is ahead of nothing
    /// else: a log that was just opened holds only records that survived, so all of them are readable.
    pub fn lead(
        topic_id: TopicId,
        name: TopicPartition,
        log: Rc<Log<P>>,
        epoch: LeaderEpoch,
        config: Arc<TopicConfig>,
        metrics: &Metrics,
    ) -> Rc<Self> {
        log.start_epoch(epoch);
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
            log,
        });
        let observer: Weak<Self> = Rc::downgrade(&partition);
        partition.log.observe(observer);
        partition.advance_high_watermark();
        partition.count_offline();
        partition
    }

    /// The epoch of this leadership.
    pub fn leader_epoch(&self) -> LeaderEpoch {
        self.leader_epoch.get()
    }

    /// By how much this leadership's epoch has to be raised to be later than all in the log; none where it is.
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
            // Who waits for the leader of another epoch is told so now.
            self.alarm();
        }
    }

    /// End of what every reader may see.
    pub fn high_watermark(&self) -> Offset {
        self.high_watermark.get()
    }

    /// End of what a reader at this isolation may see.
    pub fn readable_end(&self, isolation: Isolation) -> Offset {
        match isolation {
            Isolation::ReadUncommitted => self.high_watermark.get(),
            Isolation::ReadCommitted => self.log.stable_offset().min(self.high_watermark.get()),
        }
    }

    /// The topic's settings as they are now.
    pub fn config(&self) -> Arc<TopicConfig> {
        Arc::clone(&self.config.borrow())
    }

    /// Puts changed settings into force.
    pub fn reconfigure(&self, config: Arc<TopicConfig>) {
        self.log.set_options(config.log_options());
        *self.config.borrow_mut() = config;
        self.progressed();
    }

    /// Checks the epoch that a client believes in: an older one is fenced, a newer one is not known here yet.
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

    /// Where the log of a client whose last record is of `last_fetched` and that goes on at `from` parts from ours.
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

    /// True once this shard no longer leads it.
    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Appends what a producer sent. Decides and copies; does not wait, so that appends keep the order of calls.
    /// However much it is, it is judged here and now.
    ///
    /// `min.insync.replicas` cannot refuse here: it counts no more replicas than a partition has, which is one.
    pub fn append(&self, batch: &WholeBatch, clock: &Clock) -> Result<Accepted, AppendError> {
        let now_ms = clock.wall_ms();
        let judged = self.judge(now_ms)?.whole(batch)?;
        self.take(judged, Verified::Unasked, now_ms)
    }

    /// How batches are judged now, before [`Partition::take`].
    pub(crate) fn judge(&self, now_ms: i64) -> Result<Judge, AppendError> {
        // Before any look at sequences: what a failed log refuses leaves a gap that is not the producer's.
        self.takes_appends()?;
        Ok(Judge::new(self.config(), now_ms))
    }

    /// Appends a batch that was judged, here or elsewhere, of a producer of whom the coordinator may have been asked: what
    /// was true then is looked at again.
    pub(crate) fn take(
        &self,
        judged: Judged,
        verified: Verified,
        now_ms: i64,
    ) -> Result<Accepted, AppendError> {
        self.takes_appends()?;
        let config = self.config();
        let header = *judged.header();
        match self.log.check_producer(&header, Origin::Client)? {
            ProducerCheck::New => {}
            ProducerCheck::Duplicate(before) => {
                return Ok(Accepted {
                    base_offset: before.base_offset(),
                    last_offset: before.last_offset,
                    log_append_time: before.timestamp,
                    work_bytes: judged.walked_bytes(),
                });
            }
        }
        self.check_verified(&header, verified)?;
        let (produced, work_bytes) = judged.recoded(&config)?;
        // As it is written: the topic's codec may make more of it.
        if produced.batch.size_bytes() > config.segment_bytes() {
            return Err(ErrorCode::RecordListTooLarge.into());
        }
        let log_append_time = config.log_append_time.then_some(TimestampMs(now_ms));
        let stamp = Stamp {
            leader_epoch: self.leader_epoch.get(),
            log_append_time,
        };
        let Appended {
            base_offset,
            last_offset,
            ..
        } = self.log.append(&produced.batch, stamp, now_ms)?;
        assert!(
            base_offset <= last_offset,
            "a batch has a first and a last record"
        );
        self.note_opened(produced.batch.header());
        let log_append_time = log_append_time.unwrap_or(TimestampMs::NONE);
        Ok(Accepted {
            base_offset,
            last_offset,
            log_append_time,
            work_bytes,
        })
    }

    /// True when the producer has a transaction open here, in this epoch.
    pub(crate) fn is_in_transaction(&self, producer_id: ProducerId, epoch: i16) -> bool {
        self.log
            .producer_states()
            .is_in_transaction(producer_id, epoch)
    }

    pub(crate) fn knows_producer(&self, producer_id: ProducerId) -> bool {
        self.log.producer_states().knows_producer(producer_id)
    }

    /// Says that the coordinator is about to be asked for a producer.
    pub(crate) fn ask_for(&self, producer_id: ProducerId, epoch: i16) -> Guard {
        self.verifying.borrow_mut().ask(producer_id, epoch)
    }

    fn check_verified(&self, header: &BatchHeader, verified: Verified) -> Result<(), AppendError> {
        let (id, epoch) = (header.producer_id, header.producer_epoch);
        let stands = match verified {
            _ if !header.is_transactional() => true,
            Verified::Unasked => true,
            Verified::By(guard) if self.verifying.borrow().stands(id, epoch, guard) => true,
            Verified::Open | Verified::By(_) => self.is_in_transaction(id, epoch),
        };
        if stands {
            return Ok(());
        }
        Err(AppendError {
            message: Some("the transaction has ended meanwhile".to_owned()),
            ..ErrorCode::InvalidTxnState.into()
        })
    }

    fn note_opened(&self, header: &BatchHeader) {
        if header.is_transactional() {
            self.verifying.borrow_mut().end(header.producer_id);
        }
    }

    /// Appends the marker that ends a transaction. Decides and copies; does not wait.
    pub(crate) fn end_transaction(
        &self,
        ending: Ending,
        clock: &Clock,
    ) -> Result<Accepted, AppendError> {
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

    /// Appends a batch of a group coordinator in the name of a transactional producer. Decides and copies; does not
    /// wait.
    pub(crate) fn append_for_producer(
        &self,
        batch: &WholeBatch,
        verified: Verified,
        clock: &Clock,
    ) -> Result<Accepted, AppendError> {
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

    fn append_own(&self, batch: &WholeBatch, now_ms: i64) -> Result<Accepted, AppendError> {
        let stamp = Stamp {
            leader_epoch: self.leader_epoch.get(),
            log_append_time: None,
        };
        let appended = self.log.append(batch, stamp, now_ms)?;
        Ok(Accepted {
            base_offset: appended.base_offset,
            last_offset: appended.last_offset,
            log_append_time: TimestampMs::NONE,
            work_bytes: batch.size_bytes(),
        })
    }

    /// Waits until an append has come as far as `acks` asks, the log has failed, or time is up.
    pub async fn acknowledged(
        &self,
        accepted: Accepted,
        acks: Acks,
        deadline: Instant,
    ) -> Result<(), ErrorCode> {
        let end = accepted.last_offset.plus(1);
        let reached = || match acks {
            Acks::None => true,
            Acks::Leader => self.log.written_offset() >= end,
            Acks::All => self.high_watermark.get() >= end,
        };
        loop {
            // Registered before the question is asked, so that no progress falls between the two.
            let progress = self.progress.notified();
            if reached() {
                return Ok(());
            }
            if self.log.failed().is_some() {
                return Err(ErrorCode::KafkaStorageError);
            }
            if self.closed.get() {
                return Err(ErrorCode::NotLeaderOrFollower);
            }
            if timeout_at(deadline, progress).await.is_err() {
                return Err(ErrorCode::RequestTimedOut);
            }
        }
    }

    /// Waits until it is known what has become of an append: committed, or for the next reading of the log to tell,
    /// because the log failed for good or is not led here any more. A log without room keeps what it has taken and
    /// writes it when there is some: that is waited for, however long it takes, by a task that nobody's leaving ends.
    pub(crate) async fn fate(&self, accepted: Accepted) -> Result<(), ErrorCode> {
        let end = accepted.last_offset.plus(1);
        loop {
            // Registered before the question is asked, so that no progress falls between the two.
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

    /// Waits until readers may see everything that is in the log now, the log has failed, the leadership has ended or
    /// time is up. An append with `acks=1` is acknowledged before that; who asks afterwards how far the partition
    /// goes counts on it.
    pub(crate) async fn settled(&self, deadline: Instant) {
        let end = self.log.log_end_offset();
        loop {
            // Registered before the question is asked, so that no progress falls between the two.
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

    /// Takes no more appends; those who wait for theirs go on waiting.
    pub(crate) fn leave(&self) {
        self.leaving.set(true);
    }

    /// Takes appends again.
    pub(crate) fn stay(&self) {
        self.leaving.set(false);
    }

    fn takes_appends(&self) -> Result<(), AppendError> {
        if self.closed.get() || self.leaving.get() {
            return Err(ErrorCode::NotLeaderOrFollower.into());
        }
        match self.log.failed() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    /// Ends the leadership: those who wait are told.
    pub fn resign(&self) {
        self.closed.set(true);
        self.progressed();
        self.alarm();
    }

    /// Fetches that wait here for more to read.
    pub fn waiting_fetches(&self) -> usize {
        self.waiting
            .iter()
            .map(Waiters::count)
            .fold(0, usize::saturating_add)
    }

    /// Wakes `waiter`, which calls this partition `name`, once `bytes` more can be read at this isolation; `None`: only
    /// when the partition is not what it was.
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
    }

    fn advance_high_watermark(&self) {
        let safe = self.log.committed_offset();
        assert!(safe <= self.log.log_end_offset(), "it is in the log");
        if safe > self.high_watermark.get() {
            self.high_watermark.set(safe);
            self.log.set_high_watermark(safe);
        }
    }

    /// The log says itself, once, what happened to it.
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

    /// True when the same transaction has held back readers of committed records for longer than `longest`, as far as
    /// the calls tell.
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

    /// Says why a read failed, and gives Kafka's code for it.
    pub(crate) fn storage_error(&self, error: &storage::Error) -> ErrorCode {
        // Clients ask again at once, and for ever.
        let before = self.failed_reads.get();
        self.failed_reads.set(before.wrapping_add(1));
        if before.is_multiple_of(FAILED_READS_PER_LINE) {
            tracing::error!(partition = %self.name, %error, failed_before = before, "reading failed");
        }
        error_code(error)
    }
}

impl<P: Platform> Observer for Partition<P> {
    fn progressed(&self) {
        self.advance_high_watermark();
        self.count_offline();
        self.progress.notify_waiters();
        for isolation in [Isolation::ReadUncommitted, Isolation::ReadCommitted] {
            let waiting = self.waiting_at(isolation);
            if waiting.count() > 0 {
                let between = |from, to| self.log.available_bytes(from, to, usize::MAX);
                waiting.advance(self.readable_end(isolation), between);
            }
        }
    }
}
