//! What a start does with a log: which files it removes, cuts, makes and writes, from what a ring
//! says of the log and what is on the disk.
//!
//! Invariants: what is written begins within what is there, so no hole is left; a segment below the
//! log's first one was deleted, and stays so; nothing is removed but what a cut made void.
//! Pure: names and lengths go in, steps come out. It does not compare bytes (`segment_file`).

use std::collections::BTreeMap;
use std::fmt;

use wire::types::Offset;

use super::image::{CutPlace, Extent, LogImage, SegmentImage};

/// What is done to a log.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(in crate::journal) struct LogPlan {
    /// Segments that a cut has made void, the last first.
    pub(in crate::journal) removed: Vec<Offset>,
    /// Producer snapshots behind it are void, and so are the indexes of its segment.
    pub(in crate::journal) cut: Option<CutPlace>,
    /// What the segments get, in order.
    pub(in crate::journal) segments: Vec<SegmentPlan>,
    /// Segments that were deleted before, and that still have parts in the ring.
    pub(in crate::journal) deleted: Vec<Offset>,
}

/// What is done to a segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::journal) struct SegmentPlan {
    /// Its base offset.
    pub(in crate::journal) segment: Offset,
    /// The length of its file, or `None` when it is made.
    pub(in crate::journal) found: Option<u64>,
    /// From here on the file holds nothing that counts.
    pub(in crate::journal) void_from: Option<u32>,
    /// What it holds afterwards, in order.
    pub(in crate::journal) extents: Vec<Extent>,
}

impl SegmentPlan {
    /// Returns how long the file is afterwards.
    ///
    /// What is behind the ring's bytes stays, unless a cut made it void: room that was reserved, or
    /// bytes that landed and were not acknowledged.
    pub(in crate::journal) fn length(&self) -> u64 {
        let stop = self.extents.last().map_or(0, |last| u64::from(last.stop()));
        match self.void_from {
            Some(void_from) => stop.max(u64::from(void_from)),
            None => stop.max(self.found.unwrap_or(0)),
        }
    }
}

/// Why a log does not get what the ring has of it. Its parts are kept beside it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RefusalReason {
    /// Bytes that were durable are missing before those in the ring.
    Short {
        /// The base offset of the segment.
        segment: Offset,
        /// The bytes from here on are missing.
        from: u64,
        /// Those from here on are in the ring.
        to: u64,
    },
    /// The segment has another batch there, whole: another program has written to the log since.
    Other {
        /// The base offset of the segment.
        segment: Offset,
        /// Where the batch begins.
        position: u64,
    },
    /// Two rings have parts of the log, so their order is not known.
    TwoRings,
    /// The log was cut, and the ring is damaged behind that: what came after the cut may be in the
    /// segments only.
    CutBeforeDamage,
}

impl fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { segment, from, to } => write!(
                f,
                "segment {segment} ends at byte {from}, and what the journal has begins at byte {to}"
            ),
            Self::Other { segment, position } => write!(
                f,
                "segment {segment} has another batch at byte {position} than the journal"
            ),
            Self::TwoRings => f.write_str("two journals have parts of it"),
            Self::CutBeforeDamage => {
                f.write_str("it was cut, and the journal is damaged behind that")
            }
        }
    }
}

/// Plans what is done to a log that has these segments on the disk, with these lengths.
pub(in crate::journal) fn plan(
    image: &LogImage,
    found: &BTreeMap<Offset, u64>,
) -> Result<LogPlan, RefusalReason> {
    let first = found.keys().next().copied();
    let mut plan = LogPlan::default();
    // Where the segment that was cut is gone, it was deleted after the cut had happened to all
    // others, and what there is came later.
    let cut = image.cut;
    let cut = cut.filter(|cut| first.is_none_or(|first| first <= cut.segment));
    if let Some(cut) = cut {
        plan.cut = Some(cut);
        let behind = found.keys().rev();
        let behind = behind.take_while(|base| **base > cut.segment);
        let is_void = |base: &&Offset| !image.segments.contains_key(*base);
        plan.removed = behind.filter(is_void).copied().collect();
    }
    for (&segment, image) in &image.segments {
        if first.is_some_and(|first| segment < first) {
            plan.deleted.push(segment);
            continue;
        }
        let found = found.get(&segment).copied();
        check_whole(segment, image, found)?;
        plan.segments.push(SegmentPlan {
            segment,
            found,
            void_from: image.void_from,
            extents: image.extents.clone(),
        });
    }
    assert!(
        plan.removed.iter().all(|base| Some(*base) != first),
        "the first segment says where the log begins"
    );
    Ok(plan)
}

/// Refuses a segment that lacks bytes before those in the ring.
fn check_whole(
    segment: Offset,
    image: &SegmentImage,
    found: Option<u64>,
) -> Result<(), RefusalReason> {
    let void_from = image.void_from.map(u64::from);
    let mut known = found.unwrap_or(0).min(void_from.unwrap_or(u64::MAX));
    let short = |from, to| RefusalReason::Short { segment, from, to };
    for extent in &image.extents {
        let position = u64::from(extent.position);
        if position > known {
            return Err(short(known, position));
        }
        known = known.max(u64::from(extent.stop()));
    }
    // What a cut has left was durable.
    match void_from {
        Some(void_from) if void_from > known => Err(short(known, void_from)),
        _ => Ok(()),
    }
}
