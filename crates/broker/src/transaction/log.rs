//! `__transaction_state`: appends a record and waits until it is committed; loads a partition.
//!
//! Invariant: an append that has begun ends only when it is known whether the record is in the log: until then nobody
//! can say where the transactional id stands.

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

/// How long to wait before looking again whether an append has come through.
const PATIENCE: Duration = Duration::from_mins(1);

/// Why a record is not in the log, or nobody knows whether it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unwritten {
    /// It is not, and will not be.
    Refused(ErrorCode),
    /// The log failed on the way: the next start will tell.
    Unknown,
}

/// Appends one record to a partition that this shard leads.
pub(super) async fn append<P: Platform>(
    broker: &Broker<P>,
    partition: &Partition<P>,
    (key, value): (Bytes, Option<Bytes>),
) -> Result<(), Unwritten> {
    let clock = broker.platform.clock();
    let mut batch = BatchBuilder::new(Offset::ZERO, partition.leader_epoch());
    let now = TimestampMs(clock.wall_ms());
    batch.add(now, Some(&key), value.as_deref(), &[]);
    let batch = batch
        .finish_whole()
        .map_err(|_| Unwritten::Refused(ErrorCode::UnknownServerError))?;
    let accepted = partition.append(&batch, clock);
    let accepted = accepted.map_err(|error| Unwritten::Refused(told(error.code)))?;
    let mut fate = pin!(partition.fate(accepted));
    loop {
        match timeout(PATIENCE, &mut fate).await {
            Ok(known) => return known.map_err(|_| Unwritten::Unknown),
            Err(_) => {
                tracing::warn!(partition = %partition.name, "the transaction log is slow to commit");
            }
        }
    }
}

/// What a client is told of an append that was refused, so that it finds the coordinator again or tries again.
fn told(code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError => ErrorCode::NotCoordinator,
        ErrorCode::MessageTooLarge | ErrorCode::RecordListTooLarge => ErrorCode::UnknownServerError,
        _ => ErrorCode::CoordinatorNotAvailable,
    }
}

/// Reads a partition from its start: `take` gets each transactional id's entries in the order written, `None` for one
/// that has expired. Says how many records there were.
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

/// True for a record that [`replay`] takes.
pub(crate) fn is_readable(key: &Bytes, value: Option<&Bytes>) -> bool {
    match TransactionLogKey::decode(key) {
        Ok(None) => true,
        Ok(Some(_)) => value.is_none_or(|value| Entry::from_record(value).is_ok()),
        Err(_) => false,
    }
}

/// Why a partition of transactional ids cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoadError {
    #[error(transparent)]
    Storage(#[from] storage::Error),
    #[error(transparent)]
    Batch(#[from] wire::error::BatchError),
    #[error(transparent)]
    Record(#[from] wire::records::DecodeError),
}
