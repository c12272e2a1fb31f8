//! Where sequential readers of a log will come back, and what was read ahead for them.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;
use wire::types::Offset;

/// Readers whose position is remembered, for each log.
const CURSORS_MAX: usize = 8;
/// Where sequential readers will come back.
#[derive(Default)]
pub(in crate::log) struct Readers {
    /// The most recent last.
    cursors: RefCell<VecDeque<Cursor>>,
    /// Grows when positions lose their meaning.
    pub(super) generation: Cell<u64>,
}

pub(super) struct Cursor {
    /// The offset after what was read.
    pub(super) next: Offset,
    /// Base offset of the segment.
    pub(super) base: Offset,
    /// Position in it.
    pub(super) position: u64,
    pub(super) ahead: Ahead,
}

/// Bytes that follow a cursor, not checked yet; counted as long as they are kept.
#[derive(Default)]
pub(super) struct Ahead {
    pub(super) bytes: Bytes,
    counted: Option<Rc<Cell<usize>>>,
}

impl Ahead {
    pub(super) fn new(bytes: Bytes, counter: &Rc<Cell<usize>>) -> Self {
        counter.set(counter.get() + bytes.len());
        Self {
            bytes,
            counted: Some(Rc::clone(counter)),
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        if let Some(counter) = &self.counted {
            counter.set(counter.get().saturating_sub(self.bytes.len()));
        }
    }
}

impl Readers {
    pub(in crate::log) fn forget(&self) {
        self.cursors.borrow_mut().clear();
        self.generation.set(self.generation.get() + 1);
    }

    pub(super) fn take(&self, next: Offset, base: Offset) -> Option<Cursor> {
        let mut cursors = self.cursors.borrow_mut();
        let at = cursors
            .iter()
            .position(|cursor| cursor.next == next && cursor.base == base)?;
        cursors.remove(at)
    }

    pub(super) fn put(&self, cursor: Cursor) {
        let mut cursors = self.cursors.borrow_mut();
        if cursors.len() >= CURSORS_MAX {
            cursors.pop_front();
        }
        cursors.push_back(cursor);
    }
}
