//! Gathers keyed records into batches: each key has its partition, so that a producer gathers one
//! batch per partition it writes to, as Kafka's producer does.
//!
//! A batch is ready when it is full, when its first record has waited for the linger time (open
//! loop), or when no more records come. Pure: the caller passes the time. Invariant: records of one
//! key leave in the order in which they came; no record is gathered twice or lost.

use std::collections::{BTreeMap, BTreeSet};

use wire::batch::HEADER_BYTES;

use super::batch::record_bytes;
use super::encode::KeyMaker;
use super::hook::PartitionPlace;
use super::murmur::partition_of;
use super::pace::Take;
use super::places::Places;

/// Limit on gathered bytes while partitions cannot be sent to: the default buffer of Kafka's
/// producer.
const BYTES_MAX: u64 = 32 << 20;

/// The records that one producer gathers.
#[derive(Debug)]
pub(super) struct ByKey {
    keys: KeyMaker,
    /// The partitions of each topic that it writes to, in order.
    topics: Vec<Vec<PartitionPlace>>,
    /// Selects the topic; each take goes to the next topic.
    turn: usize,
    batch_bytes: u64,
    /// Seconds that the first record of a batch may wait; none in a closed loop, whose records are
    /// due when they are drawn.
    linger: Option<f64>,
    gathered: BTreeMap<PartitionPlace, GatheredBatch>,
    bytes: u64,
    /// Where the next look at what is gathered begins, so that no partition waits for the others
    /// for ever.
    next: PartitionPlace,
}

/// A batch that is being gathered.
#[derive(Debug, Default)]
struct GatheredBatch {
    take: Take,
    wire_bytes: u64,
}

impl GatheredBatch {
    /// Returns the most bytes that the next batch of it may have: a record that is longer than a
    /// full batch is one of its own.
    fn cut_bytes_max(&self, full: u64) -> u64 {
        let (key, size) = (self.take.keys.first(), self.take.sizes.first());
        let key_bytes = key.map(|key| key.len() as u32);
        let first = record_bytes(0, key_bytes, size.copied().unwrap_or(0));
        let header = HEADER_BYTES as u64;
        let longest = full.max(header + u64::from(first));
        longest.min(header + self.wire_bytes)
    }
}

impl ByKey {
    /// Creates the state of a producer that writes to `places`.
    pub(super) fn new(
        keys: KeyMaker,
        places: &[PartitionPlace],
        batch_bytes: u32,
        linger: Option<f64>,
    ) -> Self {
        let mut topics: BTreeMap<u32, Vec<PartitionPlace>> = BTreeMap::new();
        for place in places {
            topics.entry(place.topic).or_default().push(*place);
        }
        Self {
            keys,
            topics: topics.into_values().collect(),
            turn: 0,
            batch_bytes: batch_bytes.into(),
            linger,
            gathered: BTreeMap::new(),
            bytes: 0,
            next: PartitionPlace {
                topic: 0,
                partition: 0,
            },
        }
    }

    /// Draws the next key, and its partition in the current topic.
    pub(super) fn draw(&mut self) -> Option<(String, PartitionPlace)> {
        let key = self.keys.next()?;
        let places = &self.topics[self.turn % self.topics.len()];
        let at = partition_of(key.as_bytes(), places.len() as u32);
        Some((key, places[at as usize]))
    }

    /// Moves on to the next topic.
    pub(super) fn turn(&mut self) {
        self.turn += 1;
    }

    /// Gathers due records; a take without sizes has values of `fixed` bytes.
    pub(super) fn gather(&mut self, take: &Take, fixed: u32) {
        for index in 0..take.count {
            let Some((key, place)) = self.draw() else {
                return;
            };
            let size = take.sizes.get(index as usize).copied().unwrap_or(fixed);
            let due = take.due(index);
            let key_bytes = key.len() as u32;
            let gathered = self.gathered.entry(place).or_default();
            let batch = &mut gathered.take;
            gathered.wire_bytes += u64::from(record_bytes(batch.count, Some(key_bytes), size));
            if batch.count == 0 {
                batch.first_due = due;
            }
            batch.last_due = due;
            batch.count += 1;
            batch.sizes.push(size);
            batch.keys.push(key);
            batch.payload_bytes += u64::from(size) + u64::from(key_bytes);
            self.bytes += u64::from(size) + u64::from(key_bytes);
        }
        self.turn();
    }

    /// Returns a ready batch for one of `places`; with `all`, any batch for them.
    pub(super) fn ready(
        &mut self,
        now: f64,
        places: &Places,
        all: bool,
    ) -> Option<(PartitionPlace, Take)> {
        let limit = self.batch_bytes.saturating_sub(HEADER_BYTES as u64);
        let linger = self.linger;
        let place = self.in_turn().find(|(place, gathered)| {
            let waited = linger.is_some_and(|linger| now >= gathered.take.first_due + linger);
            (all || waited || gathered.wire_bytes >= limit) && places.contains(**place)
        });
        let place = *place?.0;
        let take = self.take(now, place)?;
        Some((place, take))
    }

    /// Returns what is gathered for `places` other than `taken`, one batch of each, full or not, as
    /// far as whole batches fit into `room` bytes.
    pub(super) fn beside(
        &mut self,
        now: f64,
        places: &Places,
        taken: &BTreeSet<PartitionPlace>,
        room: u64,
    ) -> Vec<(PartitionPlace, Take)> {
        let (full, mut left) = (self.batch_bytes, room);
        let fits = |(place, gathered): (&PartitionPlace, &GatheredBatch)| {
            left = left.checked_sub(gathered.cut_bytes_max(full))?;
            Some(*place)
        };
        let mine = self
            .in_turn()
            .filter(|(place, _)| !taken.contains(place) && places.contains(**place));
        let beside: Vec<_> = mine.map_while(fits).collect();
        let takes = beside.into_iter();
        takes
            .filter_map(|place| Some((place, self.take(now, place)?)))
            .collect()
    }

    /// Returns what is gathered, from the partition after the one that was last taken from on.
    fn in_turn(&self) -> impl Iterator<Item = (&PartitionPlace, &GatheredBatch)> {
        let behind = self.gathered.range(self.next..);
        behind.chain(self.gathered.range(..self.next))
    }

    /// Takes a batch of a partition.
    fn take(&mut self, now: f64, place: PartitionPlace) -> Option<Take> {
        let limit = self.batch_bytes.saturating_sub(HEADER_BYTES as u64);
        let gathered = self.gathered.remove(&place)?;
        let mut take = self.cut(place, gathered, limit);
        if self.linger.is_none() {
            (take.first_due, take.last_due) = (now, now);
        }
        self.bytes -= take.payload_bytes;
        self.next = PartitionPlace {
            partition: place.partition.saturating_add(1),
            ..place
        };
        Some(take)
    }

    /// Cuts off as many records as fit a batch; the others stay gathered.
    fn cut(&mut self, place: PartitionPlace, gathered: GatheredBatch, limit: u64) -> Take {
        let mut take = gathered.take;
        let (mut wire, mut fits) = (0, 0);
        for (key, size) in take.keys.iter().zip(&take.sizes) {
            wire += u64::from(record_bytes(fits, Some(key.len() as u32), *size));
            if fits > 0 && wire > limit {
                break;
            }
            fits += 1;
        }
        if fits == take.count {
            return take;
        }
        let (cut_due, rest_due) = (take.due(fits - 1), take.due(fits));
        let (sizes, keys) = (
            take.sizes.split_off(fits as usize),
            take.keys.split_off(fits as usize),
        );
        let bytes = |keys: &[String], sizes: &[u32]| {
            let each = keys.iter().zip(sizes);
            each.map(|(key, size)| key.len() as u64 + u64::from(*size))
                .sum()
        };
        let deltas = (0..).zip(keys.iter().zip(&sizes));
        let rest = GatheredBatch {
            wire_bytes: deltas
                .map(|(delta, (key, size))| {
                    u64::from(record_bytes(delta, Some(key.len() as u32), *size))
                })
                .sum(),
            take: Take {
                count: take.count - fits,
                payload_bytes: bytes(&keys, &sizes),
                first_due: rest_due,
                last_due: take.last_due,
                sizes,
                keys,
            },
        };
        (take.last_due, take.count) = (cut_due, fits);
        take.payload_bytes = bytes(&take.keys, &take.sizes);
        self.gathered.insert(place, rest);
        take
    }

    /// Returns the earliest time at which a batch for one of `places` has waited long enough.
    pub(super) fn next_ready(&self, places: &Places) -> Option<f64> {
        let linger = self.linger?;
        let mine = self
            .gathered
            .iter()
            .filter(|(place, _)| places.contains(**place));
        let dues = mine.map(|(_, gathered)| gathered.take.first_due + linger);
        dues.min_by(f64::total_cmp)
    }

    /// Returns whether nothing is gathered.
    pub(super) fn is_empty(&self) -> bool {
        self.gathered.is_empty()
    }

    /// Returns whether something must be sent before more is gathered.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= BYTES_MAX
    }

    /// Discards the gathered records and returns their number.
    pub(super) fn give_up(&mut self) -> u64 {
        self.bytes = 0;
        let gathered = std::mem::take(&mut self.gathered);
        let counts = gathered
            .values()
            .map(|gathered| u64::from(gathered.take.count));
        counts.sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::spec::Keys;

    fn places(topics: u32, partitions: u32) -> Vec<PartitionPlace> {
        let of = |topic| (0..partitions).map(move |partition| PartitionPlace { topic, partition });
        (0..topics).flat_map(of).collect()
    }

    fn take(count: u32, due: f64) -> Take {
        Take {
            count,
            first_due: due,
            last_due: due + 0.001,
            ..Take::default()
        }
    }

    proptest! {
        #[test]
        fn every_record_leaves_once_in_order_in_the_partition_of_its_key(
            counts in prop::collection::vec(1u32..60, 1..20), batch_bytes in 100u32..3000, topics in 1u32..3,
            packs: bool,
        ) {
            let places = places(topics, 5);
            let lane = Places::new(places.clone());
            let maker = KeyMaker::new(Keys::Cycle(1000), 0);
            let mut expected = KeyMaker::new(Keys::Cycle(1000), 0);
            let mut by_key = ByKey::new(maker, &places, batch_bytes, Some(0.01));
            let mut left: BTreeMap<PartitionPlace, Vec<String>> = BTreeMap::new();
            let mut now = 0.0;
            let mut all = 0;
            for count in &counts {
                by_key.gather(&take(*count, now), 40);
                all += count;
                now += 0.004;
                while let Some((place, take)) = by_key.ready(now, &lane, false) {
                    let bytes: u32 = (0..).zip(&take.keys)
                        .map(|(delta, key)| record_bytes(delta, Some(key.len() as u32), 40)).sum();
                    prop_assert!(take.count == 1 || bytes + HEADER_BYTES as u32 <= batch_bytes);
                    prop_assert!(take.first_due <= take.last_due && take.last_due <= now);
                    prop_assert_eq!(take.payload_bytes, u64::from(take.count) * 48);
                    left.entry(place).or_default().extend(take.keys);
                    let mut taken = BTreeSet::from([place]);
                    let room = if packs { 2 * u64::from(batch_bytes) } else { 0 };
                    let mut used = 0;
                    for (place, take) in by_key.beside(now, &lane, &taken.clone(), room) {
                        prop_assert!(taken.insert(place), "one batch of each partition");
                        prop_assert!(take.first_due <= take.last_due && take.last_due <= now);
                        let bytes: u32 = (0..).zip(&take.keys)
                            .map(|(delta, key)| record_bytes(delta, Some(key.len() as u32), 40)).sum();
                        used += u64::from(bytes) + HEADER_BYTES as u64;
                        left.entry(place).or_default().extend(take.keys);
                    }
                    prop_assert!(used <= room);
                }
                prop_assert!(by_key.next_ready(&lane).is_none_or(|time| time > now));
            }
            while let Some((place, take)) = by_key.ready(now, &lane, true) {
                left.entry(place).or_default().extend(take.keys);
            }
            prop_assert!(by_key.is_empty() && by_key.bytes == 0);
            let mut wanted: BTreeMap<PartitionPlace, Vec<String>> = BTreeMap::new();
            for (turn, count) in (0..).zip(&counts) {
                for _ in 0..*count {
                    let key = expected.next().unwrap();
                    let place = PartitionPlace { topic: turn % topics, partition: partition_of(key.as_bytes(), 5) };
                    wanted.entry(place).or_default().push(key);
                }
            }
            prop_assert_eq!(left.values().map(Vec::len).sum::<usize>(), all as usize);
            prop_assert_eq!(left, wanted);
        }
    }

    #[test]
    fn the_rest_of_a_cut_batch_is_not_due_after_its_last_record() {
        // Their difference, added to the first, is rounded up past the last.
        let (first_due, last_due) = (0.001, 0.008_833_333_333_333_334);
        assert!(first_due + (last_due - first_due) > last_due);
        let places = places(1, 1);
        let lane = Places::new(places.clone());
        let maker = KeyMaker::new(Keys::Cycle(1000), 0);
        let mut by_key = ByKey::new(maker, &places, 200, Some(0.01));
        let count = 2;
        let two = Take {
            count,
            first_due,
            last_due,
            ..Take::default()
        };
        by_key.gather(&two, 100);
        for due in [first_due, last_due] {
            let (_, one) = by_key.ready(1.0, &lane, false).unwrap();
            assert_eq!((one.count, one.first_due, one.last_due), (1, due, due));
        }
    }

    #[test]
    fn no_partition_waits_while_others_are_full_again_and_again() {
        let places = places(1, 3);
        let lane = Places::new(places.clone());
        let maker = KeyMaker::new(Keys::Cycle(1000), 0);
        let mut by_key = ByKey::new(maker, &places, 400, Some(0.01));
        let mut seen = BTreeSet::new();
        for _ in 0..places.len() {
            // More for each of them than a batch holds.
            by_key.gather(&take(100, 0.0), 40);
            let (place, _) = by_key.ready(0.0, &lane, false).unwrap();
            seen.insert(place);
        }
        assert_eq!(seen.len(), places.len());
    }

    #[test]
    fn without_times_batches_leave_full_and_count_from_then() {
        let places = places(1, 3);
        let lane = Places::new(places.clone());
        let maker = KeyMaker::new(Keys::Cycle(1000), 0);
        let mut by_key = ByKey::new(maker, &places, 1000, None);
        let mut now = 0.0;
        let (_, taken) = loop {
            now += 1.0;
            by_key.gather(&take(5, now), 40);
            if let Some(ready) = by_key.ready(now, &lane, false) {
                break ready;
            }
        };
        assert!(taken.count > 10, "{}", taken.count);
        assert_eq!((taken.first_due, taken.last_due), (now, now));
        assert_eq!(by_key.next_ready(&lane), None);
    }
}
