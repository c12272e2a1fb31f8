//! A log's folder on another path: made where there is none, and skipped where what is there is not
//! the log's.
//!
//! A path of the fastest tier is a log directory, too: the log may have been at home there, and
//! what it has left stays until it is retired; and a folder may not say whose it is. That concerns
//! only this log: its segments go elsewhere, or wait as without room, and after a while the log
//! looks again. Invariants: nothing of such a folder is changed or removed; other logs use the path
//! as before. It does not: find out whose a folder is (`open/folder.rs`), or choose paths.

use std::io::ErrorKind;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use platform::Platform;
use platform::disk::Disk;

use super::open::folder::{FolderClaim, claim};
use crate::error::{Error, Result};
use crate::log::views::{Flushing, LogFolders};
use crate::segment::Segment;
use crate::tier::PathId;

/// How long a path is skipped, and the least time between two warnings.
const PASSED_OVER: Duration = Duration::from_mins(1);
/// How often a folder is made again whose name was taken away meanwhile.
const TRIES: usize = 8;

impl<P: Platform> LogFolders<'_, P> {
    /// Makes a folder on another path, if there is none, that names the topic.
    pub(crate) async fn make_folder(self, folder: &Rc<Path>) -> Result<()> {
        let making = self.tiers.making.acquire().await;
        let _making = making.map_err(|_| Error::Closed)?;
        if self.is_ready(folder) {
            return Ok(());
        }
        let mut left = TRIES;
        loop {
            let created = self.store.disk().create_dir(folder).await;
            created.map_err(Error::io("create", folder))?;
            left = left.saturating_sub(1);
            match claim(&self.store, folder, &self.partition, self.topic_id).await {
                Ok(FolderClaim::Ours) => break,
                Ok(FolderClaim::Nothing) => {}
                Ok(FolderClaim::OldHome) => {
                    let reason = "the log was at home there, and what it left is not gone yet";
                    return Err(self.pass_over(folder, reason));
                }
                Err(Error::Corrupt { .. }) => {
                    let reason =
                        "nobody knows whose segments these are, for what says so is damaged";
                    return Err(self.pass_over(folder, reason));
                }
                // The folder was retired, or deleted, after it was found.
                Err(Error::Io { source, .. })
                    if source.kind() == ErrorKind::NotFound && left > 0 => {}
                Err(error) => return Err(error),
            }
        }
        if let Some(id) = self.path_of_folder(folder) {
            let mut passed_over = self.tiers.passed_over.borrow_mut();
            passed_over.retain(|(other, _)| *other != id);
        }
        self.tiers.ready.borrow_mut().push(Rc::clone(folder));
        Ok(())
    }

    /// Returns true when the log has used the folder since it was opened.
    pub(super) fn is_ready(self, folder: &Rc<Path>) -> bool {
        self.tiers.ready.borrow().contains(folder)
    }

    fn path_of_folder(self, folder: &Path) -> Option<PathId> {
        let path = self.store.tiers().and_then(|tiers| tiers.holding(folder));
        path.map(|path| path.id)
    }

    /// Lets the log skip a path for a while; returns the error for that.
    fn pass_over(self, folder: &Path, reason: &'static str) -> Error {
        let now = self.store.clock().now();
        if let Some(id) = self.path_of_folder(folder) {
            let mut passed_over = self.tiers.passed_over.borrow_mut();
            passed_over.retain(|(other, _)| *other != id);
            passed_over.push((id, now + PASSED_OVER));
        }
        let said = &self.store.shared.told_of_taken;
        let since = |said| now.saturating_duration_since(said);
        if said.get().is_none_or(|said| since(said) >= PASSED_OVER) {
            said.set(Some(now));
            tracing::warn!(partition = %self.partition, folder = %folder.display(), reason,
                "segments of a log that would go here go elsewhere, or wait; other logs may be in the same case");
        }
        let path = folder.to_path_buf();
        Error::Taken { path, reason }
    }

    /// Returns the paths that are skipped now.
    pub(crate) fn passed_over(self) -> Vec<PathId> {
        let passed_over = self.tiers.passed_over.borrow();
        if passed_over.is_empty() {
            return Vec::new();
        }
        let now = self.store.clock().now();
        let still = passed_over.iter().filter(|(_, until)| *until > now);
        still.map(|(id, _)| *id).collect()
    }

    /// Returns true for a segment without files, because its folder is not the log's.
    pub(super) fn was_refused(self, segment: &Segment<P>) -> bool {
        let folder = &segment.folder;
        if self.is_home(folder) || segment.is_named() || self.is_ready(folder) {
            return false;
        }
        let passed_over = self.tiers.passed_over.borrow();
        let id = self.path_of_folder(folder);
        passed_over.iter().any(|(other, _)| Some(*other) == id)
    }

    /// Makes an empty segment where new ones go, with its name.
    pub(super) async fn named_segment(
        self,
        make: &impl Fn() -> Rc<Segment<P>>,
    ) -> Result<Rc<Segment<P>>> {
        loop {
            let segment = make();
            match Flushing(self.0).name_segment(&segment).await {
                // The path is skipped from now on, so the loop ends, at home if not before.
                Err(Error::Taken { .. }) => {}
                named => return named.map(|_| segment),
            }
        }
    }
}
