//! The shapes of answers: fields in order, with their versions and tags.
//!
//! Facts of the protocol, one constant per answer, for [`super::decode_answer`]. They describe what
//! the generated decoders read, so a field that a later version of the protocol adds is read there
//! first.

use super::schema::Field;
use crate::kafka::api::Api;

mod cluster;
mod configs;
mod groups;
mod records;
mod security;
mod topics;
mod transactions;

/// Returns the shape of the answer to a request.
pub(super) const fn of(api: Api) -> &'static [Field] {
    match api {
        Api::Produce => records::PRODUCE,
        Api::Fetch => records::FETCH,
        Api::ListOffsets => records::LIST_OFFSETS,
        Api::Metadata => topics::METADATA,
        Api::OffsetCommit => groups::OFFSET_COMMIT,
        Api::OffsetFetch => groups::OFFSET_FETCH,
        Api::FindCoordinator => cluster::FIND_COORDINATOR,
        Api::JoinGroup => groups::JOIN_GROUP,
        Api::Heartbeat => groups::HEARTBEAT,
        Api::LeaveGroup => groups::LEAVE_GROUP,
        Api::SyncGroup => groups::SYNC_GROUP,
        Api::DescribeGroups => groups::DESCRIBE_GROUPS,
        Api::ListGroups => groups::LIST_GROUPS,
        Api::SaslHandshake => security::SASL_HANDSHAKE,
        Api::ApiVersions => cluster::API_VERSIONS,
        Api::CreateTopics => topics::CREATE_TOPICS,
        Api::DeleteTopics => topics::DELETE_TOPICS,
        Api::DeleteRecords => records::DELETE_RECORDS,
        Api::InitProducerId => transactions::INIT_PRODUCER_ID,
        Api::OffsetForLeaderEpoch => records::OFFSET_FOR_LEADER_EPOCH,
        Api::AddPartitionsToTxn => transactions::ADD_PARTITIONS_TO_TXN,
        Api::AddOffsetsToTxn => transactions::ADD_OFFSETS_TO_TXN,
        Api::EndTxn => transactions::END_TXN,
        Api::WriteTxnMarkers => transactions::WRITE_TXN_MARKERS,
        Api::TxnOffsetCommit => transactions::TXN_OFFSET_COMMIT,
        Api::DescribeAcls => security::DESCRIBE_ACLS,
        Api::CreateAcls => security::CREATE_ACLS,
        Api::DeleteAcls => security::DELETE_ACLS,
        Api::DescribeConfigs => configs::DESCRIBE_CONFIGS,
        Api::AlterConfigs => configs::ALTER_CONFIGS,
        Api::AlterReplicaLogDirs => configs::ALTER_REPLICA_LOG_DIRS,
        Api::DescribeLogDirs => configs::DESCRIBE_LOG_DIRS,
        Api::SaslAuthenticate => security::SASL_AUTHENTICATE,
        Api::CreatePartitions => topics::CREATE_PARTITIONS,
        Api::CreateDelegationToken => security::CREATE_DELEGATION_TOKEN,
        Api::RenewDelegationToken => security::RENEW_DELEGATION_TOKEN,
        Api::ExpireDelegationToken => security::EXPIRE_DELEGATION_TOKEN,
        Api::DescribeDelegationToken => security::DESCRIBE_DELEGATION_TOKEN,
        Api::DeleteGroups => groups::DELETE_GROUPS,
        Api::ElectLeaders => topics::ELECT_LEADERS,
        Api::IncrementalAlterConfigs => configs::INCREMENTAL_ALTER_CONFIGS,
        Api::AlterPartitionReassignments => topics::ALTER_PARTITION_REASSIGNMENTS,
        Api::ListPartitionReassignments => topics::LIST_PARTITION_REASSIGNMENTS,
        Api::OffsetDelete => groups::OFFSET_DELETE,
        Api::DescribeClientQuotas => configs::DESCRIBE_CLIENT_QUOTAS,
        Api::AlterClientQuotas => configs::ALTER_CLIENT_QUOTAS,
        Api::DescribeUserScramCredentials => security::DESCRIBE_USER_SCRAM_CREDENTIALS,
        Api::AlterUserScramCredentials => security::ALTER_USER_SCRAM_CREDENTIALS,
        Api::DescribeQuorum => cluster::DESCRIBE_QUORUM,
        Api::UpdateFeatures => cluster::UPDATE_FEATURES,
        Api::DescribeCluster => cluster::DESCRIBE_CLUSTER,
        Api::DescribeProducers => transactions::DESCRIBE_PRODUCERS,
        Api::UnregisterBroker => cluster::UNREGISTER_BROKER,
        Api::DescribeTransactions => transactions::DESCRIBE_TRANSACTIONS,
        Api::ListTransactions => transactions::LIST_TRANSACTIONS,
        Api::ConsumerGroupHeartbeat => groups::CONSUMER_GROUP_HEARTBEAT,
        Api::ConsumerGroupDescribe => groups::CONSUMER_GROUP_DESCRIBE,
        Api::GetTelemetrySubscriptions => configs::GET_TELEMETRY_SUBSCRIPTIONS,
        Api::PushTelemetry => configs::PUSH_TELEMETRY,
        Api::ListConfigResources => configs::LIST_CONFIG_RESOURCES,
        Api::DescribeTopicPartitions => topics::DESCRIBE_TOPIC_PARTITIONS,
        Api::AddRaftVoter => cluster::ADD_RAFT_VOTER,
        Api::RemoveRaftVoter => cluster::REMOVE_RAFT_VOTER,
    }
}
