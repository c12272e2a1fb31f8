//! What can be wrong with bytes: a batch, a frame, a message.
//!
//! Three types because their readers do three things: a bad batch is answered with Kafka's error
//! code, a bad frame or request closes the connection, a response that cannot be encoded is a fault
//! of ours.

use crate::types::ErrorCode;

/// The code of a codec that there is, but not in every version of a request.
pub(crate) const ZSTD_CODE: i16 = 4;

/// Why bytes are no acceptable record batch.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// The bytes end before the batch does.
    #[error("batch is cut short: {have} of {need} bytes")]
    Incomplete {
        /// Bytes there are.
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
    /// The bytes are not those that the sender summed.
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
    /// A compression code without a codec, or one that the request's version does not allow.
    #[error("compression type {code} is not supported here")]
    Compression {
        /// The code in the batch's attributes.
        code: i16,
    },
    /// The records cannot be decompressed, or would need more memory than allowed.
    #[error("failed to decompress the record stream: {reason}")]
    Decompress {
        /// What the codec said.
        reason: String,
    },
    /// The header contradicts itself, or says what a client may not say.
    #[error("{reason} (found {found}, expected {expected})")]
    Header {
        /// The rule that is broken.
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
    /// Well-formed records that this topic does not take.
    #[error("{}", records_message(*.timestamp, *.count))]
    Records {
        /// True when at least one was refused for its timestamp.
        timestamp: bool,
        /// How many were refused.
        count: usize,
        /// The first of them; see [`crate::batch::validate::RECORD_ERRORS_MAX`].
        errors: Vec<RecordError>,
    },
}

/// A record that was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordError {
    /// Position of the record in its batch.
    pub batch_index: i32,
    /// Why.
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
    /// The code that Kafka answers for it.
    pub fn error_code(&self) -> ErrorCode {
        match self {
            Self::Length { .. } | Self::Crc { .. } => ErrorCode::CorruptMessage,
            Self::TooLarge { .. } => ErrorCode::MessageTooLarge,
            Self::Compression { code } if *code == ZSTD_CODE => {
                ErrorCode::UnsupportedCompressionType
            }
            // A codec that nobody has, or a stream that it cannot read: Kafka expects neither.
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

    /// The single records to name in the answer; empty when the batch as a whole is refused.
    pub fn record_errors(&self) -> &[RecordError] {
        match self {
            Self::Records { errors, .. } => errors,
            _ => &[],
        }
    }
}

/// Why bytes from a peer are no request. All of them end the connection, as Kafka does.
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
        /// The API key, -1 when not even that was there.
        api_key: i16,
        /// What is wrong.
        source: DecodeError,
    },
    /// An API that is not served.
    #[error("api key {api_key} is not served")]
    UnknownApi {
        /// The key.
        api_key: i16,
    },
    /// A version that is not served.
    #[error("version {version} of api {api} is not served")]
    UnsupportedVersion {
        /// Name of the API.
        api: &'static str,
        /// The version.
        version: i16,
    },
}

/// Why bytes do not decode to the message they should be.
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
    /// A length that no value has.
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
    /// A tagged field that is not of its announced size.
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
    /// No decoder for this version.
    #[error("there is no decoder for version {version}")]
    Version {
        /// The version asked for.
        version: i16,
    },
    /// The generated decoder refused what the shape allows.
    #[error("does not decode: {reason}")]
    Codec {
        /// What it said.
        reason: String,
    },
}

impl DecodeError {
    /// The same, with the path of the structure in which the field lies in front.
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

/// Why a response of ours has no bytes. A fault of the broker, never of a peer.
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
        /// What the encoder said.
        reason: String,
    },
    /// More than a length field can say.
    #[error("{api} response of {bytes} bytes is longer than a frame can be")]
    TooLong {
        /// Name of the API.
        api: &'static str,
        /// Bytes of the response.
        bytes: usize,
    },
}
