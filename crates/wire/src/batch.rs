//! Record batch v2 (magic 2), the unit of the wire and of the log, as bytes that are looked at but
//! not changed.
//!
//! Base offset and partition leader epoch lie before the bytes that the CRC covers, so a broker
//! stamps both without computing anything anew. Layout: `docs/formats/record-batch.md`.
//! Not here: validation of what a producer sent (`batch/validate.rs`), single records
//! (`batch/record.rs`), compression (`batch/compression.rs`), making batches (`batch/builder.rs`).

pub mod builder;
pub mod compression;
pub mod iter;
pub mod recompress;
pub mod record;
pub mod retain;
pub mod validate;
pub mod varint;
mod walk;

pub use builder::BatchBuilder;
pub use compression::Compression;
pub use iter::{Batches, validate_stored};
pub use recompress::recompress;
pub use record::{Record, records};
pub use validate::{Produced, ValidateLimits, validate_produced};

use crate::crc;
pub use crate::error::{BatchError, RecordError};
use crate::types::{LeaderEpoch, Offset, ProducerId, TimestampMs};

/// Bytes of a batch before its first record.
pub const HEADER_BYTES: usize = 61;
/// Bytes before the part that the length field counts (base offset and the length itself).
pub const LENGTH_END: usize = 12;
/// First byte that the CRC covers.
pub const CRC_START: usize = 21;

/// Attribute: the base timestamp is the delete horizon.
const DELETE_HORIZON: i16 = 0x40;

/// The fixed part of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchHeader {
    /// Offset of the first record.
    pub base_offset: Offset,
    /// Length of the whole batch in bytes, header included (the length field plus 12).
    pub size_bytes: usize,
    /// Leader epoch that the broker stamped.
    pub leader_epoch: LeaderEpoch,
    /// Format version; 2 for every batch this broker stores.
    pub magic: i8,
    /// CRC-32C of everything from the attributes on.
    pub crc: u32,
    /// Compression (bits 0-2), timestamp type (3), transactional (4), control (5), delete horizon
    /// (6).
    pub attributes: i16,
    /// Offset of the last record, relative to the base offset.
    pub last_offset_delta: i32,
    /// Timestamp of the first record, or the delete horizon.
    pub base_timestamp: TimestampMs,
    /// Largest timestamp, or the append time with timestamp type `LogAppendTime`.
    pub max_timestamp: TimestampMs,
    /// Identity of the producer.
    pub producer_id: ProducerId,
    /// Epoch of the producer, -1 without identity.
    pub producer_epoch: i16,
    /// Sequence of the first record, -1 without identity.
    pub base_sequence: i32,
    /// Number of records.
    pub record_count: i32,
}

impl BatchHeader {
    /// Reads the fixed part. `None` when there are fewer than [`HEADER_BYTES`] bytes or the length
    /// field is too small to be a batch; nothing else is judged.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let header: &[u8; HEADER_BYTES] = bytes.get(..HEADER_BYTES)?.try_into().ok()?;
        let size = usize::try_from(i32::from_be_bytes(array(header, 8)))
            .ok()?
            .checked_add(LENGTH_END)?;
        (size >= HEADER_BYTES).then(|| Self {
            base_offset: Offset(i64::from_be_bytes(array(header, 0))),
            size_bytes: size,
            leader_epoch: LeaderEpoch(i32::from_be_bytes(array(header, 12))),
            magic: i8::from_be_bytes(array(header, 16)),
            crc: u32::from_be_bytes(array(header, 17)),
            attributes: i16::from_be_bytes(array(header, 21)),
            last_offset_delta: i32::from_be_bytes(array(header, 23)),
            base_timestamp: TimestampMs(i64::from_be_bytes(array(header, 27))),
            max_timestamp: TimestampMs(i64::from_be_bytes(array(header, 35))),
            producer_id: ProducerId(i64::from_be_bytes(array(header, 43))),
            producer_epoch: i16::from_be_bytes(array(header, 51)),
            base_sequence: i32::from_be_bytes(array(header, 53)),
            record_count: i32::from_be_bytes(array(header, 57)),
        })
    }

    /// Offset of the last record.
    pub fn last_offset(&self) -> Offset {
        self.base_offset.plus(i64::from(self.last_offset_delta))
    }

    /// Offset that follows the batch.
    pub fn next_offset(&self) -> Offset {
        self.last_offset().plus(1)
    }

    /// True for control batches (transaction markers, metadata leader changes).
    pub fn is_control(&self) -> bool {
        self.attributes & 0x20 != 0
    }

    /// True for batches of a transaction.
    pub fn is_transactional(&self) -> bool {
        self.attributes & 0x10 != 0
    }

    /// True when the broker's append time is the timestamp of every record.
    pub fn is_log_append_time(&self) -> bool {
        self.attributes & 0x08 != 0
    }

    /// From when on the tombstones and markers of the batch may go, if compaction has said so. The
    /// base timestamp is then this time, and the records' deltas count from it.
    pub fn delete_horizon(&self) -> Option<TimestampMs> {
        (self.attributes & DELETE_HORIZON != 0).then_some(self.base_timestamp)
    }

    /// The raw compression code (0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd).
    pub fn compression_code(&self) -> i16 {
        self.attributes & 0x07
    }

    /// Sequence of the last record; sequences wrap from `i32::MAX` to 0. -1 without identity.
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence < 0 {
            -1
        } else {
            sequence_plus(self.base_sequence, self.last_offset_delta)
        }
    }
}

/// The sequence `by` records after `sequence`, wrapping from `i32::MAX` to 0.
pub fn sequence_plus(sequence: i32, by: i32) -> i32 {
    sequence.wrapping_add(by) & i32::MAX
}

/// Computes the CRC of a whole batch's bytes (at least [`HEADER_BYTES`]).
pub fn crc_of(batch: &[u8]) -> u32 {
    crc::crc32c(batch.get(CRC_START..).unwrap_or_default())
}

/// Makes every record of a batch carry the broker's time: sets timestamp type and max timestamp in
/// the header of a whole, valid batch and amends the CRC, without touching (or reading) the
/// records.
pub fn stamp_append_time(header: &mut [u8; HEADER_BYTES], now: TimestampMs) {
    set_time(header, true, now);
}

/// Sets timestamp type and max timestamp, and amends the CRC for the bytes that changed.
pub(crate) fn set_time(header: &mut [u8; HEADER_BYTES], append_time: bool, max: TimestampMs) {
    let Some(parsed) = BatchHeader::parse(header) else {
        return;
    };
    let summed_before = crc_of(header);
    let attributes = if append_time {
        parsed.attributes | 0x08
    } else {
        parsed.attributes & !0x08
    };
    put(header, 21, attributes.to_be_bytes());
    put(header, 35, max.0.to_be_bytes());
    // CRCs are linear: what differs at the front, shifted over the records behind it, is what
    // differs in the sum.
    let records_bytes = parsed.size_bytes - HEADER_BYTES;
    let differs = crc::crc32c_combine(summed_before, 0, records_bytes)
        ^ crc::crc32c_combine(crc_of(header), 0, records_bytes);
    put(header, 17, (parsed.crc ^ differs).to_be_bytes());
}

/// Writes base offset and leader epoch into the first bytes of a batch; no other field and not the
/// CRC change.
pub fn stamp(header: &mut [u8; HEADER_BYTES], base_offset: Offset, epoch: LeaderEpoch) {
    put(header, 0, base_offset.0.to_be_bytes());
    put(header, 12, epoch.0.to_be_bytes());
}

/// Every caller's `at` is a constant within the header.
fn put<const N: usize>(header: &mut [u8; HEADER_BYTES], at: usize, value: [u8; N]) {
    for (to, from) in header.iter_mut().skip(at).zip(value) {
        *to = from;
    }
}

/// Every caller's `at` is a constant within the header.
fn array<const N: usize>(header: &[u8; HEADER_BYTES], at: usize) -> [u8; N] {
    let mut value = [0; N];
    for (to, from) in value.iter_mut().zip(header.iter().skip(at)) {
        *to = *from;
    }
    value
}

#[cfg(test)]
mod tests;
