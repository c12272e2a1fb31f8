//! Sets the throttle time of an encoded response: quotas are charged when its size and cost are
//! known.
//!
//! In almost every response it is the first field, from some version on. Not here: Produce, whose
//! own codec writes it at the end; ApiVersions, where it follows the table; and responses about
//! delegation tokens, where it follows the tokens.

use bytes::Bytes;

use super::{Api, Response};

/// Bytes of the length prefix and the correlation id.
const FRONT_BYTES: usize = 8;

/// Returns the position of the throttle time in the body of a response, if it is fixed.
const fn position(api: Api, version: i16) -> Option<usize> {
    let since = match api {
        Api::Produce
        | Api::ApiVersions
        | Api::WriteTxnMarkers
        | Api::DescribeQuorum
        | Api::SaslHandshake
        | Api::SaslAuthenticate
        | Api::CreateDelegationToken
        | Api::RenewDelegationToken
        | Api::ExpireDelegationToken
        | Api::DescribeDelegationToken => return None,
        // The error code comes first.
        Api::OffsetDelete => return Some(2),
        Api::Metadata | Api::OffsetCommit | Api::OffsetFetch => 3,
        Api::ListOffsets | Api::JoinGroup | Api::CreateTopics | Api::OffsetForLeaderEpoch => 2,
        Api::Fetch
        | Api::FindCoordinator
        | Api::Heartbeat
        | Api::LeaveGroup
        | Api::SyncGroup
        | Api::DescribeGroups
        | Api::ListGroups
        | Api::DeleteTopics => 1,
        _ => 0,
    };
    if version >= since { Some(0) } else { None }
}

impl Response {
    /// Returns the response with at least this throttle time, where its version has the field.
    #[must_use]
    pub fn throttled(self, api: Api, version: i16, throttle_ms: i32) -> Self {
        let Some(position) = position(api, version) else {
            return self;
        };
        let tags = usize::from(api.response_header_version(version) == 1);
        let at = FRONT_BYTES + tags + position;
        let mut segments = self.into_segments();
        let head = segments
            .first_mut()
            .expect("a response begins with its length");
        let mut bytes = head.to_vec();
        // Every response of these versions has the field at this position. If one did not, sending
        // it without a throttle time is better than failing.
        let Some(field) = bytes.get_mut(at..at + 4) else {
            debug_assert!(false, "{api:?} {version} has no throttle time at {at}");
            return Self::new(segments);
        };
        let mut before = [0; 4];
        before.copy_from_slice(field);
        let longest = throttle_ms.max(i32::from_be_bytes(before));
        field.copy_from_slice(&longest.to_be_bytes());
        *head = Bytes::from(bytes);
        Self::new(segments)
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages;

    use super::*;
    use crate::kafka::api::beyond;
    use crate::kafka::encode_response;
    use crate::kafka::newest::NewestVersion;

    /// Checks that the patched bytes equal those of the same response with the field set.
    macro_rules! check {
        ($($name:ident: $response:ident),* $(,)?) => {
            for &api in Api::ALL {
                let generated = *api.versions().end() - i16::from(beyond(api));
                for version in *api.versions().start()..=generated {
                    match api {
                        $(Api::$name => {
                            let plain = messages::$response::default();
                            let late = plain.clone().with_throttle_time_ms(77);
                            let encode = |body: &messages::$response| encode_response(api, version, 5, body).unwrap();
                            assert_eq!(
                                encode(&plain).throttled(api, version, 77).to_bytes(),
                                encode(&late).to_bytes(),
                                "{api:?} {version}"
                            );
                            assert_eq!(
                                encode(&late).throttled(api, version, 76).to_bytes(),
                                encode(&late).to_bytes(),
                                "the longer time holds: {api:?} {version}"
                            );
                        })*
                        Api::Produce
                        | Api::Fetch
                        | Api::ApiVersions
                        | Api::WriteTxnMarkers
                        | Api::DescribeQuorum
                        | Api::SaslHandshake
                        | Api::SaslAuthenticate
                        | Api::CreateDelegationToken
                        | Api::RenewDelegationToken
                        | Api::ExpireDelegationToken
                        | Api::DescribeDelegationToken => {}
                    }
                }
            }
        };
    }

    #[test]
    fn every_response_says_how_long_its_client_is_held_back() {
        check!(
            ListOffsets: ListOffsetsResponse, Metadata: MetadataResponse,
            OffsetCommit: OffsetCommitResponse, OffsetFetch: OffsetFetchResponse,
            FindCoordinator: FindCoordinatorResponse, JoinGroup: JoinGroupResponse,
            Heartbeat: HeartbeatResponse, LeaveGroup: LeaveGroupResponse,
            SyncGroup: SyncGroupResponse, DescribeGroups: DescribeGroupsResponse,
            ListGroups: ListGroupsResponse, CreateTopics: CreateTopicsResponse,
            DeleteTopics: DeleteTopicsResponse, DeleteRecords: DeleteRecordsResponse,
            InitProducerId: InitProducerIdResponse,
            OffsetForLeaderEpoch: OffsetForLeaderEpochResponse,
            AddPartitionsToTxn: AddPartitionsToTxnResponse,
            AddOffsetsToTxn: AddOffsetsToTxnResponse, EndTxn: EndTxnResponse,
            TxnOffsetCommit: TxnOffsetCommitResponse, DescribeConfigs: DescribeConfigsResponse,
            AlterConfigs: AlterConfigsResponse,
            AlterReplicaLogDirs: AlterReplicaLogDirsResponse, DescribeLogDirs: DescribeLogDirsResponse,
            CreatePartitions: CreatePartitionsResponse, DeleteGroups: DeleteGroupsResponse,
            IncrementalAlterConfigs: IncrementalAlterConfigsResponse,
            OffsetDelete: OffsetDeleteResponse,
            ElectLeaders: ElectLeadersResponse,
            AlterPartitionReassignments: AlterPartitionReassignmentsResponse,
            ListPartitionReassignments: ListPartitionReassignmentsResponse,
            DescribeUserScramCredentials: DescribeUserScramCredentialsResponse,
            UpdateFeatures: UpdateFeaturesResponse,
            AlterUserScramCredentials: AlterUserScramCredentialsResponse,
            GetTelemetrySubscriptions: GetTelemetrySubscriptionsResponse,
            PushTelemetry: PushTelemetryResponse,
            ListConfigResources: ListConfigResourcesResponse,
            DescribeClientQuotas: DescribeClientQuotasResponse,
            AlterClientQuotas: AlterClientQuotasResponse,
            DescribeCluster: DescribeClusterResponse,
            DescribeProducers: DescribeProducersResponse,
            DescribeTransactions: DescribeTransactionsResponse,
            ListTransactions: ListTransactionsResponse,
            ConsumerGroupHeartbeat: ConsumerGroupHeartbeatResponse,
            ConsumerGroupDescribe: ConsumerGroupDescribeResponse,
            DescribeTopicPartitions: DescribeTopicPartitionsResponse,
            DescribeAcls: DescribeAclsResponse, CreateAcls: CreateAclsResponse,
            DeleteAcls: DeleteAclsResponse, UnregisterBroker: UnregisterBrokerResponse,
            AddRaftVoter: AddRaftVoterResponse, RemoveRaftVoter: RemoveRaftVoterResponse,
        );
    }

    fn newest_is_held_back<T: crate::Encodable>(api: Api, plain: &T, late: &T) {
        let version = *api.versions().end();
        let encode = |body: &T| encode_response(api, version, 5, body).unwrap();
        let throttled = encode(plain).throttled(api, version, 77);
        assert_eq!(throttled.to_bytes(), encode(late).to_bytes(), "{api:?}");
    }

    #[test]
    fn so_do_versions_beyond_the_generated_ones() {
        let plain = messages::OffsetCommitResponse::default();
        let late = plain.clone().with_throttle_time_ms(77);
        newest_is_held_back(Api::OffsetCommit, &plain, &late);
        let plain = messages::OffsetFetchResponse::default();
        let late = plain.clone().with_throttle_time_ms(77);
        newest_is_held_back(Api::OffsetFetch, &plain, &late);
        let plain = messages::ListOffsetsResponse::default();
        let late = plain.clone().with_throttle_time_ms(77);
        newest_is_held_back(
            Api::ListOffsets,
            &NewestVersion::from(plain),
            &NewestVersion::from(late),
        );
        let plain = messages::DescribeLogDirsResponse::default();
        let late = plain.clone().with_throttle_time_ms(77);
        newest_is_held_back(
            Api::DescribeLogDirs,
            &NewestVersion::from(plain),
            &NewestVersion::from(late),
        );
    }

    #[test]
    fn a_fetch_says_so_too() {
        let plain = crate::kafka::fetch::FetchResponse::default();
        for version in Api::Fetch.versions() {
            let late = crate::kafka::fetch::FetchResponse {
                throttle_time_ms: 9,
                ..plain.clone()
            };
            let throttled = plain.clone().encode(version, 5).unwrap();
            assert_eq!(
                throttled.throttled(Api::Fetch, version, 9).to_bytes(),
                late.encode(version, 5).unwrap().to_bytes()
            );
        }
    }
}
