//! One load: what comes in, what goes out, how long it is kept.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

use crate::quantity::{Bytes, Frequency, Rate, Seconds};

/// The traffic of one kind of client. Rates are of records as producers count them; `compression`
/// divides them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Its name.
    pub name: String,
    /// Highest rate from producers; or `messages` and `size`.
    pub peak: Option<Rate>,
    /// Records per second at the peak.
    pub messages: Option<Frequency>,
    /// Bytes of a record.
    #[serde(default = "kilobyte")]
    pub size: Bytes,
    /// Rate between bursts; without it the average.
    pub base: Option<Rate>,
    /// Rate over days, which fills the disks; without it the mean of base and bursts, or the peak.
    pub average: Option<Rate>,
    /// Length and interval of the peaks; without it the peak is permanent.
    pub burst: Option<Burst>,
    /// Bytes of a batch; without it a record, or 16 KB (Kafka's default) if that is more.
    pub batch: Option<Bytes>,
    /// Ratio of the size of records to that of their compressed batch.
    #[serde(default = "one")]
    pub compression: f64,
    /// Consumer groups that read at the tail.
    #[serde(default = "one")]
    pub fan_out: f64,
    /// How far they lag, which memory has to hold.
    #[serde(default = "second")]
    pub lag: Seconds,
    /// Readers of old records.
    pub catch_up: Option<CatchUp>,
    /// How long, or how many bytes, are kept.
    pub retention: Retention,
    /// How long records stay on local tiers, if an object store keeps the rest.
    pub local_retention: Option<Seconds>,
    /// Age up to which records have to be on the first tier.
    #[serde(default)]
    pub newest: Seconds,
    /// Copies.
    #[serde(default = "three")]
    pub replication: u32,
    /// Required acknowledgements (`acks`).
    #[serde(default)]
    pub acks: Acks,
    /// Partitions; without it as many as are needed.
    pub partitions: Option<u32>,
    /// Consumers of the largest group; each needs a partition.
    #[serde(default)]
    pub consumers: u32,
    /// The fastest tier it may be on.
    #[serde(default)]
    pub tier_min: Tier,
    /// The slowest tier it may be on.
    #[serde(default = "bulk")]
    pub tier_max: Tier,
    /// Required 99th percentile of the produce latency.
    pub latency: Option<Seconds>,
    /// Lookups of the newest record of a key.
    pub keyed: Option<KeyedLookups>,
    /// Growth per year: 0.3 is 30 %.
    #[serde(default)]
    pub growth: f64,
}

fn kilobyte() -> Bytes {
    Bytes(1000.0)
}

fn one() -> f64 {
    1.0
}

fn second() -> Seconds {
    Seconds(1.0)
}

fn three() -> u32 {
    3
}

fn bulk() -> Tier {
    Tier::Bulk
}

/// A peak at regular intervals.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Burst {
    /// Length of a burst.
    pub length: Seconds,
    /// Time from the start of one to the start of the next.
    pub interval: Seconds,
}

/// Readers of old records.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatchUp {
    /// Rate of all of them together.
    pub rate: Rate,
    /// Least age of the records that they read.
    pub age: Seconds,
}

/// Lookups of the newest record of a key.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyedLookups {
    /// Number of different keys.
    pub keys: f64,
    /// Lookups per second.
    #[serde(default)]
    pub lookups: Frequency,
    /// Updates per second.
    #[serde(default)]
    pub updates: Frequency,
    /// Share of lookups that memory answers.
    #[serde(default)]
    pub hit_locality: f64,
    /// Bytes of the index for each key; without it the software's value.
    pub index: Option<Bytes>,
    /// The medium of the index.
    #[serde(default)]
    pub index_in: IndexIn,
}

/// The medium of the index.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IndexIn {
    /// DRAM.
    #[default]
    Memory,
    /// The first tier, which must be persistent memory.
    Pmem,
}

/// Required acknowledgements of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Acks {
    /// None.
    None,
    /// The leader.
    Leader,
    /// All in-sync replicas.
    #[default]
    All,
}

impl<'de> Deserialize<'de> for Acks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WrittenAcks;
        impl Visitor<'_> for WrittenAcks {
            type Value = Acks;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("0, 1 or \"all\"")
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Acks, E> {
                match number {
                    0 => Ok(Acks::None),
                    1 => Ok(Acks::Leader),
                    -1 => Ok(Acks::All),
                    _ => Err(E::custom(format!("{number}: allowed: 0, 1, \"all\""))),
                }
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Acks, E> {
                match text {
                    "0" => Ok(Acks::None),
                    "1" => Ok(Acks::Leader),
                    "all" | "-1" => Ok(Acks::All),
                    _ => Err(E::custom(format!("{text:?}: allowed: 0, 1, \"all\""))),
                }
            }
        }
        deserializer.deserialize_any(WrittenAcks)
    }
}

/// A local tier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// The first tier.
    #[default]
    Fast,
    /// The last tier.
    Bulk,
}

/// How long, or how many bytes, are kept.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Retention {
    /// Records of this time.
    Time(Seconds),
    /// This many bytes of one copy.
    Bytes(Bytes),
    /// Everything.
    Forever,
}

impl<'de> Deserialize<'de> for Retention {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WrittenRetention;
        impl Visitor<'_> for WrittenRetention {
            type Value = Retention;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a time (\"7 d\"), bytes (\"10 TB\") or \"forever\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Retention, E> {
                if text == "forever" {
                    return Ok(Retention::Forever);
                }
                if let Ok(time) = text.parse() {
                    return Ok(Retention::Time(time));
                }
                if let Ok(bytes) = text.parse() {
                    return Ok(Retention::Bytes(bytes));
                }
                Err(E::custom(format!(
                    "{text:?}: allowed: a time (\"7 d\"), bytes of one copy (\"10 TB\") or \"forever\""
                )))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Retention, E> {
                self.visit_str(&number.to_string())
            }
        }
        deserializer.deserialize_any(WrittenRetention)
    }
}

impl Load {
    /// Returns the rate of compressed batches for a rate of records.
    fn wire(&self, rate: Rate) -> Rate {
        rate / self.compression
    }

    /// Returns the bytes per second of batches at the peak.
    pub fn peak(&self) -> Rate {
        let counted = self
            .messages
            .map(|Frequency(messages)| Rate(messages * self.size.0));
        self.wire(self.peak.or(counted).unwrap_or_default())
    }

    /// Returns the bytes per second of batches between bursts.
    pub fn base(&self) -> Rate {
        match (self.base, self.average) {
            (Some(base), _) => self.wire(base),
            (None, Some(average)) => self.wire(average),
            (None, None) => self.peak(),
        }
    }

    /// Returns the bytes per second of batches on average over days.
    pub fn average(&self) -> Rate {
        if let Some(average) = self.average {
            return self.wire(average);
        }
        match self.burst {
            Some(burst) if burst.interval.0 > 0.0 => {
                let share = (burst.length / burst.interval).min(1.0);
                let mean = self.peak() * share + self.base() * (1.0 - share);
                // The sum of two shares is subject to rounding.
                mean.min(self.peak())
            }
            _ => self.peak(),
        }
    }

    /// Returns the bytes of a batch.
    pub fn batch(&self) -> Bytes {
        self.batch.unwrap_or(self.size.max(Bytes(16_384.0)))
    }

    /// Returns the bytes of one copy of what is kept; `None` if it grows forever.
    pub fn kept(&self) -> Option<Bytes> {
        match self.retention {
            Retention::Time(time) => Some(self.average() * time),
            Retention::Bytes(bytes) => Some(bytes),
            Retention::Forever => None,
        }
    }

    /// Returns the same load multiplied by `factor`, with the same retention.
    #[must_use]
    pub fn grown(&self, factor: f64) -> Self {
        let rate = |rate: Option<Rate>| rate.map(|rate| rate * factor);
        Self {
            peak: rate(self.peak),
            messages: self
                .messages
                .map(|Frequency(messages)| Frequency(messages * factor)),
            base: rate(self.base),
            average: rate(self.average),
            catch_up: self.catch_up.map(|late| CatchUp {
                rate: late.rate * factor,
                ..late
            }),
            keyed: self.keyed.map(|keyed| KeyedLookups {
                keys: keyed.keys * factor,
                lookups: Frequency(keyed.lookups.0 * factor),
                updates: Frequency(keyed.updates.0 * factor),
                ..keyed
            }),
            ..self.clone()
        }
    }

    /// Returns the same load with its peak multiplied by `factor`.
    ///
    /// The rates between bursts stay the same, but at most the new peak.
    #[must_use]
    pub fn peaked(&self, factor: f64) -> Self {
        let mut load = self.grown(factor);
        if self.burst.is_some() {
            let most = load.peak() * load.compression;
            load.base = self.base.map(|base| base.min(most));
            load.average = self.average.map(|average| average.min(most));
        }
        load
    }

    /// Returns a share of the load, as for one of several clusters.
    #[must_use]
    pub fn share(&self, share: f64) -> Self {
        Self {
            retention: match self.retention {
                Retention::Bytes(bytes) => Retention::Bytes(bytes * share),
                other => other,
            },
            partitions: self.partitions.map(|count| part(count, share)),
            consumers: part(self.consumers, share),
            ..self.grown(share)
        }
    }
}

/// Returns a share of a number, rounded up.
fn part(count: u32, share: f64) -> u32 {
    let most = f64::from(u32::MAX);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between nothing and the largest number"
    )]
    let part = (f64::from(count) * share).ceil().clamp(0.0, most) as u32;
    part
}
