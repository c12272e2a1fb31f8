//! The account of a ring: where the next commit goes, which are synced, which parts are not yet in
//! their segments, and what room may be used again.
//!
//! States: *opening* (until both header blocks have this incarnation, synced) -> *open*. A commit
//! is reserved -> synced; all below the first one that is not are durable. A log's parts are
//! unlanded -> landing -> landed, when its segments are synced. The head is the first commit with
//! an unlanded part; it goes into the older header block, and so into both in turn. With it goes
//! how far commits may reach until a later header says more.
//! Invariants: `released <= head <= durable <= next`, and `next - released` never exceeds the ring;
//! only what both blocks, synced, have passed is released, and only what both reserve is given to
//! commits, so that either block alone leads to every commit that counts, and bounds them all;
//! only parts of durable commits land; a sequence is given once, so what failed to be written is
//! never tried again in this incarnation.
//! It does not: write, read, sync, choose when a log lands or a header is written, or know the
//! parts' bytes.

use std::collections::{BTreeSet, VecDeque};

use super::commit::{Part, Stamp, size_of};
use super::header::{Header, RingId};
pub use super::unlanded::Landing;
use super::unlanded::UnlandedLogs;
use super::{BLOCK, Head, Incarnation, LogId, NUMBER_MAX, Position, RingSize, Sequence};
use crate::checkpoint::journal_mark::RingMark;
use crate::num::index;

#[cfg(test)]
use super::tests::PlantedBug;

/// How many commits and skip marks may be reserved and not yet durable.
pub const IN_FLIGHT_MAX: usize = 64;

/// A header reserves as much behind the next commit, or the whole ring: a start after a crash looks
/// through it.
const RESERVE_BYTES_MAX: u64 = 32 << 20;

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
    /// What the two blocks say, as far as they are of this incarnation and synced.
    bounds: [Option<Bounds>; 2],
    /// The generation of the newest header that is synced.
    generation: u64,
    /// What the header says that is being written.
    writing: Option<Bounds>,
    /// A header reserves as much behind the next commit.
    reserve_bytes: u64,
    #[cfg(test)]
    pub(super) planted: Option<PlantedBug>,
}

/// Between what a header has the commits that count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Bounds {
    head: Head,
    reserved: Position,
}

/// The room for a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReservedRoom {
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
    /// A header must be written first that reserves more.
    Unreserved,
    /// As many commits as may be are in flight.
    Busy,
    /// No commit of this ring is that long, or it has no parts.
    Unfit,
}

impl Ring {
    /// Starts the first use of a ring, in a file of zeros.
    pub fn new(id: RingId, size: RingSize, random: u64) -> Self {
        Self::begin(id, size, Incarnation::new(random, None), Head::START, 0)
    }

    /// Starts the next use of a ring, in which nothing counts that was there before.
    ///
    /// `found` is the header with which the last scan began, and `end` where that ended: what it
    /// yielded is in the segments and synced.
    ///
    /// Returns `None` for numbers that no ring reaches by use: the file must be replaced.
    pub fn after(found: &Header, random: u64, end: Head) -> Option<Self> {
        let Header { id, size, head, .. } = found;
        assert!(
            head.position <= end.position && head.sequence <= end.sequence,
            "a scan does not end before its head"
        );
        let largest = end.position.0.max(end.sequence.0).max(found.generation);
        let incarnation = Incarnation::new(random, Some(found.incarnation));
        (largest <= START_MAX)
            .then(|| Self::begin(id.clone(), *size, incarnation, end, found.generation))
    }

    /// Starts a use in which the next commit is `end`.
    pub(super) fn begin(
        id: RingId,
        size: RingSize,
        incarnation: Incarnation,
        end: Head,
        generation: u64,
    ) -> Self {
        assert!(
            end.position.0.is_multiple_of(BLOCK),
            "a ring begins where a block does"
        );
        Self {
            id,
            size,
            incarnation,
            positions: VecDeque::new(),
            released: end.sequence,
            next: end,
            durable: end.sequence,
            early: BTreeSet::new(),
            unlanded: UnlandedLogs::default(),
            bounds: [None; 2],
            generation,
            writing: None,
            reserve_bytes: size.bytes().min(RESERVE_BYTES_MAX),
            #[cfg(test)]
            planted: None,
        }
    }

    /// Gives room to a commit of these parts, and a skip mark before it if the commit would cross
    /// the end of the ring.
    ///
    /// What is given must be written, whole and once; a write that fails ends the use of the ring.
    pub fn reserve(&mut self, parts: &[Part<'_>]) -> Result<ReservedRoom, Refusal> {
        let fitting = size_of(parts).filter(|bytes| *bytes <= self.size.commit_bytes_max());
        let bytes = fitting.ok_or(Refusal::Unfit)?;
        if !self.is_open() {
            return Err(Refusal::Opening);
        }
        let left = self.size.left(self.next.position);
        let skipped = if bytes > left { left } else { 0 };
        let needed = bytes.saturating_add(skipped);
        if let Some(lacking) = needed.checked_sub(self.free_bytes()).filter(|&n| n > 0) {
            return Err(Refusal::Full { lacking });
        }
        if needed > self.reserved_bytes() {
            return Err(Refusal::Unreserved);
        }
        // There may be a skip mark, too.
        if self.in_flight().saturating_add(2) > IN_FLIGHT_MAX {
            return Err(Refusal::Busy);
        }
        let skip = (skipped > 0).then(|| (self.advance(skipped), skipped));
        let stamp = self.advance(bytes);
        for part in parts {
            self.unlanded.note(part, stamp.sequence, self.durable);
        }
        self.check();
        Ok(ReservedRoom { skip, stamp })
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
    /// Returns `None` if it has no such parts, is landing, or has a cut that is not durable: what
    /// the durable commits say is then no longer in memory, and newer bytes would be under older
    /// parts that are read back. So it must not be called between a truncation of the log and the
    /// `reserve` of its cut.
    pub fn begin_landing(&mut self, log: LogId) -> Option<Landing> {
        let landing = self.unlanded.begin(log, self.durable)?;
        #[cfg(test)]
        if self.planted == Some(PlantedBug::ReleaseBeforeLandingSync) {
            self.end_landing(landing.clone());
        }
        Some(landing)
    }

    /// Notes that the segments have all that the landing covers, synced, and under durable names.
    #[expect(clippy::needless_pass_by_value, reason = "a landing ends once")]
    pub fn end_landing(&mut self, landing: Landing) {
        self.unlanded.end(&landing);
        self.check();
    }

    /// Notes that a landing failed, or was not tried; its parts stay.
    #[expect(clippy::needless_pass_by_value, reason = "a landing ends once")]
    pub fn give_up_landing(&mut self, landing: Landing) {
        self.unlanded.give_up(&landing);
    }

    /// Drops the parts of a log that is deleted, durably: a start that finds them has no such log.
    ///
    /// A log of the same id is made only when [`Ring::released`] has passed its last part, or when
    /// a cut at its start is durable.
    pub fn forget(&mut self, log: LogId) {
        self.unlanded.forget(log);
    }

    /// Returns the log whose landing releases room soonest, of those that may begin to land.
    pub fn next_to_land(&self) -> Option<LogId> {
        self.landable().next()
    }

    /// Returns the logs that may begin to land, the one that releases room soonest first.
    pub fn landable(&self) -> impl Iterator<Item = LogId> {
        self.unlanded.landable(self.durable)
    }

    /// Returns the logs that may begin to land and have a part in a commit below `below`.
    pub fn landable_below(&self, below: Sequence) -> impl Iterator<Item = LogId> {
        self.unlanded.landable_below(below, self.durable)
    }

    /// Begins to write the next header, if it would release or reserve room, or open the ring.
    ///
    /// It goes to [`Header::place_of`] its generation. One is written at a time; if that fails, the
    /// use of the ring ends.
    pub fn begin_header(&mut self) -> Option<Header> {
        let generation = self.next_generation();
        let bounds = self.next_bounds();
        let [even, odd] = self.bounds;
        let older = if is_even(generation) { even } else { odd };
        if self.writing.is_some() || older == Some(bounds) {
            return None;
        }
        self.writing = Some(bounds);
        #[cfg(test)]
        self.plant_before_header_sync(bounds, older.is_some());
        Some(Header {
            id: self.id.clone(),
            size: self.size,
            generation,
            incarnation: self.incarnation,
            head: bounds.head,
            reserved: bounds.reserved,
        })
    }

    /// Notes that the header is synced, and releases what both blocks have passed.
    pub fn header_synced(&mut self) {
        let bounds = self.writing.take().expect("a header is being written");
        self.generation = self.next_generation();
        let [even, odd] = &mut self.bounds;
        let block = if is_even(self.generation) { even } else { odd };
        *block = Some(bounds);
        if let [Some(even), Some(odd)] = self.bounds {
            self.release(even.head.sequence.min(odd.head.sequence));
        }
        #[cfg(test)]
        if self.planted == Some(PlantedBug::ReleaseByOneBlock) {
            self.release(bounds.head.sequence);
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
    /// What changes a segment other than by parts waits until this has passed the segment's last
    /// part (compaction, a move) or the log's last cut (an append past the journal).
    ///
    /// Returns `None` while the ring is opening: until both headers are synced a scan may begin
    /// where the one before it did.
    pub fn released(&self) -> Option<Sequence> {
        self.is_open().then_some(self.released)
    }

    /// Returns the room for commits and skip marks, in bytes.
    pub fn free_bytes(&self) -> u64 {
        let free = self.size.bytes().checked_sub(self.used_bytes());
        free.expect("no commit is written over one that counts")
    }

    /// Returns the room that is not released, in bytes.
    pub fn used_bytes(&self) -> u64 {
        let used = self.next.position.since(self.position_of(self.released));
        used.expect("what is released was reserved")
    }

    /// Returns the room behind the next commit that both headers reserve, in bytes.
    pub fn reserved_bytes(&self) -> u64 {
        let reserved = self.reserved().since(self.next.position);
        reserved.expect("no commit reaches beyond what is reserved")
    }

    /// Returns how much more headers would reserve now, in bytes.
    pub fn reservable_bytes(&self) -> u64 {
        let reservable = self.next_bounds().reserved.since(self.reserved());
        reservable.unwrap_or(0) // While the ring is opening nothing is reserved.
    }

    /// Returns how much a header reserves behind the next commit if the ring has room, in bytes.
    pub fn reserve_bytes(&self) -> u64 {
        self.reserve_bytes
    }

    /// Returns the length of the longest commit that [`Ring::reserve`] has room for now, in bytes.
    pub fn room_bytes(&self) -> u64 {
        self.longest_in(self.free_bytes().min(self.reserved_bytes()))
    }

    /// Returns the same as it is when two headers were written.
    pub fn room_bytes_when_reserved(&self) -> u64 {
        self.longest_in(self.free_bytes().min(self.reserve_bytes))
    }

    /// Returns the length of the longest commit that fits into free bytes behind the next commit.
    fn longest_in(&self, free: u64) -> u64 {
        let left = self.size.left(self.next.position);
        let room = if free <= left {
            free
        } else {
            // Behind a skip mark, or before the end of the lap.
            left.max(free.saturating_sub(left))
        };
        room.min(self.size.commit_bytes_max())
    }

    /// Returns how many more commits may be in flight; one that skips counts twice.
    pub fn places(&self) -> usize {
        IN_FLIGHT_MAX.saturating_sub(self.in_flight())
    }

    /// Returns the room that headers with the present head would release, in bytes.
    pub fn releasable_bytes(&self) -> u64 {
        let released = self.position_of(self.released);
        let releasable = self.head().position.since(released);
        releasable.expect("the head is not before what is released")
    }

    /// Returns the newest generation that a header in the file can have.
    pub fn generation_max(&self) -> u64 {
        self.next_generation()
    }

    /// Returns what tells this use of the ring from others.
    ///
    /// One generation below the newest: one header alone leads to all commits, whichever it is.
    pub fn mark(&self) -> RingMark {
        assert!(self.is_open(), "both headers are of this use");
        RingMark {
            shard: self.id.shard,
            generation: self.generation.saturating_sub(1),
            fingerprint: self.incarnation.fingerprint(),
        }
    }

    /// Returns the size of the ring.
    pub fn size(&self) -> RingSize {
        self.size
    }

    /// Returns how many commits and skip marks are not durable.
    pub fn in_flight(&self) -> usize {
        let in_flight = self.next.sequence.0.checked_sub(self.durable.0);
        index(in_flight.expect("what is durable was reserved"))
    }

    fn is_open(&self) -> bool {
        #[cfg(test)]
        if self.planted == Some(PlantedBug::OpenByOneBlock) {
            return self.bounds.iter().any(Option::is_some);
        }
        self.bounds.iter().all(Option::is_some)
    }

    /// Returns the position up to which both headers reserve; the next commit while it is opening.
    fn reserved(&self) -> Position {
        let reserved = self.bounds.iter().flatten().map(|bounds| bounds.reserved);
        #[cfg(test)]
        if matches!(
            self.planted,
            Some(PlantedBug::ReserveByOneBlock | PlantedBug::ReleaseByOneBlock)
        ) {
            return reserved.max().unwrap_or(self.next.position);
        }
        reserved.min().unwrap_or(self.next.position)
    }

    /// Returns what the next header says.
    ///
    /// What was reserved once stays so.
    fn next_bounds(&self) -> Bounds {
        let head = self.head();
        let room = head.position.plus(self.size.bytes());
        let wanted = self.next.position.plus(self.reserve_bytes).min(room);
        let before = self.bounds.iter().flatten().map(|bounds| bounds.reserved);
        Bounds {
            head,
            reserved: before.fold(wanted, Position::max),
        }
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

    fn next_generation(&self) -> u64 {
        let next = self.generation.checked_add(1);
        next.expect("a use begins far below 2^64")
    }

    /// Returns the position of a commit that is not released, or of the next one.
    fn position_of(&self, sequence: Sequence) -> Position {
        if sequence == self.next.sequence {
            return self.next.position;
        }
        let at = sequence.0.checked_sub(self.released.0).map(index);
        let position = at.and_then(|at| self.positions.get(at));
        *position.expect("what is reserved and not released has a position")
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
        assert!(
            !self.is_open() || self.next.position <= self.reserved(),
            "no commit reaches beyond what is reserved"
        );
    }

    /// Has headers reserve less than they would.
    #[cfg(test)]
    pub(super) fn reserve_at_most(&mut self, bytes: u64) {
        let longest = self.size.commit_bytes_max();
        assert!(bytes >= 2 * longest, "a commit fits, whatever it skips");
        self.reserve_bytes = bytes;
    }

    /// Does what counts only when the header is synced, if that is planted.
    #[cfg(test)]
    fn plant_before_header_sync(&mut self, bounds: Bounds, is_open: bool) {
        match self.planted {
            Some(PlantedBug::ReleaseBeforeHeaderSync) if is_open => {
                self.release(bounds.head.sequence);
                self.bounds = [Some(bounds); 2];
            }
            Some(PlantedBug::ReserveBeforeHeaderSync) if is_open => {
                self.bounds = [Some(bounds); 2];
            }
            _ => {}
        }
    }
}

fn is_even(generation: u64) -> bool {
    Header::place_of(generation) == 0
}
