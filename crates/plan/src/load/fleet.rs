//! Goals, the shape of the fleet, what may be chosen and what is given.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

use crate::quantity::{Bytes, Seconds};

/// The goals of a plan.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Goals {
    /// The failures during which the load is still carried.
    pub survive: Survive,
    /// Time within which the data of a lost broker has all its copies again.
    pub recovery: Option<Seconds>,
    /// True if lost copies are restored while the peak lasts.
    pub rebuild_at_peak: bool,
    /// Largest fill of a device.
    pub fill: f64,
    /// Largest use of a network interface.
    pub nic: f64,
    /// Largest use of a device.
    pub disk: f64,
    /// Largest use of processors.
    pub cpu: f64,
    /// Largest fill of memory.
    pub memory: f64,
    /// Years of use: for endurance, growth and running costs.
    pub years: f64,
    /// Fill at which the first tier is held; -1: nothing moves. Without it the plan chooses.
    pub threshold: Option<f64>,
}

impl Default for Goals {
    fn default() -> Self {
        Self {
            survive: Survive::default(),
            recovery: None,
            rebuild_at_peak: false,
            fill: 0.7,
            nic: 0.7,
            disk: 0.7,
            cpu: 0.6,
            memory: 0.9,
            years: 3.0,
            threshold: None,
        }
    }
}

/// What may fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Survive {
    /// This many brokers of a cluster.
    Brokers(u32),
    /// A rack with all its brokers.
    Rack,
    /// A site: the others take over its load.
    Site,
}

impl Default for Survive {
    fn default() -> Self {
        Self::Brokers(1)
    }
}

impl fmt::Display for Survive {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Brokers(0) => formatter.write_str("nothing failing"),
            Self::Brokers(1) => formatter.write_str("one broker"),
            Self::Brokers(count) => write!(formatter, "{count} brokers"),
            Self::Rack => formatter.write_str("a rack"),
            Self::Site => formatter.write_str("a site"),
        }
    }
}

impl<'de> Deserialize<'de> for Survive {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WrittenSurvival;
        impl Visitor<'_> for WrittenSurvival {
            type Value = Survive;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("0, 1, 2, \"rack\" or \"site\"")
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Survive, E> {
                let count = u32::try_from(number).ok().filter(|count| *count <= 8);
                count.map(Survive::Brokers).ok_or_else(|| {
                    E::custom(format!("{number}: allowed: 0 to 8, \"rack\", \"site\""))
                })
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Survive, E> {
                match text {
                    "rack" => Ok(Survive::Rack),
                    "site" => Ok(Survive::Site),
                    _ => Err(E::custom(format!(
                        "{text:?}: allowed: 0 to 8, \"rack\", \"site\""
                    ))),
                }
            }
        }
        deserializer.deserialize_any(WrittenSurvival)
    }
}

/// The shape of the fleet.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fleet {
    /// Sites, each with its share of the load.
    pub sites: u32,
    /// Racks (or zones) over which a cluster is spread.
    pub racks: u32,
    /// Maximum brokers of a cluster.
    pub cluster_brokers_max: u32,
    /// Maximum brokers in total.
    pub brokers_max: Option<u32>,
}

impl Default for Fleet {
    fn default() -> Self {
        Self {
            sites: 1,
            racks: 3,
            cluster_brokers_max: 100,
            brokers_max: None,
        }
    }
}

/// The parts of the catalogue that may be used, by id. An empty list allows every part of the kind,
/// except those that are used only by name.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hardware {
    /// Servers.
    pub servers: Vec<String>,
    /// Network interfaces.
    pub nics: Vec<String>,
    /// Devices.
    pub devices: Vec<String>,
    /// The object store below the local tiers.
    pub object: Option<String>,
    /// Number of local tiers, 1 or 2; without it the plan chooses.
    pub tiers: Option<u32>,
    /// Maximum devices of one tier; without it as many as fit.
    pub devices_max: Option<u32>,
}

/// Parts that are given, not chosen.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GivenParts {
    /// Brokers in total.
    pub brokers: Option<u32>,
    /// The server.
    pub server: Option<String>,
    /// The network interface.
    pub nic: Option<String>,
    /// Memory of a broker.
    pub memory: Option<Bytes>,
    /// The first tier.
    pub fast: Option<GivenTier>,
    /// The only tier, or the second.
    pub bulk: Option<GivenTier>,
}

/// The given devices of a tier.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GivenTier {
    /// The device.
    pub device: String,
    /// Number of devices in a broker.
    pub count: u32,
}

/// Costs besides parts. What is not given is not counted, and listed as such.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CostTerms {
    /// Dollars for a kilowatt-hour.
    pub kwh_usd: Option<f64>,
    /// Ratio of the power of the whole building to that of the servers.
    pub pue: Option<f64>,
    /// Dollars for a rack unit per month.
    pub rack_unit_month_usd: Option<f64>,
    /// Share of the purchase that support costs per year.
    pub support: Option<f64>,
    /// Share of the purchase for spare parts.
    pub spares: Option<f64>,
    /// Dollars for a GB between zones, for each direction.
    pub zone_gb_usd: Option<f64>,
    /// True if prices older than 18 months are used as well.
    pub old_prices: bool,
}
