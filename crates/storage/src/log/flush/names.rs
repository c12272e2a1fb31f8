//! File names that are not durable yet: which folders have to be synced before what follows counts.
//!
//! One caller at a time syncs a folder; a caller that comes meanwhile waits, and finds that the
//! sync was enough for it, or makes another. Invariants: a change counts as durable only after a
//! sync that began after it; this log does not sync a folder again whose sync failed. It does not:
//! know files, or decide which have to be named.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use platform::Platform;
use platform::disk::Disk;
use platform::sync::Semaphore;

use crate::error::{Error, Result};
use crate::log::views::{Flushing, PathFailure};

/// The counted changes of one folder.
#[derive(Debug)]
struct Changes {
    /// `None` is home.
    folder: Option<Rc<Path>>,
    made: u64,
    durable: u64,
}

/// The renames, creations and removals in a log's folders.
#[derive(Debug)]
pub(crate) struct Names {
    changes: RefCell<Vec<Changes>>,
    /// The holder syncs.
    turn: Semaphore,
}

impl Default for Names {
    fn default() -> Self {
        Self {
            changes: RefCell::default(),
            turn: Semaphore::new(1),
        }
    }
}

impl Names {
    /// Notes a change in a folder (`None` is home) that must be synced before what follows counts.
    pub(crate) fn note(&self, folder: Option<&Rc<Path>>) {
        let mut all = self.changes.borrow_mut();
        let known = all.iter_mut().find(|known| known.folder.as_ref() == folder);
        if let Some(known) = known {
            known.made = known.made.saturating_add(1);
            return;
        }
        all.push(Changes {
            folder: folder.map(Rc::clone),
            made: 1,
            durable: 0,
        });
    }

    /// Returns a folder to be synced, and up to which change that sync would count.
    fn next(&self) -> Option<(Option<Rc<Path>>, u64)> {
        let all = self.changes.borrow();
        let due = all.iter().find(|changes| changes.durable < changes.made);
        due.map(|changes| (changes.folder.clone(), changes.made))
    }

    fn synced(&self, folder: Option<&Rc<Path>>, upto: u64) {
        let mut all = self.changes.borrow_mut();
        for known in all
            .iter_mut()
            .filter(|known| known.folder.as_ref() == folder)
        {
            known.durable = known.durable.max(upto);
        }
    }

    /// Returns true when there is nothing to be synced.
    pub(crate) fn are_durable(&self) -> bool {
        self.next().is_none()
    }
}

impl<P: Platform> Flushing<'_, P> {
    /// Makes the names of new files durable.
    ///
    /// A failure latches the log, unless no segment that is still being written lies in that
    /// folder: then it concerns only the folder's path.
    pub(crate) async fn sync_names(self) -> Result<()> {
        let names = &self.flush.names;
        if names.are_durable() && names.turn.available_permits() > 0 {
            return Ok(());
        }
        Box::pin(self.sync_changed_names()).await
    }

    async fn sync_changed_names(self) -> Result<()> {
        let names = &self.flush.names;
        let turn = names.turn.acquire().await;
        let _turn = turn.map_err(|_| Error::Closed)?;
        while let Some((folder, upto)) = names.next() {
            let at: &Path = folder.as_deref().unwrap_or(self.folder());
            let synced = self.store().disk().sync_dir(at).await;
            let synced = synced.map_err(Error::dir_sync(at));
            if let Err(error) = &synced
                && !error.is_exhausted()
            {
                if folder.is_none() || self.segments.are_written_to(at) {
                    self.fail(error);
                    return synced;
                }
                PathFailure(self.0).fail_dir(error);
                names.synced(folder.as_ref(), u64::MAX);
                return synced;
            }
            synced?;
            names.synced(folder.as_ref(), upto);
        }
        Ok(())
    }
}
