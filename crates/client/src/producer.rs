//! A producer: takes records, writes them in batches, and tells what became of each.
//!
//! `send` puts a record into a batch of its partition (`producer/queue.rs`); one task
//! (`producer/sender.rs`) sends what is due to the leaders. Decisions are pure: partitions
//! (`producer/partitioner.rs`), the order and sequences of batches, what an answer means
//! (`producer/verdict.rs`).
//!
//! Invariants:
//! - Every record that `send` took is reported once: with its offset, or with the reason why it is
//!   not acknowledged, at the latest `delivery_timeout` after it was taken plus the time of a
//!   request.
//! - Records of a partition are in the log in the order of `send`; of an idempotent producer each
//!   at most once, whatever is lost or sent again.
//! - Records that are not settled take at most `buffer_bytes` of memory, or one record.
//!
//! Not here: a buffer for records of a topic that is not there ([`Producer::send`] waits for it).

mod answers;
mod batch;
mod outbox;
mod partitioner;
mod queue;
mod record;
mod sender;
mod state;
mod transaction;
mod verdict;

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use platform::Clock;
use platform::clock::Instant;
use platform::task::{self, timeout_at};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use wire::types::ErrorCode;

use crate::cluster::{Cluster, TopicMetadata};
use crate::error::ClientError;
use crate::settings::{Partitioner, ProducerSettings};
pub use record::{Receipt, Record, Report, ReportCallback};
use sender::SharedProducer;
pub use transaction::GroupMember;

/// The largest size of a record, whatever the settings: what a batch can hold.
const RECORD_BYTES_MAX: usize = (i32::MAX as usize) - (1 << 20);

/// A handle to a producer; clones share it. When the last one goes, what is not settled fails.
#[derive(Clone)]
pub struct Producer(Rc<Handle>);

struct Handle {
    shared: Rc<SharedProducer>,
    /// The bytes that records may still take.
    room: Arc<Semaphore>,
    clock: Clock,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Producer {
    /// Makes a producer. It connects when the first record is sent.
    pub fn new(cluster: Cluster, settings: ProducerSettings) -> Self {
        let room = settings.buffer_bytes.clamp(1, Semaphore::MAX_PERMITS);
        let shared = Rc::new(SharedProducer::new(cluster, settings));
        task::spawn(sender::run(Rc::clone(&shared)));
        Self(Rc::new(Handle {
            shared,
            room: Arc::new(Semaphore::new(room)),
            clock: Clock::system(),
        }))
    }

    /// Takes a record: it will be written, and then `done` is called.
    ///
    /// Waits for room and for what is known of the topic, up to `max_block`. After an error the
    /// record was not taken, and `done` is not called.
    pub async fn send(
        &self,
        record: Record,
        done: impl FnOnce(Report) + 'static,
    ) -> Result<(), ClientError> {
        let shared = &self.0.shared;
        shared.check()?;
        let deadline = Instant::now() + shared.settings().max_block;
        let bytes = record.size_bytes();
        if bytes > RECORD_BYTES_MAX.min(shared.settings().request_bytes_max) {
            return Err(ErrorCode::MessageTooLarge.into());
        }
        let topic = self.topic(&record.topic, deadline).await?;
        let room = self.room(bytes, deadline).await?;
        // Something may have happened while it waited.
        shared.check()?;
        let partition = self.partition(&record, &topic, bytes)?;
        let timestamp = record.timestamp.unwrap_or_else(|| self.0.clock.wall_ms());
        if shared.add(&record, partition, timestamp, Box::new(done), room) {
            // A program that never waits would keep the sender from its work.
            task::yield_now().await;
        }
        Ok(())
    }

    /// Writes a record, and waits for what becomes of it.
    pub async fn write(&self, record: Record) -> Result<(i32, Receipt), ClientError> {
        let (to, report) = oneshot::channel();
        // The caller may have stopped waiting.
        self.send(record, |report| drop(to.send(report))).await?;
        let report = report.await.map_err(|_| ClientError::Closed)?;
        Ok((report.partition, report.result?))
    }

    /// Sends what has been taken without lingering, and waits until all of it is settled.
    pub async fn flush(&self, deadline: Instant) -> Result<(), ClientError> {
        self.0.shared.flush(deadline).await
    }

    /// Returns the number of records that are not settled.
    pub fn unsettled(&self) -> usize {
        self.0.shared.unsettled()
    }

    fn shared(&self) -> &Rc<SharedProducer> {
        &self.0.shared
    }

    async fn topic(&self, name: &str, deadline: Instant) -> Result<Rc<TopicMetadata>, ClientError> {
        let cluster = self.0.shared.cluster();
        if let Some(topic) = cluster.known_topic(name) {
            return Ok(topic);
        }
        let attempt = async || cluster.topic(name, deadline).await;
        let found = cluster.patiently(deadline, ClientError::is_retriable, attempt);
        found.await
    }

    /// Waits for the memory of a record. One that is longer than all of it waits for all of it.
    async fn room(
        &self,
        bytes: usize,
        deadline: Instant,
    ) -> Result<OwnedSemaphorePermit, ClientError> {
        let all = self.0.shared.settings().buffer_bytes.max(1);
        let bytes = u32::try_from(bytes.min(all)).unwrap_or(u32::MAX);
        if let Ok(room) = Arc::clone(&self.0.room).try_acquire_many_owned(bytes) {
            return Ok(room);
        }
        let room = Arc::clone(&self.0.room).acquire_many_owned(bytes);
        let room = timeout_at(deadline, room).await;
        let room = room.map_err(|_| ClientError::Full)?;
        room.map_err(|_| ClientError::Closed)
    }

    fn partition(
        &self,
        record: &Record,
        topic: &TopicMetadata,
        bytes: usize,
    ) -> Result<i32, ClientError> {
        let count = u32::try_from(topic.partitions.len()).unwrap_or(u32::MAX);
        if let Some(partition) = record.partition {
            if topic.partition(partition).is_none() {
                let reason = format!("topic {} has {count} partitions", topic.name);
                return Err(ClientError::invalid(
                    format!("partition {partition}"),
                    reason,
                ));
            }
            return Ok(partition);
        }
        let settings = self.0.shared.settings();
        let partition = match &record.key {
            Some(key) if settings.partitioner == Partitioner::Murmur2 => {
                i32::try_from(partitioner::of_key(key, count)).ok()
            }
            _ => self.0.shared.stick(topic, bytes),
        };
        let none = || ClientError::from(ErrorCode::LeaderNotAvailable);
        partition.filter(|_| count > 0).ok_or_else(none)
    }
}

impl fmt::Debug for Producer {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = to.debug_struct("Producer");
        shown.field("settings", self.0.shared.settings());
        shown.field("unsettled", &self.unsettled());
        shown.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
