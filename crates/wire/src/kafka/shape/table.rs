//! The shapes of the requests that the generated codecs decode: fields in order, with their
//! versions.
//!
//! Facts of the protocol, one constant per request, in the order of the keys. Requests about
//! authentication and ACLs are in [`security`], requests about the cluster itself in [`cluster`].
//! Produce and Fetch have their own codecs. None of these requests has a known tagged field in the
//! served versions. Fields of unserved versions are listed because the decoded structures have room
//! for them.

use super::schema::{
    BLOB, BOOL, F64, Field, I8, I16, I32, I64, ID, TEXT, each, field, list, optional,
};
use crate::kafka::api::Api;

mod cluster;
mod records;
mod security;

/// Returns the shape of a request; `None` for Produce and Fetch.
pub(super) const fn of(api: Api) -> Option<&'static [Field]> {
    Some(match api {
        Api::Produce | Api::Fetch => return None,
        Api::ListOffsets => LIST_OFFSETS,
        Api::Metadata => METADATA,
        Api::OffsetCommit => OFFSET_COMMIT,
        Api::OffsetFetch => OFFSET_FETCH,
        Api::FindCoordinator => FIND_COORDINATOR,
        Api::JoinGroup => JOIN_GROUP,
        Api::Heartbeat => HEARTBEAT,
        Api::LeaveGroup => LEAVE_GROUP,
        Api::SyncGroup => SYNC_GROUP,
        Api::DescribeGroups => DESCRIBE_GROUPS,
        Api::ListGroups => LIST_GROUPS,
        Api::ApiVersions => API_VERSIONS,
        Api::CreateTopics => CREATE_TOPICS,
        Api::DeleteTopics => DELETE_TOPICS,
        Api::DeleteRecords => DELETE_RECORDS,
        Api::InitProducerId => INIT_PRODUCER_ID,
        Api::OffsetForLeaderEpoch => OFFSET_FOR_LEADER_EPOCH,
        Api::AddPartitionsToTxn => ADD_PARTITIONS_TO_TXN,
        Api::AddOffsetsToTxn => ADD_OFFSETS_TO_TXN,
        Api::EndTxn => END_TXN,
        Api::WriteTxnMarkers => WRITE_TXN_MARKERS,
        Api::TxnOffsetCommit => TXN_OFFSET_COMMIT,
        Api::DescribeConfigs => DESCRIBE_CONFIGS,
        Api::AlterConfigs => ALTER_CONFIGS,
        Api::AlterReplicaLogDirs => ALTER_REPLICA_LOG_DIRS,
        Api::DescribeLogDirs => DESCRIBE_LOG_DIRS,
        Api::CreatePartitions => CREATE_PARTITIONS,
        Api::DeleteGroups => DELETE_GROUPS,
        Api::IncrementalAlterConfigs => INCREMENTAL_ALTER_CONFIGS,
        Api::OffsetDelete => OFFSET_DELETE,
        Api::ElectLeaders => cluster::ELECT_LEADERS,
        Api::AlterPartitionReassignments => cluster::ALTER_PARTITION_REASSIGNMENTS,
        Api::ListPartitionReassignments => cluster::LIST_PARTITION_REASSIGNMENTS,
        Api::DescribeUserScramCredentials => security::DESCRIBE_USER_SCRAM_CREDENTIALS,
        Api::AlterUserScramCredentials => security::ALTER_USER_SCRAM_CREDENTIALS,
        Api::SaslHandshake => security::SASL_HANDSHAKE,
        Api::SaslAuthenticate => security::SASL_AUTHENTICATE,
        Api::DescribeAcls => security::ACL_FILTER,
        Api::CreateAcls => security::CREATE_ACLS,
        Api::DeleteAcls => security::DELETE_ACLS,
        Api::CreateDelegationToken => security::CREATE_DELEGATION_TOKEN,
        Api::RenewDelegationToken | Api::ExpireDelegationToken => security::DELEGATION_TOKEN_TIME,
        Api::DescribeDelegationToken => security::DESCRIBE_DELEGATION_TOKEN,
        Api::UnregisterBroker => cluster::UNREGISTER_BROKER,
        Api::AddRaftVoter => cluster::ADD_RAFT_VOTER,
        Api::RemoveRaftVoter => cluster::REMOVE_RAFT_VOTER,
        Api::DescribeQuorum => cluster::DESCRIBE_QUORUM,
        Api::UpdateFeatures => cluster::UPDATE_FEATURES,
        Api::GetTelemetrySubscriptions => GET_TELEMETRY_SUBSCRIPTIONS,
        Api::PushTelemetry => PUSH_TELEMETRY,
        Api::ListConfigResources => LIST_CONFIG_RESOURCES,
        Api::DescribeClientQuotas => DESCRIBE_CLIENT_QUOTAS,
        Api::AlterClientQuotas => ALTER_CLIENT_QUOTAS,
        Api::DescribeCluster => cluster::DESCRIBE_CLUSTER,
        Api::DescribeProducers => DESCRIBE_PRODUCERS,
        Api::DescribeTransactions => DESCRIBE_TRANSACTIONS,
        Api::ListTransactions => LIST_TRANSACTIONS,
        Api::ConsumerGroupHeartbeat => CONSUMER_GROUP_HEARTBEAT,
        Api::ConsumerGroupDescribe => CONSUMER_GROUP_DESCRIBE,
        Api::DescribeTopicPartitions => DESCRIBE_TOPIC_PARTITIONS,
    })
}

/// Returns the shape of Produce or Fetch, which their codecs do not use.
pub(super) const fn with_records(api: Api) -> &'static [Field] {
    match api {
        Api::Produce => records::PRODUCE,
        _ => records::FETCH,
    }
}

const LIST_OFFSETS: &[Field] = &[
    field("replica_id", I32),
    field("isolation_level", I8).since(2),
    list(
        "topics",
        &[
            field("name", TEXT),
            list(
                "partitions",
                &[
                    field("partition_index", I32),
                    field("current_leader_epoch", I32).since(4),
                    field("timestamp", I64),
                ],
            ),
        ],
    ),
    field("timeout_ms", I32).since(10),
];

const METADATA: &[Field] = &[
    list(
        "topics",
        &[field("topic_id", ID).since(10), field("name", TEXT)],
    ),
    field("allow_auto_topic_creation", BOOL).since(4),
    field("include_cluster_authorized_operations", BOOL)
        .since(8)
        .until(10),
    field("include_topic_authorized_operations", BOOL).since(8),
];

const OFFSET_COMMIT: &[Field] = &[
    field("group_id", TEXT),
    field("generation_id_or_member_epoch", I32),
    field("member_id", TEXT),
    field("group_instance_id", TEXT).since(7),
    field("retention_time_ms", I64).until(4),
    list(
        "topics",
        &[
            field("name", TEXT).until(9),
            field("topic_id", ID).since(10),
            list(
                "partitions",
                &[
                    field("partition_index", I32),
                    field("committed_offset", I64),
                    field("committed_leader_epoch", I32).since(6),
                    field("committed_metadata", TEXT),
                ],
            ),
        ],
    ),
];

const OFFSET_FETCH: &[Field] = &[
    field("group_id", TEXT).until(7),
    list(
        "topics",
        &[
            field("name", TEXT).until(7),
            each("partition_indexes", &I32).until(7),
        ],
    )
    .until(7),
    list(
        "groups",
        &[
            field("group_id", TEXT).since(8),
            field("member_id", TEXT).since(9),
            field("member_epoch", I32).since(9),
            list(
                "topics",
                &[
                    field("name", TEXT).since(8).until(9),
                    field("topic_id", ID).since(10),
                    each("partition_indexes", &I32).since(8),
                ],
            )
            .since(8),
        ],
    )
    .since(8),
    field("require_stable", BOOL).since(7),
];

const FIND_COORDINATOR: &[Field] = &[
    field("key", TEXT).until(3),
    field("key_type", I8).since(1),
    each("coordinator_keys", &TEXT).since(4),
];

const JOIN_GROUP: &[Field] = &[
    field("group_id", TEXT),
    field("session_timeout_ms", I32),
    field("rebalance_timeout_ms", I32).since(1),
    field("member_id", TEXT),
    field("group_instance_id", TEXT).since(5),
    field("protocol_type", TEXT),
    list("protocols", &[field("name", TEXT), field("metadata", BLOB)]),
    field("reason", TEXT).since(8),
];

const HEARTBEAT: &[Field] = &[
    field("group_id", TEXT),
    field("generation_id", I32),
    field("member_id", TEXT),
    field("group_instance_id", TEXT).since(3),
];

const LEAVE_GROUP: &[Field] = &[
    field("group_id", TEXT),
    field("member_id", TEXT).until(2),
    list(
        "members",
        &[
            field("member_id", TEXT).since(3),
            field("group_instance_id", TEXT).since(3),
            field("reason", TEXT).since(5),
        ],
    )
    .since(3),
];

const SYNC_GROUP: &[Field] = &[
    field("group_id", TEXT),
    field("generation_id", I32),
    field("member_id", TEXT),
    field("group_instance_id", TEXT).since(3),
    field("protocol_type", TEXT).since(5),
    field("protocol_name", TEXT).since(5),
    list(
        "assignments",
        &[field("member_id", TEXT), field("assignment", BLOB)],
    ),
];

const DESCRIBE_GROUPS: &[Field] = &[
    each("groups", &TEXT),
    field("include_authorized_operations", BOOL).since(3),
];

const LIST_GROUPS: &[Field] = &[
    each("states_filter", &TEXT).since(4),
    each("types_filter", &TEXT).since(5),
];

const API_VERSIONS: &[Field] = &[
    field("client_software_name", TEXT).since(3),
    field("client_software_version", TEXT).since(3),
];

const CREATE_TOPICS: &[Field] = &[
    list(
        "topics",
        &[
            field("name", TEXT),
            field("num_partitions", I32),
            field("replication_factor", I16),
            list(
                "assignments",
                &[field("partition_index", I32), each("broker_ids", &I32)],
            ),
            list("configs", &[field("name", TEXT), field("value", TEXT)]),
        ],
    ),
    field("timeout_ms", I32),
    field("validate_only", BOOL),
];

const DELETE_TOPICS: &[Field] = &[
    list(
        "topics",
        &[field("name", TEXT).since(6), field("topic_id", ID).since(6)],
    )
    .since(6),
    each("topic_names", &TEXT).until(5),
    field("timeout_ms", I32),
];

const DELETE_RECORDS: &[Field] = &[
    list(
        "topics",
        &[
            field("name", TEXT),
            list(
                "partitions",
                &[field("partition_index", I32), field("offset", I64)],
            ),
        ],
    ),
    field("timeout_ms", I32),
];

const INIT_PRODUCER_ID: &[Field] = &[
    field("transactional_id", TEXT),
    field("transaction_timeout_ms", I32),
    field("producer_id", I64).since(3),
    field("producer_epoch", I16).since(3),
];

const OFFSET_FOR_LEADER_EPOCH: &[Field] = &[
    field("replica_id", I32).since(3),
    list(
        "topics",
        &[
            field("topic", TEXT),
            list(
                "partitions",
                &[
                    field("partition", I32),
                    field("current_leader_epoch", I32),
                    field("leader_epoch", I32),
                ],
            ),
        ],
    ),
];

const TXN_TOPICS: &[Field] = &[field("name", TEXT), each("partitions", &I32)];

const ADD_PARTITIONS_TO_TXN: &[Field] = &[
    list(
        "transactions",
        &[
            field("transactional_id", TEXT),
            field("producer_id", I64),
            field("producer_epoch", I16),
            field("verify_only", BOOL),
            list("topics", TXN_TOPICS),
        ],
    )
    .since(4),
    field("v3_and_below_transactional_id", TEXT).until(3),
    field("v3_and_below_producer_id", I64).until(3),
    field("v3_and_below_producer_epoch", I16).until(3),
    list("v3_and_below_topics", TXN_TOPICS).until(3),
];

const ADD_OFFSETS_TO_TXN: &[Field] = &[
    field("transactional_id", TEXT),
    field("producer_id", I64),
    field("producer_epoch", I16),
    field("group_id", TEXT),
];

const END_TXN: &[Field] = &[
    field("transactional_id", TEXT),
    field("producer_id", I64),
    field("producer_epoch", I16),
    field("committed", BOOL),
];

const WRITE_TXN_MARKERS: &[Field] = &[list(
    "markers",
    &[
        field("producer_id", I64),
        field("producer_epoch", I16),
        field("transaction_result", BOOL),
        list(
            "topics",
            &[field("name", TEXT), each("partition_indexes", &I32)],
        ),
        field("coordinator_epoch", I32),
        field("transaction_version", I8).since(2),
    ],
)];

const TXN_OFFSET_COMMIT: &[Field] = &[
    field("transactional_id", TEXT),
    field("group_id", TEXT),
    field("producer_id", I64),
    field("producer_epoch", I16),
    field("generation_id", I32).since(3),
    field("member_id", TEXT).since(3),
    field("group_instance_id", TEXT).since(3),
    list(
        "topics",
        &[
            field("name", TEXT),
            list(
                "partitions",
                &[
                    field("partition_index", I32),
                    field("committed_offset", I64),
                    field("committed_leader_epoch", I32).since(2),
                    field("committed_metadata", TEXT),
                ],
            ),
        ],
    ),
];

const DESCRIBE_TRANSACTIONS: &[Field] = &[each("transactional_ids", &TEXT)];

const LIST_TRANSACTIONS: &[Field] = &[
    each("state_filters", &TEXT),
    each("producer_id_filters", &I64),
    field("duration_filter", I64).since(1),
    field("transactional_id_pattern", TEXT).since(2),
];

const DESCRIBE_CONFIGS: &[Field] = &[
    list(
        "resources",
        &[
            field("resource_type", I8),
            field("resource_name", TEXT),
            each("configuration_keys", &TEXT),
        ],
    ),
    field("include_synonyms", BOOL),
    field("include_documentation", BOOL).since(3),
];

const ALTER_CONFIGS: &[Field] = &[
    list(
        "resources",
        &[
            field("resource_type", I8),
            field("resource_name", TEXT),
            list("configs", &[field("name", TEXT), field("value", TEXT)]),
        ],
    ),
    field("validate_only", BOOL),
];

const ALTER_REPLICA_LOG_DIRS: &[Field] = &[list(
    "dirs",
    &[
        field("path", TEXT),
        list("topics", &[field("name", TEXT), each("partitions", &I32)]),
    ],
)];

const DESCRIBE_LOG_DIRS: &[Field] = &[list(
    "topics",
    &[field("topic", TEXT), each("partitions", &I32)],
)];

const CREATE_PARTITIONS: &[Field] = &[
    list(
        "topics",
        &[
            field("name", TEXT),
            field("count", I32),
            list("assignments", &[each("broker_ids", &I32)]),
        ],
    ),
    field("timeout_ms", I32),
    field("validate_only", BOOL),
];

const DELETE_GROUPS: &[Field] = &[each("groups_names", &TEXT)];

const INCREMENTAL_ALTER_CONFIGS: &[Field] = &[
    list(
        "resources",
        &[
            field("resource_type", I8),
            field("resource_name", TEXT),
            list(
                "configs",
                &[
                    field("name", TEXT),
                    field("config_operation", I8),
                    field("value", TEXT),
                ],
            ),
        ],
    ),
    field("validate_only", BOOL),
];

const OFFSET_DELETE: &[Field] = &[
    field("group_id", TEXT),
    list(
        "topics",
        &[
            field("name", TEXT),
            list("partitions", &[field("partition_index", I32)]),
        ],
    ),
];

const LIST_CONFIG_RESOURCES: &[Field] = &[each("resource_types", &I8).since(1)];

const DESCRIBE_CLIENT_QUOTAS: &[Field] = &[
    list(
        "components",
        &[
            field("entity_type", TEXT),
            field("match_type", I8),
            field("match", TEXT),
        ],
    ),
    field("strict", BOOL),
];

const ALTER_CLIENT_QUOTAS: &[Field] = &[
    list(
        "entries",
        &[
            list(
                "entity",
                &[field("entity_type", TEXT), field("entity_name", TEXT)],
            ),
            list(
                "ops",
                &[
                    field("key", TEXT),
                    field("value", F64),
                    field("remove", BOOL),
                ],
            ),
        ],
    ),
    field("validate_only", BOOL),
];

const DESCRIBE_PRODUCERS: &[Field] = &[list(
    "topics",
    &[field("name", TEXT), each("partition_indexes", &I32)],
)];

const CONSUMER_GROUP_HEARTBEAT: &[Field] = &[
    field("group_id", TEXT),
    field("member_id", TEXT),
    field("member_epoch", I32),
    field("instance_id", TEXT),
    field("rack_id", TEXT),
    field("rebalance_timeout_ms", I32),
    each("subscribed_topic_names", &TEXT),
    field("subscribed_topic_regex", TEXT).since(1),
    field("server_assignor", TEXT),
    list(
        "topic_partitions",
        &[field("topic_id", ID), each("partitions", &I32)],
    ),
];

const CONSUMER_GROUP_DESCRIBE: &[Field] = &[
    each("group_ids", &TEXT),
    field("include_authorized_operations", BOOL),
];

const GET_TELEMETRY_SUBSCRIPTIONS: &[Field] = &[field("client_instance_id", ID)];

const PUSH_TELEMETRY: &[Field] = &[
    field("client_instance_id", ID),
    field("subscription_id", I32),
    field("terminating", BOOL),
    field("compression_type", I8),
    field("metrics", BLOB),
];

const DESCRIBE_TOPIC_PARTITIONS: &[Field] = &[
    list("topics", &[field("name", TEXT)]),
    field("response_partition_limit", I32),
    optional(
        "cursor",
        &[field("topic_name", TEXT), field("partition_index", I32)],
    ),
];
