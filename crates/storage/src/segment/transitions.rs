//! The state changes of a segment: every change but its growth (`tail.rs`) is one of these
//! functions, and each asserts its preconditions.
//!
//! None of them does I/O: the caller has done it or will do it.

use bytes::Bytes;
use platform::Platform;
use wire::types::Offset;

use super::stage::{Names, Stage};
use super::tail::Tail;
use super::{File, HAS_INDEXES, LoadedIndexes, Segment};
use crate::log::txn_index::AbortedTxn;

impl<P: Platform> Segment<P> {
    /// Adds a transaction whose abort marker was appended.
    pub(crate) fn note_abort(&self, txn: AbortedTxn) {
        let mut loaded = self.loaded.borrow_mut();
        loaded.as_mut().expect(HAS_INDEXES).aborted.append(txn);
        self.first_aborted.set(None);
    }

    /// Rolls the segment: the next one begins at `next`.
    ///
    /// A segment that a start takes as sealed, because its path takes no changes, stays sealed.
    pub(crate) fn roll(&self, next: Offset) {
        self.seal_indexes();
        self.next.set(next);
        if self.is_active() {
            self.stage.set(Stage::Rolled);
        }
    }

    /// Adds the last entry to the time index.
    ///
    /// A sealed segment already has it, whether the index is loaded or not.
    pub(crate) fn seal_indexes(&self) {
        match self.loaded.borrow_mut().as_mut() {
            Some(loaded) => loaded.indexes.seal(),
            None => assert!(self.is_sealed(), "{HAS_INDEXES}"),
        }
    }

    /// Seals the segment: its file has its length and is durable, and its indexes are saved.
    pub(crate) fn seal(&self, now_ms: i64) {
        assert_eq!(self.stage(), Stage::Rolled, "what is sealed grows no more");
        assert!(self.is_named(), "what is sealed has a file");
        let size = self.size();
        assert!(
            self.written() == size && self.synced() == size,
            "what is sealed is durable"
        );
        self.stage.set(Stage::Sealed);
        self.sealed_ms.set(now_ms);
    }

    /// Takes the segment as sealed, because a start trusts its files or may only read them.
    pub(crate) fn trust(&self) {
        self.stage.set(Stage::Sealed);
    }

    /// Makes the segment active again, to grow or to be truncated; its indexes are loaded.
    ///
    /// The next access opens its file for writing.
    pub(crate) fn reopen(&self) {
        self.cuts.set(self.cuts.get() + 1);
        self.stage.set(Stage::Active);
        self.close_file();
    }

    /// Notes a durable truncation of the file to `position` and of the records to `end`.
    ///
    /// `partial` is the last partial block.
    pub(crate) fn cut_back(&self, position: u64, end: Offset, partial: Bytes) {
        assert!(self.is_active(), "who cuts has reopened it");
        assert!(self.base <= end, "it ends behind its base");
        *self.tail.borrow_mut() = Tail::at(position, partial);
        self.lengths.cut_back(position);
        self.next.set(end);
        if position == 0 {
            self.first_timestamp.set(None);
        }
    }

    /// Notes that a start has found `size` valid bytes, with the records before `next`.
    pub(crate) fn settle(&self, size: u64, next: Offset, loaded: LoadedIndexes) {
        self.lengths.settle(size);
        *self.tail.borrow_mut() = Tail::absent(size);
        self.next.set(next);
        self.replace_indexes(loaded);
    }

    /// Restores the last partial block, because a start continues to append to the segment.
    pub(crate) fn give_end(&self, partial: Bytes) {
        assert!(self.is_active(), "only the active segment grows");
        *self.tail.borrow_mut() = Tail::at(self.size(), partial);
    }

    /// Notes that the file has its name, and room up to `room`.
    pub(crate) fn name(&self, file: File<P>, room: u64) {
        assert_eq!(self.names.get(), Names::None, "it is named once");
        assert_eq!(
            self.written(),
            0,
            "nothing is written to a file without a name"
        );
        self.lengths.has_room(room);
        self.names.set(Names::Own);
        self.set_file(file);
    }

    /// Notes that everything up to `upto` is on the disk, and that the file has room up to `room`.
    pub(crate) fn wrote(&self, upto: u64, room: u64) {
        self.lengths.wrote(upto, room);
        self.recharge();
    }

    /// Notes that everything up to `upto` is durable.
    pub(crate) fn synced_upto(&self, upto: u64) {
        self.lengths.synced_upto(upto);
    }

    /// Notes that the file has room at least up to `upto`.
    pub(crate) fn has_room(&self, upto: u64) {
        self.lengths.has_room(upto);
        self.recharge();
    }

    /// Notes that the file is as long as its batches.
    pub(crate) fn was_cut_to_length(&self) {
        self.lengths.cut_to_length();
        self.recharge();
    }

    /// Lends the names to a segment that is put in its place; current readers keep file and
    /// indexes.
    pub(crate) fn lend_names(&self) {
        assert!(
            self.is_sealed(),
            "only the names of sealed segments are lent"
        );
        let before = self.names.replace(Names::Lent);
        assert_eq!(before, Names::Own, "names are lent once");
    }

    /// Takes the names back after the replacement failed.
    pub(crate) fn names_back(&self) {
        let before = self.names.replace(Names::Own);
        assert_eq!(before, Names::Lent, "what comes back was lent");
    }

    /// Notes that a copy of it is being made on another path.
    pub(crate) fn begin_move(&self) {
        assert!(!self.moving.replace(true), "one move at a time");
    }

    /// Notes that the copy has ended.
    pub(crate) fn end_move(&self) {
        assert!(self.moving.replace(false), "one move at a time");
    }

    /// Sets the indexes after they were read.
    pub(crate) fn set_indexes(&self, loaded: LoadedIndexes) {
        let before = self.loaded().is_some();
        assert!(!before, "those that are here are newer");
        self.replace_indexes(loaded);
    }

    /// Replaces the indexes after they were rebuilt.
    pub(crate) fn replace_indexes(&self, loaded: LoadedIndexes) {
        self.largest.set(loaded.indexes.largest_timestamp().into());
        *self.loaded.borrow_mut() = Some(loaded);
    }

    /// Restores the indexes if they were unloaded.
    pub(crate) fn keep_indexes(&self, loaded: LoadedIndexes) {
        self.loaded.borrow_mut().get_or_insert(loaded);
    }

    /// Evicts the oldest chunk of the tail if it is written; returns whether it did.
    pub(crate) fn evict_front(&self) -> bool {
        self.tail.borrow_mut().evict_front(self.written())
    }
}
