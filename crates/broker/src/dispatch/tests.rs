//! The columns of the table, each read from the top: which APIs have which value.

use super::row::{AccessCheck, Quota};
use super::*;

/// Returns the names of the APIs whose row passes the filter, in the order of their keys.
fn names(is: impl Fn(Row) -> bool) -> String {
    let rows = Api::ALL.iter().filter(|api| is(*Row::of(**api)));
    rows.map(|api| api.name()).collect::<Vec<_>>().join(" ")
}

#[test]
fn what_is_lost_with_nobody_is_what_changes_nothing() {
    assert_eq!(
        names(|row| row.loss == Loss::Nothing),
        "ListOffsets Metadata OffsetFetch FindCoordinator DescribeGroups ListGroups ApiVersions OffsetForLeaderEpoch \
         DescribeAcls DescribeConfigs DescribeLogDirs DescribeDelegationToken ElectLeaders ListPartitionReassignments \
         DescribeClientQuotas DescribeUserScramCredentials DescribeQuorum DescribeCluster DescribeProducers \
         DescribeTransactions ListTransactions ConsumerGroupDescribe ListConfigResources DescribeTopicPartitions"
    );
    assert_eq!(names(|row| row.loss == Loss::NothingWhileItWaits), "Fetch");
}

#[test]
fn appends_alone_overlap_and_what_brokers_ask_is_free() {
    assert_eq!(names(|row| row.order != Order::Alone), "Produce");
    assert_eq!(names(|row| row.quota == Quota::Own), "Produce Fetch");
    assert_eq!(names(|row| row.quota == Quota::Free), "WriteTxnMarkers");
    let mutations = |row: Row| matches!(row.quota, Quota::Mutations { .. });
    assert_eq!(
        names(mutations),
        "CreateTopics DeleteTopics CreatePartitions"
    );
}

#[test]
fn what_anybody_may_ask_tells_and_changes_nothing_that_is_guarded() {
    let open = names(|row| row.guard.asked == AccessCheck::Open);
    assert_eq!(
        open,
        "SaslHandshake ApiVersions SaslAuthenticate CreateDelegationToken RenewDelegationToken ExpireDelegationToken \
         DescribeDelegationToken DescribeCluster GetTelemetrySubscriptions PushTelemetry"
    );
    assert_eq!(names(|row| row.guard.rights.is_empty()), open);
    let steps = |row: Row| row.guard.asked == AccessCheck::Step && row.guard.rights.len() != 1;
    assert_eq!(names(steps), "", "one resource, one right");
}
