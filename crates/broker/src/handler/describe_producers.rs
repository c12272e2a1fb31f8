//! `DescribeProducers` (key 61), version 0: the idempotent producers whose state a partition keeps.

use std::rc::Rc;

use platform::Platform;
use wire::messages::describe_producers_response::{
    PartitionResponse, ProducerState, TopicResponse,
};
use wire::messages::{DescribeProducersRequest, DescribeProducersResponse};

use crate::Broker;
use crate::fetch_session::TopicKey;
use crate::route::at_partitions;

pub(crate) async fn handle<P: Platform>(
    broker: &Rc<Broker<P>>,
    request: DescribeProducersRequest,
) -> DescribeProducersResponse {
    let mut items = Vec::new();
    for topic in &request.topics {
        let key = TopicKey::Name(topic.name.as_str().into());
        items.extend(
            topic
                .partition_indexes
                .iter()
                .map(|index| (broker.target(&key, *index), ())),
        );
    }
    let producers = at_partitions(broker, items, |_, partition, ()| async move {
        Ok(partition.log.producers())
    });
    let mut producers = producers.await.into_iter();
    let topics = request.topics.into_iter().map(|topic| {
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
                        Err(code) => answer.with_error_code(code.code()),
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

fn state(producer: &storage::log::producer_state::ProducerSnapshot) -> ProducerState {
    ProducerState::default()
        .with_producer_id(producer.producer_id.0.into())
        .with_producer_epoch(i32::from(producer.epoch))
        .with_last_sequence(producer.last_sequence)
        .with_last_timestamp(producer.last_timestamp.0)
        .with_coordinator_epoch(producer.coordinator_epoch)
        .with_current_txn_start_offset(producer.transaction_start.map_or(-1, |offset| offset.0))
}
