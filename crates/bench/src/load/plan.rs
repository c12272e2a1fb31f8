//! Divides a load among producers and consumers: who writes and reads which partitions, and with
//! which records.
//!
//! Invariants: indexes of producers and consumers count over all hosts; exactly one consumer of
//! each group reads a partition; producers are spread evenly, each over its own partitions if there
//! are enough, or over its own topics if keys choose the partition.

use std::collections::BTreeMap;
use std::sync::Arc;

use wire::batch::Compression;

use super::batch::compression;
use super::by_key::ByKey;
use super::control::HostShare;
use super::encode::{Encoder, KeyMaker, Template};
#[cfg(feature = "librdkafka")]
use super::hook::Numbering;
use super::hook::{PartitionPlace, Verification};
use super::pace::{Cut, Pace, Sizes};
use super::payload::Payload;
use super::producer::Producer;
use super::schedule::Schedule;
use crate::spec::{self, Consume, Keys, Load, Produce};

/// Smallest pool of bytes for values.
const POOL_BYTES_MIN: usize = 4 << 20;
/// Seed of all random numbers: the same load is always the same.
const SEED: u64 = 0x466f_7265_6261_7921;

/// The plan of one producer.
#[derive(Clone, Debug)]
pub(super) struct ProducerPlan {
    index: u32,
    pub(super) places: Vec<PartitionPlace>,
    pace: Pace,
    template: Option<Arc<Template>>,
    payload: Payload,
    codec: Compression,
    fixed: u32,
    by_key: Option<KeyPlan>,
    idempotent: bool,
}

/// The parameters for gathering keyed records.
#[derive(Clone, Copy, Debug)]
struct KeyPlan {
    keys: Keys,
    batch_bytes: u32,
    /// Linger time in seconds; none in a closed loop.
    linger: Option<f64>,
}

impl KeyPlan {
    fn by_key(self, index: u32, places: &[PartitionPlace]) -> ByKey {
        // Producers start far apart in a cycle that is longer than what is written in a while.
        let keys = KeyMaker::new(self.keys, u64::from(index) * 0x9e37_79b9);
        ByKey::new(keys, places, self.batch_bytes, self.linger)
    }
}

impl ProducerPlan {
    /// Creates the producer, in the thread that runs it.
    pub(super) fn producer(self, verification: Option<&dyn Verification>) -> Producer {
        let encoder = Encoder {
            template: self.template,
            fixed: self.fixed,
            codec: self.codec,
            payload: self.payload,
            numbering: verification.map(|verification| verification.numbering(self.index)),
            spare: Vec::new(),
        };
        let by_key = self
            .by_key
            .map(|plan| plan.by_key(self.index, &self.places));
        Producer::new(self.pace, encoder, by_key, self.idempotent)
    }

    /// Creates the parts for a client that takes records one by one.
    #[cfg(feature = "librdkafka")]
    pub(super) fn by_hand(self, verification: Option<&dyn Verification>) -> ByHand {
        ByHand {
            by_key: self
                .by_key
                .map(|plan| plan.by_key(self.index, &self.places)),
            numbering: verification.map(|verification| verification.numbering(self.index)),
            payload: self.payload,
            fixed: self.fixed,
            places: self.places,
            pace: self.pace,
        }
    }
}

/// The parts of a producer for a client that takes records one by one.
#[cfg(feature = "librdkafka")]
pub(super) struct ByHand {
    pub(super) places: Vec<PartitionPlace>,
    pub(super) pace: Pace,
    pub(super) payload: Payload,
    pub(super) by_key: Option<ByKey>,
    /// Size of values if all are equal.
    pub(super) fixed: u32,
    pub(super) numbering: Option<Box<dyn Numbering>>,
}

/// The plan of one consumer.
#[derive(Clone, Debug)]
pub(super) struct ConsumerPlan {
    pub(super) group: u32,
    pub(super) index: u32,
    pub(super) positions: Vec<(PartitionPlace, i64)>,
}

/// Returns the producers of this host.
pub(super) fn producers(
    load: &Load,
    produce: &Produce,
    places: &[PartitionPlace],
    host: HostShare,
) -> anyhow::Result<Vec<ProducerPlan>> {
    let schedule = Schedule::new(&produce.rate, load.warmup_seconds)?.map(Arc::new);
    let all = produce.producers;
    let part = 1.0 / f64::from(all);
    let key_bytes = KeyMaker::key_bytes(produce.keys);
    let codec = compression(produce.compression);
    let pool_bytes = POOL_BYTES_MIN
        .max(2 * produce.batch_bytes as usize)
        .max(2 * largest(&produce.record) as usize);
    let mut payload = Payload::new(produce.entropy, pool_bytes, SEED);
    let pace = |index: u32| {
        let cut = Cut {
            key_bytes,
            batch_bytes: produce.batch_bytes,
            linger: produce.linger_ms / 1e3,
        };
        let sizes = Sizes::new(&produce.record, SEED + u64::from(index));
        let end = load.warmup_seconds + load.seconds;
        let schedule = schedule.clone().map(|schedule| (schedule, part));
        Pace::new(schedule, sizes, cut, end, f64::from(index) * part)
    };
    let (fixed, full) = match produce.record {
        spec::Sizes::Fixed(size) => (size, pace(0).full_count()),
        _ => (0, None),
    };
    let alike = produce.keys == Keys::None && !load.verify;
    let template = full
        .filter(|_| alike)
        .map(|count| Arc::new(Template::new(fixed, count, codec, &mut payload)));
    let by_key = (produce.keys != Keys::None).then(|| KeyPlan {
        keys: produce.keys,
        batch_bytes: produce.batch_bytes,
        linger: schedule.is_some().then_some(produce.linger_ms / 1e3),
    });
    let plans = host.mine(all).map(|index| ProducerPlan {
        index,
        places: match by_key {
            Some(_) => places_of_topics(index, all, places),
            None => places_of(index, all, places),
        },
        pace: pace(index),
        template: template.clone(),
        payload: payload.clone().starting_at(u64::from(index)),
        codec,
        fixed,
        by_key,
        idempotent: produce.idempotent,
    });
    Ok(plans.collect())
}

/// Returns the consumers of this host, without those for which no partition is left.
pub(super) fn consumers(
    consume: &Consume,
    positions: &BTreeMap<PartitionPlace, i64>,
    host: HostShare,
) -> Vec<ConsumerPlan> {
    let each = |group| {
        host.mine(consume.consumers).map(move |index| ConsumerPlan {
            group,
            index,
            positions: positions
                .iter()
                .skip(index as usize)
                .step_by(consume.consumers as usize)
                .map(|(place, position)| (*place, *position))
                .collect(),
        })
    };
    let all = (0..consume.groups).flat_map(each);
    all.filter(|plan| !plan.positions.is_empty()).collect()
}

fn places_of(index: u32, all: u32, places: &[PartitionPlace]) -> Vec<PartitionPlace> {
    if places.len() < all as usize {
        return vec![places[index as usize % places.len()]];
    }
    places
        .iter()
        .skip(index as usize)
        .step_by(all as usize)
        .copied()
        .collect()
}

/// Returns all partitions of this producer's topics, because keys choose among all partitions of a
/// topic.
fn places_of_topics(index: u32, all: u32, places: &[PartitionPlace]) -> Vec<PartitionPlace> {
    let first = |place: &&PartitionPlace| place.partition == 0;
    let topics: Vec<PartitionPlace> = places.iter().filter(first).copied().collect();
    let mine = places_of(index, all, &topics);
    let of_mine = |place: &&PartitionPlace| mine.iter().any(|topic| topic.topic == place.topic);
    places.iter().filter(of_mine).copied().collect()
}

fn largest(sizes: &spec::Sizes) -> u32 {
    match sizes {
        spec::Sizes::Fixed(size) => *size,
        spec::Sizes::Uniform { max, .. } => *max,
        spec::Sizes::Weighted { weights } => {
            weights.iter().map(|(size, _)| *size).max().unwrap_or(0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(count: u32) -> Vec<PartitionPlace> {
        let place = |partition| PartitionPlace {
            topic: partition / 3,
            partition: partition % 3,
        };
        (0..count).map(place).collect()
    }

    #[test]
    fn producers_share_partitions_out_or_share_them() {
        for (producers, count) in [(3, 10), (10, 3), (4, 4), (1, 1)] {
            let places = places(count);
            let mut used: Vec<u32> = vec![0; count as usize];
            for index in 0..producers {
                for place in places_of(index, producers, &places) {
                    used[(place.topic * 3 + place.partition) as usize] += 1;
                }
            }
            let least = (producers / count).max(1);
            assert!(
                used.iter().all(|times| (least..=least + 1).contains(times)),
                "{used:?}"
            );
        }
    }

    #[test]
    fn with_keys_a_producer_writes_to_every_partition_of_its_topics() {
        for (producers, topics) in [(1, 1), (4, 1), (2, 4), (3, 2)] {
            let places = places(3 * topics);
            let mut written = vec![0; topics as usize];
            for index in 0..producers {
                let mine = places_of_topics(index, producers, &places);
                let topics: std::collections::BTreeSet<u32> =
                    mine.iter().map(|place| place.topic).collect();
                assert_eq!(mine.len(), 3 * topics.len());
                for topic in topics {
                    written[topic as usize] += 1;
                }
            }
            assert!(written.iter().all(|times| *times > 0), "{written:?}");
        }
    }

    #[test]
    fn every_group_reads_every_partition_once_on_all_hosts() {
        let consume = Consume {
            consumers: 4,
            groups: 2,
            from: spec::ConsumeStart::Earliest,
            min_bytes: 1,
            max_wait_ms: 500,
            max_bytes: 1,
            partition_max_bytes: 1,
            discard: false,
        };
        for count in [1, 3, 10] {
            let positions: BTreeMap<_, _> = places(count).into_iter().zip(0..).collect();
            let hosts = (0..3)
                .flat_map(|index| consumers(&consume, &positions, HostShare { index, of: 3 }));
            let mut read: Vec<_> = hosts
                .flat_map(|plan| plan.positions.into_iter().map(move |at| (plan.group, at)))
                .collect();
            read.sort_unstable();
            let expected: Vec<_> = (0..2)
                .flat_map(|group| {
                    positions
                        .iter()
                        .map(move |(place, at)| (group, (*place, *at)))
                })
                .collect();
            assert_eq!(read, expected);
        }
    }
}
