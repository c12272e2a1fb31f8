//! The shapes of answers about settings, quotas, log directories and telemetry.

use crate::kafka::shape::schema::{
    BOOL, F64, Field, I8, I16, I32, I64, ID, TEXT, each, field, list,
};

pub(super) const DESCRIBE_CONFIGS: &[Field] = &[
    field("throttle_time_ms", I32),
    list(
        "results",
        &[
            field("error_code", I16),
            field("error_message", TEXT),
            field("resource_type", I8),
            field("resource_name", TEXT),
            list(
                "configs",
                &[
                    field("name", TEXT),
                    field("value", TEXT),
                    field("read_only", BOOL),
                    field("config_source", I8),
                    field("is_sensitive", BOOL),
                    list(
                        "synonyms",
                        &[
                            field("name", TEXT),
                            field("value", TEXT),
                            field("source", I8),
                        ],
                    ),
                    field("config_type", I8).since(3),
                    field("documentation", TEXT).since(3),
                ],
            ),
        ],
    ),
];

pub(super) const ALTER_CONFIGS: &[Field] = &[
    field("throttle_time_ms", I32),
    list(
        "responses",
        &[
            field("error_code", I16),
            field("error_message", TEXT),
            field("resource_type", I8),
            field("resource_name", TEXT),
        ],
    ),
];

pub(super) const INCREMENTAL_ALTER_CONFIGS: &[Field] = &[
    field("throttle_time_ms", I32),
    list(
        "responses",
        &[
            field("error_code", I16),
            field("error_message", TEXT),
            field("resource_type", I8),
            field("resource_name", TEXT),
        ],
    ),
];

pub(super) const LIST_CONFIG_RESOURCES: &[Field] = &[
    field("throttle_time_ms", I32),
    field("error_code", I16),
    list(
        "config_resources",
        &[
            field("resource_name", TEXT),
            field("resource_type", I8).since(1),
        ],
    ),
];

pub(super) const DESCRIBE_CLIENT_QUOTAS: &[Field] = &[
    field("throttle_time_ms", I32),
    field("error_code", I16),
    field("error_message", TEXT),
    list(
        "entries",
        &[
            list(
                "entity",
                &[field("entity_type", TEXT), field("entity_name", TEXT)],
            ),
            list("values", &[field("key", TEXT), field("value", F64)]),
        ],
    ),
];

pub(super) const ALTER_CLIENT_QUOTAS: &[Field] = &[
    field("throttle_time_ms", I32),
    list(
        "entries",
        &[
            field("error_code", I16),
            field("error_message", TEXT),
            list(
                "entity",
                &[field("entity_type", TEXT), field("entity_name", TEXT)],
            ),
        ],
    ),
];

pub(super) const ALTER_REPLICA_LOG_DIRS: &[Field] = &[
    field("throttle_time_ms", I32),
    list(
        "results",
        &[
            field("topic_name", TEXT),
            list(
                "partitions",
                &[field("partition_index", I32), field("error_code", I16)],
            ),
        ],
    ),
];

pub(super) const DESCRIBE_LOG_DIRS: &[Field] = &[
    field("throttle_time_ms", I32),
    field("error_code", I16).since(3),
    list(
        "results",
        &[
            field("error_code", I16),
            field("log_dir", TEXT),
            list(
                "topics",
                &[
                    field("name", TEXT),
                    list(
                        "partitions",
                        &[
                            field("partition_index", I32),
                            field("partition_size", I64),
                            field("offset_lag", I64),
                            field("is_future_key", BOOL),
                        ],
                    ),
                ],
            ),
            field("total_bytes", I64).since(4),
            field("usable_bytes", I64).since(4),
            field("is_cordoned", BOOL).since(5),
        ],
    ),
];

pub(super) const GET_TELEMETRY_SUBSCRIPTIONS: &[Field] = &[
    field("throttle_time_ms", I32),
    field("error_code", I16),
    field("client_instance_id", ID),
    field("subscription_id", I32),
    each("accepted_compression_types", &I8),
    field("push_interval_ms", I32),
    field("telemetry_max_bytes", I32),
    field("delta_temporality", BOOL),
    each("requested_metrics", &TEXT),
];

pub(super) const PUSH_TELEMETRY: &[Field] =
    &[field("throttle_time_ms", I32), field("error_code", I16)];
