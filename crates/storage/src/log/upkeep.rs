//! The background work of a log, one job at a time: reserve room ahead of the appends, prepare the
//! next segment's file, seal rolled segments, and save indexes, producers and recovery point at
//! intervals, so that after a crash only the last part of the log has to be read.
//!
//! The checkpoint files name a save only later: until then the snapshots of earlier saves stay,
//! because a recovery begins with the newest one that is not past its checkpoint.
//!
//! Invariant: the recovery point passes a segment, or a part of the active one, only after its data
//! was synced and its indexes and a producer snapshot were saved. Durability does not depend on
//! this work: when it fails, it is tried again later, and recovery has more to read meanwhile. Only
//! a failed sync latches the log.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use platform::Platform;
use platform::clock::Instant;
use platform::disk::{BLOCK_BYTES, Disk, DiskFile, Medium, Open};
use platform::sync::Semaphore;
use platform::task;
use wire::types::Offset;

use super::SNAPSHOT_PIECE;
use super::producer_state::{SnapshotProgress, snapshot};
use super::segments::SegmentEvent;
use crate::error::{Error, FailureKind, Result};
use crate::log::views::{Flushing, Journaling, LogCondition, Rebuilding, Upkeeping};
use crate::segment::load::{self, SavedIndexes};
use crate::segment::naming::{PREPARED, Role, file_path};
use crate::segment::{File, HAS_INDEXES, Segment};

/// Least room that is reserved ahead.
const ALLOCATE_BYTES_MIN: u64 = 64 << 10;
/// Most snapshots of saves that are kept until the checkpoints name a later one.
const SAVED_SNAPSHOTS_MAX: usize = 16;
/// A roll takes a snapshot when this many times its bytes were appended since the last one.
///
/// A recovery reads these bytes again.
const SNAPSHOT_SHARE: u64 = 4;
/// How long to wait after something went wrong.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// A file that is prepared for the next segment.
pub(crate) struct PreparedFile<P: Platform> {
    pub(crate) path: PathBuf,
    pub(crate) file: File<P>,
    /// Bytes of room in it.
    pub(crate) bytes: u64,
}

/// A job of the upkeep.
enum Job<P: Platform> {
    Allocate {
        segment: Rc<Segment<P>>,
        file: File<P>,
        bytes: u64,
    },
    Prepare,
    Seal(Rc<Segment<P>>),
    Reserve,
    Save,
}

/// The state of a log's upkeep.
pub(super) struct Upkeep<P: Platform> {
    running: Cell<bool>,
    /// No job begins before this time, after a failure.
    pause_until: Cell<Option<Instant>>,
    /// The holder may change which files there are, and what is in the sealed ones.
    pub(super) gate: Semaphore,
    prepared: RefCell<Option<PreparedFile<P>>>,
    /// The prepared file is being given its name; another one would need the same name.
    naming: Cell<bool>,
    /// Bytes appended since the last save.
    unsaved_bytes: Cell<u64>,
    /// Bytes appended since the last snapshot at a roll.
    unsnapshot_bytes: Cell<u64>,
    /// Producer snapshots taken at rolls, to be written when the segment before them is sealed.
    snapshots: RefCell<VecDeque<(Offset, Bytes)>>,
    /// The snapshots of saves, oldest first; those before what the checkpoints name are useless.
    saved: RefCell<VecDeque<Offset>>,
    /// The file system cannot reserve room.
    pub(super) cannot_reserve: Cell<bool>,
    /// Random bits of the active segment, for the jitter of rolling by time.
    random: Cell<u64>,
}

impl<P: Platform> Upkeep<P> {
    pub(super) fn new(random: u64, last_saved: Option<Offset>) -> Self {
        Self {
            running: Cell::new(false),
            pause_until: Cell::new(None),
            gate: Semaphore::new(1),
            prepared: RefCell::new(None),
            naming: Cell::new(false),
            unsaved_bytes: Cell::new(0),
            unsnapshot_bytes: Cell::new(u64::MAX),
            snapshots: RefCell::default(),
            saved: RefCell::new(last_saved.into_iter().collect()),
            cannot_reserve: Cell::new(false),
            random: Cell::new(random),
        }
    }

    /// Returns what is to be subtracted from `segment.ms` for the active segment.
    pub(super) fn jitter_ms(&self, jitter_ms_max: u64) -> u64 {
        self.random.get().checked_rem(jitter_ms_max).unwrap_or(0)
    }

    /// Forgets snapshots past `offset`, which the log does not reach any more.
    pub(super) fn truncate_to(&self, offset: Offset) {
        self.snapshots.borrow_mut().retain(|(at, _)| *at <= offset);
        self.saved.borrow_mut().retain(|at| *at <= offset);
    }

    /// Ends the process when there is a snapshot beyond `end`, or one to be written of a segment
    /// before `first`.
    pub(super) fn check(&self, first: Offset, end: Offset) {
        let snapshots = self.snapshots.borrow();
        let taken = snapshots.iter().map(|(at, _)| *at);
        assert!(taken.is_sorted(), "snapshots of rolls are in order");
        let mut waiting = snapshots.iter();
        assert!(
            waiting.all(|(at, _)| *at >= first),
            "a snapshot that waits to be written ends a segment that is there"
        );
        let saved = self.saved.borrow();
        assert!(saved.iter().is_sorted(), "snapshots of saves are in order");
        let mut all = snapshots.iter().map(|(at, _)| at).chain(saved.iter());
        assert!(all.all(|at| *at <= end), "no snapshot is beyond the end");
    }

    /// Notes a snapshot as of `upto`, the newest of all.
    fn note_saved(&self, upto: Offset) {
        let mut saved = self.saved.borrow_mut();
        assert!(
            saved.back().is_none_or(|before| *before <= upto),
            "each save is as far on as the last one"
        );
        if saved.back() != Some(&upto) {
            saved.push_back(upto);
        }
    }

    /// Takes the snapshots that a recovery from `recovery_point` would not begin with.
    fn take_useless(&self, recovery_point: Offset) -> Vec<Offset> {
        let mut saved = self.saved.borrow_mut();
        let before = saved.partition_point(|at| *at <= recovery_point);
        let beyond = saved.len().saturating_sub(SAVED_SNAPSHOTS_MAX);
        saved
            .drain(..before.saturating_sub(1).max(beyond))
            .collect()
    }
}

impl<P: Platform> Upkeeping<'_, P> {
    /// Continues what the last stop left undone.
    pub(super) fn upkeep_after_open(self, scanned_bytes: u64) {
        self.upkeep.unsaved_bytes.set(scanned_bytes);
        self.start_upkeep();
    }

    /// Returns the prepared file; the caller gives it to the next segment.
    ///
    /// The caller then calls `prepared_is_named`.
    pub(crate) fn take_prepared(self) -> Option<PreparedFile<P>> {
        let prepared = self.upkeep.prepared.borrow_mut().take();
        if prepared.is_some() {
            // Without one, another caller may be giving it its name.
            self.upkeep.naming.set(true);
        }
        prepared
    }

    /// Notes that the file that was taken has its name now, or is given up.
    pub(crate) fn prepared_is_named(self) {
        assert!(self.upkeep.naming.replace(false), "a file was taken before");
    }

    /// Returns how many saves there are snapshots of.
    pub(crate) fn saves_kept(self) -> usize {
        self.upkeep.saved.borrow().len()
    }

    /// Removes useless snapshots: the checkpoints let a recovery begin at `recovery_point` at the
    /// earliest.
    pub(crate) async fn checkpointed(self, recovery_point: Offset) {
        self.remove_useless_snapshots(recovery_point).await;
    }

    /// Returns true when no file is prepared for the next segment.
    pub(crate) fn has_no_prepared(self) -> bool {
        self.upkeep.prepared.borrow().is_none()
    }

    /// Removes the prepared file in the background, because the log is idle.
    ///
    /// Another one is made when it is needed.
    pub(crate) fn start_discarding(self) {
        let Some(log) = self.me() else { return };
        task::spawn(async move {
            if let Ok(_gate) = log.upkeep.gate.acquire().await {
                Upkeeping(&log).discard_prepared().await;
            }
        });
    }

    pub(super) fn upkeep_after_append(self, bytes: u64) {
        for count in [&self.upkeep.unsaved_bytes, &self.upkeep.unsnapshot_bytes] {
            count.set(count.get().saturating_add(bytes));
        }
        self.start_upkeep();
    }

    pub(super) fn upkeep_after_roll(self, base: Offset) {
        let size = snapshot::encoded_bytes(self.producers.borrow().producer_count());
        let is_due = self.upkeep.unsnapshot_bytes.get() >= size.saturating_mul(SNAPSHOT_SHARE);
        // Another roll or a save may have begun one.
        if is_due && self.producers.borrow_mut().begin_snapshot(base) {
            self.upkeep.unsnapshot_bytes.set(0);
            self.copy_producers();
        }
        self.upkeep
            .random
            .set(self.store.shared.platform.random_u64());
        self.start_upkeep();
    }

    pub(super) fn start_upkeep(self) {
        if self.upkeep.running.get() {
            return;
        }
        if let Some(until) = self.upkeep.pause_until.get() {
            if self.store.clock().now() < until {
                return;
            }
            self.upkeep.pause_until.set(None);
        }
        if self.next_job().is_none() {
            return;
        }
        let Some(log) = self.me() else { return };
        self.upkeep.running.set(true);
        task::spawn(async move { Upkeeping(&log).run_upkeep().await });
    }

    async fn run_upkeep(self) {
        loop {
            // The job is chosen with the gate held: the files may have changed while waiting for
            // it.
            let Ok(_permit) = self.upkeep.gate.acquire().await else {
                break;
            };
            let Some(job) = self.next_job() else { break };
            if LogCondition(self.0).is_beyond_repair() {
                break;
            }
            if let Err(error) = self.perform(job).await {
                if self.store.give_up_pooled(&error).await {
                    continue;
                }
                if !matches!(
                    error.kind(),
                    FailureKind::Full | FailureKind::Closed | FailureKind::Failed
                ) {
                    tracing::warn!(partition = %self.partition, %error, "upkeep of a log failed and will be tried again");
                }
                self.upkeep
                    .pause_until
                    .set(Some(self.store.clock().now() + RETRY_INTERVAL));
                break;
            }
        }
        // No `await` since the last check, so no request is lost.
        self.upkeep.running.set(false);
    }

    fn next_job(self) -> Option<Job<P>> {
        if LogCondition(self.0).is_beyond_repair() {
            return None;
        }
        let options = self.options();
        let active = self.segments.active();
        if options.preallocate || self.is_mapped(&active) {
            if let Some(file) = active.open_file() {
                let wanted = room_wanted(
                    active.size(),
                    active.allocated(),
                    self.store.shared.options.allocate_step_bytes,
                    u64::from(options.segment_bytes),
                );
                if let Some(bytes) = wanted {
                    return Some(Job::Allocate {
                        segment: active,
                        file,
                        bytes,
                    });
                }
            }
            let half_full = active.size() * 2 > u64::from(options.segment_bytes);
            // A file that is closed belongs to an idle log.
            if half_full
                && active.open_file().is_some()
                && self.is_home(&active.folder)
                && !self.upkeep.naming.get()
                && self.upkeep.prepared.borrow().is_none()
            {
                return Some(Job::Prepare);
            }
        }
        if let Some(segment) = self.oldest_rolled() {
            return Some(Job::Seal(segment));
        }
        if self.wants_reserve(options.reserve_bytes) {
            return Some(Job::Reserve);
        }
        let unsaved_bytes = self.upkeep.unsaved_bytes.get();
        (unsaved_bytes >= self.store.shared.options.save_interval_bytes).then_some(Job::Save)
    }

    /// Returns true when appends are stores to memory, which need their room to be there before
    /// them.
    fn is_mapped(self, segment: &Segment<P>) -> bool {
        self.store.disk().medium(&segment.folder) != Medium::File
    }

    pub(super) fn oldest_rolled(self) -> Option<Rc<Segment<P>>> {
        self.segments.oldest_rolled()
    }

    async fn perform(self, job: Job<P>) -> Result<()> {
        self.as_left.set(None);
        match job {
            Job::Allocate {
                segment,
                file,
                bytes,
            } => {
                let path = segment.path(Role::Log);
                file.allocate(bytes)
                    .await
                    .map_err(Error::io("reserve room in", &path))?;
                segment.has_room(bytes);
                Ok(())
            }
            Job::Prepare => self.prepare().await,
            Job::Seal(segment) => self.seal(&segment).await,
            Job::Reserve => self.make_reserve().await,
            Job::Save => self.save_active().await,
        }
    }

    async fn prepare(self) -> Result<()> {
        let options = &self.store.shared.options;
        let segment_bytes = u64::from(self.options().segment_bytes);
        let bytes = segment_bytes.min(options.allocate_step_bytes);
        let path = self.folder.join(PREPARED);
        let disk = self.store.disk();
        let pooled = self.store.take_pooled(&self.folder, &path, segment_bytes);
        if let Some(pooled) = pooled.await? {
            *self.upkeep.prepared.borrow_mut() = Some(pooled);
            return Ok(());
        }
        let file = match disk.open(&path, Open::Create).await {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                disk.remove_file(&path)
                    .await
                    .map_err(Error::io("remove", &path))?;
                disk.open(&path, Open::Create).await
            }
            result => result,
        }
        .map_err(Error::io("create", &path))?;
        file.allocate(bytes)
            .await
            .map_err(Error::io("reserve room in", &path))?;
        *self.upkeep.prepared.borrow_mut() = Some(PreparedFile { path, file, bytes });
        Ok(())
    }

    /// Cuts a rolled segment to its length, syncs it and saves its indexes and the producers at its
    /// end.
    pub(super) async fn seal(self, segment: &Rc<Segment<P>>) -> Result<()> {
        Flushing(self.0).flush_upto(segment.next()).await?;
        Journaling(self.0).land_all().await?;
        if self.segments.place_of(segment).is_none() {
            // Its path had no room, and another segment is in its place: a note of this one would
            // win over that.
            return Ok(());
        }
        self.cut_to_length(segment).await?;
        let saved = SavedIndexes::of(segment).expect(HAS_INDEXES);
        load::save(self.store.disk(), segment, &saved).await?;
        Rebuilding(self.0)
            .note_aborted(segment, saved.notes_aborted())
            .await?;
        let next = segment.next();
        self.take_snapshot().await;
        if let Some(bytes) = self.taken_snapshot(next) {
            self.write_snapshot(next, bytes).await?;
        }
        // Segments are sealed in order, so none of these is written any more.
        self.forget_snapshots_upto(next);
        segment.seal(self.store.clock().wall_ms());
        let segment = Rc::clone(segment);
        let size = segment.size();
        self.segment_changed(&SegmentEvent::Sealed { segment });
        self.store().touch();
        self.offsets.advance_recovery_point(next);
        self.store.shared.unnoted.add(size);
        self.check_invariants();
        Ok(())
    }

    /// Gives a segment's file exactly the length of its batches, durably.
    pub(super) async fn cut_to_length(self, segment: &Segment<P>) -> Result<()> {
        let path = segment.path(Role::Log);
        let file = Flushing(self.0).name_segment(segment).await?;
        let size = segment.size();
        file.set_len(size).await.map_err(Error::io("cut", &path))?;
        segment.was_cut_to_length();
        if let Err(error) = file.sync().await {
            let error = Error::file_sync(&path)(error);
            self.fail(&error);
            return Err(error);
        }
        Ok(())
    }

    /// Saves what a recovery would otherwise have to read the active segment for.
    pub(super) async fn save_active(self) -> Result<()> {
        if LogCondition(self.0).is_beyond_repair()
            && let Some(error) = self.failed()
        {
            // A truncation that failed may have left it in any state.
            return Err(error);
        }
        self.take_snapshot().await;
        let active = self.segments.active();
        let unsaved_bytes = self.upkeep.unsaved_bytes.get();
        let saved = SavedIndexes::of(&active).expect(HAS_INDEXES);
        let begun = self.producers.borrow_mut().begin_snapshot(saved.upto);
        assert!(begun, "the one of a roll has been taken");
        self.take_snapshot().await;
        let snapshot = self.taken_snapshot(saved.upto);
        let snapshot = snapshot.expect("no truncation drops it while the gate is held");
        self.forget_taken_snapshot(saved.upto);
        Flushing(self.0).flush_upto(saved.upto).await?;
        Journaling(self.0).land_all().await?;
        let earlier = self.segments.unsealed();
        if earlier
            .first()
            .is_none_or(|first| !Rc::ptr_eq(first, &active))
        {
            // It was rolled, and others before it wait to be sealed, which saves more than this
            // would.
            return Ok(());
        }
        load::save(self.store.disk(), &active, &saved).await?;
        Rebuilding(self.0)
            .note_aborted(&active, saved.notes_aborted())
            .await?;
        self.write_snapshot(saved.upto, snapshot).await?;
        let unsaved_by_now = self.upkeep.unsaved_bytes.get();
        assert!(unsaved_bytes <= unsaved_by_now, "one save at a time");
        let unsaved_by_now = unsaved_by_now - unsaved_bytes;
        self.upkeep.unsaved_bytes.set(unsaved_by_now);
        self.store().touch();
        self.offsets.advance_recovery_point(saved.upto);
        self.upkeep.note_saved(saved.upto);
        self.store.shared.unnoted.add(unsaved_bytes);
        self.check_invariants();
        self.remove_useless_snapshots(Offset::ZERO).await;
        Ok(())
    }

    async fn remove_useless_snapshots(self, recovery_point: Offset) {
        for at in self.upkeep.take_useless(recovery_point) {
            self.remove_snapshot_unless_needed(at).await;
        }
    }

    /// Takes the rest of the snapshot that was begun, if there is one.
    pub(super) async fn take_snapshot(self) {
        while self.copy_producers() {
            task::yield_now().await;
        }
    }

    /// Copies a piece of the snapshot that was begun; returns true when there are more.
    fn copy_producers(self) -> bool {
        let progress = self.producers.borrow_mut().take_snapshot(SNAPSHOT_PIECE);
        match progress {
            SnapshotProgress::None => false,
            SnapshotProgress::More => true,
            SnapshotProgress::Taken(at, bytes) => {
                let mut snapshots = self.upkeep.snapshots.borrow_mut();
                let place = snapshots.partition_point(|(before, _)| *before <= at);
                snapshots.insert(place, (at, bytes.into()));
                assert!(
                    snapshots.iter().is_sorted_by_key(|(at, _)| *at),
                    "snapshots are in order"
                );
                false
            }
        }
    }

    /// Returns the snapshot that was taken when the segment at `base` began, until it is written.
    fn taken_snapshot(self, base: Offset) -> Option<Bytes> {
        let snapshots = self.upkeep.snapshots.borrow();
        let taken = snapshots.iter().find(|(offset, _)| *offset == base);
        taken.map(|(_, bytes)| bytes.clone())
    }

    fn forget_taken_snapshot(self, base: Offset) {
        let mut snapshots = self.upkeep.snapshots.borrow_mut();
        snapshots.retain(|(offset, _)| *offset != base);
    }

    /// Forgets snapshots of what is sealed or deleted.
    pub(super) fn forget_snapshots_upto(self, base: Offset) {
        let mut snapshots = self.upkeep.snapshots.borrow_mut();
        snapshots.retain(|(offset, _)| *offset > base);
    }

    /// Writes a snapshot of the producers as they were when the segment at `base` began.
    ///
    /// It leaves out those that have written since; the batches from `base` on have these.
    pub(super) async fn save_producers_as_of(self, base: Offset) -> Result<()> {
        let bytes = if let Some(taken) = self.taken_snapshot(base) {
            taken
        } else {
            let mut producers = self.0.producers_in_pieces().await;
            producers.retain(|producer| producer.last_offset < base);
            snapshot::encode(&producers).into()
        };
        self.write_snapshot(base, bytes).await?;
        Ok(())
    }

    async fn write_snapshot(self, offset: Offset, bytes: Bytes) -> Result<()> {
        let path = file_path(&self.folder, offset, Role::Snapshot);
        let replaced = self.store.disk().replace_file_by(&path, bytes).await;
        replaced.map_err(Error::io("write", &path))
    }

    async fn remove_snapshot_unless_needed(self, offset: Offset) {
        let is_base = self
            .segments
            .all()
            .iter()
            .any(|segment| segment.base == offset);
        if is_base || self.upkeep.saved.borrow().contains(&offset) {
            return;
        }
        let path = file_path(&self.folder, offset, Role::Snapshot);
        if let Err(error) = self.store.disk().remove_file(&path).await {
            tracing::debug!(path = %path.display(), %error, "an old producer snapshot stays");
        }
    }

    /// Removes the prepared file; a closed log leaves nothing behind.
    pub(super) async fn discard_prepared(self) {
        let Some(prepared) = self.take_prepared() else {
            return;
        };
        if let Err(error) = self.store.disk().remove_file(&prepared.path).await {
            tracing::debug!(path = %prepared.path.display(), %error, "a prepared file stays");
        }
        self.prepared_is_named();
    }
}

/// Returns up to where room is to be reserved for a segment of `size` bytes, if that is not
/// `allocated`.
///
/// It is as much again as there is, within bounds, and never beyond what the segment may hold.
fn room_wanted(size: u64, allocated: u64, step_bytes: u64, segment_bytes: u64) -> Option<u64> {
    let ahead = size.clamp(ALLOCATE_BYTES_MIN, step_bytes.max(ALLOCATE_BYTES_MIN));
    let segment_end = segment_bytes.next_multiple_of(BLOCK_BYTES as u64);
    let wanted = (size + ahead)
        .next_multiple_of(BLOCK_BYTES as u64)
        .min(segment_end);
    (allocated < segment_end && size + ahead / 2 > allocated && wanted > allocated)
        .then_some(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_reserved_ahead_in_growing_steps_up_to_the_end_of_the_segment() {
        let (step, segment) = (64 << 20, 1 << 30);
        assert_eq!(room_wanted(0, 0, step, segment), Some(64 << 10));
        assert_eq!(room_wanted(10, 64 << 10, step, segment), None);
        assert_eq!(room_wanted(1 << 20, 1 << 20, step, segment), Some(2 << 20));
        assert_eq!(
            room_wanted(512 << 20, 520 << 20, step, segment),
            Some(576 << 20)
        );
        assert_eq!(room_wanted(512 << 20, 560 << 20, step, segment), None);
        assert_eq!(
            room_wanted(1000 << 20, 1000 << 20, step, segment),
            Some(1 << 30)
        );
        assert_eq!(room_wanted(1023 << 20, 1 << 30, step, segment), None);
    }
}
