//! Record batch v2 (magic 2), the unit of the wire and of the log, as bytes that are read but not
//! changed.
//!
//! Base offset and partition leader epoch precede the bytes that the CRC covers, so a broker stamps
//! both without computing a CRC. Layout: `docs/formats/record-batch.md`.
//! Not here: validation of produced batches (`batch/validate.rs`), single records
//! (`batch/record.rs`), compression (`batch/compression.rs`), building batches
//! (`batch/builder.rs`).

pub mod builder;
pub mod compression;
pub mod iter;
pub mod recompress;
pub mod record;
pub mod retain;
pub mod validate;
pub mod varint;
mod walk;
mod whole;

pub use builder::BatchBuilder;
pub use compression::Compression;
pub use iter::{Batches, validate_stored};
pub use recompress::recompress;
pub use record::{Record, records};
pub use validate::{ValidateLimits, ValidatedBatch, validate_produced};
pub use whole::WholeBatch;

use crate::crc;
pub use crate::error::{BatchError, RecordError};
use crate::types::{LeaderEpoch, Offset, ProducerId, TimestampMs};

/// Bytes of a batch before its first record.
pub const HEADER_BYTES: usize = 61;
/// Bytes before the part that the length field counts (base offset and the length itself).
pub const LENGTH_END: usize = 12;
/// First byte that the CRC covers.
pub const CRC_START: usize = 21;

/// Positions of the fields in the fixed part.
mod at {
    pub(super) const BASE_OFFSET: usize = 0;
    pub(super) const LENGTH: usize = 8;
    pub(super) const LEADER_EPOCH: usize = 12;
    pub(super) const MAGIC: usize = 16;
    pub(super) const CRC: usize = 17;
    pub(super) const ATTRIBUTES: usize = 21;
    pub(super) const LAST_OFFSET_DELTA: usize = 23;
    pub(super) const BASE_TIMESTAMP: usize = 27;
    pub(super) const MAX_TIMESTAMP: usize = 35;
    pub(super) const PRODUCER_ID: usize = 43;
    pub(super) const PRODUCER_EPOCH: usize = 51;
    pub(super) const BASE_SEQUENCE: usize = 53;
    pub(super) const RECORD_COUNT: usize = 57;
}

const _: () = assert!(
    at::LENGTH + size_of::<i32>() == LENGTH_END && at::LEADER_EPOCH == LENGTH_END,
    "the length counts what follows it"
);
const _: () = assert!(
    at::CRC + size_of::<u32>() == CRC_START && at::ATTRIBUTES == CRC_START,
    "the CRC covers what follows it"
);
const _: () = assert!(
    at::BASE_OFFSET + size_of::<i64>() <= CRC_START
        && at::LEADER_EPOCH + size_of::<i32>() <= CRC_START,
    "what the broker stamps is not under the CRC"
);
const _: () = assert!(
    at::RECORD_COUNT + size_of::<i32>() == HEADER_BYTES,
    "the records follow their number"
);

/// Attribute: the codec.
const COMPRESSION: i16 = 0x07;
/// Attribute: the max timestamp is the append time, which is the timestamp of every record.
const LOG_APPEND_TIME: i16 = 0x08;
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
    /// Epoch of the producer, -1 without an identity.
    pub producer_epoch: i16,
    /// Sequence of the first record, -1 without an identity.
    pub base_sequence: i32,
    /// Number of records.
    pub record_count: i32,
}

impl BatchHeader {
    /// Reads the fixed part.
    ///
    /// `None` when there are fewer than [`HEADER_BYTES`] bytes or the length field is too small for
    /// a batch; nothing else is checked.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let header: &[u8; HEADER_BYTES] = bytes.get(..HEADER_BYTES)?.try_into().ok()?;
        let size = usize::try_from(i32::from_be_bytes(array::<{ at::LENGTH }, _>(header)))
            .ok()?
            .checked_add(LENGTH_END)?;
        (size >= HEADER_BYTES).then(|| Self {
            base_offset: Offset(i64::from_be_bytes(array::<{ at::BASE_OFFSET }, _>(header))),
            size_bytes: size,
            leader_epoch: LeaderEpoch(i32::from_be_bytes(array::<{ at::LEADER_EPOCH }, _>(header))),
            magic: i8::from_be_bytes(array::<{ at::MAGIC }, _>(header)),
            crc: u32::from_be_bytes(array::<{ at::CRC }, _>(header)),
            attributes: i16::from_be_bytes(array::<{ at::ATTRIBUTES }, _>(header)),
            last_offset_delta: i32::from_be_bytes(array::<{ at::LAST_OFFSET_DELTA }, _>(header)),
            base_timestamp: TimestampMs(i64::from_be_bytes(array::<{ at::BASE_TIMESTAMP }, _>(
                header,
            ))),
            max_timestamp: TimestampMs(i64::from_be_bytes(array::<{ at::MAX_TIMESTAMP }, _>(
                header,
            ))),
            producer_id: ProducerId(i64::from_be_bytes(array::<{ at::PRODUCER_ID }, _>(header))),
            producer_epoch: i16::from_be_bytes(array::<{ at::PRODUCER_EPOCH }, _>(header)),
            base_sequence: i32::from_be_bytes(array::<{ at::BASE_SEQUENCE }, _>(header)),
            record_count: i32::from_be_bytes(array::<{ at::RECORD_COUNT }, _>(header)),
        })
    }

    /// Returns the bytes of the fixed part, which [`Self::parse`] reads back.
    pub(crate) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        assert!(
            self.size_bytes >= HEADER_BYTES,
            "a batch has its fixed part"
        );
        let length = i32::try_from(self.size_bytes - LENGTH_END).expect("the length has a field");
        let mut bytes = [0; HEADER_BYTES];
        put::<{ at::BASE_OFFSET }, _>(&mut bytes, self.base_offset.0.to_be_bytes());
        put::<{ at::LENGTH }, _>(&mut bytes, length.to_be_bytes());
        put::<{ at::LEADER_EPOCH }, _>(&mut bytes, self.leader_epoch.0.to_be_bytes());
        put::<{ at::MAGIC }, _>(&mut bytes, self.magic.to_be_bytes());
        put::<{ at::CRC }, _>(&mut bytes, self.crc.to_be_bytes());
        put::<{ at::ATTRIBUTES }, _>(&mut bytes, self.attributes.to_be_bytes());
        put::<{ at::LAST_OFFSET_DELTA }, _>(&mut bytes, self.last_offset_delta.to_be_bytes());
        put::<{ at::BASE_TIMESTAMP }, _>(&mut bytes, self.base_timestamp.0.to_be_bytes());
        put::<{ at::MAX_TIMESTAMP }, _>(&mut bytes, self.max_timestamp.0.to_be_bytes());
        put::<{ at::PRODUCER_ID }, _>(&mut bytes, self.producer_id.0.to_be_bytes());
        put::<{ at::PRODUCER_EPOCH }, _>(&mut bytes, self.producer_epoch.to_be_bytes());
        put::<{ at::BASE_SEQUENCE }, _>(&mut bytes, self.base_sequence.to_be_bytes());
        put::<{ at::RECORD_COUNT }, _>(&mut bytes, self.record_count.to_be_bytes());
        bytes
    }

    /// Returns the offset of the last record.
    pub fn last_offset(&self) -> Offset {
        self.base_offset.plus(i64::from(self.last_offset_delta))
    }

    /// Returns the offset after the batch.
    pub fn next_offset(&self) -> Offset {
        self.last_offset().plus(1)
    }

    /// Returns true for control batches (transaction markers, metadata leader changes).
    pub fn is_control(&self) -> bool {
        self.attributes & 0x20 != 0
    }

    /// Returns true for batches of a transaction.
    pub fn is_transactional(&self) -> bool {
        self.attributes & 0x10 != 0
    }

    /// Returns true for what begins like a batch of a transaction, in the only format that has
    /// them; bytes from a client may have any.
    pub fn claims_transaction(&self) -> bool {
        self.magic == 2 && self.is_transactional()
    }

    /// Returns true when the broker's append time is the timestamp of every record.
    pub fn is_log_append_time(&self) -> bool {
        self.attributes & LOG_APPEND_TIME != 0
    }

    /// Returns the time from which the tombstones and markers of the batch may be removed, if
    /// compaction set it.
    ///
    /// It is then stored as the base timestamp, and the records' timestamp deltas are relative to
    /// it.
    pub fn delete_horizon(&self) -> Option<TimestampMs> {
        (self.attributes & DELETE_HORIZON != 0).then_some(self.base_timestamp)
    }

    /// Returns the raw compression code (0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd).
    pub fn compression_code(&self) -> i16 {
        self.attributes & COMPRESSION
    }

    /// Returns the sequence of the last record, or -1 without an identity.
    ///
    /// Sequences wrap from `i32::MAX` to 0.
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence < 0 {
            -1
        } else {
            sequence_plus(self.base_sequence, self.last_offset_delta)
        }
    }
}

/// Returns the sequence `by` records after `sequence`, wrapping from `i32::MAX` to 0.
pub fn sequence_plus(sequence: i32, by: i32) -> i32 {
    sequence.wrapping_add(by) & i32::MAX
}

/// Returns the batch at the start of `bytes`; more bytes may follow it.
fn first_batch(bytes: &[u8]) -> Result<(BatchHeader, &[u8]), BatchError> {
    let incomplete = |need| BatchError::Incomplete {
        have: bytes.len(),
        need,
    };
    let (start, _) = bytes
        .split_first_chunk::<LENGTH_END>()
        .ok_or_else(|| incomplete(HEADER_BYTES))?;
    let [.., a, b, c, d] = *start;
    let length = i32::from_be_bytes([a, b, c, d]);
    if usize::try_from(length).is_ok_and(|length| length + LENGTH_END >= HEADER_BYTES) {
        let header = BatchHeader::parse(bytes).ok_or_else(|| incomplete(HEADER_BYTES))?;
        let batch = bytes
            .get(..header.size_bytes)
            .ok_or_else(|| incomplete(header.size_bytes))?;
        Ok((header, batch))
    } else {
        Err(BatchError::Length { length })
    }
}

/// Computes the CRC of a whole batch.
///
/// # Panics
/// When there are fewer than [`HEADER_BYTES`] bytes, which is not a batch.
pub fn crc_of(batch: &[u8]) -> u32 {
    assert!(batch.len() >= HEADER_BYTES, "a batch has its fixed part");
    crc::crc32c(batch.split_at(CRC_START).1) // Bounded: before the end of the header.
}

/// Stamps the leader's values into a batch: base offset, leader epoch, and optionally the append
/// time.
///
/// `fixed` is the fixed part of the batch and `header` its parsed form; the parsed form after the
/// change is returned. Does not read the records.
pub fn stamp_as_leader(
    fixed: &mut [u8; HEADER_BYTES],
    header: &BatchHeader,
    (base_offset, leader_epoch): (Offset, LeaderEpoch),
    append_time: Option<TimestampMs>,
) -> BatchHeader {
    stamp(fixed, base_offset, leader_epoch);
    let mut stamped = BatchHeader {
        base_offset,
        leader_epoch,
        ..*header
    };
    if let Some(time) = append_time {
        stamp_append_time(fixed, &mut stamped, time);
    }
    debug_assert_eq!(BatchHeader::parse(fixed), Some(stamped));
    stamped
}

/// Gives every record of a batch the broker's time.
///
/// Sets timestamp type and max timestamp, and updates the CRC without reading the records.
fn stamp_append_time(fixed: &mut [u8; HEADER_BYTES], header: &mut BatchHeader, now: TimestampMs) {
    assert!(
        header.size_bytes >= HEADER_BYTES,
        "a batch has its fixed part"
    );
    let summed_before = crc_of(fixed);
    header.attributes |= LOG_APPEND_TIME;
    header.max_timestamp = now;
    put::<{ at::ATTRIBUTES }, _>(fixed, header.attributes.to_be_bytes());
    put::<{ at::MAX_TIMESTAMP }, _>(fixed, now.0.to_be_bytes());
    header.crc ^= crc_differs(summed_before, crc_of(fixed), header.size_bytes);
    put::<{ at::CRC }, _>(fixed, header.crc.to_be_bytes());
}

/// Gives a batch the identity of a producer and the sequence of its first record, and updates the
/// CRC without reading the records.
///
/// `fixed` is the fixed part of a whole batch; bytes that are none are left as they are.
pub fn stamp_producer(
    fixed: &mut [u8; HEADER_BYTES],
    id: ProducerId,
    epoch: i16,
    base_sequence: i32,
) {
    let Some(header) = BatchHeader::parse(fixed) else {
        return;
    };
    let summed_before = crc_of(fixed);
    put::<{ at::PRODUCER_ID }, _>(fixed, id.0.to_be_bytes());
    put::<{ at::PRODUCER_EPOCH }, _>(fixed, epoch.to_be_bytes());
    put::<{ at::BASE_SEQUENCE }, _>(fixed, base_sequence.to_be_bytes());
    let crc = header.crc ^ crc_differs(summed_before, crc_of(fixed), header.size_bytes);
    put::<{ at::CRC }, _>(fixed, crc.to_be_bytes());
}

/// Returns by what the CRC of a batch of this size changes, when that of its fixed part changes.
///
/// CRCs are linear: the difference in the fixed part, shifted over the records, is the difference
/// of the CRC.
fn crc_differs(before: u32, after: u32, size_bytes: usize) -> u32 {
    assert!(size_bytes >= HEADER_BYTES, "a batch has its fixed part");
    let records_bytes = size_bytes - HEADER_BYTES;
    crc::crc32c_combine(before, 0, records_bytes) ^ crc::crc32c_combine(after, 0, records_bytes)
}

/// Writes base offset and leader epoch into the first bytes of a batch.
///
/// Neither the CRC nor any other field changes.
pub fn stamp(header: &mut [u8; HEADER_BYTES], base_offset: Offset, epoch: LeaderEpoch) {
    put::<{ at::BASE_OFFSET }, _>(header, base_offset.0.to_be_bytes());
    put::<{ at::LEADER_EPOCH }, _>(header, epoch.0.to_be_bytes());
}

// Each field of each batch header goes through here; a `release` build would call it.
#[inline]
fn put<const AT: usize, const N: usize>(header: &mut [u8; HEADER_BYTES], value: [u8; N]) {
    const { assert!(AT + N <= HEADER_BYTES, "a field is in the fixed part") };
    for (to, from) in header.iter_mut().skip(AT).zip(value) {
        *to = from;
    }
}

#[inline]
fn array<const AT: usize, const N: usize>(header: &[u8; HEADER_BYTES]) -> [u8; N] {
    const { assert!(AT + N <= HEADER_BYTES, "a field is in the fixed part") };
    let mut value = [0; N];
    for (to, from) in value.iter_mut().zip(header.iter().skip(AT)) {
        *to = *from;
    }
    value
}

#[cfg(test)]
mod tests;
