//! Decides what to compact from the facts about a log's segments: how much is dirty, up to where it
//! may be compacted, whether that is due, and which segments become one.
//!
//! Pure. The terms are Kafka's: a log is *clean* up to where compaction has been, and *dirty* from
//! there up to what may not be compacted yet (the active segment, records younger than the lag,
//! what is not decided for every reader).

use std::ops::Range;

use wire::types::Offset;

/// Largest distance of an offset from the base of its segment.
const SEGMENT_SPAN_MAX: i64 = i32::MAX as i64;

/// How a topic is compacted; the names are those of Kafka's topic settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompactPolicy {
    /// `min.compaction.lag.ms`.
    pub min_lag_ms: i64,
    /// `max.compaction.lag.ms`.
    pub max_lag_ms: i64,
    /// `delete.retention.ms`.
    pub delete_retention_ms: i64,
    /// `min.cleanable.dirty.ratio`, in millionths.
    pub dirty_ratio_min_ppm: u32,
}

/// The facts about a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SegmentFacts {
    pub(super) base: Offset,
    pub(super) next: Offset,
    pub(super) size: u64,
    pub(super) is_sealed: bool,
    /// Its largest timestamp; like `first_ms`, only looked up where a lag is set.
    pub(super) largest_ms: Option<i64>,
    /// The timestamp of its first batch.
    pub(super) first_ms: Option<i64>,
}

/// How dirty a log is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dirt {
    /// The log is clean below this offset.
    pub first_dirty: Offset,
    /// From this offset on the log may not be compacted yet.
    pub first_uncleanable: Offset,
    /// Bytes of the segments that are clean.
    pub clean_bytes: u64,
    /// Bytes of the segments that are dirty and may be compacted.
    pub dirty_bytes: u64,
    /// By how much the oldest dirty record is past the topic's maximum lag.
    pub overdue_ms: i64,
}

impl Dirt {
    /// Returns the dirty part of what may be compacted, 0 to 1.
    #[allow(clippy::cast_precision_loss, reason = "a ratio")]
    pub fn ratio(&self) -> f64 {
        let all = self.clean_bytes.saturating_add(self.dirty_bytes);
        if all == 0 {
            0.0
        } else {
            self.dirty_bytes as f64 / all as f64
        }
    }

    /// Returns true when the log should be compacted now.
    pub fn is_due(&self, policy: &CompactPolicy) -> bool {
        let is_dirty = self.dirty_bytes > 0 && self.first_dirty < self.first_uncleanable;
        let is_too_dirty = self.ratio() > f64::from(policy.dirty_ratio_min_ppm) / 1e6;
        is_dirty && (self.overdue_ms > 0 || is_too_dirty)
    }
}

/// Returns the end of what any compaction may touch: sealed, and decided for every reader.
pub(super) fn undecided_from(segments: &[SegmentFacts], stable: Offset) -> Offset {
    let unsealed = segments.iter().find(|segment| !segment.is_sealed);
    unsealed.map_or(stable, |segment| segment.base.min(stable))
}

/// Returns how dirty a log is that is clean below `first_dirty`.
pub(super) fn dirt(
    segments: &[SegmentFacts],
    first_dirty: Offset,
    stable: Offset,
    policy: &CompactPolicy,
    now_ms: i64,
) -> Dirt {
    let undecided = undecided_from(segments, stable);
    let dirty = |segment: &&SegmentFacts| segment.is_sealed && segment.next > first_dirty;
    let youngest = now_ms.saturating_sub(policy.min_lag_ms);
    let too_young = segments.iter().filter(dirty).find(|segment| {
        policy.min_lag_ms > 0 && segment.largest_ms.is_some_and(|ms| ms > youngest)
    });
    let first_uncleanable = too_young.map_or(undecided, |segment| segment.base.min(undecided));
    let oldest = segments
        .iter()
        .filter(dirty)
        .filter_map(|segment| segment.first_ms.filter(|ms| *ms > 0))
        .min();
    let due = now_ms.saturating_sub(policy.max_lag_ms.max(0));
    let bytes = |wanted: &dyn Fn(&SegmentFacts) -> bool| {
        let wanted = segments.iter().filter(|segment| wanted(segment));
        wanted
            .map(|segment| segment.size)
            .fold(0, u64::saturating_add)
    };
    Dirt {
        first_dirty,
        first_uncleanable,
        clean_bytes: bytes(&|segment| segment.base < first_dirty && segment.is_sealed),
        dirty_bytes: bytes(&|segment| {
            segment.next > first_dirty && segment.base < first_uncleanable && segment.is_sealed
        }),
        overdue_ms: oldest.map_or(0, |oldest| due.saturating_sub(oldest).max(0)),
    }
}

/// The bounds of a segment that is made of others, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Limits {
    pub(super) segment: u64,
    pub(super) index_interval: u32,
    pub(super) index: u64,
}

impl Limits {
    /// Returns true when segments of `bytes` in all fit one segment with its indexes.
    fn fit(&self, bytes: u64) -> bool {
        // The larger of the two indexes has 12 bytes for each interval.
        let entries = bytes / u64::from(self.index_interval).max(100);
        bytes <= self.segment && entries.saturating_mul(12) <= self.index
    }
}

/// Returns which neighbours among the segments below `end` become one segment each.
pub(super) fn groups(segments: &[SegmentFacts], end: Offset, limits: Limits) -> Vec<Range<usize>> {
    let count = segments
        .iter()
        .take_while(|segment| segment.is_sealed && segment.base < end)
        .count();
    let mut groups: Vec<Range<usize>> = Vec::new();
    let mut bytes = 0_u64;
    for (at, segment) in segments.iter().take(count).enumerate() {
        let together = groups.last_mut().filter(|group| {
            let base = segments[group.start].base;
            let span = segment.next.since(base) - 1;
            // An empty segment has no offset that an index would have to name, however far away its
            // end is.
            limits.fit(bytes.saturating_add(segment.size))
                && (segment.size == 0 || span <= SEGMENT_SPAN_MAX)
        });
        if let Some(group) = together {
            group.end = at + 1;
            bytes = bytes.saturating_add(segment.size);
        } else {
            groups.push(at..at + 1);
            bytes = segment.size;
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: CompactPolicy = CompactPolicy {
        min_lag_ms: 0,
        max_lag_ms: i64::MAX,
        delete_retention_ms: 0,
        dirty_ratio_min_ppm: 500_000,
    };

    /// Returns segments of 100 offsets each with these sizes; the last one is active.
    ///
    /// Timestamps equal offsets.
    fn segments(sizes: &[u64]) -> Vec<SegmentFacts> {
        let bases = (0..).map(|at| at * 100);
        let mut segments: Vec<_> = bases
            .zip(sizes)
            .map(|(base, &size)| SegmentFacts {
                base: Offset(base),
                next: Offset(base + 100),
                size,
                is_sealed: true,
                largest_ms: Some(base + 99),
                first_ms: Some(base),
            })
            .collect();
        if let Some(active) = segments.last_mut() {
            active.is_sealed = false;
        }
        segments
    }

    #[test]
    fn the_active_segment_and_what_is_not_stable_is_not_compacted() {
        let all = segments(&[10, 20, 40, 80]);
        let of = |stable| dirt(&all, Offset(100), Offset(stable), &POLICY, 1000);
        let whole = of(400);
        assert_eq!(whole.first_uncleanable, Offset(300));
        assert_eq!((whole.clean_bytes, whole.dirty_bytes), (10, 60));
        assert!(whole.is_due(&POLICY), "{}", whole.ratio());
        assert_eq!(of(250).first_uncleanable, Offset(250));
        assert_eq!(of(200).dirty_bytes, 20);
        assert!(!of(100).is_due(&POLICY));
    }

    #[test]
    fn a_lag_holds_back_or_hurries() {
        let all = segments(&[10, 1, 1, 80]);
        let lagging = CompactPolicy {
            min_lag_ms: 250,
            ..POLICY
        };
        let dirty = dirt(&all, Offset(100), Offset(400), &lagging, 500);
        assert_eq!(dirty.first_uncleanable, Offset(200), "299 is above 250");
        let hurried = CompactPolicy {
            max_lag_ms: 350,
            ..POLICY
        };
        let dirty = |now| dirt(&all, Offset(100), Offset(400), &hurried, now);
        assert_eq!((dirty(450).overdue_ms, dirty(470).overdue_ms), (0, 20));
        assert!(!dirty(450).is_due(&hurried) && dirty(470).is_due(&hurried));
    }

    #[test]
    fn small_neighbours_become_one_within_bounds() {
        let limits = Limits {
            segment: 100,
            index_interval: 4096,
            index: 1000,
        };
        let of = |sizes: &[u64], end| groups(&segments(sizes), Offset(end), limits);
        assert_eq!(of(&[50, 50, 1, 99, 7, 9], 1000), [0..2, 2..4, 4..5]);
        assert_eq!(of(&[50, 50, 1, 9], 150).first(), Some(&(0..2)));
        assert_eq!(of(&[50, 50, 1, 9], 150).len(), 1);
        assert_eq!(of(&[150, 50, 9], 150), [0..1, 1..2]);
        let far = SegmentFacts {
            base: Offset(1 << 31),
            next: Offset((1 << 31) + 5),
            ..segments(&[1, 1])[0]
        };
        let near = segments(&[1, 1])[0];
        assert_eq!(groups(&[near, far], Offset(1 << 40), limits), [0..1, 1..2]);
        let ends_there = SegmentFacts {
            next: Offset(1 << 31),
            base: Offset(100),
            ..far
        };
        assert_eq!(
            groups(&[near, ends_there], Offset(1 << 40), limits).len(),
            1
        );
    }
}
