//! A ring that is there: its header, its commits, and its next use.
//!
//! Invariants: file and name are synced before anything is read; memory is bounded by the longest
//! commit; a ring that fails to prove that it is whole is refused by its path, and not changed.
//! It does not apply commits: the caller gets each as it is read, and has them in the segments,
//! synced, before [`ReadRing::begin`]. Before any ring of a log directory takes a commit, all rings
//! of the directory have begun their next use, or are removed.

use std::io::ErrorKind;
use std::path::Path;

use platform::buf::AlignedBuf;
use platform::disk::{Disk, DiskFile, Open};
use wire::types::Uuid;

use super::window::{RingBytes, Window, look_for_loss, read_commits};
use super::{OpenRing, RingFile, check_medium, dir_of};
use crate::journal::commit::Commit;
use crate::journal::error::{JournalError, Result};
use crate::journal::header::{Choice, Header, HeaderError, choose};
use crate::journal::ring::Ring;
use crate::journal::scan::StopReason;
use crate::journal::{BLOCK, Head, RING_START};
use crate::num::index;

/// A ring's file with a header that counts.
pub struct FoundRing<F> {
    file: RingFile<F>,
    choice: Choice,
}

/// A ring whose commits were read, up to an end that a crash explains.
pub struct ReadRing<F> {
    file: RingFile<F>,
    header: Header,
    end: Head,
    stopped: StopReason,
}

/// What damage means for those who read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Damage {
    /// The ring is not used. Proofs of a loss are looked for.
    Refused,
    /// It is the end; no proofs are looked for.
    Ends,
    /// The ring is not used, but no proofs are looked for.
    NotLookedFor,
}

/// Opens the file of a ring, for the log directory of this cluster to which it belongs.
pub async fn open<D: Disk>(
    disk: &D,
    path: &Path,
    cluster_id: &str,
    directory_id: Uuid,
) -> Result<FoundRing<D::File>> {
    check_medium(disk, path)?;
    let opened = disk.open(path, Open::Write).await;
    let file = opened.map_err(JournalError::io("open", path))?;
    find(disk, file, (path, Access::Writes), cluster_id, directory_id).await
}

/// Does the same for a replay, which only reads: a device that takes no writes any more has what it
/// had.
pub(in crate::journal) async fn open_to_replay<D: Disk>(
    disk: &D,
    path: &Path,
    cluster_id: &str,
    directory_id: Uuid,
) -> Result<FoundRing<D::File>> {
    match open(disk, path, cluster_id, directory_id).await {
        Err(JournalError::Io { source, .. }) if source.kind() == ErrorKind::ReadOnlyFilesystem => {
            tracing::warn!(ring = %path.display(), "the journal's file system takes no writes: it is read as it is");
            open_to_look(disk, path, cluster_id, directory_id).await
        }
        opened => opened,
    }
}

/// Does the same, and changes nothing at all.
pub(in crate::journal) async fn open_to_look<D: Disk>(
    disk: &D,
    path: &Path,
    cluster_id: &str,
    directory_id: Uuid,
) -> Result<FoundRing<D::File>> {
    check_medium(disk, path)?;
    let opened = disk.open(path, Open::Read).await;
    let file = opened.map_err(JournalError::io("open", path))?;
    find(
        disk,
        file,
        (path, Access::ReadsOnly),
        cluster_id,
        directory_id,
    )
    .await
}

/// How the file of a ring was opened.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Writes,
    /// Nothing that is in a cache can become durable, and nothing changes any more.
    ReadsOnly,
}

async fn find<D: Disk>(
    disk: &D,
    file: D::File,
    (path, access): (&Path, Access),
    cluster_id: &str,
    directory_id: Uuid,
) -> Result<FoundRing<D::File>> {
    if access == Access::Writes {
        // A killed process leaves what is read from a cache, and a name, that are not on the disk
        // yet.
        let synced = file.sync().await;
        synced.map_err(JournalError::io("sync", path))?;
        let synced = disk.sync_dir(dir_of(path)).await;
        synced.map_err(JournalError::io("sync the directory of", path))?;
    }
    let headers = read_headers(&file, path).await?;
    let refused = |reason: HeaderError| JournalError::Refused {
        path: path.to_path_buf(),
        reason,
    };
    let choice = choose(header_blocks(&headers)).map_err(refused)?;
    let owned = choice.header.check_owner(cluster_id, directory_id);
    owned.map_err(refused)?;
    let len = file.len().await.map_err(JournalError::io("read", path))?;
    if len < choice.header.size.file_bytes() {
        return Err(JournalError::Damaged {
            path: path.to_path_buf(),
            at: choice.header.head,
            reason: StopReason::Impossible("the file is shorter than its ring"),
        });
    }
    let file = RingFile::new(file, path);
    Ok(FoundRing { file, choice })
}

/// Reads the blocks of both headers.
pub(super) async fn read_headers<F: DiskFile>(file: &F, path: &Path) -> Result<AlignedBuf> {
    let headers = AlignedBuf::zeroed(index(RING_START));
    let read = file.read_into(0, headers).await;
    read.map_err(JournalError::io("read", path))
}

/// Returns each of the two blocks.
pub(super) fn header_blocks(headers: &[u8]) -> [&[u8]; 2] {
    // A file that is too short has no second header, and `choose` says so.
    let blocks = headers.split_at_checked(index(BLOCK));
    let (first, second) = blocks.unwrap_or((headers, &[]));
    [first, second]
}

impl<F: DiskFile> FoundRing<F> {
    /// Returns the header that counts.
    pub fn header(&self) -> &Header {
        &self.choice.header
    }

    /// Returns what is wrong with the other header; after a crash that is ordinary.
    pub fn other_header(&self) -> Option<&HeaderError> {
        self.choice.other.as_ref()
    }

    /// Reads all commits in order, then looks for proof that one is missing.
    ///
    /// Fails when there is such proof: then commits were visited, and must not be used.
    pub async fn scan(self, visit: impl FnMut(Commit<'_>)) -> Result<ReadRing<F>> {
        self.read(visit, Damage::Refused).await
    }

    /// Reads all commits in order, up to the first that is missing, whatever the reason.
    ///
    /// For a ring that is given up: what is behind may have been acknowledged.
    pub(in crate::journal) async fn scan_up_to_damage(
        self,
        visit: impl FnMut(Commit<'_>),
    ) -> Result<ReadRing<F>> {
        self.read(visit, Damage::Ends).await
    }

    /// Reads all commits of a ring that has none, as far as the caller knows, and not the rest of
    /// the file: it finds those that are whole, and does not prove that there were none.
    pub async fn glance(self, visit: impl FnMut(Commit<'_>)) -> Result<ReadRing<F>> {
        self.read(visit, Damage::NotLookedFor).await
    }

    async fn read(self, visit: impl FnMut(Commit<'_>), damage: Damage) -> Result<ReadRing<F>> {
        let Self { file, choice } = self;
        let header = choice.header;
        let mut window = Window::new(&header);
        let mut scan = read_commits(&file, &header, &mut window, visit).await?;
        if damage == Damage::Refused {
            look_for_loss(&file, &mut scan, &mut window).await?;
        }
        let stopped = scan.stopped().expect("nothing is wanted after the end");
        let taken = (damage == Damage::Ends).then(|| scan.at());
        match scan.end().or(taken) {
            Some(end) => Ok(ReadRing {
                file,
                header,
                end,
                stopped,
            }),
            None => Err(JournalError::Damaged {
                path: file.path.to_path_buf(),
                at: scan.at(),
                reason: stopped,
            }),
        }
    }
}

impl<F: DiskFile> ReadRing<F> {
    /// Returns where the next use of the ring begins.
    pub fn end(&self) -> Head {
        self.end
    }

    /// Returns why the scan ended there.
    pub fn stopped(&self) -> StopReason {
        self.stopped
    }

    /// Returns the header with which the scan began.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// Reads all commits once more, in order.
    ///
    /// Fails if they are not those that were read before.
    pub(in crate::journal) async fn again(&self, visit: impl FnMut(Commit<'_>)) -> Result<()> {
        let mut window = Window::new(&self.header);
        let scan = read_commits(&self.file, &self.header, &mut window, visit).await?;
        if scan.at() == self.end {
            return Ok(());
        }
        Err(JournalError::Damaged {
            path: self.file.path.to_path_buf(),
            at: scan.at(),
            reason: StopReason::Impossible("another end than a moment ago"),
        })
    }

    /// Returns a reader of the bytes that the commits cover.
    pub(in crate::journal) fn bytes(&self) -> RingBytes<'_, F> {
        RingBytes::new(&self.file, &self.header)
    }

    /// Begins the next use of the ring; `random` gives its incarnation.
    ///
    /// Whatever was read is in the segments, synced: it does not count any more.
    pub async fn begin(self, random: u64) -> Result<OpenRing<F>> {
        let Self {
            file, header, end, ..
        } = self;
        let Some(ring) = Ring::after(&header, random, end) else {
            let path = file.path.to_path_buf();
            return Err(JournalError::WornOut { path });
        };
        file.begin(ring).await
    }
}
