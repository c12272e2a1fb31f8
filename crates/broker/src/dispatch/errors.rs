//! The error codes in a response, wherever they stand in it, for the count of errors.
//!
//! Invariant: the steps of a request (`call.rs`) take only responses that implement [`Errors`], so
//! a response without a row here does not compile. Produce and Fetch have their own types; their
//! handlers note the errors while they make the response. Not here: the counters
//! (`metrics/errors.rs`).

use wire::kafka::newest::LacksNewest;
use wire::kafka::{Api, NewestVersion};

use crate::metrics::{ErrorTally, Metrics};

/// Counts the errors of a response.
pub(super) fn count(metrics: &Metrics, api: Api, response: &impl Errors) {
    let mut tally = ErrorTally::default();
    response.errors(&mut |code| tally.note(code));
    metrics.errors.count(api, &tally);
}

/// A response whose error codes can be listed.
pub(super) trait Errors {
    /// Calls `tell` with each code, 0 included.
    fn errors(&self, tell: &mut impl FnMut(i16));
}

impl<T> Errors for NewestVersion<T>
where
    T: LacksNewest + Errors,
{
    fn errors(&self, tell: &mut impl FnMut(i16)) {
        self.message.errors(tell);
    }
}

/// Follows a path of lists to a code.
macro_rules! each {
    ($of:expr, $tell:ident, $code:ident) => {
        $tell($of.$code);
    };
    ($of:expr, $tell:ident, $list:ident $($rest:ident)+) => {
        for one in &$of.$list {
            each!(one, $tell, $($rest)+);
        }
    };
}

macro_rules! codes {
    ($($response:ident: $([$($path:ident)+])+;)*) => {
        $(impl Errors for wire::messages::$response {
            fn errors(&self, tell: &mut impl FnMut(i16)) {
                $(each!(self, tell, $($path)+);)+
            }
        })*
    };
}

codes! {
    AddOffsetsToTxnResponse: [error_code];
    AddPartitionsToTxnResponse: [error_code]
        [results_by_topic_v3_and_below results_by_partition partition_error_code]
        [results_by_transaction topic_results results_by_partition partition_error_code];
    AddRaftVoterResponse: [error_code];
    AlterClientQuotasResponse: [entries error_code];
    AlterConfigsResponse: [responses error_code];
    AlterPartitionReassignmentsResponse: [error_code] [responses partitions error_code];
    AlterReplicaLogDirsResponse: [results partitions error_code];
    AlterUserScramCredentialsResponse: [results error_code];
    ApiVersionsResponse: [error_code];
    ConsumerGroupDescribeResponse: [groups error_code];
    ConsumerGroupHeartbeatResponse: [error_code];
    CreateAclsResponse: [results error_code];
    CreateDelegationTokenResponse: [error_code];
    CreatePartitionsResponse: [results error_code];
    CreateTopicsResponse: [topics error_code];
    DeleteAclsResponse: [filter_results error_code] [filter_results matching_acls error_code];
    DeleteGroupsResponse: [results error_code];
    DeleteRecordsResponse: [topics partitions error_code];
    DeleteTopicsResponse: [responses error_code];
    DescribeAclsResponse: [error_code];
    DescribeClientQuotasResponse: [error_code];
    DescribeClusterResponse: [error_code];
    DescribeConfigsResponse: [results error_code];
    DescribeDelegationTokenResponse: [error_code];
    DescribeGroupsResponse: [groups error_code];
    DescribeLogDirsResponse: [error_code] [results error_code];
    DescribeProducersResponse: [topics partitions error_code];
    DescribeQuorumResponse: [error_code] [topics partitions error_code];
    DescribeTopicPartitionsResponse: [topics error_code] [topics partitions error_code];
    DescribeTransactionsResponse: [transaction_states error_code];
    DescribeUserScramCredentialsResponse: [error_code] [results error_code];
    ElectLeadersResponse: [error_code] [replica_election_results partition_result error_code];
    EndTxnResponse: [error_code];
    ExpireDelegationTokenResponse: [error_code];
    FindCoordinatorResponse: [error_code] [coordinators error_code];
    GetTelemetrySubscriptionsResponse: [error_code];
    HeartbeatResponse: [error_code];
    IncrementalAlterConfigsResponse: [responses error_code];
    InitProducerIdResponse: [error_code];
    JoinGroupResponse: [error_code];
    LeaveGroupResponse: [error_code] [members error_code];
    ListConfigResourcesResponse: [error_code];
    ListGroupsResponse: [error_code];
    ListOffsetsResponse: [topics partitions error_code];
    ListPartitionReassignmentsResponse: [error_code];
    ListTransactionsResponse: [error_code];
    MetadataResponse: [error_code] [topics error_code] [topics partitions error_code];
    OffsetCommitResponse: [topics partitions error_code];
    OffsetDeleteResponse: [error_code] [topics partitions error_code];
    OffsetFetchResponse: [error_code] [topics partitions error_code] [groups error_code]
        [groups topics partitions error_code];
    OffsetForLeaderEpochResponse: [topics partitions error_code];
    PushTelemetryResponse: [error_code];
    RemoveRaftVoterResponse: [error_code];
    RenewDelegationTokenResponse: [error_code];
    SaslAuthenticateResponse: [error_code];
    SaslHandshakeResponse: [error_code];
    SyncGroupResponse: [error_code];
    TxnOffsetCommitResponse: [topics partitions error_code];
    UnregisterBrokerResponse: [error_code];
    UpdateFeaturesResponse: [error_code] [results error_code];
    WriteTxnMarkersResponse: [markers topics partitions error_code];
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::messages::MetadataResponse;
    use wire::messages::metadata_response::{MetadataResponsePartition, MetadataResponseTopic};

    #[test]
    fn every_code_of_a_response_is_told_wherever_it_stands() {
        let partition = |code| MetadataResponsePartition::default().with_error_code(code);
        let topic = MetadataResponseTopic::default()
            .with_error_code(3)
            .with_partitions(vec![partition(5), partition(0), partition(9)]);
        let response = MetadataResponse::default().with_topics(vec![topic]);
        let mut told = Vec::new();
        response.errors(&mut |code| told.push(code));
        assert_eq!(told, [0, 3, 5, 0, 9]);
    }
}
