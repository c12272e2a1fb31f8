//! A commit: what several logs appended, or that one was truncated, as one write of whole blocks.
//!
//! Front, one entry for each part, the parts' bytes in the same order, zeros up to a whole block.
//! The CRC covers all of it. A **skip mark** is a front alone, in a block of its own, that leads to
//! the start of the ring. Invariants: encoding copies each byte once; decoding borrows, allocates
//! nothing, and returns a commit only if every part of it makes sense.
//! It does not know which commit belongs where (`scan`), or what is done with the parts.

use std::iter::FusedIterator;

use bytes::BufMut;
use wire::crc;
use wire::types::{LeaderEpoch, Offset, TopicId, Uuid};

use super::{
    BLOCK, COMMIT_BYTES_MAX, Incarnation, LogId, Position, Sequence, take, take_number, take_u32,
    take_u64,
};
use crate::num::index;

/// Bytes of a commit's front.
pub const FRONT_BYTES: usize = 48;

/// Bytes of a part's entry.
pub const PART_BYTES: usize = 48;

const MAGIC: [u8; 4] = *b"FBJc";

/// Bytes before those that the CRC covers: magic and CRC.
const BEFORE_CRC: usize = 4;
const BEFORE_COVERED: usize = 8;

const KIND_BYTES: u8 = 1;
const KIND_CUT: u8 = 2;

/// What makes one commit different from all others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// The use of the ring that it belongs to.
    pub incarnation: Incarnation,
    /// Its number.
    pub sequence: Sequence,
    /// Where it is.
    pub position: Position,
    /// Every commit below this sequence was synced before this one was written.
    pub synced_below: Sequence,
}

/// What a commit says of one log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part<'a> {
    /// The log.
    pub log: LogId,
    /// The base offset of the segment.
    pub segment: Offset,
    /// The position in the segment's data file.
    pub position: u32,
    /// What happened there.
    pub change: Change<'a>,
}

/// What happened to a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change<'a> {
    /// The segment has these bytes from the position on. A batch may go over several parts.
    Bytes {
        /// The epoch of the leader that appended them.
        leader_epoch: LeaderEpoch,
        /// The bytes, never empty.
        bytes: &'a [u8],
    },
    /// The log was truncated: the segment ends at the position, and no later one exists.
    ///
    /// What earlier parts say of the bytes beyond is void.
    Cut {
        /// The new log end offset.
        offset: Offset,
    },
}

impl<'a> Part<'a> {
    pub(super) fn bytes(&self) -> &'a [u8] {
        match self.change {
            Change::Bytes { bytes, .. } => bytes,
            Change::Cut { .. } => &[],
        }
    }

    /// Returns true when a log can have such a part: positions in a segment fit into 31 bits.
    pub fn is_possible(&self) -> bool {
        let end = u64::from(self.position).saturating_add(self.bytes().len() as u64);
        let fits = self.log.partition >= 0 && self.segment >= Offset::ZERO;
        fits && i32::try_from(end).is_ok()
            && match self.change {
                Change::Bytes { bytes, .. } => !bytes.is_empty(),
                Change::Cut { offset } => offset >= self.segment,
            }
    }
}

/// Returns the blocks that a commit of these parts takes, in bytes.
///
/// Returns `None` for no parts, and for more than any ring takes in one commit.
pub fn size_of(parts: &[Part<'_>]) -> Option<u64> {
    let length = length_of(parts)?;
    let size = u64::from(length).checked_next_multiple_of(BLOCK)?;
    (!parts.is_empty() && size <= COMMIT_BYTES_MAX).then_some(size)
}

/// Returns the length without padding.
fn length_of(parts: &[Part<'_>]) -> Option<u32> {
    let entries = parts.len().checked_mul(PART_BYTES)?;
    let front = FRONT_BYTES.checked_add(entries)?;
    let length = parts
        .iter()
        .try_fold(front, |sum, part| sum.checked_add(part.bytes().len()))?;
    u32::try_from(length).ok()
}

/// Writes a commit into `blocks`, which are as many as [`size_of`] says.
pub fn encode_into(stamp: Stamp, parts: &[Part<'_>], blocks: &mut [u8]) {
    assert_eq!(
        size_of(parts),
        Some(blocks.len() as u64),
        "a commit fills its blocks"
    );
    let length = length_of(parts).expect("a commit has a bounded length");
    let mut rest = &mut *blocks;
    put_front(&mut rest, stamp, length, parts.len());
    for part in parts {
        assert!(part.is_possible(), "a log has only parts that are possible");
        put_part(&mut rest, part);
    }
    for part in parts {
        rest.put_slice(part.bytes());
    }
    rest.fill(0);
    seal(blocks);
}

/// Writes a skip mark into one block; `skipped` are the bytes to the start of the next lap.
pub fn encode_skip_into(stamp: Stamp, skipped: u64, block: &mut [u8]) {
    assert_eq!(block.len() as u64, BLOCK, "a skip mark fills a block");
    let skipped = u32::try_from(skipped).expect("a skip is shorter than a commit");
    let mut rest = &mut *block;
    put_front(&mut rest, stamp, skipped, 0);
    rest.fill(0);
    seal(block);
}

fn put_front(out: &mut impl BufMut, stamp: Stamp, length: u32, parts: usize) {
    out.put_slice(&MAGIC);
    out.put_u32(0);
    out.put_u64(stamp.incarnation.0);
    out.put_u64(stamp.sequence.0);
    out.put_u64(stamp.position.0);
    out.put_u64(stamp.synced_below.0);
    out.put_u32(length);
    out.put_u32(u32::try_from(parts).expect("entries fit into a bounded length"));
}

fn put_part(out: &mut impl BufMut, part: &Part<'_>) {
    let (kind, last) = match part.change {
        Change::Bytes { leader_epoch, .. } => (KIND_BYTES, i64::from(leader_epoch.0)),
        Change::Cut { offset } => (KIND_CUT, offset.0),
    };
    out.put_slice(&[kind, 0, 0, 0]);
    out.put_i32(part.log.partition);
    out.put_slice(part.log.topic_id.0.as_bytes());
    out.put_i64(part.segment.0);
    out.put_u32(part.position);
    let len = u32::try_from(part.bytes().len()).expect("a part is shorter than its commit");
    out.put_u32(len);
    out.put_i64(last);
}

/// Writes the CRC.
fn seal(blocks: &mut [u8]) {
    let crc = crc::crc32c(blocks.get(BEFORE_COVERED..).expect("a front is there"));
    let field = blocks.get_mut(BEFORE_CRC..BEFORE_COVERED);
    field
        .expect("a front is there")
        .copy_from_slice(&crc.to_be_bytes());
}

/// What the first bytes of a commit or skip mark say. Nothing is checked before [`Front::decode`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Front {
    /// Which one it says it is.
    pub stamp: Stamp,
    crc: u32,
    /// Of a commit without its padding; of a skip mark what is skipped.
    length: u32,
    parts: u32,
}

/// Why bytes with a right front are no commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CommitError {
    /// The CRC is not that of the bytes, or some of them are not there.
    Torn,
    /// The CRC is right, and the content makes no sense: another version wrote it.
    Impossible(&'static str),
}

impl Front {
    /// Reads a front, if one is there.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (magic, bytes) = take::<4>(bytes)?;
        let (crc, bytes) = take_u32(bytes)?;
        let (incarnation, bytes) = take_u64(bytes)?;
        let (sequence, bytes) = take_number(bytes)?;
        let (position, bytes) = take_number(bytes)?;
        let (synced_below, bytes) = take_number(bytes)?;
        let (length, bytes) = take_u32(bytes)?;
        let (parts, _) = take_u32(bytes)?;
        let stamp = Stamp {
            incarnation: Incarnation::from_file(incarnation)?,
            sequence: Sequence(sequence),
            position: Position(position),
            synced_below: Sequence(synced_below),
        };
        (magic == MAGIC).then_some(Self {
            stamp,
            crc,
            length,
            parts,
        })
    }

    /// Returns true for a skip mark.
    pub fn is_skip(&self) -> bool {
        self.parts == 0
    }

    /// Returns what a skip mark skips.
    pub(crate) fn skipped(&self) -> u64 {
        u64::from(self.length)
    }

    /// Returns the blocks whose bytes the CRC covers, in bytes.
    pub(crate) fn size(&self) -> u64 {
        if self.is_skip() {
            return BLOCK;
        }
        let size = u64::from(self.length).checked_next_multiple_of(BLOCK);
        size.unwrap_or(u64::MAX) // A length of 32 bits does not overflow it.
    }

    /// Returns true when the length of a commit has room for the front and the entries.
    pub(crate) fn holds_its_entries(&self) -> bool {
        let entries = u64::from(self.parts).saturating_mul(PART_BYTES as u64);
        // Numbers of 32 bits do not overflow it.
        u64::from(self.length) >= entries.saturating_add(FRONT_BYTES as u64)
    }

    /// Checks the bytes that begin with this front, and returns the commit in them; one of a skip
    /// mark has no parts.
    pub(crate) fn decode<'a>(&self, bytes: &'a [u8]) -> Result<Commit<'a>, CommitError> {
        let whole = bytes.get(..index(self.size())).ok_or(CommitError::Torn)?;
        let covered = whole.get(BEFORE_COVERED..).ok_or(CommitError::Torn)?;
        if Self::parse(whole) != Some(*self) || crc::crc32c(covered) != self.crc {
            return Err(CommitError::Torn);
        }
        let commit = self.split(whole);
        let commit = commit.ok_or(CommitError::Impossible("its parts do not fit into it"))?;
        let mut parts = commit.parts();
        let count = parts.by_ref().filter(Part::is_possible).count();
        if count != commit.entries.len() || !parts.bytes.is_empty() {
            return Err(CommitError::Impossible("a part of it cannot be"));
        }
        Ok(commit)
    }

    fn split<'a>(&self, whole: &'a [u8]) -> Option<Commit<'a>> {
        let stamp = self.stamp;
        if self.is_skip() {
            let (entries, bytes): (&[_], &[_]) = (&[], &[]);
            return Some(Commit {
                stamp,
                entries,
                bytes,
            });
        }
        let used = whole.get(FRONT_BYTES..index(u64::from(self.length)))?;
        let entries_bytes = index(u64::from(self.parts)).checked_mul(PART_BYTES)?;
        let (entries, bytes) = used.split_at_checked(entries_bytes)?;
        let (entries, _) = entries.as_chunks::<PART_BYTES>();
        Some(Commit {
            stamp,
            entries,
            bytes,
        })
    }
}

/// A commit as it was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Commit<'a> {
    /// Which one it is.
    pub stamp: Stamp,
    entries: &'a [[u8; PART_BYTES]],
    bytes: &'a [u8],
}

impl<'a> Commit<'a> {
    /// Returns its parts, in the order in which they were given.
    pub fn parts(&self) -> Parts<'a> {
        Parts {
            entries: self.entries,
            bytes: self.bytes,
        }
    }

    /// Returns its parts, each with the distance of its bytes from the start of the commit.
    pub(crate) fn parts_at(&self) -> impl Iterator<Item = (u64, Part<'a>)> {
        let entries = self.entries.len().saturating_mul(PART_BYTES);
        let first = entries.saturating_add(FRONT_BYTES) as u64;
        self.parts().scan(first, |at, part| {
            let here = *at;
            *at = here.saturating_add(part.bytes().len() as u64);
            Some((here, part))
        })
    }
}

/// The parts of a commit.
#[derive(Clone, Debug)]
pub struct Parts<'a> {
    entries: &'a [[u8; PART_BYTES]],
    /// The bytes of the parts that are left.
    bytes: &'a [u8],
}

impl<'a> Iterator for Parts<'a> {
    type Item = Part<'a>;

    fn next(&mut self) -> Option<Part<'a>> {
        let (entry, entries) = self.entries.split_first()?;
        let (part, bytes) = parse_part(entry, self.bytes)?;
        (self.entries, self.bytes) = (entries, bytes);
        Some(part)
    }
}

impl FusedIterator for Parts<'_> {}

/// Reads a part; returns the bytes of the parts after it, too.
fn parse_part<'a>(entry: &[u8], bytes: &'a [u8]) -> Option<(Part<'a>, &'a [u8])> {
    let ([kind, zeros @ ..], entry) = take::<4>(entry)?;
    let (partition, entry) = take(entry)?;
    let (topic_id, entry) = take(entry)?;
    let (segment, entry) = take(entry)?;
    let (position, entry) = take_u32(entry)?;
    let (len, entry) = take_u32(entry)?;
    let (last, _) = take(entry)?;
    let last = i64::from_be_bytes(last);
    let (of_part, rest) = bytes.split_at_checked(index(u64::from(len)))?;
    let change = match kind {
        KIND_BYTES => Change::Bytes {
            leader_epoch: LeaderEpoch(i32::try_from(last).ok()?),
            bytes: of_part,
        },
        KIND_CUT if of_part.is_empty() => Change::Cut {
            offset: Offset(last),
        },
        _ => return None,
    };
    let part = Part {
        log: LogId {
            topic_id: TopicId(Uuid::from_bytes(topic_id)),
            partition: i32::from_be_bytes(partition),
        },
        segment: Offset(i64::from_be_bytes(segment)),
        position,
        change,
    };
    (zeros == [0; 3]).then_some((part, rest))
}
