//! Goals, the shape of the fleet, what may be chosen and what is given.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

use crate::quantity::{Bytes, Seconds};

/// What must hold.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Goals {
    /// What may fail while the load is carried.
    pub survive: Survive,
    /// How soon what a broker held has all its copies again.
    pub recovery: Option<Seconds>,
    /// Copies are made anew while the peak lasts.
    pub rebuild_at_peak: bool,
    /// How full a device may be.
    pub fill: f64,
    /// How busy a network interface may be.
    pub nic: f64,
    /// How busy a device may be.
    pub disk: f64,
    /// How busy processors may be.
    pub cpu: f64,
    /// How full memory may be.
    pub memory: f64,
    /// How long it is used: for endurance, growth and running costs.
    pub years: f64,
    /// Fill of the first tier that is held; -1: nothing moves. Without it the plan chooses.
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
    /// So many brokers of a cluster.
    Brokers(u32),
    /// A rack, with all in it.
    Rack,
    /// A site: the others carry its load.
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
        struct Written;
        impl Visitor<'_> for Written {
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
        deserializer.deserialize_any(Written)
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
    /// Brokers of a cluster at most.
    pub cluster_brokers_max: u32,
    /// Brokers in all at most.
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

/// What of the catalogue may be used, by id. Empty: everything of the kind that is meant for it.
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
    /// At least two tiers, at most two, or as it comes.
    pub tiers: Option<u32>,
    /// Devices of one tier at most; without it as many as fit.
    pub devices_max: Option<u32>,
}

/// What is not to be chosen.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Given {
    /// Brokers in all.
    pub brokers: Option<u32>,
    /// Which server.
    pub server: Option<String>,
    /// Which network interface.
    pub nic: Option<String>,
    /// How much memory.
    pub memory: Option<Bytes>,
    /// The first tier.
    pub fast: Option<GivenTier>,
    /// The only tier, or the second.
    pub bulk: Option<GivenTier>,
}

/// Devices of a tier.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GivenTier {
    /// Which.
    pub device: String,
    /// How many in a broker.
    pub count: u32,
}

/// What costs besides parts. What is not given is not counted, and said so.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CostTerms {
    /// Dollars for a kilowatt-hour.
    pub kwh_usd: Option<f64>,
    /// Power of the whole building to that of the servers.
    pub pue: Option<f64>,
    /// Dollars for a rack unit a month.
    pub rack_unit_month_usd: Option<f64>,
    /// Share of the purchase that support costs a year.
    pub support: Option<f64>,
    /// Share of the purchase that is kept as spare parts.
    pub spares: Option<f64>,
    /// Dollars for a GB between zones, each way.
    pub zone_gb_usd: Option<f64>,
    /// Prices that are older than 18 months are used as well.
    pub old_prices: bool,
}
