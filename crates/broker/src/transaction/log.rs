//! The log of `__transaction_state`: appends a record and waits until it is committed; loads a
//! partition.
//!
//! Invariant: an append that has begun ends only when its outcome is known; until then the state of
//! the transactional id is unknown.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use platform::Platform;
use platform::task::timeout;
use wire::batch::builder::BatchBuilder;
use wire::batch::record::records;
use wire::records::transactions::TransactionLogKey;
use wire::types::{ErrorCode, Offset, TimestampMs};

use super::state::Entry;
use crate::Broker;
use crate::partition::Partition;
use crate::replayed::each_batch;

/// How long an append may take before a warning is logged, and between two warnings.
const PATIENCE: Duration = Duration::from_mins(1);

/// Why a record is not known to be in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TransactionAppendError {
    /// It is not in the log and never will be.
    Refused(ErrorCode),
    /// The log failed during the append: the next load shows the outcome.
    Unknown,
}

/// Appends one record to a partition that this shard leads, and counts a failure.
pub(super) async fn append<P: Platform>(
    broker: &Broker<P>,
    partition: &Partition<P>,
    record: (Bytes, Option<Bytes>),
) -> Result<(), TransactionAppendError> {
    let appended = append_record(broker, partition, record).await;
    if appended.is_err() {
        broker.metrics.transactions.state_error();
    }
    appended
}

async fn append_record<P: Platform>(
    broker: &Broker<P>,
    partition: &Partition<P>,
    (key, value): (Bytes, Option<Bytes>),
) -> Result<(), TransactionAppendError> {
    let clock = broker.platform.clock();
    let mut batch = BatchBuilder::new(Offset::ZERO, partition.leader_epoch());
    let now = TimestampMs(clock.wall_ms());
    batch.add(now, Some(&key), value.as_deref(), &[]);
    let batch = batch
        .finish_whole()
        .map_err(|_| TransactionAppendError::Refused(ErrorCode::UnknownServerError))?;
    let accepted = partition.append(&batch, clock);
    let accepted = accepted.map_err(|error| TransactionAppendError::Refused(told(error.code)))?;
    let mut fate = pin!(partition.fate(accepted));
    loop {
        match timeout(PATIENCE, &mut fate).await {
            Ok(known) => return known.map_err(|_| TransactionAppendError::Unknown),
            Err(_) => {
                tracing::warn!(partition = %partition.name, "the transaction log is slow to commit");
            }
        }
    }
}

/// Returns the error for a client after a refused append: one that makes it look up the coordinator
/// or retry.
fn told(code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError => ErrorCode::NotCoordinator,
        ErrorCode::MessageTooLarge | ErrorCode::RecordListTooLarge => ErrorCode::UnknownServerError,
        _ => ErrorCode::CoordinatorNotAvailable,
    }
}

/// Reads a partition from its start and returns the number of records.
///
/// `take` gets each transactional id's entries in the order written, and `None` for an id that has
/// expired.
pub(super) async fn replay<P: Platform>(
    partition: &Rc<Partition<P>>,
    mut take: impl FnMut(String, Option<Entry>),
) -> Result<u64, LoadError> {
    let mut count = 0;
    each_batch(partition, |header, batch| -> Result<(), LoadError> {
        if header.is_control() {
            return Ok(());
        }
        for record in records(batch)? {
            let record = record?;
            let Some(key) = record.key else { continue };
            let Some(key) = TransactionLogKey::decode(&key)? else {
                continue;
            };
            let entry = record.value.map(|value| Entry::from_record(&value));
            take(key.transactional_id, entry.transpose()?.flatten());
            count += 1;
        }
        Ok(())
    })
    .await?;
    Ok(count)
}

/// Returns true for a record that [`replay`] accepts.
pub(crate) fn is_readable(key: &Bytes, value: Option<&Bytes>) -> bool {
    match TransactionLogKey::decode(key) {
        Ok(None) => true,
        Ok(Some(_)) => value.is_none_or(|value| Entry::from_record(value).is_ok()),
        Err(_) => false,
    }
}

/// The reason why a partition of transactional ids cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoadError {
    #[error(transparent)]
    Storage(#[from] storage::Error),
    #[error(transparent)]
    Batch(#[from] wire::error::BatchError),
    #[error(transparent)]
    Record(#[from] wire::records::DecodeError),
}
