//! The invariants of a log: what is true whenever no operation is in the middle of changing it.
//!
//! Cheap ones are checked after each append, flush and change of segments, in every build; the rest
//! in debug builds, that is in tests and in simulation. All of them concern the log's own numbers:
//! values from files, clients and disks are judged before they become one of these.
//! It does not: check a failed log, which a truncation may have left half-way, a log that is being
//! truncated, or a closed one.

use std::rc::Rc;

use platform::Platform;

use super::Log;
use super::condition::Condition;
use crate::log::views::{Checking, Journaling};
use crate::segment::Segment;

impl<P: Platform> Log<P> {
    /// Ends the process when the log contradicts itself.
    pub fn check_invariants(&self) {
        self.check_cheap();
        if cfg!(debug_assertions) && Checking(self).is_to_agree() {
            Checking(self).check_segments();
            Checking(self).check_rest();
        }
    }

    /// Checks the log's offsets and its last segment.
    pub(crate) fn check_cheap(&self) {
        if !Checking(self).is_to_agree() {
            return;
        }
        let (start, end) = (self.offsets.start(), self.offsets.end());
        let high_watermark = self.offsets.high_watermark();
        assert!(
            start <= high_watermark && high_watermark <= end,
            "the high watermark is between log start and log end"
        );
        let (durable, written) = (self.offsets.durable(), self.offsets.written());
        assert!(
            self.offsets.recovery_point() <= durable,
            "the recovery point is durable"
        );
        assert!(durable <= written, "what is durable was written");
        assert!(written <= end, "what is written was appended");
        let segments = self.segments.all();
        let (Some(first), Some(active)) = (segments.front(), segments.back()) else {
            unreachable!("a log has a segment");
        };
        assert!(first.base <= start, "the log holds its start");
        assert!(active.is_active(), "the last segment is the active one");
        assert_eq!(
            active.next(),
            end,
            "the active segment ends where the log does"
        );
        assert!(
            active.loaded().is_some(),
            "the active segment has its indexes"
        );
        check_lengths(active);
    }
}

impl<P: Platform> Checking<'_, P> {
    fn is_to_agree(self) -> bool {
        let condition = self.condition.borrow();
        let is_over = matches!(&*condition, Condition::Failed(_) | Condition::Closed);
        !is_over && !self.truncating.get()
    }

    fn check_segments(self) {
        let segments = self.segments.all();
        for (before, after) in segments.iter().zip(segments.iter().skip(1)) {
            assert!(before.base < after.base, "segments are in order");
            assert_eq!(
                before.next(),
                after.base,
                "a segment ends where the next one begins"
            );
            assert!(!before.is_active(), "only the last segment grows");
        }
        for segment in segments.iter() {
            check_segment(segment);
            self.check_settled(segment);
            self.check_charge(segment);
        }
    }

    /// Checks that what is written or synced of the log is so of its segments.
    fn check_settled(self, segment: &Segment<P>) {
        if Journaling(self.0).is_unlanded(segment) {
            // The journal has what its segment lacks.
            return;
        }
        let (next, size) = (segment.next(), segment.size());
        if next <= self.offsets.written() {
            assert_eq!(segment.written(), size, "all below is written");
        }
        if next <= self.offsets.durable() {
            assert_eq!(segment.synced(), size, "all below is durable");
        }
    }

    /// Checks that a segment counts on the path that it is on, and nowhere else.
    fn check_charge(self, segment: &Segment<P>) {
        let path = self.store.tiers().and_then(|tiers| {
            let is_there = !segment.is_absent();
            is_there.then(|| tiers.holding(&segment.folder)).flatten()
        });
        let charged = segment.charge().map(|charge| charge.path().id);
        assert_eq!(charged, path.map(|path| path.id), "charged where it is");
    }

    /// Checks that leader epochs, producers and snapshots name nothing beyond the log end.
    fn check_rest(self) {
        let end = self.offsets.end();
        let epochs = self.epochs.borrow();
        let entries = epochs.entries();
        let ascend = entries
            .iter()
            .zip(entries.iter().skip(1))
            .all(|(one, two)| one.epoch < two.epoch && one.start < two.start);
        assert!(ascend, "leader epochs ascend");
        assert!(
            entries.last().is_none_or(|last| last.start <= end),
            "the latest epoch begins within the log"
        );
        let producers = self.producers.borrow();
        assert!(
            producers.end() <= end,
            "producers are known up to the log end"
        );
        assert!(
            producers.first_unstable_offset().is_none_or(|at| at < end),
            "an open transaction has a record"
        );
        self.upkeep.check(self.segments.first().base, end);
    }
}

/// Checks the synced, written and total lengths of a segment.
fn check_lengths<P: Platform>(segment: &Segment<P>) {
    let (size, written) = (segment.size(), segment.written());
    assert!(
        segment.synced() <= written && written <= size,
        "what is synced was written, what is written was appended"
    );
    assert_eq!(
        segment.tail().end(),
        size,
        "the tail is as long as the segment"
    );
}

fn check_segment<P: Platform>(segment: &Rc<Segment<P>>) {
    check_lengths(segment);
    let (size, written) = (segment.size(), segment.written());
    let is_sealed = segment.is_sealed();
    assert!(
        segment.base <= segment.next(),
        "a segment begins before it ends"
    );
    assert!(written <= segment.allocated(), "what is written has room");
    assert!(
        written == 0 || segment.is_named(),
        "what is written has a name"
    );
    assert!(
        written == size || segment.tail().blocks_from(written).is_some(),
        "what is not written is in memory"
    );
    if is_sealed {
        assert!(
            segment.synced() == size && segment.is_named(),
            "what is sealed is durable"
        );
    }
    assert!(
        is_sealed || !segment.are_names_lent(),
        "only the names of sealed segments are lent"
    );
    if segment.is_absent() {
        assert!(is_sealed && size == 0, "nothing of it is known");
        assert!(segment.offline().is_some(), "there is a reason");
    }
    match &*segment.loaded() {
        Some(loaded) => assert_eq!(loaded.indexes.offsets.base(), segment.base, "its own"),
        None => assert!(is_sealed, "{}", crate::segment::HAS_INDEXES),
    }
}
