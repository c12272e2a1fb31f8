//! How far a log has come: what may be read, and what was appended, written, synced and committed.
//!
//! Invariants: `recovery point <= durable <= written <= log end`;
//! `log start <= high watermark <= log end`. Only a truncation lowers one of them. It does not:
//! decide which listeners are notified.

use std::cell::Cell;

use wire::types::Offset;

/// The offsets of a log; see the module's documentation.
pub(in crate::log) struct LogOffsets {
    start: Cell<Offset>,
    end: Cell<Offset>,
    written: Cell<Offset>,
    durable: Cell<Offset>,
    high_watermark: Cell<Offset>,
    /// Everything below is durable in sealed segments, or indexed and covered by a producer
    /// snapshot.
    recovery_point: Cell<Offset>,
}

impl LogOffsets {
    /// Takes the offsets of a log that was found: all that is there is durable.
    pub(super) fn new(start: Offset, end: Offset, recovery_point: Offset) -> Self {
        assert!(
            start <= end && recovery_point <= end,
            "a log that was found begins and is known within it"
        );
        Self {
            start: Cell::new(start),
            end: Cell::new(end),
            written: Cell::new(end),
            durable: Cell::new(end),
            high_watermark: Cell::new(start),
            recovery_point: Cell::new(recovery_point),
        }
    }

    pub(super) fn start(&self) -> Offset {
        self.start.get()
    }

    pub(super) fn end(&self) -> Offset {
        self.end.get()
    }

    pub(super) fn written(&self) -> Offset {
        self.written.get()
    }

    pub(super) fn durable(&self) -> Offset {
        self.durable.get()
    }

    pub(super) fn high_watermark(&self) -> Offset {
        self.high_watermark.get()
    }

    pub(super) fn recovery_point(&self) -> Offset {
        self.recovery_point.get()
    }

    /// Notes a batch that ends at `next`; returns the log end before it.
    pub(super) fn appended(&self, next: Offset) -> Offset {
        assert!(next > self.end.get(), "a batch has a record");
        self.end.replace(next)
    }

    /// Raises the log start: nothing below `to` may be read any more.
    pub(super) fn advance_start(&self, to: Offset) {
        assert!(to > self.start.get(), "what is deleted stays deleted");
        self.start.set(to);
    }

    /// Returns true when it advanced.
    pub(super) fn advance_high_watermark(&self, to: Offset) -> bool {
        to > self.high_watermark.replace(to)
    }

    /// Returns true when it advanced.
    pub(super) fn advance_written(&self, to: Offset) -> bool {
        assert!(to <= self.end.get(), "only what was appended is written");
        to > self.written.replace(to.max(self.written.get()))
    }

    pub(super) fn advance_durable(&self, to: Offset) {
        assert!(to <= self.written.get(), "only what was written is synced");
        self.durable.set(to.max(self.durable.get()));
    }

    /// Raises the recovery point: everything below `to` is durable, and a start need not read it
    /// again.
    pub(super) fn advance_recovery_point(&self, to: Offset) {
        assert!(
            to <= self.durable.get(),
            "only what is durable is not read again"
        );
        self.recovery_point.set(to.max(self.recovery_point.get()));
    }

    /// Lowers the offsets to `end`; returns the start and the recovery point before.
    pub(super) fn cut_to(&self, end: Offset) -> (Offset, Offset) {
        assert!(end <= self.end.get(), "a cut makes nothing longer");
        self.end.set(end);
        self.written.set(end);
        self.durable.set(end);
        let start = self.start.replace(end.min(self.start.get()));
        self.high_watermark.set(self.high_watermark.get().min(end));
        let recovery_point = end.min(self.recovery_point.get());
        (start, self.recovery_point.replace(recovery_point))
    }

    /// Begins the log again at `offset`; returns the start and the recovery point before.
    pub(super) fn restart_at(&self, offset: Offset) -> (Offset, Offset) {
        let start = self.start.replace(offset);
        let recovery_point = self.recovery_point.replace(offset);
        for cell in [&self.end, &self.written, &self.durable] {
            cell.set(offset);
        }
        self.high_watermark.set(offset);
        (start, recovery_point)
    }
}
