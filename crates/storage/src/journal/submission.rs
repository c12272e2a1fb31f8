//! What a caller hands in: parts that own their bytes, and that go into one commit together.
//!
//! Invariants: a submission has parts, a log can have each of them, and some commit of the ring
//! takes all of them; so nothing that a caller hands in reaches an assert of the encoding.
//! It does not copy bytes, and does not know order or room (`queue`).

use bytes::Bytes;
use wire::types::{LeaderEpoch, Offset};

use super::commit::{Change, FRONT_BYTES, PART_BYTES, Part};
use super::error::{JournalError, Result};
use super::{BLOCK, LogId, RingSize};

/// What a commit says of one log: a [`Part`] that owns its bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnedPart {
    /// The log.
    pub log: LogId,
    /// The base offset of the segment.
    pub segment: Offset,
    /// The position in the segment's data file.
    pub position: u32,
    /// What happened there.
    pub change: OwnedChange,
}

/// What happened to a log: a [`Change`] that owns its bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OwnedChange {
    /// The segment has these bytes from the position on.
    Bytes {
        /// The epoch of the leader that appended them.
        leader_epoch: LeaderEpoch,
        /// The bytes, never empty.
        bytes: Bytes,
    },
    /// The log was truncated: the segment ends at the position, and no later one exists.
    Cut {
        /// The new log end offset.
        offset: Offset,
    },
}

impl OwnedPart {
    /// Returns the part, for a commit.
    pub fn part(&self) -> Part<'_> {
        let change = match &self.change {
            OwnedChange::Bytes {
                leader_epoch,
                bytes,
            } => Change::Bytes {
                leader_epoch: *leader_epoch,
                bytes,
            },
            OwnedChange::Cut { offset } => Change::Cut { offset: *offset },
        };
        Part {
            log: self.log,
            segment: self.segment,
            position: self.position,
            change,
        }
    }
}

/// Parts that go into one commit.
#[derive(Debug)]
pub(super) struct Submission {
    parts: Vec<OwnedPart>,
    /// The bytes of the parts.
    bytes: u64,
}

impl Submission {
    /// Checks what a caller hands in to a ring of this size.
    pub(super) fn new(parts: Vec<OwnedPart>, size: RingSize) -> Result<Self> {
        let unfit = |reason| Err(JournalError::Unfit { reason });
        if parts.is_empty() {
            return unfit("no parts");
        }
        if !parts.iter().all(|part| part.part().is_possible()) {
            return unfit("a part that no log has");
        }
        let lengths = parts.iter().map(|part| part.part().bytes().len() as u64);
        let bytes = lengths.fold(0, u64::saturating_add);
        let submission = Self { parts, bytes };
        let blocks = blocks_of(submission.length());
        let bytes_max = size.commit_bytes_max();
        if blocks > bytes_max {
            return Err(JournalError::TooLong {
                bytes: blocks,
                bytes_max,
            });
        }
        Ok(submission)
    }

    /// Returns its parts, in the order in which they were handed in.
    pub(super) fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        self.parts.iter().map(OwnedPart::part)
    }

    /// Returns the bytes of the parts.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns what it takes in a commit, besides the front.
    pub(super) fn length(&self) -> u64 {
        let entries = (self.parts.len() as u64).saturating_mul(PART_BYTES as u64);
        entries.saturating_add(self.bytes)
    }
}

/// Returns how many of the first submissions go into one commit of at most `bytes_max` bytes, by
/// what each takes.
pub(super) fn gather(lengths: impl IntoIterator<Item = u64>, bytes_max: u64) -> usize {
    let sums = lengths.into_iter().scan(0_u64, |sum, length| {
        *sum = sum.saturating_add(length);
        Some(*sum)
    });
    sums.take_while(|sum| blocks_of(*sum) <= bytes_max).count()
}

/// Returns the blocks of a commit whose submissions take this, in bytes.
pub(super) fn blocks_of(length: u64) -> u64 {
    let length = length.saturating_add(FRONT_BYTES as u64);
    // More than any ring has: refused by the caller.
    length.checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX)
}
