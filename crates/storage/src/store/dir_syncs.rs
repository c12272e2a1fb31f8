//! Syncs of a directory that many wait for: one covers all names that were changed before it began.
//!
//! Each deletion of a log changes a name in its log directory and must know it durable. Ten thousand of them, each with a sync of its
//! own, keep a shard's changes waiting for a minute. Invariant: whoever waits is told of a sync that began after he asked; a
//! sync that failed is told to all who wait for it, and not tried again for them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use platform::sync::oneshot;
use platform::{Disk, Platform, task};

use crate::error::{Error, Result};
use crate::store::Store;

type Waiting = Vec<oneshot::Sender<Result<()>>>;

/// Those who wait for the next sync of a directory; one is under way while the directory is named here.
#[derive(Default)]
pub(crate) struct DirSyncs {
    // Bounded: one for each directory that logs lie in, and of senders one for each log.
    by_dir: RefCell<BTreeMap<PathBuf, Waiting>>,
}

impl<P: Platform> Store<P> {
    /// Makes the names in a directory durable, together with others who ask for that.
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
        // The task ended with the runtime: nobody knows whether it is durable.
        receiver.await.unwrap_or(Err(Error::Closed))
    }

    async fn sync_for_those_who_wait(self, dir: PathBuf) {
        loop {
            let waiting = {
                let mut all = self.shared.dir_syncs.by_dir.borrow_mut();
                // Only this task takes it out of the line.
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
                // Whoever does not wait any more does not want to know.
                drop(sender.send(synced.clone()));
            }
        }
    }
}
