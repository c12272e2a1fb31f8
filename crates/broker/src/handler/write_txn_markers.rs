//! `WriteTxnMarkers` (key 27), versions 1-2: ends transactions in their partitions, for a coordinator elsewhere or for the
//! tool that ends a hanging one.
//!
//! Version 2 says the version of the transaction protocol: from 2 on, an end raises the producer's epoch, so a marker in
//! the epoch of the open transaction is not its coordinator's.

use std::rc::Rc;

use platform::Platform;
use storage::log::producer_state::{EndMarker, Outcome};
use wire::kafka::Newest;
use wire::messages::write_txn_markers_response::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
};
use wire::messages::{WriteTxnMarkersRequest, WriteTxnMarkersResponse};
use wire::types::{ErrorCode, ProducerId};

use crate::Broker;
use crate::fetch_session::TopicKey;
use crate::transaction::{Ending, end_at};

/// The first version of the transaction protocol in which the end of a transaction raises its producer's epoch.
const RAISES_EPOCH: i8 = 2;

pub(crate) async fn handle<P: Platform>(
    broker: &Rc<Broker<P>>,
    request: Newest<WriteTxnMarkersRequest>,
) -> WriteTxnMarkersResponse {
    let versions = request.more.into_iter().chain(std::iter::repeat(0));
    let mut results = Vec::with_capacity(request.message.markers.len());
    for (marker, version) in request.message.markers.into_iter().zip(versions) {
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
            raises_epoch: version >= RAISES_EPOCH,
        };
        let named = marker.topics.iter().flat_map(|topic| {
            let key = TopicKey::Name(topic.name.as_str().into());
            let indexes = topic.partition_indexes.iter();
            indexes.map(move |index| (key.clone(), *index))
        });
        let items = named.map(|(key, index)| {
            let target = broker.target(&key, index);
            // Below any version that there is; asked of a partition that is there.
            let target = match version {
                ..0 => target.and(Err(ErrorCode::UnknownServerError)),
                _ => target,
            };
            (target, ending)
        });
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
