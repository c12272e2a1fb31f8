//! The segments of a log, in order.
//!
//! Invariants: the list is sorted by base offset and never empty, each segment ends where the next
//! one begins, and the last one grows. Only these functions change the list; each ends the process
//! rather than break that, and returns the event that the log is to be notified of.
//! It does not: change files, or say which listeners are notified.

use std::cell::{Ref, RefCell};
use std::collections::VecDeque;
use std::path::Path;
use std::rc::Rc;

use bytes::Bytes;
use platform::Platform;
use platform::buf::Chunk;
use wire::types::Offset;

use crate::segment::Segment;

/// What became of a segment.
pub(crate) enum SegmentEvent<P: Platform> {
    /// A segment has begun behind another, or as the only one.
    Rolled {
        /// The new segment.
        begun: Rc<Segment<P>>,
    },
    /// The segment's data is synced, and its indexes are saved.
    Sealed {
        /// The sealed segment.
        segment: Rc<Segment<P>>,
    },
    /// The same records are in another place; the new segment's names are durable and noted.
    Moved {
        /// The segment in the old place.
        old: Rc<Segment<P>>,
        /// The segment in the new place.
        new: Rc<Segment<P>>,
    },
    /// A segment replaces others with the same range of offsets.
    ///
    /// It does so after a compaction, or where nothing of them had reached a disk.
    Replaced {
        /// The replaced segments.
        old: Vec<Rc<Segment<P>>>,
        /// The segment in their place.
        new: Rc<Segment<P>>,
    },
    /// The segment ends earlier, durably, and is active again.
    Truncated {
        /// The truncated segment.
        segment: Rc<Segment<P>>,
    },
    /// The segment no longer belongs to the log.
    Removed {
        /// The removed segment.
        segment: Rc<Segment<P>>,
    },
}

/// The segments of a log; see the module's documentation.
pub(crate) struct SegmentList<P: Platform> {
    all: RefCell<VecDeque<Rc<Segment<P>>>>,
}

impl<P: Platform> SegmentList<P> {
    /// Takes the segments that a start has found or begun.
    pub(super) fn new(all: VecDeque<Rc<Segment<P>>>) -> Self {
        assert!(!all.is_empty(), "a log has a segment");
        Self {
            all: RefCell::new(all),
        }
    }

    /// Returns all segments, oldest first.
    pub(super) fn all(&self) -> Ref<'_, VecDeque<Rc<Segment<P>>>> {
        self.all.borrow()
    }

    /// Returns a copy of the list, for a caller that waits while it uses it.
    pub(super) fn snapshot(&self) -> Vec<Rc<Segment<P>>> {
        self.all.borrow().iter().cloned().collect()
    }

    pub(super) fn len(&self) -> usize {
        self.all.borrow().len()
    }

    /// Returns the oldest segment.
    pub(super) fn first(&self) -> Rc<Segment<P>> {
        let all = self.all.borrow();
        Rc::clone(all.front().expect("a log has a segment"))
    }

    /// Returns the last segment, which grows.
    pub(crate) fn active(&self) -> Rc<Segment<P>> {
        let all = self.all.borrow();
        Rc::clone(all.back().expect("a log has a segment"))
    }

    /// Returns the segment that holds `offset`, or the first one after it.
    pub(super) fn holding(&self, offset: Offset) -> Option<Rc<Segment<P>>> {
        let all = self.all.borrow();
        let at = all.partition_point(|segment| segment.next() <= offset);
        all.get(at).cloned()
    }

    /// Returns the segment that begins at `base`.
    pub(crate) fn at(&self, base: Offset) -> Option<Rc<Segment<P>>> {
        let all = self.all.borrow();
        all.iter().find(|segment| segment.base == base).cloned()
    }

    /// Calls `show` for every segment, oldest first.
    pub(crate) fn each(&self, mut show: impl FnMut(&Segment<P>)) {
        for segment in self.all.borrow().iter() {
            show(segment);
        }
    }

    /// Returns true when bytes of the log are being written to `dir`.
    pub(crate) fn are_written_to(&self, dir: &Path) -> bool {
        let segments = self.all.borrow();
        let mut unsealed = segments
            .iter()
            .rev()
            .take_while(|segment| !segment.is_sealed());
        unsealed.any(|segment| segment.folder.starts_with(dir))
    }

    /// Returns where a segment is in the log, if it is in it.
    pub(super) fn place_of(&self, segment: &Rc<Segment<P>>) -> Option<usize> {
        let all = self.all.borrow();
        all.iter().position(|other| Rc::ptr_eq(other, segment))
    }

    /// Returns the segments that may have bytes to be written or synced, oldest first.
    pub(super) fn unsealed(&self) -> Vec<Rc<Segment<P>>> {
        let all = self.all.borrow();
        let sealed = all.iter().rposition(|segment| segment.is_sealed());
        let from = sealed.map_or(0, |at| at + 1);
        all.range(from..).cloned().collect()
    }

    /// Returns the oldest of the segments that are to be sealed.
    pub(super) fn oldest_rolled(&self) -> Option<Rc<Segment<P>>> {
        let all = self.all.borrow();
        let rolled = all.iter().rev().skip(1);
        let rolled = rolled.take_while(|segment| !segment.is_sealed());
        rolled.last().cloned()
    }

    /// Rolls the active segment where `new` begins, and adds that behind it.
    #[must_use = "the log is to be told"]
    pub(super) fn roll(&self, new: Rc<Segment<P>>) -> SegmentEvent<P> {
        let old = self.active();
        assert!(old.next() <= new.base, "the next one begins behind it");
        old.roll(new.base);
        self.all.borrow_mut().push_back(Rc::clone(&new));
        SegmentEvent::Rolled { begun: new }
    }

    /// Ends a segment where it is written; `new` takes the rest, the `parts`.
    ///
    /// It comes behind the old one, or in its place where nothing is written.
    #[must_use = "the log is to be told"]
    pub(super) fn split(
        &self,
        old: &Rc<Segment<P>>,
        new: &Rc<Segment<P>>,
        (parts, chunks): (&[Bytes], Vec<Chunk>),
    ) -> SegmentEvent<P> {
        let at = self.place_of(old).expect("it is in the log");
        let is_empty = old.written() == 0;
        old.split_at_written(new, parts, chunks);
        if is_empty {
            return self.replace(std::slice::from_ref(old), new);
        }
        self.all.borrow_mut().insert(at + 1, Rc::clone(new));
        SegmentEvent::Rolled {
            begun: Rc::clone(new),
        }
    }

    /// Puts a segment in the place of others, which are neighbours.
    #[must_use = "the log is to be told"]
    pub(super) fn replace(&self, old: &[Rc<Segment<P>>], new: &Rc<Segment<P>>) -> SegmentEvent<P> {
        self.put(old, new);
        SegmentEvent::Replaced {
            old: old.to_vec(),
            new: Rc::clone(new),
        }
    }

    /// Puts a segment in the place of another with the same records.
    #[must_use = "the log is to be told"]
    pub(super) fn moved(&self, old: &Rc<Segment<P>>, new: &Rc<Segment<P>>) -> SegmentEvent<P> {
        assert_eq!(old.size(), new.size(), "a copy is as long as it was");
        self.put(std::slice::from_ref(old), new);
        SegmentEvent::Moved {
            old: Rc::clone(old),
            new: Rc::clone(new),
        }
    }

    fn put(&self, old: &[Rc<Segment<P>>], new: &Rc<Segment<P>>) {
        let [first, ..] = old else {
            unreachable!("one comes in the place of another");
        };
        let at = self.place_of(first).expect("it is in the log");
        assert_eq!(first.base, new.base, "it begins where they did");
        let mut all = self.all.borrow_mut();
        let run = all.drain(at..at + old.len());
        assert!(
            run.zip(old).all(|(there, old)| Rc::ptr_eq(&there, old)),
            "they are neighbours"
        );
        let behind = all.get(at).map(|behind| behind.base);
        assert!(
            behind.is_none_or(|behind| behind == new.next()),
            "it ends where the next one begins"
        );
        all.insert(at, Rc::clone(new));
    }

    /// Removes the oldest segment; another is left.
    #[must_use = "the log is to be told"]
    pub(super) fn remove_first(&self, expected: &Rc<Segment<P>>) -> SegmentEvent<P> {
        let mut all = self.all.borrow_mut();
        assert!(all.len() > 1, "a log has a segment");
        let gone = all.pop_front();
        Self::removed(gone, expected)
    }

    /// Removes the last segment; another is left.
    #[must_use = "the log is to be told"]
    pub(super) fn remove_last(&self, expected: &Rc<Segment<P>>) -> SegmentEvent<P> {
        let mut all = self.all.borrow_mut();
        assert!(all.len() > 1, "a log has a segment");
        let gone = all.pop_back();
        Self::removed(gone, expected)
    }

    fn removed(gone: Option<Rc<Segment<P>>>, expected: &Rc<Segment<P>>) -> SegmentEvent<P> {
        let segment = gone.expect("there was one");
        assert!(Rc::ptr_eq(&segment, expected), "nobody was in between");
        SegmentEvent::Removed { segment }
    }

    /// Removes all segments; the log continues in an empty one.
    #[must_use = "the log is to be told"]
    pub(super) fn restart(&self, new: &Rc<Segment<P>>) -> Vec<SegmentEvent<P>> {
        assert!(new.is_active() && new.size() == 0, "it begins anew");
        let gone = self.all.replace([Rc::clone(new)].into());
        let removed = gone.into_iter();
        let removed = removed.map(|segment| SegmentEvent::Removed { segment });
        let begun = Rc::clone(new);
        removed.chain([SegmentEvent::Rolled { begun }]).collect()
    }
}
