//! Requests from any peer: frames, headers, bodies.
//!
//! The input is what a socket gave. Every frame in it is taken off, its header read, its body
//! decoded. The memory that a body may take is bounded as in the broker; libFuzzer's own limit on a
//! single allocation holds it to that.
#![no_main]

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use wire::kafka::frame::next_frame;
use wire::kafka::shape::{decode_request, decoded_bytes};
use wire::kafka::{Api, NewestVersion, Request, fetch, produce};
use wire::messages;

const FRAME_BYTES_MAX: usize = 1 << 20;
const DECODED_BYTES_MAX: usize = 64 << 20;

fuzz_target!(|input: &[u8]| {
    let mut read = BytesMut::from(input);
    while let Ok(Some(frame)) = next_frame(&mut read, FRAME_BYTES_MAX) {
        match Request::parse(&frame) {
            Ok(request) if request.is_unknown_api_versions() => {}
            Ok(request) => decode(request.header.api, request.header.version, &request.body),
            Err(error) => drop(error.to_string()),
        }
    }
});

macro_rules! decode_as {
    ($api:expr, $version:expr, $body:expr, $($name:ident: $message:ty,)*) => {
        match $api {
            Api::Produce => drop(produce::ProduceRequest::decode($body, $version)),
            Api::Fetch => drop(fetch::FetchRequest::decode($body, $version)),
            $(Api::$name => {
                let bound = decoded_bytes($api, $version, $body);
                let decoded =
                    decode_request::<$message>($version, $body, DECODED_BYTES_MAX);
                assert!(bound.is_ok() || decoded.is_err());
            })*
        }
    };
}

fn decode(api: Api, version: i16, body: &Bytes) {
    decode_as!(api, version, body,
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
