//! A log's segments away from home: which folders it has, what their paths' failures mean, and where its next segment goes.
//!
//! Invariant: a segment that is not at home has a note there (`.away`), durable before the segment's own name is, and
//! before a copy at home goes. The note is of use only while the path is absent: then it keeps the log start and the
//! log end from being taken for what they are not.
//! Without tiers everything is at home and nothing is noted.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use platform::Platform;
use platform::disk::Disk;
use platform::sync::Semaphore;
use wire::types::Offset;

use super::Log;
use super::indexes::Indexes;
use super::open::folder::{claim, write_note};
use super::open::remove;
use super::txn_index::TxnIndex;
use crate::error::{Error, Kind, Result};
use crate::segment::naming::{Role, away_path};
use crate::segment::{Loaded, Segment};
use crate::tier::{PathId, TierPath};

/// What a log knows of its folders on other paths.
pub(super) struct State {
    /// Folders that are known to be there and to name the topic.
    ready: RefCell<Vec<Rc<Path>>>,
    /// Whoever holds it may make one: two at a time would take each other's drafts for their own.
    making: Semaphore,
    /// Segments that home has no note of yet, for want of room.
    notes_due: RefCell<Vec<(Offset, Rc<Path>)>>,
    /// Where an operator wants segments, by base offset.
    asked: RefCell<BTreeMap<Offset, usize>>,
    /// Capacities of tiers do not bind it.
    unbounded: Cell<bool>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            ready: RefCell::default(),
            making: Semaphore::new(1),
            notes_due: RefCell::default(),
            asked: RefCell::default(),
            unbounded: Cell::new(false),
        }
    }
}

impl<P: Platform> Log<P> {
    /// The tiers that the topic may be on, fastest and slowest.
    pub fn tier_pins(&self) -> (usize, usize) {
        self.options().tier_pins.unwrap_or((0, usize::MAX))
    }

    /// Lets the log grow at home beyond what the tiers' capacities allow: without its records room could not even be
    /// made. What the file system has bounds it all the same.
    pub fn ignore_capacities(&self) {
        self.tiers.unbounded.set(true);
    }

    /// True when the segment's path has nothing left: what comes next goes elsewhere, if anywhere.
    pub(super) fn is_out_of_room(&self, segment: &Segment<P>) -> bool {
        segment.is_out_of_room() && !self.tiers.unbounded.get()
    }

    /// Asks for the sealed segment that begins at `base` to be moved to a tier when there is room; false if there is none.
    pub fn ask_for_tier(&self, base: Offset, tier: usize) -> bool {
        let segments = self.segments.borrow();
        let there = segments.iter().any(|segment| segment.base == base);
        if there {
            self.tiers.asked.borrow_mut().insert(base, tier);
        }
        there
    }

    /// Asks again for what was asked of the same log before it was closed and opened, and is not done yet.
    pub fn take_over_asks(&self, before: &Self) {
        for (base, tier) in before.tiers.asked.borrow().iter() {
            self.ask_for_tier(*base, *tier);
        }
    }

    /// Where the sealed segments begin.
    pub fn sealed_bases(&self) -> Vec<Offset> {
        let segments = self.segments.borrow();
        let sealed = segments.iter().filter(|segment| segment.sealed.get());
        sealed.map(|segment| segment.base).collect()
    }

    /// Where an operator wants the segment that begins at `base`.
    pub(crate) fn asked_tier(&self, base: Offset) -> Option<usize> {
        self.tiers.asked.borrow().get(&base).copied()
    }

    /// The segment has been moved: what was asked for is done.
    pub(super) fn forget_asked(&self, base: Offset) {
        self.tiers.asked.borrow_mut().remove(&base);
    }

    /// Shows every segment, oldest first.
    pub(crate) fn each_segment(&self, mut show: impl FnMut(&Segment<P>)) {
        for segment in self.segments.borrow().iter() {
            show(segment);
        }
    }

    /// Bytes of the log on each path that has any, with tiers; what is on absent paths is not known.
    pub fn bytes_by_path(&self) -> Vec<(PathId, u64)> {
        let mut found: Vec<(PathId, u64)> = Vec::new();
        for segment in self.segments.borrow().iter() {
            let Some(charge) = &segment.charge else {
                continue;
            };
            let id = charge.path().id;
            let size = segment.size.get();
            match found.iter_mut().find(|(path, _)| *path == id) {
                Some((_, bytes)) => *bytes += size,
                None => found.push((id, size)),
            }
        }
        found
    }

    /// True for the folder in the log directory.
    pub(crate) fn is_home(&self, folder: &Rc<Path>) -> bool {
        Rc::ptr_eq(folder, &self.folder) || *folder == self.folder
    }

    /// Home, and the other folders that segments are in.
    pub(super) fn folders(&self) -> Vec<Rc<Path>> {
        let mut folders = vec![Rc::clone(&self.folder)];
        for segment in self.segments.borrow().iter() {
            if !segment.absent.get() && !folders.contains(&segment.folder) {
                folders.push(Rc::clone(&segment.folder));
            }
        }
        folders
    }

    /// Names in `folder` have changed: it is synced before what follows counts.
    pub(crate) fn note_changed(&self, folder: &Rc<Path>) {
        let elsewhere = (!self.is_home(folder)).then_some(folder);
        self.flush.names.note(elsewhere);
    }

    /// The files of a segment have lost their names.
    pub(super) async fn note_gone(&self, segment: &Segment<P>) -> Result<()> {
        self.note_changed(&segment.folder);
        if self.is_home(&segment.folder) {
            return Ok(());
        }
        remove(self.store.disk(), &away_path(&self.folder, segment.base)).await
    }

    /// Sees to it that a folder on another path is there and that home has a note of the segment at `base` in it.
    pub(crate) async fn prepare_folder(&self, folder: &Rc<Path>, base: Offset) -> Result<()> {
        self.make_folder(folder).await?;
        match write_note(self.store.disk(), &self.folder, base, folder).await {
            // Home is full, which is why the segment is elsewhere: it is noted as soon as there is room.
            Err(Error::Full { .. }) => {
                let note = (base, Rc::clone(folder));
                self.tiers.notes_due.borrow_mut().push(note);
                Ok(())
            }
            noted => noted,
        }
    }

    /// Writes the notes for which there was no room.
    pub(super) async fn write_due_notes(&self) {
        let due = self.tiers.notes_due.take();
        for (base, folder) in due {
            let there = |segment: &Rc<Segment<P>>| segment.base == base && segment.folder == folder;
            if !self.segments.borrow().iter().any(there) {
                continue;
            }
            let noted = write_note(self.store.disk(), &self.folder, base, &folder).await;
            if let Err(error) = noted {
                tracing::debug!(partition = %self.partition, %error, "a note is still due");
                self.tiers.notes_due.borrow_mut().push((base, folder));
            }
        }
    }

    /// Sees to it that a folder on another path is there and names the topic.
    pub(super) async fn make_folder(&self, folder: &Rc<Path>) -> Result<()> {
        let disk = self.store.disk();
        let making = self.tiers.making.acquire().await;
        let _making = making.map_err(|_| Error::Closed)?;
        let is_ready = self.tiers.ready.borrow().contains(folder);
        if !is_ready {
            loop {
                let created = disk.create_dir(folder).await;
                created.map_err(Error::io("create", folder))?;
                if claim(&self.store, folder, &self.partition, self.topic_id).await? {
                    break;
                }
            }
            self.tiers.ready.borrow_mut().push(Rc::clone(folder));
        }
        Ok(())
    }

    /// The folder of this log on `path`.
    pub(crate) fn folder_on(&self, path: &TierPath) -> Rc<Path> {
        if self.dir == path.dir() {
            return Rc::clone(&self.folder);
        }
        let name = self.folder.file_name().unwrap_or_default();
        let folder = path.dir().join(name);
        let ready = self.tiers.ready.borrow();
        let known = ready.iter().find(|known| ***known == *folder);
        known.map_or_else(|| folder.into(), Rc::clone)
    }

    /// An empty segment that begins at `base`, where new ones go. Its file follows.
    pub(super) fn new_segment(&self, base: Offset, now_ms: i64) -> Rc<Segment<P>> {
        let loaded = Loaded {
            indexes: Indexes::new(base, self.index_options()),
            aborted: TxnIndex::new(),
        };
        let folder = self.folder_for_new();
        let charge = self.store.charge(&folder, 0);
        Rc::new(Segment::fresh(folder, base, loaded, now_ms).charged(charge))
    }

    /// Has the log go on where new segments go: its active segment stands on a path that is left, or on a slower one
    /// than it need be.
    pub(crate) async fn go_on_elsewhere(&self) -> Result<()> {
        if self.active().size.get() > 0 {
            return self.roll().await;
        }
        let gate = self.upkeep.gate.acquire().await;
        let _gate = gate.map_err(|_| Error::Closed)?;
        let _permit = self.may_write().await?;
        let old = self.active();
        if old.size.get() > 0 || self.is_closed() {
            return Ok(());
        }
        let new = self.new_segment(old.base, self.store.clock().wall_ms());
        if new.folder == old.folder {
            return Ok(());
        }
        // The name says where the log goes on: there is one at every moment.
        self.name_segment(&new).await?;
        self.sync_names().await?;
        let is_still_empty = old.size.get() == 0 && Rc::ptr_eq(&self.active(), &old);
        if is_still_empty && let Some(slot) = self.segments.borrow_mut().back_mut() {
            *slot = Rc::clone(&new);
        }
        let (kept, gone) = if is_still_empty {
            (new, old)
        } else {
            (old, new)
        };
        gone.close_file();
        let disk = self.store.disk();
        remove(disk, &gone.path(Role::Log)).await?;
        self.note_changed(&gone.folder);
        self.sync_names().await?;
        if self.is_home(&kept.folder) {
            remove(disk, &away_path(&self.folder, kept.base)).await
        } else {
            write_note(disk, &self.folder, kept.base, &kept.folder).await
        }
    }

    /// Where the next segment goes.
    fn folder_for_new(&self) -> Rc<Path> {
        // With no room anywhere it is at home that writes are refused until there is.
        self.folder_with_room()
            .unwrap_or_else(|| Rc::clone(&self.folder))
    }

    /// Where the next segment goes; `None`: nothing has room.
    pub(super) fn folder_with_room(&self) -> Option<Rc<Path>> {
        let Some(tiers) = self.store.tiers() else {
            return Some(Rc::clone(&self.folder));
        };
        let home = tiers.holding(&self.folder).map(|path| path.id);
        let placed = tiers.place(home, self.tier_pins())?;
        Some(self.folder_on(placed))
    }

    /// Latches what a failure has made unusable: the log directory, or another path and whatever is being written there.
    pub(crate) fn fail_dir(&self, error: &Error) {
        if error.kind() == Kind::Full {
            // Nothing of the directory is broken.
            return;
        }
        if let Some(path) = self.path_of(error)
            && path.dir() != self.dir
        {
            path.fail(&error.to_string());
            self.store.health(path.dir()).fail(error);
            for log in self.store.logs() {
                if log.writes_to(path.dir()) {
                    log.fail(error);
                }
            }
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

    fn path_of(&self, error: &Error) -> Option<&TierPath> {
        let Error::Io { path, .. } = error else {
            return None;
        };
        self.store.tiers()?.holding(path).map(|path| &**path)
    }

    /// True when bytes of the log are being written to `dir`.
    pub(crate) fn writes_to(&self, dir: &Path) -> bool {
        let segments = self.segments.borrow();
        let mut unsealed = segments
            .iter()
            .rev()
            .take_while(|segment| !segment.sealed.get());
        unsealed.any(|segment| segment.folder.starts_with(dir))
    }
}
