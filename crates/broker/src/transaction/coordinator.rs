//! The transactional ids of one shard: decides on requests, writes the decisions, and answers.
//!
//! Each partition of `__transaction_state` that this shard leads has a slot. Every change runs to
//! its end in a task of its own, even if the client disconnects. Invariants: a request for a
//! partition that is loading, or not on this shard, gets an error that says so; no borrow lives
//! across an await; a slot whose log failed serves nothing until the log is read again, because its
//! content is unknown: that happens as soon as the log accepts appends (`coordinator/revive.rs`).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::{Rc, Weak};

use platform::Platform;
use platform::clock::Instant;
use wire::acl::{Operation, ResourceType};
use wire::types::{ErrorCode, LeaderEpoch, ProducerId};

use super::log::{self, TransactionAppendError};
use super::machine::{Add, Begin, End, EndRequest, Transaction};
use super::markers;
use super::metrics::{StateBound, TransactionEnd};
use super::payers::{PaidBytes, Payers};
use super::state::{Entry, PartitionName, TransactionState};
use super::weight::{self, IDS_MAX, Ids};
use crate::Broker;
use crate::access::Access;
use crate::group::partition_for;
use crate::metrics::lately::RecentDurations;
use crate::names::{TRANSACTION_VERSION, TRANSACTIONS_TOPIC};
use crate::partition::Partition;
use crate::producer_ids;

mod idle;
mod loading;
mod revive;
mod shown;
mod survey;

/// The producer id and epoch of a producer.
pub(crate) type Identity = (ProducerId, i16);

/// The coordinator of the transactional ids whose partition this shard leads.
pub(crate) struct TransactionCoordinator<P: Platform> {
    broker: Weak<Broker<P>>,
    // Bounded: one for each of `transaction.state.log.num.partitions`.
    slots: RefCell<BTreeMap<i32, TransactionSlot>>,
    next_incarnation: Cell<u64>,
    /// The number of failed partitions that this shard last added to the gauge.
    counted_failed: Cell<i64>,
    /// The bytes that this shard last added to the gauge.
    counted_bytes: Cell<i64>,
    /// The bytes that each address pays for, over all partitions of the shard.
    payers: Rc<Payers>,
    /// How long partitions took to load, lately.
    loads: RefCell<RecentDurations>,
    /// How long commits took from the decision in the log to their completion there, lately.
    commits: RefCell<RecentDurations>,
    /// When the coordinator was created: transaction timeouts count uptime from here.
    born: Instant,
}

struct TransactionSlot {
    phase: TransactionSlotPhase,
    /// Distinguishes slots of one partition.
    incarnation: u64,
    /// How often its load or its log has failed since it was last active.
    failures: u32,
    /// True while a task removes unused ids.
    is_swept: bool,
    by_id: Ids,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TransactionSlotPhase {
    Loading,
    Active,
    /// Its log failed, or a record cannot be decoded.
    Failed,
}

/// Ids of a partition that are removed concurrently.
const FORGOTTEN_AT_ONCE: usize = 32;

/// A change to write, and its place.
struct Change {
    partition: i32,
    incarnation: u64,
    id: String,
    /// True if it fences a producer.
    fences: bool,
}

/// Returns the most bytes of the ids of a shard: half of those of groups.
fn bytes_max<P: Platform>(broker: &Broker<P>) -> usize {
    broker.options.group.state_bytes_max / 2
}

impl<P: Platform> TransactionCoordinator<P> {
    /// Creates a coordinator without ids.
    pub(crate) fn new(broker: Weak<Broker<P>>) -> Rc<Self> {
        let now = Instant::now();
        Rc::new(Self {
            broker,
            slots: RefCell::default(),
            next_incarnation: Cell::new(0),
            counted_failed: Cell::new(0),
            counted_bytes: Cell::new(0),
            payers: Rc::default(),
            loads: RefCell::new(RecentDurations::since(now)),
            commits: RefCell::new(RecentDurations::since(now)),
            born: now,
        })
    }

    pub(super) fn broker(&self) -> Result<Rc<Broker<P>>, ErrorCode> {
        self.broker.upgrade().ok_or(ErrorCode::NotCoordinator)
    }

    /// Returns the partition of `__transaction_state` that holds an id.
    pub(super) fn partition_of(&self, id: &str) -> Result<i32, ErrorCode> {
        let image = self.broker()?.image();
        let topic = image.topic_by_name(TRANSACTIONS_TOPIC);
        let topic = topic.ok_or(ErrorCode::CoordinatorNotAvailable)?;
        let count = topic.partition_count();
        Ok(partition_for(id, count))
    }

    /// Returns the partition, if this shard leads it.
    pub(super) fn led(&self, partition: i32) -> Result<Rc<Partition<P>>, ErrorCode> {
        let broker = self.broker()?;
        let topic = broker
            .image()
            .topic_by_name(TRANSACTIONS_TOPIC)
            .map(|it| it.id);
        let topic = topic.ok_or(ErrorCode::CoordinatorNotAvailable)?;
        let led = broker.led((topic, partition));
        led.map_err(|_| ErrorCode::NotCoordinator)
    }

    /// Returns the finalized transaction protocol version of the cluster.
    pub(super) fn server_version(&self) -> i16 {
        self.broker()
            .map_or(0, |broker| broker.image().feature(TRANSACTION_VERSION))
    }

    /// Returns the bytes of the ids of this shard.
    fn bytes(&self) -> usize {
        let slots = self.slots.borrow();
        let bytes = slots.values().map(|slot| slot.by_id.bytes());
        bytes.fold(0, usize::saturating_add)
    }

    fn now_ms(&self) -> i64 {
        self.broker()
            .map_or(0, |broker| broker.platform.clock().wall_ms())
    }

    /// Calls `see` with the slot of an id, which may be unknown there.
    fn look<R>(
        &self,
        id: &str,
        see: impl FnOnce(&mut TransactionSlot) -> Result<R, ErrorCode>,
    ) -> Result<(Change, R), ErrorCode> {
        let partition = self.partition_of(id)?;
        let mut slots = self.slots.borrow_mut();
        let slot = slots.get_mut(&partition).ok_or(ErrorCode::NotCoordinator)?;
        match slot.phase {
            TransactionSlotPhase::Loading => return Err(ErrorCode::CoordinatorLoadInProgress),
            TransactionSlotPhase::Failed => return Err(ErrorCode::NotCoordinator),
            TransactionSlotPhase::Active => {}
        }
        let seen = see(slot)?;
        let change = Change {
            partition,
            incarnation: slot.incarnation,
            id: id.to_owned(),
            fences: false,
        };
        Ok((change, seen))
    }

    fn look_at<R>(
        &self,
        id: &str,
        see: impl FnOnce(&mut Transaction) -> Result<R, ErrorCode>,
    ) -> Result<(Change, R), ErrorCode> {
        self.look(id, |slot| {
            let known = slot.by_id.get_mut(id);
            see(known.ok_or(ErrorCode::InvalidProducerIdMapping)?)
        })
    }

    /// Checks that ids with `all` bytes, and those of the address that pays, may grow by `growth`.
    fn check_growth(
        &self,
        broker: &Broker<P>,
        (all, payer): (usize, Option<IpAddr>),
        growth: usize,
    ) -> Result<(), ErrorCode> {
        let (bytes_max, metrics) = (bytes_max(broker), &broker.metrics.transactions);
        let checked = weight::check_growth(all, growth, bytes_max);
        checked.inspect_err(|_| metrics.refused(StateBound::All))?;
        let Some(payer) = payer else { return Ok(()) };
        let checked = self.payers.check_growth(payer, growth, bytes_max);
        checked.inspect_err(|_| metrics.refused(StateBound::OfAddress))
    }

    /// Checks that there is room for an id, unless it is there.
    fn check_new(
        &self,
        broker: &Broker<P>,
        of: (usize, Option<IpAddr>),
        (slot, id): (&TransactionSlot, &str),
    ) -> Result<(), ErrorCode> {
        if slot.by_id.get(id).is_some() {
            return Ok(());
        }
        if slot.by_id.len() >= IDS_MAX {
            return Err(ErrorCode::PolicyViolation);
        }
        self.check_growth(broker, of, weight::bytes_of_new(id))
    }

    /// Handles `InitProducerId`: gives a producer its identity and fences the previous producer of
    /// the id. The address pays for an id that is new.
    pub(crate) async fn begin(
        self: Rc<Self>,
        (payer, access): (IpAddr, Access),
        id: String,
        timeout_ms: i32,
        expected: Option<Identity>,
    ) -> Result<Identity, ErrorCode> {
        let broker = self.broker()?;
        let longest = broker.options.transaction.timeout_max;
        let longest = i32::try_from(longest.as_millis()).unwrap_or(i32::MAX);
        if timeout_ms <= 0 || timeout_ms > longest {
            return Err(ErrorCode::InvalidTransactionTimeout);
        }
        let of = (self.bytes(), Some(payer));
        let (_, needs_id) = self.look(&id, |slot| {
            self.check_new(&broker, of, (&*slot, id.as_str()))?;
            let known = slot.by_id.get(&id);
            Ok(known.is_none_or(|it| it.entry().is_exhausted()))
        })?;
        let fresh = if needs_id {
            Some(producer_ids::next(&broker).await?)
        } else {
            None
        };
        if access.has_lost(
            &broker,
            Operation::Write,
            ResourceType::TransactionalId,
            &id,
        ) {
            return Err(ErrorCode::TransactionalIdAuthorizationFailed);
        }
        let now_ms = self.now_ms();
        // Other ids may have come while this one waited for a producer id.
        let of = (self.bytes(), Some(payer));
        let (change, begin) = self.look(&id, |slot| {
            self.check_new(&broker, of, (&*slot, id.as_str()))?;
            if slot.by_id.get(&id).is_none() {
                let fresh = fresh.ok_or(ErrorCode::ConcurrentTransactions)?;
                let unused = Transaction::unused(fresh, timeout_ms, now_ms);
                let paid = self.payers.pay(payer);
                slot.by_id.insert_for(Some(paid), id.clone(), unused);
            }
            let known = slot.by_id.get_mut(&id).ok_or(ErrorCode::NotCoordinator)?;
            known.begin(timeout_ms, expected, fresh, now_ms)
        })?;
        match begin {
            Begin::Store(entry) => {
                let identity = (entry.producer_id, entry.epoch);
                self.store(&change, entry).await?;
                Ok(identity)
            }
            Begin::Abort(entry) => {
                let fences = true;
                let change = Change { fences, ..change };
                self.decide(change, entry, TransactionEnd::Fenced).await?;
                Err(ErrorCode::ConcurrentTransactions)
            }
        }
    }

    /// Adds partitions to a transaction.
    pub(crate) async fn add(
        self: Rc<Self>,
        id: String,
        producer: Identity,
        partitions: Vec<PartitionName>,
        client_version: i16,
    ) -> Result<(), ErrorCode> {
        let now_ms = self.now_ms();
        let (all, broker) = (self.bytes(), self.broker()?);
        let (change, add) = self.look(&id, |slot| {
            let known = slot.by_id.get(&id);
            let known = known.ok_or(ErrorCode::InvalidProducerIdMapping)?;
            let growth = weight::growth_by(known.entry(), &partitions);
            let payer = slot.by_id.paid(&id).map(PaidBytes::payer);
            self.check_growth(&broker, (all, payer), growth)?;
            let known = slot.by_id.get_mut(&id);
            let transaction = known.ok_or(ErrorCode::InvalidProducerIdMapping)?;
            transaction.add(producer, &partitions, client_version, now_ms)
        })?;
        match add {
            Add::Already => Ok(()),
            Add::Store(entry) => self.store(&change, entry).await,
        }
    }

    /// Returns for each partition whether it is in the transaction.
    pub(crate) fn verify(
        &self,
        id: &str,
        producer: Identity,
        partitions: &[PartitionName],
    ) -> Result<Vec<Result<(), ErrorCode>>, ErrorCode> {
        let verified = self.look_at(id, |transaction| {
            let each = partitions.iter().map(|it| transaction.verify(producer, it));
            Ok(each.collect())
        });
        verified.map(|(_, answers)| answers)
    }

    /// Commits or aborts; answers when the decision is in the log, with the identity for the next
    /// transaction.
    pub(crate) async fn end(
        self: Rc<Self>,
        id: String,
        request: EndRequest,
    ) -> Result<Identity, ErrorCode> {
        let (_, exhausted) = self.look_at(&id, |it| Ok(it.entry().is_exhausted()))?;
        let fresh = if exhausted {
            Some(producer_ids::next(&self.broker()?).await?)
        } else {
            None
        };
        let now_ms = self.now_ms();
        let request = EndRequest { fresh, ..request };
        let (change, end) = self.look_at(&id, |it| it.end(request, now_ms))?;
        match end {
            End::Already { producer_id, epoch } => Ok((producer_id, epoch)),
            End::Store(entry) => {
                let identity = if entry.next_producer_id == ProducerId::NONE {
                    (entry.producer_id, entry.epoch)
                } else {
                    (entry.next_producer_id, 0)
                };
                let end = if entry.state == TransactionState::PrepareCommit {
                    TransactionEnd::Committed
                } else {
                    TransactionEnd::Aborted
                };
                self.decide(change, entry, end).await?;
                Ok(identity)
            }
        }
    }

    /// Writes a decision and begins to carry it out.
    async fn decide(
        self: &Rc<Self>,
        change: Change,
        entry: Entry,
        end: TransactionEnd,
    ) -> Result<(), ErrorCode> {
        self.store(&change, entry).await?;
        self.count_end(end);
        let Change {
            partition,
            incarnation,
            id,
            ..
        } = change;
        let carried_out = markers::carry_out(Rc::clone(self), partition, incarnation, id);
        platform::task::spawn(carried_out);
        Ok(())
    }

    /// Writes a change and settles it.
    async fn store(self: &Rc<Self>, change: &Change, entry: Entry) -> Result<(), ErrorCode> {
        let level = self.server_version();
        let written = match (self.broker(), self.led(change.partition)) {
            (Ok(broker), Ok(partition)) => {
                let record = entry.record(&change.id, level);
                log::append(&broker, &partition, record).await
            }
            _ => Err(TransactionAppendError::Refused(ErrorCode::NotCoordinator)),
        };
        let mut slots = self.slots.borrow_mut();
        let slot = slots.get_mut(&change.partition);
        let slot = slot.filter(|slot| slot.incarnation == change.incarnation);
        let slot = slot.ok_or(ErrorCode::NotCoordinator)?;
        match written {
            Ok(()) => {
                slot.by_id.settle(&change.id, Some(entry));
                Ok(())
            }
            Err(TransactionAppendError::Refused(code)) => {
                slot.by_id.settle(&change.id, None);
                if let Some(known) = slot.by_id.get_mut(&change.id) {
                    if change.fences && entry.epoch > known.entry().epoch {
                        known.fencing_failed(entry.epoch);
                    }
                    if known.is_unwritten() {
                        slot.by_id.remove(&change.id);
                    }
                }
                Err(code)
            }
            Err(TransactionAppendError::Unknown) => {
                drop(slots);
                self.fail(change.partition, change.incarnation);
                Err(ErrorCode::NotCoordinator)
            }
        }
    }

    /// Returns the entry of a decision that is still to be carried out.
    pub(super) fn decided(&self, partition: i32, incarnation: u64, id: &str) -> Option<Entry> {
        let slots = self.slots.borrow();
        let slot = slots.get(&partition)?;
        let active = slot.incarnation == incarnation && slot.phase == TransactionSlotPhase::Active;
        let entry = slot.by_id.get(id).filter(|_| active)?.entry();
        entry.state.is_prepared().then(|| entry.clone())
    }

    /// Writes that a decision has been carried out; returns false if that failed and has to be
    /// retried.
    pub(super) async fn complete(
        self: &Rc<Self>,
        partition: i32,
        incarnation: u64,
        id: &str,
    ) -> bool {
        let now_ms = self.now_ms();
        let completed = self.look_at(id, |it| {
            it.complete(now_ms).ok_or(ErrorCode::InvalidTxnState)
        });
        match completed {
            Ok((change, entry)) if change.incarnation == incarnation => {
                assert_eq!(change.partition, partition, "an id stays in its partition");
                self.store(&change, entry).await.is_ok()
            }
            _ => false,
        }
    }

    /// Returns the entry of an id.
    pub(crate) fn describe(&self, id: &str) -> Result<Entry, ErrorCode> {
        let (_, entry) = self.look(id, |slot| {
            let known = slot.by_id.get(id).filter(|it| !it.is_unwritten());
            known
                .map(|it| it.entry().clone())
                .ok_or(ErrorCode::TransactionalIdNotFound)
        })?;
        Ok(entry)
    }

    /// Returns the coordinator epoch of markers: the leader epoch of the id's partition.
    pub(super) fn epoch(&self, partition: i32) -> Result<LeaderEpoch, ErrorCode> {
        Ok(self.led(partition)?.leader_epoch())
    }
}
