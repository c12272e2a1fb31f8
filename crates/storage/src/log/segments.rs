//! The segments of a log, in order.
//!
//! Invariants: by base offset, never empty, each ends where the next one begins; the last one grows. Only these functions change
//! which there are; each ends the process rather than break that, and gives the event that the log is to be told of.
//! It does not: change files, or say who is told.

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
    /// One has begun behind another, or behind nothing.
    Rolled {
        /// The new one.
        begun: Rc<Segment<P>>,
    },
    /// Its data is synced, its indexes are saved.
    Sealed {
        /// The one.
        segment: Rc<Segment<P>>,
    },
    /// The same records in another place: the new one's names are durable and noted.
    Moved {
        /// As it was.
        old: Rc<Segment<P>>,
        /// As it is.
        new: Rc<Segment<P>>,
    },
    /// Others with the same range of offsets: after a compaction, or where nothing of it had reached a disk.
    Replaced {
        /// As they were.
        old: Vec<Rc<Segment<P>>>,
        /// As it is.
        new: Rc<Segment<P>>,
    },
    /// It ends earlier, durably, and is active again.
    Truncated {
        /// The one.
        segment: Rc<Segment<P>>,
    },
    /// It belongs to the log no more.
    Removed {
        /// The one.
        segment: Rc<Segment<P>>,
    },
}

/// See the module's documentation.
pub(crate) struct SegmentList<P: Platform> {
    all: RefCell<VecDeque<Rc<Segment<P>>>>,
}

impl<P: Platform> SegmentList<P> {
    /// Those that a start has found or begun.
    pub(super) fn new(all: VecDeque<Rc<Segment<P>>>) -> Self {
        assert!(!all.is_empty(), "a log has a segment");
        Self {
            all: RefCell::new(all),
        }
    }

    /// All of them, oldest first.
    pub(super) fn all(&self) -> Ref<'_, VecDeque<Rc<Segment<P>>>> {
        self.all.borrow()
    }

    /// The same, for who waits meanwhile.
    pub(super) fn snapshot(&self) -> Vec<Rc<Segment<P>>> {
        self.all.borrow().iter().cloned().collect()
    }

    pub(super) fn len(&self) -> usize {
        self.all.borrow().len()
    }

    /// The oldest one.
    pub(super) fn first(&self) -> Rc<Segment<P>> {
        let all = self.all.borrow();
        Rc::clone(all.front().expect("a log has a segment"))
    }

    /// The last one, which grows.
    pub(crate) fn active(&self) -> Rc<Segment<P>> {
        let all = self.all.borrow();
        Rc::clone(all.back().expect("a log has a segment"))
    }

    /// The one that holds `offset`, or the first one after it.
    pub(super) fn holding(&self, offset: Offset) -> Option<Rc<Segment<P>>> {
        let all = self.all.borrow();
        let at = all.partition_point(|segment| segment.next() <= offset);
        all.get(at).cloned()
    }

    /// The one that begins at `base`.
    pub(crate) fn at(&self, base: Offset) -> Option<Rc<Segment<P>>> {
        let all = self.all.borrow();
        all.iter().find(|segment| segment.base == base).cloned()
    }

    /// Shows every one, oldest first.
    pub(crate) fn each(&self, mut show: impl FnMut(&Segment<P>)) {
        for segment in self.all.borrow().iter() {
            show(segment);
        }
    }

    /// True when bytes of the log are being written to `dir`.
    pub(crate) fn are_written_to(&self, dir: &Path) -> bool {
        let segments = self.all.borrow();
        let mut unsealed = segments
            .iter()
            .rev()
            .take_while(|segment| !segment.is_sealed());
        unsealed.any(|segment| segment.folder.starts_with(dir))
    }

    /// Where a segment is in the log, if it is in it.
    pub(super) fn place_of(&self, segment: &Rc<Segment<P>>) -> Option<usize> {
        let all = self.all.borrow();
        all.iter().position(|other| Rc::ptr_eq(other, segment))
    }

    /// Those that may have bytes to be written or synced, oldest first.
    pub(super) fn unsealed(&self) -> Vec<Rc<Segment<P>>> {
        let all = self.all.borrow();
        let sealed = all.iter().rposition(|segment| segment.is_sealed());
        let from = sealed.map_or(0, |at| at + 1);
        all.range(from..).cloned().collect()
    }

    /// The oldest of those that are to be sealed.
    pub(super) fn oldest_rolled(&self) -> Option<Rc<Segment<P>>> {
        let all = self.all.borrow();
        let rolled = all.iter().rev().skip(1);
        let rolled = rolled.take_while(|segment| !segment.is_sealed());
        rolled.last().cloned()
    }

    /// Ends the active one where `new` begins, behind it.
    #[must_use = "the log is to be told"]
    pub(super) fn roll(&self, new: Rc<Segment<P>>) -> SegmentEvent<P> {
        let old = self.active();
        assert!(old.next() <= new.base, "the next one begins behind it");
        old.roll(new.base);
        self.all.borrow_mut().push_back(Rc::clone(&new));
        SegmentEvent::Rolled { begun: new }
    }

    /// Ends one where it is written; `new` takes the rest, the `parts`, behind it, or in its place where nothing is written.
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

    /// Puts one in the place of others, which are neighbours.
    #[must_use = "the log is to be told"]
    pub(super) fn replace(&self, old: &[Rc<Segment<P>>], new: &Rc<Segment<P>>) -> SegmentEvent<P> {
        self.put(old, new);
        SegmentEvent::Replaced {
            old: old.to_vec(),
            new: Rc::clone(new),
        }
    }

    /// Puts one in the place of another with the same records.
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

    /// Takes the oldest one away; another is left.
    #[must_use = "the log is to be told"]
    pub(super) fn remove_first(&self, expected: &Rc<Segment<P>>) -> SegmentEvent<P> {
        let mut all = self.all.borrow_mut();
        assert!(all.len() > 1, "a log has a segment");
        let gone = all.pop_front();
        Self::removed(gone, expected)
    }

    /// Takes the last one away; another is left.
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

    /// Takes all away; the log goes on in an empty one.
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
