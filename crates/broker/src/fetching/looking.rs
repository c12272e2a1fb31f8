//! What a fetch finds in partitions without a disk: how much it would get, and, at the end of its
//! wait, the answer of those from which it gets nothing.
//!
//! A look at partitions of this shard costs no message to another.

use std::rc::Rc;

use platform::Platform;
use wire::types::{ErrorCode, Offset};

use super::{FetchedPartition, Item};
use crate::Broker;
use crate::fetch_session::PartitionFetch;
use crate::partition::{Isolation, Partition};
use crate::rests::each;
use crate::route::{Target, at_partitions_abandoned};

/// The bytes that a partition can return now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimate {
    pub(super) bytes: usize,
    /// Readable end at the time of the estimate.
    pub(super) end: Offset,
    /// True if the client's log diverges, which is answered immediately, and instead of records.
    pub(super) diverges: bool,
    /// Set by the last look of a fetch that gets nothing from the partition: its answer. The
    /// partition has counted the fetch.
    pub(super) answered: Option<Ends>,
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

/// Looks at all partitions, on their shards.
pub(super) async fn look_everywhere<P: Platform>(
    broker: &Rc<Broker<P>>,
    items: &[Item],
    isolation: Isolation,
) -> Vec<Result<Estimate, ErrorCode>> {
    let items = each(items, Clone::clone).await;
    at_partitions_abandoned(broker, items, move |_, partition, wanted| {
        std::future::ready(estimate_at(&partition, wanted, isolation))
    })
    .await
}

/// Looks at the partitions that this shard leads.
pub(super) async fn look_here<P: Platform>(
    broker: &Broker<P>,
    items: &[Item],
    isolation: Isolation,
) -> Looks {
    let look = |(target, wanted): &Item| match target {
        Err(code) => Some(Err(*code)),
        Ok(target) => {
            let is_here = broker.shards.owner(target.0, target.1) == broker.shards.me();
            is_here.then(|| look_at(broker, *target, *wanted, isolation))
        }
    };
    each(items, look).await
}

/// Looks at some partitions of this shard.
pub(super) async fn look_at_these<P: Platform>(
    broker: &Broker<P>,
    these: &[Placed],
    isolation: Isolation,
) -> Vec<Result<Estimate, ErrorCode>> {
    let look = |(_, target, wanted): &Placed| look_at(broker, *target, *wanted, isolation);
    each(these, look).await
}

/// Does the same at the end of a wait: a partition without bytes counts the fetch, and is answered.
pub(super) async fn look_last<P: Platform>(
    broker: &Broker<P>,
    these: &[Placed],
    isolation: Isolation,
) -> Vec<Result<Estimate, ErrorCode>> {
    let look = |(_, target, wanted): &Placed| {
        let partition = broker.led(*target)?;
        let mut estimate = estimate_at(&partition, *wanted, isolation)?;
        if estimate.bytes == 0 && !estimate.diverges {
            partition.metrics.fetch_requests.add(1);
            estimate.answered = Some(Ends::of(&partition));
        }
        Ok(estimate)
    };
    each(these, look).await
}

fn look_at<P: Platform>(
    broker: &Broker<P>,
    target: Target,
    wanted: PartitionFetch,
    isolation: Isolation,
) -> Result<Estimate, ErrorCode> {
    let partition = broker.led(target)?;
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
        answered: None,
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
