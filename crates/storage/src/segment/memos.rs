//! What is remembered of a segment so that it need not be read again, and what was said of it once.

use platform::Platform;
use wire::types::Offset;

use super::{Largest, Segment};

impl<P: Platform> Segment<P> {
    /// Timestamp of its first batch; rolling by time counts from it.
    pub(crate) fn first_timestamp(&self) -> Option<i64> {
        self.first_timestamp.get()
    }

    /// The timestamp of a batch: that of the first one that has any stays.
    pub(crate) fn note_first_timestamp(&self, timestamp: i64) {
        if self.first_timestamp.get().is_none() && timestamp >= 0 {
            self.first_timestamp.set(Some(timestamp));
        }
    }

    /// The timestamp of its first batch was read.
    pub(crate) fn remember_first_timestamp(&self, timestamp: Option<i64>) {
        self.first_timestamp.set(timestamp);
    }

    /// Its largest timestamp.
    pub(crate) fn largest(&self) -> Largest {
        self.largest.get()
    }

    /// The first record of the aborted transactions that its index notes, once that was read.
    pub(crate) fn first_aborted(&self) -> Option<Offset> {
        self.first_aborted.get()
    }

    /// It was read, and nothing is added any more.
    pub(crate) fn remember_first_aborted(&self, first: Offset) {
        self.first_aborted.set(Some(first));
    }

    /// There is an index of its aborted transactions.
    pub(crate) fn notes_aborted(&self) -> bool {
        self.notes_aborted.get()
    }

    /// Says whether there is; that is noted on the disk.
    pub(crate) fn set_notes_aborted(&self, notes: bool) {
        self.notes_aborted.set(notes);
    }

    /// True the first time: that records are missing after it is said once.
    pub(crate) fn name_hole(&self) -> bool {
        !self.holes_named.replace(true)
    }

    /// When it was last read from its medium, with tiers.
    pub(crate) fn read_ms(&self) -> Option<i64> {
        self.read_ms.get()
    }

    /// It is read from its medium.
    pub(crate) fn was_read(&self, now_ms: i64) {
        self.read_ms.set(Some(now_ms));
    }

    /// When it was sealed, as far as this process knows.
    pub(crate) fn sealed_ms(&self) -> i64 {
        self.sealed_ms.get()
    }
}
