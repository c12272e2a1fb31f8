//! Turns loads into flows: what a cluster has to take, send, keep and compute for all of them
//! together.
//!
//! Loads peak together and burst together, the longest burst with the shortest interval: the worst
//! case that they allow. Invariant: everything that grows with the load is linear in it, so a share
//! of a fleet is a share of its flows.

use crate::load::{Acks, Load, Retention, Scenario, Survive, Tier};
use crate::quantity::{Bytes, Rate, Seconds};
use crate::software::{Calibration, Direction, Software};

/// The work of a cluster. Rates are of batches; "in" counts every copy, "out" every copy and every
/// reader.
#[derive(Clone, Debug, Default)]
pub struct Flows {
    /// From producers, at the peak.
    pub peak: Rate,
    /// From producers, between bursts.
    pub base: Rate,
    /// From producers, on average over days.
    pub average: Rate,
    /// Into all brokers at the peak.
    pub peak_in: Rate,
    /// Into all brokers between bursts.
    pub base_in: Rate,
    /// Into all brokers, on average over days.
    pub average_in: Rate,
    /// The part of `peak_in` that may be on the second tier only.
    pub peak_bulk_only: Rate,
    /// The part of `average_in` that may be on the second tier only.
    pub average_bulk_only: Rate,
    /// The part of `base_in` that may be on the second tier only.
    pub base_bulk_only: Rate,
    /// Out of all brokers at the peak: copies and readers.
    pub peak_out: Rate,
    /// Out of all brokers, on average over days.
    pub average_out: Rate,
    /// To all readers, which may be in other zones, on average over days.
    pub readers_out: Rate,
    /// Copies to followers, on average over days.
    pub copies_out: Rate,
    /// Late readers: their rate, and the least age of their records.
    pub late: Vec<(Rate, Seconds)>,
    /// Into the object store, on average over days.
    pub object_up: Rate,
    /// Length and interval of bursts; `None` if the peak is permanent.
    pub burst: Option<(Seconds, Seconds)>,
    /// Bytes on local tiers, every copy.
    pub stored: Bytes,
    /// Bytes that have to be on the first tier, every copy.
    pub newest: Bytes,
    /// Bytes in the object store, one copy.
    pub objects: Bytes,
    /// Shortest time that local tiers keep the records of a load; infinite if they keep all records
    /// forever.
    pub kept_locally: Seconds,
    /// Core seconds per second, at the peak.
    pub cpu: f64,
    /// True if a part of `cpu` is extrapolated.
    pub cpu_extrapolated: bool,
    /// Bytes that must be in memory for tail readers.
    pub tail: Bytes,
    /// Partitions that the loads need.
    pub partitions: f64,
    /// Their replicas.
    pub replicas: f64,
    /// The number of brokers that can share the work: the replicas of a load with a fixed number of
    /// partitions; infinite without one.
    pub spread_max: f64,
    /// The largest replication of the loads.
    pub replication: u32,
    /// Bytes of the index, every copy.
    pub index: Bytes,
    /// True if the index must be on persistent memory.
    pub index_on_pmem: bool,
    /// Device reads per second by lookups.
    pub lookup_reads: f64,
    /// Written bytes of updates.
    pub updates: Rate,
    /// The strictest required 99th percentile of latency, and the record size of that load.
    pub latency: Option<(Seconds, Bytes)>,
    /// True if a load waits for more than one broker (acks=all with several copies).
    pub acks_all: bool,
}

impl Flows {
    /// Returns the flows of a scenario on brokers of this software, in a cluster that is this share
    /// of the fleet.
    pub fn of(scenario: &Scenario, software: &Software, share: f64, end: Calibration) -> Self {
        let mut flows = Self {
            spread_max: f64::INFINITY,
            kept_locally: Seconds(f64::INFINITY),
            ..Self::default()
        };
        let site = match scenario.goals.survive {
            // The other sites take over the load of the lost one.
            Survive::Site => {
                let sites = f64::from(scenario.fleet.sites);
                sites / (sites - 1.0)
            }
            _ => 1.0,
        };
        let has_object = scenario.hardware.object.is_some();
        for load in &scenario.load {
            flows.add(&load.share(share), software, end, site, has_object);
        }
        flows
    }

    fn add(
        &mut self,
        load: &Load,
        software: &Software,
        end: Calibration,
        site: f64,
        has_object: bool,
    ) {
        let copies = f64::from(load.replication);
        let (peak, base, average) = (load.peak() * site, load.base() * site, load.average());
        let out = copies - 1.0 + load.fan_out;
        self.peak += peak;
        self.base += base;
        self.average += average;
        self.peak_in += peak * copies;
        self.base_in += base * copies;
        self.average_in += average * copies;
        if load.tier_min == Tier::Bulk {
            self.peak_bulk_only += peak * copies;
            self.base_bulk_only += base * copies;
            self.average_bulk_only += average * copies;
        }
        self.peak_out += peak * out;
        self.average_out += average * out;
        self.readers_out += average * load.fan_out;
        self.copies_out += average * (copies - 1.0);
        let mut late_rate = Rate::ZERO;
        if let Some(late) = load.catch_up {
            late_rate = late.rate * site;
            self.late.push((late_rate, late.age));
            self.peak_out += late_rate;
            self.average_out += late.rate;
        }
        self.add_burst(load);
        self.add_room(load, copies, has_object);
        let cost = |direction, batch| software.cpu(direction, load.size, batch, end);
        let produce = cost(Direction::Produce, load.batch());
        // A fetch returns many batches, unless a batch is larger than that.
        let consume = cost(Direction::Consume, load.batch().max(FETCH));
        self.cpu_extrapolated |= produce.extrapolated || consume.extrapolated;
        self.cpu += (peak * copies).0 / 1e9 * produce.seconds;
        self.cpu += (peak * out + late_rate).0 / 1e9 * consume.seconds;
        self.tail += peak * load.lag;
        let needed = load.partitions.map_or_else(
            || {
                let by_rate = (load.peak() / software.partition_rate).ceil();
                by_rate.max(f64::from(load.consumers)).max(1.0)
            },
            f64::from,
        );
        self.partitions += needed;
        self.replicas += needed * copies;
        if load.partitions.is_some() {
            self.spread_max = self.spread_max.min(needed * copies);
        }
        self.replication = self.replication.max(load.replication);
        self.acks_all |= load.acks == Acks::All && load.replication > 1;
        if let Some(latency) = load.latency
            && self
                .latency
                .is_none_or(|(strictest, _)| latency < strictest)
        {
            self.latency = Some((latency, load.size));
        }
        self.add_keyed(load, software, copies);
    }

    fn add_burst(&mut self, load: &Load) {
        if let Some(burst) = load.burst {
            let (length, interval) = self.burst.unwrap_or((burst.length, burst.interval));
            self.burst = Some((length.max(burst.length), interval.min(burst.interval)));
        }
    }

    fn add_room(&mut self, load: &Load, copies: f64, has_object: bool) {
        let average = load.average();
        let kept = load.kept();
        let local = match (load.local_retention, has_object) {
            (Some(time), true) => {
                let local = average * time;
                kept.map_or(local, |kept| kept.min(local))
            }
            _ => kept.unwrap_or_default(),
        };
        self.stored += local * copies;
        let local_time = match (load.local_retention, load.retention) {
            (Some(time), _) if has_object => time,
            (_, Retention::Time(time)) => time,
            (_, Retention::Bytes(bytes)) => bytes / average,
            _ => Seconds(f64::INFINITY),
        };
        self.kept_locally = self.kept_locally.min(local_time);
        let newest = if load.tier_max == Tier::Fast {
            local
        } else {
            (average * load.newest).min(local)
        };
        self.newest += newest * copies;
        if has_object {
            self.object_up += average;
            // Objects that are kept forever count for the planned years: the last year pays for the
            // bytes of all years before it.
            self.objects += kept.unwrap_or(local);
        }
    }

    fn add_keyed(&mut self, load: &Load, software: &Software, copies: f64) {
        let Some(keyed) = load.keyed else { return };
        let index = keyed.index.or(software.index).unwrap_or_default();
        self.index += index * keyed.keys * copies;
        self.index_on_pmem |= keyed.index_in == crate::load::IndexIn::Pmem;
        self.lookup_reads += keyed.lookups.0 * (1.0 - keyed.hit_locality) * software.lookup_reads;
        self.updates += Rate(keyed.updates.0 * load.size.0 * copies);
        let seconds = software.lookup_seconds.unwrap_or_default();
        self.cpu += (keyed.lookups.0 + keyed.updates.0 * copies) * seconds;
    }

    /// Returns the rate at the peak that only the first tier takes.
    pub fn peak_in_fast(&self) -> Rate {
        self.peak_in - self.peak_bulk_only
    }
}

/// Least bytes of a fetch when batches are small; `fetch.max.bytes` is far more.
const FETCH: Bytes = Bytes(2e6);
