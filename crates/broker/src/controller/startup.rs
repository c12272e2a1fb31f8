//! What a start of the broker writes into the metadata log.
//!
//! An empty log gets the feature levels first. Then every start registers a new, fenced incarnation
//! of the broker, and takes the leadership of every partition that has a replica here. That change
//! names the leader and so raises the leader epoch, which distinguishes the batches of different
//! runs. When the logs are open, the broker is unfenced. A clean stop fences it again.

use wire::records::metadata::{
    BrokerRegistrationChangeRecord, EndpointEntry, FeatureEntry, FeatureLevelRecord,
    MetadataRecord, MetadataVersion, PartitionChangeRecord, RegisterBrokerRecord,
};
use wire::types::{NodeId, Offset, TopicPartition, Uuid};

use crate::image::{Image, PartitionImage};
use crate::names::{GROUP_VERSION, SUPPORTED_FEATURES, TRANSACTION_VERSION};
use crate::options::BrokerOptions;

/// The `transaction.version` of a new cluster.
const TRANSACTION_LEVEL: i16 = 2;

/// Returns the records of an empty log: the level of Kafka 4.3 for the log itself, and the features
/// that this broker serves.
///
/// Features that it does not serve (`share.version` and the rest) stay at 0.
pub(crate) fn bootstrap() -> Vec<MetadataRecord> {
    let levels = [
        (MetadataVersion::FEATURE, MetadataVersion::V4_3.0),
        (GROUP_VERSION, 1),
        (TRANSACTION_VERSION, TRANSACTION_LEVEL),
    ];
    levels.map(|(name, level)| feature(name, level)).into()
}

/// Returns the levels of features that are new in this release, for a log that an earlier release
/// of this broker began.
///
/// That release did not name them among its supported features. A level that was set since, also to
/// 0, stays, and so does a log whose level is older than Kafka 4.0, which has no such features
/// (docs/adr/0013).
pub(crate) fn new_features(image: &Image, node: NodeId) -> Vec<MetadataRecord> {
    let before = image.broker(node);
    let is_new = before.is_some_and(|before| {
        let mut known = before.features.iter();
        !known.any(|known| known.name == GROUP_VERSION)
    });
    let has_groups = image.metadata_version() >= MetadataVersion::V4_0_GROUPS;
    if is_new && has_groups && image.feature(GROUP_VERSION) == 0 {
        return vec![feature(GROUP_VERSION, 1)];
    }
    Vec::new()
}

fn feature(name: &str, level: i16) -> MetadataRecord {
    let record = FeatureLevelRecord {
        name: name.to_owned(),
        feature_level: level,
    };
    record.into()
}

/// Returns the registration of a new incarnation of this broker, still fenced. Its epoch is the
/// offset that the record will have.
pub(crate) fn register(
    options: &BrokerOptions,
    incarnation: Uuid,
    directories: Vec<Uuid>,
    offset: Offset,
) -> MetadataRecord {
    let endpoint = |endpoint: &crate::options::Endpoint| EndpointEntry {
        name: endpoint.listener.clone(),
        host: endpoint.host.clone(),
        port: endpoint.port,
        security_protocol: endpoint.protocol.code(),
    };
    let feature = |(name, min, max): &(&str, i16, i16)| FeatureEntry {
        name: (*name).to_owned(),
        min_supported_version: *min,
        max_supported_version: *max,
    };
    RegisterBrokerRecord {
        broker_id: options.node_id.0,
        incarnation_id: incarnation,
        broker_epoch: offset.0,
        end_points: options.endpoints.iter().map(endpoint).collect(),
        features: SUPPORTED_FEATURES.iter().map(feature).collect(),
        rack: options.rack.clone(),
        fenced: true,
        log_dirs: directories,
        ..RegisterBrokerRecord::default()
    }
    .into()
}

/// Makes this broker the leader of every partition that has a replica here.
pub(crate) fn lead_all(image: &Image, node: NodeId) -> Vec<MetadataRecord> {
    let mut records = Vec::new();
    for topic in image.topics() {
        for (index, partition) in &topic.partitions {
            if partition.replicas.contains(&node.0) {
                let change = PartitionChangeRecord {
                    partition_id: *index,
                    topic_id: topic.id.0,
                    ..lead(partition, node)
                };
                records.push(change.into());
            }
        }
    }
    records
}

/// Makes this broker the leader of one partition `by` times, so that the leader epoch rises by
/// `by`.
pub(crate) fn raise(
    image: &Image,
    node: NodeId,
    name: &TopicPartition,
    by: i32,
) -> Vec<MetadataRecord> {
    let topic = image.topic_by_name(&name.topic);
    let state = topic.and_then(|topic| Some((topic, topic.partitions.get(&name.partition)?)));
    let Some((topic, partition)) = state else {
        return Vec::new();
    };
    let change = || PartitionChangeRecord {
        partition_id: name.partition,
        topic_id: topic.id.0,
        ..lead(partition, node)
    };
    (0..by).map(|_| change().into()).collect()
}

/// Returns the change that makes this broker the leader of a partition.
///
/// It is the only in-sync replica, and an in-sync replica is no longer in the eligible leader
/// replicas (a Kafka controller puts its stopped broker there).
fn lead(partition: &PartitionImage, node: NodeId) -> PartitionChangeRecord {
    let alone = partition.isr == [node.0];
    let others = partition
        .eligible
        .iter()
        .copied()
        .filter(|id| *id != node.0);
    let is_eligible = partition.eligible.contains(&node.0);
    PartitionChangeRecord {
        leader: node.0,
        isr: (!alone).then(|| vec![node.0]),
        leader_recovery_state: if partition.recovering { 0 } else { -1 },
        eligible_leader_replicas: is_eligible.then(|| others.collect()),
        last_known_elr: (!partition.last_known_eligible.is_empty()).then(Vec::new),
        ..PartitionChangeRecord::default()
    }
}

/// Returns the change that fences or unfences the broker; empty if the image already has that
/// state.
pub(crate) fn fence(image: &Image, node: NodeId, fenced: bool) -> Vec<MetadataRecord> {
    let Some(broker) = image.broker(node).filter(|broker| broker.fenced != fenced) else {
        return Vec::new();
    };
    let change = BrokerRegistrationChangeRecord {
        broker_id: node.0,
        broker_epoch: broker.epoch,
        fenced: if fenced { 1 } else { -1 },
        in_controlled_shutdown: i8::from(fenced),
        ..BrokerRegistrationChangeRecord::default()
    };
    vec![change.into()]
}
