//! What came of a load: counts, latencies, the curve over time, what the broker's process used.
//!
//! Invariant: outcomes of several hosts add up. Latencies are histograms, not averages or percentiles; times of
//! intervals count from the common start.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

mod merge;

/// What came of one load.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// When it began to be counted, in milliseconds since 1970.
    pub started_ms: i64,
    /// How long it was counted.
    pub seconds: f64,
    /// What was written and acknowledged.
    pub produce: Option<Side>,
    /// What was read.
    pub consume: Option<Side>,
    /// One point per interval.
    pub intervals: Vec<Interval>,
    /// What the broker's process used while it was counted; none when it is not on this machine.
    pub broker: Option<Usage>,
    /// What the generator used.
    pub client: Option<Usage>,
    /// Errors by what they said.
    pub errors: BTreeMap<String, u64>,
    /// What the check of every record found.
    pub verified: Option<Verified>,
    /// Why it ended before its time.
    pub aborted: Option<String>,
    /// The hosts that put it on, where that was not this one alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<Host>,
}

/// A host that put on a share of a load.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Host {
    /// As it was named.
    pub name: String,
    /// How far its clock was ahead of ours, in microseconds. Its times are corrected by that; what it read of
    /// others' records is late or early by their difference.
    pub clock_ahead_us: i64,
    /// How sure that is.
    pub clock_uncertainty_us: i64,
}

/// One side of a load.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Side {
    /// Records.
    pub records: u64,
    /// Bytes of keys and values, before compression.
    pub bytes: u64,
    /// Bytes of batches on the wire.
    pub wire_bytes: u64,
    /// Requests.
    pub requests: u64,
    /// Of records in microseconds: writing from when one was meant to be sent (at a rate) or was sent to its
    /// acknowledgement, reading from its timestamp to its arrival. An HDR histogram (V2), base64.
    pub latency: Latency,
}

/// A histogram of microseconds, as text wherever it is stored.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Latency {
    /// Base64 of the V2 serialization; empty: no values.
    pub hdr: String,
}

/// One point of the curves. Counts are of this interval alone.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Interval {
    /// When it ended, in seconds since the load began to be counted; below 0 is warm-up.
    pub at: f64,
    /// Bytes acknowledged.
    pub produced: u64,
    /// Bytes read.
    pub consumed: u64,
    /// Median latency of writing in microseconds, 0 without any.
    pub p50_us: u64,
    /// Its 99th percentile.
    pub p99_us: u64,
    /// All latencies of writing in it, for those who merge several hosts; left out of files.
    #[serde(default, skip_serializing_if = "Latency::is_empty")]
    pub latency: Latency,
    /// Bytes on each of the broker's tiers, first tier first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tier_bytes: Vec<u64>,
}

/// What a process used.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Processor time.
    pub cpu_seconds: f64,
    /// Of that, in the kernel.
    pub system_seconds: f64,
    /// Most memory it had resident.
    pub resident_bytes_max: u64,
    /// Bytes that reached the disk layer.
    pub disk_written_bytes: u64,
    /// Bytes fetched from the disk layer.
    pub disk_read_bytes: u64,
    /// Bytes received over all interfaces of its network namespace, loopback too.
    pub network_received_bytes: u64,
    /// Bytes sent.
    pub network_sent_bytes: u64,
}

/// What the check of every record found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Verified {
    /// Records acknowledged.
    pub acknowledged: u64,
    /// Different records read.
    pub read: u64,
    /// Acknowledged and never read.
    pub lost: u64,
    /// Read more than once.
    pub duplicated: u64,
    /// Read behind a later one of the same partition and producer.
    pub disordered: u64,
    /// Read with other bytes than written.
    pub damaged: u64,
}

/// A whole experiment as it was run: what the report is made of (`run.json`).
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    /// Version of this form: 1.
    pub version: u32,
    /// Name of the experiment.
    pub experiment: String,
    /// What it shows, one paragraph.
    pub about: String,
    /// When it began, in milliseconds since 1970.
    pub started_ms: i64,
    /// The command that ran it.
    pub command: String,
    /// Facts on the machine: (name, value), in the order to be shown.
    pub machine: Vec<(String, String)>,
    /// What is emulated, and how. Empty: nothing.
    pub emulated: Vec<String>,
    /// The brokers: name to the exact command and version.
    pub targets: BTreeMap<String, TargetFacts>,
    /// Names of the targets, ours first; ratios are of the first to each other one.
    pub order: Vec<String>,
    /// All that was measured, in order of time.
    pub cells: Vec<Cell>,
    /// Limits of the machine measured beside: sink, disk.
    pub limits: Vec<Limit>,
    /// It was ended before everything had been run.
    pub aborted: Option<String>,
}

/// One broker under test.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct TargetFacts {
    /// As it says it itself.
    pub version: String,
    /// How it was started.
    pub command: String,
    /// What it is set to do about syncing, in words.
    pub durability: String,
}

/// One measurement: one load on one target.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Cell {
    /// Which phase of the experiment: "produce", "consume", "both", ..
    pub phase: String,
    /// Target.
    pub target: String,
    /// Device of the log directory.
    pub device: String,
    /// Freshly started broker and memory.
    pub cold: bool,
    /// What the sweep varies: name to value as text. Numbers are plain, so that they sort as numbers.
    pub parameters: BTreeMap<String, String>,
    /// 0-based. Cells that differ in nothing but the target are a pair.
    pub repetition: u32,
    /// The bursts it was put under, where it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surge: Option<Surge>,
    /// What came of it.
    pub outcome: Outcome,
}

/// Bursts, and what takes them. Rates are bytes a second, times seconds, from where counting began.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Surge {
    /// Between bursts.
    pub base: f64,
    /// During one.
    pub peak: f64,
    /// How long one takes.
    pub length: f64,
    /// From the start of one to the start of the next.
    pub interval: f64,
    /// Bytes of the broker's first tier, where it has two.
    pub first_tier: Option<f64>,
    /// What the device behind takes, where it is held to a rate.
    pub drain: Option<f64>,
}

/// A limit of the machine.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Limit {
    /// "socket sink", "fio write", ..
    pub name: String,
    /// Device, where it has one.
    pub device: String,
    /// What was varied, as in [`Cell`].
    pub parameters: BTreeMap<String, String>,
    /// Bytes a second.
    pub bytes_per_second: f64,
    /// Processor time of the receiving side per GB (10^9 bytes), 0 where that means nothing.
    pub cpu_seconds_per_gb: f64,
    /// How long one of them took, where it is that which limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<LimitLatency>,
    /// The command.
    pub command: String,
}

/// Percentiles of what a limit of latency is.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct LimitLatency {
    /// Half of them are done in this, microseconds.
    pub p50_us: f64,
    /// 99 of 100.
    pub p99_us: f64,
    /// 999 of 1000.
    pub p999_us: f64,
}
