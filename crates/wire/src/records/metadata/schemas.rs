//! The schemas of the metadata records, as in Kafka 4.3 (`metadata.version` 30).
//!
//! Invariant: every version has the compact form. Not here: framing, and which version is written
//! (`records/metadata.rs`).

use bytes::Bytes;
use uuid::Uuid;

use crate::records::schema::schema;

schema! {
    /// A broker started. It stays fenced until it serves.
    RegisterBrokerRecord, versions 0..=4, flexible 0.. {
        /// The broker.
        broker_id: i32 = 0, in 0..=4;
        /// Left from the migration away from `ZooKeeper`.
        is_migrating_zk_broker: bool = false, in 2..=4;
        /// Random for each start of the process.
        incarnation_id: Uuid = Uuid::nil(), in 0..=4;
        /// Offset of the registration in the metadata log.
        broker_epoch: i64 = 0, in 0..=4;
        /// The endpoints where it listens.
        end_points: Vec<EndpointEntry> = Vec::new(), in 0..=4;
        /// Feature levels that it supports.
        features: Vec<FeatureEntry> = Vec::new(), in 0..=4;
        /// Its rack.
        rack: Option<String> = None, in 0..=4;
        /// True until it serves.
        fenced: bool = true, in 0..=4;
        /// True during a controlled shutdown.
        in_controlled_shutdown: bool = false, in 1..=4;
        /// Ids of its usable log directories.
        log_dirs: Vec<Uuid> = Vec::new(), in 3..=4, tag 0;
        /// Ids of its log directories that take no new partitions; null before the broker reported
        /// them.
        cordoned_log_dirs: Option<Vec<Uuid>> = None, in 4..=4, tag 1;
    }

    /// One listener.
    EndpointEntry, versions 0..=4, flexible 0.. {
        /// Listener name.
        name: String = String::new(), in 0..=4;
        /// Advertised host.
        host: String = String::new(), in 0..=4;
        /// Advertised port.
        port: u16 = 0, in 0..=4;
        /// 0 plain, 1 TLS, 2 SASL over plain, 3 SASL over TLS.
        security_protocol: i16 = 0, in 0..=4;
    }

    /// One supported feature.
    FeatureEntry, versions 0..=4, flexible 0.. {
        /// Feature name.
        name: String = String::new(), in 0..=4;
        /// Lowest level supported.
        min_supported_version: i16 = 0, in 0..=4;
        /// Highest level supported.
        max_supported_version: i16 = 0, in 0..=4;
    }

    /// A broker was removed permanently.
    UnregisterBrokerRecord, versions 0..=0, flexible 0.. {
        /// The broker.
        broker_id: i32 = 0, in 0..=0;
        /// Its epoch.
        broker_epoch: i64 = 0, in 0..=0;
    }

    /// A topic was created.
    TopicRecord, versions 0..=0, flexible 0.. {
        /// Its name.
        name: String = String::new(), in 0..=0;
        /// Its id.
        topic_id: Uuid = Uuid::nil(), in 0..=0;
    }

    /// The whole state of a partition.
    PartitionRecord, versions 0..=2, flexible 0.. {
        /// Index within the topic.
        partition_id: i32 = -1, in 0..=2;
        /// The topic.
        topic_id: Uuid = Uuid::nil(), in 0..=2;
        /// Replicas by preference.
        replicas: Vec<i32> = Vec::new(), in 0..=2;
        /// In-sync replicas.
        isr: Vec<i32> = Vec::new(), in 0..=2;
        /// Replicas being removed.
        removing_replicas: Vec<i32> = Vec::new(), in 0..=2;
        /// Replicas being added.
        adding_replicas: Vec<i32> = Vec::new(), in 0..=2;
        /// The leader; -1 for none.
        leader: i32 = -1, in 0..=2;
        /// The leader epoch.
        leader_epoch: i32 = -1, in 0..=2;
        /// The partition epoch: version of the whole record.
        partition_epoch: i32 = -1, in 0..=2;
        /// Log directory of each replica.
        directories: Vec<Uuid> = Vec::new(), in 1..=2;
        /// 1 while the leader recovers from an unclean election.
        leader_recovery_state: i8 = 0, in 0..=2, tag 0;
        /// Eligible leader replicas.
        eligible_leader_replicas: Option<Vec<i32>> = None, in 2..=2, tag 1;
        /// Members of the last in-sync set.
        last_known_elr: Option<Vec<i32>> = None, in 2..=2, tag 2;
    }

    /// A setting of a resource; a null value removes it.
    ConfigRecord, versions 0..=0, flexible 0.. {
        /// 2 topic, 4 broker, 16 client metrics, 32 group.
        resource_type: i8 = 0, in 0..=0;
        /// Topic name, or broker id, or empty for all brokers.
        resource_name: String = String::new(), in 0..=0;
        /// The setting.
        name: String = String::new(), in 0..=0;
        /// Its value.
        value: Option<String> = None, in 0..=0;
    }

    /// The changed fields of a partition; unchanged fields are absent.
    PartitionChangeRecord, versions 0..=2, flexible 0.. {
        /// Index within the topic.
        partition_id: i32 = -1, in 0..=2;
        /// The topic.
        topic_id: Uuid = Uuid::nil(), in 0..=2;
        /// New in-sync replicas.
        isr: Option<Vec<i32>> = None, in 0..=2, tag 0;
        /// New leader, -1 none, -2 unchanged. Any leader present raises the leader epoch.
        leader: i32 = -2, in 0..=2, tag 1;
        /// New replicas.
        replicas: Option<Vec<i32>> = None, in 0..=2, tag 2;
        /// New replicas being removed.
        removing_replicas: Option<Vec<i32>> = None, in 0..=2, tag 3;
        /// New replicas being added.
        adding_replicas: Option<Vec<i32>> = None, in 0..=2, tag 4;
        /// New recovery state, -1 unchanged.
        leader_recovery_state: i8 = -1, in 0..=2, tag 5;
        /// New eligible leader replicas.
        eligible_leader_replicas: Option<Vec<i32>> = None, in 2..=2, tag 6;
        /// New members of the last in-sync set.
        last_known_elr: Option<Vec<i32>> = None, in 2..=2, tag 7;
        /// New log directories.
        directories: Option<Vec<Uuid>> = None, in 1..=2, tag 8;
    }

    /// A broker lost its session.
    FenceBrokerRecord, versions 0..=0, flexible 0.. {
        /// The broker.
        id: i32 = 0, in 0..=0;
        /// Its epoch.
        epoch: i64 = 0, in 0..=0;
    }

    /// A broker began to serve.
    UnfenceBrokerRecord, versions 0..=0, flexible 0.. {
        /// The broker.
        id: i32 = 0, in 0..=0;
        /// Its epoch.
        epoch: i64 = 0, in 0..=0;
    }

    /// A topic was deleted, together with its partitions and settings.
    RemoveTopicRecord, versions 0..=0, flexible 0.. {
        /// The topic.
        topic_id: Uuid = Uuid::nil(), in 0..=0;
    }

    /// A user's SCRAM credential was set.
    UserScramCredentialRecord, versions 0..=0, flexible 0.. {
        /// The user.
        name: String = String::new(), in 0..=0;
        /// 1: SCRAM-SHA-256; 2: SCRAM-SHA-512.
        mechanism: i8 = 0, in 0..=0;
        /// Random bytes that the client chose.
        salt: Bytes = Bytes::new(), in 0..=0;
        /// The key that verifies the client's proof.
        stored_key: Bytes = Bytes::new(), in 0..=0;
        /// The key that the server proves its identity with.
        server_key: Bytes = Bytes::new(), in 0..=0;
        /// Number of hash iterations.
        iterations: i32 = 0, in 0..=0;
    }

    /// A user's SCRAM credential was removed.
    RemoveUserScramCredentialRecord, versions 0..=0, flexible 0.. {
        /// The user.
        name: String = String::new(), in 0..=0;
        /// The mechanism.
        mechanism: i8 = 0, in 0..=0;
    }

    /// A feature's level was finalized; level 0 removes the feature.
    FeatureLevelRecord, versions 0..=0, flexible 0.. {
        /// Feature name.
        name: String = String::new(), in 0..=0;
        /// Level.
        feature_level: i16 = 0, in 0..=0;
    }

    /// A client quota was set or removed.
    ClientQuotaRecord, versions 0..=0, flexible 0.. {
        /// The entity: one entry for each kind of name.
        entity: Vec<QuotaEntityEntry> = Vec::new(), in 0..=0;
        /// Name of the quota.
        key: String = String::new(), in 0..=0;
        /// The value, unless `remove` is set.
        value: f64 = 0.0, in 0..=0;
        /// True when the quota is removed.
        remove: bool = false, in 0..=0;
    }

    /// One kind of name of a quota's entity.
    QuotaEntityEntry, versions 0..=0, flexible 0.. {
        /// `user`, `client-id` or `ip`.
        entity_type: String = String::new(), in 0..=0;
        /// The name; null for every entity without its own quota.
        entity_name: Option<String> = None, in 0..=0;
    }

    /// An ACL: who may do what with which resource. What the numbers and texts stand for:
    /// `acl/raw.rs`.
    AccessControlEntryRecord, versions 0..=0, flexible 0.. {
        /// Its id.
        id: Uuid = Uuid::nil(), in 0..=0;
        /// The kind of resource, as numbered in the protocol.
        resource_type: i8 = 0, in 0..=0;
        /// The name of the resource, or a prefix.
        resource_name: String = String::new(), in 0..=0;
        /// How the name is compared.
        pattern_type: i8 = 0, in 0..=0;
        /// The user, as `User:name`.
        principal: String = String::new(), in 0..=0;
        /// The address of the client, or `*`.
        host: String = String::new(), in 0..=0;
        /// The operation, as numbered in the protocol.
        operation: i8 = 0, in 0..=0;
        /// 2 denies, 3 allows.
        permission_type: i8 = 0, in 0..=0;
    }

    /// An ACL was removed.
    RemoveAccessControlEntryRecord, versions 0..=0, flexible 0.. {
        /// Its id.
        id: Uuid = Uuid::nil(), in 0..=0;
    }

    /// A block of producer ids was allocated.
    ProducerIdsRecord, versions 0..=0, flexible 0.. {
        /// The broker that got the block.
        broker_id: i32 = 0, in 0..=0;
        /// Its epoch.
        broker_epoch: i64 = -1, in 0..=0;
        /// First id of the next block.
        next_producer_id: i64 = 0, in 0..=0;
    }

    /// The changed fields of a broker's registration.
    BrokerRegistrationChangeRecord, versions 0..=3, flexible 0.. {
        /// The broker.
        broker_id: i32 = 0, in 0..=3;
        /// Its epoch.
        broker_epoch: i64 = 0, in 0..=3;
        /// -1 unfenced, 0 unchanged, 1 fenced.
        fenced: i8 = 0, in 0..=3, tag 0;
        /// 1 when a controlled shutdown begins.
        in_controlled_shutdown: i8 = 0, in 1..=3, tag 1;
        /// New usable log directories; empty when unchanged.
        log_dirs: Vec<Uuid> = Vec::new(), in 2..=3, tag 2;
        /// New cordoned log directories; null when unchanged.
        cordoned_log_dirs: Option<Vec<Uuid>> = None, in 3..=3, tag 3;
    }

    /// No change.
    NoOpRecord, versions 0..=0, flexible 0.. {}

    /// A metadata transaction begins. Its records take effect only when it ends.
    BeginTransactionRecord, versions 0..=0, flexible 0.. {
        /// Purpose of the transaction.
        name: Option<String> = None, in 0..=0, tag 0;
    }

    /// A metadata transaction takes effect.
    EndTransactionRecord, versions 0..=0, flexible 0.. {}

    /// A metadata transaction is undone.
    AbortTransactionRecord, versions 0..=0, flexible 0.. {
        /// The reason.
        reason: Option<String> = None, in 0..=0, tag 0;
    }

    /// A controller started.
    RegisterControllerRecord, versions 0..=0, flexible 0.. {
        /// The controller.
        controller_id: i32 = 0, in 0..=0;
        /// Random for each start of the process.
        incarnation_id: Uuid = Uuid::nil(), in 0..=0;
        /// Left from the migration away from `ZooKeeper`.
        zk_migration_ready: bool = false, in 0..=0;
        /// The endpoints where it listens.
        end_points: Vec<EndpointEntry> = Vec::new(), in 0..=0;
        /// Feature levels that it supports.
        features: Vec<FeatureEntry> = Vec::new(), in 0..=0;
    }

    /// The eligible leader replicas were cleared.
    ClearElrRecord, versions 0..=0, flexible 0.. {
        /// The topic; empty for all.
        topic_name: String = String::new(), in 0..=0;
    }
}
