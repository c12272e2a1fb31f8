//! What is left of a batch: the rule of compaction, one batch at a time, front to back.
//!
//! A record stays when no later one has its key, except that a tombstone stays no longer than its
//! delete horizon, which the first compaction that meets it sets; records past the offset map stay
//! as they are. Records of aborted transactions go. A marker whose transaction has no records left
//! also gets a horizon, and goes after it. A batch that loses all of its records stays, without
//! them, while it is the last of a known producer, whose sequence it holds, and at the end of what
//! can be compacted, so that a reader near the end gets an offset to continue from.
//! Bytes in, bytes out, at the pace of the round.

use std::collections::BTreeMap;

use bytes::Bytes;
use platform::Platform;
use platform::clock::Reading;
use wire::batch::retain::emptied;
use wire::batch::{BatchError, BatchHeader};
use wire::types::{Offset, ProducerId, TimestampMs};

use super::offset_map::{MapFull, OffsetMap};
use super::pace::Pace;
use super::transactions::Transactions;
use crate::error::Error;
use crate::log::append::marker_of;
use crate::log::producer_state::ProducerSnapshot;
use crate::log::txn_index::AbortedTxn;

/// What becomes of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum BatchRemainder {
    /// Nothing.
    Nothing,
    /// It stays as it is.
    Same,
    /// This batch replaces it.
    Less(Bytes),
}

/// What is left of a batch, and what has to be noted with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct BatchVerdict {
    pub(super) left: BatchRemainder,
    /// The aborted transaction that it ends, which readers have to know of.
    pub(super) aborted: Option<AbortedTxn>,
    /// Bytes examined since the last rest.
    pub(super) work_bytes: usize,
}

/// Why a batch is not judged.
pub(super) enum SurvivalError {
    /// It cannot be read.
    Damaged(BatchError),
    /// The round is over.
    Over(Error),
}

impl From<BatchError> for SurvivalError {
    fn from(error: BatchError) -> Self {
        Self::Damaged(error)
    }
}

impl From<Error> for SurvivalError {
    fn from(error: Error) -> Self {
        Self::Over(error)
    }
}

/// The last batch of each known producer.
#[derive(Clone, Debug, Default)]
pub(super) struct Producers(BTreeMap<ProducerId, (Option<Offset>, i16)>);

impl Producers {
    pub(super) fn new(known: &[ProducerSnapshot]) -> Self {
        let last = |producer: &ProducerSnapshot| {
            let offset = Some(producer.last_offset).filter(|offset| offset.0 >= 0);
            (producer.producer_id, (offset, producer.epoch))
        };
        Self(known.iter().map(last).collect())
    }

    /// Returns true when the batch has its producer's last sequence, or the epoch of its last
    /// marker.
    fn need(&self, header: &BatchHeader) -> bool {
        match self.0.get(&header.producer_id) {
            Some((Some(offset), _)) => header.last_offset() == *offset,
            Some((None, epoch)) => header.is_control() && header.producer_epoch == *epoch,
            None => false,
        }
    }
}

/// The rule, with all that it depends on.
pub(super) struct Survival<'a> {
    pub(super) map: &'a OffsetMap,
    pub(super) transactions: Transactions,
    pub(super) producers: Producers,
    /// The end of what can be compacted; the batch that ends there stays.
    pub(super) end: Offset,
    pub(super) now: Reading,
    pub(super) delete_retention_ms: i64,
    /// Tombstones and markers may go: all records that they concern are in the round.
    pub(super) removals: bool,
}

impl Survival<'_> {
    /// Judges the next batch.
    pub(super) async fn judge<P: Platform>(
        &mut self,
        pace: &Pace<'_, P>,
        header: &BatchHeader,
        batch: &Bytes,
    ) -> Result<BatchVerdict, SurvivalError> {
        if header.is_control() {
            self.judge_control(pace, header, batch).await
        } else {
            self.judge_records(pace, header, batch).await
        }
    }

    async fn judge_control<P: Platform>(
        &mut self,
        pace: &Pace<'_, P>,
        header: &BatchHeader,
        batch: &Bytes,
    ) -> Result<BatchVerdict, SurvivalError> {
        let met = self.transactions.meet_control(header, marker_of(batch));
        let is_spent = met.is_spent && self.removals;
        let beyond = header.base_offset > self.map.latest();
        let horizon = header.delete_horizon();
        let left = if beyond || !is_spent {
            BatchRemainder::Same
        } else if header.record_count == 0 {
            self.emptied(header)?
        } else if horizon.is_none() {
            let opened = pace.open(batch).await??;
            let keep = opened.keep_all();
            BatchRemainder::Less(pace.retain(opened, keep, Some(self.horizon())).await??)
        } else if self.is_past(horizon) {
            self.emptied(header)?
        } else {
            BatchRemainder::Same
        };
        Ok(BatchVerdict {
            left,
            aborted: met.ended.filter(|_| beyond || !is_spent),
            work_bytes: batch.len(),
        })
    }

    async fn judge_records<P: Platform>(
        &mut self,
        pace: &Pace<'_, P>,
        header: &BatchHeader,
        batch: &Bytes,
    ) -> Result<BatchVerdict, SurvivalError> {
        let is_aborted = self.transactions.meet_records(header);
        let judged = |left, work_bytes| BatchVerdict {
            left,
            aborted: None,
            work_bytes,
        };
        if header.base_offset > self.map.latest() {
            return Ok(judged(BatchRemainder::Same, 0));
        }
        if is_aborted || header.record_count == 0 {
            return Ok(judged(self.emptied(header)?, 0));
        }
        let opened = pace.open(batch).await??;
        let tombstones_go = self.is_past(header.delete_horizon());
        let (mut keep, mut kept, mut has_tombstones) = (Vec::new(), 0, false);
        let mut walked = 0;
        for record in opened.records() {
            let record = record?;
            pace.walk(&mut walked, record.bytes()).await?;
            let stays = record.offset > self.map.latest()
                || record.key.is_some_and(|key| {
                    self.map
                        .newest(key)
                        .is_none_or(|newest| record.offset >= newest)
                        && (record.has_value || !tombstones_go)
                });
            keep.push(stays);
            kept += usize::from(stays);
            has_tombstones |= stays && !record.has_value;
        }
        // All of the batch has to be compacted when the time of its tombstones begins.
        let sets_horizon = has_tombstones
            && header.delete_horizon().is_none()
            && header.last_offset() <= self.map.latest();
        let horizon = sets_horizon.then(|| self.horizon());
        let left = if kept == 0 {
            self.emptied(header)?
        } else if kept == keep.len() && horizon.is_none() {
            BatchRemainder::Same
        } else {
            BatchRemainder::Less(pace.retain(opened, keep, horizon).await??)
        };
        Ok(judged(left, walked))
    }

    /// Returns what is left of a batch without its records.
    fn emptied(&self, header: &BatchHeader) -> Result<BatchRemainder, BatchError> {
        let is_last_of_producer = header.producer_id.0 >= 0 && self.producers.need(header);
        if !is_last_of_producer && header.next_offset() != self.end {
            return Ok(BatchRemainder::Nothing);
        }
        if header.record_count == 0 {
            return Ok(BatchRemainder::Same);
        }
        emptied(header).map(BatchRemainder::Less)
    }

    fn horizon(&self) -> TimestampMs {
        let from_ms = self.now.latest_ms();
        TimestampMs(from_ms.saturating_add(self.delete_retention_ms))
    }

    fn is_past(&self, horizon: Option<TimestampMs>) -> bool {
        self.removals && horizon.is_some_and(|horizon| horizon.0 <= self.now.earliest_ms())
    }
}

/// Notes the records of a batch from `from` on in the map; returns the bytes examined since the
/// last rest.
///
/// Returns [`MapFull`] when the map is full; then it has everything up to some record of the batch.
pub(super) async fn note<P: Platform>(
    pace: &Pace<'_, P>,
    map: &mut OffsetMap,
    transactions: &mut Transactions,
    from: Offset,
    header: &BatchHeader,
    batch: &Bytes,
) -> Result<Result<usize, MapFull>, SurvivalError> {
    let mut walked = 0;
    if header.is_control() {
        transactions.meet_control(header, marker_of(batch));
    } else if !transactions.meet_records(header) && header.record_count > 0 {
        let opened = pace.open(batch).await??;
        for record in opened.records() {
            let record = record?;
            pace.walk(&mut walked, record.bytes()).await?;
            if let Some(key) = record.key
                && record.offset >= from
                && let Err(full) = map.put(key, record.offset)
            {
                return Ok(Err(full));
            }
        }
    }
    map.cover(header.last_offset());
    Ok(Ok(walked))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::batch::builder::BatchBuilder;
    use wire::batch::retain::OpenedBatch;
    use wire::types::LeaderEpoch;

    #[test]
    fn a_batch_that_counts_billions_of_records_takes_no_more_memory_than_it_has_bytes() {
        let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch(0));
        builder.add(TimestampMs(1), Some(b"key"), Some(b"value"), &[]);
        let mut batch = builder.finish().unwrap().to_vec();
        let count = wire::batch::HEADER_BYTES - 4;
        batch[count..count + 4].copy_from_slice(&i32::MAX.to_be_bytes());
        let batch = Bytes::from(batch);
        let opened = OpenedBatch::open(&batch, 1 << 20).unwrap();
        let header = BatchHeader::parse(&batch).unwrap();
        assert_eq!(header.record_count, i32::MAX);
        let keep = opened.keep_all();
        assert!(keep.len() <= batch.len());
        assert!(opened.retain(&keep, None).is_err());
    }
}
