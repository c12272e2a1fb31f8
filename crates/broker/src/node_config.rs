//! Settings of this node that may change at run time and belong to no topic: bounds on connections,
//! cordoned directories, the rate of moves, key and trust stores of listeners.
//!
//! Resolved from each image, on the shard of the controller, and published to the code that
//! enforces them ([`NodeConfigs`]): this crate places partitions and moves logs, the server accepts
//! connections. Values in the metadata log were validated when they were set; a value that no
//! longer parses is ignored.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use platform::clock::steps::StepSettings;
use platform::sync::watch;
use storage::MoveRate;
use storage::tier::TierTable;

use crate::image::{Image, QuotaTable};
use crate::listener_stores::{StoreValues, set_by_clients};
use crate::options::BrokerOptions;
use crate::quota::Windows;
use crate::topic_config::BrokerSettings;

/// The key of the cordoned directories.
pub(crate) const CORDONED: &str = "cordoned.log.dirs";
/// The key of the bound on connections, which a single listener may also have.
pub const MAX_CONNECTIONS: &str = "max.connections";
/// The key of the bound on new connections per second; see [`MAX_CONNECTIONS`].
pub const CREATION_RATE: &str = "max.connection.creation.rate";
/// The key of the bounds of single addresses.
pub(crate) const OVERRIDES: &str = "max.connections.per.ip.overrides";

/// The current settings.
#[derive(Clone, PartialEq, Debug)]
pub struct NodeConfig {
    /// Bounds on connections and their rate.
    pub connections: ConnectionLimits,
    /// Cordoned directories, which take no new logs.
    pub cordoned: CordonedDirs,
    /// `replica.alter.log.dirs.io.max.bytes.per.second`; `None`: no limit.
    pub move_bytes_per_second: Option<u64>,
    /// `clock.step.threshold.ms` and `clock.step.hold.ms`.
    pub clock: StepSettings,
    /// Settings of key and trust stores, by the name of the listener in lower case.
    // Bounded: the settings of one resource, `controller::bounds::check_settings`.
    pub stores: BTreeMap<String, StoreValues>,
}

/// Bounds on connections. Addresses are in their canonical form.
#[derive(Clone, PartialEq, Debug)]
pub struct ConnectionLimits {
    /// `max.connections`.
    pub all_max: usize,
    /// `max.connections.per.ip`.
    pub per_address_max: usize,
    /// `max.connections.per.ip.overrides`.
    // Bounded: of one setting, `controller::configs::VALUE_BYTES_MAX`.
    pub overrides: BTreeMap<IpAddr, usize>,
    /// `max.connection.creation.rate`: new ones a second; `None`: no limit.
    pub rate: Option<f64>,
    /// Quota `connection_creation_rate` of every address without its own.
    pub rate_per_address: Option<f64>,
    /// Quota `connection_creation_rate` of single addresses.
    // Bounded: the quotas of addresses in the metadata, `controller::bounds::ENTITIES_MAX`.
    pub address_rates: BTreeMap<IpAddr, f64>,
    /// The windows over which rates are measured.
    pub windows: Windows,
    /// Bounds of single listeners that have any, by name in lower case.
    // Bounded: the setting `listeners`.
    pub listeners: BTreeMap<String, ListenerLimits>,
}

impl ConnectionLimits {
    /// Returns the bounds of one listener, if it has any.
    pub fn of_listener(&self, name: &str) -> Option<ListenerLimits> {
        let mut all = self.listeners.iter();
        let found = all.find(|(listener, _)| listener.eq_ignore_ascii_case(name));
        found.map(|(_, limits)| *limits)
    }
}

/// Bounds on the connections of one listener, in addition to those of all.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ListenerLimits {
    /// `listener.name.<listener>.max.connections`.
    pub max: usize,
    /// `listener.name.<listener>.max.connection.creation.rate`; `None`: no limit.
    pub rate: Option<f64>,
}

impl ListenerLimits {
    /// Returns the bounds of these listeners, according to a lookup of settings.
    pub fn of<'a>(
        listeners: impl Iterator<Item = &'a str>,
        value: impl Fn(&str) -> Option<&'a str>,
    ) -> BTreeMap<String, Self> {
        let read = |listener: &str| {
            let name = listener.to_ascii_lowercase();
            let text = |base| value(&format!("listener.name.{name}.{base}")).map(str::trim);
            let max = text(MAX_CONNECTIONS).and_then(|text| text.parse().ok());
            let rate = text(CREATION_RATE).and_then(creation_rate);
            let limits = Self {
                max: max.unwrap_or(usize::MAX),
                rate,
            };
            (max.is_some() || rate.is_some()).then_some((name, limits))
        };
        listeners.filter_map(read).collect()
    }
}

/// Cordoned directories, which take no new logs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CordonedDirs {
    /// All directories.
    All,
    /// These directories.
    Only(Vec<PathBuf>),
}

impl CordonedDirs {
    /// Parses the value of `cordoned.log.dirs`.
    pub fn parse(text: &str) -> Self {
        let listed = || text.split(',').map(str::trim).filter(|dir| !dir.is_empty());
        if listed().eq(["*"]) {
            return Self::All;
        }
        Self::Only(listed().map(PathBuf::from).collect())
    }

    /// Returns true if the directory is cordoned.
    pub fn holds(&self, dir: &Path) -> bool {
        match self {
            Self::All => true,
            Self::Only(dirs) => dirs.iter().any(|cordoned| cordoned == dir),
        }
    }
}

/// Parses a list of `address:count`; the error is the invalid entry. An address may be in brackets.
pub fn parse_overrides(text: &str) -> Result<BTreeMap<IpAddr, usize>, &str> {
    let entries = text.split(',').map(str::trim);
    let entries = entries.filter(|entry| !entry.is_empty());
    let read = |entry: &'_ str| {
        let (address, count) = entry.rsplit_once(':')?;
        let address = address.trim().trim_start_matches('[').trim_end_matches(']');
        let address: IpAddr = address.parse().ok()?;
        Some((address.to_canonical(), count.trim().parse().ok()?))
    };
    entries.map(|entry| read(entry).ok_or(entry)).collect()
}

impl NodeConfig {
    /// Resolves the settings from `image` and those of the start.
    pub(crate) fn resolve(image: &Image, options: &BrokerOptions) -> Self {
        let broker = BrokerSettings { image, options };
        let text = |name: &str| broker.value(name).unwrap_or_default().trim();
        let count = |name: &str| text(name).parse().unwrap_or(usize::MAX);
        let number = |name: &str, otherwise: i64| text(name).parse().unwrap_or(otherwise).max(0);
        let most = text("replica.alter.log.dirs.io.max.bytes.per.second").parse();
        let (rate_per_address, address_rates) = address_rates(image.quotas());
        let listeners = options.endpoints.iter().map(|it| it.listener.as_str());
        Self {
            connections: ConnectionLimits {
                all_max: count(MAX_CONNECTIONS),
                per_address_max: count("max.connections.per.ip"),
                overrides: parse_overrides(text(OVERRIDES)).unwrap_or_default(),
                rate: creation_rate(text(CREATION_RATE)),
                rate_per_address,
                address_rates,
                windows: options.quota.rates,
                listeners: ListenerLimits::of(listeners, |name| broker.value(name)),
            },
            cordoned: CordonedDirs::parse(text(CORDONED)),
            clock: StepSettings {
                threshold_ms: number("clock.step.threshold.ms", options.clock.threshold_ms),
                hold_ms: number("clock.step.hold.ms", options.clock.hold_ms),
            },
            stores: set_by_clients(image, options.node_id),
            move_bytes_per_second: most.ok().filter(|most| *most < i64::MAX.unsigned_abs()),
        }
    }
}

/// Parses `max.connection.creation.rate`; the largest number means no limit.
pub fn creation_rate(text: &str) -> Option<f64> {
    let rate = text.parse::<i32>().ok();
    rate.filter(|rate| (1..i32::MAX).contains(rate))
        .map(f64::from)
}

fn address_rates(quotas: &QuotaTable) -> (Option<f64>, BTreeMap<IpAddr, f64>) {
    let (mut any, mut own) = (None, BTreeMap::new());
    for (entity, values) in quotas {
        let rate = values.get("connection_creation_rate");
        let (Some(name), Some(rate)) = (entity.get("ip"), rate) else {
            continue;
        };
        match name {
            None => any = Some(*rate),
            Some(address) => {
                if let Ok(address) = address.parse::<IpAddr>() {
                    own.insert(address.to_canonical(), *rate);
                }
            }
        }
    }
    (any, own)
}

/// The newest settings, for the code that enforces them; clones share them.
#[derive(Clone, Debug)]
pub struct NodeConfigs {
    newest: watch::Sender<Option<Arc<NodeConfig>>>,
    /// The rate limit of logs that are moving to another directory.
    pub(crate) moves: Arc<MoveRate>,
}

impl Default for NodeConfigs {
    fn default() -> Self {
        Self {
            newest: watch::Sender::new(None),
            moves: Arc::default(),
        }
    }
}

impl NodeConfigs {
    /// Subscribes to the settings; `None` before the first image.
    pub fn subscribe(&self) -> watch::Receiver<Option<Arc<NodeConfig>>> {
        self.newest.subscribe()
    }

    /// Publishes the settings of an image.
    pub(crate) fn learn(
        &self,
        image: &Image,
        options: &BrokerOptions,
        tiers: Option<&Arc<TierTable>>,
    ) {
        let config = NodeConfig::resolve(image, options);
        self.moves.set(config.move_bytes_per_second);
        for path in tiers.into_iter().flat_map(|tiers| tiers.paths()) {
            path.set_cordoned(config.cordoned.holds(path.dir()));
        }
        self.newest.send_if_modified(|newest| {
            let is_new = newest.as_deref() != Some(&config);
            if is_new {
                *newest = Some(Arc::new(config));
            }
            is_new
        });
    }

    /// Returns the settings that detect clock steps; `None` before the first image.
    pub(crate) fn clock(&self) -> Option<StepSettings> {
        self.newest.borrow().as_ref().map(|newest| newest.clock)
    }

    /// Returns true if the settings cordon the directory.
    pub(crate) fn is_cordoned(&self, dir: &Path) -> bool {
        let newest = self.newest.borrow();
        newest
            .as_ref()
            .is_some_and(|newest| newest.cordoned.holds(dir))
    }
}

#[cfg(test)]
mod tests;
