//! What happens to a consumer, as its application sees it.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::oneshot;
use wire::types::TopicPartition;

use crate::error::ClientError;
use crate::fetch::room::Held;
use crate::fetch::{FetchedBatch, Position};

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// Records of one partition.
    Records(FetchedRecords),
    /// A partition was read to its end.
    End {
        /// The partition.
        place: TopicPartition,
        /// The offset at which it ends.
        offset: i64,
    },
    /// The group gave these partitions to the consumer.
    Assigned(BTreeSet<TopicPartition>),
    /// The group wants partitions back.
    Revoking(Revocation),
    /// These partitions are the consumer's no longer, and may be another's already.
    Lost(BTreeSet<TopicPartition>),
    /// The log was cut behind what was read: reading goes on at an earlier offset.
    Truncated {
        /// The partition.
        place: TopicPartition,
        /// The position before.
        from: i64,
        /// The position now.
        to: i64,
    },
    /// Something does not work at the moment; it is tried again.
    Trouble(ClientError),
    /// Something does not work, and trying again is not expected to help: a partition cannot be
    /// read, or (without one) the consumer can do nothing.
    Failed {
        /// The partition.
        place: Option<TopicPartition>,
        /// Why.
        error: ClientError,
    },
    /// Nothing, until the deadline.
    Nothing,
    /// The consumer has ended.
    Closed,
}

/// Records of one partition, which take memory of the consumer until they are dropped.
#[derive(Debug)]
pub struct FetchedRecords {
    /// The partition.
    pub place: TopicPartition,
    /// Batches in the order of their offsets.
    pub batches: Vec<FetchedBatch>,
    /// The position after them.
    pub position: Position,
    /// Shared by all records of an answer.
    pub(super) _held: Arc<Held>,
}

/// Partitions that the group wants back. They stay the consumer's until this is dropped: before,
/// the application finishes what it has of them and stores its positions.
#[derive(Debug)]
pub struct Revocation {
    /// The partitions.
    pub places: BTreeSet<TopicPartition>,
    /// Dropped with the rest.
    pub(super) _held: oneshot::Sender<()>,
}
