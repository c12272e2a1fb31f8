//! The groups of one shard: receives requests, lets them wait if they must, and answers them.
//!
//! Each partition of `__consumer_offsets` that this shard owns has a slot with its groups and the
//! queue of records to append. A slot has one append in flight; records that arrive meanwhile form
//! the next one; records settle in the order of the log. One background task sleeps until the
//! nearest deadline of all groups.
//!
//! Invariants: a request for a partition that is loading, or not on this shard, gets an error that
//! says so; when a slot is removed, every request that waits in it is answered; no borrow lives
//! across an await; records that the log has accepted stay in flight until they are known to be
//! committed. If that takes longer than clients wait, the slot stalls: requests for changes get an
//! error to retry, reads are answered, and no member times out. A slot whose append has an unknown
//! outcome is reloaded as soon as the log accepts appends.

mod append;
mod jobs;
mod load;
mod open;
mod positions;
mod survey;
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

use super::classic::{Join, LeaveResult, Leaver, Reply, Sync, Token, join_refused, sync_refused};
use super::cluster::Cluster;
use super::consumer::GroupRefusal;
use super::groups::{Append, GroupDecision, GroupOutcome, GroupRef, Groups, Shares};
use super::metrics::Metrics;
use super::offsets::GoneTopics;
pub use super::open::{LoggedRecord, OpenTransactions};
use super::records::GroupRecord;
use super::{ClockReading, SeenCluster, partition_for};
use crate::access::Access;
use crate::lines::Lines;
use crate::options::GroupOptions;
use crate::queues::Queues;
use crate::seldom::SeldomLine;
use append::{AppendReceiver, Queue};
use positions::Committer;
pub(crate) use positions::InLine;

/// Most groups visited before other tasks have their turn.
const VISITED_AT_ONCE: usize = 512;

/// The log of `__consumer_offsets` and the cluster around it.
pub trait OffsetsLog: 'static {
    /// The cluster as groups see it.
    type View: Cluster;
    /// Returns the current state of the cluster.
    fn cluster(&self) -> Self::View;
    /// Returns the partition count of `__consumer_offsets`, or `None` while the topic does not
    /// exist.
    fn partition_count(&self) -> Option<i32>;
    /// Returns true when this shard leads the partition.
    fn owns(&self, partition: i32) -> bool;
    /// Returns the largest batch that the partition accepts, in bytes.
    fn batch_bytes_max(&self, partition: i32) -> usize;
    /// Appends records as one batch; completes when the outcome is known, however long that takes.
    fn append(
        &self,
        partition: i32,
        records: Vec<(Bytes, Option<Bytes>)>,
        now_ms: i64,
    ) -> impl Future<Output = Result<(), GroupAppendError>>;
    /// Schedules a reload of a partition whose groups are not served.
    ///
    /// The delay grows with every attempt; the reload is dropped if the partition is unloaded.
    fn serve_again(&self, partition: i32, attempt: u32);
}

/// Why records are not committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupAppendError {
    /// Records are not in the log and never will be.
    Refused(ErrorCode),
    /// The log failed, or is no longer led here: its next reader sees the outcome.
    Unknown,
}

/// The coordinator of the groups whose partitions this shard owns.
pub struct GroupCoordinator<P: Platform, L: OffsetsLog> {
    me: Weak<Self>,
    platform: P,
    options: GroupOptions,
    log: L,
    // Bounded: one for each of `offsets.topic.num.partitions`.
    slots: RefCell<BTreeMap<i32, GroupSlot>>,
    // Bounded: one for each request in flight, `queued.max.request.bytes`.
    waiting: RefCell<BTreeMap<Token, oneshot::Sender<Reply>>>,
    next_token: Cell<u64>,
    /// Distinguishes slots of one partition before and after an unload.
    next_incarnation: Cell<u64>,
    /// When the timer task wakes; `None` while no task runs.
    wakes_at: Cell<Option<Instant>>,
    wake: Rc<Notify>,
    metrics: Metrics,
    /// The bytes that this shard last added to the gauge.
    counted_bytes: Cell<i64>,
    /// The bytes that each address pays for, over all partitions of the shard.
    shares: Rc<Shares>,
    /// How often in a row serving a partition's groups has failed; a completed load resets the
    /// count.
    // Bounded: one for each of `offsets.topic.num.partitions`.
    failures: RefCell<BTreeMap<i32, u32>>,
    /// Jobs that wait for their turn on another thread.
    elsewhere: Queues<StrBytes>,
    /// Limits the log lines about refused records: clients repeat requests that are too large for
    /// the log.
    unwritten: SeldomLine,
    /// Commits that are checked in pieces, and the commits behind them, by group and network.
    lines: Lines<Committer>,
}

struct GroupSlot {
    phase: GroupSlotPhase,
    /// True while the outcome of an append is unknown for longer than clients wait.
    stalled: bool,
    groups: Groups,
    queue: Queue,
    incarnation: u64,
    /// While loading: number of records of unknown types (share groups, streams groups).
    foreign: u64,
    /// While loading: the offset of the last record of each key.
    // Bounded: while loading, one for each key in the log, whose sizes
    // `groups::weight::check_growth` admitted.
    positions: BTreeMap<Bytes, Offset>,
    /// While loading, after all records are read: the last group built from them, and the outcome
    /// so far.
    made: (Option<StrBytes>, GroupOutcome),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum GroupSlotPhase {
    Loading,
    Active,
    /// Its log failed or is unreadable, or a record cannot be decoded.
    Failed,
}

impl<P: Platform, L: OffsetsLog> GroupCoordinator<P, L> {
    /// Creates a coordinator without groups.
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
            unwritten: SeldomLine::default(),
            lines: Lines::default(),
        })
    }

    /// Returns the options from the start.
    pub fn options(&self) -> &GroupOptions {
        &self.options
    }

    /// Returns 64 random bits.
    pub fn random_u64(&self) -> u64 {
        self.platform.random_u64()
    }

    /// Returns the partition of `__consumer_offsets` that holds a group.
    ///
    /// Fails while the topic does not exist; a client's search for the coordinator creates it.
    pub fn partition_of(&self, group: &str) -> Result<i32, ErrorCode> {
        let count = self
            .log
            .partition_count()
            .ok_or(ErrorCode::NotCoordinator)?;
        Ok(partition_for(group, count))
    }

    /// Joins a group, for a client that may do what `access` says; waits for the rebalance.
    pub(crate) async fn join(
        &self,
        group: &StrBytes,
        join: Join,
        access: &Access,
    ) -> JoinGroupResponse {
        let cluster = self.log.cluster();
        let cluster = SeenCluster::by(access, &cluster);
        let waited = self.wait_for(group, |groups, token, now| {
            groups.join(group, join, token, now, &cluster)
        });
        match waited.await {
            Ok(Reply::Join(response)) => response,
            Ok(Reply::Sync(_)) => unreachable!("who joins is answered as such"),
            // As in Kafka, a coordinator that does not serve the group names no member.
            Err(error) => join_refused(StrBytes::default(), error),
        }
    }

    /// Waits for a member's assignment.
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

    /// Handles a heartbeat.
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

    /// Removes members; answers when the resulting records are in the log.
    pub async fn leave(
        &self,
        group: &StrBytes,
        leavers: &[Leaver],
    ) -> Result<Vec<LeaveResult>, ErrorCode> {
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

    /// Decides on a request of the new protocol.
    ///
    /// Answers when the resulting records, and those that the decision is based on, are in the log.
    pub async fn decide_and_write<R>(
        &self,
        group: &StrBytes,
        decide: impl FnOnce(
            &mut Groups,
            (ClockReading, &dyn Cluster),
        ) -> Result<GroupDecision<R>, GroupRefusal>,
    ) -> Result<R, GroupRefusal> {
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

    /// Reads the groups of one partition and the cluster.
    pub fn look<R>(
        &self,
        group: &str,
        look: impl FnOnce(&Groups, &dyn Cluster) -> R,
    ) -> Result<R, ErrorCode> {
        let cluster = self.log.cluster();
        Ok(self.active(group, |groups, _| look(groups, &cluster))?.1)
    }

    /// Reads the groups of one partition.
    pub fn read<R>(&self, group: &str, look: impl FnOnce(&Groups) -> R) -> Result<R, ErrorCode> {
        Ok(self.active(group, |groups, _| look(groups))?.1)
    }

    /// Decides, and answers when the resulting records are in the log.
    ///
    /// Without records it answers immediately.
    pub async fn write<R>(
        &self,
        group: &str,
        decide: impl FnOnce(&mut Groups, ClockReading) -> (Vec<GroupRecord>, R),
    ) -> Result<R, ErrorCode> {
        let (partition, (records, answer)) = self.moving(group, decide)?;
        if !records.is_empty() {
            self.append(partition, records).await?;
        }
        Ok(answer)
    }

    /// Decides; the caller writes the resulting records.
    pub fn decide<R>(
        &self,
        group: &str,
        decide: impl FnOnce(&mut Groups, ClockReading) -> R,
    ) -> Result<R, ErrorCode> {
        Ok(self.moving(group, decide)?.1)
    }

    /// Visits the groups of every partition on this shard, a few at a time.
    ///
    /// Fails while a partition is loading. Groups that are added or removed meanwhile may or may
    /// not be visited.
    pub async fn visit_all(
        &self,
        mut look: impl FnMut(&StrBytes, GroupRef<'_>),
    ) -> Result<(), ErrorCode> {
        let partitions: Vec<i32> = self.slots.borrow().keys().copied().collect();
        for partition in partitions {
            let mut after = None;
            loop {
                {
                    let slots = self.slots.borrow();
                    if slots
                        .values()
                        .any(|slot| slot.phase == GroupSlotPhase::Loading)
                    {
                        return Err(ErrorCode::CoordinatorLoadInProgress);
                    }
                    let slot = slots.get(&partition);
                    let Some(slot) = slot.filter(|slot| slot.phase == GroupSlotPhase::Active)
                    else {
                        break;
                    };
                    after = slot
                        .groups
                        .visit(after.as_ref(), VISITED_AT_ONCE, &mut look);
                }
                // Many partitions with few groups are long work, too.
                yield_now().await;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Deletes the offsets of deleted topics, a few groups at a time; does not wait.
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

    /// Does this for some groups after `after`; returns the last of them if there may be more.
    fn forget_topics(
        &self,
        (partition, incarnation): (i32, u64),
        gone: &GoneTopics,
        after: Option<&StrBytes>,
    ) -> Option<StrBytes> {
        let looked = self.slot(partition, incarnation, |slot| {
            let active = slot.phase == GroupSlotPhase::Active;
            active.then(|| slot.groups.topics_deleted(gone, after, VISITED_AT_ONCE))
        });
        let (lost, after) = looked.flatten()?;
        for records in lost {
            self.enqueue(partition, Append::of(records), AppendReceiver::Nobody);
        }
        after
    }

    fn now(&self) -> ClockReading {
        let clock = self.platform.clock();
        let reading = clock.reading();
        ClockReading {
            at: clock.now(),
            wall_ms: reading.wall_ms,
            step_ms: reading.step_ms(),
        }
    }

    /// Runs `decide` on the groups of `group`'s partition, if they are on this shard and loaded.
    fn active<R>(
        &self,
        group: &str,
        decide: impl FnOnce(&mut Groups, ClockReading) -> R,
    ) -> Result<(i32, R), ErrorCode> {
        let partition = self.partition_of(group)?;
        Ok((partition, self.active_in(partition, decide)?))
    }

    fn active_in<R>(
        &self,
        partition: i32,
        decide: impl FnOnce(&mut Groups, ClockReading) -> R,
    ) -> Result<R, ErrorCode> {
        let now = self.now();
        let mut slots = self.slots.borrow_mut();
        let slot = slots.get_mut(&partition).ok_or(ErrorCode::NotCoordinator)?;
        match slot.phase {
            GroupSlotPhase::Loading => Err(ErrorCode::CoordinatorLoadInProgress),
            GroupSlotPhase::Active if self.log.owns(partition) => Ok(decide(&mut slot.groups, now)),
            GroupSlotPhase::Active | GroupSlotPhase::Failed => Err(ErrorCode::NotCoordinator),
        }
    }

    /// As [`Self::active`], for requests that may change a group: refused while the slot is
    /// stalled.
    fn moving<R>(
        &self,
        group: &str,
        decide: impl FnOnce(&mut Groups, ClockReading) -> R,
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
        decide: impl FnOnce(&mut Groups, Token, ClockReading) -> GroupOutcome,
    ) -> Result<Reply, ErrorCode> {
        let token = Token(self.next_token.get());
        self.next_token.set(token.0 + 1);
        let (partition, outcome) = self.moving(group, |groups, now| decide(groups, token, now))?;
        let (sender, receiver) = oneshot::channel();
        self.waiting.borrow_mut().insert(token, sender);
        self.carry_out(partition, outcome);
        receiver.await.map_err(|_| ErrorCode::NotCoordinator)
    }

    /// Sends the answers, queues the appends, begins the jobs and sets the timer.
    fn carry_out(&self, partition: i32, outcome: GroupOutcome) {
        self.tell(outcome.replies);
        for append in outcome.appends {
            self.enqueue(partition, append, AppendReceiver::Nobody);
        }
        self.begin_jobs(partition);
        self.rearm();
    }

    fn tell(&self, replies: Vec<(Token, Reply)>) {
        for (token, reply) in replies {
            let waiting = self.waiting.borrow_mut().remove(&token);
            if let Some(sender) = waiting {
                // A closed receiver belongs to a client that no longer waits.
                let _ = sender.send(reply);
            }
        }
    }

    fn enqueue(&self, partition: i32, append: Append, done: AppendReceiver) {
        let now = self.now();
        let mut slots = self.slots.borrow_mut();
        // Without a slot the sender is dropped, and its receiver gets an error.
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

/// Converts an error of the coordinator itself to a refusal.
fn told(error: ErrorCode) -> GroupRefusal {
    GroupRefusal::new(error, error.to_string())
}

#[cfg(test)]
mod tests;
