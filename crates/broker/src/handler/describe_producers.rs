//! `DescribeProducers` (key 61), version 0: the idempotent producers whose state a partition keeps.
//!
//! Unlike Kafka, a partition is answered once, however often the request names it, and a response
//! holds a bounded number of producers; the partitions after that get `POLICY_VIOLATION`, and the
//! client can request them again. The protocol has no pages. A client needs the right to read each
//! topic, and still has to have it when its turn comes.

use std::collections::HashSet;
use std::rc::Rc;

use platform::Platform;
use platform::task::yield_now;
use storage::log::producer_state::ProducerSnapshot;
use wire::acl::{Operation, ResourceType};
use wire::messages::describe_producers_response::{
    PartitionResponse, ProducerState, TopicResponse,
};
use wire::messages::{DescribeProducersRequest, DescribeProducersResponse};
use wire::types::ErrorCode;

use crate::Broker;
use crate::access::Access;
use crate::controller::{Refusal, topic_name};
use crate::fetch_session::TopicKey;
use crate::image::Image;
use crate::rests::{Rests, each};
use crate::route::{Target, at_partitions_abandoned};

/// Maximum producers in one response, about 10 MB; the last partition may exceed it, because a
/// partition is not split.
const PRODUCERS_MAX: usize = 200_000;
/// Partitions that are read at the same time.
const AT_ONCE: usize = 16;

type ProducersResult = Result<Vec<ProducerSnapshot>, ErrorCode>;

pub(crate) async fn handle<P: Platform>(
    broker: &Rc<Broker<P>>,
    access: &Access,
    request: DescribeProducersRequest,
) -> DescribeProducersResponse {
    let mut items = Vec::new();
    let mut topics = Vec::with_capacity(request.topics.len());
    let mut named = HashSet::new();
    let mut rests = Rests::new();
    for topic in request.topics {
        let key = TopicKey::Name(topic.name.as_str().into());
        let refused = no_topic(&broker.image(), access, &topic.name);
        rests.item().await;
        let mut once = Vec::new();
        for index in topic.partition_indexes {
            rests.item().await;
            if !named.insert((key.clone(), index)) {
                continue;
            }
            once.push(index);
            items.push(match &refused {
                Some(refusal) => (Err(refusal.code), ()),
                None => (broker.target(&key, index), ()),
            });
        }
        let (_, message) = Refusal::parts(refused.map_or(Ok(()), Err));
        topics.push((topic.name, once, message));
    }
    let mut producers = known(broker, access, items).await.into_iter();
    let mut answers = Vec::with_capacity(topics.len());
    for (name, indexes, message) in topics {
        let mut partitions = Vec::with_capacity(indexes.len());
        for (index, producers) in indexes.into_iter().zip(producers.by_ref()) {
            rests.item().await;
            let answer = PartitionResponse::default().with_partition_index(index);
            partitions.push(match producers {
                Ok(producers) => {
                    let producers = each(&producers, state).await;
                    answer.with_active_producers(producers)
                }
                Err(code) => answer
                    .with_error_code(code.code())
                    .with_error_message(message.clone()),
            });
        }
        let answer = TopicResponse::default().with_name(name);
        answers.push(answer.with_partitions(partitions));
    }
    DescribeProducersResponse::default().with_topics(answers)
}

/// Returns the producers of the partitions, as far as the response has room.
async fn known<P: Platform>(
    broker: &Rc<Broker<P>>,
    access: &Access,
    items: Vec<(Result<Target, ErrorCode>, ())>,
) -> Vec<ProducersResult> {
    let (mut known, mut room) = (Vec::with_capacity(items.len()), PRODUCERS_MAX);
    let mut items = items.into_iter();
    while room > 0 {
        let some: Vec<_> = items.by_ref().take(AT_ONCE).collect();
        if some.is_empty() {
            return known;
        }
        let access = access.clone();
        let found = at_partitions_abandoned(broker, some, move |broker, partition, ()| {
            let may = access.check_again(&broker, Operation::Read, &partition.name);
            async move {
                may?;
                Ok(partition.log.producers_in_pieces().await)
            }
        });
        for producers in found.await {
            room = room.saturating_sub(producers.as_ref().map_or(0, Vec::len));
            known.push(producers);
        }
        yield_now().await;
    }
    known.extend(items.map(|(target, ())| Err(target.err().unwrap_or(ErrorCode::PolicyViolation))));
    known
}

/// Returns the error of the topic itself. An error of a single partition has a code but no message.
fn no_topic(image: &Image, access: &Access, name: &str) -> Option<Refusal> {
    if let Some(reason) = topic_name::invalid(name) {
        return Some(Refusal::new(ErrorCode::InvalidTopicException, reason));
    }
    if !access.may(Operation::Read, ResourceType::Topic, name) {
        return Some(Refusal::denied(ResourceType::Topic));
    }
    let unknown = ErrorCode::UnknownTopicOrPartition;
    let missing = image.topic_by_name(name).is_none();
    missing.then(|| Refusal::new(unknown, "This server does not host this topic-partition."))
}

fn state(producer: &ProducerSnapshot) -> ProducerState {
    ProducerState::default()
        .with_producer_id(producer.producer_id.0.into())
        .with_producer_epoch(i32::from(producer.epoch))
        .with_last_sequence(producer.last_sequence)
        .with_last_timestamp(producer.last_timestamp.0)
        .with_coordinator_epoch(producer.coordinator_epoch)
        .with_current_txn_start_offset(producer.transaction_start.map_or(-1, |offset| offset.0))
}
