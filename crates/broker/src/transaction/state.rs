//! Where a transactional id stands, as `__transaction_state` has it.
//!
//! States and their numbers are Kafka's. `Dead` and `PrepareEpochFence` exist in Kafka's memory only and never here:
//! an id that expires is removed, a producer that is fenced is aborted in the same step.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use wire::records::DecodeError;
use wire::records::transactions::{TransactionLogKey, TransactionLogValue, TransactionPartitions};
use wire::types::ProducerId;

/// The largest epoch that a producer is given; one more is left for fencing it.
pub(super) const EPOCH_MAX: i16 = i16::MAX - 1;

/// From this version of the protocol on the epoch grows with each transaction.
pub(crate) const EPOCH_BUMPS: i16 = 2;

/// State of a transactional id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum State {
    /// No transaction since the producer began.
    Empty,
    /// A transaction with partitions.
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

impl State {
    const ALL: [(Self, i8, &'static str); 6] = [
        (Self::Empty, 0, "Empty"),
        (Self::Ongoing, 1, "Ongoing"),
        (Self::PrepareCommit, 2, "PrepareCommit"),
        (Self::PrepareAbort, 3, "PrepareAbort"),
        (Self::CompleteCommit, 4, "CompleteCommit"),
        (Self::CompleteAbort, 5, "CompleteAbort"),
    ];

    /// Its number in the log.
    pub(crate) fn number(self) -> i8 {
        let Some((_, number, _)) = Self::ALL.iter().find(|(state, ..)| *state == self) else {
            unreachable!("all states have numbers");
        };
        *number
    }

    /// Its name, as tools show it.
    pub(crate) fn name(self) -> &'static str {
        let Some((.., name)) = Self::ALL.iter().find(|(state, ..)| *state == self) else {
            unreachable!("all states have names");
        };
        name
    }

    /// The state of this name, also of those that only Kafka's memory has: they filter nothing out of a list.
    pub(crate) fn is_name(name: &str) -> bool {
        matches!(name, "Dead" | "PrepareEpochFence") || Self::ALL.iter().any(|(.., it)| *it == name)
    }

    fn from_number(number: i8) -> Option<Self> {
        Self::ALL
            .iter()
            .find(|(_, it, _)| *it == number)
            .map(|(state, ..)| *state)
    }

    /// A decision has been taken and not been carried out everywhere.
    pub(crate) fn is_prepared(self) -> bool {
        matches!(self, Self::PrepareCommit | Self::PrepareAbort)
    }
}

/// A partition, by its topic's name.
pub(crate) type PartitionName = (String, i32);

/// What the log has of a transactional id, and the last epoch, which it does not have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    /// State.
    pub(crate) state: State,
    /// The producer's id.
    pub(crate) producer_id: ProducerId,
    /// The id it had before, `NONE` if none.
    pub(crate) previous_producer_id: ProducerId,
    /// The id it gets when the transaction is complete, `NONE` for the same.
    pub(crate) next_producer_id: ProducerId,
    /// The producer's epoch; -1 before it has been given one.
    pub(crate) epoch: i16,
    /// The epoch before this one, where a client that did not hear of the new one may come back with it; else -1.
    pub(crate) last_epoch: i16,
    /// How long a transaction may take, in milliseconds.
    pub(crate) timeout_ms: i32,
    /// Partitions of the transaction that have, or may have, records of it and no marker.
    // Bounded: `transaction::weight::check_growth`, for all ids of a shard.
    pub(crate) partitions: BTreeSet<PartitionName>,
    /// When the transaction began, in milliseconds; -1 without one.
    pub(crate) start_ms: i64,
    /// When this was decided, in milliseconds.
    pub(crate) updated_ms: i64,
    /// Version of the protocol that the client used.
    pub(crate) client_version: i16,
}

impl Entry {
    /// A transactional id that nobody has used yet.
    pub(crate) fn unused(producer_id: ProducerId, timeout_ms: i32, now_ms: i64) -> Self {
        Self {
            state: State::Empty,
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

    /// As a log has it that is read at `now_ms`: nothing was decided later than that, whatever the clock said then.
    pub(crate) fn known_by(self, now_ms: i64) -> Self {
        Self {
            updated_ms: self.updated_ms.min(now_ms),
            ..self
        }
    }

    /// True when the next epoch needs another producer id.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.epoch >= EPOCH_MAX
    }

    /// The record's key and value. `level` is the finalized `transaction.version`.
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
            partitions: (self.state != State::Empty).then(|| partitions.collect()),
            last_update_ms: self.updated_ms,
            start_ms: self.start_ms,
            client_version: self.client_version,
            next_producer_epoch: -1,
        };
        (key(id), Some(value.encode(level.min(1))))
    }

    /// Reads a record's value; `None` for a state that no log has.
    pub(crate) fn from_record(value: &[u8]) -> Result<Option<Self>, DecodeError> {
        let value = TransactionLogValue::decode(value)?;
        let partitions = value.partitions.unwrap_or_default().into_iter();
        let partitions = partitions.flat_map(|TransactionPartitions { topic, partitions }| {
            partitions
                .into_iter()
                .map(move |partition| (topic.clone(), partition))
        });
        let partitions = partitions.collect();
        Ok(State::from_number(value.status).map(|state| Self {
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
        }))
    }
}

/// The key of a transactional id's records.
pub(crate) fn key(id: &str) -> Bytes {
    let transactional_id = id.to_owned();
    TransactionLogKey { transactional_id }.encode()
}
