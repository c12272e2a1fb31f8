//! The shapes of answers about records and offsets of partitions.

use crate::kafka::shape::schema::{
    BLOB, Field, FieldKind, I16, I32, I64, ID, TEXT, field, list, tagged,
};

pub(super) const PRODUCE: &[Field] = &[
    list(
        "responses",
        &[
            field("name", TEXT).until(12),
            field("topic_id", ID).since(13),
            list(
                "partition_responses",
                &[
                    field("index", I32),
                    field("error_code", I16),
                    field("base_offset", I64),
                    field("log_append_time_ms", I64),
                    field("log_start_offset", I64).since(5),
                    list(
                        "record_errors",
                        &[
                            field("batch_index", I32).since(8),
                            field("batch_index_error_message", TEXT).since(8),
                        ],
                    )
                    .since(8),
                    field("error_message", TEXT).since(8),
                    tagged(
                        0,
                        "current_leader",
                        &FieldKind::Struct(&[
                            field("leader_id", I32).since(10),
                            field("leader_epoch", I32).since(10),
                        ]),
                    )
                    .since(10),
                ],
            ),
        ],
    ),
    field("throttle_time_ms", I32),
    tagged(
        0,
        "node_endpoints",
        &FieldKind::List(&[
            field("node_id", I32).since(10),
            field("host", TEXT).since(10),
            field("port", I32).since(10),
            field("rack", TEXT).since(10),
        ]),
    )
    .since(10),
];

pub(super) const FETCH: &[Field] = &[
    field("throttle_time_ms", I32),
    field("error_code", I16).since(7),
    field("session_id", I32).since(7),
    list(
        "responses",
        &[
            field("topic", TEXT).until(12),
            field("topic_id", ID).since(13),
            list(
                "partitions",
                &[
                    field("partition_index", I32),
                    field("error_code", I16),
                    field("high_watermark", I64),
                    field("last_stable_offset", I64),
                    field("log_start_offset", I64).since(5),
                    list(
                        "aborted_transactions",
                        &[field("producer_id", I64), field("first_offset", I64)],
                    ),
                    field("preferred_read_replica", I32).since(11),
                    field("records", BLOB),
                    tagged(
                        0,
                        "diverging_epoch",
                        &FieldKind::Struct(&[
                            field("epoch", I32).since(12),
                            field("end_offset", I64).since(12),
                        ]),
                    ),
                    tagged(
                        1,
                        "current_leader",
                        &FieldKind::Struct(&[
                            field("leader_id", I32).since(12),
                            field("leader_epoch", I32).since(12),
                        ]),
                    ),
                    tagged(
                        2,
                        "snapshot_id",
                        &FieldKind::Struct(&[field("end_offset", I64), field("epoch", I32)]),
                    ),
                ],
            ),
        ],
    ),
    tagged(
        0,
        "node_endpoints",
        &FieldKind::List(&[
            field("node_id", I32).since(16),
            field("host", TEXT).since(16),
            field("port", I32).since(16),
            field("rack", TEXT).since(16),
        ]),
    )
    .since(16),
];

pub(super) const LIST_OFFSETS: &[Field] = &[
    field("throttle_time_ms", I32).since(2),
    list(
        "topics",
        &[
            field("name", TEXT),
            list(
                "partitions",
                &[
                    field("partition_index", I32),
                    field("error_code", I16),
                    field("timestamp", I64),
                    field("offset", I64),
                    field("leader_epoch", I32).since(4),
                ],
            ),
        ],
    ),
];

pub(super) const DELETE_RECORDS: &[Field] = &[
    field("throttle_time_ms", I32),
    list(
        "topics",
        &[
            field("name", TEXT),
            list(
                "partitions",
                &[
                    field("partition_index", I32),
                    field("low_watermark", I64),
                    field("error_code", I16),
                ],
            ),
        ],
    ),
];

pub(super) const OFFSET_FOR_LEADER_EPOCH: &[Field] = &[
    field("throttle_time_ms", I32),
    list(
        "topics",
        &[
            field("topic", TEXT),
            list(
                "partitions",
                &[
                    field("error_code", I16),
                    field("partition", I32),
                    field("leader_epoch", I32),
                    field("end_offset", I64),
                ],
            ),
        ],
    ),
];
