//! The state of a transactional id, as in `__transaction_state`.
//!
//! States and their numbers are Kafka's. `Dead` and `PrepareEpochFence` exist only in Kafka's
//! memory and never here: an expired id is removed, and fencing a producer aborts its transaction
//! in the same step.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use wire::records::DecodeError;
use wire::records::transactions::{TransactionLogKey, TransactionLogValue, TransactionPartitions};
use wire::types::ProducerId;

/// The largest epoch that a producer gets; one more is left to fence it.
pub(super) const EPOCH_MAX: i16 = i16::MAX - 1;

/// From this version of the protocol on, every transaction raises the epoch.
pub(crate) const EPOCH_BUMPS: i16 = 2;

/// State of a transactional id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum TransactionState {
    /// No transaction since the producer initialized.
    Empty,
    /// A transaction is open.
    Ongoing,
    /// Decided to commit; markers are being written.
    PrepareCommit,
    /// Decided to abort; markers are being written.
    PrepareAbort,
    /// Committed in all partitions.
    CompleteCommit,
    /// Aborted in all partitions.
    CompleteAbort,
}

impl TransactionState {
    /// All states, each with its number in the log and its name, in the order of the numbers.
    pub(super) const ALL: [(Self, i8, &'static str); 6] = [
        (Self::Empty, 0, "Empty"),
        (Self::Ongoing, 1, "Ongoing"),
        (Self::PrepareCommit, 2, "PrepareCommit"),
        (Self::PrepareAbort, 3, "PrepareAbort"),
        (Self::CompleteCommit, 4, "CompleteCommit"),
        (Self::CompleteAbort, 5, "CompleteAbort"),
    ];

    /// Returns its number in the log.
    pub(crate) fn number(self) -> i8 {
        let Some((_, number, _)) = Self::ALL.iter().find(|(state, ..)| *state == self) else {
            unreachable!("all states have numbers");
        };
        *number
    }

    /// Returns its name, as tools show it.
    pub(crate) fn name(self) -> &'static str {
        let Some((.., name)) = Self::ALL.iter().find(|(state, ..)| *state == self) else {
            unreachable!("all states have names");
        };
        name
    }

    /// Returns true for the name of a state, including those in Kafka's memory only: a filter by
    /// them is valid.
    pub(crate) fn is_name(name: &str) -> bool {
        matches!(name, "Dead" | "PrepareEpochFence") || Self::ALL.iter().any(|(.., it)| *it == name)
    }

    fn from_number(number: i8) -> Option<Self> {
        Self::ALL
            .iter()
            .find(|(_, it, _)| *it == number)
            .map(|(state, ..)| *state)
    }

    /// Returns true when a decision has been taken but not carried out everywhere.
    pub(crate) fn is_prepared(self) -> bool {
        matches!(self, Self::PrepareCommit | Self::PrepareAbort)
    }
}

/// A partition by topic name and index.
pub(crate) type PartitionName = (String, i32);

/// The entry of a transactional id in the log, with the last epoch, which is not in the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    /// The state.
    pub(crate) state: TransactionState,
    /// The producer id.
    pub(crate) producer_id: ProducerId,
    /// The previous producer id; `NONE` if there is none.
    pub(crate) previous_producer_id: ProducerId,
    /// The producer id after the transaction is complete; `NONE` if it stays the same.
    pub(crate) next_producer_id: ProducerId,
    /// The producer epoch; -1 before the first one.
    pub(crate) epoch: i16,
    /// The previous epoch, if a client that did not get the current one may return with it; else
    /// -1.
    pub(crate) last_epoch: i16,
    /// Transaction timeout in milliseconds.
    pub(crate) timeout_ms: i32,
    /// Partitions that have, or may have, records of the transaction and no marker.
    // Bounded: `transaction::weight::check_growth`, for all ids of a shard.
    pub(crate) partitions: BTreeSet<PartitionName>,
    /// When the transaction began, in milliseconds; -1 without one.
    pub(crate) start_ms: i64,
    /// When this entry was decided, in milliseconds.
    pub(crate) updated_ms: i64,
    /// The protocol version that the client used.
    pub(crate) client_version: i16,
}

impl Entry {
    /// Creates the entry of a transactional id that was never used.
    pub(crate) fn unused(producer_id: ProducerId, timeout_ms: i32, now_ms: i64) -> Self {
        Self {
            state: TransactionState::Empty,
            producer_id,
            previous_producer_id: ProducerId::NONE,
            next_producer_id: ProducerId::NONE,
            epoch: -1,
            last_epoch: -1,
            timeout_ms,
            partitions: BTreeSet::new(),
            start_ms: -1,
            updated_ms: now_ms,
            client_version: 0,
        }
    }

    /// Returns the entry with a last update not after `now_ms`, the time of the load.
    ///
    /// The clock may have been ahead when the entry was written.
    pub(crate) fn known_by(self, now_ms: i64) -> Self {
        Self {
            updated_ms: self.updated_ms.min(now_ms),
            ..self
        }
    }

    /// Returns true when the next epoch needs another producer id.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.epoch >= EPOCH_MAX
    }

    /// Returns the record's key and value; `level` is the finalized `transaction.version`.
    pub(crate) fn record(&self, id: &str, level: i16) -> (Bytes, Option<Bytes>) {
        let mut by_topic: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for (topic, partition) in &self.partitions {
            by_topic.entry(topic).or_default().push(*partition);
        }
        let partitions = by_topic.into_iter();
        let partitions = partitions.map(|(topic, partitions)| TransactionPartitions {
            topic: topic.to_owned(),
            partitions,
        });
        let value = TransactionLogValue {
            producer_id: self.producer_id.0,
            previous_producer_id: self.previous_producer_id.0,
            next_producer_id: self.next_producer_id.0,
            producer_epoch: self.epoch,
            timeout_ms: self.timeout_ms,
            status: self.state.number(),
            partitions: (self.state != TransactionState::Empty).then(|| partitions.collect()),
            last_update_ms: self.updated_ms,
            start_ms: self.start_ms,
            client_version: self.client_version,
            next_producer_epoch: -1,
        };
        (key(id), Some(value.encode(level.min(1))))
    }

    /// Decodes a record's value; returns `None` for a state that no log has.
    pub(crate) fn from_record(value: &[u8]) -> Result<Option<Self>, DecodeError> {
        let value = TransactionLogValue::decode(value)?;
        let partitions = value.partitions.unwrap_or_default().into_iter();
        let partitions = partitions.flat_map(|TransactionPartitions { topic, partitions }| {
            partitions
                .into_iter()
                .map(move |partition| (topic.clone(), partition))
        });
        let partitions = partitions.collect();
        Ok(
            TransactionState::from_number(value.status).map(|state| Self {
                state,
                producer_id: ProducerId(value.producer_id),
                previous_producer_id: ProducerId(value.previous_producer_id),
                next_producer_id: ProducerId(value.next_producer_id),
                epoch: value.producer_epoch,
                last_epoch: -1,
                timeout_ms: value.timeout_ms,
                partitions,
                start_ms: value.start_ms,
                updated_ms: value.last_update_ms,
                client_version: value.client_version,
            }),
        )
    }
}

/// Returns the key of a transactional id's records.
pub(crate) fn key(id: &str) -> Bytes {
    let transactional_id = id.to_owned();
    TransactionLogKey { transactional_id }.encode()
}
