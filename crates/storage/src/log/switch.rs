//! Moves one sealed segment to another path: copy, verify, sync, rename, switch, drain its readers,
//! remove.
//!
//! The copy is made beside everything else; only naming it and the switch hold the gate, as
//! compaction and retention do. Invariants: at every moment at least one complete, synced copy has
//! the segment's name, and outside of the gate only one. Whatever happens to the segment meanwhile
//! (truncated, deleted, compacted, log closed) ends the move and removes the copy; so does a
//! restart. Reads of the old copy read it to the end: its files lose their names at once, and are
//! removed when the last reader has let go.
//! A segment in which damage is found is taken offline: neither copied nor removed, and its reads
//! are refused.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use platform::Platform;
use platform::disk::{Disk, IoClass};
use platform::task;
use wire::types::Offset;

use super::files::{remove, remove_in_pieces};
use super::open::notes::Debt;
use crate::error::{Error, FailureKind, Result};
use crate::log::views::{
    Debts, Flushing, LogFolders, LogReader, LogTiers, Moving, PathFailure, Retaining,
};
use crate::segment::Segment;
use crate::segment::load::SavedIndexes;
use crate::segment::naming::{Role, file_path, moving_path};
use crate::tier::copy::{self, Original, Trouble};
use crate::tier::table::Charge;
use crate::tier::{TierPath, TierTable};

/// A segment's files, the data file last: its name completes the copy.
const ROLES: [Role; 4] = [
    Role::OffsetIndex,
    Role::TimeIndex,
    Role::TxnIndex,
    Role::Log,
];
/// Interval of the looks for readers of the old copy, at most `DRAIN_LOOKS` of them.
const DRAIN_INTERVAL: Duration = Duration::from_millis(20);
const DRAIN_LOOKS: usize = 3000;

/// A move under way.
struct SegmentMove<P: Platform> {
    segment: Rc<Segment<P>>,
    /// How often the segment had been truncated when the copy began.
    cuts: u32,
    to: Arc<TierPath>,
    folder: Rc<Path>,
    class: IoClass,
}

impl<P: Platform> Moving<'_, P> {
    /// Moves the sealed segment that begins at `base` to a path; returns how many bytes that were.
    pub(crate) async fn move_segment(
        self,
        base: Offset,
        to: &Arc<TierPath>,
        class: IoClass,
    ) -> Result<u64, Trouble> {
        let (Some(tiers), Some(segment)) = (self.store.tiers(), self.movable(base)) else {
            return Err(Trouble::Overtaken);
        };
        let folder = LogTiers(self.0).folder_on(to);
        if segment.folder == folder || LogFolders(self.0).passed_over().contains(&to.id) {
            return Err(Trouble::Overtaken);
        }
        segment.begin_move();
        let carried = SegmentMove {
            cuts: segment.cuts(),
            segment: Rc::clone(&segment),
            to: Arc::clone(to),
            folder,
            class,
        };
        let size = segment.size();
        let from = segment.charge().map(Charge::path);
        to.arriving.fetch_add(size, Ordering::Relaxed);
        if let Some(from) = from {
            from.leaving.fetch_add(size, Ordering::Relaxed);
        }
        let result = self.carry(tiers, &carried).await;
        let arriving = to.arriving.fetch_sub(size, Ordering::Relaxed);
        assert!(arriving >= size, "what has arrived was on its way");
        if let Some(from) = from {
            let leaving = from.leaving.fetch_sub(size, Ordering::Relaxed);
            assert!(leaving >= size, "what has left was about to");
        }
        segment.end_move();
        let Err(mut trouble) = result else {
            return Ok(size);
        };
        if !self.goes_on(&carried) {
            // What is being deleted cannot be read or written to, which is not a fault of a path.
            trouble = Trouble::Overtaken;
        }
        self.remove_unnamed(&carried).await;
        self.note_trouble(&carried, &trouble);
        Err(trouble)
    }

    /// Returns the sealed segment that begins at `base`, if it may be moved now.
    fn movable(self, base: Offset) -> Option<Rc<Segment<P>>> {
        let found = self.segments.at(base)?;
        let sealed = found.is_sealed() && !found.are_names_lent() && !found.is_moving();
        let may = sealed && !found.is_offline() && !self.is_closed();
        may.then_some(found)
    }

    /// Returns true while the segment is the one that the copy was begun of, and its path has not
    /// failed.
    fn goes_on(self, carried: &SegmentMove<P>) -> bool {
        let SegmentMove { segment, cuts, .. } = carried;
        let same = segment.cuts() == *cuts && segment.is_sealed() && !segment.are_names_lent();
        let stopping = self.is_closed() || self.flush.is_held();
        same && !stopping && carried.to.failed().is_none()
    }

    async fn carry(self, tiers: &TierTable, carried: &SegmentMove<P>) -> Result<(), Trouble> {
        let SegmentMove {
            segment, folder, ..
        } = carried;
        let disk = self.store.disk();
        if !self.is_home(folder) {
            let ready = LogFolders(self.0).make_folder(folder).await;
            ready.map_err(|error| match error {
                // No path is at fault, and the reason is already logged.
                Error::Taken { .. } => Trouble::Overtaken,
                error => Trouble::Target(error),
            })?;
        }
        LogReader(self.0)
            .load(segment)
            .await
            .map_err(Trouble::Source)?;
        let saved = SavedIndexes::of(segment).ok_or(Trouble::Overtaken)?;
        let file = segment.file(disk).await.map_err(Trouble::Source)?;
        let started = self.store.clock().now();
        let data = Original {
            file: &file,
            path: &segment.path(Role::Log),
            base: segment.base,
            size: segment.size(),
            sealed_ms: segment.sealed_ms(),
            class: carried.class,
        };
        let target = moving_path(folder, segment.base, Role::Log);
        let size = data.size;
        let goes_on = || self.goes_on(carried);
        copy::data(&self.store, data, &target, &tiers.rate, goes_on).await?;
        // Saturates after 584,000 years.
        let micros = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        carried.to.note_written(size, micros);
        for (role, bytes) in saved.files() {
            let path = moving_path(folder, segment.base, role);
            let written = disk.replace_file(&path, bytes).await;
            written.map_err(|error| Trouble::Target(Error::io("write", &path)(error)))?;
        }
        let gate = self.upkeep.gate.acquire().await;
        let _gate = gate.map_err(|_| Trouble::Overtaken)?;
        if self.segments.place_of(segment).is_none() || !self.goes_on(carried) {
            return Err(Trouble::Overtaken);
        }
        segment.lend_names();
        let named = self.name_copy(carried).await;
        if let Err(trouble) = &named {
            segment.names_back();
            // With the gate held: no other segment of the log can have these names.
            if self.is_unnoted(carried, trouble).await {
                self.take_copy_back(carried).await;
            }
        }
        named?;
        self.switch(carried);
        self.unname_source(carried).await;
        Ok(())
    }

    /// Gives the copy its names, durably, with a note at home before anything else can depend on
    /// it.
    async fn name_copy(self, carried: &SegmentMove<P>) -> Result<(), Trouble> {
        let SegmentMove {
            segment, folder, ..
        } = carried;
        let disk = self.store.disk();
        let target = |error| Trouble::Target(error);
        // Readers of the old copy keep its file and indexes.
        LogReader(self.0)
            .load(segment)
            .await
            .map_err(Trouble::Source)?;
        let held = segment.file(disk).await;
        held.map_err(Trouble::Source)?;
        let is_home = self.is_home(folder);
        if !is_home {
            let owed = Debts(self.0).owe_move(segment.base, &segment.folder, folder);
            owed.await.map_err(Trouble::Home)?;
        }
        for role in ROLES {
            let to = file_path(folder, segment.base, role);
            let from = moving_path(folder, segment.base, role);
            match disk.rename(&from, &to).await {
                Err(error)
                    if role == Role::TxnIndex && error.kind() == std::io::ErrorKind::NotFound =>
                {
                    // A segment without aborted transactions has no index of them; an old one would
                    // hide records.
                    remove(disk, &to).await.map_err(target)?;
                }
                renamed => renamed
                    .map_err(Error::io("rename", &from))
                    .map_err(target)?,
            }
        }
        let synced = disk.sync_dir(folder).await;
        synced.map_err(Error::dir_sync(folder)).map_err(target)?;
        // From here on the copy is the segment, whatever becomes of the other one.
        let noted = if is_home {
            LogFolders(self.0)
                .note_home(segment.base, &segment.folder)
                .await
        } else {
            LogFolders(self.0).write_note(segment.base, folder).await
        };
        noted.map_err(Trouble::Home)
    }

    /// Returns true when home says, for certain, that the old copy counts.
    ///
    /// If it cannot be known which one does, both stay and the log is latched.
    async fn is_unnoted(self, carried: &SegmentMove<P>, trouble: &Trouble) -> bool {
        let segment = &carried.segment;
        let Trouble::Home(error) = trouble else {
            return true;
        };
        let noted = async || {
            LogFolders(self.0)
                .note_as_before(segment.base, &segment.folder)
                .await
        };
        match Flushing(self.0).patiently(noted).await {
            Ok(()) => true,
            // Nothing was written.
            Err(again)
                if again.kind() == FailureKind::Full && error.kind() == FailureKind::Full =>
            {
                true
            }
            Err(_) => {
                self.fail(error);
                false
            }
        }
    }

    /// Replaces the segment in the list, for reads from now on.
    fn switch(self, carried: &SegmentMove<P>) {
        let SegmentMove {
            segment: old,
            folder,
            ..
        } = carried;
        let charge = self.store.charge(folder, old.size());
        let now_ms = self.store.clock().wall_ms();
        let new = Segment::moved(old, Rc::clone(folder), charge, now_ms);
        let event = self.segments.moved(old, &Rc::new(new));
        self.segment_changed(&event);
        self.check_invariants();
    }

    /// Takes the names from the old copy, durably, and removes it when its last reader is gone.
    ///
    /// A failure leaves a copy that does not count, which its path owes; nothing more is put on
    /// that path.
    async fn unname_source(self, carried: &SegmentMove<P>) {
        let old = &carried.segment;
        let mut unnamed = Vec::new();
        let result: Result<()> = async {
            unnamed.extend(Retaining(self.0).rename_deleted(old, Role::Log).await?);
            for role in [Role::OffsetIndex, Role::TimeIndex, Role::TxnIndex] {
                unnamed.extend(Retaining(self.0).rename_deleted(old, role).await?);
            }
            Flushing(self.0)
                .patiently(async || LogFolders(self.0).sync_folder(&old.folder).await)
                .await
        }
        .await;
        let result = match result {
            // There is no room for another name. Removing the name needs none, and readers have the
            // file open.
            Err(error) if error.kind() == FailureKind::Full && self.is_home(&old.folder) => {
                self.remove_names_of(old).await
            }
            result => result,
        };
        if let Err(error) = &result {
            tracing::error!(partition = %self.partition, %error, "a segment has moved, and its old copy stays");
            PathFailure(self.0).fail_dir(error);
            if self.is_home(&old.folder) {
                // Home owes nothing: when the note goes with the segment, this copy would be taken
                // for it.
                self.fail(error);
            }
        }
        let at_home = self.is_home(&old.folder);
        let noted = if result.is_ok() || at_home {
            let (from, to) = (&old.folder, &carried.folder);
            Debts(self.0).owe_no_move(old.base, from, to).await
        } else {
            let owed = Debts(self.0).owe(Debt::Copy, old.base, &old.folder).await;
            if owed.is_err() {
                // The note of where the segment is says the same while it exists.
                Debts(self.0).owe_unwritten(old.base, &old.folder);
            }
            owed
        };
        if let Err(error) = noted {
            tracing::warn!(partition = %self.partition, %error, "what a path owes was not noted");
        }
        self.remove_when_unread(Rc::clone(old), unnamed);
    }

    async fn remove_names_of(self, old: &Segment<P>) -> Result<()> {
        Flushing(self.0)
            .patiently(async || {
                for role in ROLES.into_iter().rev() {
                    remove(self.store.disk(), &file_path(&old.folder, old.base, role)).await?;
                }
                LogFolders(self.0).sync_folder(&old.folder).await
            })
            .await
    }

    fn remove_when_unread(self, old: Rc<Segment<P>>, paths: Vec<PathBuf>) {
        let store = self.store.clone();
        task::spawn(async move {
            for _ in 0..DRAIN_LOOKS {
                if Rc::strong_count(&old) == 1 {
                    break;
                }
                store.clock().sleep(DRAIN_INTERVAL).await;
            }
            old.close_file();
            for path in paths {
                if let Err(error) = remove_in_pieces(store.disk(), &path).await {
                    // The next start removes it.
                    tracing::warn!(%error, "a file of a segment that has moved stays");
                }
            }
            drop(old);
            store.shared.room_made.notify_waiters();
        });
    }

    /// Removes a copy that may have its names and must not count, durably.
    ///
    /// If it came back after a power loss, it would be a stale copy of the segment. What cannot be
    /// removed is owed.
    async fn take_copy_back(self, carried: &SegmentMove<P>) {
        let (base, folder) = (carried.segment.base, &carried.folder);
        let gone = Flushing(self.0).patiently(async || {
            for role in ROLES.into_iter().rev() {
                remove(self.store.disk(), &file_path(folder, base, role)).await?;
            }
            LogFolders(self.0).sync_folder(folder).await
        });
        let Err(error) = gone.await else {
            let counts = &carried.segment.folder;
            if let Err(error) = Debts(self.0).owe_no_move(base, folder, counts).await {
                tracing::debug!(partition = %self.partition, %error, "what a path has paid stays noted");
            }
            return;
        };
        tracing::error!(partition = %self.partition, %error, "the copy of a segment that has not moved stays");
        PathFailure(self.0).fail_dir(&error);
        if !self.is_home(folder)
            && let Err(error) = Debts(self.0).owe(Debt::Copy, base, folder).await
        {
            // A start could take one copy for the other.
            self.fail(&error);
        }
    }

    /// Removes what there is of a copy that has no names.
    async fn remove_unnamed(self, carried: &SegmentMove<P>) {
        if !self.is_home(&carried.folder) && !LogFolders(self.0).is_ready(&carried.folder) {
            // Nothing was made there.
            return;
        }
        // The data file first: without it the rest does not count.
        for role in ROLES.into_iter().rev() {
            let path = moving_path(&carried.folder, carried.segment.base, role);
            if let Err(error) = remove(self.store.disk(), &path).await {
                tracing::warn!(%error, "an unfinished copy stays; the next start removes it");
            }
        }
    }

    fn note_trouble(self, carried: &SegmentMove<P>, trouble: &Trouble) {
        let segment = &carried.segment;
        let file = segment.path(Role::Log);
        match trouble {
            Trouble::Overtaken => {}
            Trouble::Damaged(damage) => {
                segment.take_offline(damage.reason);
                self.store.shared.metrics.corruptions.inc();
                tracing::error!(file = %file.display(), position = damage.position, reason = damage.reason,
                    "a segment is damaged: it is left where it is, and not served");
            }
            Trouble::Source(error) => {
                tracing::warn!(file = %file.display(), %error, "a segment cannot be read, and stays");
            }
            Trouble::Home(error) => {
                tracing::warn!(partition = %self.partition, %error, "where a segment is to be cannot be noted: it stays");
            }
            Trouble::Target(error) => {
                let dir = carried.to.dir().display();
                if matches!(error, Error::Full { .. }) {
                    carried.to.note_full();
                    tracing::warn!(%dir, "no room for a segment that was to be moved");
                } else if error.is_exhausted() {
                    tracing::warn!(%dir, %error, "a segment is not moved just now");
                } else if carried.to.fail(&error.to_string()) {
                    tracing::error!(%dir, %error, "a tier's path failed: nothing more is put on it");
                }
            }
        }
    }
}
