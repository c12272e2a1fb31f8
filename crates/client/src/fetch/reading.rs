//! Where the reading of one partition stands: its position, its leader, and what it waits for.
//!
//! States of the position: to be found ([`Whence`]), known. States of the leader: to be found,
//! known. Either is looked up outside, one lookup at a time; its result counts only if nothing
//! changed meanwhile (`serial`). Invariant: a known position moves only by an answer to a fetch
//! from it, or by a change from outside, which raises the serial number. Pure.

use platform::clock::Instant;
use wire::types::{ErrorCode, TopicId};

use crate::cluster::Leader;
use crate::error::Refusal;
use crate::settings::OffsetReset;

/// Where reading begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whence {
    /// At this offset, with the leader epoch of the record before it if it is known.
    At(i64, Option<i32>),
    /// Where the log starts.
    Start,
    /// After the newest record.
    End,
}

/// A position: the next offset, and the leader epoch of the batch before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position {
    /// The offset of the next record.
    pub offset: i64,
    /// The epoch, if it is known.
    pub epoch: Option<i32>,
}

/// A lookup that a partition waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lookup {
    /// Its leader, and the id of its topic.
    Leader,
    /// The offset at its start or end, at this leader.
    Offset(Whence, Leader),
}

/// The reading of one partition.
#[derive(Debug)]
pub(super) struct PartitionReading {
    /// Grows with every change from outside.
    pub(super) serial: u64,
    pub(super) topic_id: TopicId,
    /// Where to begin, until the position is known.
    whence: Whence,
    pub(super) position: Option<Position>,
    pub(super) leader: Option<Leader>,
    pub(super) is_paused: bool,
    /// There is no position, and only the application may choose one.
    is_stopped: bool,
    looking: bool,
    not_before: Option<Instant>,
    failures: u32,
    /// The last refusal, until an answer without one.
    pub(super) refusal: Option<Refusal>,
    /// The position at which the end was told.
    ended_at: Option<i64>,
}

impl PartitionReading {
    pub(super) fn new(serial: u64, whence: Whence) -> Self {
        let mut reading = Self {
            serial,
            topic_id: TopicId::ZERO,
            whence,
            position: None,
            leader: None,
            is_paused: false,
            is_stopped: false,
            looking: false,
            not_before: None,
            failures: 0,
            refusal: None,
            ended_at: None,
        };
        reading.begin(serial, whence);
        reading
    }

    /// Begins again somewhere else.
    pub(super) fn begin(&mut self, serial: u64, whence: Whence) {
        self.serial = serial;
        self.whence = whence;
        self.is_stopped = false;
        self.looking = false;
        self.ended_at = None;
        self.position = match whence {
            Whence::At(offset, epoch) => Some(Position { offset, epoch }),
            Whence::Start | Whence::End => None,
        };
    }

    /// Begins again as the policy says; false if the policy is an error.
    pub(super) fn reset(&mut self, serial: u64, policy: OffsetReset) -> bool {
        let whence = match policy {
            OffsetReset::Earliest => Whence::Start,
            OffsetReset::Latest => Whence::End,
            OffsetReset::Error => return false,
        };
        self.begin(serial, whence);
        true
    }

    /// Returns the lookup that is due, and takes it as begun.
    pub(super) fn lookup(&mut self, now: Instant) -> Option<Lookup> {
        if self.looking || self.is_stopped || self.waits(now) {
            return None;
        }
        let lookup = match (self.leader, self.position) {
            (None, _) => Lookup::Leader,
            (Some(leader), None) => Lookup::Offset(self.whence, leader),
            (Some(_), Some(_)) => return None,
        };
        self.looking = true;
        Some(lookup)
    }

    /// Takes the result of the lookup of the leader.
    pub(super) fn led(&mut self, leader: Leader, topic_id: TopicId) {
        self.looking = false;
        self.leader = Some(leader);
        self.topic_id = topic_id;
    }

    /// Takes the result of the lookup of the offset.
    pub(super) fn found(&mut self, offset: i64) {
        self.looking = false;
        let epoch = None;
        self.position = Some(Position { offset, epoch });
        self.refusal = None;
    }

    /// Takes that something was refused; it is tried again later, at a leader that is looked up
    /// again if this one may not be it any more.
    pub(super) fn refused(&mut self, refusal: Refusal, again: impl FnOnce(u32) -> Instant) {
        self.looking = false;
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(again(self.failures));
        if asks_for_another_leader(refusal.code) {
            self.leader = None;
        }
        self.refusal = Some(refusal);
    }

    /// Takes that the batch at the position cannot be read; it is fetched again later.
    pub(super) fn damaged(&mut self, again: impl FnOnce(u32) -> Instant) {
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(again(self.failures));
    }

    /// Takes that the broker has nothing at the position. The next one is tried at once the first
    /// time, and later if no answer has been good since: what a broker says of its log may never
    /// fit what it has.
    pub(super) fn misplaced(&mut self, again: impl FnOnce(u32) -> Instant) {
        if self.failures > 0 {
            self.not_before = Some(again(self.failures));
        }
        self.failures = self.failures.saturating_add(1);
    }

    /// Stops until it is begun again.
    pub(super) fn stop(&mut self, serial: u64) {
        self.serial = serial;
        self.position = None;
        self.looking = false;
        self.is_stopped = true;
    }

    /// Takes that the leader cannot be reached.
    pub(super) fn lost(&mut self, again: Instant) {
        self.looking = false;
        self.leader = None;
        self.not_before = Some(again);
    }

    /// Takes that an answer had no error.
    pub(super) fn answered(&mut self) {
        self.failures = 0;
        self.refusal = None;
    }

    /// Returns true if the end at `end` is reached and was not told at this position.
    pub(super) fn ends(&mut self, end: i64) -> Option<i64> {
        let offset = self.position?.offset;
        if end < 0 || offset < end || self.ended_at == Some(offset) {
            return None;
        }
        self.ended_at = Some(offset);
        Some(offset)
    }

    /// Returns true if the partition can be fetched now.
    pub(super) fn is_ready(&self, now: Instant) -> bool {
        !self.is_paused && !self.looking && !self.waits(now)
    }

    /// Returns the time before which nothing is tried.
    pub(super) fn not_before(&self) -> Option<Instant> {
        self.not_before
    }

    fn waits(&self, now: Instant) -> bool {
        self.not_before.is_some_and(|at| now < at)
    }
}

/// Returns true for refusals that say that this broker is not, or no longer, the leader.
pub(super) fn asks_for_another_leader(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::NotLeaderOrFollower
            | ErrorCode::LeaderNotAvailable
            | ErrorCode::ReplicaNotAvailable
            | ErrorCode::FencedLeaderEpoch
            | ErrorCode::UnknownLeaderEpoch
            | ErrorCode::UnknownTopicOrPartition
            | ErrorCode::UnknownTopicId
            | ErrorCode::InconsistentTopicId
            | ErrorCode::ListenerNotFound
            | ErrorCode::KafkaStorageError
    )
}
