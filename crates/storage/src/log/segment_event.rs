//! Notifies the parts of a log of what becomes of its segments.
//!
//! Invariants: the list is as the event says before the notification, with nothing of it borrowed.
//! A receiver keeps no segment: a move waits until the last reader of the old one lets go. Each
//! receiver handles every event: a new event does not compile until all of them do.
//! It does not: change the list (`segments.rs`).

use platform::Platform;

use super::Log;
use super::segments::SegmentEvent;
use crate::log::views::{LogTiers, Telling};
use crate::num::gauge;

impl<P: Platform> Log<P> {
    /// Notifies all receivers.
    pub(in crate::log) fn segment_changed(&self, event: &SegmentEvent<P>) {
        self.as_left.set(None);
        if cfg!(debug_assertions) {
            Telling(self).check_event(event);
        }
        Telling(self).count_segments(event);
        Telling(self).note_loaded_segment(event);
        Telling(self).forget_what_was_read(event);
        Telling(self).forget_what_was_asked(event);
    }
}

impl<P: Platform> Telling<'_, P> {
    /// Checks that the list is as the event says.
    fn check_event(self, event: &SegmentEvent<P>) {
        let (gone, there) = match event {
            SegmentEvent::Rolled { begun } => (&[][..], Some(begun)),
            SegmentEvent::Sealed { segment } | SegmentEvent::Truncated { segment } => {
                (&[][..], Some(segment))
            }
            SegmentEvent::Moved { old, new } => (std::slice::from_ref(old), Some(new)),
            SegmentEvent::Replaced { old, new } => (&old[..], Some(new)),
            SegmentEvent::Removed { segment } => (std::slice::from_ref(segment), None),
        };
        let is_there = |segment| self.segments.place_of(segment).is_some();
        assert!(there.is_none_or(is_there), "what is told of is in the log");
        assert!(!gone.iter().any(is_there), "what is gone is not");
    }

    fn count_segments(self, event: &SegmentEvent<P>) {
        let segments = &self.store.shared.metrics.segments;
        match event {
            SegmentEvent::Rolled { .. } => {
                segments.inc();
            }
            SegmentEvent::Replaced { old, .. } => {
                segments.dec_by(gauge(old.len()) - 1);
            }
            SegmentEvent::Removed { .. } => {
                segments.dec();
            }
            SegmentEvent::Sealed { .. }
            | SegmentEvent::Moved { .. }
            | SegmentEvent::Truncated { .. } => {}
        }
    }

    /// Counts the loaded sealed segments, which share a bound.
    fn note_loaded_segment(self, event: &SegmentEvent<P>) {
        match event {
            SegmentEvent::Sealed { segment } => self.store.note_loaded(segment),
            SegmentEvent::Moved { new, .. } => self.store.note_loaded(new),
            SegmentEvent::Replaced { new, .. } if new.is_sealed() => self.store.note_loaded(new),
            SegmentEvent::Replaced { .. }
            | SegmentEvent::Rolled { .. }
            | SegmentEvent::Truncated { .. }
            | SegmentEvent::Removed { .. } => {}
        }
    }

    /// Forgets readers' positions, and what was read ahead of them.
    fn forget_what_was_read(self, event: &SegmentEvent<P>) {
        match event {
            // A move leaves positions as they are.
            SegmentEvent::Moved { old, .. } => old.blocks.borrow_mut().clear(),
            // Where nothing had reached a disk, nothing was read from there.
            SegmentEvent::Replaced { new, .. } if new.is_sealed() => self.readers.forget(),
            SegmentEvent::Truncated { segment } => {
                self.readers.forget();
                segment.blocks.borrow_mut().clear();
            }
            SegmentEvent::Replaced { .. }
            | SegmentEvent::Rolled { .. }
            | SegmentEvent::Sealed { .. }
            | SegmentEvent::Removed { .. } => {}
        }
    }

    /// Forgets the tier that an operator asked for.
    fn forget_what_was_asked(self, event: &SegmentEvent<P>) {
        match event {
            // What was asked for is done.
            SegmentEvent::Moved { old, .. } => LogTiers(self.0).forget_asked(old.base),
            SegmentEvent::Removed { segment } => LogTiers(self.0).forget_asked(segment.base),
            // What is asked of the first segment is asked of the one in their place.
            SegmentEvent::Replaced { old, .. } => {
                for gone in old.iter().skip(1) {
                    LogTiers(self.0).forget_asked(gone.base);
                }
            }
            SegmentEvent::Rolled { .. }
            | SegmentEvent::Sealed { .. }
            | SegmentEvent::Truncated { .. } => {}
        }
    }
}
