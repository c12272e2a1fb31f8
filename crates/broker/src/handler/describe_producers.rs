//! `DescribeProducers` (key 61), version 0: the idempotent producers whose state a partition keeps.

use std::rc::Rc;

use platform::Platform;
use wire::messages::describe_producers_response::{
    PartitionResponse, ProducerState, TopicResponse,
};
use wire::messages::{DescribeProducersRequest, DescribeProducersResponse};

use wire::types::ErrorCode;

use crate::Broker;
use crate::controller::{Refusal, topic_name};
use crate::fetch_session::TopicKey;
use crate::image::Image;
use crate::route::at_partitions;

pub(crate) async fn handle<P: Platform>(
    broker: &Rc<Broker<P>>,
    request: DescribeProducersRequest,
) -> DescribeProducersResponse {
    let mut items = Vec::new();
    for topic in &request.topics {
        let key = TopicKey::Name(topic.name.as_str().into());
        let indexes = topic.partition_indexes.iter();
        let refused = no_topic(&broker.image(), &topic.name);
        items.extend(indexes.map(|index| match &refused {
            Some(refusal) => (Err(refusal.code), ()),
            None => (broker.target(&key, *index), ()),
        }));
    }
    let producers = at_partitions(broker, items, |_, partition, ()| async move {
        Ok(partition.log.producers())
    });
    let mut producers = producers.await.into_iter();
    let topics = request.topics.into_iter().map(|topic| {
        let (_, message) =
            Refusal::parts(no_topic(&broker.image(), &topic.name).map_or(Ok(()), Err));
        let partitions =
            topic
                .partition_indexes
                .iter()
                .zip(producers.by_ref())
                .map(|(index, producers)| {
                    let answer = PartitionResponse::default().with_partition_index(*index);
                    match producers {
                        Ok(producers) => {
                            answer.with_active_producers(producers.iter().map(state).collect())
                        }
                        Err(code) => answer
                            .with_error_code(code.code())
                            .with_error_message(message.clone()),
                    }
                });
        let partitions = partitions.collect();
        TopicResponse::default()
            .with_name(topic.name)
            .with_partitions(partitions)
    });
    let topics = topics.collect();
    DescribeProducersResponse::default().with_topics(topics)
}

/// What is wrong with the topic itself; its partitions are refused with a code alone.
fn no_topic(image: &Image, name: &str) -> Option<Refusal> {
    if let Some(reason) = topic_name::invalid(name) {
        return Some(Refusal::new(ErrorCode::InvalidTopicException, reason));
    }
    let unknown = ErrorCode::UnknownTopicOrPartition;
    let missing = image.topic_by_name(name).is_none();
    missing.then(|| Refusal::new(unknown, "This server does not host this topic-partition."))
}

fn state(producer: &storage::log::producer_state::ProducerSnapshot) -> ProducerState {
    ProducerState::default()
        .with_producer_id(producer.producer_id.0.into())
        .with_producer_epoch(i32::from(producer.epoch))
        .with_last_sequence(producer.last_sequence)
        .with_last_timestamp(producer.last_timestamp.0)
        .with_coordinator_epoch(producer.coordinator_epoch)
        .with_current_txn_start_offset(producer.transaction_start.map_or(-1, |offset| offset.0))
}
