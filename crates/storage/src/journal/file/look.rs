//! What the file of a ring holds, row by row, as an operator reads it: its headers, its commits
//! with their parts, and why they end there.
//!
//! Invariants: nothing is changed or synced, so it may be used beside a broker, whose commits then
//! move on meanwhile; a ring that a start refuses is shown as far as it can be read. The number of
//! a use of the ring is not shown: those who know it can forge commits.
//! It does not know whose ring it should be.

use std::path::Path;

use platform::disk::{Disk, DiskFile, Open};
use wire::types::{LeaderEpoch, Offset};

use super::RingFile;
use super::open::{header_blocks, read_headers};
use super::window::{Window, look_for_loss, read_commits};
use crate::journal::commit::{Change, Commit};
use crate::journal::error::{JournalError, Result};
use crate::journal::header::{Header, HeaderError, RingId, choose};
use crate::journal::scan::StopReason;
use crate::journal::{Head, LogId, Position, RingSize, Sequence};

/// One thing that a ring's file holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RingRow {
    /// A header that is whole.
    Header {
        /// Whose ring it is.
        id: RingId,
        /// The size of the ring.
        size: RingSize,
        /// The number of the header.
        generation: u64,
        /// Where reading begins by this header.
        head: Head,
        /// Up to where commits may reach by this header.
        reserved: Position,
    },
    /// A header that is not.
    NoHeader(HeaderError),
    /// The two headers together, or the only one, lead nowhere.
    Refused(HeaderError),
    /// A commit; its parts follow.
    Commit {
        /// Its number. Where one is missing, a skip mark led to the start of the ring.
        sequence: Sequence,
        /// Where it is.
        position: Position,
        /// Every commit below was synced when it was written.
        synced_below: Sequence,
        /// How many parts it has.
        parts: u64,
    },
    /// A part of the last commit.
    Part {
        /// The log.
        log: LogId,
        /// The base offset of the segment.
        segment: Offset,
        /// The position in the segment's data file.
        position: u32,
        /// What happened there.
        change: ShownChange,
    },
    /// No more commits count.
    End {
        /// The one that is missing.
        at: Head,
        /// Why it is.
        reason: StopReason,
    },
}

/// What happened to a log, without the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShownChange {
    /// It got bytes.
    Bytes {
        /// How many.
        length: u64,
        /// The epoch of the leader that appended them.
        leader_epoch: LeaderEpoch,
    },
    /// It was truncated.
    Cut {
        /// The new log end offset.
        offset: Offset,
    },
}

/// Reads a ring's file, and calls `show` for each row.
pub async fn look<D: Disk>(disk: &D, path: &Path, mut show: impl FnMut(RingRow)) -> Result<()> {
    let opened = disk.open(path, Open::Read).await;
    let file = opened.map_err(JournalError::io("open", path))?;
    let headers = read_headers(&file, path).await?;
    let blocks = header_blocks(&headers);
    for block in blocks {
        show(match Header::decode(block) {
            Ok(header) => header_row(header),
            Err(error) => RingRow::NoHeader(error),
        });
    }
    match choose(blocks) {
        Ok(choice) => show_commits(&RingFile::new(file, path), &choice.header, show).await,
        Err(error) => {
            show(RingRow::Refused(error));
            Ok(())
        }
    }
}

async fn show_commits<F: DiskFile>(
    file: &RingFile<F>,
    header: &Header,
    mut show: impl FnMut(RingRow),
) -> Result<()> {
    let mut window = Window::new(header);
    let rows = |commit: Commit<'_>| show_commit(&commit, &mut show);
    let mut scan = read_commits(file, header, &mut window, rows).await?;
    look_for_loss(file, &mut scan, &mut window).await?;
    let reason = scan.stopped().expect("nothing is wanted after the end");
    let at = scan.at();
    show(RingRow::End { at, reason });
    Ok(())
}

fn header_row(header: Header) -> RingRow {
    let Header {
        id,
        size,
        generation,
        head,
        reserved,
        ..
    } = header;
    RingRow::Header {
        id,
        size,
        generation,
        head,
        reserved,
    }
}

fn show_commit(commit: &Commit<'_>, show: &mut impl FnMut(RingRow)) {
    let stamp = commit.stamp;
    show(RingRow::Commit {
        sequence: stamp.sequence,
        position: stamp.position,
        synced_below: stamp.synced_below,
        parts: commit.parts().count() as u64,
    });
    for part in commit.parts() {
        let change = match part.change {
            Change::Bytes {
                leader_epoch,
                bytes,
            } => ShownChange::Bytes {
                length: bytes.len() as u64,
                leader_epoch,
            },
            Change::Cut { offset } => ShownChange::Cut { offset },
        };
        show(RingRow::Part {
            log: part.log,
            segment: part.segment,
            position: part.position,
            change,
        });
    }
}
