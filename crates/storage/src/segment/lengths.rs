//! How much of a segment's data file is appended, written, synced and allocated.
//!
//! Invariant: `synced <= written <= size`, and `written <= allocated`. Only these functions change
//! the lengths, and each ends the process before it breaks the invariant.

use std::cell::Cell;

pub(super) struct Lengths {
    /// Bytes of batches.
    size: Cell<u64>,
    /// Bytes on disk, which need not be durable.
    written: Cell<u64>,
    /// Durable bytes.
    synced: Cell<u64>,
    /// The length that the file has or has room for.
    allocated: Cell<u64>,
}

impl Lengths {
    /// Returns the lengths of a file of `size` bytes, all durable.
    pub(super) fn of(size: u64) -> Self {
        Self {
            size: Cell::new(size),
            written: Cell::new(size),
            synced: Cell::new(size),
            allocated: Cell::new(size),
        }
    }

    pub(super) fn size(&self) -> u64 {
        self.size.get()
    }

    pub(super) fn written(&self) -> u64 {
        self.written.get()
    }

    pub(super) fn synced(&self) -> u64 {
        self.synced.get()
    }

    pub(super) fn allocated(&self) -> u64 {
        self.allocated.get()
    }

    /// Adds `bytes` that were appended.
    pub(super) fn grow(&self, bytes: u64) {
        self.size.set(self.size.get() + bytes);
    }

    /// Notes that everything up to `upto` is on the disk, and that the file has room up to `room`.
    pub(super) fn wrote(&self, upto: u64, room: u64) {
        assert!(
            self.written.get() <= upto && upto <= self.size.get(),
            "who may write is alone: nothing is cut during a write"
        );
        self.has_room(room);
        assert!(upto <= self.allocated.get(), "what is written has its room");
        self.written.set(upto);
    }

    /// Notes that everything up to `upto` is durable.
    pub(super) fn synced_upto(&self, upto: u64) {
        assert!(
            self.synced.get() <= upto && upto <= self.written.get(),
            "who may write is alone: nothing is cut during a sync"
        );
        self.synced.set(upto);
    }

    /// Notes that the file has room at least up to `upto`.
    pub(super) fn has_room(&self, upto: u64) {
        self.allocated.set(upto.max(self.allocated.get()));
    }

    /// Notes that the file is as long as its batches.
    pub(super) fn cut_to_length(&self) {
        let size = self.size.get();
        assert_eq!(
            self.written.get(),
            size,
            "a file is cut to what was written"
        );
        self.allocated.set(size);
    }

    /// Gives up the unwritten bytes, which now belong to another segment.
    pub(super) fn end_where_written(&self) {
        self.size.set(self.written.get());
    }

    /// Notes that the file was truncated, durably.
    pub(super) fn cut_back(&self, size: u64) {
        assert!(size <= self.size.get(), "a cut makes nothing longer");
        self.settle(size);
    }

    /// Sets all lengths to `size`, the valid part of the file.
    pub(super) fn settle(&self, size: u64) {
        for length in [&self.size, &self.written, &self.synced, &self.allocated] {
            length.set(size);
        }
    }
}
