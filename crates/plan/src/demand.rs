//! Loads to flows: what a cluster has to take, send, keep and compute, whoever asked for it.
//!
//! Loads peak together and burst together, the longest burst with the shortest interval: that is the worst that they allow.
//! Invariant: everything that grows with the load is linear in it, so a share of a fleet is a share of its flows.

use crate::load::{Acks, Load, Retention, Scenario, Survive, Tier};
use crate::quantity::{Bytes, Rate, Seconds};
use crate::software::{Calibration, Direction, Software};

/// What a cluster has to do. Rates are of batches; "in" counts every copy, "out" every copy and every reader.
#[derive(Clone, Debug, Default)]
pub struct Flows {
    /// From producers, at the peak.
    pub peak: Rate,
    /// From producers, between bursts.
    pub base: Rate,
    /// From producers, over days.
    pub average: Rate,
    /// Into all brokers at the peak.
    pub peak_in: Rate,
    /// Into all brokers between bursts.
    pub base_in: Rate,
    /// Into all brokers over days.
    pub average_in: Rate,
    /// Of `peak_in`, what may be on the second tier only.
    pub peak_bulk_only: Rate,
    /// Of `average_in`, the same.
    pub average_bulk_only: Rate,
    /// Of `base_in`, the same.
    pub base_bulk_only: Rate,
    /// Out of all brokers at the peak: copies and readers.
    pub peak_out: Rate,
    /// Out of all brokers over days.
    pub average_out: Rate,
    /// Of all readers: what may cross zones.
    pub readers_out: Rate,
    /// Copies to followers over days.
    pub copies_out: Rate,
    /// Late readers: rate, and how old what they read is at least.
    pub late: Vec<(Rate, Seconds)>,
    /// Up to the object store over days.
    pub object_up: Rate,
    /// One burst; none: the peak lasts.
    pub burst: Option<(Seconds, Seconds)>,
    /// Bytes on local tiers, every copy.
    pub stored: Bytes,
    /// Bytes that have to be on the first tier, every copy.
    pub newest: Bytes,
    /// Bytes in the object store, one copy.
    pub objects: Bytes,
    /// How long local tiers keep what is retained by time, at least.
    pub kept_locally: Seconds,
    /// Seconds of a core a second, at the peak.
    pub cpu: f64,
    /// Some of it is extrapolated.
    pub cpu_extrapolated: bool,
    /// Bytes that tail readers have to find in memory.
    pub tail: Bytes,
    /// Partitions that are needed.
    pub partitions: f64,
    /// Their replicas.
    pub replicas: f64,
    /// Replicas of loads that fix their partitions: more brokers than these cannot share the work. None is fixed: no end.
    pub spread_max: f64,
    /// Copies of the load with most of them.
    pub replication: u32,
    /// Bytes of the index, every copy.
    pub index: Bytes,
    /// The index has to be on persistent memory.
    pub index_on_pmem: bool,
    /// Reads of devices a second by lookups.
    pub lookup_reads: f64,
    /// Writes of updates.
    pub updates: Rate,
    /// What is asked of the 99th percentile: the strictest, and the record of that load.
    pub latency: Option<(Seconds, Bytes)>,
    /// Somebody waits for a sync on more than one broker.
    pub acks_all: bool,
}

impl Flows {
    /// The flows of a scenario on brokers of this software, in a cluster that is this share of the fleet.
    pub fn of(scenario: &Scenario, software: &Software, share: f64, end: Calibration) -> Self {
        let mut flows = Self {
            spread_max: f64::INFINITY,
            kept_locally: Seconds(f64::INFINITY),
            ..Self::default()
        };
        let site = match scenario.goals.survive {
            // The other sites take what the lost one had.
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
        // A fetch brings many batches, unless there is only one.
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
            // For ever is as long as is planned for: the cost of the last year is that of all before it.
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

    /// What only the first tier takes at the peak.
    pub fn peak_in_fast(&self) -> Rate {
        self.peak_in - self.peak_bulk_only
    }
}

/// What a fetch brings at least when batches are small: `fetch.max.bytes` is far more.
const FETCH: Bytes = Bytes(2e6);
