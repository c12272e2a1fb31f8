//! `DescribeTransactions` (key 65), version 0: the state of transactional ids.
//!
//! Topics that the client may not describe are left out of a transaction.

use std::collections::BTreeMap;
use std::rc::Rc;

use platform::Platform;
use wire::acl::{Operation, ResourceType};
use wire::messages::describe_transactions_response::{TopicData, TransactionState};
use wire::messages::{TopicName, TransactionalId};
use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use crate::Broker;
use crate::access::Access;
use crate::transaction::state::Entry;

/// Describes one id, on its shard.
pub(crate) fn handle_id<P: Platform>(
    broker: &Rc<Broker<P>>,
    id: &TransactionalId,
    access: &Access,
) -> TransactionState {
    if !access.may(Operation::Describe, ResourceType::TransactionalId, id) {
        return refused(id, ErrorCode::TransactionalIdAuthorizationFailed);
    }
    if id.0.is_empty() {
        return refused(id, ErrorCode::InvalidRequest);
    }
    match broker.transactions.describe(&id.0) {
        Ok(entry) => described(id, &entry, access),
        Err(code) => refused(id, code),
    }
}

fn described(id: &TransactionalId, entry: &Entry, access: &Access) -> TransactionState {
    let mut by_topic: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for (topic, partition) in &entry.partitions {
        by_topic.entry(topic).or_default().push(*partition);
    }
    let seen = by_topic
        .into_iter()
        .filter(|(topic, _)| access.sees(ResourceType::Topic, topic));
    let topics = seen.map(|(topic, partitions)| {
        TopicData::default()
            .with_topic(TopicName(StrBytes::from_string(topic.to_owned())))
            .with_partitions(partitions)
    });
    TransactionState::default()
        .with_transactional_id(id.clone())
        .with_transaction_state(StrBytes::from_static_str(entry.state.name()))
        .with_transaction_timeout_ms(entry.timeout_ms)
        .with_transaction_start_time_ms(entry.start_ms)
        .with_producer_id(entry.producer_id.0.into())
        .with_producer_epoch(entry.epoch)
        .with_topics(topics.collect())
}

/// Returns the error for an id.
pub(crate) fn refused(id: &TransactionalId, code: ErrorCode) -> TransactionState {
    TransactionState::default()
        .with_transactional_id(id.clone())
        .with_error_code(code.code())
}
