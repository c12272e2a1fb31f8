//! Finds batches by offset in a segment, and takes them from memory when they are there.
//!
//! It does not: read files.

use bytes::Bytes;
use platform::Platform;
use wire::types::Offset;

use super::walk::Floor;
use crate::segment::Segment;

/// What a read wants.
#[derive(Clone, Copy)]
pub(super) struct ReadRange {
    pub(super) from: Offset,
    pub(super) below: Offset,
    pub(super) bytes_max: usize,
    pub(super) at_least_one: bool,
}

/// What was found in memory.
pub(super) enum Resident {
    Slices(Vec<Bytes>),
    /// No batch that is wanted.
    Nothing,
    /// No batch before the end of the segment.
    Beyond,
    /// It is no longer in memory, so it is in the file now.
    Gone,
}

impl<P: Platform> Segment<P> {
    /// Returns a position at or before the batch that holds `offset`.
    ///
    /// Returns `None` when the indexes have to be loaded first.
    pub(crate) fn floor(&self, offset: Offset) -> Option<u64> {
        self.floor_entry(offset).map(|floor| floor.position)
    }

    /// Returns that position, with the offset that the index names there.
    pub(crate) fn floor_entry(&self, offset: Offset) -> Option<Floor> {
        if offset <= self.base {
            return Some(Floor {
                position: 0,
                offset: self.base,
            });
        }
        let loaded = self.loaded();
        let entry = loaded.as_ref()?.indexes.offsets.lookup(offset);
        Some(Floor {
            position: u64::from(entry.position),
            offset: entry.offset,
        })
    }

    /// Estimates the position of `offset`; exact where the batches are resident.
    pub(super) fn estimate(&self, offset: Offset) -> u64 {
        if offset <= self.base {
            return 0;
        }
        if offset >= self.next() {
            return self.size();
        }
        let Some(floor) = self.floor(offset) else {
            let span = i128::from(self.next().since(self.base)).max(1);
            let part = i128::from(self.size()) * i128::from(offset.since(self.base)) / span;
            // Neither is negative: the offset is past the base.
            return u64::try_from(part).expect("a part of a size");
        };
        let mut position = floor;
        while let Some(header) = self.resident_header(position) {
            if header.next_offset() > offset {
                break;
            }
            position += header.size_bytes as u64;
        }
        position
    }

    /// Estimates where the batches below `offset` end; not too low, and exact where they are
    /// resident.
    pub(super) fn estimate_end(&self, offset: Offset) -> u64 {
        let position = self.estimate(offset);
        if position >= self.tail().resident_from() {
            return position;
        }
        let loaded = self.loaded();
        let Some(loaded) = loaded.as_ref() else {
            return position;
        };
        let reaching = loaded.indexes.offsets.first_reaching(offset);
        let end = reaching.map_or(self.size(), |entry| u64::from(entry.position));
        end.max(position)
    }

    /// Returns the wanted batches; all are resident from `position` on, the start of one.
    pub(super) fn slice_resident(&self, mut position: u64, wanted: ReadRange) -> Resident {
        let first = loop {
            match self.resident_header(position) {
                Some(header) if header.next_offset() > wanted.from => break header,
                Some(header) => position += header.size_bytes as u64,
                None if position >= self.size() => return Resident::Beyond,
                None => return Resident::Gone,
            }
        };
        let first_end = position + first.size_bytes as u64;
        let limit = position + wanted.bytes_max as u64;
        if first.next_offset() > wanted.below || (first_end > limit && !wanted.at_least_one) {
            return Resident::Nothing;
        }
        let all = wanted.below >= self.next() && self.size() <= limit;
        let end = if all {
            self.size()
        } else if first_end >= limit {
            first_end
        } else {
            self.boundary(first_end, limit, wanted.below)
        };
        let slices = self.tail().slices(position..end);
        slices.map_or(Resident::Gone, Resident::Slices)
    }

    /// Returns the end of the last batch that ends at or before `limit` and below the offset.
    ///
    /// It walks from `end`, the end of a batch.
    fn boundary(&self, mut end: u64, limit: u64, below: Offset) -> u64 {
        if let Some(loaded) = self.loaded().as_ref() {
            let offsets = &loaded.indexes.offsets;
            let by_offset = u64::from(offsets.lookup(below).position);
            let by_bytes = u32::try_from(limit).map_or(by_offset, |limit| {
                u64::from(offsets.last_at_or_before(limit).position)
            });
            end = end.max(by_offset.min(by_bytes));
        }
        while let Some(header) = self.resident_header(end) {
            let next_end = end + header.size_bytes as u64;
            if next_end > limit || header.next_offset() > below {
                break;
            }
            end = next_end;
        }
        end
    }
}
