//! One configuration of a broker: server, network, memory, devices by tier.

use serde::Serialize;

use crate::catalogue::{Class, Device, Nic, ObjectStore, Server};
use crate::quantity::{Bytes, Rate};
use crate::software::{Absorbs, Software};

/// Devices of one tier in one broker.
#[derive(Clone, Copy, Debug)]
pub struct Devices<'c> {
    /// Which.
    pub device: &'c Device,
    /// How many.
    pub count: u32,
}

impl Devices<'_> {
    /// Bytes of all.
    pub fn capacity(&self) -> Bytes {
        self.device.capacity * f64::from(self.count)
    }

    /// What they write together.
    pub fn write(&self) -> Rate {
        self.device.write * f64::from(self.count)
    }

    /// What they read together.
    pub fn read(&self) -> Rate {
        self.device.read * f64::from(self.count)
    }

    /// Reads of 4 KiB a second.
    pub fn iops(&self) -> f64 {
        self.device.iops.unwrap_or(0.0) * f64::from(self.count)
    }
}

/// A broker that may be bought.
#[derive(Clone, Copy, Debug)]
pub struct Mix<'c> {
    /// The server.
    pub server: &'c Server,
    /// Its interface; none: its own.
    pub nic: Option<&'c Nic>,
    /// Memory.
    pub memory: Bytes,
    /// The first of two tiers.
    pub fast: Option<Devices<'c>>,
    /// The only tier, or the second.
    pub bulk: Devices<'c>,
    /// What is below the local tiers.
    pub object: Option<&'c ObjectStore>,
    /// What runs on it.
    pub software: &'c Software,
}

impl Mix<'_> {
    /// What its interface does each way.
    pub fn network(&self) -> Rate {
        self.nic
            .map(|nic| nic.rate)
            .or(self.server.network)
            .unwrap_or_default()
    }

    /// Cores like those that were measured.
    pub fn cores(&self) -> f64 {
        self.server.cores * self.server.speed
    }

    /// What the bulk tier writes; volumes share what the server has for them.
    pub fn bulk_write(&self) -> Rate {
        self.held(self.bulk.write())
    }

    /// What the bulk tier reads.
    pub fn bulk_read(&self) -> Rate {
        self.held(self.bulk.read())
    }

    fn held(&self, rate: Rate) -> Rate {
        match self.server.volumes {
            Some(most) if self.bulk.device.class == Class::Volume => rate.min(most),
            _ => rate,
        }
    }

    /// Bytes of dirty pages that take a burst.
    pub fn dirty(&self) -> Bytes {
        match self.software.absorbs {
            Absorbs::PageCache => {
                (self.memory - self.software.memory).max(Bytes::ZERO) * self.software.dirty_ratio
            }
            _ => Bytes::ZERO,
        }
    }

    /// What it is, apart from how many: alternatives that differ in this are of another kind.
    pub fn kind(&self) -> (&str, Option<&str>, &str) {
        let fast = self.fast.map(|fast| fast.device.id.as_str());
        (&self.server.id, fast, &self.bulk.device.id)
    }

    /// In words.
    pub fn describe(&self) -> String {
        let nic = self
            .nic
            .map_or(String::new(), |nic| format!(", {}", nic.id));
        let fast = self.fast.map_or(String::new(), |fast| {
            format!(" {} x {} before", fast.count, fast.device.id)
        });
        format!(
            "{}{nic}, {} memory:{fast} {} x {}",
            self.server.id, self.memory, self.bulk.count, self.bulk.device.id
        )
    }
}

/// Devices of one tier, as an answer shows them.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TierAnswer {
    /// Which device.
    pub device: String,
    /// How many in one broker.
    pub count: u32,
    /// Bytes of all of them.
    pub capacity: Bytes,
    /// How full it is in the steady state.
    pub fill: f64,
    /// Nobody of this project has had one.
    pub untouched: bool,
    /// What one reads.
    pub read: Rate,
    /// What one writes.
    pub write: Rate,
    /// It is mapped as memory.
    pub dax: bool,
    /// It is gone with the power.
    pub volatile: bool,
}
