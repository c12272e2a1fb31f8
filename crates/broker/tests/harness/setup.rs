//! How a simulated broker is set up: small segments, short intervals, one log directory.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use broker::log_dirs::OperatorConsent;
use broker::options::{BrokerOptions, Endpoint, GroupOptions, JournalSettings, TransactionOptions};
use storage::journal::RingSize;
use storage::tier::TierOptions;
use storage::tier::policy::PolicySettings;
use storage::{JournalOptions, StoreOptions};
use wire::types::NodeId;

/// Wall time of the first start: 2026-01-01.
pub(crate) const NOW_MS: i64 = 1_767_225_600_000;
pub(crate) const DIR: &str = "/logs";

/// What a life begins with.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) shards: usize,
    pub(crate) seed: u64,
    pub(crate) wall_ms: i64,
    pub(crate) options: BrokerOptions,
    pub(crate) store: StoreOptions,
    /// Memory that answers may hold.
    pub(crate) answers_bytes_max: usize,
    /// With tiers: those, and when their mover moves what.
    pub(crate) tiers: Option<(Vec<TierOptions>, PolicySettings)>,
    /// What the operator allows at the start.
    pub(crate) told: OperatorConsent,
}

impl Setup {
    pub(crate) fn shards(shards: usize) -> Self {
        Self {
            shards,
            seed: 1,
            wall_ms: NOW_MS,
            options: options(),
            store: store_options(),
            answers_bytes_max: 1 << 30,
            tiers: None,
            told: OperatorConsent::default(),
        }
    }

    /// With a journal for each log directory and shard, in `dir` or in the log directory.
    pub(crate) fn with_journal(mut self, dir: Option<&str>) -> Self {
        let dir = dir.map(PathBuf::from);
        self.options.journal = Some(JournalSettings {
            size: RingSize::new(256 << 10).expect("whole blocks"),
            dirs: vec![dir; self.options.log_dirs.len()],
            options: JournalOptions {
                bypass_bytes: 16 << 10,
                land_bytes: 32 << 10,
                land_after: Duration::from_secs(2),
                unlanded_bytes_max: 64 << 10,
            },
        });
        self
    }

    /// With tiers; the paths of the first are the log directories.
    pub(crate) fn with_tiers(mut self, tiers: Vec<TierOptions>, policy: PolicySettings) -> Self {
        let dirs = |tiers: &[TierOptions]| {
            let paths = tiers.iter().flat_map(|tier| &tier.paths);
            paths.map(|path| path.dir.clone()).collect()
        };
        self.options.log_dirs = dirs(&tiers[..1]);
        self.options.lower_dirs = dirs(&tiers[1..]);
        self.options.tiers = tiers.iter().map(|tier| tier.name.clone()).collect();
        self.tiers = Some((tiers, policy));
        self
    }

    /// A static setting, as in the properties file.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        let settings = &mut self.options.static_settings;
        settings.insert(name.to_owned(), value.to_owned());
        self
    }

    /// The next process: later, and with other random numbers.
    pub(crate) fn next(&self) -> Self {
        Self {
            seed: self.seed + 1,
            wall_ms: self.wall_ms + 3_600_000,
            ..self.clone()
        }
    }
}

fn options() -> BrokerOptions {
    BrokerOptions {
        node_id: NodeId(1),
        rack: None,
        endpoints: vec![Endpoint {
            listener: "PLAINTEXT".into(),
            host: "localhost".into(),
            port: 9092,
            protocol: broker::session::SecurityProtocol::Plaintext,
        }],
        logins: BTreeMap::new(),
        authorizer: None,
        audit: broker::audit::Audit::default(),
        stores: None,
        log_dirs: vec![DIR.into()],
        lower_dirs: Vec::new(),
        journal: None,
        tiers: Vec::new(),
        auto_create_topics: false,
        delete_topics: true,
        num_partitions: 1,
        default_replication_factor: 1,
        fetch_bytes_max: 1 << 20,
        fetch_sessions_max: 10,
        retention_check: Duration::from_mins(5),
        checkpoint_interval: Duration::from_mins(1),
        group: GroupOptions {
            offsets_partitions: 3,
            offsets_segment_bytes: 1 << 20,
            offset_metadata_bytes_max: 4096,
            offsets_retention: Duration::from_hours(168),
            offsets_retention_check: Duration::from_mins(10),
            offset_commit_timeout: Duration::from_secs(5),
            session_timeout_min: Duration::from_secs(6),
            session_timeout_max: Duration::from_mins(30),
            initial_rebalance_delay: Duration::from_secs(3),
            members_max: 100,
            state_bytes_max: 256 << 20,
            consumer_protocol: true,
            consumer: broker::group::consumer::ConsumerOptions::kafka(),
        },
        transaction: TransactionOptions {
            partitions: 3,
            segment_bytes: 1 << 20,
            timeout_max: Duration::from_mins(15),
            id_expiration: Duration::from_hours(168),
            abort_check: Duration::from_secs(10),
            expiration_check: Duration::from_hours(1),
            verify_partitions: true,
            producer_expiration_check: Duration::from_mins(10),
        },
        quota: broker::options::QuotaOptions::kafka(),
        telemetry_bytes_max: 1 << 20,
        metadata_snapshot_bytes: 1 << 20,
        metadata_reserve_bytes: 1 << 20,
        clock: platform::clock::steps::StepSettings::DEFAULT,
        static_settings: BTreeMap::new(),
        config_keys: &[],
    }
}

fn store_options() -> StoreOptions {
    StoreOptions {
        cache_bytes_max: 1 << 20,
        cache_bytes_start: 1 << 20,
        unwritten_bytes_max: 8 << 20,
        chunk_bytes: 64 << 10,
        reserve_chunks: 0,
        allocate_step_bytes: 32 << 10,
        save_interval_bytes: 1 << 30,
        read_ahead_bytes_max: 64 << 10,
        open_segments_max: 64,
    }
}
