//! The offset index of one segment: where in the file to start looking for an offset. Kafka's
//! `.index` file.
//!
//! An entry names the last offset of a batch and the position of that batch's first byte, so a
//! lookup for an offset gives a position at or before its batch. On disk: 8 bytes an entry, offset
//! relative to the segment's base (u32) and position (u32), both big endian; see
//! `docs/formats/segment.md`.
//! Invariant: relative offsets and positions both grow strictly. Sparse: an entry may be missing,
//! never wrong.
//! It does not: read or write files, or decide when an entry is due (`indexes.rs` does).

use wire::types::Offset;

use super::indexes::{IndexError, field};

/// Bytes of one entry on disk.
pub const ENTRY_BYTES: usize = 8;

/// A position in the segment at or before a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OffsetEntry {
    /// Last offset of the batch that starts at `position`; the base offset when there is no entry.
    pub offset: Offset,
    /// Where that batch starts, in bytes from the start of the segment.
    pub position: u32,
}

/// The offset index of one segment, in memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OffsetIndex {
    base: Offset,
    /// (offset relative to `base`, position), growing strictly in both.
    entries: Vec<(u32, u32)>,
    entries_max: usize,
}

impl OffsetIndex {
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
            let relative = u32::from_be_bytes(field(entry, 0));
            let position = u32::from_be_bytes(field(entry, 4));
            let grows = index
                .entries
                .last()
                .is_none_or(|&(offset, at)| relative > offset && position > at);
            if !grows || relative > i32::MAX as u32 || position > i32::MAX as u32 {
                return Err(IndexError::Entry { slot });
            }
            index.entries.push((relative, position));
        }
        Ok(index)
    }

    /// Returns the bytes of the index file.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.entries.len() * ENTRY_BYTES);
        for &(relative, position) in &self.entries {
            bytes.extend_from_slice(&relative.to_be_bytes());
            bytes.extend_from_slice(&position.to_be_bytes());
        }
        assert_eq!(bytes.len(), self.entries.len() * ENTRY_BYTES);
        bytes
    }

    /// Adds the batch that starts at `position` and ends with `last_offset`.
    ///
    /// Returns false, and adds nothing, when there is no room, the offset is too far from the base,
    /// or an entry at or past it exists; lookups then start earlier.
    pub fn append(&mut self, last_offset: Offset, position: u32) -> bool {
        let Some(relative) = self.relative(last_offset) else {
            return false;
        };
        let grows = self
            .entries
            .last()
            .is_none_or(|&(offset, at)| relative > offset && position > at);
        if self.is_full() || !grows {
            return false;
        }
        self.entries.push((relative, position));
        true
    }

    /// Returns the last entry at or before `offset`; the start of the segment when there is none.
    pub fn lookup(&self, offset: Offset) -> OffsetEntry {
        let before = match self.relative(offset) {
            Some(relative) => self.entries.partition_point(|&(at, _)| at <= relative),
            None if offset < self.base => 0,
            None => self.entries.len(),
        };
        self.entry_before(before)
    }

    /// Returns the first entry at or past `offset`; `None` when there is none.
    ///
    /// The batches below `offset` end at or before its position.
    pub fn first_reaching(&self, offset: Offset) -> Option<OffsetEntry> {
        let slot = match self.relative(offset) {
            Some(relative) => self.entries.partition_point(|&(at, _)| at < relative),
            None if offset < self.base => 0,
            None => self.entries.len(),
        };
        (slot < self.entries.len()).then(|| self.entry_before(slot + 1))
    }

    /// Returns the first entry whose position is at or past `position`.
    ///
    /// It is an upper bound for a read of known size.
    pub fn first_at_or_past(&self, position: u32) -> Option<OffsetEntry> {
        let slot = self.entries.partition_point(|&(_, at)| at < position);
        (slot < self.entries.len()).then(|| self.entry_before(slot + 1))
    }

    /// Returns the last entry whose position is at or before `position`.
    ///
    /// Without one it is the start of the segment.
    pub fn last_at_or_before(&self, position: u32) -> OffsetEntry {
        self.entry_before(self.entries.partition_point(|&(_, at)| at <= position))
    }

    /// Drops every entry at or past `offset`.
    pub fn truncate_to(&mut self, offset: Offset) {
        let keep = match self.relative(offset) {
            Some(relative) => self.entries.partition_point(|&(at, _)| at < relative),
            None if offset < self.base => 0,
            None => self.entries.len(),
        };
        self.entries.truncate(keep);
    }

    /// Returns the last entry, or the start of the segment.
    pub fn last(&self) -> OffsetEntry {
        self.entry_before(self.entries.len())
    }

    /// Returns true when no entry fits any more; the segment has to roll.
    pub fn is_full(&self) -> bool {
        self.entries.len() >= self.entries_max
    }

    /// Returns the number of entries.
    pub fn entry_count(&self) -> usize {
        self.entries.len()
    }

    /// Returns the base offset of the segment.
    pub fn base(&self) -> Offset {
        self.base
    }

    fn entry_before(&self, slot: usize) -> OffsetEntry {
        assert!(slot <= self.entries.len(), "callers count the entries");
        let entry = slot.checked_sub(1).map(|slot| self.entries[slot]);
        // Before the first entry is the start of the segment.
        let (relative, position) = entry.unwrap_or_default();
        OffsetEntry {
            offset: self.base.plus(i64::from(relative)),
            position,
        }
    }

    fn relative(&self, offset: Offset) -> Option<u32> {
        i32::try_from(offset.0.checked_sub(self.base.0)?)
            .ok()
            .and_then(|relative| u32::try_from(relative).ok())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn index(base: i64, entries: &[(i64, u32)]) -> OffsetIndex {
        let mut index = OffsetIndex::new(Offset(base), 1024);
        for &(offset, position) in entries {
            assert!(index.append(Offset(offset), position));
        }
        index
    }

    #[test]
    fn a_lookup_gives_the_last_batch_known_to_end_at_or_before_the_offset() {
        let index = index(100, &[(109, 50), (119, 150), (129, 250)]);
        let at = |offset| index.lookup(Offset(offset)).position;
        assert_eq!([at(100), at(108), at(109), at(118)], [0, 0, 50, 50]);
        assert_eq!([at(119), at(500), at(0), at(i64::MAX)], [150, 250, 0, 250]);
        assert_eq!(
            index.first_at_or_past(51).map(|e| e.offset),
            Some(Offset(119))
        );
        assert_eq!(index.first_at_or_past(251), None);
    }

    #[test]
    fn truncation_drops_the_entries_at_and_past_the_offset() {
        let truncated = |to| {
            let mut index = index(100, &[(109, 50), (119, 150)]);
            index.truncate_to(Offset(to));
            index.entry_count()
        };
        assert_eq!([truncated(120), truncated(119), truncated(110)], [2, 1, 1]);
        assert_eq!(
            [truncated(109), truncated(0), truncated(i64::MAX)],
            [0, 0, 2]
        );
    }

    #[test]
    fn a_full_index_takes_no_entry() {
        let mut index = OffsetIndex::new(Offset(0), 17);
        assert!(index.append(Offset(1), 10) && index.append(Offset(2), 20));
        assert!(index.is_full() && !index.append(Offset(3), 30));
        assert_eq!(index.last().offset, Offset(2));
    }

    #[test]
    fn an_offset_that_does_not_fit_is_not_indexed() {
        let mut index = OffsetIndex::new(Offset(10), 1024);
        assert!(!index.append(Offset(9), 10));
        assert!(!index.append(Offset(11 + i64::from(i32::MAX)), 10));
        assert!(index.append(Offset(10 + i64::from(i32::MAX)), 10));
    }

    #[test]
    fn files_that_are_no_index_are_refused() {
        let parse =
            |bytes: &[u8]| OffsetIndex::parse(Offset(0), 1024, bytes).map(|i| i.entry_count());
        let good = index(0, &[(1, 10), (2, 20)]).encode();
        assert_eq!(parse(&[good.as_slice(), &[0; 64]].concat()), Ok(2));
        assert_eq!(parse(&[0; 64]), Ok(0));
        assert!(matches!(parse(&good[..15]), Err(IndexError::Length { .. })));
        let backwards = [&good[8..], &good[..8]].concat();
        assert_eq!(parse(&backwards), Err(IndexError::Entry { slot: 1 }));
        let hole = [&good[..8], &[0; 8], &good[8..]].concat();
        assert_eq!(parse(&hole), Err(IndexError::Entry { slot: 1 }));
    }

    proptest! {
        #[test]
        fn any_bytes_parse_or_fail_and_what_parses_encodes_back(bytes: Vec<u8>) {
            if let Ok(index) = OffsetIndex::parse(Offset(7), 1 << 20, &bytes) {
                prop_assert!(bytes.starts_with(&index.encode()));
            }
        }
    }
}
