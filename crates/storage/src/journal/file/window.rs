//! Reads a ring's file a piece at a time: its commits in order, the blocks that may prove a loss,
//! and the bytes of parts that were found.
//!
//! Invariant: memory is bounded by the longest commit. It does not judge what it reads (`scan`).

use platform::buf::{AlignedBuf, BufPool};
use platform::disk::DiskFile;

use super::{PIECE_BYTES, RingFile};
use crate::journal::commit::Commit;
use crate::journal::error::{JournalError, Result};
use crate::journal::header::Header;
use crate::journal::scan::{Scan, Step, StopReason, WantedRange};
use crate::journal::{BLOCK, Head};
use crate::num::index;

/// Memory that is kept for the next read, in bytes.
const KEPT_BYTES_MAX: usize = 8 << 20;

/// Reads all commits in order, from the head of a header on; returns the walk at its end.
pub(super) async fn read_commits<F: DiskFile>(
    file: &RingFile<F>,
    header: &Header,
    window: &mut Window,
    mut visit: impl FnMut(Commit<'_>),
) -> Result<Scan> {
    let mut scan = Scan::new(header);
    while let Some(wanted) = scan.wanted() {
        window.cover(file, wanted).await?;
        if let Step::Commit(commit) = scan.take(window.bytes_at(wanted.place)) {
            visit(commit);
        }
    }
    Ok(scan)
}

/// Shows blocks of the ring to a walk that ended, until one is a proof of a loss: those that may be
/// one.
pub(super) async fn look_for_loss<F: DiskFile>(
    file: &RingFile<F>,
    scan: &mut Scan,
    window: &mut Window,
) -> Result<()> {
    for places in scan.suspect_places() {
        let mut place = places.start;
        while place < places.end {
            let bytes = index(BLOCK);
            window.cover(file, WantedRange { place, bytes }).await?;
            let blocks = window.bytes_at(place).chunks_exact(bytes);
            if blocks.len() == 0 {
                return Ok(()); // The file was cut off since it was opened.
            }
            let left = index(places.end.saturating_sub(place) / BLOCK);
            for block in blocks.take(left) {
                if scan.proves_loss(place, block) {
                    return Ok(());
                }
                place = place.saturating_add(BLOCK);
            }
        }
    }
    Ok(())
}

/// A piece of the file, in memory.
pub(super) struct Window {
    /// Where the file ends, or the ring in it.
    end: u64,
    place: u64,
    bytes: Option<AlignedBuf>,
    buffers: BufPool,
}

impl Window {
    pub(super) fn new(header: &Header) -> Self {
        Self {
            end: header.size.file_bytes(),
            place: 0,
            bytes: None,
            buffers: BufPool::new(KEPT_BYTES_MAX),
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

/// The bytes of a ring whose commits were read.
///
/// Those who ask for them in the order of the file cause one read of each piece.
pub(in crate::journal) struct RingBytes<'a, F> {
    file: &'a RingFile<F>,
    head: Head,
    window: Window,
}

impl<'a, F: DiskFile> RingBytes<'a, F> {
    pub(super) fn new(file: &'a RingFile<F>, header: &Header) -> Self {
        Self {
            file,
            head: header.head,
            window: Window::new(header),
        }
    }

    /// Returns `length` bytes at a place that a commit covers.
    pub(in crate::journal) async fn at(&mut self, place: u64, length: u32) -> Result<&[u8]> {
        let length = index(u64::from(length));
        let start = place / BLOCK;
        let start = start.saturating_mul(BLOCK);
        let skipped = index(place.saturating_sub(start));
        let bytes = skipped.saturating_add(length);
        let bytes = bytes.next_multiple_of(index(BLOCK));
        let wanted = WantedRange {
            place: start,
            bytes,
        };
        self.window.cover(self.file, wanted).await?;
        let found = self.window.bytes_at(place).get(..length);
        found.ok_or_else(|| JournalError::Damaged {
            path: self.file.path.to_path_buf(),
            at: self.head,
            reason: StopReason::Impossible("the file became shorter"),
        })
    }
}
