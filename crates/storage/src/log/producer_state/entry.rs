//! One producer: its epoch, its last batches, its open transaction; and the rules that its batches
//! have to meet.
//!
//! Invariant: the remembered batches are those of its current epoch.

use platform::clock::Reading;
use wire::batch::{BatchHeader, sequence_plus};
use wire::types::{Offset, ProducerId, TimestampMs};

use super::batches::{AppendedBatch, Batches};
use super::error::ProducerError;
use super::marker::EndMarker;
use super::snapshot::ProducerSnapshot;

const NO_EPOCH: i16 = -1;
const NO_SEQUENCE: i32 = -1;

/// What is known of one producer.
#[derive(Clone, Debug)]
pub struct Producer {
    /// -1 before the first batch.
    epoch: i16,
    /// -1 before the first marker.
    coordinator_epoch: i32,
    last_timestamp: TimestampMs,
    /// First offset of the open transaction.
    transaction_start: Option<Offset>,
    /// Offset of the last record or marker, about that of a producer restored without a batch.
    seen: Offset,
    /// All of the current epoch.
    batches: Batches,
}

impl Producer {
    pub(super) fn unknown() -> Self {
        Self {
            epoch: NO_EPOCH,
            coordinator_epoch: -1,
            last_timestamp: TimestampMs::NONE,
            transaction_start: None,
            seen: Offset(-1),
            batches: Batches::none(),
        }
    }

    /// Restores a producer from a snapshot that was taken at `end`.
    pub(super) fn restore(snapshot: &ProducerSnapshot, end: Offset) -> Self {
        let mut batches = Batches::none();
        let batch = (snapshot.last_offset.0 >= 0).then_some(AppendedBatch {
            last_sequence: snapshot.last_sequence,
            last_offset: snapshot.last_offset,
            offset_delta: snapshot.offset_delta,
            timestamp: snapshot.last_timestamp,
        });
        let seen = batch.map_or(end.plus(-1), |batch| batch.last_offset);
        if let Some(batch) = batch {
            batches.push(batch);
        }
        Self {
            epoch: snapshot.epoch,
            coordinator_epoch: snapshot.coordinator_epoch,
            last_timestamp: snapshot.last_timestamp,
            transaction_start: snapshot.transaction_start,
            seen,
            batches,
        }
    }

    pub(super) fn snapshot(&self, producer_id: ProducerId) -> ProducerSnapshot {
        let last = self.batches.last();
        ProducerSnapshot {
            producer_id,
            epoch: self.epoch,
            last_sequence: self.last_sequence(),
            last_offset: last.map_or(Offset(-1), |batch| batch.last_offset),
            offset_delta: last.map_or(0, |batch| batch.offset_delta),
            last_timestamp: self.last_timestamp,
            coordinator_epoch: self.coordinator_epoch,
            transaction_start: self.transaction_start,
        }
    }

    /// Returns the remembered batch that has exactly the epoch and sequences of `header`.
    pub(super) fn duplicate_of(&self, header: &BatchHeader) -> Option<AppendedBatch> {
        if header.producer_epoch != self.epoch {
            return None;
        }
        self.batches
            .iter()
            .find(|batch| {
                batch.base_sequence() == header.base_sequence
                    && batch.last_sequence == header.last_sequence()
            })
            .copied()
    }

    pub(super) fn check_epoch(&self, header: &BatchHeader) -> Result<(), ProducerError> {
        if header.producer_epoch < self.epoch {
            return Err(ProducerError::InvalidEpoch {
                producer_id: header.producer_id,
                found: header.producer_epoch,
                current: self.epoch,
            });
        }
        Ok(())
    }

    /// Checks that the batch's sequence follows the last one.
    ///
    /// A new epoch begins with 0, the same one continues where it was (from `i32::MAX` to 0). A
    /// producer without an epoch may begin anywhere: its earlier batches may have been deleted.
    pub(super) fn check_sequence(&self, header: &BatchHeader) -> Result<(), ProducerError> {
        if self.epoch == NO_EPOCH {
            return Ok(());
        }
        let last = if header.producer_epoch == self.epoch {
            self.last_sequence()
        } else {
            NO_SEQUENCE
        };
        if header.base_sequence != sequence_plus(last, 1) {
            return Err(ProducerError::OutOfOrderSequence {
                producer_id: header.producer_id,
                found: header.base_sequence,
                last,
            });
        }
        Ok(())
    }

    pub(super) fn check_transaction(&self, header: &BatchHeader) -> Result<(), ProducerError> {
        if self.transaction_start.is_some() && !header.is_transactional() {
            return Err(ProducerError::InvalidTxnState {
                producer_id: header.producer_id,
            });
        }
        Ok(())
    }

    pub(super) fn check_marker(
        &self,
        header: &BatchHeader,
        marker: EndMarker,
    ) -> Result<(), ProducerError> {
        self.check_epoch(header)?;
        if marker.coordinator_epoch < self.coordinator_epoch {
            return Err(ProducerError::CoordinatorFenced {
                producer_id: header.producer_id,
                found: marker.coordinator_epoch,
                current: self.coordinator_epoch,
            });
        }
        Ok(())
    }

    /// Notes a batch; returns true when it opens a transaction.
    pub(super) fn append(&mut self, header: &BatchHeader) -> bool {
        self.enter_epoch(header.producer_epoch);
        self.seen = header.last_offset();
        self.batches.push(AppendedBatch {
            last_sequence: header.last_sequence(),
            last_offset: header.last_offset(),
            offset_delta: header.last_offset_delta,
            timestamp: header.max_timestamp,
        });
        self.last_timestamp = header.max_timestamp;
        let opens = header.is_transactional() && self.transaction_start.is_none();
        if opens {
            self.transaction_start = Some(header.base_offset);
        }
        opens
    }

    /// Notes a marker; returns where the transaction began, when one was open.
    pub(super) fn end_transaction(
        &mut self,
        header: &BatchHeader,
        marker: EndMarker,
    ) -> Option<Offset> {
        self.enter_epoch(header.producer_epoch);
        self.coordinator_epoch = marker.coordinator_epoch;
        self.seen = header.last_offset();
        // The largest timestamp is that of the only record, also where compaction has put a delete
        // horizon into the base timestamp.
        self.last_timestamp = header.max_timestamp;
        self.transaction_start.take()
    }

    pub(super) fn is_expired(&self, now: Reading, expiration_ms: i64) -> bool {
        self.transaction_start.is_none() && now.age_ms(self.last_timestamp.0) >= expiration_ms
    }

    pub(super) fn transaction_start(&self) -> Option<Offset> {
        self.transaction_start
    }

    /// Returns true when a transaction of exactly this epoch is open.
    pub(super) fn is_in_transaction(&self, epoch: i16) -> bool {
        self.transaction_start.is_some() && self.epoch == epoch
    }

    /// Returns the offset since which it has been idle.
    pub(super) fn seen(&self) -> Offset {
        self.seen
    }

    pub(super) fn last_timestamp(&self) -> TimestampMs {
        self.last_timestamp
    }

    fn last_sequence(&self) -> i32 {
        self.batches
            .last()
            .map_or(NO_SEQUENCE, |batch| batch.last_sequence)
    }

    fn enter_epoch(&mut self, epoch: i16) {
        if self.epoch != epoch {
            self.batches.clear();
            self.epoch = epoch;
        }
    }
}
