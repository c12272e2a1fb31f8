//! What a producer knows between two turns of its sender: the queues, the ways to brokers, who it
//! is. No waiting here: tasks of `producer/sender.rs` wait, and change it.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use platform::clock::Instant;

use super::outbox::{LeaderReadiness, Outbox, PartitionKey, Plan};
use super::partitioner::Sticky;
use super::queue::Identity;
use super::transaction::Transaction;
use crate::cluster::{Cluster, Leader};
use crate::connection::Connection;
use crate::error::ClientError;
use crate::retry::Backoff;
use crate::settings::ProducerSettings;

/// Ways to brokers that are remembered; beyond that those are forgotten on which nothing is done.
const LANES_MAX: usize = 256;

/// What an idempotent producer knows of its producer id and epoch.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) enum KnownIdentity {
    /// Nothing: it has to ask a broker.
    #[default]
    No,
    /// Nothing yet: it has asked.
    Asking,
    /// Nothing: a broker refused, and it may ask again after this time.
    After(Instant),
    /// Its id and epoch.
    As(Identity),
}

/// The way to one broker.
#[derive(Default)]
pub(super) struct Lane {
    connection: Option<Connection>,
    /// Requests that are not answered.
    in_flight: usize,
    is_connecting: bool,
    /// The broker wants nothing before this time, or could not be reached.
    until: Option<Instant>,
}

/// What is done about a topic whose leaders are not known.
struct Search {
    is_asking: bool,
    until: Option<Instant>,
    backoff: Backoff,
    /// Why nothing is sent; until something is.
    trouble: Option<ClientError>,
}

/// What the sender has to do after a turn, besides sending.
#[derive(Default)]
pub(super) struct Errands {
    /// Topics to ask for.
    pub(super) topics: BTreeSet<Rc<str>>,
    /// Brokers to connect to.
    pub(super) nodes: BTreeSet<i32>,
    /// The producer has to learn who it is.
    pub(super) identity: bool,
}

/// The state of a producer.
#[derive(Default)]
pub(super) struct ProducerState {
    pub(super) outbox: Outbox,
    // Bounded: `LANES_MAX` and those with requests on their way
    lanes: BTreeMap<i32, Lane>,
    // Bounded: by the topics that the program writes to
    searches: BTreeMap<Rc<str>, Search>,
    // Bounded: by the topics that the program writes to
    pub(super) sticky: BTreeMap<Rc<str>, Sticky>,
    pub(super) known: KnownIdentity,
    pub(super) transaction: Transaction,
    /// How many wait for everything to be settled.
    pub(super) flushing: u32,
    pub(super) fatal: Option<ClientError>,
    pub(super) is_closed: bool,
}

impl ProducerState {
    /// Decides what is sent now, and what is to be found out.
    pub(super) fn plan(
        &mut self,
        cluster: &Cluster,
        settings: &ProducerSettings,
        now: Instant,
    ) -> (Plan, Errands) {
        let mut errands = Errands::default();
        let mut look_at: Option<Instant> = None;
        let mut later = |at: Instant| look_at = Some(look_at.map_or(at, |before| before.min(at)));
        let current = match self.known {
            KnownIdentity::As(identity) => Some(identity),
            _ => None,
        };
        if settings.idempotent && current.is_none() && self.outbox.active().next().is_some() {
            match self.known {
                KnownIdentity::After(at) if at > now => later(at),
                KnownIdentity::No | KnownIdentity::After(_)
                    if settings.transactional_id.is_none() =>
                {
                    errands.identity = true;
                }
                _ => {}
            }
        }
        if self.lanes.len() > LANES_MAX {
            // A connection is kept by the cluster, too.
            self.lanes.retain(|_, lane| lane.is_needed(now));
        }
        let (lanes, searches) = (&mut self.lanes, &self.searches);
        let transaction = &mut self.transaction;
        let way = |place: &PartitionKey| {
            if settings.idempotent && current.is_none() {
                return LeaderReadiness::Busy;
            }
            if settings.transactional_id.is_some() && !transaction.may_write(place) {
                return LeaderReadiness::Busy;
            }
            let (topic, partition) = place;
            let Some(Leader { node, .. }) = cluster.known_leader(topic, *partition) else {
                return match searches.get(topic) {
                    Some(search) if search.is_asking => LeaderReadiness::Busy,
                    Some(Search {
                        until: Some(until), ..
                    }) if *until > now => LeaderReadiness::Until(*until),
                    _ => {
                        errands.topics.insert(Rc::clone(topic));
                        LeaderReadiness::Busy
                    }
                };
            };
            let way = lanes.entry(node).or_default().way(node, settings, now);
            if way.is_none() {
                errands.nodes.insert(node);
            }
            way.unwrap_or(LeaderReadiness::Busy)
        };
        let is_urgent = self.flushing > 0;
        let mut plan = self.outbox.plan(settings, (now, is_urgent), current, way);
        plan.look_at = match (plan.look_at, look_at) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        for parcel in plan.requests.values().flatten() {
            if let Some(search) = self.searches.get_mut(&parcel.place.0) {
                search.trouble = None;
            }
        }
        self.begin(&errands, cluster);
        (plan, errands)
    }

    /// Notes that errands are being run.
    fn begin(&mut self, errands: &Errands, cluster: &Cluster) {
        for topic in &errands.topics {
            let search = self.searches.entry(Rc::clone(topic));
            search.or_insert_with(|| Search::new(cluster)).is_asking = true;
        }
        for node in &errands.nodes {
            self.lanes.entry(*node).or_default().is_connecting = true;
        }
        if errands.identity {
            self.known = KnownIdentity::Asking;
        }
    }

    /// Returns why nothing is sent to a topic, if that is known.
    pub(super) fn trouble(&self, topic: &str) -> Option<ClientError> {
        self.searches.get(topic)?.trouble.clone()
    }

    /// Returns the connection that a request to this broker takes.
    pub(super) fn connection(&self, node: i32) -> Option<Connection> {
        self.lanes.get(&node)?.connection.clone()
    }

    /// A request went out, or is answered.
    pub(super) fn in_flight(&mut self, node: i32, sent: bool) {
        let lane = self.lanes.entry(node).or_default();
        lane.in_flight = if sent {
            lane.in_flight.saturating_add(1)
        } else {
            lane.in_flight.saturating_sub(1)
        };
    }

    /// The broker wants nothing before this time.
    pub(super) fn throttle(&mut self, node: i32, until: Option<Instant>) {
        let lane = self.lanes.entry(node).or_default();
        lane.until = lane.until.max(until);
    }

    /// A connection was made, or not; in the second case not before `until` again. `led` are the
    /// partitions that wait for it.
    pub(super) fn connected(
        &mut self,
        node: i32,
        reached: Result<Connection, ClientError>,
        until: Option<Instant>,
        led: &[PartitionKey],
    ) {
        let lane = self.lanes.entry(node).or_default();
        lane.is_connecting = false;
        match reached {
            Ok(connection) => lane.connection = Some(connection),
            Err(error) => {
                lane.until = lane.until.max(until);
                for (topic, _) in led {
                    if let Some(search) = self.searches.get_mut(topic) {
                        search.trouble = Some(error.clone());
                    }
                }
            }
        }
    }

    /// A topic was asked for; without an answer, or without leaders in it, not before a pause
    /// again.
    pub(super) fn searched(
        &mut self,
        topic: &Rc<str>,
        trouble: Option<ClientError>,
        cluster: &Cluster,
        now: Instant,
    ) {
        let mut active = self.outbox.active();
        let is_missing = |place: &PartitionKey| {
            place.0 == *topic && cluster.known_leader(topic, place.1).is_none()
        };
        let is_missing = active.any(is_missing);
        let search = self.searches.entry(Rc::clone(topic));
        let search = search.or_insert_with(|| Search::new(cluster));
        search.is_asking = false;
        if trouble.is_some() {
            search.trouble = trouble;
        }
        if is_missing {
            search.until = now.checked_add(search.backoff.next(cluster.random()));
        } else {
            search.backoff.reset();
            search.until = None;
        }
    }

    /// Returns the partitions with batches whose leader is this broker.
    pub(super) fn led_by(&self, cluster: &Cluster, node: i32) -> Vec<PartitionKey> {
        let is_led = |place: &&PartitionKey| {
            let leader = cluster.known_leader(&place.0, place.1);
            leader.is_some_and(|leader| leader.node == node)
        };
        self.outbox.active().filter(is_led).cloned().collect()
    }
}

impl Lane {
    /// Returns true if something would be forgotten without it.
    fn is_needed(&self, now: Instant) -> bool {
        let waits = self.until.is_some_and(|until| until > now);
        self.in_flight > 0 || self.is_connecting || waits
    }

    /// Returns what can be sent here; `None` if a connection is needed.
    fn way(
        &mut self,
        node: i32,
        settings: &ProducerSettings,
        now: Instant,
    ) -> Option<LeaderReadiness> {
        if let Some(until) = self.until.filter(|until| *until > now) {
            return Some(LeaderReadiness::Until(until));
        }
        if self.is_connecting || self.in_flight >= settings.in_flight_max {
            return Some(LeaderReadiness::Busy);
        }
        let is_usable =
            |connection: &Connection| !connection.is_lost() && !connection.is_ageing(now);
        if self.connection.as_ref().is_some_and(is_usable) {
            return Some(LeaderReadiness::Open(node));
        }
        if self.in_flight > 0 {
            // What is on its way on the old connection comes first, so that order is kept.
            return Some(LeaderReadiness::Busy);
        }
        self.connection = None;
        None
    }
}

impl Search {
    fn new(cluster: &Cluster) -> Self {
        Self {
            is_asking: false,
            until: None,
            backoff: cluster.backoff(),
            trouble: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use platform::sim::SimNet;

    use super::*;
    use crate::scripted::cluster;

    #[test]
    fn ways_to_brokers_that_were_named_once_are_forgotten() {
        let (cluster, mut state) = (cluster(&SimNet::default(), "a"), ProducerState::default());
        let (settings, now) = (ProducerSettings::default(), Instant::now());
        for node in 0..10_000 {
            state.throttle(node, Some(now));
        }
        state.in_flight(5, true);
        state.throttle(6, Some(now + Duration::from_secs(1)));
        state.plan(&cluster, &settings, now);
        assert_eq!(state.lanes.into_keys().collect::<Vec<_>>(), [5, 6]);
    }
}
