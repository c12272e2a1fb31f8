//! Where sequential readers of a log will come back, and how far ahead of each it is worth reading.
//!
//! Invariant: at most `CURSORS_MAX` readers are remembered; the oldest is dropped first.
//! It does not: read ahead (`ahead.rs`).

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use platform::sync::Notify;
use wire::types::Offset;

/// Readers of a log whose position is remembered.
const CURSORS_MAX: usize = 64;

/// Where sequential readers will come back.
#[derive(Default)]
pub(in crate::log) struct Readers {
    /// The most recent one is last.
    // Bounded: `CURSORS_MAX`.
    cursors: RefCell<VecDeque<Cursor>>,
    /// Grows when positions become invalid.
    pub(super) generation: Cell<u64>,
    /// Grows when an index or the leader epochs were corrected.
    pub(in crate::log) corrections: Cell<u64>,
    /// Ends the corrections under way.
    pub(in crate::log) closed: Notify,
}

/// A reader right after it has read something.
#[derive(Clone, Copy)]
pub(super) struct Cursor {
    /// The offset after what was read.
    pub(super) next: Offset,
    /// Base offset of the segment.
    pub(super) base: Offset,
    /// Position in the segment.
    pub(super) position: u64,
    /// Bytes to be read ahead; it grows while the reader reads on.
    pub(super) window: u64,
}

impl Readers {
    pub(in crate::log) fn forget(&self) {
        self.cursors.borrow_mut().clear();
        self.generation.set(self.generation.get() + 1);
    }

    /// Takes the reader that comes back at `next`, in the segment that begins at `base`.
    ///
    /// That includes one that has read the segment before to its end.
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
