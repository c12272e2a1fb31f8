//! Messages between shards: a shard runs a closure with another shard's broker and waits for its
//! result.
//!
//! Invariants: tasks from one shard to another begin in the order in which they were sent (each is
//! polled first in that order, which keeps the order of appends made before the first wait). A
//! caller that goes away abandons the answer, not the task, unless it uses
//! [`Shards::call_abandoned`]. The channels are unbounded, but their length is not: every task is
//! sent by a request that holds a permit of the connection's byte budget, or by one of a fixed set
//! of background loops.

use std::cell::{Cell, OnceCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use platform::sync::{mpsc, oneshot};
use wire::types::TopicId;

use crate::Broker;
use crate::changes::{Changes, Counts};

/// Number of a shard, from 0.
pub type ShardIndex = usize;

type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;
type Task<P> = Box<dyn FnOnce(Rc<Broker<P>>) -> LocalFuture + Send>;

/// The shards of this process, as seen from one of them.
pub struct Shards<P: platform::Platform> {
    me: ShardIndex,
    // Bounded: tasks of requests in flight, `queued.max.request.bytes`.
    peers: Vec<mpsc::UnboundedSender<Task<P>>>,
    local: OnceCell<Weak<Broker<P>>>,
    sent: Cell<u64>,
    changes: Rc<Changes>,
}

/// The tasks that other shards have sent to this one.
pub struct Inbox<P: platform::Platform>(mpsc::UnboundedReceiver<Task<P>>);

/// The two ends of a shard's channels, made before its thread starts.
pub struct Seat<P: platform::Platform> {
    me: ShardIndex,
    // Bounded: tasks of requests in flight, `queued.max.request.bytes`.
    peers: Vec<mpsc::UnboundedSender<Task<P>>>,
    inbox: mpsc::UnboundedReceiver<Task<P>>,
    counts: Vec<Arc<Counts>>,
}

/// Connects `count` shards with each other.
pub fn seats<P: platform::Platform>(count: usize) -> Vec<Seat<P>> {
    let (senders, receivers): (Vec<_>, Vec<_>) =
        (0..count.max(1)).map(|_| mpsc::unbounded_channel()).unzip();
    let counts: Vec<Arc<Counts>> = senders.iter().map(|_| Arc::default()).collect();
    let seat = |(me, inbox)| Seat {
        me,
        peers: senders.clone(),
        inbox,
        counts: counts.clone(),
    };
    receivers.into_iter().enumerate().map(seat).collect()
}

impl<P: platform::Platform> Seat<P> {
    /// Takes the seat, on the shard's own thread.
    pub fn take(self) -> (Shards<P>, Inbox<P>) {
        let Self {
            me,
            peers,
            inbox,
            counts,
        } = self;
        assert!(me < peers.len(), "a shard is one of those that there are");
        (
            Shards {
                me,
                changes: Changes::new(me, counts, word_of_changes(me, peers.clone())),
                peers,
                local: OnceCell::new(),
                sent: Cell::new(0),
            },
            Inbox(inbox),
        )
    }
}

/// Returns what sends word of a change of this shard's partitions to another.
fn word_of_changes<P: platform::Platform>(
    me: ShardIndex,
    // Bounded: a task for each question of a waiting fetch, `queued.max.request.bytes`.
    peers: Vec<mpsc::UnboundedSender<Task<P>>>,
) -> impl Fn(ShardIndex, usize) {
    move |to, place| {
        let task: Task<P> = Box::new(move |broker| {
            broker.shards.changes().wake(me, place);
            Box::pin(std::future::ready(()))
        });
        // A shard that has stopped has no fetches.
        let _ = peers[to].send(task);
    }
}

impl<P: platform::Platform> Shards<P> {
    /// Returns the index of this shard.
    pub fn me(&self) -> ShardIndex {
        self.me
    }

    /// Returns the number of shards.
    pub fn count(&self) -> usize {
        self.peers.len()
    }

    /// Returns the number of tasks that this shard has sent to others: each may wake a thread.
    pub fn sent(&self) -> u64 {
        self.sent.get()
    }

    /// Returns the shard that owns a partition.
    ///
    /// The result changes only with the number of shards, so every shard agrees.
    pub fn owner(&self, topic: TopicId, partition: i32) -> ShardIndex {
        let (high, low) = topic.0.as_u64_pair();
        let spread = (high ^ low).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let sum = spread.wrapping_add(u64::from(partition.unsigned_abs()));
        let owner = usize::try_from(sum % self.peers.len() as u64);
        owner.expect("a remainder is less than a number of shards")
    }

    /// Returns the counts of the changes of partitions.
    pub(crate) fn changes(&self) -> &Rc<Changes> {
        &self.changes
    }

    pub(crate) fn seat(&self, broker: Weak<Broker<P>>) {
        assert!(self.local.set(broker).is_ok(), "a shard has one broker");
    }

    /// Returns the sender to a shard, for one task.
    ///
    /// An unknown index is a bug; without the assert it would look like a shard that stops.
    fn peer(&self, to: ShardIndex) -> &mpsc::UnboundedSender<Task<P>> {
        assert!(to < self.peers.len(), "a shard of this process");
        self.sent.set(self.sent.get().wrapping_add(1));
        &self.peers[to]
    }

    fn local(&self) -> Option<Rc<Broker<P>>> {
        self.local.get().and_then(Weak::upgrade)
    }

    /// Runs `work` on shard `to` and returns its result, or `None` if that shard is shutting down.
    ///
    /// If `to` is this shard, the work runs in place: its first poll is the caller's first poll.
    pub async fn call<R, F, Fut>(&self, to: ShardIndex, work: F) -> Option<R>
    where
        R: Send + 'static,
        F: FnOnce(Rc<Broker<P>>) -> Fut + Send + 'static,
        Fut: Future<Output = R> + 'static,
    {
        if to == self.me {
            return Some(work(self.local()?).await);
        }
        let (answer, answered) = oneshot::channel();
        let task: Task<P> = Box::new(move |broker| {
            let work = work(broker);
            Box::pin(async move {
                // The send fails if the caller has gone away.
                let _ = answer.send(work.await);
            })
        });
        self.peer(to).send(task).ok()?;
        answered.await.ok()
    }

    /// Does the same as [`Shards::call`], but drops the work when the caller goes away.
    ///
    /// It is for work that only reads and waits, or that has tasks of its own for what must end.
    pub async fn call_abandoned<R, F, Fut>(&self, to: ShardIndex, work: F) -> Option<R>
    where
        R: Send + 'static,
        F: FnOnce(Rc<Broker<P>>) -> Fut + Send + 'static,
        Fut: Future<Output = R> + 'static,
    {
        if to == self.me {
            return Some(work(self.local()?).await);
        }
        let (mut answer, answered) = oneshot::channel();
        let task: Task<P> = Box::new(move |broker| {
            let work = work(broker);
            Box::pin(async move {
                let mut work = std::pin::pin!(work);
                let done = std::future::poll_fn(|context| match work.as_mut().poll(context) {
                    Poll::Ready(done) => Poll::Ready(Some(done)),
                    Poll::Pending => answer.poll_closed(context).map(|()| None),
                });
                if let Some(done) = done.await {
                    // The send fails if the caller has gone away.
                    let _ = answer.send(done);
                }
            })
        });
        self.peer(to).send(task).ok()?;
        answered.await.ok()
    }

    /// Runs `work` on every shard and returns the results in the order of the shards.
    pub async fn call_all<R, F, Fut>(&self, work: F) -> Vec<R>
    where
        R: Send + 'static,
        F: Fn(Rc<Broker<P>>) -> Fut + Clone + Send + 'static,
        Fut: Future<Output = R> + 'static,
    {
        let calls = (0..self.count()).map(|shard| self.call(shard, work.clone()));
        crate::join::join_all(calls)
            .await
            .into_iter()
            .flatten()
            .collect()
    }
}

impl<P: platform::Platform> Inbox<P> {
    /// Serves the other shards until they are gone.
    pub async fn serve(mut self, broker: Rc<Broker<P>>) {
        while let Some(task) = self.0.recv().await {
            broker.bulk.note_other();
            start(task(Rc::clone(&broker)));
            platform::task::rest_if_over().await;
        }
    }
}

/// Polls a future once, in place, and leaves the rest of it to the executor.
fn start(mut future: LocalFuture) {
    let mut context = Context::from_waker(Waker::noop());
    if future.as_mut().poll(&mut context).is_pending() {
        // The executor polls it again at once, which registers a real waker.
        platform::task::spawn(platform::task::sliced(future));
    }
}
