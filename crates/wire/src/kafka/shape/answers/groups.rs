//! The shapes of answers about groups and their offsets.

use crate::kafka::shape::schema::{
    BLOB, BOOL, Field, FieldKind, I8, I16, I32, I64, ID, TEXT, each, field, list, optional,
};

pub(super) const OFFSET_COMMIT: &[Field] = &[
    field("throttle_time_ms", I32).since(3),
    list(
        "topics",
        &[
            field("name", TEXT).until(9),
            field("topic_id", ID).since(10),
            list(
                "partitions",
                &[field("partition_index", I32), field("error_code", I16)],
            ),
        ],
    ),
];

pub(super) const OFFSET_FETCH: &[Field] = &[
    field("throttle_time_ms", I32).since(3),
    list(
        "topics",
        &[
            field("name", TEXT).until(7),
            list(
                "partitions",
                &[
                    field("partition_index", I32).until(7),
                    field("committed_offset", I64).until(7),
                    field("committed_leader_epoch", I32).since(5).until(7),
                    field("metadata", TEXT).until(7),
                    field("error_code", I16).until(7),
                ],
            )
            .until(7),
        ],
    )
    .until(7),
    field("error_code", I16).since(2).until(7),
    list(
        "groups",
        &[
            field("group_id", TEXT).since(8),
            list(
                "topics",
                &[
                    field("name", TEXT).since(8).until(9),
                    field("topic_id", ID).since(10),
                    list(
                        "partitions",
                        &[
                            field("partition_index", I32).since(8),
                            field("committed_offset", I64).since(8),
                            field("committed_leader_epoch", I32).since(8),
                            field("metadata", TEXT).since(8),
                            field("error_code", I16).since(8),
                        ],
                    )
                    .since(8),
                ],
            )
            .since(8),
            field("error_code", I16).since(8),
        ],
    )
    .since(8),
];

pub(super) const OFFSET_DELETE: &[Field] = &[
    field("error_code", I16),
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

pub(super) const JOIN_GROUP: &[Field] = &[
    field("throttle_time_ms", I32).since(2),
    field("error_code", I16),
    field("generation_id", I32),
    field("protocol_type", TEXT).since(7),
    field("protocol_name", TEXT),
    field("leader", TEXT),
    field("skip_assignment", BOOL).since(9),
    field("member_id", TEXT),
    list(
        "members",
        &[
            field("member_id", TEXT),
            field("group_instance_id", TEXT).since(5),
            field("metadata", BLOB),
        ],
    ),
];

pub(super) const HEARTBEAT: &[Field] = &[
    field("throttle_time_ms", I32).since(1),
    field("error_code", I16),
];

pub(super) const LEAVE_GROUP: &[Field] = &[
    field("throttle_time_ms", I32).since(1),
    field("error_code", I16),
    list(
        "members",
        &[
            field("member_id", TEXT).since(3),
            field("group_instance_id", TEXT).since(3),
            field("error_code", I16).since(3),
        ],
    )
    .since(3),
];

pub(super) const SYNC_GROUP: &[Field] = &[
    field("throttle_time_ms", I32).since(1),
    field("error_code", I16),
    field("protocol_type", TEXT).since(5),
    field("protocol_name", TEXT).since(5),
    field("assignment", BLOB),
];

pub(super) const DESCRIBE_GROUPS: &[Field] = &[
    field("throttle_time_ms", I32).since(1),
    list(
        "groups",
        &[
            field("error_code", I16),
            field("error_message", TEXT).since(6),
            field("group_id", TEXT),
            field("group_state", TEXT),
            field("protocol_type", TEXT),
            field("protocol_data", TEXT),
            list(
                "members",
                &[
                    field("member_id", TEXT),
                    field("group_instance_id", TEXT).since(4),
                    field("client_id", TEXT),
                    field("client_host", TEXT),
                    field("member_metadata", BLOB),
                    field("member_assignment", BLOB),
                ],
            ),
            field("authorized_operations", I32).since(3),
        ],
    ),
];

pub(super) const LIST_GROUPS: &[Field] = &[
    field("throttle_time_ms", I32).since(1),
    field("error_code", I16),
    list(
        "groups",
        &[
            field("group_id", TEXT),
            field("protocol_type", TEXT),
            field("group_state", TEXT).since(4),
            field("group_type", TEXT).since(5),
        ],
    ),
];

pub(super) const DELETE_GROUPS: &[Field] = &[
    field("throttle_time_ms", I32),
    list(
        "results",
        &[field("group_id", TEXT), field("error_code", I16)],
    ),
];

pub(super) const CONSUMER_GROUP_HEARTBEAT: &[Field] = &[
    field("throttle_time_ms", I32),
    field("error_code", I16),
    field("error_message", TEXT),
    field("member_id", TEXT),
    field("member_epoch", I32),
    field("heartbeat_interval_ms", I32),
    optional(
        "assignment",
        &[list(
            "topic_partitions",
            &[field("topic_id", ID), each("partitions", &I32)],
        )],
    ),
];

pub(super) const CONSUMER_GROUP_DESCRIBE: &[Field] = &[
    field("throttle_time_ms", I32),
    list(
        "groups",
        &[
            field("error_code", I16),
            field("error_message", TEXT),
            field("group_id", TEXT),
            field("group_state", TEXT),
            field("group_epoch", I32),
            field("assignment_epoch", I32),
            field("assignor_name", TEXT),
            list(
                "members",
                &[
                    field("member_id", TEXT),
                    field("instance_id", TEXT),
                    field("rack_id", TEXT),
                    field("member_epoch", I32),
                    field("client_id", TEXT),
                    field("client_host", TEXT),
                    each("subscribed_topic_names", &TEXT),
                    field("subscribed_topic_regex", TEXT),
                    field(
                        "assignment",
                        FieldKind::Struct(&[list(
                            "topic_partitions",
                            &[
                                field("topic_id", ID),
                                field("topic_name", TEXT),
                                each("partitions", &I32),
                            ],
                        )]),
                    ),
                    field(
                        "target_assignment",
                        FieldKind::Struct(&[list(
                            "topic_partitions",
                            &[
                                field("topic_id", ID),
                                field("topic_name", TEXT),
                                each("partitions", &I32),
                            ],
                        )]),
                    ),
                    field("member_type", I8).since(1),
                ],
            ),
            field("authorized_operations", I32),
        ],
    ),
];
