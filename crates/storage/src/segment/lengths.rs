//! How much of a segment's data file is where.
//!
//! Invariant: `synced <= written <= size`, and `written <= allocated`. Only these functions change them, and each ends the
//! process before it breaks that.

use std::cell::Cell;

pub(super) struct Lengths {
    /// Bytes of batches.
    size: Cell<u64>,
    /// Bytes on disk, not necessarily durable.
    written: Cell<u64>,
    /// Bytes that are durable.
    synced: Cell<u64>,
    /// Length that the file has or has room for.
    allocated: Cell<u64>,
}

impl Lengths {
    /// Those of a file of `size` bytes, all durable.
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

    /// `bytes` more were appended.
    pub(super) fn grow(&self, bytes: u64) {
        self.size.set(self.size.get() + bytes);
    }

    /// Everything up to `upto` is on the disk, where there is room up to `room` now.
    pub(super) fn wrote(&self, upto: u64, room: u64) {
        assert!(
            self.written.get() <= upto && upto <= self.size.get(),
            "who may write is alone: nothing is cut during a write"
        );
        self.has_room(room);
        assert!(upto <= self.allocated.get(), "what is written has its room");
        self.written.set(upto);
    }

    /// Everything up to `upto` is durable.
    pub(super) fn synced_upto(&self, upto: u64) {
        assert!(
            self.synced.get() <= upto && upto <= self.written.get(),
            "who may write is alone: nothing is cut during a sync"
        );
        self.synced.set(upto);
    }

    /// There is room up to `upto`, at least.
    pub(super) fn has_room(&self, upto: u64) {
        self.allocated.set(upto.max(self.allocated.get()));
    }

    /// The file is as long as its batches.
    pub(super) fn cut_to_length(&self) {
        let size = self.size.get();
        assert_eq!(
            self.written.get(),
            size,
            "a file is cut to what was written"
        );
        self.allocated.set(size);
    }

    /// What was not written belongs to another.
    pub(super) fn end_where_written(&self) {
        self.size.set(self.written.get());
    }

    /// The file was cut, durably.
    pub(super) fn cut_back(&self, size: u64) {
        assert!(size <= self.size.get(), "a cut makes nothing longer");
        self.settle(size);
    }

    /// So much of the file was found good.
    pub(super) fn settle(&self, size: u64) {
        for length in [&self.size, &self.written, &self.synced, &self.allocated] {
            length.set(size);
        }
    }
}
