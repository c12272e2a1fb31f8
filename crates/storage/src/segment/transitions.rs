//! How a segment changes: everything that happens to one is one of these, and each says what must hold before.
//!
//! Nothing here does I/O: the caller has done it, or will.

use bytes::Bytes;
use platform::Platform;
use platform::buf::Chunk;
use wire::batch::{BatchHeader, HEADER_BYTES};
use wire::types::Offset;

use super::stage::{Names, Stage};
use super::tail::Tail;
use super::{File, HAS_INDEXES, Loaded, POSITION_MAX, Segment};
use crate::log::txn_index::AbortedTxn;

impl<P: Platform> Segment<P> {
    /// Appends a batch, whose header says what is in the fixed part. There are chunks enough.
    pub(crate) fn take(
        &self,
        header: &BatchHeader,
        (fixed, body): (&[u8; HEADER_BYTES], &[u8]),
        chunks: &mut impl Iterator<Item = Chunk>,
    ) {
        let mut tail = self.tail.borrow_mut();
        tail.append(fixed, chunks);
        tail.append(body, chunks);
        drop(tail);
        self.note(header);
    }

    /// Takes note of the batch behind the last one, whose bytes are in the tail.
    pub(super) fn note(&self, header: &BatchHeader) {
        let position = self.size();
        assert!(self.is_active(), "only the active segment grows");
        assert!(header.base_offset >= self.next(), "offsets ascend");
        assert!(
            position <= POSITION_MAX,
            "a segment is rolled before it outgrows what an index can say"
        );
        let mut loaded = self.loaded.borrow_mut();
        let indexes = &mut loaded.as_mut().expect(HAS_INDEXES).indexes;
        indexes.append(header, position);
        self.largest.set(indexes.largest_timestamp().into());
        drop(loaded);
        self.note_first_timestamp(header.max_timestamp.0);
        self.lengths.grow(header.size_bytes as u64);
        self.next.set(header.next_offset());
        assert!(
            self.size() <= self.tail().end(),
            "the bytes of a batch are in memory before it is noted"
        );
    }

    /// Notes a transaction whose abort marker was appended.
    pub(crate) fn note_abort(&self, txn: AbortedTxn) {
        let mut loaded = self.loaded.borrow_mut();
        loaded.as_mut().expect(HAS_INDEXES).aborted.append(txn);
        self.first_aborted.set(None);
    }

    /// Ends it: the next segment begins at `next`. One that a start takes for sealed, because its path takes no changes, stays
    /// so.
    pub(crate) fn roll(&self, next: Offset) {
        self.seal_indexes();
        self.next.set(next);
        if self.is_active() {
            self.stage.set(Stage::Rolled);
        }
    }

    /// Gives the time index its last entry. A sealed one has it, whether it is loaded or not.
    pub(crate) fn seal_indexes(&self) {
        match self.loaded.borrow_mut().as_mut() {
            Some(loaded) => loaded.indexes.seal(),
            None => assert!(self.is_sealed(), "{HAS_INDEXES}"),
        }
    }

    /// Its file has its length and is durable, its indexes are saved.
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

    /// A start trusts it as it is, or can but read it.
    pub(crate) fn trust(&self) {
        self.stage.set(Stage::Sealed);
    }

    /// It is to grow again, or to be cut: what reads it from now on opens its file for writing. Its indexes are loaded.
    pub(crate) fn reopen(&self) {
        self.cuts.set(self.cuts.get() + 1);
        self.stage.set(Stage::Active);
        self.close_file();
    }

    /// Its file ends at `position`, durably, and its records before `end`; `partial` is its last partial block.
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

    /// A start has found `size` good bytes in it, with the records before `next`.
    pub(crate) fn settle(&self, size: u64, next: Offset, loaded: Loaded) {
        self.lengths.settle(size);
        *self.tail.borrow_mut() = Tail::absent(size);
        self.next.set(next);
        self.replace_indexes(loaded);
    }

    /// A start goes on in it: the last partial block is needed again.
    pub(crate) fn give_end(&self, partial: Bytes) {
        assert!(self.is_active(), "only the active segment grows");
        *self.tail.borrow_mut() = Tail::at(self.size(), partial);
    }

    /// Its file has its name, and room up to `room`.
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

    /// Everything up to `upto` is on the disk, where there is room up to `room` now.
    pub(crate) fn wrote(&self, upto: u64, room: u64) {
        self.lengths.wrote(upto, room);
        self.recharge();
    }

    /// Everything up to `upto` is durable.
    pub(crate) fn synced_upto(&self, upto: u64) {
        self.lengths.synced_upto(upto);
    }

    /// There is room up to `upto`, at least.
    pub(crate) fn has_room(&self, upto: u64) {
        self.lengths.has_room(upto);
        self.recharge();
    }

    /// Its file is as long as its batches.
    pub(crate) fn was_cut_to_length(&self) {
        self.lengths.cut_to_length();
        self.recharge();
    }

    /// Another is put in its place: whoever reads it keeps file and indexes.
    pub(crate) fn lend_names(&self) {
        assert!(
            self.is_sealed(),
            "only the names of sealed segments are lent"
        );
        let before = self.names.replace(Names::Lent);
        assert_eq!(before, Names::Own, "names are lent once");
    }

    /// That came to nothing.
    pub(crate) fn names_back(&self) {
        let before = self.names.replace(Names::Own);
        assert_eq!(before, Names::Lent, "what comes back was lent");
    }

    /// A copy of it is being made on another path.
    pub(crate) fn begin_move(&self) {
        assert!(!self.moving.replace(true), "one move at a time");
    }

    /// No more.
    pub(crate) fn end_move(&self) {
        assert!(self.moving.replace(false), "one move at a time");
    }

    /// Its indexes were read.
    pub(crate) fn set_indexes(&self, loaded: Loaded) {
        let before = self.loaded().is_some();
        assert!(!before, "those that are here are newer");
        self.replace_indexes(loaded);
    }

    /// Its indexes were made anew.
    pub(crate) fn replace_indexes(&self, loaded: Loaded) {
        self.largest.set(loaded.indexes.largest_timestamp().into());
        *self.loaded.borrow_mut() = Some(loaded);
    }

    /// Has its indexes again, if it was made to let go of them.
    pub(crate) fn keep_indexes(&self, loaded: Loaded) {
        self.loaded.borrow_mut().get_or_insert(loaded);
    }

    /// Lets go of the oldest chunk of its tail if that is written; says whether it did.
    pub(crate) fn evict_front(&self) -> bool {
        self.tail.borrow_mut().evict_front(self.written())
    }
}
