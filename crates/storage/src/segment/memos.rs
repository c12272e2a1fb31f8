//! Facts about a segment that are remembered so that they need not be read or logged again.

use platform::Platform;
use wire::types::Offset;

use super::{LargestTimestamp, Segment};

impl<P: Platform> Segment<P> {
    /// Returns the timestamp of its first batch, from which rolling by time counts.
    pub(crate) fn first_timestamp(&self) -> Option<i64> {
        self.first_timestamp.get()
    }

    /// Notes the timestamp of a batch; the first valid timestamp stays.
    pub(crate) fn note_first_timestamp(&self, timestamp: i64) {
        if self.first_timestamp.get().is_none() && timestamp >= 0 {
            self.first_timestamp.set(Some(timestamp));
        }
    }

    /// Sets the timestamp of the first batch after it was read.
    pub(crate) fn remember_first_timestamp(&self, timestamp: Option<i64>) {
        self.first_timestamp.set(timestamp);
    }

    /// Returns the largest timestamp.
    pub(crate) fn largest(&self) -> LargestTimestamp {
        self.largest.get()
    }

    /// Returns the first record of the aborted transactions in its index, once the index was read.
    pub(crate) fn first_aborted(&self) -> Option<Offset> {
        self.first_aborted.get()
    }

    /// Sets the first aborted record after the index was read; no entries are added any more.
    pub(crate) fn remember_first_aborted(&self, first: Offset) {
        self.first_aborted.set(Some(first));
    }

    /// Returns true when the segment has an index of aborted transactions.
    pub(crate) fn notes_aborted(&self) -> bool {
        self.notes_aborted.get()
    }

    /// Sets whether the segment has such an index; this is also recorded on disk.
    pub(crate) fn set_notes_aborted(&self, notes: bool) {
        self.notes_aborted.set(notes);
    }

    /// Returns true the first time, so that missing records after it are logged once.
    pub(crate) fn name_hole(&self) -> bool {
        !self.holes_named.replace(true)
    }

    /// Returns when it was last read from its medium, if tiers are configured.
    pub(crate) fn read_ms(&self) -> Option<i64> {
        self.read_ms.get()
    }

    /// Notes that it is read from its medium.
    pub(crate) fn was_read(&self, now_ms: i64) {
        self.read_ms.set(Some(now_ms));
    }

    /// Returns when it was sealed, as far as this process knows.
    pub(crate) fn sealed_ms(&self) -> i64 {
        self.sealed_ms.get()
    }
}
