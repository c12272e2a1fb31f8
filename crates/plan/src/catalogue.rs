//! Devices, servers, network interfaces, memory, object stores and software, with prices that have
//! a date and a source.
//!
//! Invariant: a figure without a source is an assumption, and every answer that rests on it lists
//! it as one. Entries are identified by their id; a later file overrides an earlier one.

mod check;
mod price;

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::document::{Document, Problem};
use crate::quantity::{Bytes, Rate, Seconds};
use crate::software::Software;

pub use price::{Confidence, Month, Price, PriceUnit, STALE_MONTHS, WARN_MONTHS};

/// The entries shipped in this binary.
const SHIPPED: &[(&str, &str)] = &[
    (
        "catalogue/devices.toml",
        include_str!("../catalogue/devices.toml"),
    ),
    (
        "catalogue/servers.toml",
        include_str!("../catalogue/servers.toml"),
    ),
    (
        "catalogue/software.toml",
        include_str!("../catalogue/software.toml"),
    ),
];

/// The parts from which plans are made.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Catalogue {
    /// Storage devices.
    pub device: Vec<Device>,
    /// Servers, which hold devices.
    pub server: Vec<Server>,
    /// Network interfaces.
    pub nic: Vec<Nic>,
    /// Memory modules.
    pub memory: Vec<Module>,
    /// Object stores.
    pub object: Vec<ObjectStore>,
    /// Brokers.
    pub software: Vec<Software>,
}

/// A storage device.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Its id.
    pub id: String,
    /// A description.
    #[serde(default)]
    pub about: String,
    /// Its kind: pmem, flash, disk, memory or volume. A faster kind can be the first tier before a
    /// slower one.
    pub class: Class,
    /// The kind of slot in a server that it needs.
    pub slot: String,
    /// Capacity of one device.
    pub capacity: Bytes,
    /// Rate of large sequential reads.
    pub read: Rate,
    /// Rate of large sequential writes.
    pub write: Rate,
    /// Reads of 4 KiB per second.
    pub iops: Option<f64>,
    /// Time until a write is durable.
    pub sync: Option<Seconds>,
    /// Drive writes per day: how many times its capacity may be written each day.
    pub dwpd: Option<f64>,
    /// Number of years for which `dwpd` holds.
    #[serde(default = "five")]
    pub dwpd_years: f64,
    /// Write amplification: bytes written inside for each byte requested.
    #[serde(default = "one")]
    pub amplification: f64,
    /// Power.
    pub watts: Option<f64>,
    /// True if its contents are lost with the power.
    #[serde(default)]
    pub volatile: bool,
    /// True if it is mapped as memory: segments are made in advance.
    #[serde(default)]
    pub dax: bool,
    /// Price.
    pub price: Option<Price>,
    /// Source of its figures; without it they are assumptions.
    pub source: Option<String>,
    /// True if the project never had such a device.
    #[serde(default = "yes")]
    pub untouched: bool,
}

/// Kinds of devices, fastest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Memory as a file system: lost with the power.
    Memory,
    /// Persistent memory.
    Pmem,
    /// Flash.
    Flash,
    /// A cloud volume.
    Volume,
    /// Spinning disks.
    Disk,
}

/// A server, which holds devices.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Its id.
    pub id: String,
    /// A description.
    #[serde(default)]
    pub about: String,
    /// Cores.
    pub cores: f64,
    /// Speed of a core relative to the cores of the measurements.
    #[serde(default = "one")]
    pub speed: f64,
    /// Number of slots of each kind.
    pub slots: BTreeMap<String, u32>,
    /// Amounts of memory with which it is sold.
    pub memory: Vec<Bytes>,
    /// Its memory modules; without it the price of the server includes the memory.
    pub module: Option<String>,
    /// Rate of its built-in interface; without it one is chosen.
    pub network: Option<Rate>,
    /// Bound on the rate of its volumes together, for reads and for writes.
    pub volumes: Option<Rate>,
    /// Height in rack units.
    #[serde(default)]
    pub rack_units: f64,
    /// Power without devices.
    pub watts: Option<f64>,
    /// True if it is rented, and bytes between zones cost money.
    #[serde(default)]
    pub cloud: bool,
    /// True if it is used only when it is named.
    #[serde(default)]
    pub only_by_name: bool,
    /// Price.
    pub price: Option<Price>,
    /// Source of its figures; without it they are assumptions.
    pub source: Option<String>,
}

/// A network interface.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nic {
    /// Its id.
    pub id: String,
    /// Rate in each direction.
    pub rate: Rate,
    /// Power.
    pub watts: Option<f64>,
    /// Price.
    pub price: Option<Price>,
    /// Source of its figures.
    pub source: Option<String>,
}

/// A memory module.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Module {
    /// Its id.
    pub id: String,
    /// Capacity of one module.
    pub capacity: Bytes,
    /// Power.
    pub watts: Option<f64>,
    /// Price.
    pub price: Option<Price>,
    /// Source of its figures.
    pub source: Option<String>,
}

/// An object store.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectStore {
    /// Its id.
    pub id: String,
    /// Price of stored bytes.
    pub price: Option<Price>,
    /// Dollars for a thousand write requests.
    pub put_thousand_usd: Option<f64>,
    /// Dollars for a thousand read requests.
    pub get_thousand_usd: Option<f64>,
    /// Bytes of an object.
    #[serde(default = "object_bytes")]
    pub object: Bytes,
    /// Source of its figures.
    pub source: Option<String>,
}

fn one() -> f64 {
    1.0
}

fn five() -> f64 {
    5.0
}

fn yes() -> bool {
    true
}

fn object_bytes() -> Bytes {
    Bytes(100e6)
}

impl Catalogue {
    /// Returns the entries shipped in this binary.
    pub fn shipped() -> Result<Self, Problem> {
        let mut all = Self::default();
        for (origin, text) in SHIPPED {
            all.overlay(Self::read(origin, text)?);
        }
        Ok(all)
    }

    /// Reads a file of entries.
    pub fn read(origin: &str, text: &str) -> Result<Self, Problem> {
        let document = Document::parse(origin, text)?;
        let catalogue: Self = document.read()?;
        catalogue
            .check()
            .map_err(|(key, text)| document.problem(&key, text))?;
        Ok(catalogue)
    }

    /// Adds the entries of another catalogue, which override those of the same id.
    pub fn overlay(&mut self, other: Self) {
        put(&mut self.device, other.device, |entry| &entry.id);
        put(&mut self.server, other.server, |entry| &entry.id);
        put(&mut self.nic, other.nic, |entry| &entry.id);
        put(&mut self.memory, other.memory, |entry| &entry.id);
        put(&mut self.object, other.object, |entry| &entry.id);
        put(&mut self.software, other.software, |entry| &entry.id);
    }

    /// Checks the bounds of every figure.
    pub(crate) fn check(&self) -> Result<(), (String, String)> {
        check::check(self)
    }

    /// Returns all prices, by id.
    pub fn prices(&self) -> impl Iterator<Item = (&str, &Price)> {
        let of = |entry: (&'_ str, Option<&'_ Price>)| entry.1.is_some();
        let devices = self
            .device
            .iter()
            .map(|e| (e.id.as_str(), e.price.as_ref()));
        let servers = self
            .server
            .iter()
            .map(|e| (e.id.as_str(), e.price.as_ref()));
        let nics = self.nic.iter().map(|e| (e.id.as_str(), e.price.as_ref()));
        let modules = self
            .memory
            .iter()
            .map(|e| (e.id.as_str(), e.price.as_ref()));
        let objects = self
            .object
            .iter()
            .map(|e| (e.id.as_str(), e.price.as_ref()));
        let all = devices
            .chain(servers)
            .chain(nics)
            .chain(modules)
            .chain(objects);
        all.filter(move |entry| of(*entry))
            .filter_map(|(id, price)| Some((id, price?)))
    }

    /// Returns the same catalogue with one price multiplied by `factor`.
    #[must_use]
    pub fn with_price_times(&self, id: &str, factor: f64) -> Self {
        let mut changed = self.clone();
        let times = |price: &mut Option<Price>| {
            if let Some(price) = price {
                price.usd *= factor;
            }
        };
        changed
            .device
            .iter_mut()
            .filter(|e| e.id == id)
            .for_each(|e| times(&mut e.price));
        changed
            .server
            .iter_mut()
            .filter(|e| e.id == id)
            .for_each(|e| times(&mut e.price));
        changed
            .nic
            .iter_mut()
            .filter(|e| e.id == id)
            .for_each(|e| times(&mut e.price));
        changed
            .memory
            .iter_mut()
            .filter(|e| e.id == id)
            .for_each(|e| times(&mut e.price));
        changed
            .object
            .iter_mut()
            .filter(|e| e.id == id)
            .for_each(|e| times(&mut e.price));
        changed
    }

    /// Returns a device by its id.
    pub fn device(&self, id: &str) -> Option<&Device> {
        self.device.iter().find(|entry| entry.id == id)
    }

    /// Returns a server by its id.
    pub fn server(&self, id: &str) -> Option<&Server> {
        self.server.iter().find(|entry| entry.id == id)
    }

    /// Returns a broker by its id.
    pub fn software(&self, id: &str) -> Option<&Software> {
        self.software.iter().find(|entry| entry.id == id)
    }
}

fn put<T>(entries: &mut Vec<T>, others: Vec<T>, id: impl Fn(&T) -> &String) {
    for other in others {
        match entries.iter_mut().find(|entry| id(entry) == id(&other)) {
            Some(entry) => *entry = other,
            None => entries.push(other),
        }
    }
}

#[cfg(test)]
mod tests;
