//! What other paths owe a log: the removal of copies that no longer count, and of what a compaction
//! was making.
//!
//! Invariants: a debt is noted at home, durably, before anything depends on the absence of its
//! files; during a move both ends are named, and only the one counts that the note of the segment
//! names (`open/notes.rs`).
//! It does not: pay debts; a start does, or the code that removes the files.

use std::path::Path;
use std::rc::Rc;

use platform::Platform;
use wire::types::Offset;

use super::open::notes::{Debt, DebtList, NotedPlace, write_owed};
use crate::error::{FailureKind, Result};
use crate::log::views::{Debts, LogFolders};

impl<P: Platform> Debts<'_, P> {
    pub(super) fn owed_of(self, base: Offset) -> DebtList {
        let owed = self.tiers.owed.borrow().get(&base).cloned();
        owed.unwrap_or_default()
    }

    /// Notes at home that files in a folder on another path no longer count; durable when it
    /// returns.
    pub(super) async fn owe(self, owing: Debt, base: Offset, folder: &Path) -> Result<()> {
        let mut all = self.owed_of(base);
        if self.add_owed(&mut all, owing, base, folder) {
            self.set_owed(base, all).await?;
        }
        Ok(())
    }

    pub(super) async fn set_owed(self, base: Offset, owed: DebtList) -> Result<()> {
        let written = write_owed(self.store.disk(), &self.folder, base, &owed).await;
        if written
            .as_ref()
            .is_err_and(|error| error.kind() != FailureKind::Full)
        {
            // The failed write may have reached the disk.
            self.tiers.unwritten.borrow_mut().insert(base);
        }
        written?;
        self.tiers.unwritten.borrow_mut().remove(&base);
        if owed.is_empty() {
            self.tiers.owed.borrow_mut().remove(&base);
        } else {
            self.tiers.owed.borrow_mut().insert(base, owed);
        }
        Ok(())
    }

    /// Clears the debt of a folder on another path that has paid.
    pub(super) async fn owe_no_more(self, base: Offset, folder: &Path) -> Result<()> {
        let place = LogFolders(self.0).place_of_folder(base, folder);
        let is_left = |owing: Debt, other: &NotedPlace| owing == Debt::Unmade || *other != place;
        self.keep_owed(base, is_left).await
    }

    /// Ends a move: nothing of the segment is left in `paid`, and it counts in `counts`.
    pub(super) async fn owe_no_move(self, base: Offset, paid: &Path, counts: &Path) -> Result<()> {
        let paid = LogFolders(self.0).place_of_folder(base, paid);
        let counts = LogFolders(self.0).place_of_folder(base, counts);
        let is_left = |owing: Debt, other: &NotedPlace| match owing {
            Debt::Unmade => true,
            Debt::Moving => *other != paid && *other != counts,
            Debt::Copy => *other != paid,
        };
        self.keep_owed(base, is_left).await
    }

    /// Writes the debts of `base` that could not be written before.
    pub(super) async fn write_unwritten(self, base: Offset) -> Result<()> {
        let is_unwritten = self.tiers.unwritten.borrow().contains(&base);
        if is_unwritten {
            self.set_owed(base, self.owed_of(base)).await?;
        }
        Ok(())
    }

    /// Notes that of both copies in a move only the one counts that the note names.
    ///
    /// It does so before the second copy has its names. After a power loss both copies may exist
    /// while home has no note of one: a start without that path would not know of the copy, and if
    /// retention has deleted the segment by the time the path is back, the copy would bring a part
    /// of the log back. Without room for the debt the segment moves anyway, because the move makes
    /// room.
    pub(crate) async fn owe_move(self, base: Offset, from: &Rc<Path>, to: &Rc<Path>) -> Result<()> {
        let mut all = self.owed_of(base);
        for folder in [from, to] {
            if !self.is_home(folder) {
                let place = LogFolders(self.0).place_of_folder(base, folder);
                all.retain(|(owing, other)| *owing == Debt::Unmade || *other != place);
                all.push((Debt::Moving, place));
            }
        }
        match self.set_owed(base, all).await {
            Err(error) if error.kind() == FailureKind::Full => {
                // What was written of this debt does not contradict the note that follows; an older
                // debt would.
                self.owe_no_more(base, to).await
            }
            written => written,
        }
    }

    /// Adds a debt that is written before anything depends on it.
    pub(super) fn owe_unwritten(self, base: Offset, folder: &Path) {
        let mut all = self.owed_of(base);
        if self.add_owed(&mut all, Debt::Copy, base, folder) {
            self.tiers.owed.borrow_mut().insert(base, all);
            self.tiers.unwritten.borrow_mut().insert(base);
        }
    }

    /// Adds a debt; returns false when it is already there and written.
    fn add_owed(self, all: &mut DebtList, owing: Debt, base: Offset, folder: &Path) -> bool {
        let owed = (owing, LogFolders(self.0).place_of_folder(base, folder));
        let is_written = !self.tiers.unwritten.borrow().contains(&base);
        if all.contains(&owed) {
            return !is_written;
        }
        if owing == Debt::Copy {
            all.retain(|(other, place)| *other != Debt::Moving || *place != owed.1);
        }
        all.push(owed);
        true
    }

    async fn keep_owed(
        self,
        base: Offset,
        is_left: impl Fn(Debt, &NotedPlace) -> bool,
    ) -> Result<()> {
        let before = self.owed_of(base);
        let mut owed = before.clone();
        owed.retain(|(owing, place)| is_left(*owing, place));
        if owed == before && !self.tiers.unwritten.borrow().contains(&base) {
            return Ok(());
        }
        self.set_owed(base, owed).await
    }
}
