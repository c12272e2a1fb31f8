//! Answers from any broker: the body of the answer to each request, in each version.
//!
//! The first two bytes choose the request and the version, the rest is the body. The memory that it
//! may take is bounded by its length; libFuzzer's own limit on a single allocation holds it to that.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use wire::kafka::shape::decode_answer;
use wire::kafka::{Api, NewestVersion};
use wire::messages;

fuzz_target!(|input: &[u8]| {
    let [which, version, body @ ..] = input else {
        return;
    };
    let api = Api::ALL[usize::from(*which) % Api::ALL.len()];
    decode(api, i16::from(*version % 20), &Bytes::copy_from_slice(body));
});

macro_rules! decode_as {
    ($api:expr, $version:expr, $body:expr, $($name:ident: $message:ty,)*) => {
        match $api {
            $(Api::$name => drop(decode_answer::<$message>($version, $body)),)*
        }
    };
}

fn decode(api: Api, version: i16, body: &Bytes) {
    decode_as!(api, version, body,
        Produce: messages::ProduceRequest,
        Fetch: messages::FetchRequest,
        ListOffsets: NewestVersion<messages::ListOffsetsRequest>,
        Metadata: messages::MetadataRequest,
        OffsetCommit: NewestVersion<messages::OffsetCommitRequest>,
        OffsetFetch: NewestVersion<messages::OffsetFetchRequest>,
        FindCoordinator: messages::FindCoordinatorRequest,
        JoinGroup: messages::JoinGroupRequest,
        Heartbeat: messages::HeartbeatRequest,
        LeaveGroup: messages::LeaveGroupRequest,
        SyncGroup: messages::SyncGroupRequest,
        DescribeGroups: messages::DescribeGroupsRequest,
        ListGroups: messages::ListGroupsRequest,
        ApiVersions: messages::ApiVersionsRequest,
        CreateTopics: messages::CreateTopicsRequest,
        DeleteTopics: messages::DeleteTopicsRequest,
        DeleteRecords: messages::DeleteRecordsRequest,
        InitProducerId: messages::InitProducerIdRequest,
        ListTransactions: messages::ListTransactionsRequest,
        DescribeTransactions: messages::DescribeTransactionsRequest,
        TxnOffsetCommit: messages::TxnOffsetCommitRequest,
        WriteTxnMarkers: NewestVersion<messages::WriteTxnMarkersRequest>,
        EndTxn: messages::EndTxnRequest,
        AddOffsetsToTxn: messages::AddOffsetsToTxnRequest,
        AddPartitionsToTxn: messages::AddPartitionsToTxnRequest,
        OffsetForLeaderEpoch: messages::OffsetForLeaderEpochRequest,
        DescribeConfigs: messages::DescribeConfigsRequest,
        AlterConfigs: messages::AlterConfigsRequest,
        AlterReplicaLogDirs: messages::AlterReplicaLogDirsRequest,
        DescribeLogDirs: NewestVersion<messages::DescribeLogDirsRequest>,
        CreatePartitions: messages::CreatePartitionsRequest,
        DeleteGroups: messages::DeleteGroupsRequest,
        IncrementalAlterConfigs: messages::IncrementalAlterConfigsRequest,
        OffsetDelete: messages::OffsetDeleteRequest,
        ElectLeaders: messages::ElectLeadersRequest,
        AlterPartitionReassignments: messages::AlterPartitionReassignmentsRequest,
        ListPartitionReassignments: messages::ListPartitionReassignmentsRequest,
        DescribeUserScramCredentials: messages::DescribeUserScramCredentialsRequest,
        AlterUserScramCredentials: messages::AlterUserScramCredentialsRequest,
        GetTelemetrySubscriptions: messages::GetTelemetrySubscriptionsRequest,
        PushTelemetry: messages::PushTelemetryRequest,
        DescribeQuorum: messages::DescribeQuorumRequest,
        UpdateFeatures: messages::UpdateFeaturesRequest,
        ListConfigResources: messages::ListConfigResourcesRequest,
        DescribeClientQuotas: messages::DescribeClientQuotasRequest,
        AlterClientQuotas: messages::AlterClientQuotasRequest,
        DescribeCluster: messages::DescribeClusterRequest,
        DescribeProducers: messages::DescribeProducersRequest,
        ConsumerGroupHeartbeat: messages::ConsumerGroupHeartbeatRequest,
        ConsumerGroupDescribe: messages::ConsumerGroupDescribeRequest,
        DescribeTopicPartitions: messages::DescribeTopicPartitionsRequest,
        SaslHandshake: messages::SaslHandshakeRequest,
        SaslAuthenticate: messages::SaslAuthenticateRequest,
        DescribeAcls: messages::DescribeAclsRequest,
        CreateAcls: messages::CreateAclsRequest,
        DeleteAcls: messages::DeleteAclsRequest,
        CreateDelegationToken: messages::CreateDelegationTokenRequest,
        RenewDelegationToken: messages::RenewDelegationTokenRequest,
        ExpireDelegationToken: messages::ExpireDelegationTokenRequest,
        DescribeDelegationToken: messages::DescribeDelegationTokenRequest,
        UnregisterBroker: messages::UnregisterBrokerRequest,
        AddRaftVoter: NewestVersion<messages::AddRaftVoterRequest>,
        RemoveRaftVoter: messages::RemoveRaftVoterRequest,
    );
}
