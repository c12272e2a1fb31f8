//! Decides what is fetched from which broker, and takes the answers.
//!
//! Each broker has at most one fetch under way, for all partitions that it leads and that are
//! ready. An answer counts for a partition only if nothing changed since the fetch was made
//! ([`super::reading`]), so no record is delivered twice or left out. After an error of a
//! partition it tries again for ever, with pauses: the application decides when to give up.
//!
//! Pure: its caller passes the time, and gets back the requests to send and the events to report.
//! `fetcher/answers.rs` takes the answers.

mod answers;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use platform::clock::Instant;
use wire::error::BatchError;
use wire::types::{TopicId, TopicPartition};

use super::batch::FetchedBatch;
use super::reading::{Lookup, PartitionReading, Position, Whence};
use super::request::{FetchAsk, FetchBounds};
use super::session::{FetchSession, PartitionAsk};
use crate::cluster::Leader;
use crate::error::Refusal;
use crate::pauses::Pauses;
use crate::settings::{FetchSettings, OffsetReset};
use answers::refuse;

/// Brokers without partitions that are remembered.
const IDLE_BROKERS_MAX: usize = 16;

/// What happened to a partition.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum FetchEvent {
    /// There are records.
    Records {
        place: TopicPartition,
        batches: Vec<FetchedBatch>,
        /// The position after them.
        position: Position,
    },
    /// The position is at the end, as far as this reader sees.
    End { place: TopicPartition, offset: i64 },
    /// The broker refuses; it is asked again.
    Refused {
        place: TopicPartition,
        refusal: Refusal,
    },
    /// The records before the position are not those that were read: the log was cut.
    Truncated {
        place: TopicPartition,
        from: i64,
        to: i64,
    },
    /// The position is outside of the log, and the policy is an error: the reading stops.
    NoPosition { place: TopicPartition, offset: i64 },
    /// The batch at the position cannot be read; it is fetched again.
    Damaged {
        place: TopicPartition,
        offset: i64,
        error: BatchError,
    },
    /// What is known of this topic is out of date.
    Stale(Arc<str>),
}

/// A lookup for a partition; its result comes back with the serial number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LookupOrder {
    pub(crate) place: TopicPartition,
    pub(crate) serial: u64,
    pub(crate) lookup: Lookup,
}

/// A fetch to send.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct FetchOrder {
    pub(crate) node: i32,
    pub(crate) request: FetchAsk,
    /// The most bytes of records in the answer, unless a single batch is longer.
    pub(crate) bytes_max: usize,
}

/// The fetch that is under way at a broker.
#[derive(Debug)]
struct UnderWay {
    since: Instant,
    serials: BTreeMap<TopicPartition, u64>,
    ids: BTreeMap<TopicId, Arc<str>>,
}

/// What is fetched from one broker.
#[derive(Default, Debug)]
struct BrokerFetches {
    session: FetchSession,
    under_way: Option<UnderWay>,
    not_before: Option<Instant>,
    failures: u32,
    /// Answers in a row that had nothing and came early.
    empty: u32,
    /// Which partition comes first.
    turn: usize,
    /// The number of the last fetch.
    asked: u64,
}

/// The reading of many partitions from many brokers.
#[derive(Debug)]
pub(crate) struct Fetcher {
    settings: FetchSettings,
    rack: String,
    pauses: Pauses,
    readings: BTreeMap<TopicPartition, PartitionReading>,
    brokers: BTreeMap<i32, BrokerFetches>,
    serial: u64,
    /// How many fetches there were.
    fetches: u64,
}

impl Fetcher {
    pub(crate) fn new(settings: FetchSettings, rack: Option<&str>, pauses: Pauses) -> Self {
        Self {
            settings,
            rack: rack.unwrap_or_default().to_owned(),
            pauses,
            readings: BTreeMap::new(),
            brokers: BTreeMap::new(),
            serial: 0,
            fetches: 0,
        }
    }

    /// Begins to read a partition, or goes on somewhere else.
    pub(crate) fn begin(&mut self, place: TopicPartition, whence: Whence) {
        let serial = self.next_serial();
        if let Some(reading) = self.readings.get_mut(&place) {
            reading.begin(serial, whence);
        } else {
            let reading = PartitionReading::new(serial, whence);
            self.readings.insert(place, reading);
        }
    }

    /// Begins where the policy says; false if the policy is an error.
    pub(crate) fn begin_by_policy(&mut self, place: TopicPartition) -> bool {
        let whence = match self.settings.reset {
            OffsetReset::Earliest => Whence::Start,
            OffsetReset::Latest => Whence::End,
            OffsetReset::Error => return false,
        };
        self.begin(place, whence);
        true
    }

    /// Ends the reading of a partition.
    pub(crate) fn end(&mut self, place: &TopicPartition) {
        self.readings.remove(place);
    }

    /// Stops fetching a partition, or goes on.
    pub(crate) fn pause(&mut self, place: &TopicPartition, is_paused: bool) {
        if let Some(reading) = self.readings.get_mut(place) {
            reading.is_paused = is_paused;
        }
    }

    /// Returns the partitions and their positions, as far as these are known.
    pub(crate) fn positions(&self) -> impl Iterator<Item = (&TopicPartition, Option<Position>)> {
        let readings = self.readings.iter();
        readings.map(|(place, reading)| (place, reading.position))
    }

    /// Returns the partitions that were refused the last time, with the refusal.
    pub(crate) fn refusals(&self) -> impl Iterator<Item = (&TopicPartition, &Refusal)> {
        let readings = self.readings.iter();
        readings.filter_map(|(place, reading)| Some((place, reading.refusal.as_ref()?)))
    }

    /// Returns the lookups that are due, and takes them as begun.
    pub(crate) fn lookups(&mut self, now: Instant) -> Vec<LookupOrder> {
        let readings = self.readings.iter_mut();
        let due = readings.filter_map(|(place, reading)| {
            let lookup = reading.lookup(now)?;
            Some(LookupOrder {
                place: place.clone(),
                serial: reading.serial,
                lookup,
            })
        });
        due.collect()
    }

    /// Takes the leader of a partition, and the id of its topic.
    pub(crate) fn led(
        &mut self,
        (place, serial): (&TopicPartition, u64),
        (leader, topic_id): (Leader, TopicId),
    ) {
        if let Some(reading) = self.current(place, serial) {
            reading.led(leader, topic_id);
        }
    }

    /// Takes the offset that was looked up.
    ///
    /// Returns false if it is not what the partition waits for.
    pub(crate) fn found(&mut self, (place, serial): (&TopicPartition, u64), offset: i64) -> bool {
        let Some(reading) = self.current(place, serial) else {
            return false;
        };
        reading.found(offset);
        true
    }

    /// Takes that a lookup was refused.
    pub(crate) fn lookup_refused(
        &mut self,
        (place, serial): (&TopicPartition, u64),
        refusal: Refusal,
        now: Instant,
    ) -> Vec<FetchEvent> {
        let pauses = self.pauses;
        let Some(reading) = self.current(place, serial) else {
            return Vec::new();
        };
        refuse(place, reading, refusal, pauses, now)
    }

    /// Takes that the broker of a lookup could not be asked.
    pub(crate) fn lookup_failed(&mut self, (place, serial): (&TopicPartition, u64), now: Instant) {
        let again = self.pauses.next(2, now);
        if let Some(reading) = self.current(place, serial) {
            reading.lost(again);
        }
    }

    /// Returns a fetch to send now, and takes it as under way: from the broker that waits longest,
    /// of at most its share of these bytes.
    pub(crate) fn next_fetch(&mut self, bytes_free: usize, now: Instant) -> Option<FetchOrder> {
        let mut ready: BTreeMap<i32, Vec<TopicPartition>> = BTreeMap::new();
        for (place, reading) in &self.readings {
            if let (Some(leader), Some(_)) = (reading.leader, reading.position)
                && reading.is_ready(now)
            {
                ready.entry(leader.node).or_default().push(place.clone());
            }
        }
        self.forget_idle(&ready);
        ready.retain(|node, _| {
            let broker = self.brokers.get(node);
            broker.is_none_or(|broker| broker.is_free(now))
        });
        let asked = |node: &i32| self.brokers.get(node).map_or(0, |broker| broker.asked);
        let share = bytes_free.checked_div(ready.len())?;
        let (node, places) = ready.into_iter().min_by_key(|(node, _)| asked(node))?;
        Some(self.fetch(node, places, share, now))
    }

    fn fetch(
        &mut self,
        node: i32,
        mut places: Vec<TopicPartition>,
        bytes_max: usize,
        now: Instant,
    ) -> FetchOrder {
        let broker = self.brokers.entry(node).or_default();
        let turn = broker.turn.checked_rem(places.len()).unwrap_or(0);
        places.rotate_left(turn);
        broker.turn = turn.saturating_add(1);
        self.fetches = self.fetches.wrapping_add(1);
        broker.asked = self.fetches;
        let mut under_way = UnderWay {
            since: now,
            serials: BTreeMap::new(),
            ids: BTreeMap::new(),
        };
        let mut wanted = Vec::with_capacity(places.len());
        for place in places {
            let Some(reading) = self.readings.get(&place) else {
                continue;
            };
            let (Some(leader), Some(position)) = (reading.leader, reading.position) else {
                continue;
            };
            let ask = PartitionAsk {
                topic_id: reading.topic_id,
                offset: position.offset,
                leader_epoch: leader.epoch,
                last_epoch: position.epoch.unwrap_or(-1),
                bytes_max: self.settings.partition_bytes,
            };
            under_way.serials.insert(place.clone(), reading.serial);
            under_way
                .ids
                .insert(reading.topic_id, Arc::clone(&place.topic));
            wanted.push((place, ask));
        }
        let of_all = i32::try_from(wanted.len()).unwrap_or(i32::MAX);
        let of_all = self.settings.partition_bytes.saturating_mul(of_all);
        let max_bytes = i32::try_from(bytes_max).unwrap_or(i32::MAX);
        let max_bytes = max_bytes.min(self.settings.max_bytes).min(of_all).max(1);
        let bounds = FetchBounds {
            max_wait: self.settings.max_wait,
            min_bytes: self.settings.min_bytes,
            max_bytes,
            committed: self.settings.read_committed,
        };
        let request = FetchAsk::new(broker.session.ask(wanted), bounds, &self.rack);
        broker.under_way = Some(under_way);
        FetchOrder {
            node,
            request,
            bytes_max: usize::try_from(max_bytes).unwrap_or(0),
        }
    }

    /// Returns the requests that end the sessions.
    pub(crate) fn end_sessions(&mut self) -> Vec<FetchOrder> {
        let bounds = FetchBounds {
            max_wait: Duration::ZERO,
            min_bytes: 0,
            max_bytes: 1,
            committed: self.settings.read_committed,
        };
        let ends = self.brokers.iter_mut().filter_map(|(node, broker)| {
            let request = FetchAsk::new(broker.session.end()?, bounds, &self.rack);
            Some(FetchOrder {
                node: *node,
                request,
                bytes_max: 0,
            })
        });
        ends.collect()
    }

    /// Returns when something is due that waits now.
    pub(crate) fn wake_at(&self, now: Instant) -> Option<Instant> {
        let readings = self.readings.values().map(PartitionReading::not_before);
        let brokers = self.brokers.values().map(|broker| broker.not_before);
        let all = readings.chain(brokers).flatten();
        all.filter(|at| *at > now).min()
    }

    fn current(&mut self, place: &TopicPartition, serial: u64) -> Option<&mut PartitionReading> {
        let reading = self.readings.get_mut(place)?;
        (reading.serial == serial).then_some(reading)
    }

    fn next_serial(&mut self) -> u64 {
        self.serial = self.serial.wrapping_add(1);
        self.serial
    }

    /// Forgets brokers that lead nothing here, if there are many.
    fn forget_idle(&mut self, ready: &BTreeMap<i32, Vec<TopicPartition>>) {
        if self.brokers.len() > IDLE_BROKERS_MAX.saturating_add(ready.len()) {
            self.brokers
                .retain(|node, broker| broker.under_way.is_some() || ready.contains_key(node));
        }
    }
}

impl BrokerFetches {
    fn is_free(&self, now: Instant) -> bool {
        self.under_way.is_none() && self.not_before.is_none_or(|at| now >= at)
    }
}

#[cfg(test)]
mod tests;
