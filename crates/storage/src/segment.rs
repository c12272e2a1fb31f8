//! One segment of a log: a range of offsets in one data file with its indexes.
//!
//! States: *active* (the last segment of its log, grows in memory first) -> *rolled* (no longer
//! grows, may have unwritten bytes) -> *sealed* (file cut to its length, synced, indexes and
//! producer snapshot saved) -> *deleted*. Each state change is a function of `transitions.rs`, each
//! length change one of `lengths.rs`, and growth one of `tail.rs`; they end the process rather than
//! break an invariant.
//! Invariants: `synced <= written <= size`; bytes beyond `written` are resident in the tail; the
//! indexes are loaded for every segment that is not sealed, and lazily for sealed ones. A reader
//! keeps a segment alive, even a deleted one.
//! It does not decide when a segment rolls, is sealed or is deleted.

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
pub(crate) mod looked;
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
pub(crate) use tried::{Attempt, CheckOutcome};

/// The last position that an index can store; no segment grows beyond it.
pub(crate) const POSITION_MAX: u64 = i32::MAX as u64;

/// The panic message of an unsealed segment without indexes: only the indexes of sealed segments
/// are ever unloaded.
pub(crate) const HAS_INDEXES: &str = "a segment that is not sealed has its indexes";

/// The file type of platform `P`.
pub(crate) type File<P> = <<P as Platform>::Disk as Disk>::File;

/// The indexes of a segment that are in memory.
#[derive(Clone, Debug)]
pub(crate) struct LoadedIndexes {
    /// Offsets and timestamps.
    pub(crate) indexes: Indexes,
    /// Aborted transactions.
    pub(crate) aborted: TxnIndex,
}

/// The largest timestamp of a segment, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LargestTimestamp {
    /// Not read yet.
    Unknown,
    /// No record has a timestamp.
    None,
    /// The largest timestamp and its offset.
    At(TimeEntry),
}

impl From<Option<TimeEntry>> for LargestTimestamp {
    fn from(entry: Option<TimeEntry>) -> Self {
        entry.map_or(Self::None, Self::At)
    }
}

/// A segment of a log.
///
/// Its mutable state is private; `transitions.rs` changes it, and `tail.rs` as it grows.
pub(crate) struct Segment<P: Platform> {
    /// The offset of its first record, which is also its name.
    pub(crate) base: Offset,
    /// The folder of its files: the partition's home, or the folder of the same name on another
    /// path.
    pub(crate) folder: Rc<Path>,
    /// When this process first saw the segment: it counts as the segment's age when no record has a
    /// timestamp.
    pub(crate) born_ms: i64,
    /// When the segment came to its folder.
    pub(crate) arrived_ms: i64,
    /// Blocks of its data file that were read ahead.
    pub(crate) blocks: RefCell<Blocks>,
    /// The attempt to rebuild its indexes from the batches because a position in them was wrong.
    pub(crate) reindexed: Attempt,
    /// The attempt to read the leader epochs of its batches because one of them contradicts the
    /// epoch cache.
    pub(crate) epochs_asked: Attempt,
    lengths: Lengths,
    /// The offset after the last record.
    next: Cell<Offset>,
    stage: Cell<Stage>,
    names: Cell<Names>,
    /// The timestamp of its first batch, from which rolling by time counts.
    first_timestamp: Cell<Option<i64>>,
    /// Its largest timestamp.
    largest: Cell<LargestTimestamp>,
    /// The end of the segment in memory.
    tail: RefCell<Tail>,
    /// The indexes; `None` only when sealed.
    loaded: RefCell<Option<LoadedIndexes>>,
    /// The first record of the aborted transactions in its index, once the index was read; past
    /// every offset when the index has none. Unlike the index it stays in memory.
    first_aborted: Cell<Option<Offset>>,
    /// The segment has an index of aborted transactions, so a missing or empty file means that the
    /// index was lost.
    notes_aborted: Cell<bool>,
    /// Missing records after this segment were already logged.
    holes_named: Cell<bool>,
    /// Counts truncations: what a reader read before one may be gone.
    cuts: Cell<u32>,
    /// Why the segment must not be read: its path is absent, or it was found damaged.
    offline: RefCell<Option<Error>>,
    /// Its files are on a missing path, so only its place in the log is known.
    absent: bool,
    /// The bytes charged to its tier's path, if tiers are configured.
    charge: Option<Charge>,
    /// When it was last read from its medium, if tiers are configured.
    read_ms: Cell<Option<i64>>,
    /// When it was sealed, as far as this process knows.
    sealed_ms: Cell<i64>,
    /// A copy of it is being made on another path.
    moving: Cell<bool>,
    /// The data file; `None` for a sealed segment that is not read, and for a new one whose file
    /// has no name yet.
    file: RefCell<Option<File<P>>>,
}

impl<P: Platform> Segment<P> {
    /// Returns the bytes of batches.
    pub(crate) fn size(&self) -> u64 {
        self.lengths.size()
    }

    /// Returns the bytes on disk, which need not be durable.
    pub(crate) fn written(&self) -> u64 {
        self.lengths.written()
    }

    /// Returns the durable bytes.
    pub(crate) fn synced(&self) -> u64 {
        self.lengths.synced()
    }

    /// Returns the length that the file has or has room for.
    pub(crate) fn allocated(&self) -> u64 {
        self.lengths.allocated()
    }

    /// Returns the offset after the last record.
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

    /// Returns true when the data file has a name in the folder.
    pub(crate) fn is_named(&self) -> bool {
        self.names.get() != Names::None
    }

    /// Returns true while another segment is being put in its place.
    pub(crate) fn are_names_lent(&self) -> bool {
        self.names.get() == Names::Lent
    }

    /// Returns true when its files are on a missing path, so only its place in the log is known.
    pub(crate) fn is_absent(&self) -> bool {
        self.absent
    }

    /// Returns true while a copy of it is being made on another path.
    pub(crate) fn is_moving(&self) -> bool {
        self.moving.get()
    }

    /// Returns the number of truncations.
    pub(crate) fn cuts(&self) -> u32 {
        self.cuts.get()
    }

    /// Returns the charge on its tier's path, if tiers are configured.
    pub(crate) fn charge(&self) -> Option<&Charge> {
        self.charge.as_ref()
    }

    /// Returns the end of the segment in memory.
    pub(crate) fn tail(&self) -> Ref<'_, Tail> {
        self.tail.borrow()
    }

    /// Returns the indexes; `None` only when sealed.
    pub(crate) fn loaded(&self) -> Ref<'_, Option<LoadedIndexes>> {
        self.loaded.borrow()
    }

    /// Returns where the file ends, if it ends at `position`.
    pub(crate) fn file_end(&self, position: u64) -> FileEnd {
        let next = self.next();
        FileEnd {
            position,
            next: (position >= self.size()).then_some(next),
            bound: next,
        }
    }

    /// Returns why the segment must not be read, if so.
    pub(crate) fn offline(&self) -> Option<Error> {
        self.offline.borrow().clone()
    }

    /// Returns why the segment cannot be read if its path is absent.
    pub(crate) fn absence(&self) -> Option<Error> {
        let why = || self.offline().expect("what is absent is offline");
        self.is_absent().then(why)
    }

    /// Returns true when the segment must not be read.
    pub(crate) fn is_offline(&self) -> bool {
        self.offline.borrow().is_some()
    }

    /// Updates the charge on its path.
    fn recharge(&self) {
        if let Some(charge) = &self.charge {
            charge.set(self.allocated().max(self.size()));
        }
    }

    /// Returns true when its path has no room left, so the next segment goes to another path.
    pub(crate) fn is_out_of_room(&self) -> bool {
        let charge = self.charge.as_ref();
        charge.is_some_and(|charge| charge.path().free_bytes() == 0)
    }

    /// Takes the segment offline for readers; the first reason stays.
    pub(crate) fn take_offline(&self, reason: &str) {
        let path = self.path(Role::Log);
        let reason = reason.into();
        self.offline
            .borrow_mut()
            .get_or_insert(Error::Offline { path, reason });
    }

    /// Returns the path of one of its files.
    pub(crate) fn path(&self, role: Role) -> PathBuf {
        file_path(&self.folder, self.base, role)
    }

    /// Returns the data file, if it is open.
    pub(crate) fn open_file(&self) -> Option<File<P>> {
        self.file.borrow().clone()
    }

    /// Sets the data file.
    pub(crate) fn set_file(&self, file: File<P>) {
        *self.file.borrow_mut() = Some(file);
    }

    /// Closes the data file; it is opened again when it is needed.
    pub(crate) fn close_file(&self) {
        *self.file.borrow_mut() = None;
    }

    /// Returns the data file and opens it if necessary.
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
                // The name may belong to another file by now.
                return Ok(faster);
            }
            if sealed && !self.is_sealed() {
                // A truncation has made the segment active again; writes need a file opened for
                // writing.
                continue;
            }
            self.set_file(file.clone());
            return Ok(file);
        }
    }

    /// Closes a sealed segment's file; its indexes stay.
    pub(crate) fn close_if_sealed(&self) {
        if self.is_sealed() && !self.are_names_lent() {
            *self.file.borrow_mut() = None;
        }
    }

    /// Closes the file and drops the indexes of a sealed segment; both are read again when they are
    /// needed.
    pub(crate) fn unload(&self) {
        if self.is_sealed() && !self.are_names_lent() {
            *self.file.borrow_mut() = None;
            *self.loaded.borrow_mut() = None;
            // If the rebuilt indexes could not be saved, the next load reads the wrong ones again.
            self.reindexed.forget_what_is_for_now();
        }
    }

    /// Returns the header of the batch at `position`, if it is resident.
    pub(crate) fn resident_header(&self, position: u64) -> Option<BatchHeader> {
        let mut bytes = [0; HEADER_BYTES];
        if !self.tail().copy_at(position, &mut bytes) {
            return None;
        }
        BatchHeader::parse(&bytes)
    }

    /// Returns true when bytes are waiting to be written.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.written() < self.size()
    }
}
