//! The columns of the table, each read from the top: which APIs have which value.

use super::row::Quota;
use super::*;

/// The rights that Kafka 4.3 asks for each API, with what is enough instead: C cluster, T topic,
/// *T any topic, G group, X transactional id.
const RIGHTS: &str = "
    Produce: X WRITE, T WRITE
    Fetch: T READ, C CLUSTER_ACTION
    ListOffsets: T DESCRIBE
    Metadata: T DESCRIBE, C CREATE, T CREATE
    OffsetCommit: G READ, T READ
    OffsetFetch: G DESCRIBE, T DESCRIBE
    FindCoordinator: G DESCRIBE, X DESCRIBE
    JoinGroup: G READ
    Heartbeat: G READ
    LeaveGroup: G READ
    SyncGroup: G READ
    DescribeGroups: G DESCRIBE
    ListGroups: C DESCRIBE, G DESCRIBE
    SaslHandshake:
    ApiVersions:
    CreateTopics: C CREATE, T CREATE, T DESCRIBE_CONFIGS
    DeleteTopics: C DELETE, T DESCRIBE, T DELETE
    DeleteRecords: T DELETE
    InitProducerId: X WRITE, C IDEMPOTENT_WRITE, *T WRITE
    OffsetForLeaderEpoch: C CLUSTER_ACTION, T DESCRIBE
    AddPartitionsToTxn: X WRITE, T WRITE, C CLUSTER_ACTION
    AddOffsetsToTxn: X WRITE, G READ
    EndTxn: X WRITE
    WriteTxnMarkers: C ALTER, C CLUSTER_ACTION
    TxnOffsetCommit: X WRITE, G READ, T READ
    DescribeAcls: C DESCRIBE
    CreateAcls: C ALTER
    DeleteAcls: C ALTER
    DescribeConfigs: C DESCRIBE_CONFIGS, T DESCRIBE_CONFIGS, G DESCRIBE_CONFIGS
    AlterConfigs: C ALTER_CONFIGS, T ALTER_CONFIGS, G ALTER_CONFIGS
    AlterReplicaLogDirs: C ALTER
    DescribeLogDirs: C DESCRIBE
    SaslAuthenticate:
    CreatePartitions: T ALTER
    CreateDelegationToken:
    RenewDelegationToken:
    ExpireDelegationToken:
    DescribeDelegationToken:
    DeleteGroups: G DELETE
    ElectLeaders: C ALTER
    IncrementalAlterConfigs: C ALTER_CONFIGS, T ALTER_CONFIGS, G ALTER_CONFIGS
    AlterPartitionReassignments: C ALTER
    ListPartitionReassignments: C DESCRIBE
    OffsetDelete: G DELETE, T READ
    DescribeClientQuotas: C DESCRIBE_CONFIGS
    AlterClientQuotas: C ALTER_CONFIGS
    DescribeUserScramCredentials: C DESCRIBE
    AlterUserScramCredentials: C ALTER
    DescribeQuorum: C DESCRIBE
    UpdateFeatures: C ALTER
    DescribeCluster:
    DescribeProducers: T READ
    UnregisterBroker: C ALTER
    DescribeTransactions: X DESCRIBE, T DESCRIBE
    ListTransactions: X DESCRIBE
    ConsumerGroupHeartbeat: G READ, T DESCRIBE
    ConsumerGroupDescribe: G DESCRIBE, T DESCRIBE
    GetTelemetrySubscriptions:
    PushTelemetry:
    ListConfigResources: C DESCRIBE_CONFIGS
    DescribeTopicPartitions: T DESCRIBE
    AddRaftVoter: C ALTER
    RemoveRaftVoter: C ALTER
";

#[test]
fn each_api_asks_for_the_rights_that_kafka_asks_for() {
    let sorted = |mut rights: Vec<String>| {
        rights.sort();
        rights.join(", ")
    };
    let shown = |right: &Right| {
        let kind = match right.resource_type {
            ResourceType::Cluster => "C",
            ResourceType::Topic => "T",
            ResourceType::Group => "G",
            ResourceType::TransactionalId => "X",
            other => panic!("no request names a {other}"),
        };
        let any = match right.which {
            RightScope::Named => "",
            RightScope::Any => "*",
        };
        format!("{any}{kind} {}", right.operation)
    };
    let expected: Vec<String> = RIGHTS
        .lines()
        .filter_map(|line| line.trim().split_once(':'))
        .map(|(api, rights)| {
            let rights = rights.split(',').map(|right| right.trim().to_owned());
            format!("{api}: {}", sorted(rights.collect()))
        })
        .collect();
    let asked: Vec<String> = Api::ALL
        .iter()
        .map(|api| {
            let rights = rights(*api).iter().map(shown);
            format!("{}: {}", api.name(), sorted(rights.collect()))
        })
        .collect();
    assert_eq!(asked, expected);
}

#[test]
fn a_step_checks_rights_on_what_a_request_names_once() {
    assert_eq!(
        stepped("Step"),
        "JoinGroup Heartbeat LeaveGroup SyncGroup AddOffsetsToTxn EndTxn DescribeAcls CreateAcls DeleteAcls \
         AlterReplicaLogDirs DescribeLogDirs ElectLeaders AlterPartitionReassignments ListPartitionReassignments \
         DescribeClientQuotas AlterClientQuotas DescribeUserScramCredentials AlterUserScramCredentials DescribeQuorum \
         UpdateFeatures UnregisterBroker ListConfigResources AddRaftVoter RemoveRaftVoter"
    );
    assert_eq!(
        stepped("StepThenHandler"),
        "OffsetCommit TxnOffsetCommit OffsetDelete"
    );
    let types = |row: Row| -> Vec<_> {
        let rights = row.rights.iter();
        rights.map(|right| right.resource_type).collect()
    };
    for api in Api::ALL {
        let mut types = types(*Row::of(*api));
        let (all, topics) = (types.len(), types.contains(&ResourceType::Topic));
        types.sort();
        types.dedup();
        match Row::step(*api) {
            "Open" => assert_eq!(all, 0, "{api:?}"),
            "Step" => assert!(all > 0 && !topics && types.len() == all, "{api:?}"),
            "StepThenHandler" => assert!(all > 1 && topics && types.len() == all, "{api:?}"),
            _ => assert!(all > 0, "{api:?}"),
        }
    }
    let any = |row: Row| {
        let mut rights = row.rights.iter();
        rights.any(|right| right.which == RightScope::Any)
    };
    assert_eq!(names(any), "InitProducerId");
}

/// Returns the names of the APIs with this step, in the order of their keys.
fn stepped(step: &str) -> String {
    let apis = Api::ALL.iter().filter(|api| Row::step(**api) == step);
    apis.map(|api| api.name()).collect::<Vec<_>>().join(" ")
}

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
    let open = stepped("Open");
    assert_eq!(
        open,
        "SaslHandshake ApiVersions SaslAuthenticate CreateDelegationToken RenewDelegationToken ExpireDelegationToken \
         DescribeDelegationToken DescribeCluster GetTelemetrySubscriptions PushTelemetry"
    );
    assert_eq!(names(|row| row.rights.is_empty()), open);
}
