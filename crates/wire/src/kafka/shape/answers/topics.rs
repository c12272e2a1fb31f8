//! The shapes of answers about topics, their partitions and replicas.

use crate::kafka::shape::schema::{
    BOOL, Field, I8, I16, I32, ID, TEXT, each, field, list, optional, tagged,
};

pub(super) const METADATA: &[Field] = &[
    field("throttle_time_ms", I32).since(3),
    list(
        "brokers",
        &[
            field("node_id", I32),
            field("host", TEXT),
            field("port", I32),
            field("rack", TEXT).since(1),
        ],
    ),
    field("cluster_id", TEXT).since(2),
    field("controller_id", I32).since(1),
    list(
        "topics",
        &[
            field("error_code", I16),
            field("name", TEXT),
            field("topic_id", ID).since(10),
            field("is_internal", BOOL).since(1),
            list(
                "partitions",
                &[
                    field("error_code", I16),
                    field("partition_index", I32),
                    field("leader_id", I32),
                    field("leader_epoch", I32).since(7),
                    each("replica_nodes", &I32),
                    each("isr_nodes", &I32),
                    each("offline_replicas", &I32).since(5),
                ],
            ),
            field("topic_authorized_operations", I32).since(8),
        ],
    ),
    field("cluster_authorized_operations", I32)
        .since(8)
        .until(10),
    field("error_code", I16).since(13),
];

pub(super) const CREATE_TOPICS: &[Field] = &[
    field("throttle_time_ms", I32),
    list(
        "topics",
        &[
            field("name", TEXT),
            field("topic_id", ID).since(7),
            field("error_code", I16),
            field("error_message", TEXT),
            field("num_partitions", I32).since(5),
            field("replication_factor", I16).since(5),
            list(
                "configs",
                &[
                    field("name", TEXT).since(5),
                    field("value", TEXT).since(5),
                    field("read_only", BOOL).since(5),
                    field("config_source", I8).since(5),
                    field("is_sensitive", BOOL).since(5),
                ],
            )
            .since(5),
            tagged(0, "topic_config_error_code", &I16),
        ],
    ),
];

pub(super) const DELETE_TOPICS: &[Field] = &[
    field("throttle_time_ms", I32),
    list(
        "responses",
        &[
            field("name", TEXT),
            field("topic_id", ID).since(6),
            field("error_code", I16),
            field("error_message", TEXT).since(5),
        ],
    ),
];

pub(super) const CREATE_PARTITIONS: &[Field] = &[
    field("throttle_time_ms", I32),
    list(
        "results",
        &[
            field("name", TEXT),
            field("error_code", I16),
            field("error_message", TEXT),
        ],
    ),
];

pub(super) const DESCRIBE_TOPIC_PARTITIONS: &[Field] = &[
    field("throttle_time_ms", I32),
    list(
        "topics",
        &[
            field("error_code", I16),
            field("name", TEXT),
            field("topic_id", ID),
            field("is_internal", BOOL),
            list(
                "partitions",
                &[
                    field("error_code", I16),
                    field("partition_index", I32),
                    field("leader_id", I32),
                    field("leader_epoch", I32),
                    each("replica_nodes", &I32),
                    each("isr_nodes", &I32),
                    each("eligible_leader_replicas", &I32),
                    each("last_known_elr", &I32),
                    each("offline_replicas", &I32),
                ],
            ),
            field("topic_authorized_operations", I32),
        ],
    ),
    optional(
        "next_cursor",
        &[field("topic_name", TEXT), field("partition_index", I32)],
    ),
];

pub(super) const ELECT_LEADERS: &[Field] = &[
    field("throttle_time_ms", I32),
    field("error_code", I16).since(1),
    list(
        "replica_election_results",
        &[
            field("topic", TEXT),
            list(
                "partition_result",
                &[
                    field("partition_id", I32),
                    field("error_code", I16),
                    field("error_message", TEXT),
                ],
            ),
        ],
    ),
];

pub(super) const ALTER_PARTITION_REASSIGNMENTS: &[Field] = &[
    field("throttle_time_ms", I32),
    field("allow_replication_factor_change", BOOL).since(1),
    field("error_code", I16),
    field("error_message", TEXT),
    list(
        "responses",
        &[
            field("name", TEXT),
            list(
                "partitions",
                &[
                    field("partition_index", I32),
                    field("error_code", I16),
                    field("error_message", TEXT),
                ],
            ),
        ],
    ),
];

pub(super) const LIST_PARTITION_REASSIGNMENTS: &[Field] = &[
    field("throttle_time_ms", I32),
    field("error_code", I16),
    field("error_message", TEXT),
    list(
        "topics",
        &[
            field("name", TEXT),
            list(
                "partitions",
                &[
                    field("partition_index", I32),
                    each("replicas", &I32),
                    each("adding_replicas", &I32),
                    each("removing_replicas", &I32),
                ],
            ),
        ],
    ),
];
