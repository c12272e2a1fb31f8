//! The table of served APIs: key, name, versions, and the first version with the flexible encoding.
//!
//! The versions are those of Apache Kafka 4.3; where the generated codecs end one version earlier,
//! [`super::newest`] has the last one ([`beyond`]). An API or version outside the table is neither
//! advertised nor accepted. Produce is advertised from version 0 but served from 3, as in Kafka,
//! for old librdkafka (KIP-896).

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

            /// Returns the API with this key, if it is served.
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
    /// Looks up offsets by timestamp.
    ListOffsets = 2, 1..=11, advertised 1, flexible 6;
    /// Lists brokers, topics and partition leaders.
    Metadata = 3, 0..=13, advertised 0, flexible 9;
    /// Stores a group's committed offsets.
    OffsetCommit = 8, 2..=10, advertised 2, flexible 8;
    /// Reads a group's committed offsets.
    OffsetFetch = 9, 1..=10, advertised 1, flexible 6;
    /// Finds the broker that coordinates a group.
    FindCoordinator = 10, 0..=6, advertised 0, flexible 3;
    /// Joins a group's rebalance.
    JoinGroup = 11, 0..=9, advertised 0, flexible 6;
    /// Keeps a group member alive.
    Heartbeat = 12, 0..=4, advertised 0, flexible 4;
    /// Leaves a group.
    LeaveGroup = 13, 0..=5, advertised 0, flexible 4;
    /// Distributes a group's assignment.
    SyncGroup = 14, 0..=5, advertised 0, flexible 4;
    /// Describes the state of groups.
    DescribeGroups = 15, 0..=6, advertised 0, flexible 5;
    /// Lists all groups.
    ListGroups = 16, 0..=5, advertised 0, flexible 3;
    /// Selects the SASL mechanism.
    SaslHandshake = 17, 0..=1, advertised 0, flexible 32767;
    /// Returns this table.
    ApiVersions = 18, 0..=4, advertised 0, flexible 3;
    /// Creates topics.
    CreateTopics = 19, 2..=7, advertised 2, flexible 5;
    /// Deletes topics.
    DeleteTopics = 20, 1..=6, advertised 1, flexible 4;
    /// Raises log start offsets.
    DeleteRecords = 21, 0..=2, advertised 0, flexible 2;
    /// Gives a producer its identity.
    InitProducerId = 22, 0..=5, advertised 0, flexible 2;
    /// Finds where a leader epoch ended.
    OffsetForLeaderEpoch = 23, 2..=4, advertised 2, flexible 4;
    /// Adds partitions to a transaction, or verifies that they are in it.
    AddPartitionsToTxn = 24, 0..=5, advertised 0, flexible 3;
    /// Adds a group's offsets to a transaction.
    AddOffsetsToTxn = 25, 0..=4, advertised 0, flexible 3;
    /// Commits or aborts a transaction.
    EndTxn = 26, 0..=5, advertised 0, flexible 3;
    /// Writes the markers that end a transaction into its partitions.
    WriteTxnMarkers = 27, 1..=2, advertised 1, flexible 1;
    /// Stores a group's committed offsets as part of a transaction.
    TxnOffsetCommit = 28, 0..=5, advertised 0, flexible 3;
    /// Lists ACLs.
    DescribeAcls = 29, 1..=3, advertised 1, flexible 2;
    /// Adds ACLs.
    CreateAcls = 30, 1..=3, advertised 1, flexible 2;
    /// Removes ACLs.
    DeleteAcls = 31, 1..=3, advertised 1, flexible 2;
    /// Reads the effective configuration of topics and brokers.
    DescribeConfigs = 32, 1..=4, advertised 1, flexible 4;
    /// Replaces the configuration of topics and brokers.
    AlterConfigs = 33, 0..=2, advertised 0, flexible 2;
    /// Moves replicas between log directories.
    AlterReplicaLogDirs = 34, 1..=2, advertised 1, flexible 2;
    /// Reads the sizes of partitions on disk.
    DescribeLogDirs = 35, 1..=5, advertised 1, flexible 2;
    /// Carries a step of the SASL exchange.
    SaslAuthenticate = 36, 0..=2, advertised 0, flexible 2;
    /// Adds partitions to topics.
    CreatePartitions = 37, 0..=3, advertised 0, flexible 2;
    /// Creates a delegation token.
    CreateDelegationToken = 38, 1..=3, advertised 1, flexible 2;
    /// Extends the lifetime of a delegation token.
    RenewDelegationToken = 39, 1..=2, advertised 1, flexible 2;
    /// Shortens the lifetime of a delegation token.
    ExpireDelegationToken = 40, 1..=2, advertised 1, flexible 2;
    /// Lists delegation tokens.
    DescribeDelegationToken = 41, 1..=3, advertised 1, flexible 2;
    /// Deletes groups.
    DeleteGroups = 42, 0..=2, advertised 0, flexible 2;
    /// Elects leaders of partitions.
    ElectLeaders = 43, 0..=2, advertised 0, flexible 2;
    /// Changes the configuration of topics and brokers key by key.
    IncrementalAlterConfigs = 44, 0..=1, advertised 0, flexible 1;
    /// Changes the replicas of partitions.
    AlterPartitionReassignments = 45, 0..=1, advertised 0, flexible 0;
    /// Lists the reassignments in progress.
    ListPartitionReassignments = 46, 0..=0, advertised 0, flexible 0;
    /// Deletes a group's committed offsets.
    OffsetDelete = 47, 0..=0, advertised 0, flexible 32767;
    /// Reads client quotas.
    DescribeClientQuotas = 48, 0..=1, advertised 0, flexible 1;
    /// Sets and removes client quotas.
    AlterClientQuotas = 49, 0..=1, advertised 0, flexible 1;
    /// Lists which users have SCRAM credentials.
    DescribeUserScramCredentials = 50, 0..=0, advertised 0, flexible 0;
    /// Sets and removes SCRAM credentials of users.
    AlterUserScramCredentials = 51, 0..=0, advertised 0, flexible 0;
    /// Describes the quorum of the metadata log.
    DescribeQuorum = 55, 0..=2, advertised 0, flexible 0;
    /// Raises and lowers the levels of features.
    UpdateFeatures = 57, 0..=2, advertised 0, flexible 0;
    /// Describes the cluster's id, brokers and controller.
    DescribeCluster = 60, 0..=2, advertised 0, flexible 0;
    /// Describes the idempotent producers of partitions.
    DescribeProducers = 61, 0..=0, advertised 0, flexible 0;
    /// Removes a broker from the cluster.
    UnregisterBroker = 64, 0..=0, advertised 0, flexible 0;
    /// Describes the state of transactional ids.
    DescribeTransactions = 65, 0..=0, advertised 0, flexible 0;
    /// Lists all transactional ids.
    ListTransactions = 66, 0..=2, advertised 0, flexible 0;
    /// Keeps a member of a consumer group alive, and returns its assignment.
    ConsumerGroupHeartbeat = 68, 0..=1, advertised 0, flexible 0;
    /// Describes the state of consumer groups.
    ConsumerGroupDescribe = 69, 0..=1, advertised 0, flexible 0;
    /// Returns which metrics a client must send.
    GetTelemetrySubscriptions = 71, 0..=0, advertised 0, flexible 0;
    /// Receives a client's metrics.
    PushTelemetry = 72, 0..=0, advertised 0, flexible 0;
    /// Lists the resources that have settings, or can have them.
    ListConfigResources = 74, 0..=1, advertised 0, flexible 0;
    /// Describes the partitions of topics, page by page.
    DescribeTopicPartitions = 75, 0..=0, advertised 0, flexible 0;
    /// Adds a voter to the metadata log.
    AddRaftVoter = 80, 0..=1, advertised 0, flexible 0;
    /// Removes a voter from the metadata log.
    RemoveRaftVoter = 81, 0..=0, advertised 0, flexible 0;
}

impl Api {
    /// Returns the key on the wire.
    pub const fn key(self) -> i16 {
        self.row().key
    }

    /// Returns the name as in Kafka's metrics and logs.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// Returns the versions that the broker decodes and answers.
    pub const fn versions(self) -> RangeInclusive<i16> {
        let row = self.row();
        row.min..=row.max
    }

    /// Returns the versions that ApiVersions lists (for Produce, more than are served).
    pub const fn advertised_versions(self) -> RangeInclusive<i16> {
        let row = self.row();
        row.advertised_min..=row.max
    }

    /// Returns true when the broker serves this version.
    pub const fn serves(self, version: i16) -> bool {
        let row = self.row();
        row.min <= version && version <= row.max
    }

    /// Returns true when this version uses compact lengths and tagged fields.
    pub const fn is_flexible(self, version: i16) -> bool {
        version >= self.row().flexible_from
    }

    /// Returns the version of the request header: 1 has a client id, 2 also tagged fields.
    pub const fn request_header_version(self, version: i16) -> i16 {
        if self.is_flexible(version) { 2 } else { 1 }
    }

    /// Returns the version of the response header: 1 has tagged fields.
    ///
    /// Always 0 for ApiVersions, because its client does not know yet which version the broker
    /// answers in.
    pub const fn response_header_version(self, version: i16) -> i16 {
        if self.is_flexible(version) && !matches!(self, Api::ApiVersions) {
            1
        } else {
            0
        }
    }
}

/// Returns true for an API whose newest version is beyond the generated codecs.
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
