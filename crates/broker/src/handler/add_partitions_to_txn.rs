//! `AddPartitionsToTxn` (key 24), versions 0-5: adds partitions to a transaction.
//!
//! Up to version 3 producers send it, with one transaction; from 4 on brokers send it, with
//! several, and may only ask whether the partitions are in the transaction. Nothing is added if one
//! of the partitions does not exist, or if the producer may not write to one of the topics. Version
//! 2 added `PRODUCER_FENCED`; version 5 means that the client uses version 2 of the transaction
//! protocol.

use std::rc::Rc;

use platform::Platform;
use wire::acl::{Operation, ResourceType};
use wire::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use wire::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResult, AddPartitionsToTxnTopicResult,
};
use wire::messages::{TopicName, TransactionalId};
use wire::types::{ErrorCode, ProducerId};

use crate::Broker;
use crate::access::Access;
use crate::image::Image;
use crate::names::is_internal;
use crate::rests::each;
use crate::transaction::state::PartitionName;

/// One transaction and the partitions to add or verify.
#[derive(Clone)]
pub(crate) struct TxnPartitions {
    pub(crate) id: TransactionalId,
    pub(crate) producer: (ProducerId, i16),
    pub(crate) verify_only: bool,
    pub(crate) topics: Vec<AddPartitionsToTxnTopic>,
    /// The client's version of the transaction protocol.
    pub(crate) client_version: i16,
}

/// Answers for each partition, on the shard of the transactional id.
pub(crate) async fn handle<P: Platform>(
    broker: Rc<Broker<P>>,
    asked: TxnPartitions,
    knows_fencing: bool,
) -> AddPartitionsToTxnResult {
    let names: Vec<PartitionName> = names(&asked.topics);
    let id = asked.id.0.to_string();
    let errors = if id.is_empty() {
        vec![Err(ErrorCode::InvalidRequest); names.len()]
    } else {
        match missing(&broker, &names) {
            Some(errors) if !asked.verify_only => errors,
            _ => decide(&broker, id, &asked, &names).await,
        }
    };
    let errors = errors.into_iter();
    let errors = errors.map(|error| known_to(error, knows_fencing)).collect();
    result(&asked, errors)
}

async fn decide<P: Platform>(
    broker: &Rc<Broker<P>>,
    id: String,
    asked: &TxnPartitions,
    names: &[PartitionName],
) -> Vec<Result<(), ErrorCode>> {
    let coordinator = &broker.transactions;
    let all = |answer| vec![answer; names.len()];
    if asked.verify_only {
        let verified = coordinator.verify(&id, asked.producer, names);
        return verified.unwrap_or_else(|code| all(Err(code)));
    }
    let coordinator = Rc::clone(coordinator);
    let added = coordinator.add(id, asked.producer, names.to_vec(), asked.client_version);
    all(crate::transaction::change(added).await)
}

/// Returns the results if a partition does not exist.
fn missing<P: Platform>(
    broker: &Broker<P>,
    names: &[PartitionName],
) -> Option<Vec<Result<(), ErrorCode>>> {
    let image = broker.image();
    if names.iter().all(|name| exists(&image, name)) {
        return None;
    }
    let errors = names.iter().map(|name| Err(why_not(&image, name)));
    Some(errors.collect())
}

fn exists(image: &Image, (topic, partition): &PartitionName) -> bool {
    let topic = image.topic_by_name(topic);
    topic.is_some_and(|topic| topic.partitions.contains_key(partition))
}

/// Returns the error of a partition that the client may add, if others cannot be added.
fn why_not(image: &Image, name: &PartitionName) -> ErrorCode {
    if exists(image, name) {
        ErrorCode::OperationNotAttempted
    } else {
        ErrorCode::UnknownTopicOrPartition
    }
}

/// Checks that the client may write with the transactional id, and to each of the topics; if not,
/// returns the answer.
///
/// As in Kafka, no client adds partitions of internal topics by this request.
pub(crate) async fn check_rights<P: Platform>(
    broker: &Broker<P>,
    asked: &TxnPartitions,
    access: &Access,
) -> Result<(), AddPartitionsToTxnResult> {
    if !access.may(Operation::Write, ResourceType::TransactionalId, &asked.id) {
        let denied = ErrorCode::TransactionalIdAuthorizationFailed;
        return Err(refused(asked, denied));
    }
    let may_write = |topic: &AddPartitionsToTxnTopic| {
        !is_internal(&topic.name) && access.may(Operation::Write, ResourceType::Topic, &topic.name)
    };
    let writable = each(&asked.topics, may_write).await;
    assert!(writable.len() == asked.topics.len(), "each topic is judged");
    if !writable.contains(&false) {
        return Ok(());
    }
    let image = broker.image();
    let judged = asked.topics.iter().zip(writable);
    let errors = judged.flat_map(|(topic, writable)| {
        let image = &image;
        topic.partitions.iter().map(move |partition| {
            Err(if writable {
                why_not(image, &(topic.name.0.to_string(), *partition))
            } else {
                ErrorCode::TopicAuthorizationFailed
            })
        })
    });
    let errors = each(errors, |error| error).await;
    Err(result(asked, errors))
}

fn names(topics: &[AddPartitionsToTxnTopic]) -> Vec<PartitionName> {
    let each = topics.iter().flat_map(|topic| {
        let partitions = topic.partitions.iter();
        partitions.map(|partition| (topic.name.0.to_string(), *partition))
    });
    each.collect()
}

/// Replaces `PRODUCER_FENCED` for clients that are older than that error.
pub(crate) fn known_to<T>(
    answer: Result<T, ErrorCode>,
    knows_fencing: bool,
) -> Result<T, ErrorCode> {
    match answer {
        Err(ErrorCode::ProducerFenced) if !knows_fencing => Err(ErrorCode::InvalidProducerEpoch),
        answer => answer,
    }
}

fn result(asked: &TxnPartitions, errors: Vec<Result<(), ErrorCode>>) -> AddPartitionsToTxnResult {
    let mut errors = errors.into_iter();
    let topics = asked.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().zip(errors.by_ref());
        let partitions = partitions.map(|(partition, error)| {
            AddPartitionsToTxnPartitionResult::default()
                .with_partition_index(*partition)
                .with_partition_error_code(error.err().map_or(0, |code| code.code()))
        });
        AddPartitionsToTxnTopicResult::default()
            .with_name(TopicName(topic.name.0.clone()))
            .with_results_by_partition(partitions.collect())
    });
    AddPartitionsToTxnResult::default()
        .with_transactional_id(asked.id.clone())
        .with_topic_results(topics.collect())
}

/// Returns the same error for every partition.
pub(crate) fn refused(asked: &TxnPartitions, code: ErrorCode) -> AddPartitionsToTxnResult {
    let count = asked
        .topics
        .iter()
        .map(|topic| topic.partitions.len())
        .sum(); // Bounded: parts of one request.
    result(asked, vec![Err(code); count])
}
