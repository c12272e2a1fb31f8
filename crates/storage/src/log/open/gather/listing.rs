//! What is in a log's folder on another path, and which logs do not wait for that.
//!
//! A topic that was created since the broker started has an id that no topic had before, so all of
//! its files on any path were made by its own log, and home has notes of these: without a note
//! there is nothing to be read. What an older topic of the name left names the older id. It is set
//! aside when this log makes its folder there, or by the next start.
//! Only the listing is given up, which changes nothing whenever it completes.

use std::io;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use platform::disk::{Disk, Entry};
use platform::{Platform, task};

use super::GatherState;
use crate::tier::TierPath;

/// How long a new log waits for the listing of a path.
///
/// It skips the listing where an operation already takes as long.
const LOOK_MAX: Duration = Duration::from_secs(1);

/// A folder and its entries.
pub(super) type FolderListing = (Rc<Path>, io::Result<Vec<Entry>>);

impl<P: Platform> GatherState<'_, P> {
    /// Lists the log's folder on a path; `None` where a new log does without.
    pub(super) async fn listed_on(&self, path: &TierPath, is_new: bool) -> Option<FolderListing> {
        let disk = self.store.disk();
        // Home is a log's folder, which has a name.
        let name = self.home.file_name().unwrap_or_default();
        let folder: Rc<Path> = path.dir().join(name).into();
        let waits = !is_new || !self.notes.away.is_empty() || !self.notes.owed.is_empty();
        let listed = if waits {
            Some(disk.list(&folder).await)
        } else if disk.under_way_for(path.dir()) < LOOK_MAX {
            let listing = task::timeout(LOOK_MAX, disk.list(&folder));
            listing.await.ok()
        } else {
            None
        };
        if listed.is_none() {
            tracing::warn!(dir = %path.dir().display(), log = %self.home.display(),
                "a path does not answer: a new log begins without a look at it");
        }
        listed.map(|listed| (folder, listed))
    }
}
