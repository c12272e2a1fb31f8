//! What is in a log's folder on another path, and who does not wait for that.
//!
//! A topic that was made in this life has an id that nobody had before, so nothing on any path is of it but what its own log
//! has made, and of that home has notes: without one there is nothing to be read. What an older topic of the name left
//! names the older one's id. It is set aside when this log makes its folder there, or by the next start, as here.
//! Only the listing is given up, which changes nothing whenever it is carried out.

use std::io;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use platform::disk::{Disk, Entry};
use platform::{Platform, task};

use super::Gathering;
use crate::tier::TierPath;

/// A new log waits no longer for the listing of a path. It lists none where something takes as long already.
const LOOK_MAX: Duration = Duration::from_secs(1);

/// A folder, and what is in it.
pub(super) type Listed = (Rc<Path>, io::Result<Vec<Entry>>);

impl<P: Platform> Gathering<'_, P> {
    /// Lists the log's folder on a path; `None` where a new log does without.
    pub(super) async fn listed_on(&self, path: &TierPath, is_new: bool) -> Option<Listed> {
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
