//! The shapes of Produce and Fetch, whose codecs do not use them.
//!
//! Only code that builds requests reads them. Not here: tagged fields.

use crate::kafka::shape::schema::{BLOB, Field, I8, I16, I32, I64, ID, TEXT, each, field, list};

pub(super) const PRODUCE: &[Field] = &[
    field("transactional_id", TEXT),
    field("acks", I16),
    field("timeout_ms", I32),
    list(
        "topic_data",
        &[
            field("name", TEXT).until(12),
            field("topic_id", ID).since(13),
            list(
                "partition_data",
                &[field("index", I32), field("records", BLOB)],
            ),
        ],
    ),
];

pub(super) const FETCH: &[Field] = &[
    field("replica_id", I32).until(14),
    field("max_wait_ms", I32),
    field("min_bytes", I32),
    field("max_bytes", I32),
    field("isolation_level", I8),
    field("session_id", I32).since(7),
    field("session_epoch", I32).since(7),
    list(
        "topics",
        &[
            field("topic", TEXT).until(12),
            field("topic_id", ID).since(13),
            list(
                "partitions",
                &[
                    field("partition", I32),
                    field("current_leader_epoch", I32).since(9),
                    field("fetch_offset", I64),
                    field("last_fetched_epoch", I32).since(12),
                    field("log_start_offset", I64).since(5),
                    field("partition_max_bytes", I32),
                ],
            ),
        ],
    ),
    list(
        "forgotten_topics_data",
        &[
            field("topic", TEXT).until(12),
            field("topic_id", ID).since(13),
            each("partitions", &I32),
        ],
    )
    .since(7),
    field("rack_id", TEXT).since(11),
];
