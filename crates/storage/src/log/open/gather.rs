//! Gathers what there is of a log in its folders, and finishes or removes what was unfinished.
//!
//! In this order: directories pay what they owe; what a compaction was making is removed or put in
//! place; of several copies the note at home says which counts; the notes are brought up to date.
//! Invariants: a note goes only when its segment was found, or its directory was read and does not
//! have it. What no longer counts and cannot be removed is owed, durably, before anything depends
//! on its absence. Among copies without a note, the one with the most good batches stays, or the
//! younger of equals, or the faster; the others are set aside, because home may be a backup, and a
//! later home may know better. A segment without a note that begins within another one is of a log
//! that continued without it: it is set aside, too. Where a note names a segment that only exists
//! set aside, it counts again. Paths that do not answer are waited for, except by a topic that was
//! created since the broker started (`open/gather/listing.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use platform::Platform;
use platform::disk::{Disk, Entry, is_not_now};
use wire::types::{Offset, TopicId, TopicPartition};

use super::folder::{DataFile, Folder, FolderClaim, claim};
use super::notes::{self, Debt, NotedPlace, Notes};
use super::part::Part;
use crate::checkpoint::meta_properties;
use crate::error::{Error, Result};
use crate::segment::looked::LookedFiles;
use crate::segment::naming::Role;
use crate::store::Store;
use crate::tier::{TierPath, TierTable};

mod copies;
mod debts;
mod listing;
mod overlap;
mod returned;
mod swaps;
mod twins;

use copies::{after_base, sound_end_of};
use listing::FolderListing;

/// What is known so far.
struct GatherState<'a, P: Platform> {
    store: &'a Store<P>,
    home: Rc<Path>,
    /// Home first, then the paths that were read, the faster ones first.
    parts: Vec<Part>,
    /// Paths that were read, whether they have a folder of the log or not.
    read: Vec<Arc<TierPath>>,
    notes: Notes,
    /// Base offsets whose note has its id in its name.
    named: Vec<Offset>,
    /// Segments with an unfinished move to or from the directory that the note names.
    moving: Vec<Offset>,
    absent: BTreeMap<Offset, NotedPlace>,
    /// Folders with copies of absent segments that do not count.
    shadows: BTreeMap<Offset, Vec<Rc<Path>>>,
    /// Base offsets whose debts could not be written.
    unwritten: BTreeSet<Offset>,
}

/// Where a noted segment should be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NotedLocation {
    /// In this part.
    In(usize),
    /// On a path that was read and has no folder of the log.
    Nowhere,
    /// On a path that was not read.
    Unread,
    /// In a directory that only an older version's note names, by an unknown path.
    Unsure,
}

/// Gathers what there is of the log whose home is `home`.
pub(super) async fn gather<P: Platform>(
    store: &Store<P>,
    home: Rc<Path>,
    (look, entries): (LookedFiles, Vec<Entry>),
    (partition, topic_id): (&TopicPartition, TopicId),
    is_new: bool,
) -> Result<Folder> {
    let disk = store.disk();
    let part = Part::tidy(disk, Rc::clone(&home), None, entries).await?;
    let mut gathering = GatherState {
        store,
        home,
        parts: vec![part],
        read: Vec::new(),
        notes: Notes::default(),
        named: Vec::new(),
        moving: Vec::new(),
        absent: BTreeMap::new(),
        shadows: BTreeMap::new(),
        unwritten: BTreeSet::new(),
    };
    gathering.read_notes().await?;
    for path in store.paths_away_from(&Rc::clone(&gathering.home)) {
        if path.failed().is_none()
            && let Some(listed) = gathering.listed_on(&path, is_new).await
        {
            let whose = (partition, topic_id);
            gathering.read_path(&path, listed, whose).await?;
        }
    }
    gathering.prefer_whole_twins().await?;
    gathering.pay().await?;
    gathering.finish_compaction().await?;
    gathering.keep_one_copy().await?;
    gathering.set_overlapping_aside().await?;
    gathering.take_back().await?;
    for part in gathering.parts.iter().filter(|part| !part.is_lost) {
        part.remove_orphans(disk).await?;
    }
    gathering.settle_notes().await?;
    gathering.tell_of_absent(partition);
    let mut folder = gathering.merged(look);
    if folder.is_noted {
        folder.noted = super::super::aborted::read_noted(disk, &folder.path).await?;
        folder.aborted.extend(&folder.noted);
    }
    Ok(folder)
}

impl<P: Platform> GatherState<'_, P> {
    fn tiers(&self) -> Option<&TierTable> {
        self.store.tiers().map(|tiers| &**tiers)
    }

    async fn read_notes(&mut self) -> Result<()> {
        let disk = self.store.disk();
        let (mut away, owed) = (self.parts[0].away.clone(), self.parts[0].owed.clone());
        // A note with its id in its name was written because the other could not be: it comes last
        // and counts.
        away.sort_by_key(|(_, id)| id.is_some());
        for (base, id) in away {
            let place = notes::read_away(disk, &self.home, base, id).await?;
            self.notes.away.insert(base, place);
            if id.is_some() {
                self.named.push(base);
            }
        }
        for base in owed {
            let owed = notes::read_owed(disk, &self.home, base).await?;
            let away = self.notes.away.get(&base);
            if away.is_some_and(|place| notes::is_end_of_move(&owed, place)) {
                self.moving.push(base);
            }
            let owed = notes::owed_beside(away, owed);
            // The note should have gone together with this copy.
            if away.is_some_and(|place| notes::owes_copy(&owed, place)) {
                self.remove_note(base).await?;
            }
            self.notes.owed.insert(base, owed);
        }
        Ok(())
    }

    /// Reads the log's folder on a path from its listing; a path that cannot be read is not used.
    async fn read_path(
        &mut self,
        path: &Arc<TierPath>,
        (folder, listed): FolderListing,
        (partition, topic_id): (&TopicPartition, TopicId),
    ) -> Result<()> {
        let disk = self.store.disk();
        match listed {
            Ok(entries) => match claim(self.store, &folder, partition, topic_id).await {
                Ok(FolderClaim::Ours) => {
                    let part = Part::tidy(disk, folder, Some(Arc::clone(path)), entries).await?;
                    self.parts.push(part);
                    self.read.push(Arc::clone(path));
                }
                Ok(FolderClaim::Nothing) => self.read.push(Arc::clone(path)),
                Ok(FolderClaim::OldHome) => {
                    tracing::info!(folder = %folder.display(), "the log is at home elsewhere: this folder of it is left alone");
                }
                Err(error @ Error::Corrupt { .. }) => {
                    tracing::error!(folder = %folder.display(), %error,
                        "nobody knows whose segments these are: they are left alone and not served");
                }
                Err(error) if error.is_exhausted() => return Err(error),
                Err(error) => fail(path, &error.to_string()),
            },
            // A folder outlives its last segment, so a missing one means that the path is not what
            // it was or, where the path's own file is still there, that the folder was removed from
            // outside.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let mut noted = self.notes.away.values();
                if !noted.any(|place| place.is(path, self.tiers())) {
                    self.read.push(Arc::clone(path));
                } else if is_itself(disk, path).await {
                    tracing::error!(folder = %folder.display(),
                        "segments should be in a folder that is not there: they are not served");
                } else {
                    let reason = "segments should be there, and not even their folder is. Is its file system mounted?";
                    fail(path, reason);
                }
            }
            Err(error) if is_not_now(&error) => return Err(Error::io("list", &folder)(error)),
            Err(error) => fail(path, &format!("cannot list {}: {error}", folder.display())),
        }
        Ok(())
    }

    /// Returns the part on the path that a note names.
    fn noted(&self, place: &NotedPlace) -> NotedLocation {
        let tiers = self.tiers();
        let is_it = |path: &Arc<TierPath>| place.is(path, tiers);
        let part = self
            .parts
            .iter()
            .position(|part| !part.is_lost && part.path.as_ref().is_some_and(is_it));
        if let Some(at) = part {
            NotedLocation::In(at)
        } else if self
            .read
            .iter()
            .any(|path| is_it(path) && path.failed().is_none())
        {
            NotedLocation::Nowhere
        } else if place.id(tiers).is_some() || self.known_paths().iter().any(is_it) {
            NotedLocation::Unread
        } else {
            NotedLocation::Unsure
        }
    }

    fn known_paths(&self) -> Vec<Arc<TierPath>> {
        self.store.paths_away_from(&self.home)
    }

    /// Stops using the folder that a failure is about, or else the one that was tried; home is
    /// required.
    fn lose_failed(&mut self, tried: usize, error: &Error) -> Result<()> {
        let path = error.path();
        let is_in = |part: &Part| path.is_some_and(|path| path.starts_with(part.folder()));
        let is_about = |part: &Part| !part.is_lost && is_in(part);
        let at = self.parts.iter().position(is_about);
        self.lose(at.unwrap_or(tried), error)
    }

    /// Stops using a folder that could not be brought in order, and its path; home is required.
    fn lose(&mut self, at: usize, error: &Error) -> Result<()> {
        let part = &mut self.parts[at];
        let Some(path) = part.path.as_ref().filter(|_| !error.is_exhausted()) else {
            return Err(error.clone());
        };
        fail(path, &error.to_string());
        part.is_lost = true;
        let place = NotedPlace::of(path);
        let lost = std::mem::take(&mut part.logs);
        for base in lost.into_keys() {
            // A copy that is owed did not count before, either; and a copy does not count merely
            // because it exists.
            let counts_elsewhere = || self.parts.iter().any(|part| self.may_count(part, base));
            if !self.is_owed(base, &place) && !counts_elsewhere() {
                self.notes.away.entry(base).or_insert(place.clone());
            }
        }
        Ok(())
    }

    /// Returns true when a place owes its copy of a segment.
    fn is_owed(&self, base: Offset, place: &NotedPlace) -> bool {
        let owed = self.notes.owed.get(&base);
        owed.is_some_and(|owed| notes::owes_copy(owed, place))
    }

    /// Returns true when a part has a copy of a segment that it does not owe.
    fn may_count(&self, part: &Part, base: Offset) -> bool {
        let place = part.path.as_deref().map(NotedPlace::of);
        part.logs.contains_key(&base) && !place.is_some_and(|place| self.is_owed(base, &place))
    }

    /// Notes that a folder owes a segment that no longer counts and could not be removed.
    async fn owe(&mut self, at: usize, base: Offset, error: &Error) -> Result<()> {
        let part = &mut self.parts[at];
        let Some(path) = part.path.clone().filter(|_| !error.is_exhausted()) else {
            return Err(error.clone());
        };
        fail(&path, &error.to_string());
        part.forget(base);
        match self.note_owed(base, NotedPlace::of(&path)).await {
            // The note that rules the copy out exists. The debt is written before that note goes,
            // and a start must not need room.
            Err(Error::Full { .. }) if self.notes.away.contains_key(&base) => {
                self.unwritten.insert(base);
                Ok(())
            }
            noted => noted,
        }
    }

    async fn note_owed(&mut self, base: Offset, place: NotedPlace) -> Result<()> {
        let owed = self.notes.owed.entry(base).or_default();
        let owing = (Debt::Copy, place);
        if !owed.contains(&owing) {
            owed.push(owing);
        }
        notes::write_owed(self.store.disk(), &self.home, base, owed).await
    }

    async fn remove_note(&mut self, base: Offset) -> Result<()> {
        let disk = self.store.disk();
        let noted = self.notes.away.remove(&base);
        let id = noted.and_then(|place| place.id);
        let id = id.filter(|_| self.named.contains(&base));
        notes::remove_away(disk, &self.home, base, id).await
    }

    /// Returns the parts that have a segment.
    fn holders(&self, base: Offset) -> Vec<usize> {
        let parts = self.parts.iter().enumerate();
        parts
            .filter(|(_, part)| part.logs.contains_key(&base))
            .map(|(at, _)| at)
            .collect()
    }

    async fn keep_one_copy(&mut self) -> Result<()> {
        let mut bases: Vec<_> = self
            .parts
            .iter()
            .flat_map(|part| part.logs.keys().copied())
            .collect();
        bases.sort_unstable();
        bases.dedup();
        for base in bases {
            self.keep_one_of(base).await?;
        }
        Ok(())
    }

    async fn keep_one_of(&mut self, base: Offset) -> Result<()> {
        self.shadow_owed(base);
        loop {
            let holders = self.holders(base);
            let noted = self.notes.away.get(&base).map(|place| self.noted(place));
            let (kept, is_sure) = match noted {
                Some(NotedLocation::In(at)) if holders.contains(&at) => (at, true),
                Some(NotedLocation::Unread) => {
                    self.shadow(base, &holders);
                    return Ok(());
                }
                _ if holders.len() > 1 => match self.best(base, &holders).await {
                    Ok(Some(at)) => (at, false),
                    Ok(None) => return Ok(()),
                    Err(error) => {
                        // Segments on a path that fails are absent, and the rest of the log is
                        // served.
                        self.lose_failed(0, &error)?;
                        continue;
                    }
                },
                _ => return Ok(()),
            };
            for at in holders.into_iter().filter(|at| *at != kept) {
                self.drop_copy(base, kept, at, is_sure).await?;
            }
            return Ok(());
        }
    }

    /// Leaves out copies that are owed and could not be paid, even if the right one's place is
    /// unknown.
    fn shadow_owed(&mut self, base: Offset) {
        let holders = self.holders(base).into_iter();
        let owing: Vec<_> = holders
            .filter(|at| !self.may_count(&self.parts[*at], base))
            .collect();
        self.shadow(base, &owing);
    }

    /// Takes a copy out of the log: a copy that a note rules out goes, any other is set aside.
    async fn drop_copy(
        &mut self,
        base: Offset,
        kept: usize,
        at: usize,
        is_sure: bool,
    ) -> Result<()> {
        let (here, there) = (self.parts[kept].folder(), self.parts[at].folder());
        let dropped = if is_sure {
            tracing::warn!(base = base.0, kept = %here.display(), removed = %there.display(),
                "a segment had two copies: its move was not finished");
            self.remove_stale(at, base).await
        } else {
            tracing::warn!(base = base.0, kept = %here.display(), aside = %there.display(),
                "a segment has two copies, and nothing says which counts: the other one is set aside");
            self.set_aside(at, base).await
        };
        match dropped {
            Err(error) if is_sure => self.owe(at, base, &error).await,
            Err(error) => self.leave_out(at, base, &error),
            Ok(()) => Ok(()),
        }
    }

    async fn set_aside(&mut self, at: usize, base: Offset) -> Result<()> {
        let now_ms = self.store.clock().wall_ms();
        self.parts[at]
            .set_aside(self.store.disk(), base, now_ms)
            .await?;
        self.store.shared.metrics.set_aside.inc();
        Ok(())
    }

    /// Leaves out a segment that cannot be removed or set aside now; the next start meets it again.
    ///
    /// At home the change must succeed.
    fn leave_out(&mut self, at: usize, base: Offset, error: &Error) -> Result<()> {
        let part = &mut self.parts[at];
        let Some(path) = part.path.as_ref().filter(|_| !error.is_exhausted()) else {
            return Err(error.clone());
        };
        fail(path, &error.to_string());
        part.forget(base);
        Ok(())
    }

    /// Leaves out all copies of a segment whose note names a path that is absent.
    fn shadow(&mut self, base: Offset, holders: &[usize]) {
        for &at in holders {
            let part = &mut self.parts[at];
            tracing::error!(base = base.0, folder = %part.folder().display(),
                "a copy of a segment is not used: the one that counts is on a path that is not there");
            part.logs.remove(&base);
            part.shadowed.push(base);
            let shadows = self.shadows.entry(base).or_default();
            shadows.push(Rc::clone(&part.folder));
        }
    }

    /// Brings the notes up to date with what was found; a noted segment that was not read is
    /// absent.
    async fn settle_notes(&mut self) -> Result<()> {
        for (base, place) in self.notes.away.clone() {
            let noted = self.noted(&place);
            let holder = self.holders(base).first().copied();
            if let Some(path) = holder.and_then(|at| self.parts[at].path.clone()) {
                let found = NotedPlace::of(&path);
                if found != place || self.named.contains(&base) {
                    self.write_note(base, &found).await?;
                }
                continue;
            }
            let is_complete = self.tiers().is_some_and(TierTable::is_complete);
            // A path by another name may be the one that an old note means.
            let is_sure = place.id(self.tiers()).is_some() || is_complete;
            let lacks = matches!(noted, NotedLocation::In(_) | NotedLocation::Nowhere) && is_sure;
            if lacks && let Some(other) = self.other_end(base) {
                // Its move was not finished: it is at the other end, if anywhere.
                self.write_note(base, &other).await?;
                self.absent.insert(base, other);
                continue;
            }
            if holder.is_none() && lacks {
                tracing::warn!(base = base.0, %place,
                    "the note of a segment is removed: the directory that it names was read, and has no such segment");
            }
            // Without the note, the copies that are owed would be taken for the rest of a segment
            // that was deleted.
            let is_nowhere =
                noted == NotedLocation::Unsure && is_complete && !self.shadows.contains_key(&base);
            if holder.is_some() || lacks || is_nowhere {
                self.remove_note(base).await?;
            } else {
                self.absent.insert(base, place);
            }
        }
        let lower = self.parts.iter().filter(|part| !part.is_lost);
        let mut unnoted = Vec::new();
        for part in lower {
            let Some(path) = &part.path else { continue };
            let bases = part.logs.keys().copied();
            let bases = bases.filter(|base| !self.notes.away.contains_key(base));
            unnoted.extend(bases.map(|base| (base, NotedPlace::of(path))));
        }
        for (base, place) in unnoted {
            self.write_note(base, &place).await?;
        }
        Ok(())
    }

    /// Takes the end of a move that could not be read, and which the note does not name.
    fn other_end(&mut self, base: Offset) -> Option<NotedPlace> {
        let owed = self.notes.owed.get_mut(&base)?;
        let at = owed.iter().position(|(owing, _)| *owing == Debt::Moving)?;
        Some(owed.remove(at).1)
    }

    async fn write_note(&self, base: Offset, place: &NotedPlace) -> Result<()> {
        match self.replace_note(base, place).await {
            // A segment that is there is found without its note.
            Err(Error::Full { .. }) => Ok(()),
            written => written,
        }
    }

    async fn replace_note(&self, base: Offset, place: &NotedPlace) -> Result<()> {
        let noted = self.notes.away.get(&base).and_then(|place| place.id);
        let paths = self.known_paths();
        let ids: Vec<_> = paths.iter().filter_map(|path| path.identity()).collect();
        let others: Vec<_> = ids.into_iter().chain(noted).collect();
        let disk = self.store.disk();
        notes::write_away(disk, &self.home, base, place, &others).await
    }

    fn tell_of_absent(&self, partition: &TopicPartition) {
        let mut places: Vec<&NotedPlace> = Vec::new();
        for place in self.absent.values() {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        for place in places {
            let count = self.absent.values().filter(|other| *other == place).count();
            tracing::error!(%partition, segments = count, %place,
                "segments are in a directory that is not there: they are not served, and nothing is taken for deleted. \
                 Mount it, or name it in the settings, and start again");
        }
    }

    fn merged(self, look: LookedFiles) -> Folder {
        let mut whole = Folder {
            path: self.home,
            look,
            logs: BTreeMap::new(),
            snapshots: Vec::new(),
            absent: self.absent,
            shadows: self.shadows,
            owed: self.notes.owed,
            unwritten: self.unwritten,
            is_noted: self.parts.first().is_some_and(|home| home.notes_aborted),
            noted: BTreeSet::new(),
            aborted: BTreeSet::new(),
            read: Vec::new(),
            has_asides: self.parts.iter().any(|part| part.has_asides),
            asides: Vec::new(),
        };
        for part in self.parts.into_iter().filter(|part| !part.is_lost) {
            let folder = part.folder;
            for (base, len) in part.logs {
                let time = |role| part.times.get(&(base, role)).copied();
                let file = DataFile {
                    folder: Rc::clone(&folder),
                    len,
                    modified_ms: time(Role::Log),
                    indexed_ms: time(Role::OffsetIndex),
                };
                // The faster tier comes first and stays.
                whole.logs.entry(base).or_insert(file);
            }
            if part.path.is_some() {
                for (base, asides) in part.asides {
                    let files = asides.iter().map(|aside| (base, folder.join(&aside.name)));
                    whole.asides.extend(files);
                }
            }
            whole.read.push(folder);
            whole.snapshots.extend(part.snapshots);
            whole.aborted.extend(part.aborted);
        }
        whole
    }
}

/// Returns true when the directory of a path has the file that identifies it.
async fn is_itself<D: Disk>(disk: &D, path: &TierPath) -> bool {
    let file = path.dir().join(meta_properties::FILE);
    disk.read_file(&file)
        .await
        .is_ok_and(|bytes| !bytes.is_empty())
}

fn fail(path: &TierPath, reason: &str) {
    if path.fail(reason) {
        tracing::error!(dir = %path.dir().display(), reason,
            "a tier's path cannot be used: what is on it is offline");
    }
}
