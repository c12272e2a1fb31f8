//! The groups of one shard: requests come in, wait if they must, and are answered.
//!
//! Per partition of `__consumer_offsets` that this shard owns there is a slot: its groups, and the
//! queue of what is to be appended. One append of a slot is in flight at a time, the next gathers
//! what comes meanwhile; records settle in the order of the log. One background task sleeps until
//! the nearest deadline of all groups. Invariants: a request for a partition that is being loaded
//! is told so, for one that is not here as well; when a slot goes, everybody who waits in it is
//! told; no borrow lives across an await; what the log has taken stays in flight until it is known to
//! be committed. While that takes longer than clients wait, the slot stands still: who asks for a
//! change is told to come back, who only asks is answered, and no member's time runs out. A slot of
//! which nobody knows what the log has is loaded anew, when the log takes appends.

mod append;
mod jobs;
mod load;
mod open;
mod positions;
mod timer;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::{Rc, Weak};

use bytes::Bytes;
use platform::Platform;
use platform::clock::Instant;
use platform::sync::{Notify, oneshot};
use platform::task::{spawn, yield_now};
use wire::messages::{JoinGroupResponse, SyncGroupResponse};
use wire::protocol::StrBytes;
use wire::types::{ErrorCode, Offset};

use super::classic::{Departed, Join, Leaver, Reply, Sync, Token, join_refused, sync_refused};
use super::cluster::Cluster;
use super::consumer::Refused;
use super::groups::{Append, Decided, Groups, Kind, Outcome, Shares};
use super::metrics::Metrics;
use super::offsets::GoneTopics;
pub use super::open::{OpenTransactions, Written};
use super::records::GroupRecord;
use super::{Now, partition_for};
use crate::lines::Lines;
use crate::options::GroupOptions;
use crate::queues::Queues;
use crate::seldom::Seldom;
use append::{Done, Queue};
use positions::Committer;
pub(crate) use positions::InLine;

/// Groups that are looked at before others have their turn.
const VISITED_AT_ONCE: usize = 512;

/// Where groups are written.
pub trait OffsetsLog: 'static {
    /// The cluster around the log.
    type View: Cluster;
    /// The cluster as it is now.
    fn cluster(&self) -> Self::View;
    /// How many partitions `__consumer_offsets` has; `None` while there is no such topic.
    fn partition_count(&self) -> Option<i32>;
    /// True when this shard leads the partition.
    fn owns(&self, partition: i32) -> bool;
    /// Largest batch that the partition takes.
    fn batch_bytes_max(&self, partition: i32) -> usize;
    /// Appends records as one batch. Completes when their fate is known, however long that takes.
    fn append(
        &self,
        partition: i32,
        records: Vec<(Bytes, Option<Bytes>)>,
        now_ms: i64,
    ) -> impl Future<Output = Result<(), Unwritten>>;
    /// The groups of a partition are not served: has them loaded anew in a while, longer with every attempt, unless the
    /// partition goes.
    fn serve_again(&self, partition: i32, attempt: u32);
}

/// Why records are not committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unwritten {
    /// They are not in the log, and will not be.
    Refused(ErrorCode),
    /// The log failed for good, or is not led here any more: its next reader will see.
    Unknown,
}

/// The groups whose partition this shard owns.
pub struct GroupCoordinator<P: Platform, L: OffsetsLog> {
    me: Weak<Self>,
    platform: P,
    options: GroupOptions,
    log: L,
    // Bounded: one for each of `offsets.topic.num.partitions`.
    slots: RefCell<BTreeMap<i32, Slot>>,
    // Bounded: one for each request in flight, `queued.max.request.bytes`.
    waiting: RefCell<BTreeMap<Token, oneshot::Sender<Reply>>>,
    next_token: Cell<u64>,
    /// Tells slots of one partition, before and after an unload, apart.
    next_incarnation: Cell<u64>,
    /// When the timer task wakes; `None` while it does not run.
    wakes_at: Cell<Option<Instant>>,
    wake: Rc<Notify>,
    metrics: Metrics,
    /// What this shard last added to the gauge of bytes.
    counted_bytes: Cell<i64>,
    /// What addresses pay for, of the groups of all its partitions.
    shares: Rc<Shares>,
    /// How often in a row the groups of a partition could not be served.
    // Bounded: one for each of `offsets.topic.num.partitions`.
    failures: RefCell<BTreeMap<i32, u32>>,
    /// Who waits for a job to be done elsewhere.
    elsewhere: Queues<StrBytes>,
    /// Records that the log refused, as it does what is too large for it: clients come again.
    unwritten: Seldom,
    /// Commits that rest while they are looked through, and those behind them, by group and by whose they are.
    lines: Lines<Committer>,
}

struct Slot {
    phase: Phase,
    /// Nobody knows yet whether what was appended is committed, and for longer than clients wait.
    stalled: bool,
    groups: Groups,
    queue: Queue,
    incarnation: u64,
    /// While loading: how many records are of types that are not ours (share groups, streams groups).
    foreign: u64,
    /// While loading: where the last record of each key was.
    // Bounded: while loading, one for each key that the log holds, whose sizes `groups::weight::check_growth` let in.
    positions: BTreeMap<Bytes, Offset>,
    /// While loading, once all records are there: behind which group the next is made from them, and what came of those
    /// before.
    made: (Option<StrBytes>, Outcome),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Loading,
    Active,
    /// Its log failed, cannot be read, or holds something that cannot be understood.
    Failed,
}

impl<P: Platform, L: OffsetsLog> GroupCoordinator<P, L> {
    /// A coordinator without groups.
    pub fn new(platform: P, options: GroupOptions, log: L, metrics: Metrics) -> Rc<Self> {
        Rc::new_cyclic(|me| Self {
            me: me.clone(),
            platform,
            options,
            log,
            slots: RefCell::default(),
            waiting: RefCell::default(),
            next_token: Cell::new(0),
            next_incarnation: Cell::new(0),
            wakes_at: Cell::new(None),
            wake: Rc::default(),
            metrics,
            counted_bytes: Cell::new(0),
            shares: Rc::default(),
            failures: RefCell::default(),
            elsewhere: Queues::new(1),
            unwritten: Seldom::default(),
            lines: Lines::default(),
        })
    }

    /// What it was told at start.
    pub fn options(&self) -> &GroupOptions {
        &self.options
    }

    /// Sixty-four random bits.
    pub fn random_u64(&self) -> u64 {
        self.platform.random_u64()
    }

    /// The partition of `__consumer_offsets` that holds a group. Nobody's, while there is no such topic: whoever looks for
    /// the coordinator then has it made.
    pub fn partition_of(&self, group: &str) -> Result<i32, ErrorCode> {
        let count = self
            .log
            .partition_count()
            .ok_or(ErrorCode::NotCoordinator)?;
        Ok(partition_for(group, count))
    }

    /// Joins a group; waits for the rebalance.
    pub async fn join(&self, group: &StrBytes, join: Join) -> JoinGroupResponse {
        let id = join.member_id.clone();
        let cluster = self.log.cluster();
        let waited = self.wait_for(group, |groups, token, now| {
            groups.join(group, join, token, now, &cluster)
        });
        match waited.await {
            Ok(Reply::Join(response)) => response,
            Ok(Reply::Sync(_)) => unreachable!("who joins is answered as such"),
            Err(error) => join_refused(id, error),
        }
    }

    /// Waits for an assignment.
    pub async fn sync(&self, group: &StrBytes, sync: Sync) -> SyncGroupResponse {
        let cluster = self.log.cluster();
        let waited = self.wait_for(group, |groups, token, now| {
            groups.sync(group, sync, token, now, &cluster)
        });
        match waited.await {
            Ok(Reply::Sync(response)) => response,
            Ok(Reply::Join(_)) => unreachable!("who syncs is answered as such"),
            Err(error) => sync_refused(error),
        }
    }

    /// Keeps a member alive.
    pub fn heartbeat(
        &self,
        group: &StrBytes,
        member: &StrBytes,
        instance: Option<&StrBytes>,
        generation: i32,
    ) -> Result<(), ErrorCode> {
        let cluster = self.log.cluster();
        let beat = |groups: &mut Groups, now| {
            groups.heartbeat(group, member, instance, generation, (now, &cluster))
        };
        let (_, answer) = self.active(group, beat)?;
        self.rearm();
        answer
    }

    /// Removes members. The answer waits until what follows is in the log.
    pub async fn leave(
        &self,
        group: &StrBytes,
        leavers: &[Leaver],
    ) -> Result<Vec<Departed>, ErrorCode> {
        let cluster = self.log.cluster();
        let leave = |groups: &mut Groups, now| groups.leave(group, leavers, now, &cluster);
        let (partition, (departed, outcome)) = self.moving(group, leave)?;
        let writes = !outcome.appends.is_empty();
        self.carry_out(partition, outcome);
        if writes {
            self.append(partition, Vec::new()).await?;
        }
        Ok(departed)
    }

    /// Decides on a request of the new protocol, and answers when what was decided, and what that
    /// rests on, is in the log.
    pub async fn decide_and_write<R>(
        &self,
        group: &StrBytes,
        decide: impl FnOnce(&mut Groups, (Now, &dyn Cluster)) -> Result<Decided<R>, Refused>,
    ) -> Result<R, Refused> {
        let cluster = self.log.cluster();
        let decided = self.moving(group, |groups, now| decide(groups, (now, &cluster)));
        let (partition, decided) = decided.map_err(told)?;
        let (records, answer, outcome) = decided?;
        let waits = !records.is_empty() || self.has_queue(partition);
        let written = waits.then(|| self.begin_append(partition, records));
        self.carry_out(partition, outcome);
        if let Some(written) = written {
            let written = written.await.unwrap_or(Err(ErrorCode::NotCoordinator));
            written.map_err(told)?;
        }
        Ok(answer)
    }

    /// Looks at the groups of one partition and at the cluster.
    pub fn look<R>(
        &self,
        group: &str,
        look: impl FnOnce(&Groups, &dyn Cluster) -> R,
    ) -> Result<R, ErrorCode> {
        let cluster = self.log.cluster();
        Ok(self.active(group, |groups, _| look(groups, &cluster))?.1)
    }

    /// Looks at the groups of one partition.
    pub fn read<R>(&self, group: &str, look: impl FnOnce(&Groups) -> R) -> Result<R, ErrorCode> {
        Ok(self.active(group, |groups, _| look(groups))?.1)
    }

    /// Decides, and answers when what was decided is in the log, at once when nothing is to be
    /// written.
    pub async fn write<R>(
        &self,
        group: &str,
        decide: impl FnOnce(&mut Groups, Now) -> (Vec<GroupRecord>, R),
    ) -> Result<R, ErrorCode> {
        let (partition, (records, answer)) = self.moving(group, decide)?;
        if !records.is_empty() {
            self.append(partition, records).await?;
        }
        Ok(answer)
    }

    /// Decides, and leaves it to the caller to write what was decided.
    pub fn decide<R>(
        &self,
        group: &str,
        decide: impl FnOnce(&mut Groups, Now) -> R,
    ) -> Result<R, ErrorCode> {
        Ok(self.moving(group, decide)?.1)
    }

    /// Visits the groups of every partition that is here, some at a time; an error while one of them is being loaded.
    /// Groups that come or go meanwhile may be visited or not.
    pub async fn visit_all(
        &self,
        mut look: impl FnMut(&StrBytes, Kind<'_>),
    ) -> Result<(), ErrorCode> {
        let partitions: Vec<i32> = self.slots.borrow().keys().copied().collect();
        for partition in partitions {
            let mut after = None;
            loop {
                {
                    let slots = self.slots.borrow();
                    if slots.values().any(|slot| slot.phase == Phase::Loading) {
                        return Err(ErrorCode::CoordinatorLoadInProgress);
                    }
                    let slot = slots.get(&partition);
                    let Some(slot) = slot.filter(|slot| slot.phase == Phase::Active) else {
                        break;
                    };
                    after = slot
                        .groups
                        .visit(after.as_ref(), VISITED_AT_ONCE, &mut look);
                }
                if after.is_none() {
                    break;
                }
                yield_now().await;
            }
        }
        Ok(())
    }

    /// Forgets the offsets of topics that are gone, of some groups at a time. Does not wait.
    pub fn topics_deleted(&self, gone: GoneTopics) {
        let slots: Vec<(i32, u64)> = {
            let slots = self.slots.borrow();
            let all = slots.iter();
            all.map(|(partition, slot)| (*partition, slot.incarnation))
                .collect()
        };
        let first = slots.into_iter().map(|(partition, incarnation)| {
            let after = self.forget_topics((partition, incarnation), &gone, None);
            (partition, incarnation, after)
        });
        let left: Vec<_> = first.filter(|(.., after)| after.is_some()).collect();
        let Some(me) = self.me.upgrade().filter(|_| !left.is_empty()) else {
            return;
        };
        spawn(async move {
            for (partition, incarnation, mut after) in left {
                while after.is_some() {
                    yield_now().await;
                    after = me.forget_topics((partition, incarnation), &gone, after.as_ref());
                }
            }
        });
    }

    /// The same in some groups behind one. Gives the last of them, if there may be more.
    fn forget_topics(
        &self,
        (partition, incarnation): (i32, u64),
        gone: &GoneTopics,
        after: Option<&StrBytes>,
    ) -> Option<StrBytes> {
        let looked = self.slot(partition, incarnation, |slot| {
            let active = slot.phase == Phase::Active;
            active.then(|| slot.groups.topics_deleted(gone, after, VISITED_AT_ONCE))
        });
        let (lost, after) = looked.flatten()?;
        for records in lost {
            self.enqueue(partition, Append::of(records), Done::Nobody);
        }
        after
    }

    fn now(&self) -> Now {
        let clock = self.platform.clock();
        let reading = clock.reading();
        Now {
            at: clock.now(),
            wall_ms: reading.wall_ms,
            step_ms: reading.step_ms(),
        }
    }

    /// Runs `decide` on the groups of `group`'s partition, if they are here and loaded.
    fn active<R>(
        &self,
        group: &str,
        decide: impl FnOnce(&mut Groups, Now) -> R,
    ) -> Result<(i32, R), ErrorCode> {
        let partition = self.partition_of(group)?;
        Ok((partition, self.active_in(partition, decide)?))
    }

    fn active_in<R>(
        &self,
        partition: i32,
        decide: impl FnOnce(&mut Groups, Now) -> R,
    ) -> Result<R, ErrorCode> {
        let now = self.now();
        let mut slots = self.slots.borrow_mut();
        let slot = slots.get_mut(&partition).ok_or(ErrorCode::NotCoordinator)?;
        match slot.phase {
            Phase::Loading => Err(ErrorCode::CoordinatorLoadInProgress),
            Phase::Active if self.log.owns(partition) => Ok(decide(&mut slot.groups, now)),
            Phase::Active | Phase::Failed => Err(ErrorCode::NotCoordinator),
        }
    }

    /// As [`Self::active`], for what may lead to a change: not while the log is behind.
    fn moving<R>(
        &self,
        group: &str,
        decide: impl FnOnce(&mut Groups, Now) -> R,
    ) -> Result<(i32, R), ErrorCode> {
        let partition = self.partition_of(group)?;
        let slots = self.slots.borrow();
        if slots.get(&partition).is_some_and(|slot| slot.stalled) {
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        let elsewhere = slots.iter().filter(|(other, _)| **other != partition);
        let elsewhere = elsewhere.fold(0, |all: usize, (_, slot)| {
            all.saturating_add(slot.groups.bytes())
        });
        drop(slots);
        self.active(group, |groups, now| {
            groups.bytes_elsewhere = elsewhere;
            groups.asker = None;
            decide(groups, now)
        })
    }

    async fn wait_for(
        &self,
        group: &StrBytes,
        decide: impl FnOnce(&mut Groups, Token, Now) -> Outcome,
    ) -> Result<Reply, ErrorCode> {
        let token = Token(self.next_token.get());
        self.next_token.set(token.0 + 1);
        let (partition, outcome) = self.moving(group, |groups, now| decide(groups, token, now))?;
        let (sender, receiver) = oneshot::channel();
        self.waiting.borrow_mut().insert(token, sender);
        self.carry_out(partition, outcome);
        receiver.await.map_err(|_| ErrorCode::NotCoordinator)
    }

    /// Sends the answers, queues the appends, sees to the timer.
    fn carry_out(&self, partition: i32, outcome: Outcome) {
        self.tell(outcome.replies);
        for append in outcome.appends {
            self.enqueue(partition, append, Done::Nobody);
        }
        self.begin_jobs(partition);
        self.rearm();
    }

    fn tell(&self, replies: Vec<(Token, Reply)>) {
        for (token, reply) in replies {
            let waiting = self.waiting.borrow_mut().remove(&token);
            if let Some(sender) = waiting {
                // Whoever has hung up does not want the answer.
                let _ = sender.send(reply);
            }
        }
    }

    fn enqueue(&self, partition: i32, append: Append, done: Done) {
        let now = self.now();
        let mut slots = self.slots.borrow_mut();
        // Without a slot the sender is dropped, which is an answer.
        let Some(slot) = slots.get_mut(&partition) else {
            return;
        };
        let sequence = slot.queue.push(append, done);
        let Some(append) = slot.queue.last() else {
            unreachable!("it was queued just now");
        };
        slot.groups.stage(sequence, &append.records, now);
        if slot.queue.begin_writing() {
            let incarnation = slot.incarnation;
            drop(slots);
            if let Some(me) = self.me.upgrade() {
                spawn(me.write_queue(partition, incarnation));
            }
        }
    }
}

/// An error of the coordinator itself.
fn told(error: ErrorCode) -> Refused {
    Refused::new(error, error.to_string())
}

#[cfg(test)]
mod tests;
