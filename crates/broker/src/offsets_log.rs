//! The group coordinator's access to `__consumer_offsets`: append and wait, load at start.
//!
//! Invariants: an append ends when it is at or below the high watermark, however long that takes,
//! so a group never acts on what a crash could take back. A partition is loaded from its log start
//! to its end before its groups are served. A partition whose groups could not be loaded, or whose
//! log was in doubt, is loaded again.

use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use platform::Platform;
use platform::task;
use storage::log::producer_state::{EndMarker, TransactionOutcome};
use wire::batch::BatchHeader;
use wire::batch::builder::BatchBuilder;
use wire::batch::record::records;
use wire::types::{ErrorCode, NodeId, Offset, ProducerId, TimestampMs};

use crate::Broker;
use crate::group::OffsetsLog;
use crate::group::cluster::MetadataView;
use crate::group::coordinator::{GroupAppendError, LoggedRecord, OpenTransactions};
use crate::image::Image;
use crate::names::OFFSETS_TOPIC;
use crate::partition::Partition;
use crate::replayed::each_batch;

/// The first and the longest pause before groups that are not served are loaded again.
const AGAIN_MIN: Duration = Duration::from_secs(1);
const AGAIN_MAX: Duration = Duration::from_mins(5);

const _: () = assert!(
    AGAIN_MIN.as_millis() < AGAIN_MAX.as_millis(),
    "a pause grows"
);

/// A partition, and the broker that leads it.
type LedPartition<P> = (Rc<Broker<P>>, Rc<Partition<P>>);

/// Appends to the offsets partitions of one shard.
pub struct PartitionOffsetsLog<P: Platform>(Weak<Broker<P>>);

impl<P: Platform> PartitionOffsetsLog<P> {
    pub(crate) fn new(broker: Weak<Broker<P>>) -> Self {
        Self(broker)
    }

    fn partition(&self, index: i32) -> Result<LedPartition<P>, ErrorCode> {
        let broker = self.0.upgrade().ok_or(ErrorCode::NotCoordinator)?;
        let id = broker
            .image()
            .topic_by_name(OFFSETS_TOPIC)
            .map(|topic| topic.id);
        let partition = broker.led((id.ok_or(ErrorCode::CoordinatorNotAvailable)?, index))?;
        Ok((broker, partition))
    }
}

impl<P: Platform> OffsetsLog for PartitionOffsetsLog<P> {
    type View = MetadataView;

    fn cluster(&self) -> MetadataView {
        let broker = self.0.upgrade();
        let node = broker
            .as_ref()
            .map_or(NodeId(-1), |broker| broker.options.node_id);
        let image = broker.map_or_else(|| Arc::new(Image::empty()), |broker| broker.image());
        MetadataView { image, node }
    }

    fn partition_count(&self) -> Option<i32> {
        let image = self.0.upgrade()?.image();
        let topic = image.topic_by_name(OFFSETS_TOPIC)?;
        Some(topic.partition_count())
    }

    fn owns(&self, partition: i32) -> bool {
        self.partition(partition).is_ok()
    }

    fn batch_bytes_max(&self, partition: i32) -> usize {
        // A partition that this shard does not lead takes no batch anyway.
        let led = self.partition(partition);
        led.map_or(usize::MAX, |(_, led)| led.config().max_message_bytes)
    }

    async fn append(
        &self,
        partition: i32,
        records: Vec<(Bytes, Option<Bytes>)>,
        now_ms: i64,
    ) -> Result<(), GroupAppendError> {
        let (broker, partition) = self
            .partition(partition)
            .map_err(GroupAppendError::Refused)?;
        let now = TimestampMs(now_ms);
        let mut batch = BatchBuilder::new(Offset::ZERO, partition.leader_epoch());
        for (key, value) in &records {
            batch.add(now, Some(key), value.as_deref(), &[]);
        }
        let batch = batch
            .finish_whole()
            .map_err(|_| GroupAppendError::Refused(ErrorCode::UnknownServerError))?;
        let accepted = partition.append(&batch, broker.platform.clock());
        let accepted = accepted.map_err(|error| GroupAppendError::Refused(error.code))?;
        // The wait does not hold the broker: a disk without room must not keep it from stopping.
        drop(broker);
        let fate = partition.fate(accepted).await;
        fate.map_err(|_| GroupAppendError::Unknown)
    }

    fn serve_again(&self, partition: i32, attempt: u32) {
        if let Ok((broker, partition)) = self.partition(partition) {
            let broker = Rc::downgrade(&broker);
            task::spawn(load_again(broker, Rc::downgrade(&partition), attempt));
        }
    }
}

/// Begins to load a partition's groups; requests for them get a retriable error until that is done.
pub(crate) fn begin_load<P: Platform>(broker: &Rc<Broker<P>>, partition: &Rc<Partition<P>>) {
    let incarnation = broker.groups.begin_load(partition.name.partition);
    task::spawn(load(Rc::clone(broker), Rc::clone(partition), incarnation));
}

async fn load<P: Platform>(broker: Rc<Broker<P>>, partition: Rc<Partition<P>>, incarnation: u64) {
    let index = partition.name.partition;
    let replayed = replay_all(&broker, &partition, incarnation).await;
    // If the partition was removed or loaded again meanwhile, this load must not finish it.
    if !broker.groups.is_here(index, incarnation) {
        return;
    }
    match replayed {
        Ok((count, open)) => {
            broker.groups.keep_open((index, incarnation), open);
            while broker.groups.load_some(index, incarnation) {
                task::yield_now().await;
            }
            if !broker.groups.is_here(index, incarnation) {
                return;
            }
            tracing::debug!(partition = %partition.name, records = count, "groups loaded");
            let loading = (index, incarnation);
            broker.groups.finish_load(loading, partition.leader_epoch());
        }
        Err(error) => {
            // Groups served from part of their records would lose commits.
            tracing::error!(partition = %partition.name, %error, "groups cannot be loaded");
            broker.groups.fail_load((index, incarnation));
        }
    }
}

/// Loads again the groups of a partition that are not served.
///
/// It waits until the log takes appends and everything it has taken is committed, so that nothing
/// is missed; the pause before each check grows with the attempts.
async fn load_again<P: Platform>(
    broker: Weak<Broker<P>>,
    partition: Weak<Partition<P>>,
    attempt: u32,
) {
    let pause = AGAIN_MIN * 2_u32.saturating_pow(attempt.saturating_sub(1).min(16));
    let pause = pause.min(AGAIN_MAX);
    loop {
        let Some(clock) = broker.upgrade().map(|it| it.platform.clock().clone()) else {
            return;
        };
        clock.sleep(pause).await;
        let (Some(broker), Some(partition)) = (broker.upgrade(), partition.upgrade()) else {
            return;
        };
        let index = partition.name.partition;
        if partition.is_closed() || !broker.groups.is_failed(index) {
            return;
        }
        let end = partition.log.log_end_offset();
        if partition.log.failed().is_none() && partition.high_watermark() >= end {
            tracing::info!(partition = %partition.name, attempt, "groups are loaded again");
            return begin_load(&broker, &partition);
        }
    }
}

async fn replay_all<P: Platform>(
    broker: &Broker<P>,
    partition: &Partition<P>,
    incarnation: u64,
) -> Result<(u64, OpenTransactions), LoadError> {
    let mut loading = OffsetsReplay {
        broker,
        index: partition.name.partition,
        incarnation,
        open: OpenTransactions::default(),
        count: 0,
    };
    each_batch(partition, |header, batch| loading.take(header, batch)).await?;
    Ok((loading.count, loading.open))
}

/// A partition whose records are being replayed.
struct OffsetsReplay<'a, P: Platform> {
    broker: &'a Broker<P>,
    index: i32,
    /// The number of this load: another load of the same partition has groups of its own.
    incarnation: u64,
    /// Records of transactions whose outcome is not known yet.
    open: OpenTransactions,
    count: u64,
}

impl<P: Platform> OffsetsReplay<'_, P> {
    fn take(&mut self, header: &BatchHeader, batch: &Bytes) -> Result<(), LoadError> {
        if !self.broker.groups.is_here(self.index, self.incarnation) {
            return Err(LoadError::Gone);
        }
        for record in records(batch)? {
            let record = record?;
            let Some(key) = record.key else { continue };
            if header.is_control() {
                let value = record.value.unwrap_or_default();
                if let Some(marker) = EndMarker::parse(&key, &value) {
                    self.end(header.producer_id, marker.outcome);
                }
                continue;
            }
            let written = LoggedRecord {
                key,
                value: record.value,
                offset: record.offset,
                timestamp: record.timestamp,
            };
            if header.is_transactional() {
                self.open.add(header.producer_id, written);
            } else {
                self.replay(&written);
            }
        }
        Ok(())
    }

    fn end(&mut self, producer: ProducerId, outcome: TransactionOutcome) {
        for written in self.open.end(producer, outcome) {
            self.replay(&written);
        }
    }

    fn replay(&mut self, written: &LoggedRecord) {
        let LoggedRecord {
            key,
            value,
            offset,
            timestamp,
        } = written;
        self.broker.groups.replay(
            (self.index, self.incarnation),
            key,
            value.as_ref(),
            *offset,
            *timestamp,
        );
        self.count += 1;
    }
}

/// Why groups cannot be loaded.
#[derive(Debug, thiserror::Error)]
enum LoadError {
    #[error(transparent)]
    Storage(#[from] storage::Error),
    #[error(transparent)]
    Batch(#[from] wire::error::BatchError),
    #[error("the partition has gone meanwhile, or come anew")]
    Gone,
}
