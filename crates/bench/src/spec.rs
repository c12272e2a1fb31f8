//! What a load is: who sends and reads what, how fast, for how long.
//!
//! Invariant: a specification holds everything a generator needs but the address of the broker, so that the
//! same one runs against two brokers, or on many hosts. Byte counts are plain bytes, rates bytes of records
//! (keys and values) a second, times seconds, unless the name says otherwise.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One load.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// The topics it uses; made before, deleted afterwards.
    pub topics: Topics,
    /// The writing side.
    #[serde(default)]
    pub produce: Option<Produce>,
    /// The reading side.
    #[serde(default)]
    pub consume: Option<Consume>,
    /// Which client.
    #[serde(default)]
    pub driver: Driver,
    /// Seconds at the beginning that are run but not counted.
    #[serde(default)]
    pub warmup_seconds: f64,
    /// How long it is counted; it ends earlier where `bytes_max` says so.
    pub seconds: f64,
    /// Bytes of records after which writers stop and readers have read enough, in all.
    #[serde(default)]
    pub bytes_max: Option<u64>,
    /// Length of one point of the throughput curve.
    #[serde(default = "interval_default")]
    pub interval_seconds: f64,
    /// Numbers every record and checks what comes back.
    #[serde(default)]
    pub verify: bool,
}

fn interval_default() -> f64 {
    1.0
}

/// The topics of a load.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topics {
    /// What their names start with.
    #[serde(default = "prefix_default")]
    pub prefix: String,
    /// How many.
    pub count: u32,
    /// Partitions of each.
    pub partitions: u32,
    /// Replicas of each partition.
    #[serde(default = "one")]
    pub replication: i16,
    /// Settings they are made with.
    #[serde(default)]
    pub configs: BTreeMap<String, String>,
    /// They are there already and stay: neither made nor deleted.
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
    /// Connections that write, spread over the topics and partitions.
    pub producers: u32,
    /// Size of a record's value.
    pub record: Sizes,
    /// Bits of entropy per byte of value: 8 does not compress, 0 is all the same byte.
    #[serde(default = "entropy_default")]
    pub entropy: f64,
    /// Keys of records.
    #[serde(default)]
    pub keys: Keys,
    /// Codec of batches.
    #[serde(default)]
    pub compression: Codec,
    /// Bytes after which a batch is full, before compression; a larger record is a batch of its own.
    pub batch_bytes: u32,
    /// How long a batch may wait for more records.
    #[serde(default)]
    pub linger_ms: f64,
    /// 0, 1 or -1 (all).
    pub acks: i16,
    /// With a producer id and sequences.
    #[serde(default)]
    pub idempotent: bool,
    /// Unanswered requests of one connection.
    pub in_flight_max: u32,
    /// How fast, all producers together.
    #[serde(default)]
    pub rate: Rate,
}

fn entropy_default() -> f64 {
    8.0
}

/// Sizes of values in bytes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Sizes {
    /// All the same.
    Fixed(u32),
    /// Evenly between two, both included.
    Uniform {
        /// The smallest.
        min: u32,
        /// The largest.
        max: u32,
    },
    /// Of a list, as often as each weighs.
    Weighted {
        /// (bytes, weight).
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
    /// One after the other out of this many.
    Cycle(u64),
    /// Any out of this many.
    Random(u64),
}

/// Codec of batches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Codec {
    /// As they are.
    #[default]
    None,
    /// gzip.
    Gzip,
    /// Snappy.
    Snappy,
    /// LZ4.
    Lz4,
    /// Zstandard.
    Zstd,
}

/// How fast, over time. Rates are bytes of records a second; times are seconds since the load began.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(tag = "shape", rename_all = "lowercase", deny_unknown_fields)]
pub enum Rate {
    /// As fast as answers come (closed loop).
    #[default]
    Unlimited,
    /// Always the same (open loop, like all below).
    Constant {
        /// Rate.
        rate: f64,
    },
    /// One rate after the other, each for so long; the last one stays.
    Step {
        /// Rates.
        rates: Vec<f64>,
        /// How long each.
        every: f64,
    },
    /// Evenly from one to another, which stays.
    Ramp {
        /// At the beginning.
        from: f64,
        /// At the end.
        to: f64,
        /// Until when.
        over: f64,
    },
    /// A base, and every so often a peak.
    Burst {
        /// Between bursts.
        base: f64,
        /// During one.
        peak: f64,
        /// How long one takes.
        length: f64,
        /// From the start of one to the start of the next; the first starts after `interval - length`.
        interval: f64,
    },
    /// Up and down around a mean.
    Sine {
        /// Mean.
        mean: f64,
        /// How far up and down.
        amplitude: f64,
        /// From peak to peak.
        period: f64,
    },
    /// As recorded: a file with lines `SECONDS,RATE`, each rate until the next line's time.
    Replay {
        /// The file.
        file: String,
    },
    /// The same without a file, for hosts that do not have it.
    Recorded {
        /// (seconds, rate).
        points: Vec<(f64, f64)>,
    },
}

/// The reading side.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Consume {
    /// Connections that read, partitions spread over them; of each group.
    pub consumers: u32,
    /// How often everything is read (fan-out).
    #[serde(default = "groups_default")]
    pub groups: u32,
    /// Where they start.
    pub from: From,
    /// Least bytes of an answer.
    #[serde(default = "min_bytes_default")]
    pub min_bytes: u32,
    /// How long the broker may wait for them.
    #[serde(default = "max_wait_default")]
    pub max_wait_ms: u32,
    /// Most bytes of an answer.
    pub max_bytes: u32,
    /// Most bytes of one partition in an answer.
    pub partition_max_bytes: u32,
    /// Leaves records in the kernel, which throws them away, instead of copying them to memory as every client
    /// that wants them does: shows what a broker can send at most, and flatters one that sends files.
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

/// Where readers start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum From {
    /// At the oldest record, wherever writers are (catch-up).
    Earliest,
    /// At what is written from now on.
    Latest,
}

/// Which client puts the load on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Driver {
    /// Ours: batches encoded once and sent again wherever that means the same.
    #[default]
    Native,
    /// librdkafka: what an ordinary client sees.
    Librdkafka,
}
