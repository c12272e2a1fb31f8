//! One segment of a log: a run of offsets in one data file with its indexes.
//!
//! States: *active* (the last one of its log, grows in memory first) -> *rolled* (no longer grows, may still have bytes to be
//! written) -> *sealed* (cut to its length, synced, indexes and producer snapshot saved) -> *deleted*.
//! Invariants: `synced <= written <= size`; bytes beyond `written` are resident in the tail; the indexes are loaded for
//! every segment that is not sealed, and lazily for those that are. A reader keeps a segment alive, also a deleted one.

#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        reason = "numbers of disks reach this: an index out of bounds ends the broker"
    )
)]

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use platform::Platform;
use platform::disk::{Disk, Open};
use wire::batch::{BatchHeader, HEADER_BYTES};
use wire::types::Offset;

use crate::error::{Error, Result};
use crate::log::indexes::Indexes;
use crate::log::time_index::TimeEntry;
use crate::log::txn_index::TxnIndex;
use crate::read_ahead::Blocks;
use crate::tier::table::Charge;

pub(crate) mod load;
pub mod naming;
pub(crate) mod scan;
pub(crate) mod stamps;
pub(crate) mod tail;
mod tried;

use naming::{Role, file_path};
use stamps::FileEnd;
use tail::Tail;
pub(crate) use tried::{Attempt, Tried};

/// The last position that an index can name; no segment of ours grows beyond.
pub(crate) const POSITION_MAX: u64 = i32::MAX as u64;

/// Why the indexes of a segment that is not sealed are there: only those of sealed ones are ever let go of.
pub(crate) const HAS_INDEXES: &str = "a segment that is not sealed has its indexes";

/// The files of platform `P`.
pub(crate) type File<P> = <<P as Platform>::Disk as Disk>::File;

/// What is in memory of a segment's indexes.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    /// Offsets and timestamps.
    pub(crate) indexes: Indexes,
    /// Aborted transactions.
    pub(crate) aborted: TxnIndex,
}

/// The largest timestamp of a segment, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Largest {
    /// Not read yet.
    Unknown,
    /// No record has a timestamp.
    None,
    /// This one.
    At(TimeEntry),
}

impl From<Option<TimeEntry>> for Largest {
    fn from(entry: Option<TimeEntry>) -> Self {
        entry.map_or(Self::None, Self::At)
    }
}

/// A segment.
pub(crate) struct Segment<P: Platform> {
    /// Offset of its first record, and its name.
    pub(crate) base: Offset,
    /// The folder that its files are in: the partition's home, or the one of the same name on another path.
    pub(crate) folder: Rc<Path>,
    /// When this process first saw it: its age when no record has a timestamp.
    pub(crate) born_ms: i64,
    /// Bytes of batches.
    pub(crate) size: Cell<u64>,
    /// Offset after the last record.
    pub(crate) next: Cell<Offset>,
    /// Bytes on disk, not necessarily durable.
    pub(crate) written: Cell<u64>,
    /// Bytes that are durable.
    pub(crate) synced: Cell<u64>,
    /// Length that the file has or has room for.
    pub(crate) allocated: Cell<u64>,
    /// Its data file has a name in the folder.
    pub(crate) named: Cell<bool>,
    /// No longer grows.
    pub(crate) rolled: Cell<bool>,
    /// Cut to its length, synced, its indexes saved.
    pub(crate) sealed: Cell<bool>,
    /// Timestamp of its first batch; rolling by time counts from it.
    pub(crate) first_timestamp: Cell<Option<i64>>,
    /// Its largest timestamp.
    pub(crate) largest: Cell<Largest>,
    /// The end of it in memory.
    pub(crate) tail: RefCell<Tail>,
    /// Pieces of its data file that were read ahead.
    pub(crate) blocks: RefCell<Blocks>,
    /// Its indexes. `None` only when sealed.
    pub(crate) loaded: RefCell<Option<Loaded>>,
    /// The first record of the aborted transactions that its index notes, once that was read; past every offset when it
    /// notes none. Unlike the index it stays in memory.
    pub(crate) first_aborted: Cell<Option<Offset>>,
    /// There is an index of its aborted transactions: one that is missing or empty was lost.
    pub(crate) notes_aborted: Cell<bool>,
    /// Building its indexes anew from the batches because a position in them was wrong.
    pub(crate) reindexed: Attempt,
    /// Asking its batches for their leader epochs, because one of them contradicts what is known.
    pub(crate) epochs_asked: Attempt,
    /// It was said that records are missing after it.
    pub(crate) holes_named: Cell<bool>,
    /// Compaction is putting another in its place: its names are not its own any more, so file and indexes stay with
    /// those who read it.
    pub(crate) replaced: Cell<bool>,
    /// Grows when bytes of it are cut off: what was read of it before may be gone.
    pub(crate) cuts: Cell<u32>,
    /// Why it is not to be read: its path is absent, or it was found damaged.
    pub(crate) offline: RefCell<Option<Error>>,
    /// Nothing of it is known but that it is somewhere else, on a path that is absent.
    pub(crate) absent: Cell<bool>,
    /// What it takes of its tier's path, with tiers.
    pub(crate) charge: Option<Charge>,
    /// When it came to its folder.
    pub(crate) arrived_ms: i64,
    /// When it was last read from its medium, with tiers.
    pub(crate) read_ms: Cell<Option<i64>>,
    /// When it was sealed, as far as this process knows.
    pub(crate) sealed_ms: Cell<i64>,
    /// A copy of it is being made on another path.
    pub(crate) moving: Cell<bool>,
    /// Its data file. `None` for a sealed one that is not read, and for a new one that has no name yet.
    file: RefCell<Option<File<P>>>,
}

impl<P: Platform> Segment<P> {
    /// A segment that begins at `base` and of which nothing is on disk.
    pub(crate) fn fresh(folder: Rc<Path>, base: Offset, loaded: Loaded, now_ms: i64) -> Self {
        Self::stored(folder, base, base, 0, Some(loaded), now_ms)
    }

    /// A segment of which `size` bytes are on disk, up to the offset `next`.
    pub(crate) fn stored(
        folder: Rc<Path>,
        base: Offset,
        next: Offset,
        size: u64,
        loaded: Option<Loaded>,
        now_ms: i64,
    ) -> Self {
        let largest = match &loaded {
            Some(loaded) => loaded.indexes.largest_timestamp().into(),
            None => Largest::Unknown,
        };
        Self {
            base,
            folder,
            born_ms: now_ms,
            size: Cell::new(size),
            next: Cell::new(next),
            written: Cell::new(size),
            synced: Cell::new(size),
            allocated: Cell::new(size),
            named: Cell::new(false),
            rolled: Cell::new(false),
            sealed: Cell::new(false),
            first_timestamp: Cell::new(None),
            largest: Cell::new(largest),
            tail: RefCell::new(Tail::absent(size)),
            blocks: RefCell::default(),
            loaded: RefCell::new(loaded),
            first_aborted: Cell::new(None),
            notes_aborted: Cell::new(false),
            reindexed: Attempt::default(),
            epochs_asked: Attempt::default(),
            holes_named: Cell::new(false),
            replaced: Cell::new(false),
            cuts: Cell::new(0),
            offline: RefCell::new(None),
            absent: Cell::new(false),
            charge: None,
            arrived_ms: now_ms,
            read_ms: Cell::new(None),
            sealed_ms: Cell::new(now_ms),
            moving: Cell::new(false),
            file: RefCell::new(None),
        }
    }

    /// Has it counted on its tier's path.
    pub(crate) fn charged(mut self, charge: Option<Charge>) -> Self {
        self.charge = charge;
        self
    }

    /// Where its file ends, if that is at `position`.
    pub(crate) fn file_end(&self, position: u64) -> FileEnd {
        let next = self.next.get();
        FileEnd {
            position,
            next: (position >= self.size.get()).then_some(next),
            bound: next,
        }
    }

    /// Why it is not to be read, if so.
    pub(crate) fn offline(&self) -> Option<Error> {
        self.offline.borrow().clone()
    }

    /// Brings what it is counted with up to date.
    pub(crate) fn recharge(&self) {
        if let Some(charge) = &self.charge {
            charge.set(self.allocated.get().max(self.size.get()));
        }
    }

    /// True when its path has nothing left: what comes next goes elsewhere.
    pub(crate) fn is_out_of_room(&self) -> bool {
        let charge = self.charge.as_ref();
        charge.is_some_and(|charge| charge.path().free_bytes() == 0)
    }

    /// Says that it is not to be read any more; the first reason stays.
    pub(crate) fn take_offline(&self, reason: &str) {
        let path = self.path(Role::Log);
        let reason = reason.into();
        self.offline
            .borrow_mut()
            .get_or_insert(Error::Offline { path, reason });
    }

    /// The path of one of its files.
    pub(crate) fn path(&self, role: Role) -> PathBuf {
        file_path(&self.folder, self.base, role)
    }

    /// Its data file, if it is open.
    pub(crate) fn open_file(&self) -> Option<File<P>> {
        self.file.borrow().clone()
    }

    /// Gives it its data file.
    pub(crate) fn set_file(&self, file: File<P>) {
        *self.file.borrow_mut() = Some(file);
    }

    /// Lets go of the data file; it is opened again when it is needed.
    pub(crate) fn close_file(&self) {
        *self.file.borrow_mut() = None;
    }

    /// Its data file, opened if it is not open.
    pub(crate) async fn file(&self, disk: &P::Disk) -> Result<File<P>> {
        if let Some(file) = self.open_file() {
            return Ok(file);
        }
        if self.absent.get() {
            return Err(self.offline().unwrap_or(Error::Closed));
        }
        let path = self.path(Role::Log);
        loop {
            let sealed = self.sealed.get();
            let how = if sealed { Open::Read } else { Open::Write };
            let file = disk
                .open(&path, how)
                .await
                .map_err(Error::io("open", &path))?;
            if let Some(faster) = self.open_file() {
                // The name may have become another file's meanwhile.
                return Ok(faster);
            }
            if sealed && !self.sealed.get() {
                // A cut has made it the one that grows, and would write to what was opened for a reader.
                continue;
            }
            self.set_file(file.clone());
            return Ok(file);
        }
    }

    /// Lets go of a sealed segment's file; its indexes stay.
    pub(crate) fn close_if_sealed(&self) {
        if self.sealed.get() && !self.replaced.get() {
            *self.file.borrow_mut() = None;
        }
    }

    /// Forgets file and indexes of a sealed segment; they are read again when they are needed.
    pub(crate) fn unload(&self) {
        if self.sealed.get() && !self.replaced.get() {
            *self.file.borrow_mut() = None;
            *self.loaded.borrow_mut() = None;
            // What is read again is what was wrong, where the new one could not be saved.
            self.reindexed.forget_what_is_for_now();
        }
    }

    /// Takes note of a batch that begins at `position` and now belongs to the segment.
    pub(crate) fn note(&self, header: &BatchHeader, position: u64) {
        assert!(
            !self.rolled.get() && !self.sealed.get(),
            "only the active segment grows"
        );
        assert_eq!(
            position,
            self.size.get(),
            "a batch begins where the last one ends"
        );
        assert!(header.base_offset >= self.next.get(), "offsets ascend");
        assert!(
            position <= POSITION_MAX,
            "a segment is rolled before it outgrows what an index can say"
        );
        {
            let mut loaded = self.loaded.borrow_mut();
            let loaded = loaded.as_mut().expect(HAS_INDEXES);
            loaded.indexes.append(header, position);
            self.largest.set(loaded.indexes.largest_timestamp().into());
        }
        if self.first_timestamp.get().is_none() && header.max_timestamp.0 >= 0 {
            self.first_timestamp.set(Some(header.max_timestamp.0));
        }
        self.size.set(position + header.size_bytes as u64);
        self.next.set(header.next_offset());
        assert!(
            self.size.get() <= self.tail.borrow().end(),
            "the bytes of a batch are in memory before it is noted"
        );
    }

    /// Ends it: the next segment begins at `next`.
    pub(crate) fn roll(&self, next: Offset) {
        self.seal_indexes();
        self.next.set(next);
        self.rolled.set(true);
    }

    /// Gives the time index its last entry. A sealed one has it, whether it is loaded or not.
    pub(crate) fn seal_indexes(&self) {
        match self.loaded.borrow_mut().as_mut() {
            Some(loaded) => loaded.indexes.seal(),
            None => assert!(self.sealed.get(), "{HAS_INDEXES}"),
        }
    }

    /// The header of the batch at `position`, when it is resident.
    pub(crate) fn resident_header(&self, position: u64) -> Option<BatchHeader> {
        let mut bytes = [0; HEADER_BYTES];
        if !self.tail.borrow().copy_at(position, &mut bytes) {
            return None;
        }
        BatchHeader::parse(&bytes)
    }

    /// True when bytes are waiting to be written.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.written.get() < self.size.get()
    }
}
