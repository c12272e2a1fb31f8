//! What the commits of a ring say of a log, put together: which bytes its segments have, and where
//! in the ring's file these are.
//!
//! A later part overrules an earlier one. A cut makes void all bytes behind it, in the ring before
//! it or on the disk.
//! Invariants: the extents of a segment are in order and do not overlap; none of them is from
//! before a cut that made it void.
//! Pure. It holds no bytes, and does not know what is on the disk (`plan`).

use std::collections::BTreeMap;

use wire::types::Offset;

use crate::journal::RingSize;
use crate::journal::commit::{Change, Commit};
use crate::journal::unlanded::{Key, key};

/// Bytes of a segment, and where they are in the ring's file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::journal) struct Extent {
    /// The position in the segment's data file.
    pub(in crate::journal) position: u32,
    /// How many bytes: never 0, and the end fits into 31 bits.
    pub(in crate::journal) length: u32,
    /// The position in the ring's file.
    pub(in crate::journal) place: u64,
}

impl Extent {
    /// Returns the position behind it.
    pub(in crate::journal) fn stop(self) -> u32 {
        self.position.saturating_add(self.length)
    }

    /// Returns what of it is before a position.
    fn before(self, position: u32) -> Option<Self> {
        let length = position.saturating_sub(self.position).min(self.length);
        (length > 0).then_some(Self { length, ..self })
    }

    /// Returns what of it is at a position or behind it.
    fn from(self, position: u32) -> Option<Self> {
        let skipped = position.saturating_sub(self.position).min(self.length);
        let length = self.length.saturating_sub(skipped);
        (length > 0).then(|| Self {
            position: self.position.saturating_add(skipped),
            length,
            place: self.place.saturating_add(u64::from(skipped)),
        })
    }
}

/// What a ring says of one segment.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(in crate::journal) struct SegmentImage {
    /// In order, apart from each other. Bounded: the parts of the ring.
    pub(in crate::journal) extents: Vec<Extent>,
    /// What the disk has from here on is void: the log was cut there.
    pub(in crate::journal) void_from: Option<u32>,
}

impl SegmentImage {
    /// Takes bytes; they overrule what was there.
    fn put(&mut self, new: Extent) {
        let last = self.extents.last();
        if last.is_none_or(|last| last.stop() <= new.position) {
            return self.extents.push(new);
        }
        let all = &self.extents;
        let first = all.partition_point(|extent| extent.stop() <= new.position);
        let behind = all.partition_point(|extent| extent.position < new.stop());
        let overruled = all.get(first..behind).unwrap_or_default();
        let left = overruled.first();
        let left = left.and_then(|extent| extent.before(new.position));
        let right = overruled.last().and_then(|extent| extent.from(new.stop()));
        let put = left.into_iter().chain([new]).chain(right);
        drop(self.extents.splice(first..behind, put));
        let mut pairs = self.extents.iter().zip(self.extents.iter().skip(1));
        debug_assert!(
            pairs.all(|(one, next)| one.stop() <= next.position),
            "extents are in order"
        );
    }

    /// Makes void what is at a position or behind it.
    fn cut(&mut self, position: u32) {
        self.extents.retain(|extent| extent.position < position);
        if let Some(last) = self.extents.last_mut() {
            last.length = last.length.min(position.saturating_sub(last.position));
        }
        assert!(
            self.extents
                .last()
                .is_none_or(|last| last.stop() <= position),
            "nothing is behind a cut"
        );
        let void_from = self.void_from.unwrap_or(position);
        self.void_from = Some(void_from.min(position));
    }
}

/// The lowest place at which a log was cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::journal) struct CutPlace {
    /// The segment that ends there; what was behind it is void.
    pub(in crate::journal) segment: Offset,
    /// The log ended there.
    pub(in crate::journal) offset: Offset,
}

/// What a ring says of one log.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(in crate::journal) struct LogImage {
    /// By base offset. Bounded: the parts of the ring.
    pub(in crate::journal) segments: BTreeMap<Offset, SegmentImage>,
    /// Segments behind it that are not among `segments` do not exist.
    pub(in crate::journal) cut: Option<CutPlace>,
}

impl LogImage {
    /// Takes what the next part says; its bytes are at `place`.
    pub(in crate::journal) fn note(
        &mut self,
        (segment, position): (Offset, u32),
        change: Change<'_>,
        place: u64,
    ) {
        match change {
            Change::Bytes { bytes, .. } => {
                // No commit is longer than 4 MiB.
                let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                let new = Extent {
                    position,
                    length,
                    place,
                };
                self.of(segment).put(new);
            }
            Change::Cut { offset } => {
                self.segments.retain(|base, _| *base <= segment);
                self.of(segment).cut(position);
                let cut = self.cut.get_or_insert(CutPlace { segment, offset });
                cut.segment = cut.segment.min(segment);
                cut.offset = cut.offset.min(offset);
            }
        }
    }

    fn of(&mut self, segment: Offset) -> &mut SegmentImage {
        // Behind a cut the segment is a new one.
        let is_new = self.cut.is_some_and(|cut| cut.segment < segment);
        let image = self.segments.entry(segment);
        image.or_insert_with(|| SegmentImage {
            extents: Vec::new(),
            void_from: is_new.then_some(0),
        })
    }

    /// Returns how many bytes the ring has of it.
    pub(in crate::journal) fn bytes(&self) -> u64 {
        let extents = self.segments.values().flat_map(|image| &image.extents);
        let lengths = extents.map(|extent| u64::from(extent.length));
        lengths.fold(0, u64::saturating_add)
    }
}

/// Some logs, those of one of several equal shares.
///
/// What a ring of small parts says takes memory: it is read several times, for a share of the logs
/// each time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::journal) struct Share {
    number: u64,
    of: u64,
}

impl Share {
    /// All logs.
    pub(in crate::journal) const WHOLE: Self = Self { number: 0, of: 1 };

    /// Returns shares with about `parts_max` of `parts` parts each.
    pub(in crate::journal) fn each(parts: u64, parts_max: u64) -> impl Iterator<Item = Self> {
        let of = parts.div_ceil(parts_max.max(1)).max(1);
        (0..of).map(move |number| Self { number, of })
    }

    fn has(self, (topic, partition): Key) -> bool {
        let mixed = topic.wrapping_add(u128::from(partition.unsigned_abs()));
        mixed.checked_rem(u128::from(self.of)) == Some(u128::from(self.number))
    }
}

/// What a ring says of a share of the logs.
#[derive(Default, Debug)]
pub(in crate::journal) struct Images {
    /// Bounded: the parts of the share.
    pub(in crate::journal) by_log: BTreeMap<Key, LogImage>,
}

impl Images {
    /// Takes the next commit of a ring of this size.
    pub(in crate::journal) fn note(&mut self, commit: &Commit<'_>, size: RingSize, share: Share) {
        let start = size.place(commit.stamp.position);
        for (distance, part) in commit.parts_at() {
            let key = key(part.log);
            if share.has(key) {
                let place = start.saturating_add(distance);
                let image = self.by_log.entry(key).or_default();
                image.note((part.segment, part.position), part.change, place);
            }
        }
    }
}
