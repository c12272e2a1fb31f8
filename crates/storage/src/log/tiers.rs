//! A log's segments away from home: which folders it has, what their paths' failures mean, and where its next segment goes.
//!
//! Invariants: a segment that is not at home has a note there (`.away`), durable before the segment's own name is, and
//! before a copy elsewhere goes: of several copies it decides which counts. What does not count any more and could not be
//! removed from another path is owed (`.owed`), durably, before anything depends on its absence.
//! A failure on another path takes that path out of use, and what is being written there; nothing else.
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
use super::open::notes::{Owed, Owing, Place, remove_away, remove_names, write_away};
use super::txn_index::TxnIndex;
use crate::error::{Error, Kind, Result};
use crate::log::views::{Debts, Flushing, LogFolders, LogTiers, PathFailure, Retaining, Swapping};
use crate::segment::naming::{Role, away_path, file_path};
use crate::segment::{Loaded, Segment};
use crate::tier::{PathId, TierPath};

/// What a log knows of its folders on other paths.
pub(super) struct State {
    /// Folders that are known to be there and to name the topic.
    pub(super) ready: RefCell<Vec<Rc<Path>>>,
    /// Whoever holds it may make one: two at a time would take each other's drafts for their own.
    pub(super) making: Semaphore,
    /// Paths on which the folder was found not to be the log's, and until when it is not looked at again.
    // Bounded: by the paths.
    pub(super) passed_over: RefCell<Vec<(PathId, Instant)>>,
    /// Where an operator wants segments, by base offset.
    asked: RefCell<BTreeMap<Offset, usize>>,
    /// Capacities of tiers do not bind it.
    unbounded: Cell<bool>,
    /// Appends are refused since no path has room.
    refusing: Cell<bool>,
    /// What other paths owe, as files say, but for those that could not be written.
    pub(super) owed: RefCell<BTreeMap<Offset, Owed>>,
    pub(super) unwritten: RefCell<BTreeSet<Offset>>,
    /// Where the segments are that are absent, and the folders with copies of them that do not count.
    absent: BTreeMap<Offset, Place>,
    shadows: BTreeMap<Offset, Vec<Rc<Path>>>,
    /// What was set aside elsewhere, by the base offset of its segment.
    // Bounded: by the files that a start found or made.
    pub(super) asides: RefCell<Vec<(Offset, PathBuf)>>,
}

impl State {
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
    /// True for the folder in the log directory.
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
    /// Takes another path out of use after a failure there, and latches the logs that are being written to it. False for
    /// a failure at home, and for one of no path.
    pub(super) fn fail_path(self, error: &Error) -> bool {
        let Some(path) = self.path_of(error).filter(|path| path.dir() != self.dir) else {
            return false;
        };
        if error.kind() == Kind::Full {
            // Nothing of it is broken.
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

    /// Latches what a failure has made unusable: the log directory, or another path and whatever is being written there.
    pub(crate) fn fail_dir(self, error: &Error) {
        if error.kind() == Kind::Full {
            // Nothing of the directory is broken.
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
            for log in self.store.logs() {
                if log.dir == self.dir {
                    log.tell();
                }
            }
        }
    }
}

impl<P: Platform> LogTiers<'_, P> {
    /// The tiers that the topic may be on, fastest and slowest.
    pub fn tier_pins(self) -> (usize, usize) {
        self.options().tier_pins.unwrap_or((0, usize::MAX))
    }

    /// Lets the log grow at home beyond what the tiers' capacities allow: without its records room could not even be
    /// made. What the file system has bounds it all the same.
    pub fn ignore_capacities(self) {
        self.tiers.unbounded.set(true);
    }

    /// True when no path has room for another segment, and the one of the active segment has nothing left.
    pub fn is_without_room(self) -> bool {
        self.store.tiers().is_some()
            && !self.is_closed()
            && self.is_out_of_room(&self.segments.active())
            && self.folder_with_room().is_none()
    }

    /// The log takes no appends any more, room or not.
    pub(super) fn refuses_no_more(self) {
        if self.tiers.refusing.replace(false) {
            self.health.end_full();
        }
    }

    /// Asks for the sealed segment that begins at `base` to be moved to a tier when there is room; false if there is none.
    pub fn ask_for_tier(self, base: Offset, tier: usize) -> bool {
        let segments = self.segments.all();
        let there = segments.iter().any(|segment| segment.base == base);
        if there {
            self.tiers.asked.borrow_mut().insert(base, tier);
        }
        there
    }

    /// Asks again for what was asked of the same log before it was closed and opened, and is not done yet.
    pub fn take_over_asks(self, before: &Log<P>) {
        for (base, tier) in before.tiers.asked.borrow().iter() {
            self.ask_for_tier(*base, *tier);
        }
    }

    /// Where the sealed segments begin.
    pub fn sealed_bases(self) -> Vec<Offset> {
        let segments = self.segments.all();
        let sealed = segments.iter().filter(|segment| segment.is_sealed());
        sealed.map(|segment| segment.base).collect()
    }

    /// Where an operator wants the segment that begins at `base`.
    pub(crate) fn asked_tier(self, base: Offset) -> Option<usize> {
        self.tiers.asked.borrow().get(&base).copied()
    }

    /// Bytes of the log on each path that has any, with tiers; what is on absent paths is not known.
    pub fn bytes_by_path(self) -> Vec<(PathId, u64)> {
        let mut found: Vec<(PathId, u64)> = Vec::new();
        for segment in self.segments.all().iter() {
            let Some(charge) = segment.charge() else {
                continue;
            };
            let id = charge.path().id;
            let size = segment.size();
            match found.iter_mut().find(|(path, _)| *path == id) {
                // Saturates: a sum for people.
                Some((_, bytes)) => *bytes = bytes.saturating_add(size),
                None => found.push((id, size)),
            }
        }
        found
    }

    /// The folder of this log on `path`.
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

    /// An empty segment that begins at `base`, where new ones go. Its file follows.
    pub(super) fn new_segment(self, base: Offset, now_ms: i64) -> Rc<Segment<P>> {
        let loaded = Loaded {
            indexes: Indexes::new(base, self.index_options()),
            aborted: TxnIndex::new(),
        };
        let folder = self.folder_for_new();
        let charge = self.store.charge(&folder, 0);
        Rc::new(Segment::fresh(folder, base, loaded, charge, now_ms))
    }

    /// Has the log go on where new segments go: its active segment stands on a path that is left, or on a slower one
    /// than it need be.
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
        // The name says where the log goes on, and the note which of two counts: both are right before anybody writes.
        let named = async {
            Flushing(self.0).name_in_place_of(&new, &old).await?;
            Flushing(self.0).sync_names().await?;
            if self.is_home(&new.folder) {
                LogFolders(self.0).note_home(new.base, &old.folder).await?;
            }
            Ok(())
        };
        let named = named.await;
        // Appends that came meanwhile are in memory still.
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

    /// True when the segment's path has nothing left: what comes next goes elsewhere, if anywhere.
    pub(super) fn is_out_of_room(self, segment: &Segment<P>) -> bool {
        segment.is_out_of_room() && !self.tiers.unbounded.get()
    }

    /// Why an append is refused that finds no room anywhere. Said once for all logs of the directory, as of a file system
    /// without room.
    pub(super) fn refuse_for_room(self) -> Error {
        let path = self.folder.to_path_buf();
        let error = Error::Full { path };
        if !self.tiers.refusing.replace(true) {
            self.health.enter_full(&self.dir, &error);
        }
        error
    }

    /// An append has found room.
    pub(super) fn room_again(self) {
        if self.tiers.refusing.replace(false) {
            self.health.leave_full(&self.dir);
        }
    }

    /// The segment has been moved: what was asked for is done.
    pub(super) fn forget_asked(self, base: Offset) {
        self.tiers.asked.borrow_mut().remove(&base);
    }

    /// Where the next segment goes.
    fn folder_for_new(self) -> Rc<Path> {
        // With no room anywhere it is at home that writes are refused until there is.
        self.folder_with_room()
            .unwrap_or_else(|| Rc::clone(&self.folder))
    }

    /// Where the next segment goes; `None`: nothing has room.
    pub(super) fn folder_with_room(self) -> Option<Rc<Path>> {
        let Some(tiers) = self.store.tiers() else {
            return Some(Rc::clone(&self.folder));
        };
        let home = tiers.holding(&self.folder).map(|path| path.id);
        let placed = tiers.place(home, self.tier_pins(), &LogFolders(self.0).passed_over())?;
        Some(self.folder_on(placed))
    }

    /// True for a folder on a path that has failed.
    pub(super) fn is_on_failed_path(self, folder: &Path) -> bool {
        let path = self.store.tiers().and_then(|tiers| tiers.holding(folder));
        path.is_some_and(|path| path.dir() != self.dir && path.failed().is_some())
    }
}

impl<P: Platform> LogFolders<'_, P> {
    /// Names in `folder` have changed: it is synced before what follows counts.
    pub(crate) fn note_changed(self, folder: &Rc<Path>) {
        let elsewhere = (!self.is_home(folder)).then_some(folder);
        self.flush.names.note(elsewhere);
    }

    /// The directory that a folder is in.
    pub(super) fn place_of_folder(self, base: Offset, folder: &Path) -> Place {
        let path = self.store.tiers().and_then(|tiers| tiers.holding(folder));
        let absent = self.tiers.absent.get(&base);
        match (path, absent) {
            // Where a note by name says nothing of the directory, its folder is without one.
            (_, Some(place)) if folder.parent() == Some(&place.dir) => place.clone(),
            (Some(path), _) => Place::of(path),
            (None, _) => Place {
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

    /// The same, whatever is owed of it: that wins over the note.
    pub(crate) async fn write_note(self, base: Offset, folder: &Path) -> Result<()> {
        let place = self.place_of_folder(base, folder);
        let disk = self.store.disk();
        write_away(disk, &self.folder, base, &place, &self.path_ids()).await
    }

    /// Sees to it that a folder on another path is there and that home has a note of the segment at `base` in it. Without
    /// room for that, too, the segment is not begun: a start without that path would go on where the log seems to end, and
    /// give offsets away that have records.
    pub(crate) async fn prepare_folder(self, folder: &Rc<Path>, base: Offset) -> Result<()> {
        self.make_folder(folder).await?;
        self.pass_over_asides(base, folder).await?;
        self.note_away(base, folder).await
    }

    /// Home, and the other folders that segments are in.
    pub(super) fn folders(self) -> Vec<Rc<Path>> {
        let mut folders = vec![Rc::clone(&self.folder)];
        for segment in self.segments.all().iter() {
            if !segment.is_absent() && !folders.contains(&segment.folder) {
                folders.push(Rc::clone(&segment.folder));
            }
        }
        folders
    }

    /// The files of a segment have lost their names.
    pub(super) async fn note_gone(self, segment: &Segment<P>) -> Result<()> {
        self.note_changed(&segment.folder);
        if self.is_home(&segment.folder) {
            return Ok(());
        }
        self.remove_note(segment.base, &segment.folder).await?;
        // One that came back would count.
        self.flush.names.note(None);
        Ok(())
    }

    async fn remove_note(self, base: Offset, folder: &Rc<Path>) -> Result<()> {
        // It may be all that says of a copy elsewhere that it does not count.
        Debts(self.0).write_unwritten(base).await?;
        let id = self.place_of_folder(base, folder).id;
        remove_away(self.store.disk(), &self.folder, base, id).await
    }

    /// Takes the names from a segment's files, the data first, durably unless it is at home; gives what is to be removed.
    /// What another path does not let go of does not count any more all the same, and is owed.
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
                // Its owner syncs the names.
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

    /// A segment does not count any more, whether its files are gone, durably where they were elsewhere, or are owed.
    pub(super) async fn gone_or_owed(self, segment: &Segment<P>, gone: Result<()>) -> Result<()> {
        self.flush.names.note(None);
        if self.is_home(&segment.folder) {
            return gone;
        }
        if let Err(error) = gone {
            if error.is_exhausted() {
                // Not now: it is tried again.
                return Err(error);
            }
            PathFailure(self.0).fail_path(&error);
            Debts(self.0)
                .owe(Owing::Copy, segment.base, &segment.folder)
                .await?;
        }
        self.remove_note(segment.base, &segment.folder).await
    }

    /// A segment on a path that is not there does not count any more; when the path is there it goes.
    async fn drop_absent(self, segment: &Segment<P>) -> Result<()> {
        let base = segment.base;
        Debts(self.0)
            .owe(Owing::Copy, base, &segment.folder)
            .await?;
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
                    Debts(self.0).owe(Owing::Copy, base, folder).await?;
                }
                removed => removed?,
            }
        }
        self.flush.names.note(None);
        self.remove_note(base, &segment.folder).await
    }

    /// Notes at home that the segment at `base` is in `folder`, whatever that owed of it; durable when it returns.
    pub(super) async fn note_away(self, base: Offset, folder: &Path) -> Result<()> {
        Debts(self.0).owe_no_more(base, folder).await?;
        self.write_note(base, folder).await
    }

    /// The directories that a note may name.
    fn path_ids(self) -> Vec<Uuid> {
        let paths = self.store.paths_away_from(&self.folder);
        paths.iter().filter_map(|path| path.identity()).collect()
    }

    /// The segment at `base` is at home, whatever there is of it in `from`; durable when it returns.
    pub(super) async fn note_home(self, base: Offset, from: &Rc<Path>) -> Result<()> {
        Debts(self.0).owe(Owing::Copy, base, from).await?;
        if let Err(error) = self.remove_note(base, from).await {
            // What is owed wins over it.
            tracing::warn!(partition = %self.partition, %error, "a note that says nothing stays");
        }
        Ok(())
    }

    /// After a note was refused, which may be there all the same: the segment at `base` is in `folder`, as before.
    pub(super) async fn note_as_before(self, base: Offset, folder: &Rc<Path>) -> Result<()> {
        let place = self.place_of_folder(base, folder);
        let mut owed = Debts(self.0).owed_of(base);
        // It may have been said by now that this one does not count.
        owed.retain(|(owing, other)| *owing != Owing::Copy || *other != place);
        Debts(self.0).set_owed(base, owed).await?;
        let disk = self.store.disk();
        if !self.is_home(folder) {
            return write_away(disk, &self.folder, base, &place, &self.path_ids()).await;
        }
        // One by name counts: a text beside it is of an earlier place, and goes first.
        remove(disk, &away_path(&self.folder, base)).await?;
        self.sync_folder(&self.folder).await?;
        remove_names(disk, &self.folder, base, &self.path_ids(), None).await
    }

    /// The log goes on in `old`, of which nothing is written yet: what there is of `new`, which was to take its place, goes,
    /// durably, and home says so before that. Without room, too.
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
            // A start could go on where nothing is.
            self.fail(&error);
        }
    }

    /// Removes the file of a segment that holds nothing and does not count: the one in `counts` does.
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
            // Without its folder it was never made.
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
                Debts(self.0)
                    .owe(Owing::Copy, gone.base, &gone.folder)
                    .await
            }
        }
    }
}
