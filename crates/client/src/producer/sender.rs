//! The task that sends what is due, and the tasks that wait for answers, connections, leaders and
//! an identity.
//!
//! A turn is synchronous: it looks at the state, takes batches, and hands requests to connections
//! in order. Whatever is waited for runs in a task of its own, changes the state, and wakes the
//! sender for another turn.
//!
//! Invariants: reports are called while nothing of the state is borrowed, so they may call the
//! producer. What a task learnt before it waited is not used after it.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use platform::clock::Instant;
use platform::task;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::time::timeout_at;
use wire::batch::Compression;
use wire::messages::{InitProducerIdRequest, ProduceRequest, ProduceResponse};

use super::answers::{request, told};
use super::outbox::{Parcel, PartitionKey};
use super::partitioner::Sticky;
use super::queue::{Identity, SettledRecords};
use super::record::{Record, Report, ReportCallback};
use super::state::{KnownIdentity, ProducerState};
use super::verdict::BatchAnswer;
use crate::cluster::{Cluster, TopicMetadata};
use crate::connection::Connection;
use crate::error::{ClientError, check};
use crate::settings::{Acks, ProducerSettings};

/// The newest version of Produce that names topics.
const PRODUCE_VERSION: i16 = 12;
/// The newest one that does not add partitions to a transaction by itself.
const TRANSACTIONAL_VERSION: i16 = 11;
/// The newest version of InitProducerId that is asked in.
pub(super) const INIT_VERSION: i16 = 4;
/// The first version of Produce that takes zstd.
const ZSTD_VERSION: i16 = 7;
/// The pause when a connection has too many requests of others.
const FULL_PAUSE: Duration = Duration::from_millis(5);
/// The longest throttling by a broker that is obeyed.
const THROTTLE_MAX: Duration = Duration::from_mins(1);

/// What the producer and its tasks share.
pub(super) struct SharedProducer {
    cluster: Cluster,
    settings: ProducerSettings,
    state: RefCell<ProducerState>,
    /// Wakes the sender.
    wake: Notify,
    /// Notified whenever records are settled.
    settled: Notify,
}

/// Sends until the producer is closed and everything is settled.
pub(super) async fn run(shared: Rc<SharedProducer>) {
    loop {
        let look_at = shared.turn();
        if shared.is_over() {
            return;
        }
        match look_at {
            None => shared.wake.notified().await,
            Some(at) => {
                // Whichever comes first.
                drop(timeout_at(at, shared.wake.notified()).await);
            }
        }
    }
}

impl SharedProducer {
    pub(super) fn new(cluster: Cluster, settings: ProducerSettings) -> Self {
        Self {
            cluster,
            settings,
            state: RefCell::default(),
            wake: Notify::new(),
            settled: Notify::new(),
        }
    }

    pub(super) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    pub(super) fn settings(&self) -> &ProducerSettings {
        &self.settings
    }

    pub(super) fn state(&self) -> &RefCell<ProducerState> {
        &self.state
    }

    /// Lets those look again who wait for everything to be settled.
    pub(super) fn told_settled(&self) {
        self.settled.notify_waiters();
    }

    /// Lets the sender look again.
    pub(super) fn wake(&self) {
        self.wake.notify_one();
    }

    pub(super) fn close(&self) {
        self.state.borrow_mut().is_closed = true;
        self.wake();
    }

    fn is_over(&self) -> bool {
        let state = self.state.borrow();
        state.is_closed && state.outbox.active().next().is_none()
    }

    /// Fails if no record can be taken.
    pub(super) fn check(&self) -> Result<(), ClientError> {
        let state = self.state.borrow();
        if let Some(fatal) = &state.fatal {
            return Err(fatal.clone());
        }
        if state.is_closed {
            return Err(ClientError::Closed);
        }
        if self.settings.transactional_id.is_some() {
            state.transaction.check_open()?;
        }
        Ok(())
    }

    /// Returns the partition of records without a key.
    pub(super) fn stick(&self, topic: &TopicMetadata, bytes: usize) -> Option<i32> {
        let mut state = self.state.borrow_mut();
        let sticky = state.sticky.entry(Rc::clone(&topic.name));
        let sticky: &mut Sticky = sticky.or_default();
        let has_leader = |partition: i32| {
            let known = topic.partition(partition);
            known.is_some_and(|known| known.leader.is_some())
        };
        let current = sticky.current().filter(|current| has_leader(*current));
        let chosen = if let Some(current) = current {
            current
        } else {
            let all: Vec<i32> = topic.partitions.iter().map(|one| one.index).collect();
            let led = all.iter().copied().filter(|index| has_leader(*index));
            let led: Vec<i32> = led.collect();
            sticky.choose(&led, &all, || self.cluster.random())?
        };
        sticky.takes(bytes, self.settings.batch_bytes);
        Some(chosen)
    }

    /// Puts a record into its batch. Returns true if the caller should let the sender run.
    pub(super) fn add(
        &self,
        record: &Record,
        partition: i32,
        timestamp: i64,
        done: ReportCallback,
        room: OwnedSemaphorePermit,
    ) -> bool {
        let place: PartitionKey = (Rc::clone(&record.topic), partition);
        let is_transactional = self.settings.transactional_id.is_some();
        let mut state = self.state.borrow_mut();
        let queue = state.outbox.queue(&place, is_transactional);
        let batch = queue.open(record.size_bytes(), &self.settings, Instant::now());
        batch.add(record, timestamp, done, Some(room));
        let is_news = batch.records() == 1
            || batch.size_bytes() >= self.settings.batch_bytes
            || batch.sequences() >= self.settings.batch_records;
        drop(state);
        if is_news {
            self.wake();
        }
        is_news
    }

    pub(super) fn unsettled(&self) -> usize {
        self.state.borrow().outbox.records()
    }

    /// Waits until everything is settled.
    pub(super) async fn flush(&self, deadline: Instant) -> Result<(), ClientError> {
        let _urgent = Urgent::begin(self);
        loop {
            // Made before the look, so nothing between the two is missed.
            let settled = self.settled.notified();
            let is_adding = self.state.borrow().transaction.is_adding();
            if self.unsettled() == 0 && !is_adding {
                return Ok(());
            }
            let waited = timeout_at(deadline, settled).await;
            waited.map_err(|_| {
                let left = self.unsettled();
                ClientError::timed_out("any", format!("{left} records are not acknowledged"))
            })?;
        }
    }

    /// Does what can be done now; returns when to look again, if nothing wakes before.
    fn turn(self: &Rc<Self>) -> Option<Instant> {
        self.expire();
        let now = Instant::now();
        let (plan, errands, to_add) = {
            let mut state = self.state.borrow_mut();
            let (plan, errands) = state.plan(&self.cluster, &self.settings, now);
            (plan, errands, state.transaction.next_to_add())
        };
        if let Some(places) = to_add {
            task::spawn(Rc::clone(self).add_partitions(places));
        }
        for (place, error) in plan.failed {
            self.fail_waiting(&[place], &error);
        }
        for topic in errands.topics {
            task::spawn(Rc::clone(self).search(topic));
        }
        for node in errands.nodes {
            task::spawn(Rc::clone(self).connect(node));
        }
        if errands.identity {
            task::spawn(Rc::clone(self).introduce());
        }
        for (node, parcels) in plan.requests {
            self.send(node, parcels);
        }
        plan.look_at
    }

    /// Fails what is too old, or everything if nothing can be written any more.
    fn expire(&self) {
        let now = Instant::now();
        let mut all = Vec::new();
        {
            let mut state = self.state.borrow_mut();
            let hopeless = state.fatal.clone();
            let hopeless = hopeless.or_else(|| state.is_closed.then_some(ClientError::Closed));
            let hopeless = hopeless.or_else(|| state.transaction.failure());
            let places: Vec<PartitionKey> = state.outbox.active().cloned().collect();
            for place in places {
                let trouble = state.trouble(&place.0);
                let settled = state.outbox.change(&place, |queue| match &hopeless {
                    Some(error) => queue.fail_waiting(error),
                    None => queue.expire(&self.settings, trouble.as_ref(), now),
                });
                all.extend(settled.map(|settled| (place, settled)));
            }
        }
        self.settle(all);
    }

    /// Fails the batches of partitions that are not on their way.
    pub(super) fn fail_waiting(&self, places: &[PartitionKey], error: &ClientError) {
        let all = places.iter().filter_map(|place| {
            let mut state = self.state.borrow_mut();
            let settled = state
                .outbox
                .change(place, |queue| queue.fail_waiting(error));
            Some((place.clone(), settled?))
        });
        self.settle(all.collect());
    }

    /// Draws the consequences of what was settled, and tells the reports.
    fn settle(&self, all: Vec<(PartitionKey, SettledRecords)>) {
        let mut reports: Vec<(ReportCallback, Report)> = Vec::new();
        for ((topic, _), settled) in all {
            if settled.is_moved {
                self.cluster.stale(&topic);
            }
            let mut state = self.state.borrow_mut();
            if let Some(error) = &settled.failed {
                state.transaction.fails(error);
            }
            if let Some(error) = settled.fatal {
                state.fatal.get_or_insert(error);
            }
            if let (Some(used_up), KnownIdentity::As(Identity { id, .. })) =
                (settled.used_up, state.known)
                && used_up == id
            {
                state.known = KnownIdentity::No;
            }
            reports.extend(settled.reports);
        }
        for (done, report) in reports {
            done(report);
        }
        self.told_settled();
    }

    /// Hands a request to the connection of its broker.
    fn send(self: &Rc<Self>, node: i32, parcels: Vec<Parcel>) {
        let connection = self.state.borrow().connection(node);
        let Some(connection) = connection else {
            return self.unsent(parcels, ClientError::Full);
        };
        let is_transactional = self.settings.transactional_id.is_some();
        let newest = if is_transactional {
            TRANSACTIONAL_VERSION
        } else {
            PRODUCE_VERSION
        };
        let version = match connection.version_up_to::<ProduceRequest>(newest) {
            Ok(version) => version,
            Err(error) => return self.unsendable(parcels, error),
        };
        if self.settings.compression == Compression::Zstd && version < ZSTD_VERSION {
            let reason = format!("broker {} does not take zstd", connection.address());
            let error = ClientError::invalid("compression.type", reason);
            return self.unsendable(parcels, error);
        }
        let acks = match self.settings.acks {
            Acks::None => 0,
            Acks::Leader => 1,
            Acks::All => -1,
        };
        let within = self.cluster.settings().request_timeout;
        let timeout_ms = i32::try_from(within.as_millis()).unwrap_or(i32::MAX);
        let id = self.settings.transactional_id.as_deref();
        let request = request(&parcels, acks, timeout_ms, id);
        let deadline = Instant::now() + within;
        if self.settings.acks == Acks::None {
            match connection.begin_unanswered(version, &request, deadline) {
                Ok(writing) => {
                    self.state.borrow_mut().in_flight(node, true);
                    let shared = Rc::clone(self);
                    task::spawn(async move {
                        let written = writing.written().await;
                        shared.unanswered(node, parcels, written);
                    });
                }
                Err(error) => self.unsent(parcels, error),
            }
            return;
        }
        match connection.begin(version, &request, deadline) {
            Ok(answering) => {
                self.state.borrow_mut().in_flight(node, true);
                let shared = Rc::clone(self);
                task::spawn(async move {
                    let answer = answering.answer().await;
                    shared.told(node, &connection, parcels, answer);
                });
            }
            Err(error) => self.unsent(parcels, error),
        }
    }

    /// A request could not be handed over.
    fn unsent(&self, parcels: Vec<Parcel>, error: ClientError) {
        match error {
            ClientError::Full => self.put_back(&parcels, Instant::now().checked_add(FULL_PAUSE)),
            ClientError::Invalid { .. } => return self.unsendable(parcels, error),
            error => self.answered(parcels, &BatchAnswer::Unknown(error)),
        }
        self.wake();
    }

    /// A request can never be sent to this broker.
    fn unsendable(&self, parcels: Vec<Parcel>, error: ClientError) {
        self.answered(parcels, &BatchAnswer::Failed(error));
        self.wake();
    }

    fn put_back(&self, parcels: &[Parcel], until: Option<Instant>) {
        let mut state = self.state.borrow_mut();
        for Parcel { place, taken } in parcels {
            let number = taken.number;
            state
                .outbox
                .change(place, |queue| queue.put_back(number, until));
        }
    }

    /// A request without an answer is written, or not.
    fn unanswered(&self, node: i32, parcels: Vec<Parcel>, written: Result<(), ClientError>) {
        self.state.borrow_mut().in_flight(node, false);
        let answered = match written {
            Ok(()) => BatchAnswer::Written {
                offset: None,
                append_time: None,
            },
            Err(error) => BatchAnswer::Unknown(error),
        };
        self.answered(parcels, &answered);
        self.wake();
    }

    /// A request is answered, or not.
    fn told(
        &self,
        node: i32,
        connection: &Connection,
        parcels: Vec<Parcel>,
        answer: Result<ProduceResponse, ClientError>,
    ) {
        self.state.borrow_mut().in_flight(node, false);
        match answer {
            Err(error) => self.answered(parcels, &BatchAnswer::Unknown(error)),
            Ok(response) => {
                let throttle = u64::try_from(response.throttle_time_ms).unwrap_or(0);
                if throttle > 0 {
                    let pause = Duration::from_millis(throttle).min(THROTTLE_MAX);
                    let until = Instant::now().checked_add(pause);
                    self.state.borrow_mut().throttle(node, until);
                }
                let told = told(connection.address(), &parcels, &response);
                self.judged(parcels.into_iter().zip(told.answers));
                for endpoint in &response.node_endpoints {
                    let (id, port) = (endpoint.node_id.0, endpoint.port);
                    self.cluster.endpoint(id, &endpoint.host, port);
                }
                for ((topic, partition), leader) in told.leaders {
                    self.cluster.leader_moved(&topic, partition, leader);
                }
            }
        }
        self.wake();
    }

    /// The same is the answer to all batches of a request.
    fn answered(&self, parcels: Vec<Parcel>, answered: &BatchAnswer) {
        let each = parcels.into_iter();
        self.judged(each.map(|parcel| (parcel, answered.clone())));
    }

    fn judged(&self, answers: impl Iterator<Item = (Parcel, BatchAnswer)>) {
        let mut all = Vec::new();
        for (Parcel { place, taken }, answered) in answers {
            let number = taken.number;
            // Its bytes are the batch's alone again: a new stamp does not copy them.
            drop(taken);
            let at = (Instant::now(), self.cluster.random());
            let backoff = self.cluster.backoff();
            let mut state = self.state.borrow_mut();
            let settled = state.outbox.change(&place, |queue| {
                queue.answered(number, answered, &self.settings, backoff, at)
            });
            all.extend(settled.map(|settled| (place, settled)));
        }
        self.settle(all);
    }

    /// Asks for the leaders of a topic.
    async fn search(self: Rc<Self>, topic: Rc<str>) {
        let deadline = Instant::now() + self.cluster.settings().request_timeout;
        self.cluster.stale(&topic);
        let found = self.cluster.topic(&topic, deadline).await;
        let error = found.err();
        let is_lasting = error.as_ref().is_some_and(|error| !error.is_retriable());
        let lost: Vec<PartitionKey> = {
            let mut state = self.state.borrow_mut();
            let now = Instant::now();
            state.searched(&topic, error.clone(), &self.cluster, now);
            let active = state.outbox.active();
            let lost = active.filter(|place| is_lasting && place.0 == topic);
            lost.cloned().collect()
        };
        if let Some(error) = &error {
            self.fail_waiting(&lost, error);
        }
        self.wake();
    }

    /// Connects to a broker.
    async fn connect(self: Rc<Self>, node: i32) {
        let settings = self.cluster.settings();
        let pause = settings.retry_backoff;
        let within = settings.connect_timeout + settings.retry_backoff_max;
        let reached = self.cluster.node(node, Instant::now() + within).await;
        let error = reached.as_ref().err().cloned();
        let led = {
            let mut state = self.state.borrow_mut();
            let until = Instant::now().checked_add(pause);
            let led = state.led_by(&self.cluster, node);
            state.connected(node, reached, until, &led);
            led
        };
        if let Some(error) = error {
            if !error.is_retriable() {
                self.fail_waiting(&led, &error);
            }
            for (topic, _) in &led {
                // Another broker may lead by now.
                self.cluster.stale(topic);
            }
        }
        self.wake();
    }

    /// Learns who this producer is.
    async fn introduce(self: Rc<Self>) {
        let settings = self.cluster.settings();
        let deadline = Instant::now() + settings.request_timeout;
        let learnt = self.ask_identity(deadline).await;
        {
            let mut state = self.state.borrow_mut();
            state.known = match learnt {
                Ok(identity) => KnownIdentity::As(identity),
                Err(error) => {
                    tracing::debug!(%error, "no producer id");
                    if !error.is_retriable() {
                        state.fatal.get_or_insert(error);
                    }
                    let pause = settings.retry_backoff_max;
                    let until = Instant::now().checked_add(pause);
                    until.map_or(KnownIdentity::No, KnownIdentity::After)
                }
            };
        }
        self.wake();
    }

    async fn ask_identity(&self, deadline: Instant) -> Result<Identity, ClientError> {
        let request = InitProducerIdRequest::default()
            .with_transactional_id(None)
            .with_transaction_timeout_ms(i32::MAX)
            .with_producer_id((-1).into())
            .with_producer_epoch(-1);
        let attempt = async || {
            let connection = self.cluster.any(deadline).await?;
            let version = connection.version_up_to::<InitProducerIdRequest>(INIT_VERSION)?;
            let asked = self
                .cluster
                .exchange(&connection, version, &request, deadline);
            let answer = asked.await?;
            check(answer.error_code, None)?;
            Identity::given(answer.producer_id.0, answer.producer_epoch)
        };
        let patiently = self
            .cluster
            .patiently(deadline, ClientError::is_retriable, attempt);
        patiently.await
    }
}

/// While it lives, nothing lingers.
struct Urgent<'a>(&'a SharedProducer);

impl<'a> Urgent<'a> {
    fn begin(shared: &'a SharedProducer) -> Self {
        let mut state = shared.state.borrow_mut();
        state.flushing = state.flushing.saturating_add(1);
        drop(state);
        shared.wake();
        Self(shared)
    }
}

impl Drop for Urgent<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.borrow_mut();
        state.flushing = state.flushing.saturating_sub(1);
    }
}
