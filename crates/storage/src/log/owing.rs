//! What other paths owe of a log: copies that do not count any more, and what a compaction was making.
//!
//! Invariants: it is noted at home, durably, before anything depends on its absence; during a move both ends are named, and
//! only the one counts that the note of the segment names (`open/notes.rs`). It does not: pay, which is for a start, or for
//! whoever removes the files.

use std::path::Path;
use std::rc::Rc;

use platform::Platform;
use wire::types::Offset;

use super::open::notes::{Owed, Owing, Place, write_owed};
use crate::error::{Kind, Result};
use crate::log::views::{Debts, LogFolders};

impl<P: Platform> Debts<'_, P> {
    pub(super) fn owed_of(self, base: Offset) -> Owed {
        let owed = self.tiers.owed.borrow().get(&base).cloned();
        owed.unwrap_or_default()
    }

    /// Notes at home that something in a folder on another path does not count any more; durable when it returns.
    pub(super) async fn owe(self, owing: Owing, base: Offset, folder: &Path) -> Result<()> {
        let mut all = self.owed_of(base);
        if self.add_owed(&mut all, owing, base, folder) {
            self.set_owed(base, all).await?;
        }
        Ok(())
    }

    pub(super) async fn set_owed(self, base: Offset, owed: Owed) -> Result<()> {
        let written = write_owed(self.store.disk(), &self.folder, base, &owed).await;
        if written
            .as_ref()
            .is_err_and(|error| error.kind() != Kind::Full)
        {
            // It may be there all the same.
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

    /// A folder on another path has paid.
    pub(super) async fn owe_no_more(self, base: Offset, folder: &Path) -> Result<()> {
        let place = LogFolders(self.0).place_of_folder(base, folder);
        let is_left = |owing: Owing, other: &Place| owing == Owing::Unmade || *other != place;
        self.keep_owed(base, is_left).await
    }

    /// The end of a move: in `paid` nothing is left of the segment, in `counts` it is.
    pub(super) async fn owe_no_move(self, base: Offset, paid: &Path, counts: &Path) -> Result<()> {
        let paid = LogFolders(self.0).place_of_folder(base, paid);
        let counts = LogFolders(self.0).place_of_folder(base, counts);
        let is_left = |owing: Owing, other: &Place| match owing {
            Owing::Unmade => true,
            Owing::Moving => *other != paid && *other != counts,
            Owing::Copy => *other != paid,
        };
        self.keep_owed(base, is_left).await
    }

    /// Writes what is owed and could not be written.
    pub(super) async fn write_unwritten(self, base: Offset) -> Result<()> {
        let is_unwritten = self.tiers.unwritten.borrow().contains(&base);
        if is_unwritten {
            self.set_owed(base, self.owed_of(base)).await?;
        }
        Ok(())
    }

    /// Notes that of a segment's copies at both ends of a move only the one counts that the note names, before the second
    /// has its names. After a loss of power they may be there, and home has no note of one: a start without its path would know
    /// nothing of it, and when retention has deleted the segment by the time the path is back, the copy would bring a part of
    /// the log to life again. Without room for that the segment moves all the same, for that makes some.
    pub(crate) async fn owe_move(self, base: Offset, from: &Rc<Path>, to: &Rc<Path>) -> Result<()> {
        let mut all = self.owed_of(base);
        for folder in [from, to] {
            if !self.is_home(folder) {
                let place = LogFolders(self.0).place_of_folder(base, folder);
                all.retain(|(owing, other)| *owing == Owing::Unmade || *other != place);
                all.push((Owing::Moving, place));
            }
        }
        match self.set_owed(base, all).await {
            Err(error) if error.kind() == Kind::Full => {
                // What may be there of it says nothing against the note that is to come; what was owed before would.
                self.owe_no_more(base, to).await
            }
            written => written,
        }
    }

    /// The same, to be written before anything depends on it.
    pub(super) fn owe_unwritten(self, base: Offset, folder: &Path) {
        let mut all = self.owed_of(base);
        if self.add_owed(&mut all, Owing::Copy, base, folder) {
            self.tiers.owed.borrow_mut().insert(base, all);
            self.tiers.unwritten.borrow_mut().insert(base);
        }
    }

    /// False: it is there, and written.
    fn add_owed(self, all: &mut Owed, owing: Owing, base: Offset, folder: &Path) -> bool {
        let owed = (owing, LogFolders(self.0).place_of_folder(base, folder));
        let is_written = !self.tiers.unwritten.borrow().contains(&base);
        if all.contains(&owed) {
            return !is_written;
        }
        if owing == Owing::Copy {
            all.retain(|(other, place)| *other != Owing::Moving || *place != owed.1);
        }
        all.push(owed);
        true
    }

    async fn keep_owed(self, base: Offset, is_left: impl Fn(Owing, &Place) -> bool) -> Result<()> {
        let before = self.owed_of(base);
        let mut owed = before.clone();
        owed.retain(|(owing, place)| is_left(*owing, place));
        if owed == before && !self.tiers.unwritten.borrow().contains(&base) {
            return Ok(());
        }
        self.set_owed(base, owed).await
    }
}
