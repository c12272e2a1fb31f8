//! What waits for its commit, and the account of the ring that it waits for.
//!
//! States of a submission: waiting -> given (its commit has room, together with others) -> durable.
//! Invariants: submissions are given in the order in which they were handed in, and nothing
//! overtakes one that waits for room, but a cut: that has its room in the step that truncates its
//! log, or the log is not truncated; what is given is written in that order, each before the next;
//! a commit takes all of a submission, and no more than has room.
//! Pure: no I/O and no waiting. `W` is the waiter for a submission.

use std::collections::VecDeque;

use super::commit::{Part, Stamp};
use super::header::Header;
use super::pressure::Load;
use super::ring::{Landing, ReservedRoom, Ring};
use super::submission::{Submission, blocks_of, gather};
use super::tails::Tails;
use super::{BLOCK, LogId, RingSize, Sequence};

/// How many places a commit takes that skips the end of a lap.
const PLACES_OF_A_COMMIT: usize = 2;

/// What waits for one ring.
#[derive(Debug)]
pub(super) struct Queue<W> {
    ring: Ring,
    tails: Tails,
    /// Bounded: bytes by `Admission`, submissions without bytes by their callers.
    waiting: VecDeque<(Submission, W)>,
    /// Commits that have their room. Bounded: `ring::IN_FLIGHT_MAX`.
    given: VecDeque<GivenCommit<W>>,
    /// A caller waits until no scan reads this commit.
    release_wanted: Option<Sequence>,
    /// How many cuts wait for room.
    cuts_waiting: usize,
}

/// A commit that has its room, to be written.
#[derive(Debug)]
pub(super) struct GivenCommit<W> {
    reserved: ReservedRoom,
    submissions: Vec<(Submission, W)>,
}

impl<W> GivenCommit<W> {
    /// Returns the skip mark before it, and what that skips.
    pub(super) fn skip(&self) -> Option<(Stamp, u64)> {
        self.reserved.skip
    }

    /// Returns its stamp.
    pub(super) fn stamp(&self) -> Stamp {
        self.reserved.stamp
    }

    /// Returns its parts, in order.
    pub(super) fn parts(&self) -> Vec<Part<'_>> {
        let parts = self.submissions.iter().flat_map(|(one, _)| one.parts());
        parts.collect()
    }

    /// Returns how many parts it has.
    pub(super) fn part_count(&self) -> u64 {
        let counts = self.submissions.iter().map(|(one, _)| one.parts().count());
        counts.fold(0, |sum, count| sum.saturating_add(count as u64))
    }

    /// Returns its blocks, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        let lengths = self.submissions.iter().map(|(one, _)| one.length());
        blocks_of(lengths.fold(0, u64::saturating_add))
    }

    /// Returns the waiters for it.
    pub(super) fn into_waiters(self) -> impl Iterator<Item = W> {
        self.submissions.into_iter().map(|(_, waiter)| waiter)
    }
}

impl<W> Queue<W> {
    /// Starts with a ring that is open.
    pub(super) fn new(ring: Ring) -> Self {
        assert!(
            ring.released().is_some() && ring.in_flight() == 0,
            "a ring is opened before anybody waits for it"
        );
        Self {
            ring,
            tails: Tails::default(),
            waiting: VecDeque::new(),
            given: VecDeque::new(),
            release_wanted: None,
            cuts_waiting: 0,
        }
    }

    /// Takes a submission.
    pub(super) fn hand_in(&mut self, submission: Submission, waiter: W) {
        self.waiting.push_back((submission, waiter));
    }

    /// Returns true when a cut has room.
    pub(super) fn has_room_for_cut(&self) -> bool {
        self.ring.room_bytes() >= BLOCK && self.ring.places() >= PLACES_OF_A_COMMIT
    }

    /// Gives room to a cut, before everything that waits: from now on its log does not land.
    ///
    /// It has room.
    pub(super) fn give_cut(&mut self, cut: Submission, waiter: W) {
        let given = self.give(vec![(cut, waiter)]);
        self.given.push_back(given);
    }

    /// Returns true when a commit can be written.
    pub(super) fn has_next(&self) -> bool {
        !self.given.is_empty() || self.first_fits()
    }

    /// Returns the next commit to be written; the one before it is durable.
    pub(super) fn next_commit(&mut self) -> Option<GivenCommit<W>> {
        if let Some(given) = self.given.pop_front() {
            return Some(given);
        }
        let lengths = self.waiting.iter().map(|(one, _)| one.length());
        let count = gather(lengths, self.ring.room_bytes());
        if count == 0 {
            return None;
        }
        assert_eq!(self.ring.in_flight(), 0, "one commit is written at a time");
        let submissions = self.waiting.drain(..count).collect();
        Some(self.give(submissions))
    }

    /// Notes that a commit or skip mark is durable; returns the first that is not.
    pub(super) fn written(&mut self, sequence: Sequence) -> Sequence {
        self.ring.synced(sequence)
    }

    /// Takes out what waits of a log that is deleted; returns its waiters and bytes.
    ///
    /// Each submission of the log is of that log alone.
    pub(super) fn withdraw(&mut self, log: LogId) -> (Vec<W>, u64) {
        let is_of_log = |one: &Submission| one.parts().all(|part| part.log == log);
        let withdrawn = self.take_out(is_of_log);
        assert!(
            self.waiting.iter().all(|(one, _)| !is_of_log(one)),
            "nothing of the log waits"
        );
        withdrawn
    }

    /// Takes out all that waits for room, if none is there; returns its waiters and bytes.
    pub(super) fn withdraw_stuck(&mut self) -> (Vec<W>, u64) {
        if !self.is_stuck() {
            return (Vec::new(), 0);
        }
        let withdrawn = self.take_out(|_| true);
        assert!(!self.is_stuck(), "nothing waits for room");
        withdrawn
    }

    fn take_out(&mut self, is_meant: impl Fn(&Submission) -> bool) -> (Vec<W>, u64) {
        let (mut waiters, mut bytes) = (Vec::new(), 0_u64);
        let mut left = VecDeque::with_capacity(self.waiting.len());
        for entry in self.waiting.drain(..) {
            if is_meant(&entry.0) {
                bytes = bytes.saturating_add(entry.0.bytes());
                waiters.push(entry.1);
            } else {
                left.push_back(entry);
            }
        }
        self.waiting = left;
        (waiters, bytes)
    }

    /// Takes out all waiters: nothing is written any more.
    pub(super) fn give_up(&mut self) -> Vec<W> {
        let given = self.given.drain(..).flat_map(GivenCommit::into_waiters);
        let waiting = self.waiting.drain(..).map(|(_, waiter)| waiter);
        given.chain(waiting).collect()
    }

    /// Returns true when there is room for the first that waits.
    fn first_fits(&self) -> bool {
        self.first_fits_in(self.ring.room_bytes())
    }

    fn first_fits_in(&self, room: u64) -> bool {
        let length = self.waiting.front().map(|(one, _)| one.length());
        length.is_some_and(|length| blocks_of(length) <= room)
    }

    /// Reserves the room for a commit, which is there.
    fn give(&mut self, submissions: Vec<(Submission, W)>) -> GivenCommit<W> {
        let parts: Vec<_> = submissions
            .iter()
            .flat_map(|(one, _)| one.parts())
            .collect();
        let reserved = self.ring.reserve(&parts);
        let reserved = reserved.expect("what is given has room");
        for part in &parts {
            self.tails.note(part, reserved.stamp.sequence);
        }
        GivenCommit {
            reserved,
            submissions,
        }
    }
}

/// Room: what makes some, and what waits for it.
impl<W> Queue<W> {
    /// Returns the size of the ring.
    pub(super) fn size(&self) -> RingSize {
        self.ring.size()
    }

    /// Returns what is used, with the memory that the caller knows of.
    pub(super) fn load(&self, unlanded: u64, unlanded_max: u64, is_memory_wanted: bool) -> Load {
        Load {
            size: self.ring.size().bytes(),
            used: self.ring.used_bytes(),
            releasable: self.ring.releasable_bytes(),
            reserve: self.ring.reserve_bytes(),
            reserved: self.ring.reserved_bytes(),
            reservable: self.ring.reservable_bytes(),
            is_reserve_wanted: self.is_reserve_wanted(),
            unlanded_max,
            unlanded,
            is_room_wanted: self.is_room_wanted(),
            is_memory_wanted,
        }
    }

    /// Returns true when a caller waits for room in the ring, or for its release.
    pub(super) fn is_room_wanted(&self) -> bool {
        let waits_for_release = self.release_wanted.is_some_and(|of| !self.is_released(of));
        self.is_stuck() || waits_for_release || self.cuts_waiting > 0
    }

    /// Returns true when submissions wait for room that no header reserves: it has to be released.
    pub(super) fn is_stuck(&self) -> bool {
        let room = self.ring.room_bytes_when_reserved();
        self.waits() && !self.first_fits_in(room)
    }

    /// Returns true when a caller waits for room that a header may reserve.
    fn is_reserve_wanted(&self) -> bool {
        self.waits() || self.cuts_waiting > 0
    }

    /// Returns true when submissions wait, and no commit can be written.
    fn waits(&self) -> bool {
        !self.waiting.is_empty() && !self.has_next()
    }

    /// Notes that a cut begins, or ends, to wait for room.
    pub(super) fn cut_waits(&mut self, begins: bool) {
        let count = if begins {
            self.cuts_waiting.checked_add(1)
        } else {
            self.cuts_waiting.checked_sub(1)
        };
        self.cuts_waiting = count.expect("who ends to wait has begun");
    }

    /// Notes that a caller waits until no scan reads a commit.
    pub(super) fn want_release(&mut self, sequence: Sequence) {
        self.release_wanted = self.release_wanted.max(Some(sequence));
    }

    /// Returns true when no scan reads a commit any more.
    pub(super) fn is_released(&self, sequence: Sequence) -> bool {
        self.ring.released().is_some_and(|below| sequence < below)
    }

    /// Begins to write the next header.
    pub(super) fn begin_header(&mut self) -> Option<Header> {
        self.ring.begin_header()
    }

    /// Notes that the header is durable.
    pub(super) fn header_synced(&mut self) {
        self.ring.header_synced();
    }

    /// Returns the bytes of commits that are not in their segments.
    pub(super) fn unlanded_bytes(&self) -> u64 {
        self.tails.bytes()
    }

    /// Returns true when a log can begin to land.
    pub(super) fn can_land(&self) -> bool {
        self.ring.next_to_land().is_some()
    }

    /// Returns the logs that may begin to land, the one with the oldest part first.
    pub(super) fn landable(&self, logs_max: usize) -> Vec<LogId> {
        self.ring.landable().take(logs_max).collect()
    }

    /// Returns the logs that may begin to land and have a part in a commit below `below`.
    pub(super) fn landable_below(&self, below: Sequence) -> Vec<LogId> {
        self.ring.landable_below(below).collect()
    }

    /// Returns the commit below which everything is durable.
    pub(super) fn durable(&self) -> Sequence {
        self.ring.durable()
    }

    /// Returns the newest generation that a header in the file can have.
    pub(super) fn generation_max(&self) -> u64 {
        self.ring.generation_max()
    }

    /// Returns the bytes of a log that are not in its segments.
    pub(super) fn unlanded_bytes_of(&self, log: LogId) -> u64 {
        self.tails.bytes_of(log)
    }

    /// Begins to land a log, if it has durable parts and may land.
    pub(super) fn begin_landing(&mut self, log: LogId) -> Option<Landing> {
        self.ring.begin_landing(log)
    }

    /// Notes that a landing is done; returns how many bytes need not be kept any more.
    pub(super) fn end_landing(&mut self, landing: Landing) -> u64 {
        let (log, below) = (landing.log, landing.below);
        self.ring.end_landing(landing);
        self.tails.landed(log, below)
    }

    /// Notes that a landing failed.
    pub(super) fn give_up_landing(&mut self, landing: Landing) {
        self.ring.give_up_landing(landing);
    }

    /// Drops the parts of a log that is deleted; returns how many bytes these were.
    pub(super) fn forget(&mut self, log: LogId) -> u64 {
        self.ring.forget(log);
        self.tails.forget(log)
    }
}
