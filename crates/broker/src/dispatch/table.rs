//! The table of requests: what the steps around a handler have to know of each API, one row each.
//!
//! Invariant: there is no API without a row, for nothing in here stands for "all others": an API that is new in
//! `wire/kafka/api.rs` does not compile before it has one. It does not: say which versions there are (that table does), or carry
//! anything out.

use wire::kafka::Api;

/// What is known of one API.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Row {
    /// Where it is decoded and handled.
    pub(super) by: By,
    /// Whether it begins while others of its connection wait.
    pub(super) order: Order,
    /// What it is charged.
    pub(super) quota: Quota,
    /// What a client loses that never gets the answer.
    pub(super) loss: Loss,
}

/// The part of `dispatch` that an API belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum By {
    /// `records`.
    Produce,
    /// `records`.
    Fetch,
    /// Here, also in versions that are not served.
    Versions,
    /// `records`: where partitions begin and end.
    Positions,
    /// `transactions`.
    Transactions,
    /// What the controller decides.
    Changes,
    /// What the metadata say.
    Descriptions,
    /// `administration`.
    Administration,
    /// `security`.
    Security,
    /// `groups`.
    Groups,
}

/// When a request may begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// When those before it on its connection are answered.
    Alone,
    /// While others of its kind wait, unless it is of a transaction.
    OverlapsUnlessTransactional,
}

/// What the quotas of its client have to do with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Quota {
    /// It is charged where it is handled: the answer depends on it.
    Own,
    /// Brokers ask it of each other.
    Free,
    /// The time that it takes.
    Time,
    /// The same, and what it changes; clients know from this version on that they may be told to wait before anything is changed.
    Mutations {
        /// The version.
        strict_since: i16,
    },
}

/// What is lost with an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Loss {
    /// It changes nothing, and nobody waits in a group for it: the client asks again.
    Nothing,
    /// The same, and it may be dropped while it waits; its answer is made smaller instead of refused.
    NothingWhileItWaits,
    /// What was done, or that it was done.
    Something,
}

macro_rules! requests {
    ($($api:ident: $by:ident, $order:ident, $quota:ident $({ $field:ident: $since:literal })?, $loss:ident;)*) => {
        impl Row {
            /// The row of an API.
            pub(super) const fn of(api: Api) -> Self {
                match api {
                    $(Api::$api => Self {
                        by: By::$by,
                        order: Order::$order,
                        quota: Quota::$quota $({ $field: $since })?,
                        loss: Loss::$loss,
                    },)*
                }
            }
        }
    };
}

requests! {
    Produce: Produce, OverlapsUnlessTransactional, Own, Something;
    Fetch: Fetch, Alone, Own, NothingWhileItWaits;
    ListOffsets: Positions, Alone, Time, Nothing;
    Metadata: Descriptions, Alone, Time, Nothing;
    OffsetCommit: Groups, Alone, Time, Something;
    OffsetFetch: Groups, Alone, Time, Nothing;
    FindCoordinator: Groups, Alone, Time, Nothing;
    JoinGroup: Groups, Alone, Time, Something;
    Heartbeat: Groups, Alone, Time, Something;
    LeaveGroup: Groups, Alone, Time, Something;
    SyncGroup: Groups, Alone, Time, Something;
    DescribeGroups: Groups, Alone, Time, Nothing;
    ListGroups: Groups, Alone, Time, Nothing;
    SaslHandshake: Security, Alone, Time, Something;
    ApiVersions: Versions, Alone, Time, Nothing;
    CreateTopics: Changes, Alone, Mutations { strict_since: 6 }, Something;
    DeleteTopics: Changes, Alone, Mutations { strict_since: 5 }, Something;
    DeleteRecords: Positions, Alone, Time, Something;
    InitProducerId: Transactions, Alone, Time, Something;
    OffsetForLeaderEpoch: Positions, Alone, Time, Nothing;
    AddPartitionsToTxn: Transactions, Alone, Time, Something;
    AddOffsetsToTxn: Transactions, Alone, Time, Something;
    EndTxn: Transactions, Alone, Time, Something;
    WriteTxnMarkers: Transactions, Alone, Free, Something;
    TxnOffsetCommit: Groups, Alone, Time, Something;
    DescribeAcls: Security, Alone, Time, Nothing;
    CreateAcls: Security, Alone, Time, Something;
    DeleteAcls: Security, Alone, Time, Something;
    DescribeConfigs: Descriptions, Alone, Time, Nothing;
    AlterConfigs: Changes, Alone, Time, Something;
    AlterReplicaLogDirs: Administration, Alone, Time, Something;
    DescribeLogDirs: Administration, Alone, Time, Nothing;
    SaslAuthenticate: Security, Alone, Time, Something;
    CreatePartitions: Changes, Alone, Mutations { strict_since: 3 }, Something;
    CreateDelegationToken: Security, Alone, Time, Something;
    RenewDelegationToken: Security, Alone, Time, Something;
    ExpireDelegationToken: Security, Alone, Time, Something;
    DescribeDelegationToken: Security, Alone, Time, Nothing;
    DeleteGroups: Groups, Alone, Time, Something;
    ElectLeaders: Administration, Alone, Time, Nothing;
    IncrementalAlterConfigs: Changes, Alone, Time, Something;
    AlterPartitionReassignments: Changes, Alone, Time, Something;
    ListPartitionReassignments: Administration, Alone, Time, Nothing;
    OffsetDelete: Groups, Alone, Time, Something;
    DescribeClientQuotas: Administration, Alone, Time, Nothing;
    AlterClientQuotas: Changes, Alone, Time, Something;
    DescribeUserScramCredentials: Administration, Alone, Time, Nothing;
    AlterUserScramCredentials: Changes, Alone, Time, Something;
    DescribeQuorum: Changes, Alone, Time, Nothing;
    UpdateFeatures: Changes, Alone, Time, Something;
    DescribeCluster: Descriptions, Alone, Time, Nothing;
    DescribeProducers: Transactions, Alone, Time, Nothing;
    UnregisterBroker: Security, Alone, Time, Something;
    DescribeTransactions: Transactions, Alone, Time, Nothing;
    ListTransactions: Transactions, Alone, Time, Nothing;
    ConsumerGroupHeartbeat: Groups, Alone, Time, Something;
    ConsumerGroupDescribe: Groups, Alone, Time, Nothing;
    GetTelemetrySubscriptions: Administration, Alone, Time, Something;
    PushTelemetry: Administration, Alone, Time, Something;
    ListConfigResources: Administration, Alone, Time, Nothing;
    DescribeTopicPartitions: Descriptions, Alone, Time, Nothing;
    AddRaftVoter: Security, Alone, Time, Something;
    RemoveRaftVoter: Security, Alone, Time, Something;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of what has a row like that, in the order of their keys.
    fn names(is: impl Fn(Row) -> bool) -> String {
        let rows = Api::ALL.iter().filter(|api| is(Row::of(**api)));
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
}
