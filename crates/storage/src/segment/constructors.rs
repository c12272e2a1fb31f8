//! The constructors of segments: begun by an append, found by a start, written by a compaction,
//! moved from another path.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;

use platform::Platform;
use wire::types::Offset;

use super::lengths::Lengths;
use super::stage::{Names, Stage};
use super::tail::Tail;
use super::{Attempt, LargestTimestamp, LoadedIndexes, Segment};
use crate::tier::table::Charge;

impl<P: Platform> Segment<P> {
    /// Creates a segment that begins at `base` and has nothing on disk.
    pub(crate) fn fresh(
        folder: Rc<Path>,
        base: Offset,
        loaded: LoadedIndexes,
        charge: Option<Charge>,
        now_ms: i64,
    ) -> Self {
        let mut segment = Self::of(folder, (base, base), 0, Some(loaded), now_ms);
        segment.charge = charge;
        segment
    }

    /// Creates a segment from the `len` bytes that a start has found.
    ///
    /// It ends at `next`, as far as that is known yet.
    pub(crate) fn found(
        folder: Rc<Path>,
        (base, next): (Offset, Offset),
        len: u64,
        (sealed_ms, arrived_ms): (i64, i64),
        notes_aborted: bool,
        charge: Option<Charge>,
    ) -> Self {
        let mut segment = Self::of(folder, (base, next), len, None, sealed_ms);
        segment.arrived_ms = arrived_ms;
        segment.charge = charge;
        segment.names.set(Names::Own);
        segment.notes_aborted.set(notes_aborted);
        segment
    }

    /// Creates a placeholder for a segment on a missing path.
    pub(crate) fn absent(folder: Rc<Path>, (base, next): (Offset, Offset), now_ms: i64) -> Self {
        let mut segment = Self::of(folder, (base, next), 0, None, now_ms);
        segment.absent = true;
        segment.names.set(Names::Own);
        segment.stage.set(Stage::Sealed);
        segment.take_offline("its path is not there");
        segment
    }

    /// Creates a segment that a compaction has written from the segments `of`.
    ///
    /// For the tiers it is as old as the last of them, and was read when any of them was last read.
    pub(crate) fn made(
        folder: Rc<Path>,
        base: Offset,
        size: u64,
        loaded: LoadedIndexes,
        charge: Option<Charge>,
        of: &[Rc<Self>],
    ) -> Self {
        let [.., last] = of else {
            unreachable!("what was made is made of segments");
        };
        assert!(base <= last.base, "it begins where the first of them does");
        let notes_aborted = !loaded.aborted.is_empty();
        let span = (base, last.next());
        let mut segment = Self::of(folder, span, size, Some(loaded), last.born_ms);
        segment.arrived_ms = last.arrived_ms;
        segment.charge = charge;
        segment.names.set(Names::Own);
        segment.stage.set(Stage::Sealed);
        segment.notes_aborted.set(notes_aborted);
        segment.sealed_ms.set(last.sealed_ms());
        let read_ms = of.iter().filter_map(|segment| segment.read_ms());
        segment.read_ms.set(read_ms.max());
        segment
    }

    /// Creates a segment with the records of a sealed one, in another folder.
    pub(crate) fn moved(of: &Self, folder: Rc<Path>, charge: Option<Charge>, now_ms: i64) -> Self {
        assert!(
            of.is_sealed() && of.are_names_lent(),
            "only the names of sealed segments are lent"
        );
        let loaded = of.loaded().clone();
        let mut segment = Self::of(folder, (of.base, of.next()), of.size(), loaded, of.born_ms);
        segment.arrived_ms = now_ms;
        segment.charge = charge;
        segment.names.set(Names::Own);
        segment.stage.set(Stage::Sealed);
        segment.notes_aborted.set(of.notes_aborted());
        segment.largest.set(of.largest());
        segment.first_timestamp.set(of.first_timestamp());
        segment.sealed_ms.set(of.sealed_ms());
        segment.read_ms.set(of.read_ms());
        segment
    }

    fn of(
        folder: Rc<Path>,
        (base, next): (Offset, Offset),
        size: u64,
        loaded: Option<LoadedIndexes>,
        now_ms: i64,
    ) -> Self {
        let largest = match &loaded {
            Some(loaded) => loaded.indexes.largest_timestamp().into(),
            None => LargestTimestamp::Unknown,
        };
        Self {
            base,
            folder,
            born_ms: now_ms,
            lengths: Lengths::of(size),
            next: Cell::new(next),
            stage: Cell::new(Stage::Active),
            names: Cell::new(Names::None),
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
            cuts: Cell::new(0),
            offline: RefCell::new(None),
            absent: false,
            charge: None,
            arrived_ms: now_ms,
            read_ms: Cell::new(None),
            sealed_ms: Cell::new(now_ms),
            moving: Cell::new(false),
            file: RefCell::new(None),
        }
    }
}
