//! Transactions: which partitions and groups are in the one that is open, and how it ends.
//!
//! The protocol before KIP-890, which every broker with transactions serves: partitions are added
//! by a request before the first batch goes to them, and the epoch changes only when a transaction
//! is begun again after a failure.
//!
//! Invariant: a transaction with a record that failed cannot be committed, only aborted. After an
//! end whose fate is not known the caller may try only the same end again.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use platform::clock::Instant;
use wire::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use wire::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest,
    TopicName, TransactionalId, TxnOffsetCommitRequest,
};
use wire::types::ErrorCode;

use super::Producer;
use super::answers::text;
use super::outbox::PartitionKey;
use super::queue::Identity;
use super::sender::{INIT_VERSION, SharedProducer};
use super::state::KnownIdentity;
use crate::ask::Ask;
use crate::cluster::CoordinatorKind;
use crate::error::{ClientError, check};

/// The newest versions of the protocol before KIP-890.
const ADD_PARTITIONS_VERSION: i16 = 3;
const ADD_OFFSETS_VERSION: i16 = 3;
const END_VERSION: i16 = 4;
const OFFSET_COMMIT_VERSION: i16 = 4;

/// The member of a group whose positions a transaction stores.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupMember {
    /// The group.
    pub group: String,
    /// Its generation or the member's epoch; -1 without a member.
    pub generation: i32,
    /// The member's id; empty without one.
    pub member_id: String,
    /// The id of a static member.
    pub instance_id: Option<String>,
}

/// Where a producer is in its transactions.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
enum Phase {
    /// It has no identity yet.
    #[default]
    Unknown,
    /// None is open.
    Ready,
    /// One is open.
    Open,
    /// It ends: committed or not. The end has been asked for.
    Ending(bool),
    /// It can only be aborted.
    Failed(ClientError),
}

/// The transaction of a producer.
#[derive(Default)]
pub(super) struct Transaction {
    phase: Phase,
    /// The partitions that the coordinator knows.
    // Bounded: by the partitions that the program writes to
    added: BTreeSet<PartitionKey>,
    /// Those that wait to be added.
    // Bounded: as `added`
    wanted: BTreeSet<PartitionKey>,
    /// Those that are being added.
    // Bounded: as `added`
    adding: BTreeSet<PartitionKey>,
    has_offsets: bool,
    /// A sequence is lost: the next transaction needs another epoch.
    needs_epoch: bool,
}

impl Transaction {
    /// Fails if no record can be added.
    pub(super) fn check_open(&self) -> Result<(), ClientError> {
        match &self.phase {
            Phase::Open => Ok(()),
            Phase::Failed(error) => Err(error.clone()),
            _ => Err(ClientError::invalid("transaction", "none is open")),
        }
    }

    /// Returns true if a partition is in the transaction; if not it is added soon.
    pub(super) fn may_write(&mut self, place: &PartitionKey) -> bool {
        if self.added.contains(place) {
            return true;
        }
        if !self.adding.contains(place) {
            self.wanted.insert(place.clone());
        }
        false
    }

    /// Takes the partitions to add, if no other task adds some.
    pub(super) fn next_to_add(&mut self) -> Option<BTreeSet<PartitionKey>> {
        if self.is_adding() || self.wanted.is_empty() || self.phase != Phase::Open {
            return None;
        }
        self.adding = std::mem::take(&mut self.wanted);
        Some(self.adding.clone())
    }

    /// Returns true while partitions are being added.
    pub(super) fn is_adding(&self) -> bool {
        !self.adding.is_empty()
    }

    /// A part of the transaction failed.
    pub(super) fn fails(&mut self, error: &ClientError) {
        if matches!(self.phase, Phase::Open | Phase::Ending(_)) {
            self.phase = Phase::Failed(error.clone());
        }
    }

    /// Returns why nothing more of this transaction is written.
    pub(super) fn failure(&self) -> Option<ClientError> {
        match &self.phase {
            Phase::Failed(error) => Some(error.clone()),
            _ => None,
        }
    }

    fn is_empty(&self) -> bool {
        self.added.is_empty() && self.adding.is_empty() && !self.has_offsets
    }

    /// It has ended.
    fn ended(&mut self) {
        *self = Self {
            phase: Phase::Ready,
            ..Self::default()
        };
    }
}

impl Producer {
    /// Gives the producer the identity of its `transactional.id`, and ends what an earlier one with
    /// that id has left open. Once, before the first transaction.
    pub async fn init_transactions(&self, deadline: Instant) -> Result<(), ClientError> {
        let shared = self.shared();
        if shared.transactional_id()?.is_empty() {
            return Err(ClientError::invalid("transactional.id", "it is empty"));
        }
        let none = Identity { id: -1, epoch: -1 };
        let identity = shared.init(none, deadline).await?;
        let mut state = shared.state().borrow_mut();
        state.known = KnownIdentity::As(identity);
        state.transaction.ended();
        Ok(())
    }

    /// Opens a transaction.
    pub fn begin_transaction(&self) -> Result<(), ClientError> {
        let shared = self.shared();
        let mut state = shared.state().borrow_mut();
        if let Some(fatal) = &state.fatal {
            return Err(fatal.clone());
        }
        match state.transaction.phase {
            Phase::Ready => {
                state.transaction.phase = Phase::Open;
                Ok(())
            }
            Phase::Unknown => Err(ClientError::invalid(
                "transaction",
                "the producer is not ready",
            )),
            _ => Err(ClientError::invalid("transaction", "one is open")),
        }
    }

    /// Stores positions of a group when the transaction is committed: topic and partition with the
    /// offset of the next record.
    pub async fn send_offsets(
        &self,
        offsets: &BTreeMap<(Rc<str>, i32), i64>,
        member: &GroupMember,
        deadline: Instant,
    ) -> Result<(), ClientError> {
        let shared = self.shared();
        shared.check()?;
        let stored = shared.store_offsets(offsets, member, deadline).await;
        if let Err(error) = &stored {
            shared.failed(error);
        }
        stored
    }

    /// Waits until all records of the transaction are acknowledged, and commits it.
    ///
    /// After an error that says that the outcome is not known, call it again. After another error
    /// the transaction can only be aborted.
    pub async fn commit_transaction(&self, deadline: Instant) -> Result<(), ClientError> {
        let shared = self.shared();
        let phase = shared.state().borrow().transaction.phase.clone();
        if phase != Phase::Ending(true) {
            shared.check()?;
            self.flush(deadline).await?;
            shared.check()?;
        }
        self.end(true, deadline).await
    }

    /// Aborts the transaction: consumers that read what is committed do not see its records.
    pub async fn abort_transaction(&self, deadline: Instant) -> Result<(), ClientError> {
        let shared = self.shared();
        {
            let mut state = shared.state().borrow_mut();
            if let Some(fatal) = &state.fatal {
                return Err(fatal.clone());
            }
            match &state.transaction.phase {
                Phase::Open => {
                    // What waits to be sent is not sent any more.
                    let aborted = ClientError::invalid("transaction", "it is aborted");
                    state.transaction.phase = Phase::Failed(aborted);
                }
                Phase::Failed(_) | Phase::Ending(false) => {}
                _ => return Err(ClientError::invalid("transaction", "none is open")),
            }
        }
        shared.wake();
        self.flush(deadline).await?;
        self.end(false, deadline).await
    }

    async fn end(&self, commits: bool, deadline: Instant) -> Result<(), ClientError> {
        let shared = self.shared();
        let needs_epoch = {
            let mut state = shared.state().borrow_mut();
            state.transaction.needs_epoch |= state.outbox.needs_identity();
            state.transaction.needs_epoch
        };
        if !shared.state().borrow().transaction.is_empty() {
            shared.state().borrow_mut().transaction.phase = Phase::Ending(commits);
            let identity = shared.identity()?;
            let request = EndTxnRequest::default()
                .with_transactional_id(TransactionalId(text(shared.transactional_id()?)))
                .with_producer_id(identity.id.into())
                .with_producer_epoch(identity.epoch)
                .with_committed(commits);
            let ended = shared
                .at_coordinator(END_VERSION, &request, deadline, |answer| {
                    Ok(check(answer.error_code, None)?)
                })
                .await;
            if let Err(error) = ended {
                // Only a refusal says that it has not ended.
                if error.code().is_some() && !is_passing(&error) {
                    shared.failed(&error);
                }
                return Err(error);
            }
        }
        if needs_epoch {
            let identity = shared.init(shared.identity()?, deadline).await?;
            let mut state = shared.state().borrow_mut();
            state.known = KnownIdentity::As(identity);
            state.outbox.forget_identities();
        }
        shared.state().borrow_mut().transaction.ended();
        Ok(())
    }
}

impl SharedProducer {
    fn transactional_id(&self) -> Result<&str, ClientError> {
        let id = self.settings().transactional_id.as_deref();
        id.ok_or_else(|| ClientError::invalid("transactional.id", "it is not set"))
    }

    fn identity(&self) -> Result<Identity, ClientError> {
        match self.state().borrow().known {
            KnownIdentity::As(identity) => Ok(identity),
            _ => Err(ClientError::invalid(
                "transaction",
                "the producer is not ready",
            )),
        }
    }

    /// Takes account of an error: another instance has this id, or the transaction has failed.
    fn failed(&self, error: &ClientError) {
        let mut state = self.state().borrow_mut();
        if is_fatal(error) {
            state.fatal.get_or_insert_with(|| error.clone());
        } else {
            state.transaction.fails(error);
        }
        drop(state);
        self.wake();
    }

    /// Asks the coordinator, and again while it moves, loads, or ends an earlier transaction.
    async fn at_coordinator<Q: Ask, T>(
        &self,
        newest: i16,
        request: &Q,
        deadline: Instant,
        read: impl Fn(Q::Answer) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let id = self.transactional_id()?;
        let place = (CoordinatorKind::Transaction, id);
        self.at(place, newest, request, deadline, read).await
    }

    async fn at<Q: Ask, T>(
        &self,
        (kind, key): (CoordinatorKind, &str),
        newest: i16,
        request: &Q,
        deadline: Instant,
        read: impl Fn(Q::Answer) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let cluster = self.cluster();
        let attempt = async || {
            let connection = cluster.coordinator(kind, key, deadline).await?;
            let version = connection.version_up_to::<Q>(newest)?;
            let answer = cluster.exchange(&connection, version, request, deadline);
            let answer = answer.await.and_then(&read);
            if answer.as_ref().is_err_and(says_coordinator_moved) {
                cluster.coordinator_lost(kind, key);
            }
            answer
        };
        cluster.patiently(deadline, is_passing, attempt).await
    }

    async fn init(&self, now: Identity, deadline: Instant) -> Result<Identity, ClientError> {
        let timeout = self.settings().transaction_timeout.as_millis();
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(TransactionalId(text(self.transactional_id()?))))
            .with_transaction_timeout_ms(i32::try_from(timeout).unwrap_or(i32::MAX))
            .with_producer_id(now.id.into())
            .with_producer_epoch(now.epoch);
        let learnt = self.at_coordinator(INIT_VERSION, &request, deadline, |answer| {
            check(answer.error_code, None)?;
            Identity::given(answer.producer_id.0, answer.producer_epoch)
        });
        learnt.await.inspect_err(|error| {
            if is_fatal(error) {
                self.failed(error);
            }
        })
    }

    /// Adds partitions to the transaction, and lets their batches go.
    pub(super) async fn add_partitions(self: Rc<Self>, places: BTreeSet<PartitionKey>) {
        let deadline = Instant::now() + self.settings().delivery_timeout;
        let added = self.ask_to_add(&places, deadline).await;
        {
            let mut state = self.state().borrow_mut();
            let transaction = &mut state.transaction;
            transaction.adding.clear();
            // They may be in the transaction even if no answer said so, so it needs an end.
            transaction.added.extend(places);
        }
        if let Err(error) = &added {
            self.failed(error);
        }
        self.wake();
        self.told_settled();
    }

    async fn ask_to_add(
        &self,
        places: &BTreeSet<PartitionKey>,
        deadline: Instant,
    ) -> Result<(), ClientError> {
        let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for (topic, partition) in places {
            topics.entry(&**topic).or_default().push(*partition);
        }
        let topics = topics.into_iter().map(|(name, partitions)| {
            AddPartitionsToTxnTopic::default()
                .with_name(TopicName(text(name)))
                .with_partitions(partitions)
        });
        let identity = self.identity()?;
        let request = AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(TransactionalId(text(self.transactional_id()?)))
            .with_v3_and_below_producer_id(identity.id.into())
            .with_v3_and_below_producer_epoch(identity.epoch)
            .with_v3_and_below_topics(topics.collect());
        let added = self.at_coordinator(ADD_PARTITIONS_VERSION, &request, deadline, |answer| {
            let topics = answer.results_by_topic_v3_and_below.iter();
            let partitions = topics.flat_map(|topic| &topic.results_by_partition);
            let codes = partitions.map(|partition| partition.partition_error_code);
            let errors = codes.filter_map(|code| check(code, None).err());
            // Others were not tried because of one that is the reason.
            let not_tried = ErrorCode::OperationNotAttempted;
            let (not_tried, reasons): (Vec<_>, Vec<_>) =
                errors.partition(|error| error.code == not_tried);
            match reasons.into_iter().chain(not_tried).next() {
                Some(error) => Err(error.into()),
                None => Ok(()),
            }
        });
        added.await
    }

    async fn store_offsets(
        &self,
        offsets: &BTreeMap<(Rc<str>, i32), i64>,
        member: &GroupMember,
        deadline: Instant,
    ) -> Result<(), ClientError> {
        let identity = self.identity()?;
        let id = TransactionalId(text(self.transactional_id()?));
        let request = AddOffsetsToTxnRequest::default()
            .with_transactional_id(id.clone())
            .with_producer_id(identity.id.into())
            .with_producer_epoch(identity.epoch)
            .with_group_id(text(&member.group).into());
        self.state().borrow_mut().transaction.has_offsets = true;
        let added = self.at_coordinator(ADD_OFFSETS_VERSION, &request, deadline, |answer| {
            Ok(check(answer.error_code, None)?)
        });
        added.await?;
        let mut topics: BTreeMap<&str, Vec<TxnOffsetCommitRequestPartition>> = BTreeMap::new();
        for ((topic, partition), offset) in offsets {
            let stored = TxnOffsetCommitRequestPartition::default()
                .with_partition_index(*partition)
                .with_committed_offset(*offset)
                .with_committed_leader_epoch(-1)
                .with_committed_metadata(Some(text("")));
            topics.entry(&**topic).or_default().push(stored);
        }
        let topics = topics.into_iter().map(|(name, partitions)| {
            TxnOffsetCommitRequestTopic::default()
                .with_name(TopicName(text(name)))
                .with_partitions(partitions)
        });
        let request = TxnOffsetCommitRequest::default()
            .with_transactional_id(id)
            .with_group_id(text(&member.group).into())
            .with_producer_id(identity.id.into())
            .with_producer_epoch(identity.epoch)
            .with_generation_id(member.generation)
            .with_member_id(text(&member.member_id))
            .with_group_instance_id(member.instance_id.as_deref().map(text))
            .with_topics(topics.collect());
        let place = (CoordinatorKind::Group, member.group.as_str());
        let stored = self.at(place, OFFSET_COMMIT_VERSION, &request, deadline, |answer| {
            let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
            let mut errors = partitions.filter_map(|one| check(one.error_code, None).err());
            match errors.next() {
                Some(error) => Err(error.into()),
                None => Ok(()),
            }
        });
        stored.await
    }
}

/// Returns true for errors that end with time, also those that are of transactions only.
fn is_passing(error: &ClientError) -> bool {
    error.is_retriable() || error.code() == Some(ErrorCode::ConcurrentTransactions)
}

fn says_coordinator_moved(error: &ClientError) -> bool {
    match error.code() {
        Some(code) => matches!(
            code,
            ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable
        ),
        None => error.is_unknown_outcome(),
    }
}

/// Returns true if another producer has this id now, or this one may not have it.
fn is_fatal(error: &ClientError) -> bool {
    let code = error.code();
    code.is_some_and(|code| {
        matches!(
            code,
            ErrorCode::ProducerFenced
                | ErrorCode::InvalidProducerEpoch
                | ErrorCode::InvalidProducerIdMapping
                | ErrorCode::InvalidTxnState
                | ErrorCode::TransactionalIdAuthorizationFailed
        )
    })
}
