//! One load: what comes in, what goes out, how long it is kept.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

use crate::quantity::{Bytes, Frequency, Rate, Seconds};

/// What one kind of clients do. Rates are of records as producers count them; `compression` divides them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Its name.
    pub name: String,
    /// The most that comes in; or `messages` and `size`.
    pub peak: Option<Rate>,
    /// Records a second at the peak.
    pub messages: Option<Frequency>,
    /// Bytes of a record.
    #[serde(default = "kilobyte")]
    pub size: Bytes,
    /// Between bursts. Without it the average.
    pub base: Option<Rate>,
    /// Over days: what fills disks. Without it what base and bursts make, or the peak.
    pub average: Option<Rate>,
    /// How long the peak lasts; without it for ever.
    pub burst: Option<Burst>,
    /// Bytes of a batch; without it a record, or 16 KB (Kafka's default) if that is more.
    pub batch: Option<Bytes>,
    /// How many times smaller batches are than their records.
    #[serde(default = "one")]
    pub compression: f64,
    /// Groups that read along at the tail.
    #[serde(default = "one")]
    pub fan_out: f64,
    /// How far they are behind: what memory has to hold.
    #[serde(default = "second")]
    pub lag: Seconds,
    /// Readers of old records.
    pub catch_up: Option<CatchUp>,
    /// How long, or how much, is kept.
    pub retention: Retention,
    /// How long it stays on local tiers, where an object store keeps the rest.
    pub local_retention: Option<Seconds>,
    /// How much of the newest has to be on the first tier.
    #[serde(default)]
    pub newest: Seconds,
    /// Copies.
    #[serde(default = "three")]
    pub replication: u32,
    /// Who has to have a batch before it is acknowledged.
    #[serde(default)]
    pub acks: Acks,
    /// Partitions; without it as many as are needed.
    pub partitions: Option<u32>,
    /// Consumers of the largest group: as many partitions at least.
    #[serde(default)]
    pub consumers: u32,
    /// The fastest tier it may be on.
    #[serde(default)]
    pub tier_min: Tier,
    /// The slowest tier it may be on.
    #[serde(default = "bulk")]
    pub tier_max: Tier,
    /// The 99th percentile of writing that is asked for.
    pub latency: Option<Seconds>,
    /// The newest record of every key is looked up.
    pub keyed: Option<Keyed>,
    /// By how much it grows a year: 0.3 is 30 %.
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

/// A peak every so often.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Burst {
    /// How long one takes.
    pub length: Seconds,
    /// From the start of one to the start of the next.
    pub interval: Seconds,
}

/// Readers of old records.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatchUp {
    /// What they read, all together.
    pub rate: Rate,
    /// How old what they read is at least.
    pub age: Seconds,
}

/// Lookups of the newest record of a key.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keyed {
    /// Different keys.
    pub keys: f64,
    /// Lookups a second.
    #[serde(default)]
    pub lookups: Frequency,
    /// Changes a second.
    #[serde(default)]
    pub updates: Frequency,
    /// The share of lookups that memory answers.
    #[serde(default)]
    pub hit_locality: f64,
    /// Bytes of the index for a key; without it the software's.
    pub index: Option<Bytes>,
    /// Where the index is.
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

/// Who has to have a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Acks {
    /// Nobody.
    None,
    /// The leader.
    Leader,
    /// All in sync.
    #[default]
    All,
}

impl<'de> Deserialize<'de> for Acks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Written;
        impl Visitor<'_> for Written {
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
        deserializer.deserialize_any(Written)
    }
}

/// A local tier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// The first.
    #[default]
    Fast,
    /// The last.
    Bulk,
}

/// How long, or how much.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Retention {
    /// Records of so much time.
    Time(Seconds),
    /// So many bytes of one copy.
    Bytes(Bytes),
    /// Nothing is deleted.
    Forever,
}

impl<'de> Deserialize<'de> for Retention {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Written;
        impl Visitor<'_> for Written {
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
        deserializer.deserialize_any(Written)
    }
}

impl Load {
    /// Batches are so many times smaller.
    fn wire(&self, rate: Rate) -> Rate {
        rate / self.compression
    }

    /// Bytes a second of batches at the peak.
    pub fn peak(&self) -> Rate {
        let counted = self
            .messages
            .map(|Frequency(messages)| Rate(messages * self.size.0));
        self.wire(self.peak.or(counted).unwrap_or_default())
    }

    /// Bytes a second of batches between bursts.
    pub fn base(&self) -> Rate {
        match (self.base, self.average) {
            (Some(base), _) => self.wire(base),
            (None, Some(average)) => self.wire(average),
            (None, None) => self.peak(),
        }
    }

    /// Bytes a second of batches over days.
    pub fn average(&self) -> Rate {
        if let Some(average) = self.average {
            return self.wire(average);
        }
        match self.burst {
            Some(burst) if burst.interval.0 > 0.0 => {
                let share = (burst.length / burst.interval).min(1.0);
                let mean = self.peak() * share + self.base() * (1.0 - share);
                // The sum of two shares is not exact.
                mean.min(self.peak())
            }
            _ => self.peak(),
        }
    }

    /// Bytes of a batch.
    pub fn batch(&self) -> Bytes {
        self.batch.unwrap_or(self.size.max(Bytes(16_384.0)))
    }

    /// Bytes that one copy of what is kept takes; none: it grows for ever.
    pub fn kept(&self) -> Option<Bytes> {
        match self.retention {
            Retention::Time(time) => Some(self.average() * time),
            Retention::Bytes(bytes) => Some(bytes),
            Retention::Forever => None,
        }
    }

    /// The same load so many times as large, kept as long (or in as many bytes) as before.
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
            keyed: self.keyed.map(|keyed| Keyed {
                keys: keyed.keys * factor,
                lookups: Frequency(keyed.lookups.0 * factor),
                updates: Frequency(keyed.updates.0 * factor),
                ..keyed
            }),
            ..self.clone()
        }
    }

    /// The same load with a peak so many times as high. What comes between bursts stays, unless it would be above it.
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

    /// A share of the load, as one of several clusters has it.
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

/// A share of a number, rounded up.
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
