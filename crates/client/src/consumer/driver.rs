//! The task of a consumer: decides by the pure parts what is due, starts it, takes what comes back.
//!
//! A turn of [`Driver::run`]: orders of the application, then everything that is due now (fetches;
//! `looking.rs`: lookups; `grouping.rs`: the member; `committing.rs`: commits), then waiting for
//! whatever happens first. It never waits for one thing while another could happen.
//!
//! Invariants: one fetch is under way at each broker; memory for its answer is kept before it is
//! sent; an event for the application is put where the decision was made, in that order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use platform::clock::Instant;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::sleep_until;
use wire::kafka::fetch::FetchResponse;
use wire::types::{ErrorCode, TopicPartition};

use super::committing::Commits;
use super::grouping::Membership;
use super::mailbox::{Mailbox, Order};
use super::tasks::{self, Patience, TaskOutcome};
use super::{Assignment, ConsumerOptions, Event, FetchedRecords};
use crate::cluster::Cluster;
use crate::error::ClientError;
use crate::fetch::fetcher::{FetchEvent, Fetcher};
use crate::fetch::room::{Held, Room};
use crate::pauses::{Pauses, later};

/// What an event costs beside its records.
const EVENT_BYTES: usize = 1 << 10;
/// How often the driver reports the troubles of the same broker.
const TROUBLE_EVERY: Duration = Duration::from_secs(10);
/// Brokers whose troubles are remembered.
const TROUBLED_MAX: usize = 256;
/// How long the end of sessions is waited for.
const SESSIONS_END_IN: Duration = Duration::from_millis(50);

/// The end of a consumer.
pub(super) struct Closing {
    pub(super) deadline: Instant,
    done: oneshot::Sender<Result<(), ClientError>>,
    /// The result of the last commit, once it is known.
    pub(super) committed: Option<Result<(), ClientError>>,
    pub(super) has_left: bool,
}

/// The driver.
pub(super) struct Driver {
    /// For everything but fetches.
    pub(super) control: Cluster,
    /// For fetches, whose waits would delay the rest.
    pub(super) data: Cluster,
    pub(super) options: ConsumerOptions,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) pauses: Pauses,
    pub(super) fetcher: Fetcher,
    pub(super) room: Room,
    /// Brokers whose last fetch failed: their addresses may have changed.
    // Bounded: `TROUBLED_MAX`.
    failed: BTreeSet<i32>,
    pub(super) membership: Option<Membership>,
    pub(super) commits: Commits,
    pub(super) tasks: JoinSet<TaskOutcome>,
    pub(super) closing: Option<Closing>,
    // Bounded: `TROUBLED_MAX`.
    troubles: BTreeMap<String, Instant>,
    has_refusals: bool,
}

impl Driver {
    pub(super) fn new(
        (control, data): (Cluster, Cluster),
        options: ConsumerOptions,
        assignment: Assignment,
        mailbox: Arc<Mailbox>,
    ) -> Result<Self, ClientError> {
        let now = Instant::now();
        let client = &options.client;
        let pauses = Pauses::new(client.retry_backoff, client.retry_backoff_max);
        let rack = client.group.rack.as_deref();
        let mut fetcher = Fetcher::new(client.fetch.clone(), rack, pauses);
        let membership = match assignment {
            Assignment::Given(places) => {
                for (place, whence) in places {
                    fetcher.begin(place, whence);
                }
                None
            }
            Assignment::Subscribed(topics) => {
                let random = (control.random(), control.random());
                Some(Membership::new(client, topics, pauses, random, now)?)
            }
        };
        Ok(Self {
            room: Room::new(options.buffer_bytes),
            commits: Commits::new(options.auto_commit, now),
            control,
            data,
            options,
            mailbox,
            pauses,
            fetcher,
            failed: BTreeSet::new(),
            membership,
            tasks: JoinSet::new(),
            closing: None,
            troubles: BTreeMap::new(),
            has_refusals: false,
        })
    }

    /// Drives the consumer until it is closed or no handle to it is left.
    pub(super) async fn run(mut self) {
        // Also if it panics: no caller waits for a driver that is gone.
        let _over = EndsMailbox(Arc::clone(&self.mailbox));
        while !self.mailbox.is_abandoned() {
            let now = Instant::now();
            self.take_orders(now);
            let wake = self.go_on(now);
            if self.is_closed(now) {
                break;
            }
            let until = wake.unwrap_or(now);
            tokio::select! {
                Some(done) = self.tasks.join_next() => {
                    // A task that was aborted has no result.
                    if let Ok(done) = done {
                        self.apply(done, Instant::now());
                    }
                }
                () = self.mailbox.asked() => {}
                () = self.room.freed() => {}
                () = sleep_until(until), if wake.is_some() => {}
            }
        }
        self.end().await;
    }

    fn take_orders(&mut self, now: Instant) {
        while let Some(order) = self.mailbox.next_order() {
            match order {
                Order::Commit(deadline, done) => self.commit_for(deadline, done, now),
                Order::Seek(place, whence) => {
                    self.mailbox.forget(&place);
                    if self.reads(&place) {
                        self.fetcher.begin(place, whence);
                    }
                }
                Order::Pause(place, is_paused) => self.fetcher.pause(&place, is_paused),
                Order::Close(deadline, done) => {
                    self.closing = Some(Closing {
                        deadline,
                        done,
                        committed: None,
                        has_left: false,
                    });
                    self.begin_to_close(now);
                }
            }
        }
    }

    fn reads(&self, place: &TopicPartition) -> bool {
        self.fetcher.positions().any(|(one, _)| one == place)
    }

    /// Starts everything that is due, and returns when something will be.
    fn go_on(&mut self, now: Instant) -> Option<Instant> {
        let group = self.go_on_in_group(now);
        let commit = self.go_on_committing(now);
        if self.closing.is_none() {
            self.look_up(now);
            self.fetch(now);
        }
        self.tell_refusals();
        let closing = self.closing.as_ref().map(|closing| closing.deadline);
        let fetch = self.fetcher.wake_at(now).filter(|_| closing.is_none());
        [group, commit, closing, fetch].into_iter().flatten().min()
    }

    fn fetch(&mut self, now: Instant) {
        let settings = &self.options.client.fetch;
        let one = usize::try_from(settings.partition_bytes).unwrap_or(0);
        let least = one.min(self.options.buffer_bytes / 4);
        let patience = self.patience(now);
        loop {
            let free = self.room.free();
            if free < least && !self.room.is_unused() {
                return;
            }
            let Some(order) = self.fetcher.next_fetch(free, now) else {
                return;
            };
            let held = self.room.take(order.bytes_max);
            let is_anew = self.failed.contains(&order.node);
            let fetch = tasks::fetch(self.data.clone(), order, is_anew, held, patience);
            self.tasks.spawn_local(fetch);
        }
    }

    fn apply(&mut self, done: TaskOutcome, now: Instant) {
        match done {
            TaskOutcome::Fetched { node, held, answer } => self.fetched(node, held, answer, now),
            TaskOutcome::Led { orders, topic } => self.led(&orders, topic, now),
            TaskOutcome::Listed { orders, found } => self.listed(&orders, found, now),
            TaskOutcome::Group(answer) => self.group_answered(answer, now),
            TaskOutcome::Seen { topics, seen } => self.seen(topics, seen, now),
            TaskOutcome::Positions { places, found } => self.positioned(&places, found, now),
            TaskOutcome::Committed(stored) => self.committed(stored, now),
            TaskOutcome::LetGo(serial) => self.let_go(serial, now),
            TaskOutcome::SessionEnded => {}
        }
    }

    fn fetched(
        &mut self,
        node: i32,
        held: Held,
        answer: Result<FetchResponse, ClientError>,
        now: Instant,
    ) {
        match answer {
            Ok(answer) => {
                self.failed.remove(&node);
                let bytes = answer.records_bytes();
                let events = self.fetcher.answered(node, answer, now);
                // What was kept for the answer becomes what it takes.
                let bytes = bytes.saturating_add(events.len().saturating_mul(EVENT_BYTES));
                let taken = Arc::new(self.room.take(bytes));
                drop(held);
                self.take_events(events, &taken);
            }
            Err(error) => {
                drop(held);
                if self.failed.len() >= TROUBLED_MAX {
                    self.failed.clear();
                }
                self.failed.insert(node);
                let events = self.fetcher.failed(node, now);
                let nothing = Arc::new(self.room.take(0));
                self.take_events(events, &nothing);
                self.trouble(error, now);
            }
        }
    }

    pub(super) fn take_events(&mut self, events: Vec<FetchEvent>, held: &Arc<Held>) {
        for event in events {
            let event = match event {
                FetchEvent::Records {
                    place,
                    batches,
                    position,
                } => {
                    if let Some(membership) = &mut self.membership {
                        membership.begins(&place);
                    }
                    Event::Records(FetchedRecords {
                        place,
                        batches,
                        position,
                        _held: Arc::clone(held),
                    })
                }
                FetchEvent::End { place, offset } => Event::End { place, offset },
                FetchEvent::Truncated { place, from, to } => Event::Truncated { place, from, to },
                FetchEvent::Stale(topic) => {
                    self.control.stale(&topic);
                    continue;
                }
                FetchEvent::Refused { place, refusal } => {
                    // The application can ask which partitions are refused, and for how long.
                    let may_pass =
                        refusal.is_retriable() || refusal.code == ErrorCode::UnknownServerError;
                    if may_pass {
                        continue;
                    }
                    failed(place, refusal.into())
                }
                FetchEvent::NoPosition { place, offset } => {
                    let reason = format!("offset {offset} is not in the log of {place}");
                    failed(place, ClientError::invalid("position", reason))
                }
                FetchEvent::Damaged {
                    place,
                    offset,
                    error,
                } => {
                    let reason = format!("the batch of {place} at offset {offset}: {error}");
                    failed(place, ClientError::invalid("answer", reason))
                }
            };
            self.mailbox.put(event);
        }
    }

    /// Tells the application of an error of a whole exchange.
    pub(super) fn trouble(&mut self, error: ClientError, now: Instant) {
        if !error.is_retriable() {
            let place = None;
            return self.mailbox.put(Event::Failed { place, error });
        }
        let broker = match &error {
            ClientError::Io { broker, .. } | ClientError::TimedOut { broker, .. } => broker.clone(),
            _ => String::new(),
        };
        if self.troubles.len() >= TROUBLED_MAX {
            self.troubles.clear();
        }
        let told = self.troubles.get(&broker);
        if told.is_none_or(|told| now >= later(*told, TROUBLE_EVERY)) {
            self.troubles.insert(broker, now);
            self.mailbox.put(Event::Trouble(error));
        }
    }

    fn tell_refusals(&mut self) {
        let refusals: BTreeMap<_, _> = self
            .fetcher
            .refusals()
            .map(|(place, refusal)| (place.clone(), refusal.clone()))
            .collect();
        let has_refusals = !refusals.is_empty();
        if has_refusals || self.has_refusals {
            self.mailbox.tell_refusals(refusals);
        }
        self.has_refusals = has_refusals;
    }

    /// Returns how long a task that begins now may take.
    pub(super) fn patience(&self, now: Instant) -> Patience {
        let exchange = self.options.client.request_timeout;
        Patience {
            reach: later(now, exchange),
            exchange,
        }
    }

    /// Begins the end: the last commit, then the farewell.
    fn begin_to_close(&mut self, now: Instant) {
        let places: Vec<_> = self
            .fetcher
            .positions()
            .map(|(one, _)| one.clone())
            .collect();
        for place in &places {
            self.fetcher.end(place);
        }
        let deadline = self
            .closing
            .as_ref()
            .map_or(now, |closing| closing.deadline);
        if self.membership.is_none() || self.options.auto_commit.is_none() {
            self.close_committed(Ok(()), now);
        } else {
            self.commit_to_close(deadline, now);
        }
    }

    /// Takes the result of the last commit: now the member leaves.
    pub(super) fn close_committed(&mut self, result: Result<(), ClientError>, now: Instant) {
        let Some(closing) = &mut self.closing else {
            return;
        };
        closing.committed.get_or_insert(result);
        if self.membership.is_some() {
            self.leave_group(now);
        } else if let Some(closing) = &mut self.closing {
            closing.has_left = true;
        }
    }

    fn is_closed(&self, now: Instant) -> bool {
        self.closing
            .as_ref()
            .is_some_and(|closing| closing.has_left || now >= closing.deadline)
    }

    /// Ends sessions, and reports the last commit to the caller that closes the consumer.
    async fn end(mut self) {
        let mut ends = JoinSet::new();
        let now = Instant::now();
        let deadline = later(now, SESSIONS_END_IN);
        let patience = self.patience(now);
        for order in self.fetcher.end_sessions() {
            ends.spawn_local(tasks::end_session(self.data.clone(), order, patience));
        }
        let all = async { while ends.join_next().await.is_some() {} };
        // They are forgotten after a while in any case.
        drop(platform::task::timeout_at(deadline, all).await);
        if let Some(closing) = self.closing {
            let late = || Err(ClientError::timed_out("the coordinator", "the last commit"));
            // The caller may have stopped waiting.
            drop(closing.done.send(closing.committed.unwrap_or_else(late)));
        }
    }
}

/// Ends the mailbox when the driver ends.
struct EndsMailbox(Arc<Mailbox>);

impl Drop for EndsMailbox {
    fn drop(&mut self) {
        self.0.end();
    }
}

pub(super) fn failed(place: TopicPartition, error: ClientError) -> Event {
    let place = Some(place);
    Event::Failed { place, error }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::task::{Context, Waker};

    use platform::runtime::run_simulated;
    use platform::sim::SimNet;

    use super::*;
    use crate::scripted::{cluster, settings};

    /// A driver of no partitions.
    fn driver() -> Driver {
        let net = SimNet::default();
        let clusters = (cluster(&net, "a"), cluster(&net, "a"));
        let options = ConsumerOptions {
            client: settings("a"),
            auto_commit: None,
            buffer_bytes: 1 << 20,
        };
        let nothing = Assignment::Given(BTreeMap::new());
        let mailbox = Arc::new(Mailbox::new(Instant::now()));
        Driver::new(clusters, options, nothing, mailbox).unwrap()
    }

    #[test]
    fn an_application_hears_of_the_end_of_a_driver_that_is_gone() {
        let simulated = run_simulated(async {
            let driver = driver();
            let mailbox = Arc::clone(&driver.mailbox);
            let mut run = Box::pin(driver.run());
            let mut once = Context::from_waker(Waker::noop());
            assert!(run.as_mut().poll(&mut once).is_pending());
            assert!(mailbox.take().is_none());
            // As by a panic.
            drop(run);
            assert!(matches!(mailbox.take(), Some(Event::Closed)));
        });
        simulated.unwrap();
    }

    #[test]
    fn brokers_with_troubles_are_remembered_within_bounds() {
        let simulated = run_simulated(async {
            let (mut driver, now) = (driver(), Instant::now());
            for node in 0..10_000 {
                let error = ClientError::timed_out(&format!("b{node}"), "Fetch");
                let held = driver.room.take(0);
                driver.fetched(node, held, Err(error), now);
                assert!(driver.failed.len() <= TROUBLED_MAX);
                assert!(driver.troubles.len() <= TROUBLED_MAX);
            }
        });
        simulated.unwrap();
    }
}
