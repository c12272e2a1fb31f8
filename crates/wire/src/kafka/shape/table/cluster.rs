//! The shapes of requests about the cluster itself: its nodes, quorum and features, and partition
//! leaders.
//!
//! Facts of the protocol, as in [`super`]. Not here: decoding.

use crate::kafka::shape::schema::{BOOL, Field, I8, I16, I32, ID, TEXT, each, field, list};

pub(super) const UNREGISTER_BROKER: &[Field] = &[field("broker_id", I32)];

pub(super) const ADD_RAFT_VOTER: &[Field] = &[
    field("cluster_id", TEXT),
    field("timeout_ms", I32),
    field("voter_id", I32),
    field("voter_directory_id", ID),
    list(
        "listeners",
        &[field("name", TEXT), field("host", TEXT), field("port", I16)],
    ),
    field("ack_when_committed", BOOL).since(1),
];

pub(super) const REMOVE_RAFT_VOTER: &[Field] = &[
    field("cluster_id", TEXT),
    field("voter_id", I32),
    field("voter_directory_id", ID),
];

pub(super) const DESCRIBE_QUORUM: &[Field] = &[list(
    "topics",
    &[
        field("topic_name", TEXT),
        list("partitions", &[field("partition_index", I32)]),
    ],
)];

pub(super) const UPDATE_FEATURES: &[Field] = &[
    field("timeout_ms", I32),
    list(
        "feature_updates",
        &[
            field("feature", TEXT),
            field("max_version_level", I16),
            field("allow_downgrade", BOOL).until(0),
            field("upgrade_type", I8).since(1),
        ],
    ),
    field("validate_only", BOOL).since(1),
];

pub(super) const DESCRIBE_CLUSTER: &[Field] = &[
    field("include_cluster_authorized_operations", BOOL),
    field("endpoint_type", I8).since(1),
    field("include_fenced_brokers", BOOL).since(2),
];

pub(super) const LIST_PARTITION_REASSIGNMENTS: &[Field] = &[
    field("timeout_ms", I32),
    list(
        "topics",
        &[field("name", TEXT), each("partition_indexes", &I32)],
    ),
];

pub(super) const ALTER_PARTITION_REASSIGNMENTS: &[Field] = &[
    field("timeout_ms", I32),
    field("allow_replication_factor_change", BOOL).since(1),
    list(
        "topics",
        &[
            field("name", TEXT),
            list(
                "partitions",
                &[field("partition_index", I32), each("replicas", &I32)],
            ),
        ],
    ),
];

pub(super) const ELECT_LEADERS: &[Field] = &[
    field("election_type", I8).since(1),
    list(
        "topic_partitions",
        &[field("topic", TEXT), each("partitions", &I32)],
    ),
    field("timeout_ms", I32),
];
