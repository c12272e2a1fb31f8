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
//! It does not search for a commit after the end: the one that is missing there was never
//! acknowledged, or else [`Scan::proves_loss`] finds out. It does not apply parts.

use super::commit::{Commit, CommitError, Front};
use super::header::Header;
use super::{BLOCK, Head, Incarnation, Position, RingSize, Sequence};
use crate::num::index;

/// A walk over the commits of a ring.
#[derive(Clone, Debug)]
pub struct Scan {
    size: RingSize,
    incarnation: Incarnation,
    /// The next commit.
    at: Head,
    /// One lap after the head: no commit reaches beyond.
    limit: Position,
    /// How many bytes it needs; more than a block once the front was read.
    wanted_bytes: u64,
    stopped: Option<StopReason>,
}

/// A range of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
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
    /// A commit with a right CRC that this version would not write there.
    Impossible(&'static str),
}

impl StopReason {
    /// Returns true when no crash explains the end: what follows may have been acknowledged.
    pub fn is_damage(self) -> bool {
        matches!(self, Self::Ahead(_) | Self::Impossible(_))
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
            wanted_bytes: BLOCK,
            stopped: None,
        }
    }

    /// Returns the range to be read next, or `None` after the end.
    ///
    /// The caller may read more at once, and hand in what it has from this place on.
    pub fn wanted(&self) -> Option<Wanted> {
        self.stopped.is_none().then(|| Wanted {
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

    /// Returns where the next commit would have been: where the next use of the ring may begin.
    pub fn end(&self) -> Head {
        self.at
    }

    /// Returns why the scan ended.
    pub fn stopped(&self) -> Option<StopReason> {
        self.stopped
    }

    /// Returns true when a block of the file shows that the commit at the end of the scan was
    /// synced once: that the end is damage, and commits are lost that may have been acknowledged.
    ///
    /// Such a block begins a later commit of this incarnation, at its place in this lap, that was
    /// written when the missing one was known to be synced. A front lies in one sector, so it is as
    /// it was written without its commit's being whole.
    pub fn proves_loss(&self, place: u64, block: &[u8]) -> bool {
        let Some(Front { stamp, .. }) = Front::parse(block) else {
            return false;
        };
        let is_later = self.at.position < stamp.position
            && stamp.position < self.limit
            && self.at.sequence < stamp.sequence;
        stamp.incarnation == self.incarnation
            && is_later
            && self.size.place(stamp.position) == place
            && stamp.synced_below > self.at.sequence
    }

    /// Returns the bytes that the commit or skip mark takes in the ring, with what it is.
    fn judge<'a>(&mut self, bytes: &'a [u8]) -> Result<(u64, Step<'a>), StopReason> {
        let room = self.limit.since(self.at.position);
        if room == 0 {
            return Err(StopReason::End);
        }
        let front = Front::parse(bytes).ok_or(StopReason::End)?;
        self.judge_stamp(&front)?;
        let left = self.size.left(self.at.position).min(room);
        let size = front.size();
        if size == 0 || size > left.min(self.size.commit_bytes_max()) {
            return Err(StopReason::Torn);
        }
        if (bytes.len() as u64) < size {
            if self.wanted_bytes < size {
                self.wanted_bytes = size;
                return Ok((0, Step::More));
            }
            return Err(StopReason::Torn);
        }
        let commit = front.decode(bytes).map_err(|error| match error {
            CommitError::Torn => StopReason::Torn,
            CommitError::Impossible(what) => StopReason::Impossible(what),
        })?;
        if !front.is_skip() {
            return Ok((size, Step::Commit(commit)));
        }
        let skipped = front.skipped();
        if skipped != left || skipped >= self.size.commit_bytes_max() {
            return Err(StopReason::Impossible("a skip mark leads elsewhere"));
        }
        Ok((skipped, Step::Skip))
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
