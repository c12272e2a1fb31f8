//! Files of a log's segments that a start set aside on other paths and would take back
//! (`open/gather/returned.rs`).
//!
//! A start takes such a file back where a note says that a segment is on a path and only a file set
//! aside under its base offset is there. A note is not written or removed at the same moment as the
//! file that it is about. Therefore, before a noted file goes, and before a note is made for a new
//! file, the files set aside there under that base offset get a name that no start takes back,
//! durably.
//! Invariant: none of these files is removed. It does not: set anything aside; only a start does.

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
    /// Renames what was set aside of the segment at `base` in `folder`, so that no start takes it
    /// back.
    ///
    /// It runs before the note of that segment, in a folder on another path, is written or removed.
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
                // The start took it back, or something outside the broker removed it.
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
