//! What a fetch finds in partitions without a disk: how much it would get, and the answer of those
//! from which it gets nothing.
//!
//! A look at partitions of this shard costs no message to another, and one at partitions of another
//! shard a message each way, however many they are. A fetch counts at each partition once: at its
//! first look.

use std::rc::Rc;

use platform::Platform;
use wire::types::{ErrorCode, Offset};

use super::{FetchedPartition, Item};
use crate::Broker;
use crate::fetch_session::PartitionFetch;
use crate::join::join_all;
use crate::partition::{Isolation, Partition};
use crate::rests::{Rests, each};
use crate::route::{Target, UNANSWERED};

/// The bytes that a partition can return now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimate {
    pub(super) bytes: usize,
    /// Readable end at the time of the estimate.
    pub(super) end: Offset,
    /// True if the client's log diverges, which is answered immediately, and instead of records.
    pub(super) diverges: bool,
    /// What an answer without records says.
    pub(super) ends: Ends,
}

/// Whether a look counts the fetch at its partitions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LookTurn {
    /// The first look does.
    First,
    Again,
}

/// The offsets that an answer without records contains.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    high_watermark: Offset,
    stable_offset: Offset,
    log_start_offset: Offset,
}

/// What is known of the partitions of a fetch, in their order; `None` for those of other shards
/// that were not asked.
pub(super) type Looks = Vec<Option<Result<Estimate, ErrorCode>>>;

/// A partition of a fetch with its place in it.
pub(super) type Placed = (usize, Target, PartitionFetch);

impl Estimate {
    /// Returns the answer if the fetch gets nothing.
    pub(super) fn nothing(&self, isolation: Isolation) -> Option<FetchedPartition> {
        let gets_nothing = self.bytes == 0 && !self.diverges;
        gets_nothing.then(|| self.ends.with(isolation))
    }
}

impl Ends {
    fn of<P: Platform>(partition: &Partition<P>) -> Self {
        let high_watermark = partition.high_watermark();
        Self {
            high_watermark,
            stable_offset: partition.log.stable_offset().min(high_watermark),
            log_start_offset: partition.log.log_start_offset(),
        }
    }

    pub(super) fn with(self, isolation: Isolation) -> FetchedPartition {
        FetchedPartition {
            high_watermark: self.high_watermark,
            stable_offset: self.stable_offset,
            log_start_offset: self.log_start_offset,
            aborted: (isolation == Isolation::ReadCommitted).then(Vec::new),
            ..FetchedPartition::default()
        }
    }
}

/// Returns the partitions of a fetch by their shards, those that are chosen by their places.
pub(super) async fn placed_by_shard<P: Platform>(
    broker: &Broker<P>,
    items: &[Item],
    is_chosen: impl Fn(usize) -> bool,
) -> Vec<Vec<Placed>> {
    let mut by_shard = vec![Vec::new(); broker.shards.count()];
    let mut rests = Rests::new();
    for (place, (target, wanted)) in items.iter().enumerate() {
        if is_chosen(place)
            && let Ok(target) = target
        {
            let owner = broker.shards.owner(target.0, target.1);
            let Some(these) = by_shard.get_mut(owner) else {
                unreachable!("an owner is one of the shards");
            };
            these.push((place, *target, *wanted));
        }
        rests.item().await;
    }
    by_shard
}

/// Looks at all partitions that are not known, on their shards.
pub(super) async fn look_at_unknown<P: Platform>(
    broker: &Rc<Broker<P>>,
    items: &[Item],
    known: Looks,
    (isolation, turn): (Isolation, LookTurn),
) -> Looks {
    assert_eq!(items.len(), known.len(), "each partition has its place");
    let is_unknown = |place: usize| known.get(place).is_some_and(Option::is_none);
    let by_shard = placed_by_shard(broker, items, is_unknown).await;
    let asked = by_shard.into_iter().enumerate();
    let asked = asked.filter(|(_, these)| !these.is_empty());
    let calls = asked.map(|(shard, these)| {
        broker
            .shards
            .call_abandoned(shard, move |broker| async move {
                let looks = look_at_these(&broker, &these, (isolation, turn)).await;
                placed(&these, looks).await
            })
    });
    let mut looks = known;
    let mut rests = Rests::new();
    for (place, look) in join_all(calls).await.into_iter().flatten().flatten() {
        let Some(slot) = looks.get_mut(place) else {
            unreachable!("a place is one of the fetch's");
        };
        *slot = Some(look);
        rests.item().await;
    }
    // A shard that is shutting down says nothing.
    each(looks, |look| look.or(Some(Err(UNANSWERED)))).await
}

/// Puts looks at their places.
pub(super) async fn placed(
    these: &[Placed],
    looks: Vec<Result<Estimate, ErrorCode>>,
) -> Vec<(usize, Result<Estimate, ErrorCode>)> {
    assert_eq!(these.len(), looks.len(), "each partition was looked at");
    each(these.iter().zip(looks), |((place, ..), look)| {
        (*place, look)
    })
    .await
}

/// Looks at the partitions that this shard leads.
pub(super) async fn look_here<P: Platform>(
    broker: &Broker<P>,
    items: &[Item],
    looks: (Isolation, LookTurn),
) -> Looks {
    let look = |(target, wanted): &Item| match target {
        Err(code) => Some(Err(*code)),
        Ok(target) => {
            let is_here = broker.shards.owner(target.0, target.1) == broker.shards.me();
            is_here.then(|| look_at(broker, *target, *wanted, looks))
        }
    };
    each(items, look).await
}

/// Looks at some partitions of this shard.
pub(super) async fn look_at_these<P: Platform>(
    broker: &Broker<P>,
    these: &[Placed],
    looks: (Isolation, LookTurn),
) -> Vec<Result<Estimate, ErrorCode>> {
    let look = |(_, target, wanted): &Placed| look_at(broker, *target, *wanted, looks);
    each(these, look).await
}

fn look_at<P: Platform>(
    broker: &Broker<P>,
    target: Target,
    wanted: PartitionFetch,
    (isolation, turn): (Isolation, LookTurn),
) -> Result<Estimate, ErrorCode> {
    let partition = broker.led(target)?;
    if turn == LookTurn::First {
        partition.metrics.fetch_requests.add(1);
    }
    estimate_at(&partition, wanted, isolation)
}

pub(super) fn estimate_at<P: Platform>(
    partition: &Partition<P>,
    wanted: PartitionFetch,
    isolation: Isolation,
) -> Result<Estimate, ErrorCode> {
    // A partition that was resigned makes no progress: a fetch would wait for it without end.
    if partition.is_closed() {
        return Err(ErrorCode::NotLeaderOrFollower);
    }
    partition.check_epoch(wanted.current_leader_epoch)?;
    let from = wanted.fetch_offset;
    if from < partition.log.log_start_offset() || from > partition.log.log_end_offset() {
        return Err(ErrorCode::OffsetOutOfRange);
    }
    let end = partition.readable_end(isolation);
    let diverges = partition
        .divergence(wanted.last_fetched_epoch, from)?
        .is_some();
    let bytes = if diverges {
        0
    } else {
        let bytes_max = usize::try_from(wanted.max_bytes).unwrap_or(0);
        partition.log.available_bytes(from, end, bytes_max)
    };
    Ok(Estimate {
        bytes,
        end,
        diverges,
        ends: Ends::of(partition),
    })
}

/// Returns the bytes of all that is known.
pub(super) fn bytes_of<'a>(
    looks: impl IntoIterator<Item = &'a Result<Estimate, ErrorCode>>,
) -> usize {
    let known = looks.into_iter().flatten();
    known
        .map(|estimate| estimate.bytes)
        .fold(0, usize::saturating_add)
}

/// Returns true if a partition has an answer that does not wait for bytes.
pub(super) fn any_urgent<'a>(
    looks: impl IntoIterator<Item = &'a Result<Estimate, ErrorCode>>,
) -> bool {
    let urgent = |look: &Result<Estimate, _>| look.as_ref().map_or(true, |it| it.diverges);
    looks.into_iter().any(urgent)
}
