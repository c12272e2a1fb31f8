//! One configuration of a broker: server, network, memory, devices by tier.

use serde::Serialize;

use crate::catalogue::{Class, Device, Nic, ObjectStore, Server};
use crate::quantity::{Bytes, Rate};
use crate::software::{BurstAbsorber, Software};

/// Devices of one tier in one broker.
#[derive(Clone, Copy, Debug)]
pub struct Devices<'c> {
    /// The device.
    pub device: &'c Device,
    /// Number of devices.
    pub count: u32,
}

impl Devices<'_> {
    /// Returns the capacity of all of them.
    pub fn capacity(&self) -> Bytes {
        self.device.capacity * f64::from(self.count)
    }

    /// Returns the write rate of all of them.
    pub fn write(&self) -> Rate {
        self.device.write * f64::from(self.count)
    }

    /// Returns the read rate of all of them.
    pub fn read(&self) -> Rate {
        self.device.read * f64::from(self.count)
    }

    /// Returns the reads of 4 KiB per second of all of them.
    pub fn iops(&self) -> f64 {
        self.device.iops.unwrap_or(0.0) * f64::from(self.count)
    }
}

/// The configuration of a broker.
#[derive(Clone, Copy, Debug)]
pub struct Mix<'c> {
    /// The server.
    pub server: &'c Server,
    /// Its network interface; `None` for the built-in one.
    pub nic: Option<&'c Nic>,
    /// Memory.
    pub memory: Bytes,
    /// The first of two tiers.
    pub fast: Option<Devices<'c>>,
    /// The only tier, or the second.
    pub bulk: Devices<'c>,
    /// The store below the local tiers.
    pub object: Option<&'c ObjectStore>,
    /// The software that runs on it.
    pub software: &'c Software,
}

impl Mix<'_> {
    /// Returns the rate of its interface in each direction.
    pub fn network(&self) -> Rate {
        self.nic
            .map(|nic| nic.rate)
            .or(self.server.network)
            .unwrap_or_default()
    }

    /// Returns its cores, as a number of cores of the measurements.
    pub fn cores(&self) -> f64 {
        self.server.cores * self.server.speed
    }

    /// Returns the write rate of the bulk tier; volumes share the bound of the server.
    pub fn bulk_write(&self) -> Rate {
        self.held(self.bulk.write())
    }

    /// Returns the read rate of the bulk tier, with the same bound.
    pub fn bulk_read(&self) -> Rate {
        self.held(self.bulk.read())
    }

    fn held(&self, rate: Rate) -> Rate {
        match self.server.volumes {
            Some(most) if self.bulk.device.class == Class::Volume => rate.min(most),
            _ => rate,
        }
    }

    /// Returns the bytes of dirty pages that absorb a burst.
    pub fn dirty(&self) -> Bytes {
        match self.software.absorbs {
            BurstAbsorber::PageCache => {
                (self.memory - self.software.memory).max(Bytes::ZERO) * self.software.dirty_ratio
            }
            _ => Bytes::ZERO,
        }
    }

    /// Returns what distinguishes its kind from that of an alternative: server and devices, without
    /// their numbers.
    pub fn kind(&self) -> (&str, Option<&str>, &str) {
        let fast = self.fast.map(|fast| fast.device.id.as_str());
        (&self.server.id, fast, &self.bulk.device.id)
    }

    /// Describes it in words.
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
    /// The device.
    pub device: String,
    /// Number of devices in one broker.
    pub count: u32,
    /// Capacity of all of them.
    pub capacity: Bytes,
    /// Fill in the steady state.
    pub fill: f64,
    /// True if the project never had such a device.
    pub untouched: bool,
    /// Read rate of one device.
    pub read: Rate,
    /// Write rate of one device.
    pub write: Rate,
    /// True if it is mapped as memory.
    pub dax: bool,
    /// True if its contents are lost with the power.
    pub volatile: bool,
}
