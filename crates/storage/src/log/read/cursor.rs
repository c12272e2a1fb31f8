//! Where sequential readers of a log will come back, and how far ahead of each it is worth reading.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use platform::sync::Notify;
use wire::types::Offset;

/// Readers whose position is remembered, for each log.
const CURSORS_MAX: usize = 64;

/// Where sequential readers will come back.
#[derive(Default)]
pub(in crate::log) struct Readers {
    /// The most recent last.
    // Bounded: `CURSORS_MAX`.
    cursors: RefCell<VecDeque<Cursor>>,
    /// Grows when positions lose their meaning.
    pub(super) generation: Cell<u64>,
    /// Grows when what readers go by (indexes, leader epochs) was corrected.
    pub(in crate::log) corrections: Cell<u64>,
    /// Ends what is being found out for them.
    pub(in crate::log) closed: Notify,
}

/// A reader, at the moment after it has read something.
#[derive(Clone, Copy)]
pub(super) struct Cursor {
    /// The offset after what was read.
    pub(super) next: Offset,
    /// Base offset of the segment.
    pub(super) base: Offset,
    /// Position in it.
    pub(super) position: u64,
    /// Bytes to be read ahead; grows while the reader reads on.
    pub(super) window: u64,
}

impl Readers {
    pub(in crate::log) fn forget(&self) {
        self.cursors.borrow_mut().clear();
        self.generation.set(self.generation.get() + 1);
    }

    /// The reader that comes back at `next`, in the segment that begins at `base`: also if that is where the one before ended.
    pub(super) fn take(&self, next: Offset, base: Offset) -> Option<Cursor> {
        let mut cursors = self.cursors.borrow_mut();
        let at = cursors
            .iter()
            .position(|cursor| cursor.next == next && (cursor.base == base || next == base))?;
        let cursor = cursors.remove(at)?;
        let position = if cursor.base == base {
            cursor.position
        } else {
            0
        };
        Some(Cursor {
            base,
            position,
            ..cursor
        })
    }

    pub(super) fn put(&self, cursor: Cursor) {
        let mut cursors = self.cursors.borrow_mut();
        if cursors.len() >= CURSORS_MAX {
            cursors.pop_front();
        }
        cursors.push_back(cursor);
        assert!(cursors.len() <= CURSORS_MAX, "the oldest goes");
    }
}
