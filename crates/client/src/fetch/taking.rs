//! Takes the batches out of what an answer has for one partition.
//!
//! A batch that cannot be trusted (cut, with a wrong CRC, out of order) ends the answer: what
//! stands before it is taken, and the next fetch begins with it. The last batch of an answer may be
//! cut short without harm.
//!
//! Invariants: the position never goes back; batches ascend and do not overlap; control batches
//! and, for readers of committed records, aborted ones are passed over, and move the position.

use bytes::Bytes;
use wire::batch::iter::validate_stored;
use wire::batch::{BatchHeader, Batches};
use wire::error::BatchError;
use wire::kafka::fetch::AbortedTransaction;

use super::aborted::{AbortedTransactions, Marker};
use super::batch::FetchedBatch;

/// Most decompressed bytes of a control batch, which has one record of some bytes.
const CONTROL_BYTES_MAX: usize = 64 << 10;

/// What is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Checks {
    /// The CRC of each batch.
    pub(super) crc: bool,
    /// Batches of aborted transactions are hidden.
    pub(super) committed: bool,
}

/// The batches that a reader takes from a broker's answer for a partition.
#[derive(Default, PartialEq, Eq, Debug)]
pub(super) struct TakenBatches {
    /// The batches with records for the reader.
    pub(super) batches: Vec<FetchedBatch>,
    /// The position after the answer.
    pub(super) next: i64,
    /// The leader epoch of the last batch before it, if there was one.
    pub(super) epoch: Option<i32>,
    /// Why nothing was taken.
    pub(super) damage: Option<BatchError>,
}

/// Takes the batches from `position` on.
pub(super) fn take(
    records: &Bytes,
    aborted: Vec<AbortedTransaction>,
    position: i64,
    checks: Checks,
) -> TakenBatches {
    let mut aborted = AbortedTransactions::new(aborted);
    let mut taken = TakenBatches {
        next: position,
        ..TakenBatches::default()
    };
    let mut at = 0_usize;
    let mut end_before = None;
    for batch in Batches::new(records) {
        let judged = batch.and_then(|(header, whole)| {
            let batch = records.slice(at..at.saturating_add(whole.len()));
            judge(&header, &batch, end_before, checks)?;
            let marker = marker_of(&header, &batch, checks)?;
            Ok((header, batch, marker))
        });
        let (header, batch, marker) = match judged {
            Ok(judged) => judged,
            Err(damage) => {
                // What was taken is good, and the next fetch meets the damage first.
                if taken.next == position {
                    taken.damage = Some(damage);
                }
                return taken;
            }
        };
        at = at.saturating_add(batch.len());
        let end = header.next_offset().0;
        end_before = Some(end);
        let hidden = if checks.committed {
            aborted.hides(&header, marker)
        } else {
            header.is_control()
        };
        if end <= position {
            continue;
        }
        taken.next = end;
        taken.epoch = (header.leader_epoch.0 >= 0).then_some(header.leader_epoch.0);
        if !hidden && header.record_count > 0 {
            taken
                .batches
                .push(FetchedBatch::new(header, &batch, position));
        }
    }
    if !records.is_empty() && taken.next == position {
        taken.damage = Some(BatchError::Header {
            reason: "all batches of the answer are before the position",
            found: end_before.unwrap_or(-1),
            expected: position,
        });
    }
    taken
}

/// Checks one whole batch, which follows one that ended at `end_before`.
fn judge(
    header: &BatchHeader,
    batch: &Bytes,
    end_before: Option<i64>,
    checks: Checks,
) -> Result<(), BatchError> {
    if checks.crc {
        validate_stored(header, batch)?;
    } else if header.magic != 2 {
        return Err(BatchError::Magic {
            magic: header.magic,
        });
    }
    let broken = |reason, found: i64, expected: i64| {
        Err(BatchError::Header {
            reason,
            found,
            expected,
        })
    };
    let (base, delta) = (header.base_offset.0, i64::from(header.last_offset_delta));
    if delta < 0 {
        return broken("the last offset delta is negative", delta, 0);
    }
    let floor = end_before.unwrap_or(0);
    if base < floor {
        return broken(
            "the batch begins before the end of the one before",
            base,
            floor,
        );
    }
    if base.checked_add(delta).is_none_or(|last| last == i64::MAX) {
        return broken("the batch has offsets beyond the largest", base, i64::MAX);
    }
    let count = i64::from(header.record_count);
    if count < 0 || count > delta.saturating_add(1) {
        return broken("the number of records is not one", count, delta);
    }
    Ok(())
}

/// Returns the marker of a control batch, if the reader hides aborted transactions.
fn marker_of(
    header: &BatchHeader,
    batch: &Bytes,
    checks: Checks,
) -> Result<Option<Marker>, BatchError> {
    if !header.is_control() || !checks.committed {
        return Ok(None);
    }
    let whole = FetchedBatch::new(*header, batch, i64::MIN).open(CONTROL_BYTES_MAX)?;
    let Some(record) = whole.records().next() else {
        // Compaction may leave a batch without its record.
        return Ok(Some(Marker::Other));
    };
    let key = record?.key.unwrap_or_default();
    Marker::of_key(key).map(Some).ok_or(BatchError::Framing {
        index: 0,
        reason: "the key of a control record is cut short",
    })
}

#[cfg(test)]
mod tests;
