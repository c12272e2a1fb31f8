//! An outgoing batch: its own header, and records that may be shared with other batches.
//!
//! Sequence, producer and timestamps are in the header, which the checksum covers. Every send
//! writes a new header and combines its checksum with that of the unchanged records. Layout:
//! `docs/formats/record-batch.md`.

use bytes::Bytes;
use wire::batch::{CRC_START, Compression, HEADER_BYTES, LENGTH_END};

use super::checksum::joined;
use crate::spec::Codec;

/// Encoded records.
#[derive(Debug)]
pub(super) enum Body {
    /// Records of a template, sent repeatedly.
    Shared(Bytes),
    /// Records of this batch only; the buffer is reused.
    Own(Vec<u8>),
}

impl Body {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Shared(bytes) => bytes,
            Self::Own(bytes) => bytes,
        }
    }
}

/// Encoded records and their fields of the header.
#[derive(Debug)]
pub(super) struct Batch {
    /// The records, compressed.
    pub(super) body: Body,
    /// CRC-32C of the body.
    pub(super) crc: u32,
    /// Codec of the body.
    pub(super) codec: Compression,
    /// Number of records.
    pub(super) count: u32,
    /// Bytes of keys and values.
    pub(super) payload_bytes: u64,
}

/// The producer id and epoch that an idempotent producer puts into its batches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Identity {
    /// The producer id, -1 without.
    pub(super) producer_id: i64,
    /// The producer epoch.
    pub(super) epoch: i16,
}

impl Identity {
    /// The identity of a producer without an id.
    pub(super) const NONE: Self = Self {
        producer_id: -1,
        epoch: -1,
    };
}

impl Batch {
    /// Returns the size on the wire in bytes.
    pub(super) fn wire_bytes(&self) -> usize {
        HEADER_BYTES + self.body.bytes().len()
    }

    /// Returns the header, with the timestamp of all records and the sequence of the first one.
    pub(super) fn header(
        &self,
        identity: Identity,
        sequence: i32,
        timestamp_ms: i64,
    ) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
        let length = (self.wire_bytes() - LENGTH_END) as u32;
        put(8, &length.to_be_bytes());
        put(12, &(-1i32).to_be_bytes());
        put(16, &[2]);
        put(21, &self.codec.code().to_be_bytes());
        put(23, &(self.count - 1).to_be_bytes());
        put(27, &timestamp_ms.to_be_bytes());
        put(35, &timestamp_ms.to_be_bytes());
        put(43, &identity.producer_id.to_be_bytes());
        put(51, &identity.epoch.to_be_bytes());
        put(53, &sequence.to_be_bytes());
        put(57, &self.count.to_be_bytes());
        let records = self.body.bytes().len();
        let crc = joined(crc32c::crc32c(&header[CRC_START..]), self.crc, records);
        header[CRC_START - 4..CRC_START].copy_from_slice(&crc.to_be_bytes());
        header
    }
}

/// Returns the batch format's value of a codec.
pub(super) fn compression(codec: Codec) -> Compression {
    match codec {
        Codec::None => Compression::None,
        Codec::Gzip => Compression::Gzip,
        Codec::Snappy => Compression::Snappy,
        Codec::Lz4 => Compression::Lz4,
        Codec::Zstd => Compression::Zstd,
    }
}

/// Appends a record without headers and returns the range of its value.
///
/// `value` appends the bytes of the value.
pub(super) fn put_record(
    out: &mut Vec<u8>,
    offset_delta: u32,
    key: Option<&[u8]>,
    value_bytes: u32,
    value: impl FnOnce(&mut Vec<u8>),
) -> std::ops::Range<usize> {
    let key_bytes = key.map_or(0, <[u8]>::len) as u32;
    let length = body_bytes(
        offset_delta,
        key.is_some().then_some(key_bytes),
        value_bytes,
    );
    put_varint(out, i64::from(length));
    out.extend_from_slice(&[0, 0]);
    put_varint(out, i64::from(offset_delta));
    put_varint(out, key.map_or(-1, |_| i64::from(key_bytes)));
    out.extend_from_slice(key.unwrap_or_default());
    put_varint(out, i64::from(value_bytes));
    let start = out.len();
    value(out);
    let range = start..out.len();
    debug_assert_eq!(range.len(), value_bytes as usize);
    out.push(0);
    range
}

/// Returns the encoded size of a record in bytes.
pub(super) fn record_bytes(offset_delta: u32, key_bytes: Option<u32>, value_bytes: u32) -> u32 {
    let body = body_bytes(offset_delta, key_bytes, value_bytes);
    varint_bytes(i64::from(body)) + body
}

/// Returns the bytes after a record's length: attributes, timestamp delta 0, offset delta, key,
/// value, no headers.
fn body_bytes(offset_delta: u32, key_bytes: Option<u32>, value_bytes: u32) -> u32 {
    3 + varint_bytes(i64::from(offset_delta))
        + varint_bytes(key_bytes.map_or(-1, i64::from))
        + key_bytes.unwrap_or(0)
        + varint_bytes(i64::from(value_bytes))
        + value_bytes
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

fn varint_bytes(value: i64) -> u32 {
    (64 - (zigzag(value) | 1).leading_zeros()).div_ceil(7)
}

fn put_varint(out: &mut Vec<u8>, value: i64) {
    let mut rest = zigzag(value);
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wire::batch::{BatchHeader, iter, records};
    use wire::types::TimestampMs;

    use super::*;

    proptest! {
        #[test]
        fn a_batch_is_what_a_broker_reads(
            sizes in prop::collection::vec(0u32..300, 1..40),
            key in prop::option::of(prop::collection::vec(any::<u8>(), 0..20)),
            sequence in 0i32..1000, time in 0i64..1 << 42,
        ) {
            let mut body = Vec::new();
            for (delta, size) in (0..).zip(&sizes) {
                let before = body.len();
                put_record(&mut body, delta, key.as_deref(), *size, |out| {
                    out.resize(out.len() + *size as usize, delta as u8);
                });
                let key_bytes = key.as_ref().map(|key| key.len() as u32);
                prop_assert_eq!(body.len() - before, record_bytes(delta, key_bytes, *size) as usize);
            }
            let batch = Batch {
                crc: crc32c::crc32c(&body),
                body: Body::Own(body),
                codec: Compression::None,
                count: sizes.len() as u32,
                payload_bytes: 0,
            };
            let identity = Identity { producer_id: 77, epoch: 3 };
            let header = batch.header(identity, sequence, time);
            let whole = [&header, batch.body.bytes()].concat();
            let parsed = BatchHeader::parse(&whole).unwrap();
            prop_assert_eq!(iter::validate_stored(&parsed, &whole), Ok(()));
            prop_assert_eq!(parsed.base_sequence, sequence);
            prop_assert_eq!(parsed.producer_id.0, 77);
            prop_assert_eq!(parsed.max_timestamp, TimestampMs(time));
            let read: Vec<_> = records(&Bytes::from(whole)).unwrap().map(Result::unwrap).collect();
            prop_assert_eq!(read.len(), sizes.len());
            for (record, size) in read.iter().zip(&sizes) {
                prop_assert_eq!(record.timestamp, TimestampMs(time));
                prop_assert_eq!(record.key.as_deref(), key.as_deref());
                prop_assert_eq!(record.value.as_ref().unwrap().len(), *size as usize);
            }
        }
    }
}
