//! What was set aside of a log's segments on other paths, and that a start would take back (`open/gather/returned.rs`).
//!
//! It does where a note says that a segment is on a path, and nothing is there but what was set aside under its base. A note
//! is not written and removed at one moment with the file that it is about. So before a noted file goes, and before a note is
//! made of one that is to be, what is there under that base gets a name that no start takes back, durably.
//! Invariant: nothing of it is removed. It does not: set anything aside, which only a start does.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use platform::Platform;
use platform::disk::Disk;
use wire::types::Offset;

use super::files::free_aside;
use crate::error::{Error, Result};
use crate::log::views::LogFolders;
use crate::segment::naming;

impl<P: Platform> LogFolders<'_, P> {
    /// The note of the segment at `base` in a folder on another path is about to say nothing of what was set aside there.
    pub(crate) async fn pass_over_asides(self, base: Offset, folder: &Path) -> Result<()> {
        let of_it: Vec<_> = {
            let asides = self.tiers.asides.borrow();
            let is_of_it = |(at, file): &&(Offset, PathBuf)| *at == base && is_in(file, folder);
            let of_it = asides.iter().filter(is_of_it);
            of_it.map(|(_, file)| file.clone()).collect()
        };
        if of_it.is_empty() {
            return Ok(());
        }
        let now_ms = self.store.clock().wall_ms();
        for file in &of_it {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            let past = folder.join(naming::passed_over_name(&name));
            let to = free_aside(self.store.disk(), &past, now_ms).await?;
            match self.store.disk().rename(file, &to).await {
                // It was taken back, or somebody took it.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                renamed => renamed.map_err(Error::io("rename", file))?,
            }
        }
        self.sync_folder(folder).await?;
        let mut asides = self.tiers.asides.borrow_mut();
        asides.retain(|(at, file)| *at != base || !is_in(file, folder));
        Ok(())
    }
}

fn is_in(file: &Path, folder: &Path) -> bool {
    file.parent() == Some(folder)
}
