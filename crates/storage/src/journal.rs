//! The journal: a ring file that takes the small appends of a shard's logs with one write and one
//! sync, before the segments get them.
//!
//! `header` says where reading begins, `commit` is the unit of a write, `ring` keeps the account of
//! room, `scan` reads the commits back after a crash; none of these does I/O. `file` makes, opens
//! and removes the ring's file; `committer` writes what callers hand in; `start` and `replay` put
//! what rings have into the segments before logs are opened; `marked` says in a log directory which
//! rings count. Layout: `docs/formats/journal.md`, reasons:
//! `docs/adr/0034-format-of-the-journal.md`, `0037-commit-loop-of-the-journal.md`,
//! `0049-landing-and-replay-of-the-journal.md` and `0058-which-rings-count.md` beside it.
//! Invariants: a commit is read back only if every byte of it is, up to the CRC, what this
//! incarnation wrote there as that sequence; room is used again only when both header blocks,
//! synced, have passed it; what a file holds reaches neither a panic nor an allocation. It does
//! not: know logs beyond their ids and files, or decide when a log lands (`store/journal.rs`).

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::indexing_slicing,
        reason = "numbers of disks reach this: a panic on one ends the broker"
    )
)]

use std::fmt;

use platform::disk::BLOCK_BYTES;
use wire::types::TopicId;

pub mod commit;
pub mod committer;
pub mod error;
pub mod file;
pub mod header;
pub mod marked;
pub mod names;
mod pressure;
mod queue;
pub mod replay;
pub mod ring;
pub mod scan;
pub mod start;
pub mod submission;
mod tails;
pub(crate) mod unlanded;
pub mod void;

pub use error::JournalError;

#[cfg(test)]
mod tests;

/// Unit of all positions and lengths in the file: a multiple of the sectors of 512e and 4Kn
/// devices.
pub const BLOCK: u64 = BLOCK_BYTES as u64;

/// Position of the ring in the file, after the two header blocks.
pub const RING_START: u64 = 2 * BLOCK;

/// Length of the longest commit, whatever the size of the ring.
pub const COMMIT_BYTES_MAX: u64 = 4 << 20;

/// No position, sequence or generation in a file is larger: a sum with a size never overflows.
const NUMBER_MAX: u64 = 1 << 62;

/// A position in the ring, in bytes.
///
/// It grows over all laps: its remainder by the size of the ring is the place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Position(pub u64);

impl Position {
    /// Where a new ring begins.
    pub const ZERO: Self = Self(0);

    /// Returns the position `bytes` after this one.
    #[must_use]
    pub const fn plus(self, bytes: u64) -> Self {
        Self(self.0.saturating_add(bytes))
    }

    /// Returns the bytes from `earlier` to here, if it is not later.
    pub const fn since(self, earlier: Self) -> Option<u64> {
        self.0.checked_sub(earlier.0)
    }
}

/// The number of a commit or skip mark; grows by one each, over all incarnations of a ring.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Sequence(pub u64);

impl Sequence {
    /// The first commit of a new ring.
    pub const FIRST: Self = Self(1);

    /// Returns the sequence after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// A random number, other for each use of the ring between two starts; never 0.
///
/// Clients choose the bytes of commits. They cannot forge a commit within them, because they do not
/// know this number; so it is not logged, measured or shown. The mark of a log directory has a part
/// of it, its fingerprint.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Incarnation(u64);

impl Incarnation {
    /// Makes an incarnation of a random number, other than the previous one.
    pub fn new(random: u64, previous: Option<Self>) -> Self {
        let candidates = [random, random.wrapping_add(1), random.wrapping_add(2)];
        let fits = |number: &&u64| **number != 0 && previous != Some(Self(**number));
        Self(*candidates.iter().find(fits).unwrap_or(&1)) // Of three, two are refused at most.
    }

    /// Returns what tells it from the numbers of other uses.
    ///
    /// 2^32 numbers have the same, so a reader of it cannot forge a commit.
    fn fingerprint(self) -> u32 {
        wire::crc::crc32c(&self.0.to_be_bytes())
    }

    fn from_file(number: u64) -> Option<Self> {
        (number != 0).then_some(Self(number))
    }
}

impl fmt::Debug for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Incarnation")
    }
}

/// Where a commit is, or the next one will be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// Its position, a multiple of [`BLOCK`].
    pub position: Position,
    /// Its sequence.
    pub sequence: Sequence,
}

impl Head {
    /// Where a new ring begins.
    pub const START: Self = Self {
        position: Position::ZERO,
        sequence: Sequence::FIRST,
    };
}

/// The size of a ring: whole blocks, between [`RingSize::MIN`] and [`RingSize::MAX`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingSize(u64);

impl RingSize {
    /// The smallest ring, in bytes.
    pub const MIN: u64 = 16 * BLOCK;
    /// The largest ring, in bytes. It bounds the memory of [`ring::Ring`]: 8 bytes a block.
    pub const MAX: u64 = 64 << 30;

    /// Returns a size, if a ring may have it.
    pub fn new(bytes: u64) -> Option<Self> {
        let is_possible = (Self::MIN..=Self::MAX).contains(&bytes) && bytes.is_multiple_of(BLOCK);
        is_possible.then_some(Self(bytes))
    }

    /// Returns the bytes of the ring.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// Returns the length of the whole file.
    pub const fn file_bytes(self) -> u64 {
        self.0.saturating_add(RING_START)
    }

    /// Returns the length of the longest commit: a quarter of the ring at most, so that a skip mark
    /// never takes more.
    pub fn commit_bytes_max(self) -> u64 {
        let blocks = self.0 / BLOCK / 4;
        blocks.saturating_mul(BLOCK).min(COMMIT_BYTES_MAX)
    }

    /// Returns the place of a position: a position in the file.
    pub fn place(self, position: Position) -> u64 {
        RING_START.saturating_add(self.within(position))
    }

    /// Returns the bytes from a position to the end of its lap; never 0.
    pub fn left(self, position: Position) -> u64 {
        self.0.saturating_sub(self.within(position))
    }

    /// Returns the bytes from a position to a place of the file, in the order in which the ring is
    /// read.
    pub fn distance(self, from: Position, place: u64) -> u64 {
        let from = self.within(from);
        let to = place.saturating_sub(RING_START);
        let ahead = to.checked_sub(from);
        ahead.unwrap_or_else(|| to.saturating_add(self.0.saturating_sub(from)))
    }

    fn within(self, position: Position) -> u64 {
        position.0.checked_rem(self.0).unwrap_or(0) // A ring is never of size 0.
    }
}

/// A log, by the id of its topic: a topic that is made again is another one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LogId {
    /// The topic.
    pub topic_id: TopicId,
    /// Index within the topic.
    pub partition: i32,
}

/// Splits the first `N` bytes off.
fn take<const N: usize>(bytes: &[u8]) -> Option<([u8; N], &[u8])> {
    let (first, rest) = bytes.split_first_chunk::<N>()?;
    Some((*first, rest))
}

/// Splits a number off.
fn take_u32(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = take(bytes)?;
    Some((u32::from_be_bytes(number), rest))
}

/// Splits a number off.
fn take_u64(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = take(bytes)?;
    Some((u64::from_be_bytes(number), rest))
}

/// Splits a position, sequence or generation off; refuses what no ring reaches.
fn take_number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    take_u64(bytes).filter(|(number, _)| *number <= NUMBER_MAX)
}
