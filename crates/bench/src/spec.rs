//! The definition of a load: what it produces and consumes, how fast, for how long.
//!
//! Invariant: a specification contains everything that a generator needs except the address of the
//! broker, so that the same one runs against two brokers, or on many hosts. Byte counts are plain
//! bytes, rates are bytes of records (keys and values) per second, times are seconds, unless the
//! name says otherwise.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// One load.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// The topics it uses; created before it, deleted after it.
    pub topics: Topics,
    /// The writing side.
    #[serde(default)]
    pub produce: Option<Produce>,
    /// The reading side.
    #[serde(default)]
    pub consume: Option<Consume>,
    /// The client to use.
    #[serde(default)]
    pub driver: Driver,
    /// Seconds at the start that are not measured.
    #[serde(default)]
    pub warmup_seconds: f64,
    /// Seconds that are measured; `bytes_max` can end the load earlier.
    pub seconds: f64,
    /// Total bytes of records after which producers stop, and consumers have read enough.
    #[serde(default)]
    pub bytes_max: Option<u64>,
    /// Length of one point of the throughput curve.
    #[serde(default = "interval_default")]
    pub interval_seconds: f64,
    /// Whether every record is numbered and checked when it is read.
    #[serde(default)]
    pub verify: bool,
    /// A file of properties as Kafka's tools take it, for connections by TLS or with a login. Each
    /// host that runs a part of the load has its own under this path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security: Option<PathBuf>,
}

fn interval_default() -> f64 {
    1.0
}

/// The topics of a load.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topics {
    /// Prefix of their names.
    #[serde(default = "prefix_default")]
    pub prefix: String,
    /// Number of topics.
    pub count: u32,
    /// Partitions of each topic.
    pub partitions: u32,
    /// Replicas of each partition.
    #[serde(default = "one")]
    pub replication: i16,
    /// Topic configs for their creation.
    #[serde(default)]
    pub configs: BTreeMap<String, String>,
    /// Whether they exist already and stay: they are neither created nor deleted.
    #[serde(default)]
    pub existing: bool,
}

fn prefix_default() -> String {
    "bench".to_owned()
}

fn one() -> i16 {
    1
}

/// The writing side.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Produce {
    /// Connections that produce, spread over the topics and partitions.
    pub producers: u32,
    /// Size of a record's value.
    pub record: Sizes,
    /// Bits of entropy per byte of value: 8 does not compress, 0 repeats one byte.
    #[serde(default = "entropy_default")]
    pub entropy: f64,
    /// Keys of records.
    #[serde(default)]
    pub keys: Keys,
    /// Codec of batches.
    #[serde(default)]
    pub compression: Codec,
    /// Bytes of a full batch before compression; a larger record is a batch of its own.
    pub batch_bytes: u32,
    /// How long a batch may wait for more records, in milliseconds.
    #[serde(default)]
    pub linger_ms: f64,
    /// 0, 1 or -1 (all).
    pub acks: i16,
    /// Whether producers use a producer id and sequences.
    #[serde(default)]
    pub idempotent: bool,
    /// Unanswered requests per connection.
    pub in_flight_max: u32,
    /// How batches share requests.
    #[serde(default)]
    pub requests: Requests,
    /// The rate of all producers together.
    #[serde(default)]
    pub rate: Rate,
}

fn entropy_default() -> f64 {
    8.0
}

/// How a producer's batches share requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Requests {
    /// A request takes along what there is for the other partitions of its broker, one batch of
    /// each, up to 1 MiB: as Kafka's producers send.
    #[default]
    Packed,
    /// Each batch is a request.
    OnePerBatch,
}

/// Sizes of values in bytes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Sizes {
    /// One size for all values.
    Fixed(u32),
    /// Uniformly distributed between two sizes, both included.
    Uniform {
        /// The smallest.
        min: u32,
        /// The largest.
        max: u32,
    },
    /// Drawn from a list with weights.
    Weighted {
        /// The list of (bytes, weight).
        weights: Vec<(u32, f64)>,
    },
}

/// Keys of records.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Keys {
    /// Records have none.
    #[default]
    None,
    /// Sequential keys out of this many, in a cycle.
    Cycle(u64),
    /// Random keys out of this many.
    Random(u64),
}

/// Codec of batches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Codec {
    /// No compression.
    #[default]
    None,
    /// Gzip.
    Gzip,
    /// Snappy.
    Snappy,
    /// LZ4.
    Lz4,
    /// Zstandard.
    Zstd,
}

/// The rate over time.
///
/// Rates are bytes of records per second; times are seconds since the load began.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(tag = "shape", rename_all = "lowercase", deny_unknown_fields)]
pub enum Rate {
    /// As fast as responses arrive (closed loop).
    #[default]
    Unlimited,
    /// A constant rate (open loop, like all below).
    Constant {
        /// Rate.
        rate: f64,
    },
    /// Consecutive rates, each for the same time; the last one stays.
    Step {
        /// Rates.
        rates: Vec<f64>,
        /// Duration of each rate.
        every: f64,
    },
    /// Linear from one rate to another, which stays.
    Ramp {
        /// Rate at the start.
        from: f64,
        /// Rate at the end.
        to: f64,
        /// Duration of the ramp.
        over: f64,
    },
    /// A base rate with bursts at a regular interval.
    Burst {
        /// Rate between bursts.
        base: f64,
        /// Rate during a burst.
        peak: f64,
        /// Duration of a burst.
        length: f64,
        /// Time from the start of one burst to the start of the next; the first one starts after
        /// `interval - length`.
        interval: f64,
        /// Rate in the warm-up, which can fill a first tier; by default that between bursts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        warmup: Option<f64>,
    },
    /// A sine wave around a mean.
    Sine {
        /// The mean rate.
        mean: f64,
        /// Largest deviation from the mean.
        amplitude: f64,
        /// Time from peak to peak.
        period: f64,
    },
    /// A recorded rate: a file with lines `SECONDS,RATE`, each rate up to the time of the next
    /// line.
    Replay {
        /// The file.
        file: String,
    },
    /// A recorded rate without a file, for hosts that do not have it.
    Recorded {
        /// The list of (seconds, rate).
        points: Vec<(f64, f64)>,
    },
}

/// The reading side.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Consume {
    /// Connections that consume, per group, with the partitions spread over them.
    pub consumers: u32,
    /// Number of groups; each reads everything (fan-out).
    #[serde(default = "groups_default")]
    pub groups: u32,
    /// Where consumers start.
    pub from: ConsumeStart,
    /// Minimum bytes of a fetch response.
    #[serde(default = "min_bytes_default")]
    pub min_bytes: u32,
    /// How long the broker may wait for the minimum bytes.
    #[serde(default = "max_wait_default")]
    pub max_wait_ms: u32,
    /// Maximum bytes of a fetch response.
    pub max_bytes: u32,
    /// Maximum bytes of one partition in a fetch response.
    pub partition_max_bytes: u32,
    /// Whether records are discarded in the kernel instead of copied to memory.
    ///
    /// A real client must copy them. Discarding shows the most that a broker can send, and flatters
    /// one that uses sendfile.
    #[serde(default)]
    pub discard: bool,
}

fn groups_default() -> u32 {
    1
}

fn min_bytes_default() -> u32 {
    1
}

fn max_wait_default() -> u32 {
    500
}

/// Where consumers start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConsumeStart {
    /// At the oldest record, whatever producers do (catch-up).
    Earliest,
    /// At the records written from now on.
    Latest,
}

/// The client that runs the load.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Driver {
    /// The native client: batches are encoded once and resent wherever the load allows it.
    #[default]
    Native,
    /// librdkafka: shows what an ordinary client sees.
    Librdkafka,
}
