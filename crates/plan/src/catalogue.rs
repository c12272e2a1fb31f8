//! Devices, servers, network interfaces, memory, object stores and software, with prices that have a date and a source.
//!
//! Invariant: a figure without a source is an assumption, and every answer that rests on it says so. Entries are known by
//! their id; a later file wins over an earlier one.

mod check;
mod price;

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::document::{Document, Problem};
use crate::quantity::{Bytes, Rate, Seconds};
use crate::software::Software;

pub use price::{Confidence, Month, Per, Price, STALE_MONTHS, WARN_MONTHS};

/// The entries in this binary.
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

/// What plans are made of.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Catalogue {
    /// What holds bytes.
    pub device: Vec<Device>,
    /// What holds devices.
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

/// What holds bytes.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Its name.
    pub id: String,
    /// What it is, in words.
    #[serde(default)]
    pub about: String,
    /// Its kind: pmem, flash, disk, memory or volume. Faster kinds go in front of slower ones.
    pub class: Class,
    /// The kind of place in a server that it takes.
    pub slot: String,
    /// Bytes of one.
    pub capacity: Bytes,
    /// What it reads, large and in sequence.
    pub read: Rate,
    /// What it writes, large and in sequence.
    pub write: Rate,
    /// Reads of 4 KiB a second.
    pub iops: Option<f64>,
    /// How long a write takes until it would survive.
    pub sync: Option<Seconds>,
    /// Times its capacity that may be written a day.
    pub dwpd: Option<f64>,
    /// For how many years.
    #[serde(default = "five")]
    pub dwpd_years: f64,
    /// Bytes written inside for each that is asked for.
    #[serde(default = "one")]
    pub amplification: f64,
    /// Its power.
    pub watts: Option<f64>,
    /// What is on it is gone with the power.
    #[serde(default)]
    pub volatile: bool,
    /// Mapped as memory: segments are made in advance.
    #[serde(default)]
    pub dax: bool,
    /// What it costs.
    pub price: Option<Price>,
    /// Where its figures are from; without it they are assumptions.
    pub source: Option<String>,
    /// Nobody of this project has had one.
    #[serde(default = "yes")]
    pub untouched: bool,
}

/// Kinds of devices, the fastest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Memory as a file system: gone with the power.
    Memory,
    /// Persistent memory.
    Pmem,
    /// Flash.
    Flash,
    /// A volume of a cloud.
    Volume,
    /// Spinning disks.
    Disk,
}

/// What holds devices.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Its name.
    pub id: String,
    /// What it is, in words.
    #[serde(default)]
    pub about: String,
    /// Cores.
    pub cores: f64,
    /// How fast a core is, beside those that were measured on.
    #[serde(default = "one")]
    pub speed: f64,
    /// Places by their kind.
    pub slots: BTreeMap<String, u32>,
    /// Amounts of memory that it is sold with.
    pub memory: Vec<Bytes>,
    /// The modules of it; without it the price of the server has it.
    pub module: Option<String>,
    /// Its own interface, where none is chosen.
    pub network: Option<Rate>,
    /// What its volumes take together, read and written.
    pub volumes: Option<Rate>,
    /// Its height.
    #[serde(default)]
    pub rack_units: f64,
    /// Power without devices.
    pub watts: Option<f64>,
    /// It is rented, and bytes between zones cost.
    #[serde(default)]
    pub cloud: bool,
    /// It is chosen only when it is named.
    #[serde(default)]
    pub only_by_name: bool,
    /// What it costs.
    pub price: Option<Price>,
    /// Where its figures are from; without it they are assumptions.
    pub source: Option<String>,
}

/// A network interface.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nic {
    /// Its name.
    pub id: String,
    /// Each way.
    pub rate: Rate,
    /// Its power.
    pub watts: Option<f64>,
    /// What it costs.
    pub price: Option<Price>,
    /// Where its figures are from.
    pub source: Option<String>,
}

/// A memory module.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Module {
    /// Its name.
    pub id: String,
    /// Bytes of one.
    pub capacity: Bytes,
    /// Its power.
    pub watts: Option<f64>,
    /// What it costs.
    pub price: Option<Price>,
    /// Where its figures are from.
    pub source: Option<String>,
}

/// A store of objects.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectStore {
    /// Its name.
    pub id: String,
    /// What bytes cost.
    pub price: Option<Price>,
    /// Dollars for a thousand requests that write.
    pub put_thousand_usd: Option<f64>,
    /// Dollars for a thousand requests that read.
    pub get_thousand_usd: Option<f64>,
    /// Bytes of an object.
    #[serde(default = "object_bytes")]
    pub object: Bytes,
    /// Where its figures are from.
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
    /// What is in this binary.
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

    /// Takes the entries of another, which win over those of the same id.
    pub fn overlay(&mut self, other: Self) {
        put(&mut self.device, other.device, |entry| &entry.id);
        put(&mut self.server, other.server, |entry| &entry.id);
        put(&mut self.nic, other.nic, |entry| &entry.id);
        put(&mut self.memory, other.memory, |entry| &entry.id);
        put(&mut self.object, other.object, |entry| &entry.id);
        put(&mut self.software, other.software, |entry| &entry.id);
    }

    /// Whether every figure is one.
    pub(crate) fn check(&self) -> Result<(), (String, String)> {
        check::check(self)
    }

    /// All prices, by id.
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

    /// The same with one price so many times as high.
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

    /// A device by its id.
    pub fn device(&self, id: &str) -> Option<&Device> {
        self.device.iter().find(|entry| entry.id == id)
    }

    /// A server by its id.
    pub fn server(&self, id: &str) -> Option<&Server> {
        self.server.iter().find(|entry| entry.id == id)
    }

    /// A broker by its id.
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
