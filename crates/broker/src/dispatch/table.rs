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
    /// About how many things it may be.
    pub(super) size: Size,
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

/// How many things a request may be about, each of which takes many times in memory of what it takes in the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Size {
    /// Few, or such as take little.
    Few,
    /// Very many: a large one takes a place among those, and waits for nothing that clients bring while it has it.
    Many,
    /// The same, and it takes its place, and gives it up, where it is handled.
    Own,
}

/// A request that is not handled here: its row leads elsewhere than its handler is, which the sweep over all requests finds.
pub(super) fn elsewhere(api: Api) -> ! {
    unreachable!("{api:?} is handled elsewhere")
}

macro_rules! requests {
    ($($api:ident: $by:ident, $order:ident, $quota:ident $({ $field:ident: $since:literal })?, $loss:ident, $size:ident;)*) => {
        impl Row {
            /// The row of an API.
            pub(super) const fn of(api: Api) -> Self {
                match api {
                    $(Api::$api => Self {
                        by: By::$by,
                        order: Order::$order,
                        quota: Quota::$quota $({ $field: $since })?,
                        loss: Loss::$loss,
                        size: Size::$size,
                    },)*
                }
            }
        }
    };
}

requests! {
    Produce: Produce, OverlapsUnlessTransactional, Own, Something, Few;
    Fetch: Fetch, Alone, Own, NothingWhileItWaits, Own;
    ListOffsets: Positions, Alone, Time, Nothing, Few;
    Metadata: Descriptions, Alone, Time, Nothing, Few;
    OffsetCommit: Groups, Alone, Time, Something, Many;
    OffsetFetch: Groups, Alone, Time, Nothing, Many;
    FindCoordinator: Groups, Alone, Time, Nothing, Few;
    JoinGroup: Groups, Alone, Time, Something, Few;
    Heartbeat: Groups, Alone, Time, Something, Few;
    LeaveGroup: Groups, Alone, Time, Something, Few;
    SyncGroup: Groups, Alone, Time, Something, Few;
    DescribeGroups: Groups, Alone, Time, Nothing, Many;
    ListGroups: Groups, Alone, Time, Nothing, Few;
    SaslHandshake: Security, Alone, Time, Something, Few;
    ApiVersions: Versions, Alone, Time, Nothing, Few;
    CreateTopics: Changes, Alone, Mutations { strict_since: 6 }, Something, Few;
    DeleteTopics: Changes, Alone, Mutations { strict_since: 5 }, Something, Few;
    DeleteRecords: Positions, Alone, Time, Something, Few;
    InitProducerId: Transactions, Alone, Time, Something, Few;
    OffsetForLeaderEpoch: Positions, Alone, Time, Nothing, Few;
    AddPartitionsToTxn: Transactions, Alone, Time, Something, Few;
    AddOffsetsToTxn: Transactions, Alone, Time, Something, Few;
    EndTxn: Transactions, Alone, Time, Something, Few;
    WriteTxnMarkers: Transactions, Alone, Free, Something, Few;
    TxnOffsetCommit: Groups, Alone, Time, Something, Many;
    DescribeAcls: Security, Alone, Time, Nothing, Few;
    CreateAcls: Security, Alone, Time, Something, Few;
    DeleteAcls: Security, Alone, Time, Something, Few;
    DescribeConfigs: Descriptions, Alone, Time, Nothing, Few;
    AlterConfigs: Changes, Alone, Time, Something, Few;
    AlterReplicaLogDirs: Administration, Alone, Time, Something, Own;
    DescribeLogDirs: Administration, Alone, Time, Nothing, Few;
    SaslAuthenticate: Security, Alone, Time, Something, Few;
    CreatePartitions: Changes, Alone, Mutations { strict_since: 3 }, Something, Few;
    CreateDelegationToken: Security, Alone, Time, Something, Few;
    RenewDelegationToken: Security, Alone, Time, Something, Few;
    ExpireDelegationToken: Security, Alone, Time, Something, Few;
    DescribeDelegationToken: Security, Alone, Time, Nothing, Few;
    DeleteGroups: Groups, Alone, Time, Something, Many;
    ElectLeaders: Administration, Alone, Time, Nothing, Few;
    IncrementalAlterConfigs: Changes, Alone, Time, Something, Few;
    AlterPartitionReassignments: Changes, Alone, Time, Something, Few;
    ListPartitionReassignments: Administration, Alone, Time, Nothing, Few;
    OffsetDelete: Groups, Alone, Time, Something, Many;
    DescribeClientQuotas: Administration, Alone, Time, Nothing, Few;
    AlterClientQuotas: Changes, Alone, Time, Something, Few;
    DescribeUserScramCredentials: Administration, Alone, Time, Nothing, Few;
    AlterUserScramCredentials: Changes, Alone, Time, Something, Few;
    DescribeQuorum: Changes, Alone, Time, Nothing, Few;
    UpdateFeatures: Changes, Alone, Time, Something, Few;
    DescribeCluster: Descriptions, Alone, Time, Nothing, Few;
    DescribeProducers: Transactions, Alone, Time, Nothing, Few;
    UnregisterBroker: Security, Alone, Time, Something, Few;
    DescribeTransactions: Transactions, Alone, Time, Nothing, Few;
    ListTransactions: Transactions, Alone, Time, Nothing, Few;
    ConsumerGroupHeartbeat: Groups, Alone, Time, Something, Few;
    ConsumerGroupDescribe: Groups, Alone, Time, Nothing, Many;
    GetTelemetrySubscriptions: Administration, Alone, Time, Something, Few;
    PushTelemetry: Administration, Alone, Time, Something, Few;
    ListConfigResources: Administration, Alone, Time, Nothing, Few;
    DescribeTopicPartitions: Descriptions, Alone, Time, Nothing, Few;
    AddRaftVoter: Security, Alone, Time, Something, Few;
    RemoveRaftVoter: Security, Alone, Time, Something, Few;
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
