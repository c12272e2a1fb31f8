//! The read after a crash: from the head of a ring, commit by commit, as long as each is the next
//! one.
//!
//! Does no I/O: [`Scan::wanted`] says which bytes are needed, [`Scan::take`] judges them. A commit
//! is next if its front has this incarnation, the sequence after the last one, and the position at
//! which it was read, and if the CRC over all its blocks is right. A commit of an earlier lap has a
//! lower sequence; one of an earlier use of the ring another incarnation.
//! Invariants: it yields commits in the order in which they were written, without a gap; it asks
//! for one commit at a time, of a bounded length, and holds none of their bytes; it never goes
//! round more than once, whatever the file holds.
//! It does not search for a commit after the end: [`Scan::suspect_places`] says which blocks may
//! prove that the one that is missing there was acknowledged, and [`Scan::proves_loss`] whether one
//! does. It does not apply parts.

use std::ops::Range;

use super::commit::{Commit, CommitError, Front};
use super::header::Header;
use super::{BLOCK, Head, Incarnation, Position, RING_START, RingSize, Sequence};
use crate::num::index;

/// A commit that no header allowed: both headers are older than the ring.
const BEYOND_RESERVE: &str = "a commit beyond what the headers reserve";

/// A walk over the commits of a ring.
#[derive(Clone, Debug)]
pub struct Scan {
    size: RingSize,
    incarnation: Incarnation,
    /// The next commit.
    at: Head,
    /// One lap after the head: no commit reaches beyond.
    limit: Position,
    /// No commit reaches beyond, unless the header is older than the ring.
    reserved: Position,
    /// How many bytes it needs; more than a block once the front was read.
    wanted_bytes: u64,
    stopped: Option<StopReason>,
}

/// A range of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WantedRange {
    /// The position in the file, a multiple of [`BLOCK`].
    pub place: u64,
    /// The length, a multiple of [`BLOCK`] and at most [`RingSize::commit_bytes_max`].
    pub bytes: usize,
}

/// What a look at the wanted bytes gave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step<'a> {
    /// More bytes are wanted, from the same place.
    More,
    /// The next commit.
    Commit(Commit<'a>),
    /// A skip mark; the next commit is at the start of the ring.
    Skip,
    /// Nothing more is read.
    Stop(StopReason),
}

/// Why a scan ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StopReason {
    /// Nothing of this lap is there, or the whole ring was read.
    End,
    /// The next commit begins there and is not whole.
    Torn,
    /// What is there is of an earlier use of the ring.
    OtherIncarnation,
    /// A later commit is where the next one belongs: the headers are older than the ring, so
    /// commits that count were written over.
    Ahead(Sequence),
    /// A front, a commit or a length of the file that this version would not write there.
    Impossible(&'static str),
    /// A block behind the end proves that the commit that is missing there was synced once.
    Lost,
}

impl StopReason {
    /// Returns true when no crash explains the end: what follows may have been acknowledged.
    pub fn is_damage(self) -> bool {
        matches!(self, Self::Ahead(_) | Self::Impossible(_) | Self::Lost)
    }
}

impl Scan {
    /// Starts a walk at the head.
    pub fn new(header: &Header) -> Self {
        Self {
            size: header.size,
            incarnation: header.incarnation,
            at: header.head,
            limit: header.head.position.plus(header.size.bytes()),
            reserved: header.reserved,
            wanted_bytes: BLOCK,
            stopped: None,
        }
    }

    /// Returns the range to be read next, or `None` after the end.
    ///
    /// The caller may read more at once, and hand in what it has from this place on.
    pub fn wanted(&self) -> Option<WantedRange> {
        self.stopped.is_none().then(|| WantedRange {
            place: self.size.place(self.at.position),
            bytes: index(self.wanted_bytes),
        })
    }

    /// Takes bytes from the wanted place: as many as are wanted or more, fewer only where the file
    /// ends.
    pub fn take<'a>(&mut self, bytes: &'a [u8]) -> Step<'a> {
        if let Some(reason) = self.stopped {
            return Step::Stop(reason);
        }
        match self.judge(bytes) {
            Ok((_, Step::More)) => Step::More,
            Ok((taken, step)) => {
                self.at = Head {
                    position: self.at.position.plus(taken),
                    sequence: self.at.sequence.next(),
                };
                self.wanted_bytes = BLOCK;
                step
            }
            Err(reason) => {
                self.stopped = Some(reason);
                Step::Stop(reason)
            }
        }
    }

    /// Returns the ranges of the file whose blocks may prove a loss, after the end; whole blocks.
    ///
    /// First what the header reserves behind the end, and the block after that: every commit that
    /// counts begins there. Then a longest commit before the head, a lap later: headers that are so
    /// old that the head was written over lead to one that begins there, or at the head.
    pub fn suspect_places(&self) -> Vec<Range<u64>> {
        let end = self.at.position;
        let behind = self.reserved.plus(BLOCK).max(end).min(self.limit);
        let longest = self.size.commit_bytes_max();
        let over_head = Position(self.limit.0.saturating_sub(longest)).max(behind);
        let mut places = Vec::new();
        for (from, to) in [(end, behind), (over_head, self.limit)] {
            let bytes = to.since(from).unwrap_or(0); // They are in order.
            let place = self.size.place(from);
            let in_lap = bytes.min(self.size.left(from));
            let in_next = bytes.saturating_sub(in_lap);
            places.push(place..place.saturating_add(in_lap));
            places.push(RING_START..RING_START.saturating_add(in_next));
        }
        places.retain(|range| !range.is_empty());
        places
    }

    /// Returns the commit that it looks for, or did not find.
    pub fn at(&self) -> Head {
        self.at
    }

    /// Returns where the next use of the ring begins: where the next commit would have been.
    ///
    /// Returns `None` before the end, and if the end is damage: such a ring is kept as it is.
    pub fn end(&self) -> Option<Head> {
        let reason = self.stopped?;
        (!reason.is_damage()).then_some(self.at)
    }

    /// Returns why the scan ended.
    pub fn stopped(&self) -> Option<StopReason> {
        self.stopped
    }

    /// Returns true when a block of the file shows that the commit at the end of the scan was
    /// synced once: that the end is damage, and commits are lost that may have been acknowledged.
    ///
    /// Such a block begins a commit of this incarnation, at its place. Either it is a later one of
    /// this lap that was written when the missing one was known to be synced; or it is beyond the
    /// lap, where room is given only after both headers have passed this head. A front lies in one
    /// sector, so it is as it was written without its commit's being whole.
    ///
    /// It is called after the end, for each block of [`Scan::suspect_places`].
    pub fn proves_loss(&mut self, place: u64, block: &[u8]) -> bool {
        let end = self.stopped.expect("a scan ends before loss is proved");
        let is_proof = Front::parse(block).is_some_and(|front| {
            let Front { stamp, .. } = front;
            let is_at_its_place = self.size.place(stamp.position) == place;
            let is_later = self.at.position < stamp.position
                && self.at.sequence < stamp.sequence
                && self.at.sequence < stamp.synced_below;
            let is_of_this_use = stamp.incarnation == self.incarnation;
            is_of_this_use && is_at_its_place && (is_later || stamp.position >= self.limit)
        });
        if is_proof && !end.is_damage() {
            self.stopped = Some(StopReason::Lost);
        }
        is_proof
    }

    /// Returns the bytes that the commit or skip mark takes in the ring, with what it is.
    fn judge<'a>(&mut self, bytes: &'a [u8]) -> Result<(u64, Step<'a>), StopReason> {
        if self.room() == 0 {
            return Err(StopReason::End);
        }
        // The file had its whole length before it had its name.
        if (bytes.len() as u64) < self.wanted_bytes {
            return Err(StopReason::Impossible("the file ends within its ring"));
        }
        let front = Front::parse(bytes).ok_or(StopReason::End)?;
        self.judge_stamp(&front)?;
        let taken = self.judge_length(&front)?;
        let size = front.size();
        if (bytes.len() as u64) < size {
            self.wanted_bytes = size;
            return Ok((0, Step::More));
        }
        let commit = front.decode(bytes).map_err(|error| match error {
            CommitError::Torn => StopReason::Torn,
            CommitError::Impossible(what) => StopReason::Impossible(what),
        })?;
        let is_skip = front.is_skip();
        Ok((
            taken,
            if is_skip {
                Step::Skip
            } else {
                Step::Commit(commit)
            },
        ))
    }

    /// Returns the bytes of the ring that were not looked at.
    fn room(&self) -> u64 {
        self.limit.since(self.at.position).unwrap_or(0) // Nothing takes more than the room.
    }

    /// Returns the bytes that what begins with the expected front takes in the ring.
    ///
    /// A front lies in one sector, so it is whole: a length that was never written is no tear.
    fn judge_length(&self, front: &Front) -> Result<u64, StopReason> {
        let left = self.size.left(self.at.position);
        let longest = self.size.commit_bytes_max();
        let (taken, is_possible) = if front.is_skip() {
            let skipped = front.skipped();
            (skipped, skipped == left && skipped < longest)
        } else {
            let size = front.size();
            (size, front.holds_its_entries() && size <= left.min(longest))
        };
        if !is_possible || taken > self.room() {
            return Err(StopReason::Impossible("its length"));
        }
        if self.at.position.plus(taken) > self.reserved {
            return Err(StopReason::Impossible(BEYOND_RESERVE));
        }
        Ok(taken)
    }

    fn judge_stamp(&self, front: &Front) -> Result<(), StopReason> {
        let Front { stamp, .. } = front;
        if stamp.incarnation != self.incarnation {
            Err(StopReason::OtherIncarnation)
        } else if stamp.sequence < self.at.sequence {
            Err(StopReason::End)
        } else if stamp.sequence > self.at.sequence {
            Err(StopReason::Ahead(stamp.sequence))
        } else if stamp.position != self.at.position {
            Err(StopReason::Impossible("a commit of another place"))
        } else {
            Ok(())
        }
    }
}
