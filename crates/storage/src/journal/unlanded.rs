//! The logs with parts that are not in their segments, and which commit the oldest of these is in.
//!
//! States of a log: *unlanded* -> *landing* -> gone, or unlanded again when parts came meanwhile.
//! Invariants: a log is here exactly while it has unlanded parts; a landing covers only parts of
//! commits that were durable when it began, and begins only when the log's cuts are durable, too;
//! only the end of that landing, or of the log, moves its oldest part.
//! It does not know positions, or what is in flight beyond that (`ring`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use wire::types::{TopicId, Uuid};

use super::commit::{Change, Part};
use super::{LogId, Sequence};

/// A log in an order.
pub(crate) type Key = (u128, i32);

/// The logs of one ring.
#[derive(Default, Debug)]
pub(super) struct UnlandedLogs {
    /// Bounded: the logs of the shard.
    by_log: BTreeMap<Key, UnlandedParts>,
    /// The same, the oldest part first.
    by_age: BTreeSet<(Sequence, Key)>,
    /// How many landings have begun.
    landings: u64,
}

/// The parts of a log that are not in its segments.
#[derive(Debug)]
struct UnlandedParts {
    /// The commit of the oldest part.
    oldest: Sequence,
    /// Commits with parts of the log that were not durable at the last look. Bounded:
    /// `ring::IN_FLIGHT_MAX`.
    in_flight: VecDeque<Sequence>,
    /// The commit of the last cut.
    cut: Option<Sequence>,
    /// The number of the landing that is under way.
    landing: Option<u64>,
    /// While it lands: the oldest part that does not land with it.
    after: Option<Sequence>,
}

/// A landing that has begun: every part of the log in commits below `below`.
///
/// The caller that began it ends it, or gives it up; so it is not copied.
#[derive(PartialEq, Eq, Debug)]
#[cfg_attr(test, derive(Clone))]
pub struct Landing {
    /// The log.
    pub log: LogId,
    /// The first commit whose parts it does not cover.
    pub below: Sequence,
    /// Of all landings of the ring; one that is tried again has another number.
    number: u64,
}

impl UnlandedLogs {
    /// Notes a part in a new commit.
    pub(super) fn note(&mut self, part: &Part<'_>, sequence: Sequence, durable: Sequence) {
        let key = key(part.log);
        let unlanded = self.by_log.entry(key).or_insert_with(|| {
            self.by_age.insert((sequence, key));
            UnlandedParts {
                oldest: sequence,
                in_flight: VecDeque::new(),
                cut: None,
                landing: None,
                after: None,
            }
        });
        if matches!(part.change, Change::Cut { .. }) {
            unlanded.cut = Some(sequence);
        }
        if unlanded.landing.is_some() {
            unlanded.after.get_or_insert(sequence);
        }
        unlanded.forget_durable(durable);
        if unlanded.in_flight.back() != Some(&sequence) {
            unlanded.in_flight.push_back(sequence);
        }
    }

    /// Begins to land the parts below `durable`, if there are any and the log may land.
    pub(super) fn begin(&mut self, log: LogId, durable: Sequence) -> Option<Landing> {
        let unlanded = self.by_log.get_mut(&key(log))?;
        if !unlanded.may_land(durable) {
            return None;
        }
        unlanded.forget_durable(durable);
        unlanded.after = unlanded.in_flight.front().copied();
        self.landings = self.landings.wrapping_add(1); // Of 2^64 no two meet.
        unlanded.landing = Some(self.landings);
        Some(Landing {
            log,
            below: durable,
            number: self.landings,
        })
    }

    /// Notes that a landing is done.
    pub(super) fn end(&mut self, landing: &Landing) {
        let Some(unlanded) = self.of(landing) else {
            return; // The log was forgotten meanwhile.
        };
        let (oldest, after) = (unlanded.oldest, unlanded.after.take());
        unlanded.landing = None;
        let key = key(landing.log);
        self.by_age.remove(&(oldest, key));
        match (after, self.by_log.get_mut(&key)) {
            (Some(after), Some(unlanded)) => {
                assert!(oldest < after, "what lands is older than what stays");
                unlanded.oldest = after;
                self.by_age.insert((after, key));
            }
            _ => drop(self.by_log.remove(&key)),
        }
    }

    /// Notes that a landing came to nothing.
    pub(super) fn give_up(&mut self, landing: &Landing) {
        if let Some(unlanded) = self.of(landing) {
            unlanded.landing = None;
            unlanded.after = None;
        }
    }

    /// Drops a log.
    pub(super) fn forget(&mut self, log: LogId) {
        let key = key(log);
        if let Some(unlanded) = self.by_log.remove(&key) {
            self.by_age.remove(&(unlanded.oldest, key));
        }
    }

    /// Returns the commit of the oldest part of any log.
    pub(super) fn oldest(&self) -> Option<Sequence> {
        self.by_age.first().map(|(oldest, _)| *oldest)
    }

    /// Returns the logs with a part in a commit below `below` that may land.
    pub(super) fn landable_below(
        &self,
        below: Sequence,
        until: Sequence,
    ) -> impl Iterator<Item = LogId> {
        let old = (self.by_age.iter()).take_while(move |(oldest, _)| *oldest < below);
        let keys = old.map(|(_, key)| *key);
        keys.filter(move |key| self.may_land(key, until))
            .map(log_of)
    }

    fn may_land(&self, key: &Key, until: Sequence) -> bool {
        let unlanded = self.by_log.get(key);
        unlanded.is_some_and(|unlanded| unlanded.may_land(until))
    }

    /// Returns the logs that may begin to land, the one with the oldest part first.
    pub(super) fn landable(&self, until: Sequence) -> impl Iterator<Item = LogId> {
        let durable = (self.by_age.iter()).take_while(move |(oldest, _)| *oldest < until);
        let keys = durable.map(|(_, key)| *key);
        keys.filter(move |key| self.may_land(key, until))
            .map(log_of)
    }

    /// Returns the log of a landing that is under way.
    fn of(&mut self, landing: &Landing) -> Option<&mut UnlandedParts> {
        let unlanded = self.by_log.get_mut(&key(landing.log))?;
        (unlanded.landing == Some(landing.number)).then_some(unlanded)
    }
}

impl UnlandedParts {
    fn may_land(&self, durable: Sequence) -> bool {
        let is_cut_durable = self.cut.is_none_or(|cut| cut < durable);
        self.landing.is_none() && self.oldest < durable && is_cut_durable
    }

    fn forget_durable(&mut self, durable: Sequence) {
        while self.in_flight.front().is_some_and(|first| *first < durable) {
            self.in_flight.pop_front();
        }
    }
}

pub(crate) fn key(log: LogId) -> Key {
    (log.topic_id.0.as_u128(), log.partition)
}

pub(crate) fn log_of((topic_id, partition): Key) -> LogId {
    LogId {
        topic_id: TopicId(Uuid::from_u128(topic_id)),
        partition,
    }
}
