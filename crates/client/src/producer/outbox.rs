//! The queues of all partitions, and which of their batches are sent next to whom. Pure.
//!
//! Invariant: partitions take turns, so none waits for ever behind others of the same broker.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::rc::Rc;

use platform::clock::Instant;

use super::queue::{Due, Identity, Queue, TakenBatch};
use crate::error::ClientError;
use crate::settings::ProducerSettings;

/// A partition: its topic and its index.
pub(super) type PartitionKey = (Rc<str>, i32);

/// Whether a batch can go to a partition's leader now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LeaderReadiness {
    /// It can, to this broker.
    Open(i32),
    /// It cannot; an event wakes the sender when it can.
    Busy,
    /// It cannot before this time.
    Until(Instant),
}

/// A batch that was taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Parcel {
    pub(super) place: PartitionKey,
    pub(super) taken: TakenBatch,
}

/// What to do now.
#[derive(Default)]
pub(super) struct Plan {
    /// The batches of the next request to each broker, at most one of a partition.
    pub(super) requests: BTreeMap<i32, Vec<Parcel>>,
    /// When to look again, if nothing changes before.
    pub(super) look_at: Option<Instant>,
    /// Partitions whose batches could not be made.
    pub(super) failed: Vec<(PartitionKey, ClientError)>,
}

/// All queues.
#[derive(Default)]
pub(super) struct Outbox {
    // Bounded: by the partitions that the program writes to
    queues: BTreeMap<PartitionKey, Queue>,
    /// Those that have batches.
    active: BTreeSet<PartitionKey>,
    /// Where the last plan ended.
    turn: Option<PartitionKey>,
}

impl Outbox {
    /// Returns the queue of a partition, to which a batch is added.
    pub(super) fn queue(&mut self, place: &PartitionKey, is_transactional: bool) -> &mut Queue {
        if !self.active.contains(place) {
            self.active.insert(place.clone());
        }
        let queue = self.queues.entry(place.clone());
        queue.or_insert_with(|| Queue::new(place.1, is_transactional))
    }

    /// Returns the partitions that have batches.
    pub(super) fn active(&self) -> impl Iterator<Item = &PartitionKey> {
        self.active.iter()
    }

    /// Changes a queue that is there; one that is empty then is not looked at any more.
    pub(super) fn change<T>(
        &mut self,
        place: &PartitionKey,
        change: impl FnOnce(&mut Queue) -> T,
    ) -> Option<T> {
        let queue = self.queues.get_mut(place)?;
        let changed = change(queue);
        if queue.is_empty() {
            self.active.remove(place);
        }
        Some(changed)
    }

    /// Returns true if a queue cannot go on with its sequences.
    pub(super) fn needs_identity(&self) -> bool {
        self.queues.values().any(Queue::needs_identity)
    }

    /// Lets all queues begin with another identity; only while nothing is to be sent.
    pub(super) fn forget_identities(&mut self) {
        self.queues.values_mut().for_each(Queue::forget_identity);
    }

    /// Returns the number of records that are not settled.
    pub(super) fn records(&self) -> usize {
        let active = self.active.iter();
        let records = active.filter_map(|place| Some(self.queues.get(place)?.records()));
        records.fold(0, usize::saturating_add)
    }

    /// Takes what is due. `way` tells where batches of a partition can go; `current` is the
    /// producer's identity.
    pub(super) fn plan(
        &mut self,
        settings: &ProducerSettings,
        (now, is_urgent): (Instant, bool),
        current: Option<Identity>,
        mut way: impl FnMut(&PartitionKey) -> LeaderReadiness,
    ) -> Plan {
        let mut plan = Plan::default();
        let mut bytes: BTreeMap<i32, usize> = BTreeMap::new();
        for place in self.in_turn() {
            let Some(queue) = self.queues.get_mut(&place) else {
                continue;
            };
            plan.look_at = earliest(plan.look_at, queue.expires_at(settings));
            match queue.due(settings, is_urgent, now) {
                Due::Later => continue,
                Due::At(at) => {
                    plan.look_at = earliest(plan.look_at, Some(at));
                    continue;
                }
                Due::Now => {}
            }
            let node = match way(&place) {
                LeaderReadiness::Open(node) => node,
                LeaderReadiness::Busy => continue,
                LeaderReadiness::Until(at) => {
                    plan.look_at = earliest(plan.look_at, Some(at));
                    continue;
                }
            };
            // One batch always fits.
            let so_far = bytes.entry(node).or_default();
            if *so_far > 0 && *so_far >= settings.request_bytes_max {
                continue;
            }
            match queue.take(current) {
                Ok(taken) => {
                    *so_far = so_far.saturating_add(taken.bytes.len());
                    self.turn = Some(place.clone());
                    let request = plan.requests.entry(node).or_default();
                    request.push(Parcel { place, taken });
                }
                Err(error) => plan.failed.push((place, error)),
            }
        }
        plan
    }

    /// Returns the partitions that have batches, those after the last turn first.
    fn in_turn(&self) -> Vec<PartitionKey> {
        let after = match &self.turn {
            Some(turn) => Bound::Excluded(turn),
            None => Bound::Unbounded,
        };
        let first = self
            .active
            .range::<PartitionKey, _>((after, Bound::Unbounded));
        let rest = self.turn.iter();
        let rest = rest.flat_map(|turn| self.active.range(..=turn.clone()));
        first.chain(rest).cloned().collect()
    }
}

fn earliest(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::producer::record::Record;

    fn outbox(partitions: i32) -> Outbox {
        let mut outbox = Outbox::default();
        let settings = ProducerSettings::default();
        for partition in 0..partitions {
            let queue = outbox.queue(&("t".into(), partition), false);
            let batch = queue.open(100, &settings, Instant::now());
            let record = Record::new("t".into(), Some(Bytes::from(vec![0; 100])));
            batch.add(&record, 0, Box::new(|_| {}), None);
        }
        outbox
    }

    fn plan(
        outbox: &mut Outbox,
        bytes_max: usize,
        way: impl FnMut(&PartitionKey) -> LeaderReadiness,
    ) -> Plan {
        let settings = ProducerSettings {
            request_bytes_max: bytes_max,
            ..ProducerSettings::default()
        };
        outbox.plan(&settings, (Instant::now(), true), None, way)
    }

    fn partitions(plan: &Plan, node: i32) -> Vec<i32> {
        let request = plan.requests.get(&node).into_iter().flatten();
        request.map(|parcel| parcel.place.1).collect()
    }

    #[test]
    fn partitions_take_turns_when_a_request_is_full() {
        let mut outbox = outbox(5);
        let turns: Vec<_> = (0..3)
            .map(|_| partitions(&plan(&mut outbox, 200, |_| LeaderReadiness::Open(1)), 1))
            .collect();
        assert_eq!(turns, [vec![0, 1], vec![2, 3], vec![4]]);
    }

    #[test]
    fn each_leader_gets_its_partitions_and_the_others_wait() {
        let mut outbox = outbox(4);
        let soon = Instant::now();
        let plan = plan(&mut outbox, 1 << 20, |(_, partition)| match partition {
            0 => LeaderReadiness::Busy,
            1 => LeaderReadiness::Until(soon),
            partition => LeaderReadiness::Open(*partition),
        });
        assert_eq!(partitions(&plan, 2), [2]);
        assert_eq!(partitions(&plan, 3), [3]);
        assert_eq!(plan.requests.len(), 2);
        assert_eq!(plan.look_at, Some(soon));
        assert_eq!(outbox.records(), 4);
    }

    #[test]
    fn a_queue_that_is_empty_is_not_looked_at() {
        let mut outbox = outbox(2);
        let place = ("t".into(), 0);
        let failed = outbox.change(&place, |queue| queue.fail_waiting(&ClientError::Closed));
        assert_eq!(failed.unwrap().reports.len(), 1);
        assert_eq!(outbox.active().count(), 1);
        assert_eq!(outbox.records(), 1);
    }
}
