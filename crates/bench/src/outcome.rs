//! The outcome of a load: counts, latencies, the curve over time, the usage of the broker's
//! process.
//!
//! Invariant: outcomes of several hosts can be added. Latencies are histograms, not averages or
//! percentiles; times of intervals count from the common start.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

mod merge;

/// The outcome of one load.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct LoadOutcome {
    /// Start of counting, in milliseconds since 1970.
    pub started_ms: i64,
    /// Duration of counting.
    pub seconds: f64,
    /// The acknowledged records.
    pub produce: Option<Side>,
    /// The consumed records.
    pub consume: Option<Side>,
    /// One point per interval.
    pub intervals: Vec<Interval>,
    /// Usage of the broker's process while counting; none if it runs on another machine.
    pub broker: Option<Usage>,
    /// Usage of the generator.
    pub client: Option<Usage>,
    /// Counts of errors by message.
    pub errors: BTreeMap<String, u64>,
    /// Result of the check of every record.
    pub verified: Option<RecordCheckResult>,
    /// Why the load ended early.
    pub aborted: Option<String>,
    /// The hosts that ran the load, if other than this one alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<Host>,
}

/// A host that ran a share of a load.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Host {
    /// Its name on the command line.
    pub name: String,
    /// How far its clock was ahead of the caller's, in microseconds.
    ///
    /// Its times are corrected by this; the latency of records that it read from other hosts is off
    /// by the difference of their clocks.
    pub clock_ahead_us: i64,
    /// Uncertainty of that offset, in microseconds.
    pub clock_uncertainty_us: i64,
}

/// One side of a load.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Side {
    /// Number of records.
    pub records: u64,
    /// Bytes of keys and values, before compression.
    pub bytes: u64,
    /// Bytes of batches on the wire.
    pub wire_bytes: u64,
    /// Number of requests.
    pub requests: u64,
    /// Latencies of records in microseconds, as an HDR histogram (V2) in base64.
    ///
    /// Produce latency counts from when a record was due (at a rate) or was sent (without) to its
    /// acknowledgement, consume latency from its timestamp to its arrival.
    pub latency: Latency,
}

/// A histogram of microseconds, stored as text everywhere.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Latency {
    /// Base64 of the V2 serialization; empty without values.
    pub hdr: String,
}

/// One point of the curve; its counts are of this interval alone.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Interval {
    /// When it ended, in seconds since the start of counting; negative in the warm-up.
    pub at: f64,
    /// Bytes acknowledged.
    pub produced: u64,
    /// Bytes consumed.
    pub consumed: u64,
    /// Median produce latency in microseconds, 0 without values.
    pub p50_us: u64,
    /// 99th percentile of the produce latency.
    pub p99_us: u64,
    /// All produce latencies in it, for merging several hosts; left out of files.
    #[serde(default, skip_serializing_if = "Latency::is_empty")]
    pub latency: Latency,
    /// Bytes on each of the broker's tiers, first tier first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tier_bytes: Vec<u64>,
}

/// The usage of a process.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time.
    pub cpu_seconds: f64,
    /// CPU time in the kernel, part of the former.
    pub system_seconds: f64,
    /// Largest resident memory.
    pub resident_bytes_max: u64,
    /// Bytes written to the disk layer.
    pub disk_written_bytes: u64,
    /// Bytes read from the disk layer.
    pub disk_read_bytes: u64,
    /// Bytes received over all interfaces of its network namespace, including loopback.
    pub network_received_bytes: u64,
    /// Bytes sent over these interfaces.
    pub network_sent_bytes: u64,
}

/// The result of the check of every record.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RecordCheckResult {
    /// Records acknowledged.
    pub acknowledged: u64,
    /// Distinct records read.
    pub read: u64,
    /// Acknowledged and never read.
    pub lost: u64,
    /// Read more than once.
    pub duplicated: u64,
    /// Read after a later one of the same partition and producer.
    pub disordered: u64,
    /// Read with other bytes than written.
    pub damaged: u64,
}

/// A whole experiment as it was run (`run.json`), the input of the report.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    /// Version of this format: 1.
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
    /// Descriptions of what is emulated; empty if nothing is.
    pub emulated: Vec<String>,
    /// The brokers: name to the exact command and version.
    pub targets: BTreeMap<String, TargetFacts>,
    /// Names of the targets, Forebay first; ratios compare the first with each other one.
    pub order: Vec<String>,
    /// All measurements, in order of time.
    pub cells: Vec<Cell>,
    /// Limits of the machine measured in the same run: sink, disk.
    pub limits: Vec<Limit>,
    /// Why the run ended before everything was measured.
    pub aborted: Option<String>,
}

/// One broker under test.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct TargetFacts {
    /// As the broker reports it.
    pub version: String,
    /// The command that started it.
    pub command: String,
    /// Its settings on syncing, in words.
    pub durability: String,
}

/// One measurement: one load on one target.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Cell {
    /// Phase of the experiment: "produce", "consume", "both", ..
    pub phase: String,
    /// Target.
    pub target: String,
    /// Device of the log directory.
    pub device: String,
    /// Whether broker and page cache were fresh.
    pub cold: bool,
    /// The varied parameters, from name to value as text; numbers are plain, so that they sort as
    /// numbers.
    pub parameters: BTreeMap<String, String>,
    /// The repetition, 0-based; cells that differ only in the target are a pair.
    pub repetition: u32,
    /// The bursts of its load, if it had any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surge: Option<Surge>,
    /// The outcome.
    pub outcome: LoadOutcome,
}

/// Bursts, and the capacities that absorb them.
///
/// Rates are bytes per second, times are seconds from the start of counting.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Surge {
    /// Rate between bursts.
    pub base: f64,
    /// Rate during a burst.
    pub peak: f64,
    /// Duration of a burst.
    pub length: f64,
    /// Time from the start of one burst to the start of the next.
    pub interval: f64,
    /// Bytes of the broker's first tier, if it has two tiers.
    pub first_tier: Option<f64>,
    /// Bytes on the first tier above which segments move down, if they move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// Rate of the device behind it, if it is throttled.
    pub drain: Option<f64>,
}

/// A limit of the machine.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Limit {
    /// "socket sink", "fio write", ..
    pub name: String,
    /// Device, if the limit is of one.
    pub device: String,
    /// The varied parameters, as in [`Cell`].
    pub parameters: BTreeMap<String, String>,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// CPU time of the receiving side per GB (10^9 bytes), 0 if not applicable.
    pub cpu_seconds_per_gb: f64,
    /// Latency of one operation, if that is the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<LimitLatency>,
    /// The command.
    pub command: String,
}

/// Percentiles of a latency limit.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct LimitLatency {
    /// The median, in microseconds.
    pub p50_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// The 99.9th percentile.
    pub p999_us: f64,
}
