//! Requests from any peer: frames, headers, bodies.
//!
//! The input is what a socket gave. Every frame in it is taken off, its header read, its body decoded. The memory that
//! a body may take is bounded as in the broker; libFuzzer's own limit on a single allocation holds it to that.
#![no_main]

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use wire::kafka::frame::next_frame;
use wire::kafka::shape::{decode_request, decoded_bytes};
use wire::kafka::{Api, Request, fetch, produce};
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
    ($api:expr, $version:expr, $body:expr, $($name:ident: $message:ident,)*) => {
        match $api {
            Api::Produce => drop(produce::ProduceRequest::decode($body, $version)),
            Api::Fetch => drop(fetch::FetchRequest::decode($body, $version)),
            $(Api::$name => {
                let bound = decoded_bytes($api, $version, $body);
                let decoded =
                    decode_request::<messages::$message>($version, $body, DECODED_BYTES_MAX);
                assert!(bound.is_ok() || decoded.is_err());
            })*
        }
    };
}

fn decode(api: Api, version: i16, body: &Bytes) {
    decode_as!(api, version, body,
        ListOffsets: ListOffsetsRequest,
        Metadata: MetadataRequest,
        OffsetCommit: OffsetCommitRequest,
        OffsetFetch: OffsetFetchRequest,
        FindCoordinator: FindCoordinatorRequest,
        JoinGroup: JoinGroupRequest,
        Heartbeat: HeartbeatRequest,
        LeaveGroup: LeaveGroupRequest,
        SyncGroup: SyncGroupRequest,
        DescribeGroups: DescribeGroupsRequest,
        ListGroups: ListGroupsRequest,
        ApiVersions: ApiVersionsRequest,
        CreateTopics: CreateTopicsRequest,
        DeleteTopics: DeleteTopicsRequest,
        DeleteRecords: DeleteRecordsRequest,
        InitProducerId: InitProducerIdRequest,
        ListTransactions: ListTransactionsRequest,
        DescribeTransactions: DescribeTransactionsRequest,
        TxnOffsetCommit: TxnOffsetCommitRequest,
        WriteTxnMarkers: WriteTxnMarkersRequest,
        EndTxn: EndTxnRequest,
        AddOffsetsToTxn: AddOffsetsToTxnRequest,
        AddPartitionsToTxn: AddPartitionsToTxnRequest,
        OffsetForLeaderEpoch: OffsetForLeaderEpochRequest,
        DescribeConfigs: DescribeConfigsRequest,
        AlterConfigs: AlterConfigsRequest,
        AlterReplicaLogDirs: AlterReplicaLogDirsRequest,
        DescribeLogDirs: DescribeLogDirsRequest,
        CreatePartitions: CreatePartitionsRequest,
        DeleteGroups: DeleteGroupsRequest,
        IncrementalAlterConfigs: IncrementalAlterConfigsRequest,
        OffsetDelete: OffsetDeleteRequest,
        ElectLeaders: ElectLeadersRequest,
        AlterPartitionReassignments: AlterPartitionReassignmentsRequest,
        ListPartitionReassignments: ListPartitionReassignmentsRequest,
        DescribeUserScramCredentials: DescribeUserScramCredentialsRequest,
        AlterUserScramCredentials: AlterUserScramCredentialsRequest,
        GetTelemetrySubscriptions: GetTelemetrySubscriptionsRequest,
        PushTelemetry: PushTelemetryRequest,
        DescribeQuorum: DescribeQuorumRequest,
        UpdateFeatures: UpdateFeaturesRequest,
        ListConfigResources: ListConfigResourcesRequest,
        DescribeClientQuotas: DescribeClientQuotasRequest,
        AlterClientQuotas: AlterClientQuotasRequest,
        DescribeCluster: DescribeClusterRequest,
        DescribeProducers: DescribeProducersRequest,
        ConsumerGroupHeartbeat: ConsumerGroupHeartbeatRequest,
        ConsumerGroupDescribe: ConsumerGroupDescribeRequest,
        DescribeTopicPartitions: DescribeTopicPartitionsRequest,
    );
}
