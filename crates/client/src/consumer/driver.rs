//! What the task of a consumer holds, and what all of its parts do: telling the application.
//!
//! The parts: `running.rs` (its turns), `looking.rs` (leaders and offsets), `grouping.rs` (the
//! member), `committing.rs`.
//!
//! Invariants: one fetch is under way at each broker; memory for its answer is kept before it is
//! sent; an event for the application is put where the decision was made, in that order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use platform::clock::Instant;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use wire::types::{ErrorCode, TopicPartition};

use super::commits::Commits;
use super::event::{Event, FetchedRecords};
use super::mailbox::Mailbox;
use super::membership::Membership;
use super::options::{Assignment, ConsumerOptions};
use super::tasks::{Done, Patience};
use crate::cluster::Cluster;
use crate::error::ClientError;
use crate::fetch::fetcher::{FetchEvent, Fetcher};
use crate::fetch::room::{Held, Room};
use crate::pauses::{Pauses, later};

/// How often the same broker's troubles are told.
const TROUBLE_EVERY: Duration = Duration::from_secs(10);
/// Brokers whose troubles are remembered.
pub(super) const TROUBLED_MAX: usize = 256;

/// The end of a consumer.
pub(super) struct Closing {
    pub(super) deadline: Instant,
    pub(super) done: oneshot::Sender<Result<(), ClientError>>,
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
    pub(super) failed: BTreeSet<i32>,
    pub(super) membership: Option<Membership>,
    pub(super) commits: Commits,
    pub(super) tasks: JoinSet<Done>,
    pub(super) closing: Option<Closing>,
    // Bounded: `TROUBLED_MAX`.
    troubles: BTreeMap<String, Instant>,
    pub(super) has_refusals: bool,
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

    pub(super) fn take_events(&mut self, events: Vec<FetchEvent>, held: &Arc<Held>) {
        for event in events {
            let event = match event {
                FetchEvent::Records {
                    place,
                    batches,
                    position,
                } => Event::Records(FetchedRecords {
                    place,
                    batches,
                    position,
                    _held: Arc::clone(held),
                }),
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

    /// Returns how long a task that begins now may take.
    pub(super) fn patience(&self, now: Instant) -> Patience {
        let exchange = self.options.client.request_timeout;
        Patience {
            reach: later(now, exchange),
            exchange,
        }
    }
}

/// Returns what tells that a partition cannot be read.
pub(super) fn failed(place: TopicPartition, error: ClientError) -> Event {
    let place = Some(place);
    Event::Failed { place, error }
}
