//! The options that a broker gets at start: plain values, which the caller has validated.
//!
//! There is no `Default`: the server resolves every key of its configuration table into these
//! fields.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use platform::clock::steps::StepSettings;
use storage::JournalOptions;
use storage::journal::RingSize;
use wire::types::NodeId;

use crate::audit::Audit;
use crate::authorizer::{Authorizer, AuthorizerMode};
use crate::group::consumer::ConsumerOptions;
use crate::listener_stores::ListenerStores;
use crate::quota::Windows;
use crate::session::{LoginOptions, SecurityProtocol};

/// One row of the configuration table, as far as `DescribeConfigs` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigKey {
    /// Kafka's property name.
    pub name: &'static str,
    /// Kind of value.
    pub kind: ConfigKind,
    /// Default, as text; `None` when there is none.
    pub default: Option<&'static str>,
    /// Allowed values.
    pub allowed: AllowedValues,
    /// What it does.
    pub doc: &'static str,
    /// When the setting may change.
    pub changes: Changes,
    /// Whether its value is never shown.
    pub sensitive: bool,
}

/// The values that a key takes, beyond those of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowedValues {
    /// Any value of the kind.
    Any,
    /// Numbers from the first to the second, both included.
    Range(i64, i64),
    /// One of these.
    OneOf(&'static [&'static str]),
    /// A comma-separated choice of these, at least one.
    Several(&'static [&'static str]),
    /// Text that is not empty.
    NotEmpty,
}

/// When a setting may change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Changes {
    /// At start only (Kafka: read-only).
    AtStart,
    /// While running, for one broker (Kafka: per-broker).
    PerBroker,
    /// While running, for one broker or for all.
    ClusterWide,
}

impl ConfigKey {
    /// Returns whether the setting may change while the broker runs.
    pub fn is_dynamic(&self) -> bool {
        self.changes != Changes::AtStart
    }
}

/// Kinds of configuration values, with the numbers that `DescribeConfigs` uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigKind {
    /// true or false.
    Boolean = 1,
    /// Text.
    String = 2,
    /// 32-bit number.
    Int = 3,
    /// 16-bit number.
    Short = 4,
    /// 64-bit number.
    Long = 5,
    /// Fraction.
    Double = 6,
    /// Comma-separated texts.
    List = 7,
    /// Name of a class.
    Class = 8,
    /// Secret.
    Password = 9,
}

/// A network name under which clients reach this broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Name of the listener, for example `PLAINTEXT`.
    pub listener: String,
    /// Host that the broker advertises.
    pub host: String,
    /// Port that the broker advertises.
    pub port: u16,
    /// What the listener speaks.
    pub protocol: SecurityProtocol,
}

/// Limits and behaviour of one broker.
#[derive(Clone, Debug)]
pub struct BrokerOptions {
    /// This node.
    pub node_id: NodeId,
    /// Rack of this node.
    pub rack: Option<String>,
    /// Advertised endpoints; the first one is the inter-broker listener.
    pub endpoints: Vec<Endpoint>,
    /// How clients log in, by the name of the listener: each that asks for a login.
    // Bounded: `listeners`.
    pub logins: BTreeMap<String, Arc<LoginOptions>>,
    /// Who decides what clients may do; `None`: everybody may do everything.
    pub authorizer: Option<Arc<Authorizer>>,
    /// Where events for an auditor go.
    pub audit: Audit,
    /// Who serves listeners with key and trust stores; `None`: no listener speaks TLS.
    pub stores: Option<Arc<dyn ListenerStores>>,
    /// Log directories.
    pub log_dirs: Vec<PathBuf>,
    /// Directories of the tiers below the first.
    pub lower_dirs: Vec<PathBuf>,
    /// Names of the tiers, fastest first; if empty, the log directories are the only tier.
    pub tiers: Vec<Arc<str>>,
    /// The journals of the log directories; `None`: there are none.
    pub journal: Option<JournalSettings>,
    /// Whether a Metadata request for a missing topic creates it.
    pub auto_create_topics: bool,
    /// Whether `DeleteTopics` is allowed.
    pub delete_topics: bool,
    /// Partitions of a topic whose creator gave no number.
    pub num_partitions: i32,
    /// Replicas of a topic whose creator gave no number.
    pub default_replication_factor: i16,
    /// Largest response of a fetch, in bytes.
    pub fetch_bytes_max: usize,
    /// Incremental fetch sessions kept per shard.
    pub fetch_sessions_max: usize,
    /// How often retention looks for segments to delete.
    pub retention_check: Duration,
    /// How often recovery points, log starts and high watermarks are written.
    pub checkpoint_interval: Duration,
    /// Group coordinator and offsets topic.
    pub group: GroupOptions,
    /// Transaction coordinator and its topic.
    pub transaction: TransactionOptions,
    /// Quotas of clients: how usage is measured.
    pub quota: QuotaOptions,
    /// Largest push of a client's metrics, compressed, in bytes.
    pub telemetry_bytes_max: usize,
    /// Metadata records between two snapshots, in bytes.
    pub metadata_snapshot_bytes: u64,
    /// Room that the metadata log keeps for changes on a full disk, in bytes.
    pub metadata_reserve_bytes: u64,
    /// Which jump of the wall clock is a step, and how long a step is not accepted: the settings at
    /// start.
    pub clock: StepSettings,
    /// Every static setting by Kafka's name, as text (only those that were set).
    // Bounded: the settings of the table that the file sets, `server::config::raw::FILE_BYTES_MAX`.
    pub static_settings: BTreeMap<String, String>,
    /// The configuration table.
    pub config_keys: &'static [ConfigKey],
}

/// Journals: a ring for each log directory and shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JournalSettings {
    /// The size of each ring.
    pub size: RingSize,
    /// Where the rings of each log directory are, in the order of these; `None`: in the log
    /// directory itself.
    pub dirs: Vec<Option<PathBuf>>,
    /// When appends go through them, and when they land.
    pub options: JournalOptions,
}

impl JournalSettings {
    /// Returns where the rings of a log directory are, by its index and path.
    pub fn rings_dir<'a>(&'a self, index: usize, dir: &'a Path) -> &'a Path {
        self.own_dir(index).unwrap_or(dir)
    }

    /// Returns where rings of a log directory may be at a start: where they are from now on first,
    /// then where those of others are, since devices may have changed their places.
    pub fn places(&self, index: usize, dir: &Path) -> Vec<PathBuf> {
        let own = self.rings_dir(index, dir).to_path_buf();
        let others = self.dirs.iter().flatten().filter(|other| **other != own);
        let others: Vec<_> = others.cloned().collect();
        [vec![own], others].concat()
    }

    /// Returns where the rings of a log directory are, if not in itself.
    pub fn own_dir(&self, index: usize) -> Option<&Path> {
        self.dirs.get(index)?.as_deref()
    }
}

/// Kinds of metadata that a broker with these settings enforces.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct EnforcedMetadata {
    /// Users: at least one listener asks for a login.
    pub users: bool,
    /// ACLs: the authorizer enforces them.
    pub acls: bool,
}

impl BrokerOptions {
    /// Returns which kinds of metadata a broker with these options enforces.
    pub fn enforced_metadata(&self) -> EnforcedMetadata {
        let authorizer = self.authorizer.as_ref();
        EnforcedMetadata {
            users: !self.logins.is_empty(),
            acls: authorizer.is_some_and(|it| it.mode == AuthorizerMode::Enforce),
        }
    }
}

/// How usage is measured against quotas.
#[derive(Clone, Copy, Debug)]
pub struct QuotaOptions {
    /// Quotas on bytes and time.
    pub rates: Windows,
    /// Quotas on changes to the metadata.
    pub mutations: Windows,
}

impl QuotaOptions {
    /// Returns Kafka's defaults: eleven samples of one second.
    pub const fn kafka() -> Self {
        let windows = Windows {
            samples: 11,
            window: Duration::from_secs(1),
        };
        Self {
            rates: windows,
            mutations: windows,
        }
    }
}

/// Limits and behaviour of the group coordinator.
#[derive(Clone, Debug)]
pub struct GroupOptions {
    /// Partitions of `__consumer_offsets` when it is created.
    pub offsets_partitions: i32,
    /// Segment size of `__consumer_offsets`, in bytes.
    pub offsets_segment_bytes: i32,
    /// Largest metadata string of a committed offset, in bytes.
    pub offset_metadata_bytes_max: usize,
    /// How long offsets of an empty group are kept.
    pub offsets_retention: Duration,
    /// How often expired offsets are looked for.
    pub offsets_retention_check: Duration,
    /// How long a commit may wait until it is durable.
    pub offset_commit_timeout: Duration,
    /// Least session timeout.
    pub session_timeout_min: Duration,
    /// Largest session timeout.
    pub session_timeout_max: Duration,
    /// How long a new group waits for more members.
    pub initial_rebalance_delay: Duration,
    /// Largest number of members of a classic group.
    pub members_max: usize,
    /// Bytes that the groups of a shard may take, approximately.
    pub state_bytes_max: usize,
    /// Whether consumer groups are served (once the cluster has agreed on `group.version`).
    pub consumer_protocol: bool,
    /// Limits and behaviour of consumer groups.
    pub consumer: ConsumerOptions,
}

/// Limits and behaviour of the transaction coordinator.
#[derive(Clone, Debug)]
pub struct TransactionOptions {
    /// Partitions of `__transaction_state` when it is created.
    pub partitions: i32,
    /// Segment size of `__transaction_state`, in bytes.
    pub segment_bytes: i32,
    /// Longest timeout that a producer may ask for.
    pub timeout_max: Duration,
    /// How long an unused transactional id is kept.
    pub id_expiration: Duration,
    /// How often overdue transactions are looked for.
    pub abort_check: Duration,
    /// How often unused transactional ids are looked for.
    pub expiration_check: Duration,
    /// Whether the coordinator is asked before a producer's first batch of a transaction is
    /// appended.
    pub verify_partitions: bool,
    /// How often producers that were silent for too long are looked for.
    pub producer_expiration_check: Duration,
}
