//! The one table of what is served: API key, name, versions, and from which version the encoding is
//! flexible.
//!
//! The versions are those of Apache Kafka 4.3; where the generated codecs end one before,
//! [`super::newest`] has the last ([`beyond`]). What is not in the table is neither advertised nor accepted. Produce is
//! advertised from version 0 but served from 3, as Kafka does for the sake of old librdkafka (KIP-896).

use std::ops::RangeInclusive;

macro_rules! apis {
    ($($(#[$doc:meta])* $name:ident = $key:literal, $min:literal ..= $max:literal,
       advertised $advertised:literal, flexible $flexible:literal;)*) => {
        /// A request that this broker serves.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub enum Api {
            $($(#[$doc])* $name,)*
        }

        impl Api {
            /// Every API served, by key.
            pub const ALL: &'static [Api] = &[$(Api::$name,)*];

            const fn row(self) -> &'static Row {
                match self {
                    $(Api::$name => &Row {
                        key: $key,
                        name: stringify!($name),
                        min: $min,
                        max: $max,
                        advertised_min: $advertised,
                        flexible_from: $flexible,
                    },)*
                }
            }

            /// The API with this key, if it is served.
            pub const fn from_key(key: i16) -> Option<Api> {
                match key {
                    $($key => Some(Api::$name),)*
                    _ => None,
                }
            }
        }
    };
}

struct Row {
    key: i16,
    name: &'static str,
    min: i16,
    max: i16,
    advertised_min: i16,
    flexible_from: i16,
}

apis! {
    /// Appends batches.
    Produce = 0, 3..=13, advertised 0, flexible 9;
    /// Reads batches.
    Fetch = 1, 4..=18, advertised 4, flexible 12;
    /// Offsets by timestamp.
    ListOffsets = 2, 1..=11, advertised 1, flexible 6;
    /// Brokers, topics and partition leaders.
    Metadata = 3, 0..=13, advertised 0, flexible 9;
    /// Stores a group's positions.
    OffsetCommit = 8, 2..=10, advertised 2, flexible 8;
    /// Reads a group's positions.
    OffsetFetch = 9, 1..=10, advertised 1, flexible 6;
    /// Which broker coordinates a group.
    FindCoordinator = 10, 0..=6, advertised 0, flexible 3;
    /// Enters a group's rebalance.
    JoinGroup = 11, 0..=9, advertised 0, flexible 6;
    /// Keeps a member alive.
    Heartbeat = 12, 0..=4, advertised 0, flexible 4;
    /// Leaves a group.
    LeaveGroup = 13, 0..=5, advertised 0, flexible 4;
    /// Distributes a group's assignment.
    SyncGroup = 14, 0..=5, advertised 0, flexible 4;
    /// State of groups.
    DescribeGroups = 15, 0..=6, advertised 0, flexible 5;
    /// All groups.
    ListGroups = 16, 0..=5, advertised 0, flexible 3;
    /// Which mechanism a client logs in by.
    SaslHandshake = 17, 0..=1, advertised 0, flexible 32767;
    /// This very table.
    ApiVersions = 18, 0..=4, advertised 0, flexible 3;
    /// Creates topics.
    CreateTopics = 19, 2..=7, advertised 2, flexible 5;
    /// Deletes topics.
    DeleteTopics = 20, 1..=6, advertised 1, flexible 4;
    /// Raises log start offsets.
    DeleteRecords = 21, 0..=2, advertised 0, flexible 2;
    /// Gives a producer its identity.
    InitProducerId = 22, 0..=5, advertised 0, flexible 2;
    /// Where a leader epoch ended.
    OffsetForLeaderEpoch = 23, 2..=4, advertised 2, flexible 4;
    /// Takes partitions into a transaction, or asks whether they are in it.
    AddPartitionsToTxn = 24, 0..=5, advertised 0, flexible 3;
    /// Takes a group's offsets into a transaction.
    AddOffsetsToTxn = 25, 0..=4, advertised 0, flexible 3;
    /// Commits or aborts a transaction.
    EndTxn = 26, 0..=5, advertised 0, flexible 3;
    /// Ends a transaction in its partitions.
    WriteTxnMarkers = 27, 1..=2, advertised 1, flexible 1;
    /// Stores a group's positions when a transaction is committed.
    TxnOffsetCommit = 28, 0..=5, advertised 0, flexible 3;
    /// Who may do what.
    DescribeAcls = 29, 1..=3, advertised 1, flexible 2;
    /// Says who may do what.
    CreateAcls = 30, 1..=3, advertised 1, flexible 2;
    /// Takes back who may do what.
    DeleteAcls = 31, 1..=3, advertised 1, flexible 2;
    /// Effective configuration of topics and brokers.
    DescribeConfigs = 32, 1..=4, advertised 1, flexible 4;
    /// Replaces the configuration of topics and brokers.
    AlterConfigs = 33, 0..=2, advertised 0, flexible 2;
    /// Moves partitions' logs between log directories.
    AlterReplicaLogDirs = 34, 1..=2, advertised 1, flexible 2;
    /// Sizes of partitions on disk.
    DescribeLogDirs = 35, 1..=5, advertised 1, flexible 2;
    /// A step of logging in.
    SaslAuthenticate = 36, 0..=2, advertised 0, flexible 2;
    /// Adds partitions to topics.
    CreatePartitions = 37, 0..=3, advertised 0, flexible 2;
    /// Makes a token that a client can log in by.
    CreateDelegationToken = 38, 1..=3, advertised 1, flexible 2;
    /// Lengthens the life of a token.
    RenewDelegationToken = 39, 1..=2, advertised 1, flexible 2;
    /// Shortens the life of a token.
    ExpireDelegationToken = 40, 1..=2, advertised 1, flexible 2;
    /// Which tokens there are.
    DescribeDelegationToken = 41, 1..=3, advertised 1, flexible 2;
    /// Deletes groups.
    DeleteGroups = 42, 0..=2, advertised 0, flexible 2;
    /// Elects leaders of partitions.
    ElectLeaders = 43, 0..=2, advertised 0, flexible 2;
    /// Changes the configuration of topics and brokers key by key.
    IncrementalAlterConfigs = 44, 0..=1, advertised 0, flexible 1;
    /// Gives partitions other replicas.
    AlterPartitionReassignments = 45, 0..=1, advertised 0, flexible 0;
    /// Reassignments that are under way.
    ListPartitionReassignments = 46, 0..=0, advertised 0, flexible 0;
    /// Forgets positions of a group.
    OffsetDelete = 47, 0..=0, advertised 0, flexible 32767;
    /// Quotas of clients.
    DescribeClientQuotas = 48, 0..=1, advertised 0, flexible 1;
    /// Sets and removes quotas of clients.
    AlterClientQuotas = 49, 0..=1, advertised 0, flexible 1;
    /// Which users have SCRAM credentials.
    DescribeUserScramCredentials = 50, 0..=0, advertised 0, flexible 0;
    /// Sets and removes SCRAM credentials of users.
    AlterUserScramCredentials = 51, 0..=0, advertised 0, flexible 0;
    /// Who holds the metadata log.
    DescribeQuorum = 55, 0..=2, advertised 0, flexible 0;
    /// Raises and lowers the levels of features.
    UpdateFeatures = 57, 0..=2, advertised 0, flexible 0;
    /// The cluster's id, brokers and controller.
    DescribeCluster = 60, 0..=2, advertised 0, flexible 0;
    /// Idempotent producers of partitions.
    DescribeProducers = 61, 0..=0, advertised 0, flexible 0;
    /// Takes a broker out of the cluster.
    UnregisterBroker = 64, 0..=0, advertised 0, flexible 0;
    /// State of transactional ids.
    DescribeTransactions = 65, 0..=0, advertised 0, flexible 0;
    /// All transactional ids.
    ListTransactions = 66, 0..=2, advertised 0, flexible 0;
    /// Keeps a member of a consumer group alive, and tells it what it has.
    ConsumerGroupHeartbeat = 68, 0..=1, advertised 0, flexible 0;
    /// State of consumer groups.
    ConsumerGroupDescribe = 69, 0..=1, advertised 0, flexible 0;
    /// Which metrics a client is to send.
    GetTelemetrySubscriptions = 71, 0..=0, advertised 0, flexible 0;
    /// What a client measured.
    PushTelemetry = 72, 0..=0, advertised 0, flexible 0;
    /// Resources that have settings, or can.
    ListConfigResources = 74, 0..=1, advertised 0, flexible 0;
    /// Partitions of topics, page by page.
    DescribeTopicPartitions = 75, 0..=0, advertised 0, flexible 0;
    /// Gives the metadata log another voter.
    AddRaftVoter = 80, 0..=1, advertised 0, flexible 0;
    /// Takes a voter from the metadata log.
    RemoveRaftVoter = 81, 0..=0, advertised 0, flexible 0;
}

impl Api {
    /// The key on the wire.
    pub const fn key(self) -> i16 {
        self.row().key
    }

    /// The name, as Kafka's metrics and logs write it.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// The versions that are decoded and answered.
    pub const fn versions(self) -> RangeInclusive<i16> {
        let row = self.row();
        row.min..=row.max
    }

    /// The versions that ApiVersions names (Produce: more than are served).
    pub const fn advertised_versions(self) -> RangeInclusive<i16> {
        let row = self.row();
        row.advertised_min..=row.max
    }

    /// True when this version is served.
    pub const fn serves(self, version: i16) -> bool {
        let row = self.row();
        row.min <= version && version <= row.max
    }

    /// True when this version uses compact lengths and tagged fields.
    pub const fn is_flexible(self, version: i16) -> bool {
        version >= self.row().flexible_from
    }

    /// Version of the request header: 1 has a client id, 2 also tagged fields.
    pub const fn request_header_version(self, version: i16) -> i16 {
        if self.is_flexible(version) { 2 } else { 1 }
    }

    /// Version of the response header: 1 has tagged fields. Always 0 for ApiVersions, whose reader
    /// cannot yet know which version the broker could answer in.
    pub const fn response_header_version(self, version: i16) -> i16 {
        if self.is_flexible(version) && !matches!(self, Api::ApiVersions) {
            1
        } else {
            0
        }
    }
}

/// True for an API whose newest version is beyond the generated codecs.
pub const fn beyond(api: Api) -> bool {
    matches!(
        api,
        Api::ListOffsets
            | Api::OffsetCommit
            | Api::OffsetFetch
            | Api::WriteTxnMarkers
            | Api::DescribeLogDirs
            | Api::AddRaftVoter
    )
}

const _: () = {
    let mut rest = Api::ALL;
    let mut key_before = -1;
    while let [api, others @ ..] = rest {
        let row = api.row();
        assert!(
            key_before < row.key,
            "the table is in the order of the keys"
        );
        assert!(
            Api::from_key(row.key).is_some(),
            "an API is found by its key"
        );
        assert!(
            0 <= row.advertised_min && row.advertised_min <= row.min && row.min <= row.max,
            "what is served is advertised"
        );
        assert!(row.flexible_from >= 0, "a version is not negative");
        key_before = row.key;
        rest = others;
    }
};

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::ApiKey;

    use super::*;

    #[test]
    fn headers_and_versions_agree_with_the_codecs() {
        for &api in Api::ALL {
            assert_eq!(Api::from_key(api.key()), Some(api));
            let key = ApiKey::try_from(api.key()).unwrap();
            assert_eq!(format!("{key:?}"), api.name());
            let encodable = key.valid_versions();
            let newest = encodable.max + i16::from(beyond(api));
            assert!(encodable.min <= *api.versions().start(), "{api:?}");
            assert!(newest >= *api.versions().end(), "{api:?}");
            for version in api.versions() {
                assert_eq!(
                    api.request_header_version(version),
                    key.request_header_version(version),
                    "{api:?} {version}"
                );
                assert_eq!(
                    api.response_header_version(version),
                    key.response_header_version(version),
                    "{api:?} {version}"
                );
            }
        }
    }

    #[test]
    fn old_producers_are_shown_versions_that_are_not_served() {
        assert_eq!(Api::Produce.advertised_versions(), 0..=13);
        assert!(!Api::Produce.serves(2));
        assert_eq!(Api::from_key(4), None);
    }
}
