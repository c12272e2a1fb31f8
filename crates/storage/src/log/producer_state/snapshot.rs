//! Producer snapshot files, `<offset, 20 digits>.snapshot`: the producers of a log as of that
//! offset.
//!
//! Version 1: version (i16), CRC-32C of everything after it (u32), number of producers (i32), 46
//! bytes a producer; all big endian, see `docs/formats/producer-snapshot.md`. A file that does not
//! parse is useless, not fatal: the state is then rebuilt from an older snapshot and the log. Only
//! the last batch of each producer is kept.

use std::collections::HashSet;

use thiserror::Error;
use wire::crc;
use wire::types::{Offset, ProducerId, TimestampMs};

/// Longest file that is read; a longer one is no useful snapshot.
pub const FILE_BYTES_MAX: u64 = 64 << 20;

const VERSION: i16 = 1;
const HEADER_BYTES: usize = 6;
const ENTRY_BYTES: usize = 46;
/// The header and the number of producers.
const BEFORE_ENTRIES: usize = HEADER_BYTES + size_of::<i32>();

/// One producer in a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProducerSnapshot {
    /// The producer.
    pub producer_id: ProducerId,
    /// Its newest epoch.
    pub epoch: i16,
    /// Last sequence of its last batch, -1 without one.
    pub last_sequence: i32,
    /// Last offset of its last batch, -1 without one.
    pub last_offset: Offset,
    /// Last minus first offset of its last batch, 0 without one.
    pub offset_delta: i32,
    /// When it last wrote, or when its last transaction ended.
    pub last_timestamp: TimestampMs,
    /// Epoch of the coordinator that last ended one of its transactions, -1 for none.
    pub coordinator_epoch: i32,
    /// First offset of its open transaction; -1 on disk for none.
    pub transaction_start: Option<Offset>,
}

/// Why the bytes of a file are not a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum SnapshotError {
    /// The file was written by other software, or by a later Kafka.
    #[error("version {0} is not known")]
    Version(i16),
    /// The bytes are not those that were written.
    #[error("CRC {computed:#010x} is not the stored {stored:#010x}")]
    Crc {
        /// The CRC in the file.
        stored: u32,
        /// The CRC of its bytes.
        computed: u32,
    },
    /// The snapshot has records that are not before its offset: it was taken of another log, or of
    /// a longer one.
    #[error("producer {} wrote at offset {offset}, where a snapshot of this name does not reach", .producer.0)]
    Beyond {
        /// The producer.
        producer: ProducerId,
        /// Offset of its last record, or of the first in its open transaction.
        offset: Offset,
    },
    /// The snapshot has a producer, or the start of a transaction, twice: nothing would end the
    /// transaction of one of them.
    #[error("producer {} is there twice, or its transaction is also that of another", .0.0)]
    Twice(ProducerId),
    /// The file is shorter or longer than its number of producers says.
    #[error("{bytes} bytes do not hold the number of producers in the header")]
    Length {
        /// Length of the file.
        bytes: usize,
    },
}

/// Returns the bytes of a snapshot file.
pub fn encode(producers: &[ProducerSnapshot]) -> Vec<u8> {
    let mut encoder = Encoder::new(producers.len());
    encoder.add_all(producers);
    encoder.finish()
}

/// The bytes of a snapshot file that is made producer by producer.
#[derive(Clone, Debug)]
pub(super) struct Encoder {
    /// Bytes that are written last, and the entries.
    bytes: Vec<u8>,
    producers: usize,
}

impl Encoder {
    /// Begins a snapshot of about this number of producers.
    pub(super) fn new(producers: usize) -> Self {
        let mut bytes = Vec::with_capacity(BEFORE_ENTRIES + producers * ENTRY_BYTES);
        bytes.resize(BEFORE_ENTRIES, 0);
        Self {
            bytes,
            producers: 0,
        }
    }

    /// Returns how many producers it has so far.
    pub(super) fn producers(&self) -> usize {
        self.producers
    }

    pub(super) fn add_all(&mut self, producers: &[ProducerSnapshot]) {
        for producer in producers {
            self.add(producer);
        }
    }

    pub(super) fn add(&mut self, p: &ProducerSnapshot) {
        let start = p.transaction_start.map_or(-1, |offset| offset.0);
        let entries = &mut self.bytes;
        entries.extend_from_slice(&p.producer_id.0.to_be_bytes());
        entries.extend_from_slice(&p.epoch.to_be_bytes());
        entries.extend_from_slice(&p.last_sequence.to_be_bytes());
        entries.extend_from_slice(&p.last_offset.0.to_be_bytes());
        entries.extend_from_slice(&p.offset_delta.to_be_bytes());
        entries.extend_from_slice(&p.last_timestamp.0.to_be_bytes());
        entries.extend_from_slice(&p.coordinator_epoch.to_be_bytes());
        entries.extend_from_slice(&start.to_be_bytes());
        self.producers += 1;
    }

    /// Returns the bytes of the file.
    pub(super) fn finish(mut self) -> Vec<u8> {
        assert_eq!(
            self.bytes.len(),
            BEFORE_ENTRIES + self.producers * ENTRY_BYTES
        );
        // Open transactions may raise the number above `PRODUCERS_MAX`, but memory ends long before
        // an i32 does.
        let count = i32::try_from(self.producers).expect("an i32 can count the producers");
        self.put(HEADER_BYTES, count.to_be_bytes());
        let counted = self.bytes.get(HEADER_BYTES..).unwrap_or_default();
        let checksum = crc::crc32c(counted);
        self.put(0, VERSION.to_be_bytes());
        self.put(size_of_val(&VERSION), checksum.to_be_bytes());
        self.bytes
    }

    /// Writes a field before the entries.
    fn put<const N: usize>(&mut self, at: usize, field: [u8; N]) {
        let bytes = self.bytes.iter_mut().skip(at);
        bytes.zip(field).for_each(|(byte, written)| *byte = written);
    }
}

/// Returns the bytes of the entries of `producers` producers, without the header.
pub fn encoded_bytes(producers: usize) -> u64 {
    (producers as u64).saturating_mul(ENTRY_BYTES as u64)
}

/// Reads the bytes of a snapshot file.
pub fn parse(bytes: &[u8]) -> Result<Vec<ProducerSnapshot>, SnapshotError> {
    let length = SnapshotError::Length { bytes: bytes.len() };
    let (version, rest) = take::<2>(bytes).ok_or(length)?;
    let version = i16::from_be_bytes(version);
    if version != VERSION {
        return Err(SnapshotError::Version(version));
    }
    let (stored, entries) = take::<4>(rest).ok_or(length)?;
    let (stored, computed) = (u32::from_be_bytes(stored), crc::crc32c(entries));
    if stored != computed {
        return Err(SnapshotError::Crc { stored, computed });
    }
    let (count, entries) = take::<4>(entries).ok_or(length)?;
    let (entries, rest) = entries.as_chunks::<ENTRY_BYTES>();
    if !rest.is_empty() || usize::try_from(i32::from_be_bytes(count)) != Ok(entries.len()) {
        return Err(length);
    }
    entries
        .iter()
        .map(|entry| parse_entry(entry).ok_or(length))
        .collect()
}

/// Reads the bytes of the snapshot that was taken at `end`, as its name says.
pub fn parse_at(end: Offset, bytes: &[u8]) -> Result<Vec<ProducerSnapshot>, SnapshotError> {
    let producers = parse(bytes)?;
    for producer in &producers {
        let first = producer.transaction_start.unwrap_or(producer.last_offset);
        let offset = producer.last_offset.max(first);
        if offset >= end {
            let producer = producer.producer_id;
            return Err(SnapshotError::Beyond { producer, offset });
        }
    }
    let (mut ids, mut starts) = (HashSet::new(), HashSet::new());
    let again = producers.iter().find(|producer| {
        let start = producer.transaction_start;
        !ids.insert(producer.producer_id) || start.is_some_and(|start| !starts.insert(start))
    });
    match again {
        Some(producer) => Err(SnapshotError::Twice(producer.producer_id)),
        None => Ok(producers),
    }
}

fn parse_entry(bytes: &[u8]) -> Option<ProducerSnapshot> {
    let (producer_id, bytes) = take(bytes)?;
    let (epoch, bytes) = take(bytes)?;
    let (last_sequence, bytes) = take(bytes)?;
    let (last_offset, bytes) = take(bytes)?;
    let (offset_delta, bytes) = take(bytes)?;
    let (last_timestamp, bytes) = take(bytes)?;
    let (coordinator_epoch, bytes) = take(bytes)?;
    let (transaction_start, _) = take(bytes)?;
    let transaction_start = i64::from_be_bytes(transaction_start);
    Some(ProducerSnapshot {
        producer_id: ProducerId(i64::from_be_bytes(producer_id)),
        epoch: i16::from_be_bytes(epoch),
        last_sequence: i32::from_be_bytes(last_sequence),
        last_offset: Offset(i64::from_be_bytes(last_offset)),
        offset_delta: i32::from_be_bytes(offset_delta),
        last_timestamp: TimestampMs(i64::from_be_bytes(last_timestamp)),
        coordinator_epoch: i32::from_be_bytes(coordinator_epoch),
        transaction_start: (transaction_start >= 0).then_some(Offset(transaction_start)),
    })
}

fn take<const N: usize>(bytes: &[u8]) -> Option<([u8; N], &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<N>()?;
    Some((*head, rest))
}
