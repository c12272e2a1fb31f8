//! A log's segments away from home: which folders it has, what their paths' failures mean, and
//! where its next segment goes.
//!
//! Invariants: a segment that is not at home has a note at home (`.away`), durable before the
//! segment's own name is, and before a copy elsewhere goes: of several copies the note decides
//! which counts. A copy that no longer counts and could not be removed from another path is owed
//! (`.owed`), durably, before anything depends on its absence.
//! A failure on another path takes that path out of use, and latches the logs that write to it;
//! nothing else.
//! Without tiers everything is at home and nothing is noted.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use platform::Platform;
use platform::clock::Instant;
use platform::disk::Disk;
use platform::sync::Semaphore;
use wire::types::{Offset, Uuid};

use super::Log;
use super::files::remove;
use super::indexes::Indexes;
use super::open::folder::Folder;
use super::open::notes::{Debt, DebtList, NotedPlace, remove_away, remove_names, write_away};
use super::txn_index::TxnIndex;
use crate::error::{Error, FailureKind, Result};
use crate::log::views::{
    Debts, Flushing, Journaling, LogFolders, LogTiers, PathFailure, Retaining, Swapping,
};
use crate::segment::naming::{Role, away_path, file_path};
use crate::segment::{LoadedIndexes, Segment};
use crate::tier::{PathId, TierPath};

/// The state of a log's folders on other paths.
pub(super) struct LogTierState {
    /// Folders that are known to exist and to name the topic.
    pub(super) ready: RefCell<Vec<Rc<Path>>>,
    /// The holder may make a folder: two tasks at once would take each other's drafts for their
    /// own.
    pub(super) making: Semaphore,
    /// Paths whose folder was found not to be the log's, and until when they are skipped.
    // Bounded: by the paths.
    pub(super) passed_over: RefCell<Vec<(PathId, Instant)>>,
    /// The tier that an operator asked for, by base offset.
    asked: RefCell<BTreeMap<Offset, usize>>,
    /// The tiers' capacities do not bind this log.
    unbounded: Cell<bool>,
    /// Appends are refused because no path has room.
    refusing: Cell<bool>,
    /// What other paths owe; the files say the same, except for the base offsets in `unwritten`.
    pub(super) owed: RefCell<BTreeMap<Offset, DebtList>>,
    pub(super) unwritten: RefCell<BTreeSet<Offset>>,
    /// Where the absent segments are, and the folders with copies of them that do not count.
    absent: BTreeMap<Offset, NotedPlace>,
    shadows: BTreeMap<Offset, Vec<Rc<Path>>>,
    /// Files that were set aside elsewhere, by the base offset of their segment.
    // Bounded: by the files that a start found or made.
    pub(super) asides: RefCell<Vec<(Offset, PathBuf)>>,
}

impl LogTierState {
    pub(super) fn of(folder: &Folder) -> Self {
        Self {
            ready: RefCell::default(),
            making: Semaphore::new(1),
            passed_over: RefCell::default(),
            asked: RefCell::default(),
            unbounded: Cell::new(false),
            refusing: Cell::new(false),
            owed: RefCell::new(folder.owed.clone()),
            unwritten: RefCell::new(folder.unwritten.clone()),
            absent: folder.absent.clone(),
            shadows: folder.shadows.clone(),
            asides: RefCell::new(folder.asides.clone()),
        }
    }
}

impl<P: Platform> Log<P> {
    /// Returns true for the folder in the log directory.
    pub(crate) fn is_home(&self, folder: &Rc<Path>) -> bool {
        Rc::ptr_eq(folder, &self.folder) || *folder == self.folder
    }
}

impl<'a, P: Platform> PathFailure<'a, P> {
    fn path_of(self, error: &Error) -> Option<&'a TierPath> {
        let (Error::Io { path, .. } | Error::Full { path }) = error else {
            return None;
        };
        self.0.store.tiers()?.holding(path).map(|path| &**path)
    }
}

impl<P: Platform> PathFailure<'_, P> {
    /// Takes another path out of use after a failure there, and latches the logs that write to it.
    ///
    /// Returns false for a failure at home, and for one that concerns no path.
    pub(super) fn fail_path(self, error: &Error) -> bool {
        let Some(path) = self.path_of(error).filter(|path| path.dir() != self.dir) else {
            return false;
        };
        if error.kind() == FailureKind::Full {
            // A full path is not broken.
            return true;
        }
        if path.fail(&error.to_string()) {
            tracing::error!(dir = %path.dir().display(), %error, "a tier's path failed: nothing more is put on it");
        }
        self.store.health(path.dir()).fail(error);
        for log in self.store.logs() {
            if log.segments.are_written_to(path.dir()) {
                log.fail(error);
            }
        }
        true
    }

    /// Latches what a failure has made unusable: the log directory, or another path and the logs
    /// that write to it.
    pub(crate) fn fail_dir(self, error: &Error) {
        if error.kind() == FailureKind::Full {
            // A full directory is not broken.
            return;
        }
        if self.fail_path(error) {
            return;
        }
        if self.health.fail(error) {
            if let Some(home) = self
                .store
                .tiers()
                .and_then(|tiers| tiers.holding(&self.dir))
            {
                home.fail(&error.to_string());
            }
            Journaling(self.0).dir_failed(error);
            for log in self.store.logs() {
                if log.dir == self.dir {
                    log.tell();
                }
            }
        }
    }
}

impl<P: Platform> LogTiers<'_, P> {
    /// Returns the fastest and the slowest tier that the topic may be on.
    pub fn tier_pins(self) -> (usize, usize) {
        self.options().tier_pins.unwrap_or((0, usize::MAX))
    }

    /// Lets the log grow at home beyond the tiers' capacities, up to what the file system has.
    ///
    /// Without its records not even room could be made.
    pub fn ignore_capacities(self) {
        self.tiers.unbounded.set(true);
    }

    /// Returns true when no path has room for another segment, and the active one's path is full.
    pub fn is_without_room(self) -> bool {
        self.store.tiers().is_some()
            && !self.is_closed()
            && self.is_out_of_room(&self.segments.active())
            && self.folder_with_room().is_none()
    }

    /// Ends the report of missing room: the log takes no appends any more, with or without room.
    pub(super) fn refuses_no_more(self) {
        if self.tiers.refusing.replace(false) {
            self.health.end_full();
        }
    }

    /// Asks to move the segment that begins at `base` to a tier; returns false if there is none.
    ///
    /// The segment moves when it is sealed and the tier has room.
    pub fn ask_for_tier(self, base: Offset, tier: usize) -> bool {
        let segments = self.segments.all();
        let there = segments.iter().any(|segment| segment.base == base);
        if there {
            self.tiers.asked.borrow_mut().insert(base, tier);
        }
        there
    }

    /// Takes over the unfinished requests of the same log before it was closed and opened again.
    pub fn take_over_asks(self, before: &Log<P>) {
        for (base, tier) in before.tiers.asked.borrow().iter() {
            self.ask_for_tier(*base, *tier);
        }
    }

    /// Returns the base offsets of the sealed segments.
    pub fn sealed_bases(self) -> Vec<Offset> {
        let segments = self.segments.all();
        let sealed = segments.iter().filter(|segment| segment.is_sealed());
        sealed.map(|segment| segment.base).collect()
    }

    /// Returns the tier that an operator asked for, for the segment that begins at `base`.
    pub(crate) fn asked_tier(self, base: Offset) -> Option<usize> {
        self.tiers.asked.borrow().get(&base).copied()
    }

    /// Returns the bytes of the log on each tier path that has any; those on absent paths are not
    /// known.
    pub fn bytes_by_path(self) -> Vec<(PathId, u64)> {
        let mut found: Vec<(PathId, u64)> = Vec::new();
        for segment in self.segments.all().iter() {
            let Some(charge) = segment.charge() else {
                continue;
            };
            let id = charge.path().id;
            let size = segment.size();
            match found.iter_mut().find(|(path, _)| *path == id) {
                // Saturates: the sum is only displayed.
                Some((_, bytes)) => *bytes = bytes.saturating_add(size),
                None => found.push((id, size)),
            }
        }
        found
    }

    /// Returns the folder of this log on `path`.
    pub(crate) fn folder_on(self, path: &TierPath) -> Rc<Path> {
        if self.dir == path.dir() {
            return Rc::clone(&self.folder);
        }
        let name = self.folder.file_name().expect("a log's folder has a name");
        let folder = path.dir().join(name);
        let ready = self.tiers.ready.borrow();
        let known = ready.iter().find(|known| ***known == *folder);
        known.map_or_else(|| folder.into(), Rc::clone)
    }

    /// Returns an empty segment that begins at `base`, where new segments go; its file follows.
    pub(super) fn new_segment(self, base: Offset, now_ms: i64) -> Rc<Segment<P>> {
        let loaded = LoadedIndexes {
            indexes: Indexes::new(base, self.index_options()),
            aborted: TxnIndex::new(),
        };
        let folder = self.folder_for_new();
        let charge = self.store.charge(&folder, 0);
        Rc::new(Segment::fresh(folder, base, loaded, charge, now_ms))
    }

    /// Continues the log where new segments go.
    ///
    /// Its active segment is on a path that is being emptied, or on a slower path than necessary.
    pub(crate) async fn go_on_elsewhere(self) -> Result<()> {
        if self.segments.active().size() > 0 {
            return self.roll().await;
        }
        let gate = self.upkeep.gate.acquire().await;
        let _gate = gate.map_err(|_| Error::Closed)?;
        let _permit = Flushing(self.0).may_write().await?;
        let old = self.segments.active();
        if old.size() > 0 || self.is_closed() {
            return Ok(());
        }
        let new = self.new_segment(old.base, self.store.clock().wall_ms());
        if new.folder == old.folder {
            return Ok(());
        }
        // The name says where the log continues, and the note which of two counts: both are right
        // before an append writes.
        let named = async {
            Flushing(self.0).name_in_place_of(&new, &old).await?;
            Flushing(self.0).sync_names().await?;
            if self.is_home(&new.folder) {
                LogFolders(self.0).note_home(new.base, &old.folder).await?;
            }
            Ok(())
        };
        let named = named.await;
        // Records appended meanwhile are still in memory.
        let is_still_empty = old.size() == 0 && Rc::ptr_eq(&self.segments.active(), &old);
        if named.is_err() || !is_still_empty {
            LogFolders(self.0).stay_in(&old, &new).await;
            return named;
        }
        let event = self.segments.replace(std::slice::from_ref(&old), &new);
        self.segment_changed(&event);
        self.check_invariants();
        old.close_file();
        LogFolders(self.0).remove_empty(&old, &new.folder).await
    }

    /// Returns true when the segment's path has no room left: the next segment goes elsewhere, if
    /// anywhere.
    pub(super) fn is_out_of_room(self, segment: &Segment<P>) -> bool {
        segment.is_out_of_room() && !self.tiers.unbounded.get()
    }

    /// Returns the error of an append that finds no room on any path.
    ///
    /// It is reported once for all logs of the directory, like a file system without room.
    pub(super) fn refuse_for_room(self) -> Error {
        let path = self.folder.to_path_buf();
        let error = Error::Full { path };
        if !self.tiers.refusing.replace(true) {
            self.health.enter_full(&self.dir, &error);
        }
        error
    }

    /// Ends the refusal after an append has found room.
    pub(super) fn room_again(self) {
        if self.tiers.refusing.replace(false) {
            self.health.leave_full(&self.dir);
        }
    }

    /// Forgets what was asked for a segment that has been moved.
    pub(super) fn forget_asked(self, base: Offset) {
        self.tiers.asked.borrow_mut().remove(&base);
    }

    /// Returns the folder of the next segment.
    fn folder_for_new(self) -> Rc<Path> {
        // With no room anywhere, writes are refused at home until there is some.
        self.folder_with_room()
            .unwrap_or_else(|| Rc::clone(&self.folder))
    }

    /// Returns the folder of the next segment; `None` when nothing has room.
    pub(super) fn folder_with_room(self) -> Option<Rc<Path>> {
        let Some(tiers) = self.store.tiers() else {
            return Some(Rc::clone(&self.folder));
        };
        let home = tiers.holding(&self.folder).map(|path| path.id);
        let placed = tiers.place(home, self.tier_pins(), &LogFolders(self.0).passed_over())?;
        Some(self.folder_on(placed))
    }

    /// Returns true for a folder on a path that has failed.
    pub(super) fn is_on_failed_path(self, folder: &Path) -> bool {
        let path = self.store.tiers().and_then(|tiers| tiers.holding(folder));
        path.is_some_and(|path| path.dir() != self.dir && path.failed().is_some())
    }
}

impl<P: Platform> LogFolders<'_, P> {
    /// Notes that names in `folder` have changed: it is synced before what follows counts.
    pub(crate) fn note_changed(self, folder: &Rc<Path>) {
        let elsewhere = (!self.is_home(folder)).then_some(folder);
        self.flush.names.note(elsewhere);
    }

    /// Returns the directory that a folder is in, as a note names it.
    pub(super) fn place_of_folder(self, base: Offset, folder: &Path) -> NotedPlace {
        let path = self.store.tiers().and_then(|tiers| tiers.holding(folder));
        let absent = self.tiers.absent.get(&base);
        match (path, absent) {
            // A note with its id in its name says nothing of the directory: its folder has no
            // parent.
            (_, Some(place)) if folder.parent() == Some(&place.dir) => place.clone(),
            (Some(path), _) => NotedPlace::of(path),
            (None, _) => NotedPlace {
                id: None,
                dir: folder
                    .parent()
                    .expect("a log's folder lies in a directory")
                    .to_path_buf(),
            },
        }
    }

    pub(crate) async fn sync_folder(self, folder: &Path) -> Result<()> {
        let synced = self.store.disk().sync_dir(folder).await;
        synced.map_err(Error::dir_sync(folder))
    }

    /// Writes the note that the segment at `base` is in `folder`; debts stay, and win over the
    /// note.
    pub(crate) async fn write_note(self, base: Offset, folder: &Path) -> Result<()> {
        let place = self.place_of_folder(base, folder);
        let disk = self.store.disk();
        write_away(disk, &self.folder, base, &place, &self.path_ids()).await
    }

    /// Makes a folder on another path, and a note at home that the segment at `base` is in it.
    ///
    /// Without room for the note the segment is not begun: a start without that path would continue
    /// where the log seems to end, and assign offsets that have records.
    pub(crate) async fn prepare_folder(self, folder: &Rc<Path>, base: Offset) -> Result<()> {
        self.make_folder(folder).await?;
        self.pass_over_asides(base, folder).await?;
        self.note_away(base, folder).await
    }

    /// Returns home, and the other folders that segments are in.
    pub(super) fn folders(self) -> Vec<Rc<Path>> {
        let mut folders = vec![Rc::clone(&self.folder)];
        for segment in self.segments.all().iter() {
            if !segment.is_absent() && !folders.contains(&segment.folder) {
                folders.push(Rc::clone(&segment.folder));
            }
        }
        folders
    }

    /// Notes that the files of a segment have lost their names.
    pub(super) async fn note_gone(self, segment: &Segment<P>) -> Result<()> {
        self.note_changed(&segment.folder);
        if self.is_home(&segment.folder) {
            return Ok(());
        }
        self.remove_note(segment.base, &segment.folder).await?;
        // A note that came back would count.
        self.flush.names.note(None);
        Ok(())
    }

    async fn remove_note(self, base: Offset, folder: &Rc<Path>) -> Result<()> {
        // The note may be all that says that a copy elsewhere does not count.
        Debts(self.0).write_unwritten(base).await?;
        let id = self.place_of_folder(base, folder).id;
        remove_away(self.store.disk(), &self.folder, base, id).await
    }

    /// Takes the names from a segment's files, the data file first; returns the files to be
    /// removed.
    ///
    /// It is durable unless the segment is at home. A copy that another path does not release no
    /// longer counts, and is owed.
    pub(super) async fn unname(self, segment: &Segment<P>) -> Result<Vec<PathBuf>> {
        let mut unnamed = Vec::new();
        if segment.is_absent() {
            self.drop_absent(segment).await?;
            return Ok(unnamed);
        }
        let at_home = self.is_home(&segment.folder);
        let result = async {
            if !at_home {
                self.pass_over_asides(segment.base, &segment.folder).await?;
                Swapping(self.0).remove_swap(segment).await?;
            }
            unnamed.extend(Retaining(self.0).rename_deleted(segment, Role::Log).await?);
            if at_home {
                // The caller syncs the names.
                return Ok(());
            }
            for role in [Role::OffsetIndex, Role::TimeIndex, Role::TxnIndex] {
                unnamed.extend(Retaining(self.0).rename_deleted(segment, role).await?);
            }
            self.sync_folder(&segment.folder).await
        };
        self.gone_or_owed(segment, result.await).await?;
        Ok(unnamed)
    }

    /// Takes a segment out of the notes: its files are gone (durably, if they were elsewhere) or
    /// owed.
    pub(super) async fn gone_or_owed(self, segment: &Segment<P>, gone: Result<()>) -> Result<()> {
        self.flush.names.note(None);
        if self.is_home(&segment.folder) {
            return gone;
        }
        if let Err(error) = gone {
            if error.is_exhausted() {
                // A shortage passes: the caller tries again.
                return Err(error);
            }
            PathFailure(self.0).fail_path(&error);
            Debts(self.0)
                .owe(Debt::Copy, segment.base, &segment.folder)
                .await?;
        }
        self.remove_note(segment.base, &segment.folder).await
    }

    /// Takes a segment on an absent path out of the log; its files go when the path is back.
    async fn drop_absent(self, segment: &Segment<P>) -> Result<()> {
        let base = segment.base;
        Debts(self.0).owe(Debt::Copy, base, &segment.folder).await?;
        let shadows = self.tiers.shadows.get(&base);
        for folder in shadows.into_iter().flatten() {
            let removed = async {
                for role in [
                    Role::Log,
                    Role::OffsetIndex,
                    Role::TimeIndex,
                    Role::TxnIndex,
                ] {
                    remove(self.store.disk(), &file_path(folder, base, role)).await?;
                }
                self.sync_folder(folder).await
            };
            match removed.await {
                Err(error) if !self.is_home(folder) => {
                    PathFailure(self.0).fail_path(&error);
                    Debts(self.0).owe(Debt::Copy, base, folder).await?;
                }
                removed => removed?,
            }
        }
        self.flush.names.note(None);
        self.remove_note(base, &segment.folder).await
    }

    /// Notes at home that the segment at `base` is in `folder`, and clears that folder's debt;
    /// durable when it returns.
    pub(super) async fn note_away(self, base: Offset, folder: &Path) -> Result<()> {
        Debts(self.0).owe_no_more(base, folder).await?;
        self.write_note(base, folder).await
    }

    /// Returns the ids of the directories that a note may name.
    fn path_ids(self) -> Vec<Uuid> {
        let paths = self.store.paths_away_from(&self.folder);
        paths.iter().filter_map(|path| path.identity()).collect()
    }

    /// Notes that the segment at `base` is at home, whatever is left of it in `from`; durable when
    /// it returns.
    pub(super) async fn note_home(self, base: Offset, from: &Rc<Path>) -> Result<()> {
        Debts(self.0).owe(Debt::Copy, base, from).await?;
        if let Err(error) = self.remove_note(base, from).await {
            // The debt wins over the note that stays.
            tracing::warn!(partition = %self.partition, %error, "a note that says nothing stays");
        }
        Ok(())
    }

    /// Notes again that the segment at `base` is in `folder`, after a failed write of another note,
    /// which may exist.
    pub(super) async fn note_as_before(self, base: Offset, folder: &Rc<Path>) -> Result<()> {
        let place = self.place_of_folder(base, folder);
        let mut owed = Debts(self.0).owed_of(base);
        // A debt may by now say that this copy does not count.
        owed.retain(|(owing, other)| *owing != Debt::Copy || *other != place);
        Debts(self.0).set_owed(base, owed).await?;
        let disk = self.store.disk();
        if !self.is_home(folder) {
            return write_away(disk, &self.folder, base, &place, &self.path_ids()).await;
        }
        // A note with its id in its name counts: a text beside it is of an earlier place, and goes
        // first.
        remove(disk, &away_path(&self.folder, base)).await?;
        self.sync_folder(&self.folder).await?;
        remove_names(disk, &self.folder, base, &self.path_ids(), None).await
    }

    /// Continues the log in `old`, which has no written bytes yet, and removes `new`, which was to
    /// take its place.
    ///
    /// Home notes `old` before `new` goes, durably. A lack of room is waited out.
    pub(super) async fn stay_in(self, old: &Segment<P>, new: &Segment<P>) {
        new.close_file();
        let undo = async || {
            let noted = async || self.note_as_before(old.base, &old.folder).await;
            Swapping(self.0).insist(noted).await?;
            Swapping(self.0)
                .insist(async || self.remove_empty(new, &old.folder).await)
                .await
        };
        if let Err(error) = Flushing(self.0).patiently(undo).await {
            // A start could continue in a segment that does not exist.
            self.fail(&error);
        }
    }

    /// Removes the file of an empty segment that does not count; the one in `counts` does.
    pub(super) async fn remove_empty(self, gone: &Segment<P>, counts: &Path) -> Result<()> {
        if self.was_refused(gone) {
            return Ok(());
        }
        let removed = remove(self.store.disk(), &gone.path(Role::Log)).await;
        if self.is_home(&gone.folder) {
            removed?;
            self.note_changed(&gone.folder);
            return Flushing(self.0).sync_names().await;
        }
        let synced = match (&removed, self.sync_folder(&gone.folder).await) {
            // The folder does not exist, so the file was never made.
            (Ok(()), Err(Error::Io { source, .. })) if source.kind() == ErrorKind::NotFound => {
                Ok(())
            }
            (_, synced) => synced,
        };
        match removed.and(synced) {
            Ok(()) => {
                Debts(self.0)
                    .owe_no_move(gone.base, &gone.folder, counts)
                    .await
            }
            Err(error) => {
                PathFailure(self.0).fail_path(&error);
                Debts(self.0).owe(Debt::Copy, gone.base, &gone.folder).await
            }
        }
    }
}
