//! Errors of storage and validation as Kafka's error codes.
//!
//! Invariant: this is the only place where errors become codes.

use storage::FailureKind;
use storage::log::producer_state::ProducerError;
use wire::batch::{BatchError, RecordError};
use wire::types::ErrorCode;

/// Why an append was refused.
#[derive(Debug, Clone)]
pub struct AppendError {
    /// Kafka's code.
    pub code: ErrorCode,
    /// What was wrong, for the response.
    pub message: Option<String>,
    /// The records at fault: index in the batch, and what is wrong with the record.
    pub records: Vec<RecordError>,
}

impl From<ErrorCode> for AppendError {
    fn from(code: ErrorCode) -> Self {
        Self {
            code,
            message: None,
            records: Vec::new(),
        }
    }
}

impl From<BatchError> for AppendError {
    fn from(error: BatchError) -> Self {
        Self {
            code: error.error_code(),
            message: Some(error.to_string()),
            records: error.record_errors().to_vec(),
        }
    }
}

impl From<storage::Error> for AppendError {
    fn from(error: storage::Error) -> Self {
        Self {
            code: error_code(&error),
            message: Some(error.to_string()),
            records: Vec::new(),
        }
    }
}

impl From<ProducerError> for AppendError {
    fn from(error: ProducerError) -> Self {
        Self {
            code: error.error_code(),
            message: Some(error.to_string()),
            records: Vec::new(),
        }
    }
}

/// Returns Kafka's code for a storage error.
///
/// Clients retry after all of them except damage, closing and impossible offsets.
pub(crate) fn error_code(error: &storage::Error) -> ErrorCode {
    match error.kind() {
        FailureKind::Retry | FailureKind::Full | FailureKind::Failed => {
            ErrorCode::KafkaStorageError
        }
        FailureKind::Corrupt => ErrorCode::CorruptMessage,
        FailureKind::Closed => ErrorCode::NotLeaderOrFollower,
        FailureKind::Invalid => match error {
            storage::Error::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
            storage::Error::OtherTopic { .. } => ErrorCode::InconsistentTopicId,
            _ => ErrorCode::UnknownServerError,
        },
    }
}
