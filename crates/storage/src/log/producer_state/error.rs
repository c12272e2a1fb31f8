//! Why a producer's batch is refused, and the code that its client gets.
//!
//! It does not: judge batches (`entry.rs`).

use thiserror::Error;
use wire::types::{ErrorCode, ProducerId};

/// Why a batch must not be appended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum ProducerError {
    /// The batch does not follow the last one of its producer.
    ///
    /// Something in between is missing, or it is an old batch that is not remembered any more.
    #[error("producer {}: sequence {found} does not follow {last}", .producer_id.0)]
    OutOfOrderSequence {
        /// The producer of the batch.
        producer_id: ProducerId,
        /// Its first sequence.
        found: i32,
        /// Last sequence of the last batch appended; -1 when the next one has to be 0.
        last: i32,
    },
    /// A newer instance of the producer has written already.
    #[error("producer {}: epoch {found} is older than {current}", .producer_id.0)]
    InvalidEpoch {
        /// The producer of the batch.
        producer_id: ProducerId,
        /// Its epoch.
        found: i16,
        /// The newest epoch seen.
        current: i16,
    },
    /// A batch outside of a transaction while the producer has one open.
    #[error("producer {}: not transactional while a transaction is open", .producer_id.0)]
    InvalidTxnState {
        /// The producer of the batch.
        producer_id: ProducerId,
    },
    /// A marker from a transaction coordinator that has been replaced.
    #[error("producer {}: coordinator epoch {found} is older than {current}", .producer_id.0)]
    CoordinatorFenced {
        /// The producer of the transaction.
        producer_id: ProducerId,
        /// The marker's coordinator epoch.
        found: i32,
        /// The newest coordinator epoch seen.
        current: i32,
    },
}

impl ProducerError {
    /// Returns the protocol's code.
    pub fn error_code(&self) -> ErrorCode {
        match self {
            Self::OutOfOrderSequence { .. } => ErrorCode::OutOfOrderSequenceNumber,
            Self::InvalidEpoch { .. } => ErrorCode::InvalidProducerEpoch,
            Self::InvalidTxnState { .. } => ErrorCode::InvalidTxnState,
            Self::CoordinatorFenced { .. } => ErrorCode::TransactionCoordinatorFenced,
        }
    }
}
