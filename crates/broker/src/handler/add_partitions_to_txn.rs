//! `AddPartitionsToTxn` (key 24), versions 0-5: takes partitions into a transaction.
//!
//! To version 3 from producers, one transaction at a time; from 4 on from brokers, several, which may also only ask
//! whether the partitions are in it. Nothing is added when one of the partitions does not exist. Version 2 brought
//! `PRODUCER_FENCED`; version 5 says that the client uses version 2 of the transaction protocol.

use std::rc::Rc;

use platform::Platform;
use wire::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use wire::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResult, AddPartitionsToTxnTopicResult,
};
use wire::messages::{TopicName, TransactionalId};
use wire::types::{ErrorCode, ProducerId};

use crate::Broker;
use crate::transaction::state::PartitionName;

/// One transaction and the partitions that are to be in it.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) id: TransactionalId,
    pub(crate) producer: (ProducerId, i16),
    pub(crate) verify_only: bool,
    pub(crate) topics: Vec<AddPartitionsToTxnTopic>,
    /// Version of the transaction protocol that the client uses.
    pub(crate) client_version: i16,
}

/// What each partition is told, where the transactional id lives.
pub(crate) async fn handle<P: Platform>(
    broker: Rc<Broker<P>>,
    asked: Asked,
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
    asked: &Asked,
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

/// The answers when a partition does not exist.
fn missing<P: Platform>(
    broker: &Broker<P>,
    names: &[PartitionName],
) -> Option<Vec<Result<(), ErrorCode>>> {
    let image = broker.image();
    let exists = |(topic, partition): &PartitionName| {
        let topic = image.topic_by_name(topic);
        topic.is_some_and(|topic| topic.partitions.contains_key(partition))
    };
    if names.iter().all(exists) {
        return None;
    }
    let errors = names.iter().map(|name| {
        Err(if exists(name) {
            ErrorCode::OperationNotAttempted
        } else {
            ErrorCode::UnknownTopicOrPartition
        })
    });
    Some(errors.collect())
}

fn names(topics: &[AddPartitionsToTxnTopic]) -> Vec<PartitionName> {
    let each = topics.iter().flat_map(|topic| {
        let partitions = topic.partitions.iter();
        partitions.map(|partition| (topic.name.0.to_string(), *partition))
    });
    each.collect()
}

/// Clients from before `PRODUCER_FENCED` know that error by another name.
pub(crate) fn known_to<T>(
    answer: Result<T, ErrorCode>,
    knows_fencing: bool,
) -> Result<T, ErrorCode> {
    match answer {
        Err(ErrorCode::ProducerFenced) if !knows_fencing => Err(ErrorCode::InvalidProducerEpoch),
        answer => answer,
    }
}

fn result(asked: &Asked, errors: Vec<Result<(), ErrorCode>>) -> AddPartitionsToTxnResult {
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

/// Every partition with the same error.
pub(crate) fn refused(asked: &Asked, code: ErrorCode) -> AddPartitionsToTxnResult {
    let count = asked
        .topics
        .iter()
        .map(|topic| topic.partitions.len())
        .sum(); // Bounded: parts of one request.
    result(asked, vec![Err(code); count])
}
