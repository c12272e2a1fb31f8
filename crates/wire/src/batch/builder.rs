//! Builds batches: those that the broker writes itself (group offsets, metadata, markers), and
//! those that tests and tools send.
//!
//! The offsets of the records are consecutive, starting at the base offset.
//! Not here: batches from other senders, which are stored as received.

use std::io;

use bytes::Bytes;

use super::compression::Compression;
use super::{BatchHeader, HEADER_BYTES, LOG_APPEND_TIME, WholeBatch, varint};
use crate::types::{LeaderEpoch, Offset, ProducerId, TimestampMs};

/// A header of a record.
pub type HeaderRef<'a> = (&'a str, Option<&'a [u8]>);

/// A batch under construction.
#[derive(Clone, Debug)]
pub struct BatchBuilder {
    base_offset: Offset,
    leader_epoch: LeaderEpoch,
    attributes: i16,
    compression: Compression,
    producer_id: ProducerId,
    producer_epoch: i16,
    base_sequence: i32,
    base_timestamp: Option<TimestampMs>,
    max_timestamp: TimestampMs,
    record_count: i32,
    /// Room for the fixed part, and the records behind it; empty before the first record.
    bytes: Vec<u8>,
}

impl BatchBuilder {
    /// Starts an uncompressed batch of a producer without an identity.
    pub fn new(base_offset: Offset, leader_epoch: LeaderEpoch) -> Self {
        Self {
            base_offset,
            leader_epoch,
            attributes: 0,
            compression: Compression::None,
            producer_id: ProducerId::NONE,
            producer_epoch: -1,
            base_sequence: -1,
            base_timestamp: None,
            max_timestamp: TimestampMs::NONE,
            record_count: 0,
            bytes: Vec::new(),
        }
    }

    /// Makes room for a batch of about this many bytes.
    #[must_use]
    pub fn room(mut self, bytes: usize) -> Self {
        self.bytes.reserve(bytes);
        self
    }

    /// Marks the batch as a control batch.
    #[must_use]
    pub fn control(self, control: bool) -> Self {
        self.attribute(0x20, control)
    }

    /// Marks the batch as part of a transaction.
    #[must_use]
    pub fn transactional(self, transactional: bool) -> Self {
        self.attribute(0x10, transactional)
    }

    /// Marks the batch as having the append time for every record: the largest timestamp added.
    #[must_use]
    pub fn log_append_time(self, append_time: bool) -> Self {
        self.attribute(LOG_APPEND_TIME, append_time)
    }

    /// Compresses the records.
    #[must_use]
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Names the producer and the sequence of the first record.
    #[must_use]
    pub fn producer(mut self, id: ProducerId, epoch: i16, base_sequence: i32) -> Self {
        self.producer_id = id;
        self.producer_epoch = epoch;
        self.base_sequence = base_sequence;
        self
    }

    /// Adds a record.
    pub fn add(
        &mut self,
        timestamp: TimestampMs,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[HeaderRef<'_>],
    ) {
        let base = *self.base_timestamp.get_or_insert(timestamp);
        self.max_timestamp = self.max_timestamp.max(timestamp);
        let since_base = timestamp.0.wrapping_sub(base.0);
        let index = i64::from(self.record_count);
        let headers_len = i64::try_from(headers.len()).expect("memory has fewer bytes than 2^63");
        // A byte of attributes comes first. Bounded: lengths of bytes in memory.
        let fields = 1
            + varint::size(since_base)
            + varint::size(index)
            + varint::size_of_bytes(key)
            + varint::size_of_bytes(value)
            + varint::size(headers_len);
        let length = headers.iter().fold(fields, |sum, (name, value)| {
            let name = varint::size_of_bytes(Some(name.as_bytes()));
            sum + name + varint::size_of_bytes(*value)
        });
        let length = i64::try_from(length).expect("memory has fewer bytes than 2^63");
        let to = &mut self.bytes;
        if to.is_empty() {
            to.resize(HEADER_BYTES, 0);
        }
        varint::put(to, length);
        to.push(0);
        varint::put(to, since_base);
        varint::put(to, index);
        varint::put_bytes(to, key);
        varint::put_bytes(to, value);
        varint::put(to, headers_len);
        for (name, value) in headers {
            varint::put_bytes(to, Some(name.as_bytes()));
            varint::put_bytes(to, *value);
        }
        self.record_count += 1;
    }

    /// Returns the number of records added so far.
    pub fn record_count(&self) -> i32 {
        self.record_count
    }

    /// Returns the size of the batch so far, in bytes before compression.
    pub fn size_bytes(&self) -> usize {
        self.bytes.len().max(HEADER_BYTES)
    }

    /// Returns the bytes of the batch; fails as [`Self::finish_whole`] does.
    pub fn finish(self) -> io::Result<Bytes> {
        self.finish_whole().map(WholeBatch::into_bytes)
    }

    /// Returns the batch.
    ///
    /// Fails when the codec fails, or when the batch exceeds its length field (2 GiB), which the
    /// records of a foreign metadata log can do.
    pub fn finish_whole(self) -> io::Result<WholeBatch> {
        let header = BatchHeader {
            base_offset: self.base_offset,
            size_bytes: HEADER_BYTES,
            leader_epoch: self.leader_epoch,
            magic: 2,
            crc: 0,
            attributes: self.attributes | self.compression.code(),
            last_offset_delta: (self.record_count - 1).max(0),
            // A batch without records has no timestamp.
            base_timestamp: self.base_timestamp.unwrap_or(TimestampMs::NONE),
            max_timestamp: self.max_timestamp,
            producer_id: self.producer_id,
            producer_epoch: self.producer_epoch,
            base_sequence: self.base_sequence,
            record_count: self.record_count,
        };
        let mut bytes = self.bytes;
        if bytes.is_empty() {
            bytes.resize(HEADER_BYTES, 0);
        }
        let whole = if self.compression == Compression::None {
            WholeBatch::of_room(header, bytes)
        } else {
            // Bounded: it has room for the fixed part.
            let records = bytes.split_at(HEADER_BYTES).1;
            WholeBatch::of_records(header, &self.compression.compress(records)?)
        };
        whole.map_err(io::Error::other)
    }

    fn attribute(mut self, bit: i16, set: bool) -> Self {
        self.attributes = if set {
            self.attributes | bit
        } else {
            self.attributes & !bit
        };
        self
    }
}
