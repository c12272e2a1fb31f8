//! Shared syncs of a directory: one sync covers all names that were changed before it began.
//!
//! Each deletion of a log changes a name in its log directory and needs that change durable. Ten
//! thousand deletions with one sync each would block a shard's changes for a minute.
//! Invariant: every caller gets the result of a sync that began after its request. A failed sync is
//! reported to all callers that waited for it and is not retried for them.
//! It does not decide which names need a sync.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use platform::sync::oneshot;
use platform::{Disk, Platform, task};

use crate::error::{Error, Result};
use crate::store::Store;

type SyncWaiters = Vec<oneshot::Sender<Result<()>>>;

/// The callers that wait for the next sync of a directory; a directory in the map has a sync in
/// progress.
#[derive(Default)]
pub(crate) struct DirSyncs {
    // Bounded: one entry for each directory that has logs, and one sender for each log.
    by_dir: RefCell<BTreeMap<PathBuf, SyncWaiters>>,
    /// Directories whose names were synced since the start, without a failure after it.
    // Bounded: the log directories.
    named: RefCell<BTreeSet<PathBuf>>,
}

impl<P: Platform> Store<P> {
    /// Returns true when the folder of every log of this shard in a directory has a durable name:
    /// those that the start found, and those that it has made since.
    pub(crate) fn are_names_durable(&self, dir: &Path) -> bool {
        self.shared.dir_syncs.named.borrow().contains(dir)
    }

    /// Notes that the names in a directory were synced, or that one may not be durable.
    pub(crate) fn note_names(&self, dir: &Path, are_durable: bool) {
        let mut named = self.shared.dir_syncs.named.borrow_mut();
        if !are_durable {
            named.remove(dir);
        } else if !named.contains(dir) {
            named.insert(dir.to_owned());
        }
    }

    /// Makes the names in a directory durable, in one sync with other callers.
    pub(crate) async fn sync_dir_with_others(&self, dir: &Path) -> Result<()> {
        let (sender, receiver) = oneshot::channel();
        let begins = {
            let mut all = self.shared.dir_syncs.by_dir.borrow_mut();
            if let Some(waiting) = all.get_mut(dir) {
                waiting.push(sender);
                false
            } else {
                all.insert(dir.to_owned(), vec![sender]);
                true
            }
        };
        if begins {
            task::spawn(self.clone().sync_for_those_who_wait(dir.to_owned()));
        }
        // The task ended with the runtime, so it is unknown whether the names are durable.
        receiver.await.unwrap_or(Err(Error::Closed))
    }

    async fn sync_for_those_who_wait(self, dir: PathBuf) {
        loop {
            let waiting = {
                let mut all = self.shared.dir_syncs.by_dir.borrow_mut();
                // Only this task removes the entry.
                let waiting = all.get_mut(&dir).expect("it is in line");
                let waiting = std::mem::take(waiting);
                if waiting.is_empty() {
                    all.remove(&dir);
                    return;
                }
                waiting
            };
            let synced = self.disk().sync_dir(&dir).await;
            let synced = synced.map_err(Error::dir_sync(&dir));
            for sender in waiting {
                // A caller that no longer waits has dropped its receiver.
                drop(sender.send(synced.clone()));
            }
        }
    }
}
