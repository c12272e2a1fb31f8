//! The pace of a compaction: frequent yields, after the flushes of its shard, within its rate.
//!
//! A round asks for one read or write of bounded size at a time. Before each it lets the flushes
//! that are under way finish, though only for a bounded time: a shard that always flushes must
//! still be compacted. Large batches are decompressed and compressed on another thread: a batch of
//! some kilobytes may be hundreds of megabytes.

use std::cell::Cell;
use std::time::Duration;

use bytes::Bytes;
use platform::Platform;
use platform::clock::Instant;
use platform::task::{self, elsewhere};
use wire::batch::record::DECOMPRESSED_BYTES_MAX;
use wire::batch::retain::OpenedBatch;
use wire::batch::{BatchError, BatchHeader};
use wire::types::TimestampMs;

use super::super::Log;
use crate::error::{Error, Result};
use crate::log::views::Compacting;

/// Bytes of work after which the round yields.
const STEP_BYTES: usize = 64 << 10;
/// Most bytes of records that are decompressed and compressed on the shard.
const LITTLE_BYTES: usize = 256 << 10;
/// Most waits of `GIVE_WAY_INTERVAL` for the flushes that are under way, at each step.
const GIVE_WAY_LOOKS: usize = 4;
const GIVE_WAY_INTERVAL: Duration = Duration::from_millis(1);

/// The pace of one round.
pub(super) struct Pace<'a, P: Platform> {
    log: &'a Log<P>,
    interruptions: u64,
    started: Instant,
    bytes_per_second_max: f64,
    read: Cell<u64>,
    written: Cell<u64>,
    since_yield: Cell<usize>,
}

impl<'a, P: Platform> Pace<'a, P> {
    pub(super) fn new(log: &'a Log<P>, bytes_per_second_max: f64) -> Self {
        Self {
            log,
            interruptions: log.compaction.interruptions.get(),
            started: log.store.clock().now(),
            bytes_per_second_max,
            read: Cell::new(0),
            written: Cell::new(0),
            since_yield: Cell::new(0),
        }
    }

    /// Returns the bytes read and written so far.
    pub(super) fn bytes(&self) -> (u64, u64) {
        (self.read.get(), self.written.get())
    }

    /// Counts `read` and `written` bytes, and `work` bytes beyond that; yields when it is time.
    ///
    /// Returns an error when the round is over.
    pub(super) async fn step(&self, read: usize, written: usize, work: usize) -> Result<()> {
        self.read.set(self.read.get() + read as u64);
        self.written.set(self.written.get() + written as u64);
        self.since_yield
            .set(self.since_yield.get() + read + written + work);
        if self.since_yield.get() >= STEP_BYTES {
            self.since_yield.set(0);
            self.give_way().await;
            self.keep_rate().await;
        }
        self.check()
    }

    /// Opens the records of a batch.
    pub(super) async fn open(
        &self,
        batch: &Bytes,
    ) -> Result<std::result::Result<OpenedBatch, BatchError>> {
        let is_plain =
            BatchHeader::parse(batch).is_some_and(|header| header.compression_code() == 0);
        if is_plain || batch.len() <= LITTLE_BYTES {
            let bytes_max = if is_plain { usize::MAX } else { LITTLE_BYTES };
            match OpenedBatch::open(batch, bytes_max) {
                // Broken or too large: opening it as a whole shows which.
                Err(BatchError::Decompress { .. }) => {}
                opened => return Ok(opened),
            }
        }
        let batch = batch.clone();
        let opened = elsewhere(move || OpenedBatch::open(&batch, DECOMPRESSED_BYTES_MAX));
        opened.await.ok_or(Error::Closed)
    }

    /// Returns the batch with the kept records only.
    pub(super) async fn retain(
        &self,
        opened: OpenedBatch,
        keep: Vec<bool>,
        horizon: Option<TimestampMs>,
    ) -> Result<std::result::Result<Bytes, BatchError>> {
        if opened.records_bytes() <= LITTLE_BYTES {
            return Ok(opened.retain(&keep, horizon));
        }
        let retained = elsewhere(move || opened.retain(&keep, horizon));
        retained.await.ok_or(Error::Closed)
    }

    /// Yields after some records of a batch were examined, `walked` bytes since the last rest.
    pub(super) async fn walk(&self, walked: &mut usize, bytes: usize) -> Result<()> {
        *walked = walked.saturating_add(bytes);
        if *walked < STEP_BYTES {
            return Ok(());
        }
        self.step(0, 0, std::mem::take(walked)).await
    }

    /// Returns an error when the round is over.
    pub(super) fn check(&self) -> Result<()> {
        if Compacting(self.log).is_round_over(self.interruptions) {
            return Err(Error::Closed);
        }
        Ok(())
    }

    async fn give_way(&self) {
        task::yield_now().await;
        for _ in 0..GIVE_WAY_LOOKS {
            if self.log.store.shared.flushing.get() == 0 {
                break;
            }
            self.log.store.clock().sleep(GIVE_WAY_INTERVAL).await;
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "a rate")]
    async fn keep_rate(&self) {
        let (read, written) = self.bytes();
        let due = (read + written) as f64 / self.bytes_per_second_max.max(1.0);
        let now = self.log.store.clock().now();
        let ahead = due - now.duration_since(self.started).as_secs_f64();
        if ahead > 0.001 {
            // In pieces, so that a log that is being closed need not wait.
            // Bounded: between a thousandth and a tenth of a second.
            let ahead = Duration::from_secs_f64(ahead.min(0.1));
            self.log.store.clock().sleep(ahead).await;
        }
    }
}
