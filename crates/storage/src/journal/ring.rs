//! The account of a ring: where the next commit goes, which are synced, which parts are not yet in
//! their segments, and what room may be used again.
//!
//! States: *opening* (until both header blocks have this incarnation, synced) -> *open*. A commit
//! is reserved -> synced; all below the first one that is not are durable. A log's parts are
//! unlanded -> landing -> landed, when its segments are synced. The head is the first commit with
//! an unlanded part; it goes into the older header block, and so into both in turn.
//! Invariants: `released <= head <= durable <= next`, and `next - released` never exceeds the ring;
//! only what both blocks, synced, have passed is released, so that either block alone leads to
//! every commit that counts; only parts of durable commits land; a sequence is given once, so what
//! failed to be written is never tried again in this incarnation.
//! It does not: write, read, sync, choose when a log lands or a header is written, or know the
//! parts' bytes.

use std::collections::{BTreeSet, VecDeque};

use super::commit::Stamp;
use super::header::{Header, RingId};
pub use super::unlanded::Landing;
use super::unlanded::UnlandedLogs;
use super::{BLOCK, Head, Incarnation, LogId, NUMBER_MAX, Position, RingSize, Sequence};
use crate::num::index;

/// How many commits and skip marks may be reserved and not yet durable.
pub const IN_FLIGHT_MAX: usize = 64;

/// No use of a ring begins with a larger number, so none ends with one beyond `NUMBER_MAX`.
const START_MAX: u64 = NUMBER_MAX / 2;

/// The account of one ring.
#[derive(Debug)]
pub struct Ring {
    id: RingId,
    size: RingSize,
    incarnation: Incarnation,
    /// Positions of the commits from `released` on. Bounded: blocks of the ring.
    positions: VecDeque<Position>,
    /// The first commit of `positions`.
    released: Sequence,
    /// The next commit.
    next: Head,
    /// All commits below are synced.
    durable: Sequence,
    /// Later ones that are synced. Bounded: `IN_FLIGHT_MAX`.
    early: BTreeSet<Sequence>,
    unlanded: UnlandedLogs,
    /// The heads in the two blocks, as far as they are of this incarnation and synced.
    heads: [Option<Head>; 2],
    /// The generation of the newest header that is synced.
    generation: u64,
    /// The head in the header that is being written.
    writing: Option<Head>,
    #[cfg(test)]
    pub(super) planted: Option<PlantedBug>,
}

/// A mistake that the tests must find.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PlantedBug {
    /// Parts count as landed before their segments are synced.
    ReleaseBeforeLandingSync,
    /// Room is used again before the header that has passed it is synced.
    ReleaseBeforeHeaderSync,
    /// Room is used again when the newer header block has passed it.
    ReleaseByOneBlock,
    /// Commits are written when one header block has the new incarnation.
    OpenByOneBlock,
    /// A start goes on with the incarnation that it found.
    KeepIncarnation,
}

/// The room for a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reserved {
    /// A skip mark to be written, too, and how many bytes it skips.
    pub skip: Option<(Stamp, u64)>,
    /// The stamp of the commit.
    pub stamp: Stamp,
}

/// Why no room is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The header blocks are not both synced.
    Opening,
    /// This many bytes must be released first.
    Full {
        /// The bytes that are missing.
        lacking: u64,
    },
    /// As many commits as may be are in flight.
    Busy,
    /// No commit of this ring is that long, or ends in the middle of a block.
    Unfit,
}

impl Ring {
    /// Starts a new use of a ring, in which nothing counts that was there before.
    ///
    /// `end` is where the last scan ended, `generation` that of the header it began with: what it
    /// yielded is in the segments and synced. `incarnation` is not that of this header.
    ///
    /// Returns `None` for numbers that no ring reaches by use: the file must be made anew.
    pub fn new(
        id: RingId,
        size: RingSize,
        incarnation: Incarnation,
        end: Head,
        generation: u64,
    ) -> Option<Self> {
        assert!(
            end.position.0.is_multiple_of(BLOCK),
            "a ring begins where a block does"
        );
        let largest = end.position.0.max(end.sequence.0).max(generation);
        (largest <= START_MAX).then(|| Self {
            id,
            size,
            incarnation,
            positions: VecDeque::new(),
            released: end.sequence,
            next: end,
            durable: end.sequence,
            early: BTreeSet::new(),
            unlanded: UnlandedLogs::default(),
            heads: [None; 2],
            generation,
            writing: None,
            #[cfg(test)]
            planted: None,
        })
    }

    /// Gives room to a commit of `bytes` with parts of these logs, and a skip mark before it if the
    /// commit would cross the end of the ring.
    ///
    /// What is given must be written, whole and once; a write that fails ends the use of the ring.
    pub fn reserve(&mut self, bytes: u64, logs: &[LogId]) -> Result<Reserved, Refusal> {
        let is_whole = bytes.is_multiple_of(BLOCK) && bytes > 0 && !logs.is_empty();
        if !is_whole || bytes > self.size.commit_bytes_max() {
            return Err(Refusal::Unfit);
        }
        if !self.is_open() {
            return Err(Refusal::Opening);
        }
        let left = self.size.left(self.next.position);
        let skipped = if bytes > left { left } else { 0 };
        let needed = bytes.saturating_add(skipped);
        if let Some(lacking) = needed.checked_sub(self.free_bytes()).filter(|&n| n > 0) {
            return Err(Refusal::Full { lacking });
        }
        // There may be a skip mark, too.
        if self.in_flight().saturating_add(2) > IN_FLIGHT_MAX {
            return Err(Refusal::Busy);
        }
        let skip = (skipped > 0).then(|| (self.advance(skipped), skipped));
        let stamp = self.advance(bytes);
        for log in logs {
            self.unlanded.note(*log, stamp.sequence, self.durable);
        }
        self.check();
        Ok(Reserved { skip, stamp })
    }

    /// Notes that a commit or skip mark is synced; returns the first that is not durable.
    ///
    /// What is below it may be acknowledged.
    pub fn synced(&mut self, sequence: Sequence) -> Sequence {
        assert!(
            self.durable <= sequence
                && sequence < self.next.sequence
                && self.early.insert(sequence),
            "what is synced was reserved, and is synced once"
        );
        while self.early.remove(&self.durable) {
            self.durable = self.durable.next();
        }
        self.check();
        self.durable
    }

    /// Begins to land a log: what its parts in durable commits say is written to its segments, and
    /// synced.
    ///
    /// Returns `None` if it has no such parts, or is landing. Must not be called between a
    /// truncation of the log and the durability of its cut: what the durable commits say is then no
    /// longer in memory, and newer bytes would be under older parts that are read back.
    pub fn begin_landing(&mut self, log: LogId) -> Option<Landing> {
        let landing = self.unlanded.begin(log, self.durable)?;
        #[cfg(test)]
        if self.planted == Some(PlantedBug::ReleaseBeforeLandingSync) {
            self.end_landing(landing);
        }
        Some(landing)
    }

    /// Notes that the segments have all that the landing covers, synced, and under durable names.
    pub fn end_landing(&mut self, landing: Landing) {
        self.unlanded.end(landing);
        self.check();
    }

    /// Notes that a landing failed, or was not tried; its parts stay.
    pub fn give_up_landing(&mut self, landing: Landing) {
        self.unlanded.give_up(landing);
    }

    /// Drops the parts of a log that is deleted, durably: a start that finds them has no such log.
    pub fn forget(&mut self, log: LogId) {
        self.unlanded.forget(log);
    }

    /// Returns the log whose landing releases room soonest, of those that may begin to land.
    pub fn next_to_land(&self) -> Option<LogId> {
        self.unlanded.next_to_land(self.durable)
    }

    /// Begins to write the next header, if it would release room, or open the ring.
    ///
    /// It goes to [`Header::place_of`] its generation. One is written at a time; if that fails, the
    /// use of the ring ends.
    pub fn begin_header(&mut self) -> Option<Header> {
        let generation = self.generation.saturating_add(1);
        let head = self.head();
        let [even, odd] = self.heads;
        let older = if is_even(generation) { even } else { odd };
        if self.writing.is_some() || older == Some(head) {
            return None;
        }
        self.writing = Some(head);
        #[cfg(test)]
        if self.planted == Some(PlantedBug::ReleaseBeforeHeaderSync) && older.is_some() {
            self.release(head.sequence);
        }
        Some(Header {
            id: self.id.clone(),
            size: self.size,
            generation,
            incarnation: self.incarnation,
            head,
        })
    }

    /// Notes that the header is synced, and releases what both blocks have passed.
    pub fn header_synced(&mut self) {
        let head = self.writing.take().expect("a header is being written");
        self.generation = self.generation.saturating_add(1);
        let [even, odd] = &mut self.heads;
        let block = if is_even(self.generation) { even } else { odd };
        *block = Some(head);
        if let [Some(even), Some(odd)] = self.heads {
            self.release(even.sequence.min(odd.sequence));
        }
        #[cfg(test)]
        if self.planted == Some(PlantedBug::ReleaseByOneBlock) {
            self.release(head.sequence);
        }
        self.check();
    }

    /// Returns the first commit that may have unlanded parts.
    pub fn head(&self) -> Head {
        let oldest = self.unlanded.oldest();
        let sequence = oldest.map_or(self.durable, |oldest| oldest.min(self.durable));
        Head {
            position: self.position_of(sequence),
            sequence,
        }
    }

    /// Returns the commit below which everything is durable.
    pub fn durable(&self) -> Sequence {
        self.durable
    }

    /// Returns the commit below which no scan reads any more.
    ///
    /// What changes a segment other than by appends (compaction, a move) waits until this has
    /// passed the segment's last part.
    pub fn released(&self) -> Sequence {
        self.released
    }

    /// Returns the room for commits and skip marks, in bytes.
    pub fn free_bytes(&self) -> u64 {
        self.size.bytes().saturating_sub(self.used_bytes())
    }

    /// Returns the room that is not released, in bytes.
    pub fn used_bytes(&self) -> u64 {
        let released = self.position_of(self.released);
        self.next.position.since(released)
    }

    /// Returns how many commits and skip marks are not durable.
    pub fn in_flight(&self) -> usize {
        index(self.next.sequence.0.saturating_sub(self.durable.0))
    }

    fn is_open(&self) -> bool {
        #[cfg(test)]
        if self.planted == Some(PlantedBug::OpenByOneBlock) {
            return self.heads.iter().any(Option::is_some);
        }
        self.heads.iter().all(Option::is_some)
    }

    /// Moves the next commit on; returns the stamp of what takes its place.
    fn advance(&mut self, bytes: u64) -> Stamp {
        let Head { position, sequence } = self.next;
        self.positions.push_back(position);
        self.next = Head {
            position: position.plus(bytes),
            sequence: sequence.next(),
        };
        Stamp {
            incarnation: self.incarnation,
            sequence,
            position,
            synced_below: self.durable,
        }
    }

    fn release(&mut self, upto: Sequence) {
        while self.released < upto {
            let position = self.positions.pop_front();
            assert!(position.is_some(), "what is released was reserved");
            self.released = self.released.next();
        }
    }

    fn position_of(&self, sequence: Sequence) -> Position {
        let at = index(sequence.0.saturating_sub(self.released.0));
        self.positions.get(at).map_or(self.next.position, |at| *at)
    }

    fn check(&self) {
        let head = self.head();
        assert!(
            self.released <= head.sequence
                && head.sequence <= self.durable
                && self.durable <= self.next.sequence,
            "released <= head <= durable <= next"
        );
        assert!(
            self.used_bytes() <= self.size.bytes(),
            "no commit is written over one that counts"
        );
    }
}

fn is_even(generation: u64) -> bool {
    Header::place_of(generation) == 0
}
