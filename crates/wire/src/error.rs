//! Errors of decoding and encoding: of a batch, a request frame, a message, a response.
//!
//! The types follow what the caller does with the error: it answers a bad batch with Kafka's error
//! code, closes the connection for a bad frame or request, and treats a response that does not
//! encode as a bug of the broker.
//!
//! Not here: errors of the records in Kafka's own topics (`records/codec.rs`) and of telemetry
//! (`telemetry.rs`).

use crate::types::ErrorCode;

/// The code of zstd, which is a valid codec but not allowed in every version of a request.
pub(crate) const ZSTD_CODE: i16 = 4;

/// The reason why bytes are not an acceptable record batch.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// The bytes end before the batch ends.
    #[error("batch is cut short: {have} of {need} bytes")]
    Incomplete {
        /// Bytes present.
        have: usize,
        /// Bytes that the batch needs.
        need: usize,
    },
    /// The length field is smaller than any batch.
    #[error("record size {length} is less than the minimum record overhead")]
    Length {
        /// The length field.
        length: i32,
    },
    /// A format version that is not 2.
    #[error("record batches must have magic version 2, found {magic}")]
    Magic {
        /// The version found.
        magic: i8,
    },
    /// The stored CRC does not match the bytes.
    #[error("record is corrupt (stored crc = {stored}, computed crc = {computed})")]
    Crc {
        /// The CRC in the header.
        stored: u32,
        /// The CRC of the bytes.
        computed: u32,
    },
    /// The batch is larger than allowed.
    #[error("the record batch size is {size_bytes} bytes which exceeds the maximum of {bytes_max}")]
    TooLarge {
        /// Bytes of the batch.
        size_bytes: usize,
        /// Bytes allowed.
        bytes_max: usize,
    },
    /// A compression code without a codec, or a codec that the version of the request does not
    /// allow.
    #[error("compression type {code} is not supported here")]
    Compression {
        /// The code in the batch's attributes.
        code: i16,
    },
    /// The records cannot be decompressed, or would need more memory than allowed.
    #[error("failed to decompress the record stream: {reason}")]
    Decompress {
        /// The codec's error.
        reason: String,
    },
    /// The header contradicts itself, or has a value that a client may not set.
    #[error("{reason} (found {found}, expected {expected})")]
    Header {
        /// The rule that the header breaks.
        reason: &'static str,
        /// The value found.
        found: i64,
        /// The value, or the bound, that was expected.
        expected: i64,
    },
    /// A record's framing is wrong.
    #[error("record {index} of the batch is malformed: {reason}")]
    Framing {
        /// Position of the record in the batch.
        index: i32,
        /// What is wrong.
        reason: &'static str,
    },
    /// The records are well-formed, but the topic does not accept at least one of them.
    #[error("{}", records_message(*.timestamp, *.count))]
    Records {
        /// True when at least one record was refused for its timestamp.
        timestamp: bool,
        /// Number of refused records.
        count: usize,
        /// The first errors; see [`crate::batch::validate::RECORD_ERRORS_MAX`].
        errors: Vec<RecordError>,
    },
}

/// A refused record and the reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordError {
    /// Position of the record in its batch.
    pub batch_index: i32,
    /// The reason.
    pub message: String,
}

fn records_message(timestamp: bool, count: usize) -> String {
    if timestamp {
        "One or more records have been rejected due to invalid timestamp".to_owned()
    } else {
        format!("One or more records have been rejected due to {count} record errors in total")
    }
}

impl BatchError {
    /// Returns the error code that Kafka answers.
    pub fn error_code(&self) -> ErrorCode {
        match self {
            Self::Length { .. } | Self::Crc { .. } => ErrorCode::CorruptMessage,
            Self::TooLarge { .. } => ErrorCode::MessageTooLarge,
            Self::Compression { code } if *code == ZSTD_CODE => {
                ErrorCode::UnsupportedCompressionType
            }
            // Kafka does not expect an unknown codec or an undecodable stream, and answers this
            // code.
            Self::Compression { .. } | Self::Decompress { .. } => ErrorCode::UnknownServerError,
            Self::Records {
                timestamp: true, ..
            } => ErrorCode::InvalidTimestamp,
            Self::Magic { magic } if !(0..=2).contains(magic) => ErrorCode::CorruptMessage,
            Self::Incomplete { .. }
            | Self::Magic { .. }
            | Self::Header { .. }
            | Self::Framing { .. }
            | Self::Records { .. } => ErrorCode::InvalidRecord,
        }
    }

    /// Returns the refused records that the response names; empty when the whole batch is refused.
    pub fn record_errors(&self) -> &[RecordError] {
        match self {
            Self::Records { errors, .. } => errors,
            _ => &[],
        }
    }
}

/// The reason why bytes from a peer are not a request.
///
/// Each one closes the connection, as in Kafka.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The length prefix is negative.
    #[error("frame length {length} is negative")]
    NegativeLength {
        /// The length announced.
        length: i32,
    },
    /// The length prefix is zero.
    #[error("frame is empty")]
    Empty,
    /// The frame is larger than allowed.
    #[error("frame of {length_bytes} bytes is larger than the maximum of {bytes_max}")]
    TooLarge {
        /// The length announced.
        length_bytes: usize,
        /// Bytes allowed.
        bytes_max: usize,
    },
    /// The header does not decode.
    #[error("request header of api key {api_key} does not decode: {source}")]
    Header {
        /// The API key, -1 when the frame ends within it.
        api_key: i16,
        /// What is wrong.
        source: DecodeError,
    },
    /// The broker does not serve this API.
    #[error("api key {api_key} is not served")]
    UnknownApi {
        /// The key.
        api_key: i16,
    },
    /// The broker does not serve this version of the API.
    #[error("version {version} of api {api} is not served")]
    UnsupportedVersion {
        /// Name of the API.
        api: &'static str,
        /// The version.
        version: i16,
    },
}

/// The reason why bytes do not decode to the expected message.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes end within a field.
    #[error("{field} needs {need} bytes, {have} are left")]
    Truncated {
        /// Path of the field.
        field: String,
        /// Bytes the field needs (for arrays: at least).
        need: u64,
        /// Bytes left.
        have: usize,
    },
    /// A length that is not possible for the field.
    #[error("{field} has the impossible length {length}")]
    Length {
        /// Path of the field.
        field: String,
        /// The length found.
        length: i64,
    },
    /// A null where the field must have a value.
    #[error("{field} must not be null")]
    Null {
        /// Path of the field.
        field: String,
    },
    /// Text that is not UTF-8.
    #[error("{field} is not UTF-8")]
    NotUtf8 {
        /// Path of the field.
        field: String,
    },
    /// A variable-length integer of more than five bytes or 32 bits.
    #[error("{field} is not a 32-bit variable-length integer")]
    Varint {
        /// Path of the field.
        field: String,
    },
    /// A tagged field does not have its announced size.
    #[error("{field} has a malformed tagged field {tag}")]
    Tag {
        /// Path of the structure.
        field: String,
        /// The tag.
        tag: u32,
    },
    /// Decoding would take more memory than allowed.
    #[error("decoding would take {bytes} bytes of memory, {bytes_max} are allowed")]
    TooMuchMemory {
        /// The estimate.
        bytes: usize,
        /// Bytes allowed.
        bytes_max: usize,
    },
    /// More topics and partitions than one request may name.
    #[error("more than {parts_max} topics and partitions in one request")]
    TooManyParts {
        /// How many are allowed.
        parts_max: usize,
    },
    /// There is no decoder for this version.
    #[error("there is no decoder for version {version}")]
    Version {
        /// The version asked for.
        version: i16,
    },
    /// The generated decoder refused bytes that the shape allows.
    #[error("does not decode: {reason}")]
    Codec {
        /// The decoder's error.
        reason: String,
    },
}

impl DecodeError {
    /// Prefixes the field with the path of its parent structure.
    pub(crate) fn within(mut self, path: &str) -> Self {
        match &mut self {
            Self::Truncated { field, .. }
            | Self::Length { field, .. }
            | Self::Null { field }
            | Self::NotUtf8 { field }
            | Self::Varint { field }
            | Self::Tag { field, .. } => field.insert_str(0, path),
            Self::TooMuchMemory { .. }
            | Self::TooManyParts { .. }
            | Self::Version { .. }
            | Self::Codec { .. } => {}
        }
        self
    }
}

/// The reason why a response does not encode.
///
/// This is a bug of the broker, never an error of a peer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// A field that does not exist in this version is set, or the version does not exist.
    #[error("{api} version {version} does not encode: {reason}")]
    Codec {
        /// Name of the API.
        api: &'static str,
        /// The version.
        version: i16,
        /// The encoder's error.
        reason: String,
    },
    /// The response is longer than a length field can hold.
    #[error("{api} response of {bytes} bytes is longer than a frame can be")]
    TooLong {
        /// Name of the API.
        api: &'static str,
        /// Bytes of the response.
        bytes: usize,
    },
}
