//! The shapes of the responses that are rewritten between versions because the generated codecs
//! lack their newest version.
//!
//! Only the two rewritten versions are described: fields that changed earlier appear as in the
//! older of the two.

use super::schema::{BOOL, Field, I16, I32, I64, TEXT, field, list};

pub(super) const DESCRIBE_LOG_DIRS: &[Field] = &[
    field("throttle_time_ms", I32),
    field("error_code", I16),
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
            field("total_bytes", I64),
            field("usable_bytes", I64),
            field("is_cordoned", BOOL).since(5),
        ],
    ),
];
