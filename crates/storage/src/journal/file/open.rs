//! A ring that is there: its header, its commits, and its next use.
//!
//! Invariants: file and name are synced before anything is read; memory is bounded by the longest
//! commit; a ring that fails to prove that it is whole is refused by its path, and not changed.
//! It does not apply commits: the caller gets each as it is read, and has them in the segments,
//! synced, before [`ReadRing::begin`]. Before any ring of a log directory takes a commit, all rings
//! of the directory have begun their next use, or are removed.

use std::path::Path;

use platform::buf::{AlignedBuf, BufPool};
use platform::disk::{Disk, DiskFile, Open};
use wire::types::Uuid;

use super::{OpenRing, PIECE_BYTES, RingFile, check_medium, sync_dir_of};
use crate::journal::commit::Commit;
use crate::journal::error::{JournalError, Result};
use crate::journal::header::{Choice, Header, HeaderError, choose};
use crate::journal::ring::Ring;
use crate::journal::scan::{Scan, Step, StopReason, WantedRange};
use crate::journal::{BLOCK, Head, RING_START};
use crate::num::index;

/// Memory that a scan keeps for its next read, in bytes.
const WINDOW_KEPT_BYTES_MAX: usize = 8 << 20;

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
    // A killed process leaves what is read from a cache, and a name, that are not on the disk yet.
    let synced = file.sync().await;
    synced.map_err(JournalError::io("sync", path))?;
    sync_dir_of(disk, path).await?;
    let headers = AlignedBuf::zeroed(index(RING_START));
    let read = file.read_into(0, headers).await;
    let headers = read.map_err(JournalError::io("read", path))?;
    let refused = |reason: HeaderError| JournalError::Refused {
        path: path.to_path_buf(),
        reason,
    };
    let bytes: &[u8] = &headers;
    let blocks = bytes.split_at_checked(index(BLOCK));
    // A file that is too short has no second header, and `choose` says so.
    let (first, second) = blocks.unwrap_or((bytes, &[]));
    let choice = choose([first, second]).map_err(refused)?;
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
    pub async fn scan(self, mut visit: impl FnMut(Commit<'_>)) -> Result<ReadRing<F>> {
        let Self { file, choice } = self;
        let header = choice.header;
        let mut scan = Scan::new(&header);
        let mut window = Window::new(header.size.file_bytes());
        while let Some(wanted) = scan.wanted() {
            window.cover(&file, wanted).await?;
            if let Step::Commit(commit) = scan.take(window.bytes_at(wanted.place)) {
                visit(commit);
            }
        }
        look_for_loss(&file, &mut scan, window).await?;
        let stopped = scan.stopped().expect("nothing is wanted after the end");
        match scan.end() {
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

/// Shows the blocks of the ring to a scan that ended, until one is a proof.
async fn look_for_loss<F: DiskFile>(
    file: &RingFile<F>,
    scan: &mut Scan,
    mut window: Window,
) -> Result<()> {
    let mut place = RING_START;
    while place < window.end {
        let bytes = index(BLOCK);
        window.cover(file, WantedRange { place, bytes }).await?;
        let blocks = window.bytes_at(place).chunks_exact(bytes);
        if blocks.len() == 0 {
            return Ok(()); // The file was cut off since it was opened.
        }
        for block in blocks {
            if scan.proves_loss(place, block) {
                return Ok(());
            }
            place = place.saturating_add(BLOCK);
        }
    }
    Ok(())
}

/// A piece of the file, in memory.
struct Window {
    /// Where the file ends, or the ring in it.
    end: u64,
    place: u64,
    bytes: Option<AlignedBuf>,
    buffers: BufPool,
}

impl Window {
    fn new(end: u64) -> Self {
        Self {
            end,
            place: 0,
            bytes: None,
            buffers: BufPool::new(WINDOW_KEPT_BYTES_MAX),
        }
    }

    /// Returns what it has from a place on.
    fn bytes_at(&self, place: u64) -> &[u8] {
        let skipped = place.checked_sub(self.place).map(index);
        let bytes = self.bytes.as_deref().zip(skipped);
        let bytes = bytes.and_then(|(bytes, skipped)| bytes.get(skipped..));
        bytes.unwrap_or_default()
    }

    /// Reads the wanted bytes, and some behind them, unless it has them.
    async fn cover<F: DiskFile>(&mut self, file: &RingFile<F>, wanted: WantedRange) -> Result<()> {
        if self.bytes_at(wanted.place).len() >= wanted.bytes {
            return Ok(());
        }
        let left = index(self.end.saturating_sub(wanted.place));
        let len = left.min(PIECE_BYTES).max(wanted.bytes);
        self.bytes = None;
        let read = file.file.read_into(wanted.place, self.buffers.take(len));
        let read = read.await.map_err(JournalError::io("read", &file.path));
        (self.place, self.bytes) = (wanted.place, Some(read?));
        Ok(())
    }
}
