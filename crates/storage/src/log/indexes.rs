//! Both indexes of one segment and the rule when a batch gets an entry.
//!
//! The rule is Kafka's: a batch is indexed when more than `interval_bytes` were appended since the
//! last indexed batch, counted before the batch itself. The offset index then gets (last offset,
//! position) of that batch, the time index the largest timestamp so far. When the segment rolls or
//! closes, the time index gets one last entry.
//! It does not: read or write files; the owner of the segment loads and stores the bytes.

use thiserror::Error;
use wire::batch::BatchHeader;
use wire::types::{Offset, TimestampMs};

use super::offset_index::OffsetIndex;
use super::time_index::{TimeEntry, TimeIndex};

/// Why the bytes of a file are not an index.
///
/// The remedy is always to rebuild it from the segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum IndexError {
    /// The length is not a whole number of entries.
    #[error("{bytes} bytes are not a multiple of {entry_bytes}")]
    Length {
        /// Length of the file.
        bytes: usize,
        /// Length of an entry.
        entry_bytes: usize,
    },
    /// An entry does not follow the one before it, or has an impossible value.
    #[error("entry {slot} does not follow the one before it or is out of range")]
    Entry {
        /// Which entry, from 0.
        slot: usize,
    },
}

/// The settings for the growth of an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexOptions {
    /// `index.interval.bytes`.
    pub interval_bytes: u32,
    /// `segment.index.bytes`, for each of the two.
    pub bytes_max: u32,
}

/// The offset index and the time index of one segment.
#[derive(Clone, Debug)]
pub struct Indexes {
    /// Offset to position.
    pub offsets: OffsetIndex,
    /// Timestamp to offset.
    pub times: TimeIndex,
    interval_bytes: u32,
    since_entry_bytes: u64,
    /// Largest timestamp of the segment so far and the last offset of the first batch that has it.
    largest: TimeEntry,
}

impl Indexes {
    /// Makes empty indexes for the segment that starts at `base`.
    pub fn new(base: Offset, options: IndexOptions) -> Self {
        Self::restore(
            OffsetIndex::new(base, options.bytes_max),
            TimeIndex::new(base, options.bytes_max),
            options.interval_bytes,
        )
    }

    /// Makes indexes of what was read from disk.
    ///
    /// The largest timestamp is that of the last time entry. If the segment may have grown since
    /// (it has not when it was sealed or closed), the owner shows the batches past it to
    /// [`Indexes::observe`].
    pub fn restore(offsets: OffsetIndex, times: TimeIndex, interval_bytes: u32) -> Self {
        let largest = times.last();
        Self {
            offsets,
            times,
            interval_bytes,
            since_entry_bytes: 0,
            largest,
        }
    }

    /// Notes a batch that was appended at `position`, and indexes it when an entry is due.
    ///
    /// A file that came from elsewhere may be longer than an entry can express: it is indexed up to
    /// there.
    pub fn append(&mut self, header: &BatchHeader, position: u64) {
        self.observe(header);
        if self.since_entry_bytes > u64::from(self.interval_bytes) {
            // A refused entry leaves the index sparser, which only makes a lookup start earlier.
            if let Ok(position) = i32::try_from(position) {
                let position = position.unsigned_abs();
                self.offsets.append(header.last_offset(), position);
            }
            self.times.append(self.largest);
            self.since_entry_bytes = 0;
        }
        self.since_entry_bytes += header.size_bytes as u64;
    }

    /// Notes a batch's timestamp only.
    pub fn observe(&mut self, header: &BatchHeader) {
        // A batch emptied by compaction has no record of that time any more.
        if header.record_count > 0 && header.max_timestamp > self.largest.timestamp {
            self.largest = TimeEntry {
                timestamp: header.max_timestamp,
                offset: header.last_offset(),
            };
        }
    }

    /// Adds the last time entry when the segment rolls or closes; calling it twice is harmless.
    pub fn seal(&mut self) {
        self.times.seal(self.largest);
    }

    /// Drops the entries at and past `offset`.
    ///
    /// The largest timestamp becomes that of the last time entry left; the owner shows the batches
    /// from [`Indexes::observe_from`] on to [`Indexes::observe`].
    pub fn truncate_to(&mut self, offset: Offset) {
        self.offsets.truncate_to(offset);
        self.times.truncate_to(offset);
        self.since_entry_bytes = 0;
        self.largest = self.times.last();
    }

    /// Returns the position from which batches may have a larger timestamp than the last time
    /// entry.
    pub fn observe_from(&self) -> u32 {
        self.offsets.lookup(self.times.last().offset).position
    }

    /// Returns the largest timestamp and the last offset of the first batch that has it.
    ///
    /// Returns `None` when no record has a timestamp.
    pub fn largest_timestamp(&self) -> Option<TimeEntry> {
        (self.largest.timestamp > TimestampMs::NONE).then_some(self.largest)
    }

    /// Returns true when either index is full; the segment has to roll.
    pub fn is_full(&self) -> bool {
        self.offsets.is_full() || self.times.is_full()
    }
}

/// Returns the `N` bytes of an entry from `at` on.
pub(super) fn field<const N: usize, const ENTRY: usize>(entry: &[u8; ENTRY], at: usize) -> [u8; N] {
    std::array::from_fn(|i| entry[at + i])
}

#[cfg(test)]
mod tests {
    use wire::types::{LeaderEpoch, ProducerId};

    use super::*;

    fn batch(base: i64, records: i32, size_bytes: usize, timestamp: i64) -> BatchHeader {
        BatchHeader {
            base_offset: Offset(base),
            size_bytes,
            leader_epoch: LeaderEpoch(0),
            magic: 2,
            crc: 0,
            attributes: 0,
            last_offset_delta: records - 1,
            base_timestamp: TimestampMs(timestamp),
            max_timestamp: TimestampMs(timestamp),
            producer_id: ProducerId::NONE,
            producer_epoch: -1,
            base_sequence: -1,
            record_count: records,
        }
    }

    fn indexes(interval_bytes: u32) -> Indexes {
        let bytes_max = 1024;
        Indexes::new(
            Offset(0),
            IndexOptions {
                interval_bytes,
                bytes_max,
            },
        )
    }

    #[test]
    fn a_batch_is_indexed_when_more_than_the_interval_lies_before_it() {
        let mut indexes = indexes(100);
        indexes.append(&batch(0, 5, 100, 10), 0);
        indexes.append(&batch(5, 5, 100, 30), 100);
        assert_eq!(
            indexes.offsets.entry_count(),
            0,
            "100 bytes are not more than 100"
        );
        indexes.append(&batch(10, 5, 100, 20), 200);
        assert_eq!(indexes.offsets.last().offset, Offset(14));
        assert_eq!(indexes.offsets.last().position, 200);
        let largest = TimeEntry {
            timestamp: TimestampMs(30),
            offset: Offset(9),
        };
        assert_eq!(indexes.times.last(), largest);
        assert_eq!(indexes.largest_timestamp(), Some(largest));
    }

    #[test]
    fn a_file_longer_than_an_entry_can_say_is_indexed_up_to_there() {
        let mut indexes = indexes(0);
        indexes.append(&batch(0, 1, 100, 10), 0);
        indexes.append(&batch(1, 1, 100, 20), 100);
        for (base, position) in [(2, 1 << 31), (3, u64::from(u32::MAX) + 1)] {
            indexes.append(&batch(base, 1, 100, 30 + base), position);
        }
        let last = indexes.offsets.last();
        assert_eq!((last.offset, last.position), (Offset(1), 100));
        let largest = indexes.largest_timestamp().map(|entry| entry.timestamp);
        assert_eq!(largest, Some(TimestampMs(33)));
    }

    #[test]
    fn sealing_adds_the_largest_timestamp_once() {
        let mut indexes = indexes(1 << 20);
        indexes.append(&batch(0, 1, 100, 10), 0);
        indexes.seal();
        indexes.seal();
        assert_eq!(indexes.times.entry_count(), 1);
        assert_eq!(indexes.times.last().timestamp, TimestampMs(10));
    }

    #[test]
    fn records_without_timestamp_make_no_time_entry() {
        let mut indexes = indexes(0);
        indexes.append(&batch(0, 1, 100, -1), 0);
        indexes.append(&batch(1, 1, 100, -1), 100);
        indexes.seal();
        assert_eq!(indexes.times.entry_count(), 0);
        assert_eq!(indexes.largest_timestamp(), None);
    }
}
