//! Settings as typed values, validated once; all problems are reported together.
//!
//! Invariant: the broker can start with a [`Settings`]: each value satisfies the rule of its key
//! and the rules between keys. This module does not look at the machine (what it needs is in
//! [`Machine`]), does not open anything, and does not know the node id of an existing directory.

mod admin;
mod audit;
mod authorizer;
mod groups;
mod journal;
mod listeners;
mod login;
mod network;
mod oauth;
mod shown;
mod tiers;
mod tls;

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::tls::ServerTlsSettings;
use broker::authorizer::Authorizer;
use broker::log_dirs::OperatorConsent;
use broker::node_config::CordonedDirs;
use broker::options::EnforcedMetadata;
use broker::options::{BrokerOptions, Endpoint, JournalSettings, QuotaOptions, TransactionOptions};
use broker::quota::Windows;
use broker::session::SecurityProtocol;
use platform::clock::steps::StepSettings;
use wire::types::NodeId;

pub use self::admin::{AdminAuth, AdminSettings};
pub use self::tls::ListenerSecurity;
use super::address::{self, Address};
use super::cpus;
use super::keys;
use super::problem::{Problem, Warning};
use super::providers;
use super::raw::RawSettings;
use super::values::Values;
use crate::audit::AuditSettings;
use crate::machine::Machine;
use crate::oauth::TokenKeys;
pub(in crate::config) use authorizer::needs_authorizer;
pub use network::NetworkSettings;
pub use tiers::TierSettings;

/// Settings with which a broker can start, and the warnings about them.
#[derive(Debug)]
pub struct ResolvedSettings {
    /// What to start with.
    pub settings: Settings,
    /// Warnings about keys without effect and unknown keys.
    pub warnings: Vec<Warning>,
}

/// Settings with all warnings and problems; a broker starts only if there is no problem.
#[derive(Debug)]
pub struct CheckedSettings {
    /// The settings, with the default in the place of each wrong value. They may be used to look at
    /// what they name; to start with them, there must be no problem.
    pub settings: Settings,
    /// Warnings, whether or not the start is refused.
    pub warnings: Vec<Warning>,
    /// Why the start is refused; empty if it is not.
    pub problems: Vec<Problem>,
}

/// All settings, typed.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "settings that are on or off")]
pub struct Settings {
    /// Node id, if set; else that of an existing directory, else 1.
    pub node_id: Option<i32>,
    /// Cluster id for a fresh directory; an existing directory must have the same.
    pub cluster_id: Option<String>,
    /// Data directories, at least one.
    pub log_dirs: Vec<PathBuf>,
    /// What the command line allows for them at this start.
    pub told: OperatorConsent,
    /// Tiers, if there are any; `log_dirs` are the paths of the first.
    pub tiers: Option<TierSettings>,
    /// Where to listen, at least one.
    pub listeners: Vec<Address>,
    /// Addresses for clients, in the same order; port 0 stands for the port that was bound.
    pub advertised: Vec<Address>,
    /// What each listener speaks, and with which keys.
    // Bounded: one for each of `listeners`.
    security: BTreeMap<String, ListenerSecurity>,
    /// How often the files with keys and certificates are looked at.
    pub tls_reload_interval: Duration,
    /// Threads for handshakes of TLS.
    pub tls_handshake_threads: usize,
    /// How long a handshake and a login may take together.
    pub login_time_max: Duration,
    /// The keys of tokens.
    pub(crate) token_keys: TokenKeys,
    /// Sockets, connections, request memory.
    pub network: NetworkSettings,
    /// Shards.
    pub shards: usize,
    /// Bind each shard to a core.
    pub shards_pinned: bool,
    /// True if the process is confined to some CPUs.
    pub confined: bool,
    /// The process ends when a shard has not moved for this long; `None`: never.
    pub stuck_after: Option<Duration>,
    /// How files are read and written.
    pub disk_engine: DiskEngine,
    /// Tail cache of all shards together.
    pub log_cache_bytes: u64,
    /// `host:port` of the admin endpoint.
    pub admin_listener: Option<(String, u16)>,
    /// Who may do what there.
    pub admin: AdminSettings,
    /// What is audited, and where to; `None` if nothing is.
    pub audit: Option<AuditSettings>,
    /// True if a setting is a secret, or leads to one.
    pub holds_secrets: bool,
    /// True if it serves the planner's page.
    pub admin_plan: bool,
    /// Log lines as JSON.
    pub log_json: bool,
    /// Log filter.
    pub log_level: String,
    broker: BrokerOptions,
}

/// Values of `disk.engine`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskEngine {
    /// The first that works.
    Auto,
    /// `io_uring` or refuse.
    IoUring,
    /// A pool of threads.
    Threads,
}

impl Settings {
    /// Returns the embedded defaults, on a machine with one core and little memory (tests).
    #[cfg(test)]
    pub(crate) fn defaults() -> Self {
        let machine = Machine {
            host_name: "here".into(),
            cores: 1,
            memory_bytes: 1 << 30,
        };
        Self::resolve(&RawSettings::default(), &machine)
            .expect("the defaults are sound")
            .settings
    }

    /// Validates `raw` for this machine; everything in it that has no effect causes a warning.
    pub fn resolve(raw: &RawSettings, machine: &Machine) -> Result<ResolvedSettings, Vec<Problem>> {
        let CheckedSettings {
            settings,
            warnings,
            problems,
        } = Self::judge(raw, machine);
        if problems.is_empty() {
            Ok(ResolvedSettings { settings, warnings })
        } else {
            Err(problems)
        }
    }

    /// Judges `raw` for this machine: what is wrong with it, and what has no effect, in one go.
    pub fn judge(raw: &RawSettings, machine: &Machine) -> CheckedSettings {
        let (mut warnings, mut problems) = (Vec::new(), Vec::new());
        let values = Values::check(raw, &mut warnings, &mut problems);
        check_process(&values, &mut problems);
        let (listeners, advertised, protocols) =
            listeners::resolve(&values, machine, &mut problems);
        let said = (&mut warnings, &mut problems);
        let Security {
            logins,
            encrypted,
            admin,
            authorizer,
        } = Security::resolve(&values, &listeners, &protocols, said);
        let tiers = tiers::resolve(&values, &mut problems);
        let log_dirs = log_dirs(&values, tiers.as_ref());
        check_cordoned(&values, &log_dirs, tiers.as_ref(), &mut problems);
        check_metadata_dir(&values, &log_dirs, &mut warnings);
        let owned = owned_dirs(&log_dirs, tiers.as_ref());
        let audit = audit::resolve(&values, &owned, (&mut warnings, &mut problems));
        let node = node_id(&values, &mut problems);
        let network = NetworkSettings::resolve(&values, &listeners, machine, &mut problems);
        let journal = journal::resolve(
            &values,
            (&log_dirs, tiers.as_ref()),
            network.unwritten_bytes_max(),
            (&mut warnings, &mut problems),
        );
        let settings = Self {
            node_id: node,
            cluster_id: values.text("cluster.id").map(str::to_owned),
            log_dirs,
            told: OperatorConsent::default(),
            tiers,
            network,
            listeners,
            advertised,
            shards: values.number("num.shards").map_or(machine.cores, size),
            shards_pinned: values.is("shards.pinned"),
            confined: values.text(cpus::KEY).is_some_and(|text| !text.is_empty()),
            stuck_after: Some(values.int("shard.watchdog.ms"))
                .filter(|time| *time > 0)
                .map(milliseconds),
            disk_engine: disk_engine(&values),
            log_cache_bytes: log_cache_bytes(&values, machine),
            admin_listener: admin_listener(&values, &mut problems),
            admin_plan: values.is("admin.plan"),
            holds_secrets: values.has_secrets(),
            audit,
            admin,
            log_json: values.string("log.format") == "json",
            log_level: values.string("log.level"),
            broker: BrokerOptions {
                logins: logins.listeners,
                authorizer,
                journal,
                ..broker_options(&values, machine)
            },
            security: ListenerSecurity::of(&protocols, encrypted),
            tls_reload_interval: milliseconds(values.int("ssl.reload.interval.ms")),
            tls_handshake_threads: size(values.int("tls.handshake.threads")),
            login_time_max: milliseconds(values.int("authentication.timeout.ms")),
            token_keys: logins.token_keys,
        };
        add_found_before(raw, &mut warnings, &mut problems);
        CheckedSettings {
            settings,
            warnings,
            problems,
        }
    }

    /// Returns which kinds of metadata a broker with these settings enforces.
    pub fn enforced_metadata(&self) -> EnforcedMetadata {
        self.broker.enforced_metadata()
    }

    /// Returns the settings of TLS of each listener that speaks it.
    pub fn tls_listeners(&self) -> BTreeMap<String, ServerTlsSettings> {
        let each = self.security.iter().filter_map(|(listener, security)| {
            let tls = security.tls.as_deref()?;
            Some((listener.clone(), tls.clone()))
        });
        each.collect()
    }

    /// Returns the settings of TLS of each listener that speaks it, and of the admin endpoint if
    /// that does.
    pub fn tls_sets(&self) -> BTreeMap<String, ServerTlsSettings> {
        let mut sets = self.tls_listeners();
        if let Some(tls) = self.admin.tls.as_deref() {
            sets.insert(AdminSettings::LISTENER.to_owned(), tls.clone());
        }
        sets
    }

    /// Returns the authorizer, if there is one.
    pub fn authorizer(&self) -> Option<&Arc<Authorizer>> {
        self.broker.authorizer.as_ref()
    }

    /// Returns true if a listener speaks TLS.
    pub fn is_encrypted(&self, listener: &str) -> bool {
        let security = self.security.get(listener);
        security.is_none_or(|security| security.protocol.is_encrypted())
    }

    /// Returns true if clients of a listener have to log in.
    pub fn asks_for_login(&self, listener: &str) -> bool {
        let security = self.security.get(listener);
        security.is_none_or(|security| security.protocol.asks_for_login())
    }

    /// Returns true if there is an authorizer.
    pub fn has_authorizer(&self) -> bool {
        self.broker.authorizer.is_some()
    }

    /// Returns the names of the tiers, fastest first; empty without tiers.
    fn tier_names(&self) -> Vec<Arc<str>> {
        let tiers = self.tiers.iter().flat_map(|tiers| &tiers.tiers);
        tiers.map(|tier| Arc::clone(&tier.name)).collect()
    }

    /// Returns the directories of the tiers below the first.
    pub fn lower_dirs(&self) -> impl Iterator<Item = &Path> {
        let tiers = self
            .tiers
            .iter()
            .flat_map(|tiers| tiers.tiers.iter().skip(1));
        tiers.flat_map(|tier| tier.paths.iter().map(|path| path.dir.as_path()))
    }

    /// Returns the settings of journals, if there are any.
    pub fn journals(&self) -> Option<&JournalSettings> {
        self.broker.journal.as_ref()
    }

    /// Returns the directories of journals that are not log directories.
    pub fn ring_dirs(&self) -> Vec<PathBuf> {
        let journals = self.broker.journal.iter();
        let mut dirs: Vec<_> = journals
            .flat_map(|it| it.dirs.iter().flatten().cloned())
            .collect();
        dirs.retain(|dir| !self.log_dirs.contains(dir));
        dirs.sort();
        dirs.dedup();
        dirs
    }

    /// Returns the options of the broker, once the node id is known and the listeners are bound to
    /// `ports`.
    pub fn broker_options(&self, node_id: NodeId, ports: &[u16]) -> BrokerOptions {
        let endpoint = |(address, port): (&Address, &u16)| Endpoint {
            listener: address.listener.clone(),
            // A listener without a known protocol asks for a login, and no client can pass it.
            protocol: self
                .security
                .get(&address.listener)
                .map_or(SecurityProtocol::SaslPlaintext, |it| it.protocol),
            host: address.host.clone(),
            port: if address.port == 0 {
                *port
            } else {
                address.port
            },
        };
        let endpoints = self.advertised.iter().zip(ports).map(endpoint).collect();
        BrokerOptions {
            node_id,
            endpoints,
            log_dirs: self.log_dirs.clone(),
            tiers: self.tier_names(),
            lower_dirs: self.lower_dirs().map(Path::to_path_buf).collect(),
            ..self.broker.clone()
        }
    }
}

/// Who the clients are, and what they may do.
struct Security {
    logins: login::Logins,
    // Bounded: one for each of `listeners`.
    encrypted: BTreeMap<String, ServerTlsSettings>,
    admin: AdminSettings,
    authorizer: Option<Arc<Authorizer>>,
}

impl Security {
    fn resolve(
        values: &Values,
        listeners: &[Address],
        protocols: &login::Protocols,
        (warnings, problems): (&mut Vec<Warning>, &mut Vec<Problem>),
    ) -> Self {
        let admin = admin::resolve(values, listeners, (warnings, problems));
        listeners::check_named(values, admin.has_own_settings, warnings);
        let logins = login::resolve(values, listeners, protocols, (warnings, problems));
        let encrypted = tls::resolve(values, listeners, protocols, (warnings, problems));
        if encrypted.is_empty() && admin.tls.is_none() {
            tls::warn_of_no_listener(values, warnings);
        }
        let has_admin_users = admin.auth != AdminAuth::None;
        let clients = authorizer::Clients::of(
            protocols,
            &logins.listeners,
            &encrypted,
            (listeners, has_admin_users),
        );
        let authorizer = authorizer::resolve(values, &clients, (warnings, problems));
        Self {
            logins,
            encrypted,
            admin,
            authorizer,
        }
    }
}

/// Adds what was found before settings were read, and takes what config providers have out of
/// messages.
fn add_found_before(raw: &RawSettings, warnings: &mut Vec<Warning>, problems: &mut Vec<Problem>) {
    providers::hide(&raw.entries, problems, warnings);
    // What follows from a reference that leads nowhere is nothing to say besides.
    let is_unread = |key: &str| raw.problems.iter().any(|problem| problem.key == key);
    problems.retain(|problem| !is_unread(&problem.key));
    problems.extend(raw.problems.iter().cloned());
    warnings.extend(raw.warnings.iter().cloned());
}

fn size(number: i64) -> usize {
    usize::try_from(number).unwrap_or(0)
}

fn milliseconds(number: i64) -> Duration {
    Duration::from_millis(u64::try_from(number).unwrap_or(0))
}

fn disk_engine(values: &Values) -> DiskEngine {
    match values.string("disk.engine").as_str() {
        "io_uring" => DiskEngine::IoUring,
        "threads" => DiskEngine::Threads,
        _ => DiskEngine::Auto,
    }
}

/// A log with as many bytes in a journal only lands: by large writes, for which no append waits.
const LAND_BYTES: u64 = 256 << 10;
/// Age of bytes that are in a journal only, from which on their log lands.
const LAND_AFTER: Duration = Duration::from_secs(2);

/// Least size of the cache, on a small machine too.
const CACHE_BYTES_LEAST: usize = 256 << 20;

fn log_cache_bytes(values: &Values, machine: &Machine) -> u64 {
    match values.int("log.cache.bytes") {
        -1 => (machine.memory_bytes / 4).max(CACHE_BYTES_LEAST) as u64,
        bytes => bytes.unsigned_abs(),
    }
}

fn node_id(values: &Values, problems: &mut Vec<Problem>) -> Option<i32> {
    let id_of = |name| values.number(name).filter(|id| *id >= 0);
    let (node, broker) = (id_of("node.id"), id_of("broker.id"));
    if let (Some(node), Some(broker)) = (node, broker)
        && node != broker
    {
        problems.push(values.problem(
            "broker.id",
            format!("must be left out or equal node.id={node}"),
        ));
    }
    node.or(broker).and_then(|id| i32::try_from(id).ok())
}

fn log_dirs(values: &Values, tiers: Option<&TierSettings>) -> Vec<PathBuf> {
    if let Some(first) = tiers.and_then(|tiers| tiers.tiers.first()) {
        return first.paths.iter().map(|path| path.dir.clone()).collect();
    }
    let key = if values.is_given("log.dirs") {
        "log.dirs"
    } else {
        "log.dir"
    };
    let mut dirs: Vec<PathBuf> = Vec::new();
    for dir in values.list(key).into_iter().map(PathBuf::from) {
        if !dirs.contains(&dir) {
            dirs.push(dir);
        }
    }
    dirs
}

/// Returns every directory that the broker keeps its data in: those of logs, and of all tiers.
fn owned_dirs(log_dirs: &[PathBuf], tiers: Option<&TierSettings>) -> Vec<PathBuf> {
    let tiers = tiers.iter().flat_map(|tiers| &tiers.tiers);
    let paths = tiers.flat_map(|tier| tier.paths.iter().map(|path| path.dir.clone()));
    let mut all: Vec<PathBuf> = paths.chain(log_dirs.iter().cloned()).collect();
    all.sort();
    all.dedup();
    all
}

/// Checks that `cordoned.log.dirs` names only configured directories.
fn check_cordoned(
    values: &Values,
    log_dirs: &[PathBuf],
    tiers: Option<&TierSettings>,
    problems: &mut Vec<Problem>,
) {
    let all = owned_dirs(log_dirs, tiers);
    let key = "cordoned.log.dirs";
    if let CordonedDirs::Only(dirs) = CordonedDirs::parse(&values.string(key))
        && !dirs.iter().all(|dir| all.contains(dir))
    {
        let names: Vec<_> = all.iter().map(|dir| dir.display().to_string()).collect();
        problems.push(values.problem(key, format!("must be *, or some of {}", names.join(", "))));
    }
}

/// Warns about a directory of the metadata log that is none of `log.dirs`: the broker
/// does not look there.
fn check_metadata_dir(values: &Values, log_dirs: &[PathBuf], warnings: &mut Vec<Warning>) {
    let Some(entry) = values.entry("metadata.log.dir") else {
        return;
    };
    let wanted = normal(Path::new(entry.text()));
    if !entry.text().is_empty() && !log_dirs.iter().any(|dir| normal(dir) == wanted) {
        let why = "the metadata log is looked for in log.dirs only: what is in this directory is not found";
        let advice = "name it in log.dirs, too";
        warnings.push(Warning::of(entry, why.into()).seen_by_clients(advice));
    }
}

/// Returns an absolute path without `.` and `..`, by its text alone; links are not followed.
fn normal(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut normal = PathBuf::new();
    for part in absolute.components() {
        if part == Component::ParentDir {
            normal.pop();
        } else {
            normal.push(part);
        }
    }
    normal
}

/// Refuses what is wrong whatever the listeners and directories are.
fn check_process(values: &Values, problems: &mut Vec<Problem>) {
    check_roles(values, problems);
    check_order(values, problems);
    groups::check(values, problems);
    if let Err(allowed) = cpus::parse(&values.string(cpus::KEY)) {
        problems.push(values.problem(cpus::KEY, allowed));
    }
    let level = values.string("log.level");
    if level.parse::<tracing_subscriber::EnvFilter>().is_err() {
        problems.push(values.problem("log.level", "must be a level or a list of filters"));
    }
}

/// Refuses a node without both roles, and more than one controller.
///
/// A node under separate controllers would need a quorum client; refusing is better than forming a
/// cluster of its own.
fn check_roles(values: &Values, problems: &mut Vec<Problem>) {
    let roles = values.list("process.roles");
    if !(roles.contains(&"broker") && roles.contains(&"controller")) {
        let allowed =
            "must be broker,controller: a node under separate controllers is not there yet";
        problems.push(values.problem("process.roles", allowed));
    }
    for key in [
        "controller.quorum.voters",
        "controller.quorum.bootstrap.servers",
    ] {
        if values.list(key).len() > 1 {
            problems
                .push(values.problem(key, "must name this node only: clusters are not there yet"));
        }
    }
}

fn check_order(values: &Values, problems: &mut Vec<Problem>) {
    let least = values.int("group.min.session.timeout.ms");
    if values.int("group.max.session.timeout.ms") < least {
        let allowed = format!("must be at least group.min.session.timeout.ms={least}");
        problems.push(values.problem("group.max.session.timeout.ms", allowed));
    }
    for key in [
        "log.retention.ms",
        "log.retention.minutes",
        "log.retention.hours",
    ] {
        if values.number(key) == Some(0) {
            problems.push(values.problem(key, "must be -1 or at least 1"));
        }
    }
}

fn admin_listener(values: &Values, problems: &mut Vec<Problem>) -> Option<(String, u16)> {
    let text = values
        .text("admin.listener")
        .filter(|text| !text.is_empty())?;
    let parsed = address::host_and_port(text).map(|(host, port)| (host.to_owned(), port));
    if parsed.is_none() {
        problems.push(values.problem("admin.listener", "must be host:port, or empty"));
    }
    parsed
}

/// Returns the options of the broker, except what is known only later: node id, endpoints and
/// directories.
fn broker_options(values: &Values, machine: &Machine) -> BrokerOptions {
    let shards = values.number("num.shards").map_or(machine.cores, size);
    let narrow = |name| i32::try_from(values.int(name)).unwrap_or(i32::MAX);
    BrokerOptions {
        node_id: NodeId(0),
        rack: values
            .text("broker.rack")
            .filter(|rack| !rack.is_empty())
            .map(str::to_owned),
        endpoints: Vec::new(),
        logins: BTreeMap::new(),
        authorizer: None,
        audit: broker::audit::Audit::default(),
        stores: None,
        log_dirs: Vec::new(),
        tiers: Vec::new(),
        lower_dirs: Vec::new(),
        journal: None,
        auto_create_topics: values.is("auto.create.topics.enable"),
        delete_topics: values.is("delete.topic.enable"),
        num_partitions: narrow("num.partitions"),
        default_replication_factor: i16::try_from(values.int("default.replication.factor"))
            .unwrap_or(i16::MAX),
        fetch_bytes_max: size(values.int("fetch.max.bytes")),
        fetch_sessions_max: size(values.int("max.incremental.fetch.session.cache.slots")),
        retention_check: milliseconds(values.int("log.retention.check.interval.ms")),
        checkpoint_interval: milliseconds(
            values.int("replica.high.watermark.checkpoint.interval.ms"),
        ),
        group: groups::options(values, machine.memory_bytes, shards),
        transaction: transaction_options(values),
        quota: QuotaOptions {
            rates: windows(values, "quota.window.num", "quota.window.size.seconds"),
            mutations: windows(
                values,
                "controller.quota.window.num",
                "controller.quota.window.size.seconds",
            ),
        },
        telemetry_bytes_max: size(values.int("telemetry.max.bytes")),
        metadata_snapshot_bytes: values
            .int("metadata.log.max.record.bytes.between.snapshots")
            .unsigned_abs(),
        clock: StepSettings {
            threshold_ms: values.int("clock.step.threshold.ms"),
            hold_ms: values.int("clock.step.hold.ms"),
        },
        metadata_reserve_bytes: values.int("metadata.log.reserve.bytes").unsigned_abs(),
        static_settings: shown::static_settings(values),
        config_keys: keys::for_broker(&values.list("storage.tiers")),
    }
}

fn windows(values: &Values, samples: &str, seconds: &str) -> Windows {
    Windows {
        samples: u32::try_from(values.int(samples)).unwrap_or(1),
        window: Duration::from_secs(values.int(seconds).unsigned_abs()),
    }
}

fn transaction_options(values: &Values) -> TransactionOptions {
    let narrow = |name| i32::try_from(values.int(name)).unwrap_or(i32::MAX);
    let wait = |name| milliseconds(values.int(name));
    TransactionOptions {
        partitions: narrow("transaction.state.log.num.partitions"),
        segment_bytes: narrow("transaction.state.log.segment.bytes"),
        timeout_max: wait("transaction.max.timeout.ms"),
        id_expiration: wait("transactional.id.expiration.ms"),
        abort_check: wait("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
        expiration_check: wait("transaction.remove.expired.transaction.cleanup.interval.ms"),
        producer_expiration_check: wait("producer.id.expiration.check.interval.ms"),
        verify_partitions: values.is("transaction.partition.verification.enable"),
    }
}

#[cfg(test)]
mod admin_tests;
#[cfg(test)]
mod authorizer_tests;
#[cfg(test)]
mod journal_tests;
#[cfg(test)]
mod login_tests;
#[cfg(test)]
mod oauth_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tiers_tests;
#[cfg(test)]
mod tls_tests;
