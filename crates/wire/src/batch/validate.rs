//! Validates what a producer sent for one partition: every check of Kafka 4.3 before the log.
//!
//! The order of the checks is Kafka's, because the client gets the error of the first failure:
//! exactly one batch of magic 2 ([`WholeBatch::of_produced`]), then ([`validate_produced`]) base
//! offset 0, size, CRC, header, and the records. Where the topic uses the producer's time, a max
//! timestamp that is not that of the records is corrected, not refused, and so is the timestamp
//! type LogAppendTime of a batch whose timestamps are in range; the bytes change in no other case.
//! Compressed records are read as a stream. Measured against Kafka 4.3, an unknown codec and
//! records that do not decompress give UNKNOWN_SERVER_ERROR, as in Kafka; gaps between the offsets
//! of uncompressed records are refused on purpose, where Kafka stores them.
//! Not here: sequences and epochs against earlier batches of the producer (`storage`), and stamping
//! of offsets.

use std::ops::RangeInclusive;

use bytes::Bytes;

use super::compression::{self, Compression};
use super::walk::{self, Slice, Source, Stream, WalkError};
use super::{BatchHeader, LOG_APPEND_TIME, WholeBatch, first_batch, iter};
use crate::error::{BatchError, RecordError};
use crate::types::{Offset, TimestampMs};

/// Maximum number of refused records that are named; further ones are only counted.
pub const RECORD_ERRORS_MAX: usize = 1000;

/// The limits of a topic for produced batches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ValidateLimits {
    /// Bytes of a batch (`max.message.bytes`).
    pub max_batch_bytes: usize,
    /// Bytes of a compressed batch's records after decompression.
    pub decompressed_bytes_max: usize,
    /// The current time.
    pub now_ms: i64,
    /// How much older than the current time a timestamp may be (`message.timestamp.before.max.ms`).
    pub timestamp_before_max_ms: i64,
    /// How much newer than the current time a timestamp may be (`message.timestamp.after.max.ms`).
    pub timestamp_after_max_ms: i64,
    /// True when the topic is compacted: every record needs a key.
    pub compacted: bool,
    /// True when the topic uses the append time: the producer's timestamps are not checked.
    pub log_append_time: bool,
}

/// A batch that may be appended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValidatedBatch {
    /// The batch: a slice of the input, unless the header was corrected.
    pub batch: WholeBatch,
    /// Bytes of its decompressed records: the cost of the validation.
    pub walked_bytes: usize,
}

impl WholeBatch {
    /// Returns the one batch that a producer sent for a partition.
    ///
    /// Like Kafka, ignores a partial batch after it. `zstd` is true when the request may carry that
    /// codec.
    pub fn of_produced(records: &Bytes, zstd: bool) -> Result<Self, BatchError> {
        let (header, batch) = first_batch(records)?;
        if header.magic != 2 {
            return Err(BatchError::Magic {
                magic: header.magic,
            });
        }
        let code = header.compression_code();
        if code == Compression::Zstd.code() && !zstd {
            return Err(BatchError::Compression { code });
        }
        // Bounded: the batch is a part of the records.
        match first_batch(records.split_at(batch.len()).1) {
            Ok(_) => Err(BatchError::Header {
                reason: "batches in one partition of a produce request",
                found: 2,
                expected: 1,
            }),
            Err(BatchError::Incomplete { .. }) => {
                Ok(Self::of_parts(header, records.slice(..batch.len())))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns true when bytes from a client begin like a transactional batch, even if the batch is
    /// not whole.
    pub fn claims_transaction(records: &[u8]) -> bool {
        let header = BatchHeader::parse(records);
        header.is_some_and(|header| header.claims_transaction())
    }
}

/// Validates the batch that a client produced to one partition ([`WholeBatch::of_produced`]).
pub fn validate_produced(
    batch: &WholeBatch,
    limits: &ValidateLimits,
) -> Result<ValidatedBatch, BatchError> {
    let header = *batch.header();
    check_rule("base offset of a produced batch", header.base_offset.0, 0)?;
    if header.size_bytes > limits.max_batch_bytes {
        return Err(BatchError::TooLarge {
            size_bytes: header.size_bytes,
            bytes_max: limits.max_batch_bytes,
        });
    }
    iter::check_crc(&header, batch.bytes())?;
    check_header(&header)?;
    let records_bytes = batch.records();
    let (max_timestamp, walked_bytes) = match Compression::from_code(header.compression_code())? {
        Compression::None => check_records(Slice::new(records_bytes), &header, limits),
        codec => {
            let reader = codec.reader(records_bytes, limits.decompressed_bytes_max)?;
            check_records(Stream::new(reader), &header, limits)
        }
    }?;
    assert!(
        header.base_offset == Offset::ZERO && header.record_count - 1 == header.last_offset_delta,
        "the offsets of a batch that was accepted follow one another from 0"
    );
    let batch = if limits.log_append_time
        || (max_timestamp == header.max_timestamp && !header.is_log_append_time())
    {
        batch.clone()
    } else {
        mend_time(header, records_bytes, max_timestamp)?
    };
    Ok(ValidatedBatch {
        batch,
        walked_bytes,
    })
}

fn check_header(header: &BatchHeader) -> Result<(), BatchError> {
    let count = i64::from(header.record_count);
    if header.last_offset_delta < 0 {
        let found = i64::from(header.last_offset_delta);
        return Err(rule("invalid offset range of the batch", found, 0));
    }
    if count <= 0 {
        return Err(rule("invalid reported count for record batch", count, 1));
    }
    check_rule(
        "count of records in the batch contradicts its offset range",
        count,
        i64::from(header.last_offset_delta) + 1,
    )?;
    if header.is_control() {
        return Err(rule(
            "clients are not allowed to write control records",
            1,
            0,
        ));
    }
    if header.producer_id.0 != -1 && header.base_sequence < 0 {
        let found = i64::from(header.base_sequence);
        return Err(rule(
            "invalid sequence number in a batch with producer id",
            found,
            0,
        ));
    }
    Ok(())
}

/// Reads the records, and returns the largest timestamp and the size of the records in bytes.
fn check_records(
    mut source: impl Source,
    header: &BatchHeader,
    limits: &ValidateLimits,
) -> Result<(TimestampMs, usize), BatchError> {
    let mut refused = RefusedRecords::default();
    let times = Times::of(header, limits);
    let mut max_timestamp = TimestampMs::NONE;
    for index in 0..header.record_count {
        let record = walk::record(&mut source).map_err(|broken| broken_record(broken, index))?;
        let timestamp = if header.is_log_append_time() {
            header.max_timestamp
        } else {
            TimestampMs(header.base_timestamp.0.wrapping_add(record.timestamp_delta))
        };
        max_timestamp = max_timestamp.max(timestamp);
        if limits.compacted && !record.has_key {
            let message = "Compacted topic cannot accept message without key";
            refused.add(index, false, || message.to_owned());
        } else if !times.accept(timestamp) {
            refused.add(index, true, || times.refusal(timestamp));
        } else if record.offset_delta != i64::from(index) {
            refused.add(index, false, || {
                format!(
                    "Record does not have incremental offsets, expected {index}, found {}",
                    record.offset_delta
                )
            });
        }
    }
    let last = header.record_count - 1;
    if !source
        .at_end()
        .map_err(|broken| broken_record(broken, last))?
    {
        let reason = "bytes follow the last record that the batch announces";
        return Err(BatchError::Framing {
            index: last,
            reason,
        });
    }
    let walked_bytes = source.position();
    refused
        .into_result()
        .map(|()| (max_timestamp, walked_bytes))
}

/// The timestamps that the records of a batch may have.
struct Times {
    /// `None` if the topic uses the append time.
    allowed: Option<RangeInclusive<i128>>,
    /// True if the batch says what only a broker may say.
    is_append_time: bool,
}

impl Times {
    fn of(header: &BatchHeader, limits: &ValidateLimits) -> Self {
        let now = i128::from(limits.now_ms);
        let first = now - i128::from(limits.timestamp_before_max_ms);
        let last = now + i128::from(limits.timestamp_after_max_ms);
        Self {
            allowed: (!limits.log_append_time).then_some(first..=last),
            is_append_time: header.is_log_append_time(),
        }
    }

    /// Returns the range that a timestamp must be in.
    fn range_for(&self, timestamp: TimestampMs) -> Option<&RangeInclusive<i128>> {
        let is_time = timestamp != TimestampMs::NONE;
        self.allowed.as_ref().filter(|_| is_time)
    }

    fn accept(&self, timestamp: TimestampMs) -> bool {
        match self.range_for(timestamp) {
            Some(range) => range.contains(&i128::from(timestamp.0)),
            None => !self.is_append_time,
        }
    }

    fn refusal(&self, timestamp: TimestampMs) -> String {
        match self.range_for(timestamp) {
            Some(range) => format!(
                "Timestamp {} of message is out of range. The timestamp should be within [{}, {}]",
                timestamp.0,
                range.start(),
                range.end()
            ),
            None => "Invalid timestamp type in message. Producer should not set timestamp type to \
                     LogAppendTime."
                .to_owned(),
        }
    }
}

/// The refused records so far.
#[derive(Default)]
struct RefusedRecords {
    timestamp: bool,
    count: usize,
    errors: Vec<RecordError>,
}

impl RefusedRecords {
    fn add(&mut self, batch_index: i32, timestamp: bool, message: impl FnOnce() -> String) {
        self.timestamp |= timestamp;
        self.count += 1;
        if self.errors.len() < RECORD_ERRORS_MAX {
            self.errors.push(RecordError {
                batch_index,
                message: message(),
            });
        }
    }

    fn into_result(self) -> Result<(), BatchError> {
        if self.count == 0 {
            return Ok(());
        }
        assert_eq!(
            self.errors.len(),
            self.count.min(RECORD_ERRORS_MAX),
            "the first records that were refused are named"
        );
        Err(BatchError::Records {
            timestamp: self.timestamp,
            count: self.count,
            errors: self.errors,
        })
    }
}

/// Returns the batch with the producer's time and this max timestamp in its header.
///
/// Copies the batch; no real client makes it necessary.
fn mend_time(
    header: BatchHeader,
    records: &[u8],
    max_timestamp: TimestampMs,
) -> Result<WholeBatch, BatchError> {
    let header = BatchHeader {
        attributes: header.attributes & !LOG_APPEND_TIME,
        max_timestamp,
        ..header
    };
    WholeBatch::of_records(header, records)
}

fn broken_record(broken: WalkError, index: i32) -> BatchError {
    match broken {
        WalkError::Framing(reason) => BatchError::Framing { index, reason },
        WalkError::Read(error) => compression::failed(&error),
    }
}

fn rule(reason: &'static str, found: i64, expected: i64) -> BatchError {
    BatchError::Header {
        reason,
        found,
        expected,
    }
}

fn check_rule(reason: &'static str, found: i64, expected: i64) -> Result<(), BatchError> {
    if found == expected {
        Ok(())
    } else {
        Err(rule(reason, found, expected))
    }
}

#[cfg(test)]
mod tests;
