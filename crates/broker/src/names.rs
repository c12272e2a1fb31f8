//! Names that Kafka or the files on disk fix and that several parts of the broker need: topics,
//! features, files.
//!
//! Invariant: this module uses nothing of the crate, so that code which needs only a name depends
//! on no other part. It has no rules about what is named.

use wire::records::metadata::MetadataVersion;
use wire::types::TopicPartition;

/// The shard that runs the controller.
pub const CONTROLLER_SHARD: usize = 0;

/// The topic of groups and their offsets.
pub const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// The topic of transactional ids.
pub const TRANSACTIONS_TOPIC: &str = "__transaction_state";

/// The topic of the metadata log, which is not in the metadata itself.
pub const METADATA_TOPIC: &str = "__cluster_metadata";

/// Returns the partition of the metadata log.
pub(crate) fn metadata_log() -> TopicPartition {
    TopicPartition {
        topic: METADATA_TOPIC.into(),
        partition: 0,
    }
}

/// The topic of what share groups have acknowledged. It is kept, and share groups are not served.
pub(crate) const SHARE_STATE_TOPIC: &str = "__share_group_state";

/// Topics that Kafka reserves.
const INTERNAL_TOPICS: [&str; 3] = [OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC];

/// Returns true for topics that Kafka reserves.
pub(crate) fn is_internal(topic: &str) -> bool {
    INTERNAL_TOPICS.contains(&topic)
}

/// The feature of group protocols: level 1 has consumer groups.
pub(crate) const GROUP_VERSION: &str = "group.version";

/// The feature of transactions: its level selects the protocol.
pub(crate) const TRANSACTION_VERSION: &str = "transaction.version";

/// Features that this broker supports: name, lowest and highest level.
pub(crate) const SUPPORTED_FEATURES: [(&str, i16, i16); 4] = [
    (GROUP_VERSION, 0, 1),
    ("kraft.version", 0, 1),
    (
        MetadataVersion::FEATURE,
        MetadataVersion::V3_3.0,
        MetadataVersion::V4_3.0,
    ),
    (TRANSACTION_VERSION, 0, 2),
];

const _: () = {
    let mut at = 0;
    while at < SUPPORTED_FEATURES.len() {
        assert!(
            SUPPORTED_FEATURES[at].1 <= SUPPORTED_FEATURES[at].2,
            "a feature has a level"
        );
        at += 1;
    }
};

/// The file with the last reading of the wall clock, in the directory of the metadata log.
pub(crate) const CLOCK_FILE: &str = "clock-checkpoint";
