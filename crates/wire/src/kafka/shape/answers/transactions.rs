//! The shapes of answers about producers and transactions.

use crate::kafka::shape::schema::{Field, I16, I32, I64, TEXT, each, field, list};

pub(super) const INIT_PRODUCER_ID: &[Field] = &[
    field("throttle_time_ms", I32),
    field("error_code", I16),
    field("producer_id", I64),
    field("producer_epoch", I16),
    field("ongoing_txn_producer_id", I64).since(6),
    field("ongoing_txn_producer_epoch", I16).since(6),
];

pub(super) const ADD_PARTITIONS_TO_TXN: &[Field] = &[
    field("throttle_time_ms", I32),
    field("error_code", I16).since(4),
    list(
        "results_by_transaction",
        &[
            field("transactional_id", TEXT).since(4),
            list(
                "topic_results",
                &[
                    field("name", TEXT),
                    list(
                        "results_by_partition",
                        &[
                            field("partition_index", I32),
                            field("partition_error_code", I16),
                        ],
                    ),
                ],
            )
            .since(4),
        ],
    )
    .since(4),
    list(
        "results_by_topic_v3_and_below",
        &[
            field("name", TEXT),
            list(
                "results_by_partition",
                &[
                    field("partition_index", I32),
                    field("partition_error_code", I16),
                ],
            ),
        ],
    )
    .until(3),
];

pub(super) const ADD_OFFSETS_TO_TXN: &[Field] =
    &[field("throttle_time_ms", I32), field("error_code", I16)];

pub(super) const END_TXN: &[Field] = &[
    field("throttle_time_ms", I32),
    field("error_code", I16),
    field("producer_id", I64).since(5),
    field("producer_epoch", I16).since(5),
];

pub(super) const WRITE_TXN_MARKERS: &[Field] = &[list(
    "markers",
    &[
        field("producer_id", I64),
        list(
            "topics",
            &[
                field("name", TEXT),
                list(
                    "partitions",
                    &[field("partition_index", I32), field("error_code", I16)],
                ),
            ],
        ),
    ],
)];

pub(super) const TXN_OFFSET_COMMIT: &[Field] = &[
    field("throttle_time_ms", I32),
    list(
        "topics",
        &[
            field("name", TEXT),
            list(
                "partitions",
                &[field("partition_index", I32), field("error_code", I16)],
            ),
        ],
    ),
];

pub(super) const DESCRIBE_PRODUCERS: &[Field] = &[
    field("throttle_time_ms", I32),
    list(
        "topics",
        &[
            field("name", TEXT),
            list(
                "partitions",
                &[
                    field("partition_index", I32),
                    field("error_code", I16),
                    field("error_message", TEXT),
                    list(
                        "active_producers",
                        &[
                            field("producer_id", I64),
                            field("producer_epoch", I32),
                            field("last_sequence", I32),
                            field("last_timestamp", I64),
                            field("coordinator_epoch", I32),
                            field("current_txn_start_offset", I64),
                        ],
                    ),
                ],
            ),
        ],
    ),
];

pub(super) const DESCRIBE_TRANSACTIONS: &[Field] = &[
    field("throttle_time_ms", I32),
    list(
        "transaction_states",
        &[
            field("error_code", I16),
            field("transactional_id", TEXT),
            field("transaction_state", TEXT),
            field("transaction_timeout_ms", I32),
            field("transaction_start_time_ms", I64),
            field("producer_id", I64),
            field("producer_epoch", I16),
            list("topics", &[field("topic", TEXT), each("partitions", &I32)]),
        ],
    ),
];

pub(super) const LIST_TRANSACTIONS: &[Field] = &[
    field("throttle_time_ms", I32),
    field("error_code", I16),
    each("unknown_state_filters", &TEXT),
    list(
        "transaction_states",
        &[
            field("transactional_id", TEXT),
            field("producer_id", I64),
            field("transaction_state", TEXT),
        ],
    ),
];
