//! One segment of a log: a run of offsets in one data file with its indexes.
//!
//! States: *active* (the last one of its log, grows in memory first) -> *rolled* (no longer grows, may still have bytes to be
//! written) -> *sealed* (cut to its length, synced, indexes and producer snapshot saved) -> *deleted*.
//! Each change is a function of `transitions.rs`, and each length one of `lengths.rs`; they end the process rather than break these
//! invariants: `synced <= written <= size`; bytes beyond `written` are resident in the tail; the indexes are loaded for
//! every segment that is not sealed, and lazily for those that are. A reader keeps a segment alive, also a deleted one.

#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        reason = "numbers of disks reach this: an index out of bounds ends the broker"
    )
)]

use std::cell::{Cell, Ref, RefCell};
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
use crate::tier::table::Charge;

pub(crate) mod block;
pub(crate) mod blocks;
mod constructors;
mod lengths;
pub(crate) mod load;
mod memos;
pub mod naming;
pub(crate) mod scan;
mod split;
mod stage;
pub(crate) mod stamps;
pub(crate) mod tail;
mod transitions;
mod tried;

use blocks::Blocks;
use lengths::Lengths;
use naming::{Role, file_path};
use stage::Names;
pub(crate) use stage::Stage;
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

/// A segment. What changes of it is private: see `transitions.rs`.
pub(crate) struct Segment<P: Platform> {
    /// Offset of its first record, and its name.
    pub(crate) base: Offset,
    /// The folder that its files are in: the partition's home, or the one of the same name on another path.
    pub(crate) folder: Rc<Path>,
    /// When this process first saw it: its age when no record has a timestamp.
    pub(crate) born_ms: i64,
    /// When it came to its folder.
    pub(crate) arrived_ms: i64,
    /// Pieces of its data file that were read ahead.
    pub(crate) blocks: RefCell<Blocks>,
    /// Building its indexes anew from the batches because a position in them was wrong.
    pub(crate) reindexed: Attempt,
    /// Asking its batches for their leader epochs, because one of them contradicts what is known.
    pub(crate) epochs_asked: Attempt,
    lengths: Lengths,
    /// Offset after the last record.
    next: Cell<Offset>,
    stage: Cell<Stage>,
    names: Cell<Names>,
    /// Timestamp of its first batch; rolling by time counts from it.
    first_timestamp: Cell<Option<i64>>,
    /// Its largest timestamp.
    largest: Cell<Largest>,
    /// The end of it in memory.
    tail: RefCell<Tail>,
    /// Its indexes. `None` only when sealed.
    loaded: RefCell<Option<Loaded>>,
    /// The first record of the aborted transactions that its index notes, once that was read; past every offset when it
    /// notes none. Unlike the index it stays in memory.
    first_aborted: Cell<Option<Offset>>,
    /// There is an index of its aborted transactions: one that is missing or empty was lost.
    notes_aborted: Cell<bool>,
    /// It was said that records are missing after it.
    holes_named: Cell<bool>,
    /// Grows when bytes of it are cut off: what was read of it before may be gone.
    cuts: Cell<u32>,
    /// Why it is not to be read: its path is absent, or it was found damaged.
    offline: RefCell<Option<Error>>,
    /// Nothing of it is known but that it is somewhere else, on a path that is absent.
    absent: bool,
    /// What it takes of its tier's path, with tiers.
    charge: Option<Charge>,
    /// When it was last read from its medium, with tiers.
    read_ms: Cell<Option<i64>>,
    /// When it was sealed, as far as this process knows.
    sealed_ms: Cell<i64>,
    /// A copy of it is being made on another path.
    moving: Cell<bool>,
    /// Its data file. `None` for a sealed one that is not read, and for a new one that has no name yet.
    file: RefCell<Option<File<P>>>,
}

impl<P: Platform> Segment<P> {
    /// Bytes of batches.
    pub(crate) fn size(&self) -> u64 {
        self.lengths.size()
    }

    /// Bytes on disk, not necessarily durable.
    pub(crate) fn written(&self) -> u64 {
        self.lengths.written()
    }

    /// Bytes that are durable.
    pub(crate) fn synced(&self) -> u64 {
        self.lengths.synced()
    }

    /// Length that its file has or has room for.
    pub(crate) fn allocated(&self) -> u64 {
        self.lengths.allocated()
    }

    /// Offset after the last record.
    pub(crate) fn next(&self) -> Offset {
        self.next.get()
    }

    pub(crate) fn stage(&self) -> Stage {
        self.stage.get()
    }

    pub(crate) fn is_active(&self) -> bool {
        self.stage() == Stage::Active
    }

    pub(crate) fn is_sealed(&self) -> bool {
        self.stage() == Stage::Sealed
    }

    /// Its data file has a name in the folder.
    pub(crate) fn is_named(&self) -> bool {
        self.names.get() != Names::None
    }

    /// Another is being put in its place.
    pub(crate) fn are_names_lent(&self) -> bool {
        self.names.get() == Names::Lent
    }

    /// Nothing of it is known but that it is somewhere else, on a path that is absent.
    pub(crate) fn is_absent(&self) -> bool {
        self.absent
    }

    /// A copy of it is being made on another path.
    pub(crate) fn is_moving(&self) -> bool {
        self.moving.get()
    }

    /// How often bytes of it were cut off.
    pub(crate) fn cuts(&self) -> u32 {
        self.cuts.get()
    }

    /// What it takes of its tier's path, with tiers.
    pub(crate) fn charge(&self) -> Option<&Charge> {
        self.charge.as_ref()
    }

    /// The end of it in memory.
    pub(crate) fn tail(&self) -> Ref<'_, Tail> {
        self.tail.borrow()
    }

    /// Its indexes. `None` only when sealed.
    pub(crate) fn loaded(&self) -> Ref<'_, Option<Loaded>> {
        self.loaded.borrow()
    }

    /// Where its file ends, if that is at `position`.
    pub(crate) fn file_end(&self, position: u64) -> FileEnd {
        let next = self.next();
        FileEnd {
            position,
            next: (position >= self.size()).then_some(next),
            bound: next,
        }
    }

    /// Why it is not to be read, if so.
    pub(crate) fn offline(&self) -> Option<Error> {
        self.offline.borrow().clone()
    }

    /// Why nothing of it can be read, where its path is absent.
    pub(crate) fn absence(&self) -> Option<Error> {
        let why = || self.offline().expect("what is absent is offline");
        self.is_absent().then(why)
    }

    /// True when it is not to be read.
    pub(crate) fn is_offline(&self) -> bool {
        self.offline.borrow().is_some()
    }

    /// Brings what it is counted with up to date.
    fn recharge(&self) {
        if let Some(charge) = &self.charge {
            charge.set(self.allocated().max(self.size()));
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
        if let Some(error) = self.absence() {
            return Err(error);
        }
        let path = self.path(Role::Log);
        loop {
            let sealed = self.is_sealed();
            let how = if sealed { Open::Read } else { Open::Write };
            let file = disk
                .open(&path, how)
                .await
                .map_err(Error::io("open", &path))?;
            if let Some(faster) = self.open_file() {
                // The name may have become another file's meanwhile.
                return Ok(faster);
            }
            if sealed && !self.is_sealed() {
                // A cut has made it the one that grows, and would write to what was opened for a reader.
                continue;
            }
            self.set_file(file.clone());
            return Ok(file);
        }
    }

    /// Lets go of a sealed segment's file; its indexes stay.
    pub(crate) fn close_if_sealed(&self) {
        if self.is_sealed() && !self.are_names_lent() {
            *self.file.borrow_mut() = None;
        }
    }

    /// Forgets file and indexes of a sealed segment; they are read again when they are needed.
    pub(crate) fn unload(&self) {
        if self.is_sealed() && !self.are_names_lent() {
            *self.file.borrow_mut() = None;
            *self.loaded.borrow_mut() = None;
            // What is read again is what was wrong, where the new one could not be saved.
            self.reindexed.forget_what_is_for_now();
        }
    }

    /// The header of the batch at `position`, when it is resident.
    pub(crate) fn resident_header(&self, position: u64) -> Option<BatchHeader> {
        let mut bytes = [0; HEADER_BYTES];
        if !self.tail().copy_at(position, &mut bytes) {
            return None;
        }
        BatchHeader::parse(&bytes)
    }

    /// True when bytes are waiting to be written.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.written() < self.size()
    }
}
