//! Settings of this node that may change while it runs and belong to no topic: bounds on connections, directories that are
//! closed to what is new, the pace of moves.
//!
//! Resolved from each image, on the shard of the controller, and handed to whoever enforces them ([`NodeConfigs`]): this
//! crate places partitions and moves logs, the server lets clients in. Values in the metadata log were validated when they
//! were set; a text that no longer parses is passed over.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use platform::clock::steps::StepSettings;
use platform::sync::watch;
use storage::MoveRate;
use storage::tier::TierTable;

use crate::image::{Image, QuotaTable};
use crate::options::BrokerOptions;
use crate::quota::Windows;
use crate::topic_config::BrokerSettings;

/// The key of the directories that take nothing new.
pub(crate) const CORDONED: &str = "cordoned.log.dirs";
/// The keys of bounds that single listeners may have as well.
pub const MAX_CONNECTIONS: &str = "max.connections";
/// See [`MAX_CONNECTIONS`].
pub const CREATION_RATE: &str = "max.connection.creation.rate";
/// The key of the bounds of single addresses.
pub(crate) const OVERRIDES: &str = "max.connections.per.ip.overrides";

/// What the settings say now.
#[derive(Clone, PartialEq, Debug)]
pub struct NodeConfig {
    /// Who may connect, and how fast.
    pub connections: ConnectionLimits,
    /// Directories that take nothing new.
    pub cordoned: Cordoned,
    /// `replica.alter.log.dirs.io.max.bytes.per.second`; `None`: no limit.
    pub move_bytes_per_second: Option<u64>,
    /// `clock.step.threshold.ms` and `clock.step.hold.ms`.
    pub clock: StepSettings,
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
    /// Quota `connection_creation_rate` of every address without one of its own.
    pub rate_per_address: Option<f64>,
    /// The same quota of single addresses.
    // Bounded: the quotas of addresses in the metadata, `controller::bounds::ENTITIES_MAX`.
    pub address_rates: BTreeMap<IpAddr, f64>,
    /// Over what time rates are measured.
    pub windows: Windows,
    /// Those of single listeners that have any, by name in lower case.
    // Bounded: the setting `listeners`.
    pub listeners: BTreeMap<String, ListenerLimits>,
}

impl ConnectionLimits {
    /// Those of one listener alone, if it has any.
    pub fn of_listener(&self, name: &str) -> Option<ListenerLimits> {
        let mut all = self.listeners.iter();
        let found = all.find(|(listener, _)| listener.eq_ignore_ascii_case(name));
        found.map(|(_, limits)| *limits)
    }
}

/// Bounds on the connections of one listener, besides those of all.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ListenerLimits {
    /// `listener.name.<listener>.max.connections`.
    pub max: usize,
    /// `listener.name.<listener>.max.connection.creation.rate`; `None`: no limit.
    pub rate: Option<f64>,
}

impl ListenerLimits {
    /// What a lookup of settings says of these listeners.
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

/// Directories that take nothing new.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cordoned {
    /// All there are.
    All,
    /// These.
    Only(Vec<PathBuf>),
}

impl Cordoned {
    /// Reads the value of `cordoned.log.dirs`.
    pub fn parse(text: &str) -> Self {
        let listed = || text.split(',').map(str::trim).filter(|dir| !dir.is_empty());
        if listed().eq(["*"]) {
            return Self::All;
        }
        Self::Only(listed().map(PathBuf::from).collect())
    }

    /// True for one of them.
    pub fn holds(&self, dir: &Path) -> bool {
        match self {
            Self::All => true,
            Self::Only(dirs) => dirs.iter().any(|cordoned| cordoned == dir),
        }
    }
}

/// Reads a list of `address:count`; the error is the entry that is none. Brackets around an address may be there.
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
    /// What `image` and the settings of the start come to.
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
            cordoned: Cordoned::parse(text(CORDONED)),
            clock: StepSettings {
                threshold_ms: number("clock.step.threshold.ms", options.clock.threshold_ms),
                hold_ms: number("clock.step.hold.ms", options.clock.hold_ms),
            },
            move_bytes_per_second: most.ok().filter(|most| *most < i64::MAX.unsigned_abs()),
        }
    }
}

/// Reads `max.connection.creation.rate`; the largest number is no limit.
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

/// The newest settings, for whoever enforces them; clones share them.
#[derive(Clone, Debug)]
pub struct NodeConfigs {
    newest: watch::Sender<Option<Arc<NodeConfig>>>,
    /// The pace of logs on their way to another directory.
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
    /// What the settings are from now on; nothing before the first image.
    pub fn subscribe(&self) -> watch::Receiver<Option<Arc<NodeConfig>>> {
        self.newest.subscribe()
    }

    /// Takes over what an image says.
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

    /// When a step of the clock is one; nothing before the first image.
    pub(crate) fn clock(&self) -> Option<StepSettings> {
        self.newest.borrow().as_ref().map(|newest| newest.clock)
    }

    /// True for a directory that takes nothing new, by setting.
    pub(crate) fn is_cordoned(&self, dir: &Path) -> bool {
        let newest = self.newest.borrow();
        newest
            .as_ref()
            .is_some_and(|newest| newest.cordoned.holds(dir))
    }
}

#[cfg(test)]
mod tests;
