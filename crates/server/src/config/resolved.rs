//! Settings as typed values, validated once; all problems are reported together.
//!
//! Invariant: the broker can start with a [`Settings`]: each value satisfies the rule of its key
//! and the rules between keys. This module does not look at the machine (what it needs is in
//! [`Machine`]), does not open anything, and does not know the node id of an existing directory.

mod admin;
mod audit;
mod authorizer;
mod broker_options;
mod directories;
mod groups;
mod journal;
mod listeners;
mod login;
mod network;
mod oauth;
mod process;
mod shown;
mod tiers;
mod tls;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::tls::ServerTlsSettings;
use broker::authorizer::Authorizer;
use broker::log_dirs::OperatorConsent;
use broker::options::EnforcedMetadata;
use broker::options::{BrokerOptions, Endpoint, JournalSettings};
use broker::session::SecurityProtocol;
use wire::types::NodeId;

pub use self::admin::{AdminAuth, AdminSettings};
pub use self::tls::ListenerSecurity;
use super::address::{self, Address};
use super::cpus;
#[cfg(test)]
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
        process::check_process(&values, &mut problems);
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
        let log_dirs = directories::log_dirs(&values, tiers.as_ref());
        directories::check_cordoned(&values, &log_dirs, tiers.as_ref(), &mut problems);
        directories::check_metadata_dir(&values, &log_dirs, &mut warnings);
        let owned = directories::owned_dirs(&log_dirs, tiers.as_ref());
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
                ..broker_options::broker_options(&values, machine)
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
