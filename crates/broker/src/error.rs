//! What storage and validation say, in the protocol's words: the one place where errors become Kafka's codes.

use storage::Kind;
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
    /// The records at fault: index in the batch, and what was wrong with it.
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

/// Kafka's code for a storage error. All but damage, closing and impossible offsets are for clients to try again.
pub(crate) fn error_code(error: &storage::Error) -> ErrorCode {
    match error.kind() {
        Kind::Retry | Kind::Full | Kind::Failed => ErrorCode::KafkaStorageError,
        Kind::Corrupt => ErrorCode::CorruptMessage,
        Kind::Closed => ErrorCode::NotLeaderOrFollower,
        Kind::Invalid => match error {
            storage::Error::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
            storage::Error::OtherTopic { .. } => ErrorCode::InconsistentTopicId,
            _ => ErrorCode::UnknownServerError,
        },
    }
}
