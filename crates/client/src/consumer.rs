//! A consumer: reads partitions that it is given, or those that its group gives it.
//!
//! One task drives it ([`driver`]): it fetches ahead, sends heartbeats and commits, whatever the
//! application does meanwhile; on a thread of its own ([`Consumer::apart`]) also while the
//! application computes or writes. The application takes [`Event`]s in their order, and says up to
//! where it is done ([`Consumer::store`]): only that is committed.
//!
//! Invariants:
//! - What was fetched and is not dropped takes at most `buffer_bytes`, and a batch for each broker.
//! - The consumer gives up partitions only after the application has dropped the [`Revocation`],
//!   and first commits what the application stored before. It reports partitions that the group
//!   took away as lost, and commits no position of theirs.
//! - Fetches and everything else have connections of their own, so a fetch that waits delays no
//!   heartbeat.
//!
//! Not here: what is done with records.

mod committing;
mod driver;
mod grouping;
mod looking;
mod mailbox;
mod tasks;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use platform::clock::Instant;
use platform::net::Net;
use platform::task;
use platform::task::timeout_at;
use tokio::sync::oneshot;
use wire::types::TopicPartition;

use crate::blocking::Client;
use crate::cluster::Cluster;
use crate::error::{ClientError, Refusal};
use crate::fetch::room::Held;
use crate::fetch::{FetchedBatch, Position, Whence};
use crate::settings::ClientSettings;
use driver::Driver;
use mailbox::{Mailbox, Order};

/// How a consumer behaves, apart from the client's settings.
#[derive(Clone, Debug)]
pub struct ConsumerOptions {
    /// Brokers, fetches, the group.
    pub client: ClientSettings,
    /// How often stored positions are committed by themselves; `None` for never.
    pub auto_commit: Option<Duration>,
    /// Most bytes of records that are fetched ahead.
    pub buffer_bytes: usize,
}

/// What a consumer reads.
#[derive(Clone, Debug)]
pub enum Assignment {
    /// These partitions, from there on.
    Given(BTreeMap<TopicPartition, Whence>),
    /// What the group gives it of these topics.
    Subscribed(BTreeSet<String>),
}

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// Records of one partition.
    Records(FetchedRecords),
    /// A partition was read to its end.
    End {
        /// The partition.
        place: TopicPartition,
        /// The offset at which it ends.
        offset: i64,
    },
    /// The group gave these partitions to the consumer.
    Assigned(BTreeSet<TopicPartition>),
    /// The group wants partitions back.
    Revoking(Revocation),
    /// These partitions are the consumer's no longer, and may be another's already.
    Lost(BTreeSet<TopicPartition>),
    /// The log was cut behind what was read: reading goes on at an earlier offset.
    Truncated {
        /// The partition.
        place: TopicPartition,
        /// The position before.
        from: i64,
        /// The position now.
        to: i64,
    },
    /// Something does not work at the moment; it is tried again.
    Trouble(ClientError),
    /// Something does not work, and trying again is not expected to help: a partition cannot be
    /// read, or (without one) the consumer can do nothing.
    Failed {
        /// The partition.
        place: Option<TopicPartition>,
        /// Why.
        error: ClientError,
    },
    /// Nothing, until the deadline.
    Nothing,
    /// The consumer has ended.
    Closed,
}

/// Records of one partition, which take memory of the consumer until they are dropped.
#[derive(Debug)]
pub struct FetchedRecords {
    /// The partition.
    pub place: TopicPartition,
    /// Batches in the order of their offsets.
    pub batches: Vec<FetchedBatch>,
    /// The position after them.
    pub position: Position,
    /// Shared by all records of an answer.
    _held: Arc<Held>,
}

/// Partitions that the group wants back. They stay the consumer's until this is dropped: before,
/// the application finishes what it has of them and stores its positions.
#[derive(Debug)]
pub struct Revocation {
    /// The partitions.
    pub places: BTreeSet<TopicPartition>,
    /// Dropped with the rest.
    _held: oneshot::Sender<()>,
}

/// A consumer; dropped, it ends without a commit and without leaving its group.
#[derive(Debug)]
pub struct Consumer {
    mailbox: Arc<Mailbox>,
}

impl Consumer {
    /// Starts a consumer on this thread's set of local tasks.
    pub fn start(
        net: impl Net,
        options: ConsumerOptions,
        assignment: Assignment,
    ) -> Result<Self, ClientError> {
        let mailbox = Arc::new(Mailbox::new(Instant::now()));
        let control = Cluster::new(net.clone(), options.client.clone());
        let data = Cluster::new(net, options.client.clone());
        let driver = Driver::new((control, data), options, assignment, Arc::clone(&mailbox))?;
        // It ends with the consumer.
        drop(task::spawn(driver.run()));
        Ok(Self { mailbox })
    }

    /// Starts a consumer on a thread of its own: it goes on whatever this thread does.
    pub fn apart(
        net: impl Net + Send,
        options: ConsumerOptions,
        assignment: Assignment,
    ) -> Result<Self, ClientError> {
        let mailbox = Arc::new(Mailbox::new(Instant::now()));
        let told = Arc::clone(&mailbox);
        let (to, made) = std::sync::mpsc::channel();
        let body = move || {
            let begun = Client::new().and_then(|client| {
                let control = Cluster::new(net.clone(), options.client.clone());
                let data = Cluster::new(net, options.client.clone());
                let driver = Driver::new((control, data), options, assignment, told)?;
                Ok((client, driver))
            });
            match begun {
                Ok((client, driver)) => {
                    // The caller that starts it waits.
                    drop(to.send(Ok(())));
                    client.run(driver.run());
                }
                Err(error) => drop(to.send(Err(error))),
            }
        };
        let thread = thread::Builder::new().name("consumer".to_owned());
        let spawned = thread.spawn(body);
        spawned.map_err(|error| ClientError::io("any", "beginning a thread", &error))?;
        made.recv().unwrap_or(Err(ClientError::Closed))?;
        Ok(Self { mailbox })
    }

    /// Returns what happened next, or [`Event::Nothing`] at the deadline.
    pub async fn next(&mut self, deadline: Instant) -> Event {
        let _here = self.mailbox.enter(Instant::now());
        loop {
            if let Some(event) = self.mailbox.take() {
                return event;
            }
            if timeout_at(deadline, self.mailbox.told()).await.is_err() {
                return self.mailbox.take().unwrap_or(Event::Nothing);
            }
        }
    }

    /// Tells that the application is done with everything before this position.
    pub fn store(&self, place: &TopicPartition, position: Position) {
        self.mailbox.store(place, position);
    }

    /// Commits what was stored, and waits for the answer.
    pub async fn commit(&self, deadline: Instant) -> Result<(), ClientError> {
        let (to, done) = oneshot::channel();
        self.mailbox.order(Order::Commit(deadline, to));
        let late = || ClientError::timed_out("the coordinator", "a commit");
        let done = timeout_at(deadline, done).await.map_err(|_| late())?;
        done.unwrap_or(Err(ClientError::Closed))
    }

    /// Goes on reading a partition somewhere else; records of it that are not taken are dropped.
    pub fn seek(&self, place: &TopicPartition, whence: Whence) {
        self.mailbox.order(Order::Seek(place.clone(), whence));
    }

    /// Stops fetching a partition, or goes on; what was fetched before still comes.
    pub fn pause(&self, place: &TopicPartition, is_paused: bool) {
        self.mailbox.order(Order::Pause(place.clone(), is_paused));
    }

    /// Returns the partitions whose last fetch, or lookup, was refused.
    pub fn refusals(&self) -> BTreeMap<TopicPartition, Refusal> {
        self.mailbox.refusals()
    }

    /// Commits what was stored, leaves the group, and ends; the error is that of the commit.
    pub async fn close(self, deadline: Instant) -> Result<(), ClientError> {
        let (to, done) = oneshot::channel();
        self.mailbox.order(Order::Close(deadline, to));
        done.await.unwrap_or(Err(ClientError::Closed))
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.mailbox.abandon();
    }
}

#[cfg(test)]
mod tests;
