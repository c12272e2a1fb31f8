//! A cluster: its brokers, what leads what, and one connection to each broker.
//!
//! The client asks for metadata (`cluster/known.rs`) when they are missing, too old, or reported to
//! be stale by a caller: at most once per `retry_backoff`, and by one request at a time. It makes a
//! connection (`cluster/links.rs`) when a caller needs it, and after a pause if it was lost.
//!
//! Invariants:
//! - Every wait ends by the deadline of its caller. That never breaks a connection that others use:
//!   exchanges have `request_timeout` as their own deadline.
//! - A leader is never replaced by one of an older epoch.
//!
//! Not here: which errors of a request mean that a leader or coordinator has moved. The caller that
//! made the request knows, and reports it ([`Cluster::stale`], [`Cluster::coordinator_lost`]).

mod known;
mod links;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use platform::clock::Instant;
use platform::net::Net;
use platform::task::timeout_at;
use tokio::time::sleep_until;
use wire::StrBytes;
use wire::messages::find_coordinator_response::Coordinator;
use wire::messages::metadata_request::MetadataRequestTopic;
use wire::messages::{FindCoordinatorRequest, MetadataRequest, MetadataResponse, TopicName};
use wire::types::{ErrorCode, TopicId};

use crate::ask::Ask;
use crate::connection::{Connection, Peer};
use crate::error::{ClientError, check};
use crate::retry::{Backoff, next_try};
use crate::settings::ClientSettings;
use crate::transport::Dial;
use known::KnownCluster;
pub use known::{Leader, PartitionMetadata, TopicMetadata};
use links::Links;

/// The first version of `FindCoordinator` that asks for several keys.
const KEYS_SINCE: i16 = 4;

/// How long a broker is waited for before another one is asked for the same.
const SILENCE_MAX: Duration = Duration::from_secs(3);

/// What a coordinator is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CoordinatorKind {
    /// A consumer group.
    Group,
    /// A transactional id.
    Transaction,
}

impl CoordinatorKind {
    fn code(self) -> i8 {
        match self {
            Self::Group => 0,
            Self::Transaction => 1,
        }
    }
}

/// A handle to a cluster; clones share its connections and what is known of it.
#[derive(Clone)]
pub struct Cluster(Rc<SharedCluster>);

/// What the clones of a handle to a cluster share.
struct SharedCluster {
    settings: ClientSettings,
    random: Rc<dyn Fn() -> u64>,
    links: Links,
    known: RefCell<KnownCluster>,
    // Bounded: by the groups and transactional ids of the program
    coordinators: RefCell<BTreeMap<(CoordinatorKind, String), i32>>,
    /// Held by the caller that asks the brokers for metadata.
    asking: tokio::sync::Mutex<()>,
    /// When metadata were asked for last.
    asked_at: Cell<Option<Instant>>,
}

impl Cluster {
    /// Makes a client of a cluster; connects when something is asked first.
    pub fn new(net: impl Net, settings: ClientSettings) -> Self {
        Self::with_random(net, settings, platform::os::random_u64)
    }

    /// Does the same with randomness of the caller: nonces, jitter.
    pub fn with_random(
        net: impl Net,
        settings: ClientSettings,
        random: impl Fn() -> u64 + 'static,
    ) -> Self {
        let dial: Rc<dyn Dial> = Rc::new(net);
        let random: Rc<dyn Fn() -> u64> = Rc::new(random);
        Self(Rc::new(SharedCluster {
            links: Links::new(dial, Rc::clone(&random), &settings),
            settings,
            random,
            known: RefCell::default(),
            coordinators: RefCell::default(),
            asking: tokio::sync::Mutex::new(()),
            asked_at: Cell::new(None),
        }))
    }

    /// Returns the settings.
    pub fn settings(&self) -> &ClientSettings {
        &self.0.settings
    }

    /// Returns 64 random bits.
    pub fn random(&self) -> u64 {
        (self.0.random)()
    }

    /// Returns the pauses between tries.
    pub fn backoff(&self) -> Backoff {
        let settings = self.settings();
        Backoff::new(settings.retry_backoff, settings.retry_backoff_max)
    }

    /// Returns the leader of a partition, and waits until there is one: also for a topic that is
    /// missing, which may be about to be made.
    pub async fn leader(
        &self,
        topic: &str,
        partition: i32,
        deadline: Instant,
    ) -> Result<Leader, ClientError> {
        let attempt = async || {
            let known = self.topic(topic, deadline).await?;
            let leader = match known.partition(partition) {
                Some(found) => found.leader.ok_or(ErrorCode::LeaderNotAvailable),
                None => Err(ErrorCode::UnknownTopicOrPartition),
            };
            // What was told just now may be over soon: the next try asks again.
            Ok(leader.inspect_err(|_| self.stale(topic))?)
        };
        self.patiently(deadline, ClientError::is_retriable, attempt)
            .await
    }

    /// Returns the leader that is known, without asking.
    pub fn known_leader(&self, topic: &str, partition: i32) -> Option<Leader> {
        let known = self.0.known.borrow();
        known
            .fresh(topic, self.oldest())?
            .partition(partition)?
            .leader
    }

    /// Returns what is known of a topic, without asking.
    pub fn known_topic(&self, name: &str) -> Option<Rc<TopicMetadata>> {
        self.0.known.borrow().fresh(name, self.oldest())
    }

    /// Returns what is known of a topic: asks if nothing is, or if it is stale; a missing topic is
    /// an error at once.
    pub async fn topic(
        &self,
        name: &str,
        deadline: Instant,
    ) -> Result<Rc<TopicMetadata>, ClientError> {
        if let Some(topic) = self.known_topic(name) {
            return Ok(topic);
        }
        let name: Rc<str> = name.into();
        self.refresh(Some(&name), deadline).await?;
        self.0.known.borrow().told(&name)
    }

    /// Returns the name of a topic with this id, if it is known.
    pub fn topic_name(&self, id: TopicId) -> Option<Rc<str>> {
        self.0.known.borrow().name(id)
    }

    /// Returns what is known of all topics (for subscriptions by pattern); always asks.
    pub async fn all_topics(
        &self,
        deadline: Instant,
    ) -> Result<Vec<Rc<TopicMetadata>>, ClientError> {
        self.refresh(None, deadline).await?;
        Ok(self.0.known.borrow().all())
    }

    /// Returns the ids of all brokers; always asks.
    pub async fn brokers(&self, deadline: Instant) -> Result<Vec<i32>, ClientError> {
        let answer = self.metadata(Some(Vec::new()), deadline).await?;
        let mut known = self.0.known.borrow_mut();
        known.learn(&answer, Some(&[]), Instant::now());
        Ok(known.brokers())
    }

    /// Returns a connection to this broker.
    ///
    /// One try: it fails when the broker cannot be reached, and the next call waits for a pause.
    pub async fn node(&self, id: i32, deadline: Instant) -> Result<Connection, ClientError> {
        if self.peer(id).is_none() {
            self.brokers(deadline).await?;
        }
        let missing = || {
            let error = std::io::Error::new(std::io::ErrorKind::NotFound, "the cluster has none");
            ClientError::io(&id.to_string(), "looking up its address", &error)
        };
        let peer = self.peer(id).ok_or_else(missing)?;
        self.0.links.reach(&peer, deadline).await
    }

    /// Returns a connection to this broker if there is one.
    pub fn open_node(&self, id: i32) -> Option<Connection> {
        self.0.links.open(&self.peer(id)?)
    }

    /// Returns a connection to some broker: an open one if there is one. It fails when none of
    /// those that are known can be reached.
    pub async fn any(&self, deadline: Instant) -> Result<Connection, ClientError> {
        self.any_of(self.peers(), deadline).await
    }

    /// Returns the brokers to ask for what any of them knows.
    fn peers(&self) -> Vec<Peer> {
        let known = self.0.known.borrow();
        let brokers = known.brokers().into_iter();
        let mut peers: Vec<Peer> = brokers.filter_map(|id| known.peer(id)).collect();
        let bootstrap = self.settings().bootstrap.iter();
        peers.extend(bootstrap.map(|(host, port)| Peer::new(host, *port, None)));
        peers
    }

    async fn any_of(
        &self,
        mut peers: Vec<Peer>,
        deadline: Instant,
    ) -> Result<Connection, ClientError> {
        if let Some(open) = peers.iter().find_map(|peer| self.0.links.open(peer)) {
            return Ok(open);
        }
        // Those that failed come last.
        peers.sort_by_key(|peer| self.0.links.failures(peer));
        let mut last = ClientError::invalid("bootstrap.servers", "there is no broker in it");
        for (peer, left) in peers.iter().zip((1..=peers.len()).rev()) {
            // Each gets its share of the time, so one that is silent leaves some to the others.
            let now = Instant::now();
            let time = deadline.saturating_duration_since(now);
            let share = now + time / u32::try_from(left).unwrap_or(u32::MAX);
            match self.0.links.reach(peer, share).await {
                Ok(connection) => return Ok(connection),
                // Another broker would say the same.
                Err(error @ ClientError::Login { .. }) => return Err(error),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Returns a connection to the coordinator of a group or a transactional id, and waits until
    /// there is one.
    pub async fn coordinator(
        &self,
        kind: CoordinatorKind,
        key: &str,
        deadline: Instant,
    ) -> Result<Connection, ClientError> {
        let attempt = async || {
            let place = (kind, key.to_owned());
            let known = self.0.coordinators.borrow().get(&place).copied();
            let id = match known {
                Some(id) => id,
                None => self.find(kind, key, deadline).await?,
            };
            let reached = self.node(id, deadline).await;
            match reached {
                Ok(_) => {
                    self.0.coordinators.borrow_mut().insert(place, id);
                }
                Err(_) => self.coordinator_lost(kind, key),
            }
            reached
        };
        self.patiently(deadline, ClientError::is_retriable, attempt)
            .await
    }

    /// Forgets a coordinator that says it is none, or that is lost.
    pub fn coordinator_lost(&self, kind: CoordinatorKind, key: &str) {
        let mut coordinators = self.0.coordinators.borrow_mut();
        coordinators.remove(&(kind, key.to_owned()));
    }

    async fn find(
        &self,
        kind: CoordinatorKind,
        key: &str,
        deadline: Instant,
    ) -> Result<i32, ClientError> {
        let connection = self.any(deadline).await?;
        let version = connection.version::<FindCoordinatorRequest>()?;
        let name = StrBytes::from_string(key.to_owned());
        let request = FindCoordinatorRequest::default();
        let request = if version >= KEYS_SINCE {
            request
                .with_key_type(kind.code())
                .with_coordinator_keys(vec![name])
        } else if version >= 1 {
            request.with_key_type(kind.code()).with_key(name)
        } else {
            request.with_key(name)
        };
        let answer = self
            .exchange(&connection, version, &request, deadline)
            .await?;
        let found = if version >= KEYS_SINCE {
            let mut coordinators = answer.coordinators.into_iter();
            let ours = coordinators.find(|one| one.key.as_str() == key);
            let left_out = || ClientError::malformed(connection.address(), "no coordinator in it");
            ours.ok_or_else(left_out)?
        } else {
            Coordinator::default()
                .with_error_code(answer.error_code)
                .with_error_message(answer.error_message)
                .with_node_id(answer.node_id)
                .with_host(answer.host)
                .with_port(answer.port)
        };
        check(found.error_code, found.error_message.as_ref())?;
        self.endpoint(found.node_id.0, &found.host, found.port);
        Ok(found.node_id.0)
    }

    /// Tells that what is known of a topic is wrong: it is asked for again before it is used.
    pub fn stale(&self, topic: &str) {
        self.0.known.borrow_mut().stale(topic);
    }

    /// Takes a newer leader than the one that is known, from an answer that names it.
    pub fn leader_moved(&self, topic: &str, partition: i32, leader: Leader) {
        let mut known = self.0.known.borrow_mut();
        known.moved(topic, partition, leader);
    }

    /// Takes the address of a broker from an answer that names it.
    pub fn endpoint(&self, id: i32, host: &str, port: i32) {
        self.0.known.borrow_mut().endpoint(id, host, port);
    }

    /// Tries until it succeeds, fails with an error that does not pass, or the time is over; the
    /// last error is then returned.
    pub async fn patiently<T>(
        &self,
        deadline: Instant,
        passes: impl Fn(&ClientError) -> bool,
        mut attempt: impl AsyncFnMut() -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let mut backoff = self.backoff();
        loop {
            let tried = attempt().await;
            if !tried.as_ref().is_err_and(&passes) {
                return tried;
            }
            let pause = backoff.next(self.random());
            match next_try(Instant::now(), pause, deadline) {
                Some(at) => sleep_until(at).await,
                None => return tried,
            }
        }
    }

    /// Sends a request and waits for the answer up to a deadline that does not break the
    /// connection; the exchange has `request_timeout` for its own.
    pub async fn exchange<Q: Ask>(
        &self,
        connection: &Connection,
        version: i16,
        request: &Q,
        deadline: Instant,
    ) -> Result<Q::Answer, ClientError> {
        let own = Instant::now() + self.settings().request_timeout;
        let asked = timeout_at(deadline, connection.ask_in(version, request, own));
        let late = |_| {
            Err(ClientError::timed_out(
                connection.address(),
                crate::ask::name_of(Q::API),
            ))
        };
        asked.await.unwrap_or_else(late)
    }

    /// Asks for a topic, and for those that are stale (`None`: for all topics).
    async fn refresh(&self, name: Option<&Rc<str>>, deadline: Instant) -> Result<(), ClientError> {
        let needed_at = Instant::now();
        let late = |_| ClientError::timed_out("any", "metadata");
        let _turn = timeout_at(deadline, self.0.asking.lock())
            .await
            .map_err(late)?;
        let names = match name {
            None => None,
            Some(name) => {
                let known = self.0.known.borrow();
                // Another caller may have asked meanwhile.
                if known.is_fresh(name, self.oldest()) && self.0.asked_at.get() >= Some(needed_at) {
                    return Ok(());
                }
                Some(known.to_ask(name, self.oldest()))
            }
        };
        if let Some(last) = self.0.asked_at.get() {
            let next = last + self.settings().retry_backoff;
            timeout_at(deadline, sleep_until(next))
                .await
                .map_err(late)?;
        }
        self.0.asked_at.set(Some(Instant::now()));
        let answer = self.metadata(names.clone(), deadline).await?;
        let mut known = self.0.known.borrow_mut();
        known.learn(&answer, names.as_deref(), Instant::now());
        Ok(())
    }

    /// Asks for metadata. A broker that is silent is left for another one; the last one has all the
    /// time there is.
    async fn metadata(
        &self,
        names: Option<Vec<Rc<str>>>,
        deadline: Instant,
    ) -> Result<MetadataResponse, ClientError> {
        let named = |name: &Rc<str>| {
            let name = StrBytes::from_string(name.to_string());
            MetadataRequestTopic::default().with_name(Some(TopicName(name)))
        };
        let topics = names.map(|names| names.iter().map(named).collect());
        let request = MetadataRequest::default()
            .with_topics(topics)
            .with_allow_auto_topic_creation(self.settings().auto_create);
        let mut peers = self.peers();
        let mut silent: Option<Connection> = None;
        loop {
            let connection = match (self.any_of(peers.clone(), deadline).await, silent) {
                (Ok(connection), _) => connection,
                // No other one can be reached: it may be slow only.
                (Err(_), Some(silent)) => {
                    peers.clear();
                    silent
                }
                (Err(error), None) => return Err(error),
            };
            peers.retain(|peer| *peer.address != *connection.address());
            let until = if peers.is_empty() {
                deadline
            } else {
                deadline.min(Instant::now() + SILENCE_MAX)
            };
            let version = connection.version::<MetadataRequest>()?;
            let answer = self.exchange(&connection, version, &request, until).await;
            match answer {
                Err(ClientError::TimedOut { .. }) if until < deadline => silent = Some(connection),
                Err(error) => return Err(error),
                Ok(answer) => {
                    check(answer.error_code, None)?;
                    return Ok(answer);
                }
            }
        }
    }

    fn peer(&self, id: i32) -> Option<Peer> {
        self.0.known.borrow().peer(id)
    }

    /// Returns the time before which what was learnt is too old.
    fn oldest(&self) -> Option<Instant> {
        Instant::now().checked_sub(self.settings().metadata_max_age)
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = to.debug_struct("Cluster");
        shown.field("bootstrap", &self.settings().bootstrap);
        shown.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
