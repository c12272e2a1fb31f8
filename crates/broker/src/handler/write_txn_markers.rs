//! `WriteTxnMarkers` (key 27), version 1: ends transactions in their partitions, for a coordinator elsewhere or for the
//! tool that ends a hanging one.

use std::rc::Rc;

use platform::Platform;
use storage::log::producer_state::{EndMarker, Outcome};
use wire::messages::write_txn_markers_response::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
};
use wire::messages::{WriteTxnMarkersRequest, WriteTxnMarkersResponse};
use wire::types::ProducerId;

use crate::Broker;
use crate::fetch_session::TopicKey;
use crate::transaction::{Ending, end_at};

pub(crate) async fn handle<P: Platform>(
    broker: &Rc<Broker<P>>,
    request: WriteTxnMarkersRequest,
) -> WriteTxnMarkersResponse {
    let mut results = Vec::with_capacity(request.markers.len());
    for marker in request.markers {
        let outcome = if marker.transaction_result {
            Outcome::Commit
        } else {
            Outcome::Abort
        };
        let ending = Ending {
            producer_id: ProducerId(marker.producer_id.0),
            epoch: marker.producer_epoch,
            marker: EndMarker {
                outcome,
                coordinator_epoch: marker.coordinator_epoch,
            },
        };
        let named = marker.topics.iter().flat_map(|topic| {
            let key = TopicKey::Name(topic.name.as_str().into());
            let indexes = topic.partition_indexes.iter();
            indexes.map(move |index| (key.clone(), *index))
        });
        let items = named.map(|(key, index)| (broker.target(&key, index), ending));
        let mut ended = end_at(broker, items.collect()).await.into_iter();
        let topics = marker.topics.iter().map(|topic| {
            let indexes = topic.partition_indexes.iter().zip(ended.by_ref());
            let partitions = indexes.map(|(index, ended)| {
                WritableTxnMarkerPartitionResult::default()
                    .with_partition_index(*index)
                    .with_error_code(ended.err().map_or(0, |code| code.code()))
            });
            WritableTxnMarkerTopicResult::default()
                .with_name(topic.name.clone())
                .with_partitions(partitions.collect())
        });
        let topics = topics.collect();
        results.push(
            WritableTxnMarkerResult::default()
                .with_producer_id(marker.producer_id)
                .with_topics(topics),
        );
    }
    WriteTxnMarkersResponse::default().with_markers(results)
}
