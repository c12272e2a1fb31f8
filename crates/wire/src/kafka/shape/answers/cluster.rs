//! The shapes of answers about brokers, coordinators and the cluster itself.

use crate::kafka::shape::schema::{
    BOOL, Field, FieldKind, I8, I16, I32, I64, ID, TEXT, field, list, tagged,
};

pub(super) const API_VERSIONS: &[Field] = &[
    field("error_code", I16),
    list(
        "api_keys",
        &[
            field("api_key", I16),
            field("min_version", I16),
            field("max_version", I16),
        ],
    ),
    field("throttle_time_ms", I32).since(1),
    tagged(
        0,
        "supported_features",
        &FieldKind::List(&[
            field("name", TEXT).since(3),
            field("min_version", I16).since(3),
            field("max_version", I16).since(3),
        ]),
    ),
    tagged(1, "finalized_features_epoch", &I64),
    tagged(
        2,
        "finalized_features",
        &FieldKind::List(&[
            field("name", TEXT).since(3),
            field("max_version_level", I16).since(3),
            field("min_version_level", I16).since(3),
        ]),
    ),
    tagged(3, "zk_migration_ready", &BOOL),
];

pub(super) const FIND_COORDINATOR: &[Field] = &[
    field("throttle_time_ms", I32).since(1),
    field("error_code", I16).until(3),
    field("error_message", TEXT).since(1).until(3),
    field("node_id", I32).until(3),
    field("host", TEXT).until(3),
    field("port", I32).until(3),
    list(
        "coordinators",
        &[
            field("key", TEXT).since(4),
            field("node_id", I32).since(4),
            field("host", TEXT).since(4),
            field("port", I32).since(4),
            field("error_code", I16).since(4),
            field("error_message", TEXT).since(4),
        ],
    )
    .since(4),
];

pub(super) const DESCRIBE_CLUSTER: &[Field] = &[
    field("throttle_time_ms", I32),
    field("error_code", I16),
    field("error_message", TEXT),
    field("endpoint_type", I8).since(1),
    field("cluster_id", TEXT),
    field("controller_id", I32),
    list(
        "brokers",
        &[
            field("broker_id", I32),
            field("host", TEXT),
            field("port", I32),
            field("rack", TEXT),
            field("is_fenced", BOOL).since(2),
        ],
    ),
    field("cluster_authorized_operations", I32),
];

pub(super) const DESCRIBE_QUORUM: &[Field] = &[
    field("error_code", I16),
    field("error_message", TEXT).since(2),
    list(
        "topics",
        &[
            field("topic_name", TEXT),
            list(
                "partitions",
                &[
                    field("partition_index", I32),
                    field("error_code", I16),
                    field("error_message", TEXT).since(2),
                    field("leader_id", I32),
                    field("leader_epoch", I32),
                    field("high_watermark", I64),
                    list(
                        "current_voters",
                        &[
                            field("replica_id", I32),
                            field("replica_directory_id", ID).since(2),
                            field("log_end_offset", I64),
                            field("last_fetch_timestamp", I64).since(1),
                            field("last_caught_up_timestamp", I64).since(1),
                        ],
                    ),
                    list(
                        "observers",
                        &[
                            field("replica_id", I32),
                            field("replica_directory_id", ID).since(2),
                            field("log_end_offset", I64),
                            field("last_fetch_timestamp", I64).since(1),
                            field("last_caught_up_timestamp", I64).since(1),
                        ],
                    ),
                ],
            ),
        ],
    ),
    list(
        "nodes",
        &[
            field("node_id", I32).since(2),
            list(
                "listeners",
                &[
                    field("name", TEXT).since(2),
                    field("host", TEXT).since(2),
                    field("port", I16).since(2),
                ],
            )
            .since(2),
        ],
    )
    .since(2),
];

pub(super) const UPDATE_FEATURES: &[Field] = &[
    field("throttle_time_ms", I32),
    field("error_code", I16),
    field("error_message", TEXT),
    list(
        "results",
        &[
            field("feature", TEXT),
            field("error_code", I16),
            field("error_message", TEXT),
        ],
    )
    .until(1),
];

pub(super) const UNREGISTER_BROKER: &[Field] = &[
    field("throttle_time_ms", I32),
    field("error_code", I16),
    field("error_message", TEXT),
];

pub(super) const ADD_RAFT_VOTER: &[Field] = &[
    field("throttle_time_ms", I32),
    field("error_code", I16),
    field("error_message", TEXT),
];

pub(super) const REMOVE_RAFT_VOTER: &[Field] = &[
    field("throttle_time_ms", I32),
    field("error_code", I16),
    field("error_message", TEXT),
];
