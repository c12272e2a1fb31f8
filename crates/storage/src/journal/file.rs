//! The file of a ring: how it is made, opened, used and removed.
//!
//! [`look`] shows what a file holds, whatever its state, and changes nothing.
//! States: a draft -> a [`FoundRing`], whose header counts (`open`) -> a [`ReadRing`], whose
//! commits were read (`scan`) -> an [`OpenRing`], which takes commits (`begin`, or `create` for a
//! new file).
//! Invariants: the file has its name when its whole length and both headers are durable; it is
//! synced before it is read, since a killed process leaves what is not on the disk; what is written
//! afterwards is durable when its write completes; a ring takes commits only when both headers have
//! its incarnation.
//! It does not know when headers are written (`committer`), or what is done with the commits.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use bytes::Bytes;
use platform::buf::AlignedBuf;
use platform::disk::{BLOCK_BYTES, Disk, DiskFile, Medium};

pub use create::create;
pub use look::{RingRow, ShownChange, look};
pub use open::{FoundRing, ReadRing, open};
pub(super) use open::{open_to_look, open_to_replay};
pub(super) use window::RingBytes;

use super::error::{JournalError, Result};
use super::header::Header;
use super::ring::Ring;
use crate::checkpoint::journal_mark::RingMark;

mod create;
mod look;
mod open;
mod window;

/// Length of one write or read when the whole file is written or read, in bytes.
const PIECE_BYTES: usize = 1 << 20;

/// The file of a ring, for durable writes.
pub(super) struct RingFile<F> {
    file: F,
    path: Rc<Path>,
}

/// A ring that takes commits.
pub struct OpenRing<F> {
    pub(super) file: RingFile<F>,
    pub(super) ring: Ring,
}

impl<F> OpenRing<F> {
    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// Returns what tells this use of the ring from others.
    pub fn mark(&self) -> RingMark {
        self.ring.mark()
    }
}

impl<F: DiskFile> RingFile<F> {
    fn new(file: F, path: &Path) -> Self {
        Self {
            file,
            path: path.into(),
        }
    }

    /// Writes blocks to a place; they are durable when it completes.
    pub(super) async fn write(&self, place: u64, blocks: Bytes) -> Result<()> {
        let written = self.file.write_durably_at(place, vec![blocks]).await;
        written.map_err(JournalError::io("write", &self.path))
    }

    /// Writes a header over the older one, durably.
    pub(super) async fn write_header(&self, header: &Header) -> Result<()> {
        let mut block = AlignedBuf::zeroed(BLOCK_BYTES);
        header.encode_into(&mut block);
        let place = Header::place_of(header.generation);
        self.write(place, block.freeze()).await
    }

    /// Opens a ring: writes both headers, one after the other.
    async fn begin(self, mut ring: Ring) -> Result<OpenRing<F>> {
        while let Some(header) = ring.begin_header() {
            self.write_header(&header).await?;
            ring.header_synced();
        }
        assert!(ring.released().is_some(), "two headers open a ring");
        Ok(OpenRing { file: self, ring })
    }
}

/// Refuses memory that is written in words: a front may be torn there.
fn check_medium<D: Disk>(disk: &D, path: &Path) -> Result<()> {
    match disk.medium(dir_of(path)) {
        Medium::File => Ok(()),
        Medium::Dax { .. } => Err(JournalError::Unfit {
            reason: "a ring needs a device that writes whole sectors",
        }),
    }
}

/// Removes the file of a ring, durably, with what an interrupted creation left.
///
/// Its commits are in the segments, synced. A missing file is no error: an earlier removal may have
/// ended before it was durable.
pub async fn remove<D: Disk>(disk: &D, path: &Path) -> Result<()> {
    remove_if_there(disk, path).await?;
    remove_if_there(disk, &draft_of(path)).await?;
    sync_dir_of(disk, path).await
}

async fn remove_if_there<D: Disk>(disk: &D, path: &Path) -> Result<()> {
    match disk.remove_file(path).await {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(JournalError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}

async fn sync_dir_of<D: Disk>(disk: &D, path: &Path) -> Result<()> {
    let dir = dir_of(path);
    let synced = disk.sync_dir(dir).await;
    synced.map_err(JournalError::io("sync", dir))
}

fn dir_of(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

/// Returns the name of a file that is being made.
fn draft_of(path: &Path) -> PathBuf {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".tmp");
    draft.into()
}
