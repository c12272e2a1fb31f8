//! What the last fetch of a connection found, where that was nothing: the next one, of the same
//! partitions in whatever order, waits without a look at them.
//!
//! Consumers of quiet topics repeat one fetch twice a second. As long as none of its partitions has
//! changed ([`crate::changes`]), each would get the same answer again; so it sleeps here until one
//! changes or its deadline comes, and asks no shard.
//!
//! Invariants: what is answered was true when the counts were last compared, which is after the
//! deadline; only answers that no limit of a request has a part in are kept; a fetch counts at its
//! topics as others do. Memory: one answer a connection, of `PARTITIONS_MAX` partitions at most,
//! and `ALL_PARTITIONS_MAX` in the process.

use std::time::Duration;

use platform::Platform;
use platform::clock::Instant;
use platform::task::timeout_at;
use prometheus_client::metrics::gauge::Gauge;
use wire::types::ErrorCode;

use super::{FetchLimits, FetchedPartition, FetchedPartitions, Item, WAITING_BYTES};
use crate::Broker;
use crate::changes::SeenCount;
use crate::metrics::Pair;
use crate::partition::Isolation;
use crate::session::Memo;

/// The largest number of partitions of a fetch that is kept. A partition takes about 200 bytes.
const PARTITIONS_MAX: usize = 32;

/// The largest number of partitions that all connections keep.
const ALL_PARTITIONS_MAX: i64 = 128 << 10;

/// How long an answer is kept: then the partitions are looked at again, though none has changed.
const KEPT_MAX: Duration = Duration::from_secs(10);

/// A fetch that found nothing.
struct QuietFetch {
    items: Vec<Item>,
    isolation: Isolation,
    answers: Vec<FetchedPartition>,
    seen: Vec<SeenCount>,
    /// The counters of fetches of each partition's topic.
    counters: Vec<Pair>,
    since: Instant,
    _kept: KeptPartitions,
}

/// The partitions of a fetch that is kept, as they count among all.
struct KeptPartitions(Gauge, i64);

impl Drop for KeptPartitions {
    fn drop(&mut self) {
        self.0.dec_by(self.1);
    }
}

impl KeptPartitions {
    /// Counts some; `None` if there are too many.
    fn counted(all: &Gauge, count: usize) -> Option<Self> {
        let count = i64::try_from(count).ok()?;
        let before = all.inc_by(count);
        let kept = Self(all.clone(), count);
        (before.saturating_add(count) <= ALL_PARTITIONS_MAX).then_some(kept)
    }
}

/// A fetch whose answer may be kept, before it looks at anything.
pub(super) struct Attempt {
    items: Vec<Item>,
    seen: Vec<SeenCount>,
    since: Instant,
}

/// The last fetch of a connection, if it found nothing.
pub(super) struct LastQuiet<'a>(pub(super) &'a Memo);

impl LastQuiet<'_> {
    /// Waits until the deadline, if the same fetch found nothing and nothing changes; returns what
    /// it finds again. Otherwise returns `None`, as soon as that is known.
    pub(super) async fn again<P: Platform>(
        &self,
        broker: &Broker<P>,
        items: &[Item],
        limits: FetchLimits,
    ) -> Option<FetchedPartitions> {
        let last = self.0.get::<QuietFetch>()?;
        let clock = broker.platform.clock();
        let places = last.places_of(items, limits.isolation)?;
        let is_old = clock.now().saturating_duration_since(last.since) > KEPT_MAX;
        let changes = broker.shards.changes();
        // A fetch that asks for no bytes does not wait.
        if is_old || limits.bytes_min == 0 || !changes.are_same(&last.seen) {
            return None;
        }
        let waits = items.len().saturating_mul(WAITING_BYTES);
        let _waiting = broker.answers.wait(waits, limits.peer)?;
        let changed = changes.changed(&last.seen);
        let is_quiet = timeout_at(limits.deadline, changed).await.is_err();
        (is_quiet && changes.are_same(&last.seen)).then(|| last.answer(places))
    }

    /// Begins a fetch whose answer may be kept.
    pub(super) fn attempt<P: Platform>(broker: &Broker<P>, items: &[Item]) -> Option<Attempt> {
        if items.len() > PARTITIONS_MAX {
            return None;
        }
        let shards = &broker.shards;
        let seen = |(target, _): &Item| {
            let target = target.ok()?;
            let owner = shards.owner(target.0, target.1);
            Some(shards.changes().seen(owner, target))
        };
        Some(Attempt {
            seen: items.iter().map(seen).collect::<Option<_>>()?,
            items: items.to_vec(),
            since: broker.platform.clock().now(),
        })
    }

    /// Keeps the answer of a fetch if it found nothing.
    pub(super) fn keep<P: Platform>(
        &self,
        broker: &Broker<P>,
        attempt: Option<Attempt>,
        isolation: Isolation,
        fetched: &[Result<FetchedPartition, ErrorCode>],
    ) {
        let quiet = attempt.and_then(|attempt| attempt.ended(broker, isolation, fetched));
        self.0.set(quiet);
    }
}

impl Attempt {
    fn ended<P: Platform>(
        self,
        broker: &Broker<P>,
        isolation: Isolation,
        fetched: &[Result<FetchedPartition, ErrorCode>],
    ) -> Option<QuietFetch> {
        let all = self.items.iter().zip(fetched);
        let quiet = |((_, wanted), fetched): (&Item, &Result<FetchedPartition, ErrorCode>)| {
            let fetched = fetched.as_ref().ok()?;
            let end = match isolation {
                Isolation::ReadUncommitted => fetched.high_watermark,
                Isolation::ReadCommitted => fetched.stable_offset,
            };
            let is_quiet = fetched.records.is_empty()
                && fetched.diverging.is_none()
                && wanted.fetch_offset >= end;
            is_quiet.then(|| fetched.clone())
        };
        let answers = all.map(quiet).collect::<Option<Vec<_>>>()?;
        let image = broker.image();
        let counter = |(target, _): &Item| {
            let (topic, _) = target.ok()?;
            let name = image.topic_by_id(topic)?.name.clone();
            Some(broker.metrics.fetches_of(&name))
        };
        let counters = self.items.iter().map(counter).collect::<Option<Vec<_>>>()?;
        let kept = KeptPartitions::counted(&broker.metrics.quiet_partitions, answers.len())?;
        Some(QuietFetch {
            answers,
            _kept: kept,
            counters,
            items: self.items,
            isolation,
            seen: self.seen,
            since: self.since,
        })
    }
}

impl QuietFetch {
    /// Returns the places of the partitions of a fetch in this one; `None` unless it is the same.
    ///
    /// Clients begin with another partition each time, so that none starves.
    fn places_of(&self, items: &[Item], isolation: Isolation) -> Option<Vec<usize>> {
        let count = self.items.len();
        if isolation != self.isolation || items.len() != count {
            return None;
        }
        let mut next = 0;
        let place = |item: &Item| {
            let mut places = (next..count).chain(0..next);
            let place = places.find(|place| self.items.get(*place) == Some(item))?;
            next = place.saturating_add(1);
            Some(place)
        };
        items.iter().map(place).collect()
    }

    fn answer(&self, places: Vec<usize>) -> FetchedPartitions {
        self.counters.iter().for_each(|counter| counter.add(1));
        let answer = |place: usize| {
            let Some(answer) = self.answers.get(place) else {
                unreachable!("a place is one of the partitions'");
            };
            Ok(answer.clone())
        };
        FetchedPartitions {
            partitions: places.into_iter().map(answer).collect(),
            aside: None,
        }
    }
}
