//! The time index of one segment: from which offset on to look for a timestamp. Kafka's
//! `.timeindex` file.
//!
//! An entry (t, o) says: t is the largest timestamp in the segment up to offset o, and the batch
//! that ends with o has it. On disk: 12 bytes an entry, timestamp (i64) and offset relative to the
//! segment's base (u32), both big endian; see `docs/formats/segment.md`.
//! Invariant: timestamps grow strictly, offsets do not fall. The last slot is kept free for the
//! entry made at the roll.
//! It does not: read or write files, or decide when an entry is due (`indexes.rs` does).

use wire::types::{Offset, TimestampMs};

use super::indexes::{IndexError, field};

/// Bytes of one entry on disk.
pub const ENTRY_BYTES: usize = 12;

/// A timestamp and the last offset of the batch that has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeEntry {
    /// Largest timestamp up to and including `offset`; `NONE` when there is no entry.
    pub timestamp: TimestampMs,
    /// Last offset of the batch that has this timestamp; the base offset when there is no entry.
    pub offset: Offset,
}

/// The time index of one segment, in memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TimeIndex {
    base: Offset,
    /// (timestamp, offset relative to `base`): timestamps grow strictly, offsets do not fall.
    entries: Vec<(i64, u32)>,
    entries_max: usize,
}

impl TimeIndex {
    /// Makes an index without entries for the segment that starts at `base`.
    ///
    /// It takes at most `bytes_max` on disk.
    pub fn new(base: Offset, bytes_max: u32) -> Self {
        Self {
            base,
            entries: Vec::new(),
            entries_max: bytes_max as usize / ENTRY_BYTES,
        }
    }

    /// Reads the bytes of an index file.
    ///
    /// Zeros at the end (a preallocated file after a crash) are no entries; anything else that an
    /// index cannot hold is an error, and the index has to be rebuilt from the segment.
    pub fn parse(base: Offset, bytes_max: u32, bytes: &[u8]) -> Result<Self, IndexError> {
        let (entries, rest) = bytes.as_chunks::<ENTRY_BYTES>();
        if !rest.is_empty() {
            return Err(IndexError::Length {
                bytes: bytes.len(),
                entry_bytes: ENTRY_BYTES,
            });
        }
        let mut index = Self::new(base, bytes_max);
        let used = entries
            .iter()
            .rposition(|entry| *entry != [0; ENTRY_BYTES])
            .map_or(0, |last| last + 1);
        for (slot, entry) in entries.iter().take(used).enumerate() {
            let timestamp = i64::from_be_bytes(field(entry, 0));
            let relative = u32::from_be_bytes(field(entry, 8));
            let grows = index
                .entries
                .last()
                .is_none_or(|&(t, offset)| timestamp > t && relative >= offset);
            if !grows || timestamp < 0 || relative > i32::MAX as u32 {
                return Err(IndexError::Entry { slot });
            }
            index.entries.push((timestamp, relative));
        }
        Ok(index)
    }

    /// Returns the bytes of the index file.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.entries.len() * ENTRY_BYTES);
        for &(timestamp, relative) in &self.entries {
            bytes.extend_from_slice(&timestamp.to_be_bytes());
            bytes.extend_from_slice(&relative.to_be_bytes());
        }
        assert_eq!(bytes.len(), self.entries.len() * ENTRY_BYTES);
        bytes
    }

    /// Adds an entry while the segment grows.
    ///
    /// Returns false, and adds nothing, when the timestamp is not larger than the last one, the
    /// offset does not fit, or only the slot for [`TimeIndex::seal`] is left.
    pub fn append(&mut self, entry: TimeEntry) -> bool {
        !self.is_full() && self.push(entry)
    }

    /// Adds the last entry of a segment that rolls or closes, into the slot kept for it.
    pub fn seal(&mut self, entry: TimeEntry) -> bool {
        self.entries.len() < self.entries_max && self.push(entry)
    }

    /// Returns the last entry whose timestamp is at or before `timestamp`.
    ///
    /// Without one it is (`NONE`, base offset). The first record that is not older than `timestamp`
    /// lies at or past the entry's offset.
    pub fn lookup(&self, timestamp: TimestampMs) -> TimeEntry {
        self.entry_before(self.entries.partition_point(|&(t, _)| t <= timestamp.0))
    }

    /// Drops every entry at or past `offset`.
    pub fn truncate_to(&mut self, offset: Offset) {
        let relative = offset.0.saturating_sub(self.base.0);
        let keep = |&(_, at): &(i64, u32)| i64::from(at) < relative;
        self.entries.truncate(self.entries.partition_point(keep));
    }

    /// Returns the last entry, or (`NONE`, base offset).
    pub fn last(&self) -> TimeEntry {
        self.entry_before(self.entries.len())
    }

    /// Returns true when only the slot for the roll is left; the segment has to roll.
    pub fn is_full(&self) -> bool {
        self.entries.len() + 1 >= self.entries_max
    }

    /// Returns the number of entries.
    pub fn entry_count(&self) -> usize {
        self.entries.len()
    }

    fn push(&mut self, entry: TimeEntry) -> bool {
        let relative = i32::try_from(entry.offset.0.saturating_sub(self.base.0))
            .ok()
            .and_then(|relative| u32::try_from(relative).ok());
        let last = self.last();
        match relative {
            Some(relative) if entry.timestamp > last.timestamp && entry.offset >= last.offset => {
                self.entries.push((entry.timestamp.0, relative));
                true
            }
            _ => false,
        }
    }

    fn entry_before(&self, slot: usize) -> TimeEntry {
        assert!(slot <= self.entries.len(), "callers count the entries");
        let entry = slot.checked_sub(1).map(|slot| self.entries[slot]);
        let (timestamp, relative) = entry.unwrap_or((TimestampMs::NONE.0, 0));
        TimeEntry {
            timestamp: TimestampMs(timestamp),
            offset: self.base.plus(i64::from(relative)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(timestamp: i64, offset: i64) -> TimeEntry {
        TimeEntry {
            timestamp: TimestampMs(timestamp),
            offset: Offset(offset),
        }
    }

    fn index(entries: &[(i64, i64)]) -> TimeIndex {
        let mut index = TimeIndex::new(Offset(100), 1024);
        for &(timestamp, offset) in entries {
            assert!(index.append(entry(timestamp, offset)));
        }
        index
    }

    #[test]
    fn a_lookup_gives_the_last_entry_not_newer() {
        let index = index(&[(10, 105), (20, 110)]);
        let at = |t| index.lookup(TimestampMs(t));
        assert_eq!(at(9), entry(-1, 100));
        assert_eq!([at(10), at(19)], [entry(10, 105); 2]);
        assert_eq!([at(20), at(i64::MAX)], [entry(20, 110); 2]);
    }

    #[test]
    fn only_a_larger_timestamp_makes_an_entry() {
        let mut index = index(&[(10, 105)]);
        assert!(!index.append(entry(10, 106)), "same timestamp");
        assert!(!index.append(entry(9, 107)), "smaller timestamp");
        assert!(!index.append(entry(11, 104)), "offset falls");
        assert!(index.append(entry(11, 105)));
    }

    #[test]
    fn the_last_slot_is_kept_for_the_roll() {
        let mut index = TimeIndex::new(Offset(0), 24);
        assert!(index.append(entry(1, 1)));
        assert!(index.is_full() && !index.append(entry(2, 2)));
        assert!(index.seal(entry(2, 2)));
        assert!(!index.seal(entry(3, 3)));
    }

    #[test]
    fn truncation_drops_the_entries_at_and_past_the_offset() {
        let truncated = |to| {
            let mut index = index(&[(10, 105), (20, 110)]);
            index.truncate_to(Offset(to));
            index.entry_count()
        };
        assert_eq!([truncated(111), truncated(110), truncated(105)], [2, 1, 0]);
        assert_eq!([truncated(0), truncated(i64::MIN)], [0, 0]);
    }

    #[test]
    fn files_that_are_no_index_are_refused() {
        let parse =
            |bytes: &[u8]| TimeIndex::parse(Offset(100), 1024, bytes).map(|i| i.entry_count());
        let good = index(&[(10, 105), (20, 110)]).encode();
        assert_eq!(parse(&[good.as_slice(), &[0; 120]].concat()), Ok(2));
        assert!(matches!(parse(&good[..23]), Err(IndexError::Length { .. })));
        let backwards = [&good[12..], &good[..12]].concat();
        assert_eq!(parse(&backwards), Err(IndexError::Entry { slot: 1 }));
    }

    proptest! {
        #[test]
        fn any_bytes_parse_or_fail_and_what_parses_encodes_back(bytes: Vec<u8>) {
            if let Ok(index) = TimeIndex::parse(Offset(7), 1 << 20, &bytes) {
                prop_assert!(bytes.starts_with(&index.encode()));
            }
        }
    }
}
