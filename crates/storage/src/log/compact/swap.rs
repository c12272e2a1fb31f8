//! Replaces segments by the one made of them, so that after a power loss at any moment the log is
//! either the old or the new.
//!
//! Kafka's protocol, with a sync of the folder where Kafka leaves it to the file system: `.cleaned`
//! (made, durable) -> `.swap`: from here on a start finishes it -> the old segments `.deleted` ->
//! the final name, the data file last. A start that finds a `.cleaned` removes it, and any `.swap`
//! from that offset on, because then no old file has gone yet.
//! Invariants: no other `.cleaned` exists when a segment goes; the old segments of a group are
//! durably gone before the new one has its name, so that no two hold the same offset.
//! A failure before the first old file goes is undone. A lack of room after it is waited out for
//! some seconds. A lasting one, and any other failure, is final for the log if it happens at home.
//! On another path it takes that path out of use: the path owes what it does not release, and a
//! segment that it does not name is offline until a start finishes it.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use platform::Platform;
use platform::disk::Disk;
use wire::types::Offset;

use super::super::files::remove;
use super::super::open::notes::Debt;
use super::output::CompactedSegment;
use super::pace::Pace;
use crate::error::{Error, FailureKind, Result};
use crate::log::flush::SHORTAGE_RETRY_INTERVAL;
use crate::log::views::{
    Debts, Flushing, Journaling, LogCondition, LogFolders, LogReader, LogTiers, PathFailure,
    Rebuilding, Retaining, Swapping,
};
use crate::segment::Segment;
use crate::segment::naming::{
    CLEANED, Name, Role, SWAP, classify, cleaned_path, file_path, swap_path,
};

/// A segment's files, the data file last: until it has its name, a start finishes the others, too.
const ROLES: [Role; 4] = [
    Role::OffsetIndex,
    Role::TimeIndex,
    Role::TxnIndex,
    Role::Log,
];

/// How often a rename that finds no room is tried: for ten seconds.
///
/// Meanwhile the log can only append and read.
const TRIES_WITHOUT_ROOM: usize = 40;

impl<P: Platform> Swapping<'_, P> {
    /// Repeats a rename that must not stay undone, for as long as there is no room for it.
    ///
    /// It gives up after `TRIES_WITHOUT_ROOM` attempts.
    pub(in crate::log) async fn insist<T>(
        self,
        mut attempt: impl AsyncFnMut() -> Result<T>,
    ) -> Result<T> {
        for _ in 1..TRIES_WITHOUT_ROOM {
            match attempt().await {
                Err(error)
                    if error.kind() == FailureKind::Full
                        && !LogCondition(self.0).is_beyond_repair() =>
                {
                    self.store.clock().sleep(SHORTAGE_RETRY_INTERVAL).await;
                }
                result => return result,
            }
        }
        attempt().await
    }

    /// Returns true when a segment is offline until a start names it: its records have no other
    /// file.
    fn is_unfinished(self, folder: &Rc<Path>, base: Offset) -> bool {
        let segments = self.segments.all();
        let mut there = segments.iter();
        there.any(|at| at.base == base && at.folder == *folder && at.offline().is_some())
    }

    /// Removes the `.swap` files of a segment that goes: a start would finish them and bring it
    /// back.
    pub(in crate::log) async fn remove_swap(self, segment: &Segment<P>) -> Result<()> {
        if self.is_unfinished(&segment.folder, segment.base) {
            for role in ROLES.into_iter().rev() {
                let swap = swap_path(&segment.folder, segment.base, role);
                remove(self.store.disk(), &swap).await?;
            }
        }
        Ok(())
    }

    /// Removes what rounds without a result have left.
    ///
    /// It must not run on a failed log, and skips segments without their name: a `.swap` may be all
    /// that is left of the segments it was made of.
    pub(super) async fn sweep_unfinished(self) -> Result<()> {
        let mut swept = false;
        let folders = LogFolders(self.0).folders().into_iter();
        for folder in folders.filter(|folder| !LogTiers(self.0).is_on_failed_path(folder)) {
            let listed = self.store.disk().list(&folder).await;
            for entry in listed.map_err(Error::io("list", &folder))? {
                let name = entry.name.trim_end_matches(".tmp");
                let class = classify(name);
                if let Name::Swap(base, _) = class
                    && self.is_unfinished(&folder, base)
                {
                    continue;
                }
                if class != Name::Foreign && (name.ends_with(CLEANED) || name.ends_with(SWAP)) {
                    remove(self.store.disk(), &folder.join(&entry.name)).await?;
                    LogFolders(self.0).note_changed(&folder);
                    swept = true;
                }
            }
        }
        if swept {
            Flushing(self.0).sync_names().await?;
        }
        Ok(())
    }

    /// Puts what was made in the place of `old`.
    pub(super) async fn put_in_place(
        self,
        old: &[Rc<Segment<P>>],
        made: CompactedSegment,
        pace: &Pace<'_, P>,
    ) -> Result<()> {
        // A start would put its parts over what was made.
        let settled = Journaling(self.0).settled(old, || pace.check());
        settled.await?;
        let gate = self.upkeep.gate.acquire().await;
        let _gate = gate.map_err(|_| Error::Closed)?;
        pace.check()?;
        if self.run_of(old).is_none() {
            // Retention has deleted some of them.
            return Err(Error::Closed);
        }
        let next = old.last().map(|last| last.next());
        assert!(
            next.is_some_and(|next| made.next <= next),
            "it ends where they did, or before"
        );
        self.note_compacted(old, &made).await?;
        self.hold_open(old).await?;
        if let Err(error) = self.name_swap(&made.folder, made.base).await {
            self.give_up(old, &made, &error).await;
            return Err(error);
        }
        match self.unname_first(old, &made).await {
            Ok(()) => {}
            Err(error) if self.is_home(&made.folder) => {
                self.fail(&error);
                return Err(error);
            }
            Err(error) => {
                // Its path failed before any old file had gone.
                PathFailure(self.0).fail_path(&error);
                self.give_up(old, &made, &error).await;
                return Err(error);
            }
        }
        let changed = self.change_names(old, &made.folder, made.base).await;
        let (removed, unfinished) = match changed {
            Ok(removed) => (removed, None),
            Err(error)
                if !self.is_home(&made.folder)
                    && (PathFailure(self.0).fail_path(&error) || error.is_exhausted()) =>
            {
                // A start that can read the path finishes it.
                (Vec::new(), Some(error))
            }
            Err(error) => {
                self.fail(&error);
                return Err(error);
            }
        };
        self.replace(old, made, unfinished.as_ref());
        Retaining(self.0).remove_later(removed);
        unfinished.map_or(Ok(()), Err)
    }

    /// Notes whether what was made has an index of aborted transactions.
    ///
    /// If the note lacks one, a start finds it by the index file.
    async fn note_compacted(self, old: &[Rc<Segment<P>>], made: &CompactedSegment) -> Result<()> {
        let before = Rebuilding(self.0).noted_aborted();
        let mut noted = before.clone();
        noted.retain(|base| !old.iter().any(|segment| segment.base == *base));
        if !made.loaded.aborted.is_empty() {
            noted.insert(made.base);
        }
        if noted == before {
            return Ok(());
        }
        Rebuilding(self.0).write_noted(&noted).await
    }

    /// Gives up while no old file has gone: the log stays as it was.
    ///
    /// What was made is removed, or is owed by a path that does not release it.
    async fn give_up(self, old: &[Rc<Segment<P>>], made: &CompactedSegment, error: &Error) {
        // After a failed sync at home the content of the folder is not known; a start finds out.
        if !LogCondition(self.0).is_beyond_repair() {
            let at_home = self.is_home(&made.folder);
            let failed = LogTiers(self.0).is_on_failed_path(&made.folder);
            let swept = !failed && self.sweep_unfinished().await.is_ok();
            if !swept && at_home {
                self.fail(error);
            } else if !swept {
                PathFailure(self.0).fail_path(error);
                let owed = Debts(self.0)
                    .owe(Debt::Unmade, made.base, &made.folder)
                    .await;
                if let Err(error) = owed {
                    // The debt cannot be noted at home.
                    self.fail(&error);
                }
            }
        }
        for segment in old {
            segment.names_back();
        }
    }

    /// Takes the names from the segment whose base and folder the new one gets, if it is not at
    /// home.
    ///
    /// So a folder that takes no more changes is found before anything else has gone.
    async fn unname_first(self, old: &[Rc<Segment<P>>], made: &CompactedSegment) -> Result<()> {
        let Some(first) = old.first().filter(|_| !self.is_home(&made.folder)) else {
            return Ok(());
        };
        match Retaining(self.0).rename_deleted(first, Role::Log).await {
            Ok(removed) => {
                Retaining(self.0).remove_later(removed.into_iter().collect());
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Returns where `old` is in the log, if all of it is still there, in sequence and sealed.
    fn run_of(self, old: &[Rc<Segment<P>>]) -> Option<usize> {
        let segments = self.segments.all();
        let first = old.first()?;
        let at = segments
            .iter()
            .position(|segment| Rc::ptr_eq(segment, first))?;
        let there = segments.range(at..);
        let same = there
            .zip(old)
            .filter(|(there, old)| Rc::ptr_eq(there, old) && old.is_sealed());
        (same.count() == old.len() && at + old.len() < segments.len()).then_some(at)
    }

    /// Loads and opens the old segments: their readers keep the files and indexes that lose their
    /// names.
    async fn hold_open(self, old: &[Rc<Segment<P>>]) -> Result<()> {
        for segment in old {
            segment.lend_names();
        }
        for segment in old {
            let opened = async {
                LogReader(self.0).load(segment).await?;
                segment.file(self.store.disk()).await.map(drop)
            };
            if let Err(error) = opened.await {
                for segment in old {
                    segment.names_back();
                }
                return Err(error);
            }
        }
        Ok(())
    }

    async fn name_swap(self, folder: &Rc<Path>, base: Offset) -> Result<()> {
        for role in ROLES {
            let from = cleaned_path(folder, base, role);
            self.rename_if_there(role, &from, &swap_path(folder, base, role))
                .await?;
        }
        LogFolders(self.0).note_changed(folder);
        let synced = Flushing(self.0)
            .patiently(async || Flushing(self.0).sync_names().await)
            .await;
        synced.inspect_err(|error| {
            if !PathFailure(self.0).fail_path(error) {
                self.fail(error);
            }
        })
    }

    /// Takes the names from the old segments and gives theirs to the new one; returns the files to
    /// be removed.
    async fn change_names(
        self,
        old: &[Rc<Segment<P>>],
        folder: &Rc<Path>,
        base: Offset,
    ) -> Result<Vec<PathBuf>> {
        let mut removed = Vec::new();
        for segment in old {
            if segment.base == base {
                for role in ROLES {
                    let renamed =
                        self.insist(async || Retaining(self.0).rename_deleted(segment, role).await);
                    removed.extend(renamed.await?);
                }
            } else {
                let others = [Role::OffsetIndex, Role::TimeIndex, Role::TxnIndex];
                let unnamed = self.insist(async || LogFolders(self.0).unname(segment).await);
                removed.extend(unnamed.await?);
                for role in others.into_iter().chain([Role::Snapshot]) {
                    if role == Role::Snapshot || self.is_home(&segment.folder) {
                        let renamed = self
                            .insist(async || Retaining(self.0).rename_deleted(segment, role).await);
                        removed.extend(renamed.await?);
                    }
                }
            }
        }
        LogFolders(self.0).note_changed(folder);
        self.flush.names.note(None);
        Flushing(self.0)
            .patiently(async || Flushing(self.0).sync_names().await)
            .await?;
        for role in ROLES {
            let to = file_path(folder, base, role);
            let from = swap_path(folder, base, role);
            self.insist(async || self.rename_if_there(role, &from, &to).await)
                .await?;
        }
        LogFolders(self.0).note_changed(folder);
        Flushing(self.0)
            .patiently(async || Flushing(self.0).sync_names().await)
            .await?;
        Ok(removed)
    }

    async fn rename_if_there(self, role: Role, from: &Path, to: &Path) -> Result<()> {
        match self.store.disk().rename(from, to).await {
            // A segment without aborted transactions has no index of them.
            Err(error)
                if error.kind() == std::io::ErrorKind::NotFound && role == Role::TxnIndex =>
            {
                Ok(())
            }
            result => result.map_err(Error::io("rename", from)),
        }
    }

    /// Replaces the old segments in the list, for reads from now on.
    fn replace(self, old: &[Rc<Segment<P>>], made: CompactedSegment, unfinished: Option<&Error>) {
        assert!(
            old.iter().all(|segment| segment.are_names_lent()),
            "their names were lent"
        );
        let charge = self.store.charge(&made.folder, made.size);
        let CompactedSegment {
            folder,
            base,
            size,
            loaded,
            ..
        } = made;
        let segment = Segment::made(folder, base, size, loaded, charge, old);
        if let Some(error) = unfinished {
            segment.take_offline(&error.to_string());
        }
        let segment = Rc::new(segment);
        let event = self.segments.replace(old, &segment);
        self.segment_changed(&event);
        self.check_invariants();
    }
}
