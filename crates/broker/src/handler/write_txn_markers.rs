//! `WriteTxnMarkers` (key 27), versions 1-2: ends transactions in their partitions, for a
//! coordinator on another broker or for the tool that ends a hanging transaction.
//!
//! Version 2 added the version of the transaction protocol: from 2 on, an end raises the producer's
//! epoch, so a marker with the epoch of the open transaction is not from its coordinator. A
//! partition that a marker names several times gets one marker and one answer, as in Kafka.

use std::collections::BTreeMap;
use std::rc::Rc;

use platform::Platform;
use storage::log::producer_state::{EndMarker, TransactionOutcome};
use wire::kafka::NewestVersion;
use wire::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use wire::messages::write_txn_markers_response::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
};
use wire::messages::{TopicName, WriteTxnMarkersRequest, WriteTxnMarkersResponse};
use wire::types::{ErrorCode, ProducerId};

use crate::Broker;
use crate::fetch_session::TopicKey;
use crate::rests::Rests;
use crate::transaction::{Ending, end_at};

/// The first version of the transaction protocol in which the end of a transaction raises its
/// producer's epoch.
const RAISES_EPOCH: i8 = 2;

pub(crate) async fn handle<P: Platform>(
    broker: &Rc<Broker<P>>,
    request: NewestVersion<WriteTxnMarkersRequest>,
) -> WriteTxnMarkersResponse {
    let mut markers = request.message.markers;
    let versions = request.more.into_iter().chain(std::iter::repeat(0));
    let mut rests = Rests::new();
    let mut items = Vec::new();
    for (marker, version) in markers.iter_mut().zip(versions) {
        let ending = ending_of(marker, version);
        marker.topics = by_topic(std::mem::take(&mut marker.topics), &mut rests).await;
        for topic in &marker.topics {
            let key = TopicKey::Name(topic.name.as_str().into());
            for &index in &topic.partition_indexes {
                let target = broker.target(&key, index);
                // A negative version does not exist; the error is for partitions that exist.
                let target = match version {
                    ..0 => target.and(Err(ErrorCode::UnknownServerError)),
                    _ => target,
                };
                items.push((target, ending));
                rests.item().await;
            }
        }
        rests.item().await;
    }
    // All at the same time: each marker waits until it is in the log, and a request may have
    // thousands.
    let mut ended = end_at(broker, items).await.into_iter();
    let mut results = Vec::with_capacity(markers.len());
    for marker in markers {
        rests.items(marker.topics.len().max(1)).await;
        let topics = marker.topics.into_iter().map(|topic| {
            let indexes = topic.partition_indexes.into_iter().zip(ended.by_ref());
            let partitions = indexes.map(|(index, ended)| {
                WritableTxnMarkerPartitionResult::default()
                    .with_partition_index(index)
                    .with_error_code(ended.err().map_or(0, |code| code.code()))
            });
            WritableTxnMarkerTopicResult::default()
                .with_name(topic.name)
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

/// Returns the same error for every partition.
pub(crate) async fn refused(
    request: &WriteTxnMarkersRequest,
    code: ErrorCode,
) -> WriteTxnMarkersResponse {
    let mut rests = Rests::new();
    let mut results = Vec::with_capacity(request.markers.len());
    for marker in &request.markers {
        let mut topics = Vec::with_capacity(marker.topics.len());
        for topic in &marker.topics {
            let partitions = topic.partition_indexes.iter().map(|index| {
                WritableTxnMarkerPartitionResult::default()
                    .with_partition_index(*index)
                    .with_error_code(code.code())
            });
            let told = WritableTxnMarkerTopicResult::default().with_name(topic.name.clone());
            topics.push(told.with_partitions(partitions.collect()));
            rests
                .items(topic.partition_indexes.len().saturating_add(1))
                .await;
        }
        let told = WritableTxnMarkerResult::default().with_producer_id(marker.producer_id);
        results.push(told.with_topics(topics));
        rests.item().await;
    }
    WriteTxnMarkersResponse::default().with_markers(results)
}

/// Returns the partitions of a marker, each once.
///
/// Each costs a task and a record: a request could name one 245,760 times, in one topic or in as
/// many of the same name.
async fn by_topic(
    named: Vec<WritableTxnMarkerTopic>,
    rests: &mut Rests,
) -> Vec<WritableTxnMarkerTopic> {
    // Bounded: lives with one request, `wire::kafka::shape::DECODED_BYTES_MAX`.
    let mut topics: BTreeMap<TopicName, Vec<i32>> = BTreeMap::new();
    for topic in named {
        rests.items(topic.partition_indexes.len().max(1)).await;
        let indexes = topics.entry(topic.name).or_default();
        indexes.extend(topic.partition_indexes);
    }
    let mut once = Vec::with_capacity(topics.len());
    for (name, mut indexes) in topics {
        indexes.sort_unstable();
        indexes.dedup();
        rests.items(indexes.len().max(1)).await;
        let topic = WritableTxnMarkerTopic::default().with_name(name);
        once.push(topic.with_partition_indexes(indexes));
    }
    once
}

fn ending_of(marker: &WritableTxnMarker, version: i8) -> Ending {
    let outcome = if marker.transaction_result {
        TransactionOutcome::Commit
    } else {
        TransactionOutcome::Abort
    };
    Ending {
        producer_id: ProducerId(marker.producer_id.0),
        epoch: marker.producer_epoch,
        marker: EndMarker {
            outcome,
            coordinator_epoch: marker.coordinator_epoch,
        },
        raises_epoch: version >= RAISES_EPOCH,
    }
}
