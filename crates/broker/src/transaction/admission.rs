//! Checks before a batch of a transaction is appended: the coordinator must know that the partition
//! is in the transaction, or the end of the transaction would skip the partition and its last
//! stable offset would never advance.
//!
//! A partition in which the transaction is already open needs no check. Otherwise the coordinator
//! adds the partition (protocol version 2, `Produce` from version 12 on), or confirms that the
//! producer has added it. Its answer may be outdated by the time of the append: see
//! `partition/verifying.rs`.
//!
//! With version 2 every epoch, and so every transaction, begins with sequence 0. A first batch with
//! another sequence, of a producer that the partition does not know, overtook a batch that was
//! refused and will be sent again: it has to wait for that one.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use platform::Platform;
use wire::batch::BatchHeader;
use wire::types::ErrorCode;

use super::coordinator::Identity;
use super::home_of;
use super::state::{EPOCH_BUMPS, PartitionName};
use crate::Broker;
use crate::names::OFFSETS_TOPIC;
use crate::partition::{Guard, Partition, TransactionProof};
use crate::route::{Target, at_partitions};
use crate::topic_config::{BrokerSettings, Source};

/// From this version of `Produce` on, the broker adds partitions for the producer.
const PRODUCE_ADDS: i16 = 12;
/// From these versions of `Produce` and of `TxnOffsetCommit` on, clients know the error
/// `TransactionAbortable`.
const PRODUCE_KNOWS_ABORTABLE: i16 = 11;
const OFFSETS_KNOW_ABORTABLE: i16 = 4;
/// From this version of `TxnOffsetCommit` on, the broker adds the group's partition.
const OFFSETS_ADD: i16 = 5;
/// Number and interval of retries while the end of the previous transaction is in flight.
const RETRIES: u32 = 20;
const RETRY_PAUSE: Duration = Duration::from_millis(5);

/// Returns whether partitions that producers add themselves are verified, by the current settings.
fn verifies<P: Platform>(broker: &Broker<P>) -> bool {
    const NAME: &str = "transaction.partition.verification.enable";
    let (image, options) = (broker.image(), &*broker.options);
    let settings = BrokerSettings {
        image: &image,
        options,
    };
    let own = settings.at(NAME, Source::DynamicBroker);
    let dynamic = own.or_else(|| settings.at(NAME, Source::DynamicDefault));
    dynamic.map_or(options.transaction.verify_partitions, |text| {
        text.trim().eq_ignore_ascii_case("true")
    })
}

/// A batch for a partition, and what its append is based on.
type Item = (Result<Target, ErrorCode>, (Bytes, TransactionProof));

/// Checks each batch of a request with a transactional id: notes what its append is based on, or
/// replaces its target by an error.
pub(crate) async fn admit<P: Platform>(
    broker: &Rc<Broker<P>>,
    id: &str,
    version: i16,
    items: &mut [Item],
) {
    let adds = version >= PRODUCE_ADDS;
    if !adds && !verifies(broker) {
        return;
    }
    let batches: Vec<Option<FirstBatch>> = items.iter().map(first_of).collect();
    let questions = items.iter().zip(&batches).map(|((target, _), first)| {
        let asked = first.ok_or(ErrorCode::InvalidRecord);
        (asked.and(*target), *first)
    });
    let known = at_partitions(broker, questions.collect(), |_, partition, first| {
        std::future::ready(Ok(
            first.map_or(ProducerKnowledge::Open, |first| first.known_to(&partition))
        ))
    });
    let known = known.await;
    for ((known, item), first) in known.into_iter().zip(items).zip(batches) {
        let (target, (_, verified)) = item;
        // Otherwise it is no batch of a transaction, or its partition is not here: the append
        // returns the error.
        if let (Ok(known), Ok(named), Some(first)) = (known, *target, first) {
            match first.admitted(broker, id, named, known, adds).await {
                Ok(rests_on) => *verified = rests_on,
                Err(code) => {
                    let knows_abortable = version >= PRODUCE_KNOWS_ABORTABLE;
                    *target = Err(told(code, adds, knows_abortable));
                }
            }
        }
    }
}

/// The first batch for a partition in a request.
#[derive(Clone, Copy)]
struct FirstBatch {
    producer: Identity,
    sequence: i32,
}

/// A partition's knowledge of a producer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ProducerKnowledge {
    /// The producer has a transaction open here, in this epoch.
    Open,
    /// No open transaction; `is_new` if it does not know the producer. The coordinator is asked
    /// under the guard.
    Asks { is_new: bool, guard: Guard },
}

impl FirstBatch {
    fn known_to<P: Platform>(self, partition: &Partition<P>) -> ProducerKnowledge {
        let (id, epoch) = self.producer;
        if partition.is_in_transaction(id, epoch) {
            return ProducerKnowledge::Open;
        }
        ProducerKnowledge::Asks {
            is_new: !partition.knows_producer(id),
            guard: partition.ask_for(id, epoch),
        }
    }

    /// Asks the coordinator.
    ///
    /// While the end of the previous transaction is in flight it asks again, each time under a new
    /// guard, because the marker of that end clears the previous one. The marker may also come
    /// between taking the guard and the coordinator's answer, so the answer counts only if the
    /// guard still stands.
    async fn admitted<P: Platform>(
        self,
        broker: &Rc<Broker<P>>,
        id: &str,
        target: Target,
        mut known: ProducerKnowledge,
        adds: bool,
    ) -> Result<TransactionProof, ErrorCode> {
        let mut tries = 0;
        loop {
            let ProducerKnowledge::Asks { is_new, guard } = known else {
                return Ok(TransactionProof::Open);
            };
            let asked = ask(broker, id, self.producer, target, adds).await;
            match asked {
                Ok(()) if adds && is_new && self.sequence != 0 => {
                    return Err(ErrorCode::OutOfOrderSequenceNumber);
                }
                Ok(()) => {}
                Err(ErrorCode::ConcurrentTransactions) if tries < RETRIES => {
                    broker.platform.clock().sleep(RETRY_PAUSE).await;
                }
                Err(code) => return Err(code),
            }
            tries += 1;
            known = self.known_at(broker, target).await?;
            let stands =
                matches!(known, ProducerKnowledge::Asks { guard: now, .. } if now == guard);
            if asked.is_ok() && (stands || tries > RETRIES) {
                return Ok(TransactionProof::By(guard));
            }
        }
    }

    async fn known_at<P: Platform>(
        self,
        broker: &Rc<Broker<P>>,
        target: Target,
    ) -> Result<ProducerKnowledge, ErrorCode> {
        let known = at_partitions(broker, vec![(Ok(target), self)], |_, partition, first| {
            std::future::ready(Ok(first.known_to(&partition)))
        });
        let Some(known) = known.await.pop() else {
            unreachable!("one was asked for");
        };
        known
    }
}

/// As [`admit`], for the offsets of a group in one partition of `__consumer_offsets`, which this
/// shard leads.
pub(crate) async fn admit_offsets<P: Platform>(
    broker: &Rc<Broker<P>>,
    id: &str,
    producer: Identity,
    partition: i32,
    version: i16,
) -> Result<TransactionProof, ErrorCode> {
    let adds = version >= OFFSETS_ADD;
    if id.is_empty() {
        return Err(ErrorCode::InvalidRequest);
    }
    if !adds && !verifies(broker) {
        return Ok(TransactionProof::Unasked);
    }
    let mut tries = 0;
    loop {
        let topic = broker.image().topic_by_name(OFFSETS_TOPIC).map(|it| it.id);
        let topic = topic.ok_or(ErrorCode::CoordinatorNotAvailable)?;
        let led = broker.led((topic, partition));
        let led = led.map_err(|_| ErrorCode::NotCoordinator)?;
        if led.is_in_transaction(producer.0, producer.1) {
            return Ok(TransactionProof::Open);
        }
        let guard = led.ask_for(producer.0, producer.1);
        let name = (OFFSETS_TOPIC.to_owned(), partition);
        match ask_by_name(broker, id, producer, name, adds).await {
            // The marker of the previous transaction may have cleared the guard before the
            // coordinator was asked.
            Ok(()) if tries >= RETRIES || led.ask_for(producer.0, producer.1) == guard => {
                return Ok(TransactionProof::By(guard));
            }
            Ok(()) => {}
            Err(ErrorCode::ConcurrentTransactions) if tries < RETRIES => {
                broker.platform.clock().sleep(RETRY_PAUSE).await;
            }
            Err(code) => return Err(code),
        }
        tries += 1;
    }
}

/// Returns the error for a client that commits offsets.
pub(crate) fn told_of_admission(code: ErrorCode, version: i16) -> ErrorCode {
    let knows_abortable = version >= OFFSETS_KNOW_ABORTABLE;
    match told(code, version >= OFFSETS_ADD, knows_abortable) {
        ErrorCode::NotEnoughReplicas => ErrorCode::CoordinatorLoadInProgress,
        code => code,
    }
}

/// Returns the first batch, if it is one for which the right on the transactional id was asked.
fn first_of((_, (records, _)): &Item) -> Option<FirstBatch> {
    let header = BatchHeader::parse(records)?;
    header.claims_transaction().then_some(FirstBatch {
        producer: (header.producer_id, header.producer_epoch),
        sequence: header.base_sequence,
    })
}

async fn ask<P: Platform>(
    broker: &Rc<Broker<P>>,
    id: &str,
    producer: Identity,
    (topic, partition): Target,
    adds: bool,
) -> Result<(), ErrorCode> {
    let name = broker.image().topic_by_id(topic).map(|it| it.name.clone());
    let topic = name.ok_or(ErrorCode::UnknownTopicOrPartition)?.to_string();
    ask_by_name(broker, id, producer, (topic, partition), adds).await
}

async fn ask_by_name<P: Platform>(
    broker: &Rc<Broker<P>>,
    id: &str,
    producer: Identity,
    name: PartitionName,
    adds: bool,
) -> Result<(), ErrorCode> {
    let id = id.to_owned();
    let home = home_of(broker, &id);
    let answered = broker.shards.call(home, move |broker| async move {
        let coordinator = Rc::clone(&broker.transactions);
        if !adds {
            let verified = coordinator.verify(&id, producer, std::slice::from_ref(&name))?;
            return verified.into_iter().collect();
        }
        super::change(coordinator.add(id, producer, vec![name], EPOCH_BUMPS)).await
    });
    answered.await.ok_or(ErrorCode::NotCoordinator)?
}

/// Returns the error for a producer: one that it knows from `Produce` and handles correctly.
fn told(code: ErrorCode, adds: bool, knows_abortable: bool) -> ErrorCode {
    match code {
        ErrorCode::ProducerFenced => ErrorCode::InvalidProducerEpoch,
        ErrorCode::TransactionAbortable if !knows_abortable => ErrorCode::InvalidTxnState,
        ErrorCode::ConcurrentTransactions if adds => code,
        ErrorCode::ConcurrentTransactions
        | ErrorCode::CoordinatorLoadInProgress
        | ErrorCode::CoordinatorNotAvailable
        | ErrorCode::NotCoordinator => ErrorCode::NotEnoughReplicas,
        code => code,
    }
}
