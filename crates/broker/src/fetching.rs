//! Reads many partitions for one fetch: look, wait if it is too little, read.
//!
//! Invariants: the wait ends at the deadline, when enough bytes are readable, or when a partition
//! has an error, never by polling; the byte limit of the request is shared out in the order of the
//! partitions; the first batch that is due is returned whole, whatever its size. Looking uses
//! memory only; only [`read`] uses disks. A dropped fetch ends everywhere, including its waits and
//! reads on other shards. A wait at many partitions takes many times the memory of its request:
//! without that memory, the fetch is answered immediately with the bytes that are there.
//!
//! Consumers of quiet topics cost little more than the threads that they wake: of one other shard,
//! a fetch that gets nothing asks once, and the answer comes at its deadline.
//!
//! The caller must name each partition once.

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::indexing_slicing,
        reason = "numbers of clients reach this: an overflow or an index out of bounds ends the broker"
    )
)]

mod looking;
mod quiet;
mod waiting;

use std::net::IpAddr;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use platform::Platform;
use platform::clock::Instant;
use platform::task::timeout_at;
use storage::log::txn_index::AbortedTxn;
use wire::batch::{BatchHeader, HEADER_BYTES};
use wire::types::{ErrorCode, LeaderEpoch, Offset};

use crate::Broker;
use crate::answers::HeldBytes;
use crate::fetch_session::PartitionFetch;
use crate::many::RequestPlace;
use crate::partition::{Isolation, Partition};
use crate::rests::{Rests, each};
use crate::route::{Target, at_partitions_abandoned};
use crate::session::Memo;

use looking::{
    Estimate, LookTurn, Looks, any_urgent, bytes_of, estimate_at, look_at_unknown, look_here,
};
use quiet::LastQuiet;
use waiting::{WaitEnd, wait};

/// Memory of each partition of a waiting fetch, about: its parameters and its state, on both
/// shards, its place among the waiters and its name.
const WAITING_BYTES: usize = 768;

/// How long a place for a request about many things is kept while disks are slow to answer.
const PLACE_HELD_MAX: Duration = Duration::from_millis(100);

/// Limits of one fetch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FetchLimits {
    pub(crate) isolation: Isolation,
    pub(crate) bytes_min: usize,
    pub(crate) bytes_max: usize,
    pub(crate) deadline: Instant,
    /// The address that is charged for its memory.
    pub(crate) peer: IpAddr,
}

/// The answer of one partition.
#[derive(Clone, Debug, Default)]
pub(crate) struct FetchedPartition {
    pub(crate) high_watermark: Offset,
    pub(crate) stable_offset: Offset,
    pub(crate) log_start_offset: Offset,
    /// The point up to which the client's log matches this one: the epoch and its end offset here.
    pub(crate) diverging: Option<(LeaderEpoch, Offset)>,
    /// The aborted transactions among the records (read committed only).
    pub(crate) aborted: Option<Vec<AbortedTxn>>,
    pub(crate) records: Vec<Bytes>,
}

/// The answers of all partitions of a fetch, in order.
pub(crate) struct FetchedPartitions {
    pub(crate) partitions: Vec<Result<FetchedPartition, ErrorCode>>,
    /// Counts the bytes that might be read; from the sending on, the connection counts the answer.
    pub(crate) aside: Option<HeldBytes>,
}

pub(crate) type Item = (Result<Target, ErrorCode>, PartitionFetch);

/// Fetches `items` in order, on the one shard that owns them all, or from here.
///
/// `memo` is what the connection remembers. A place for a request about many things is given up
/// while the fetch waits, for data or for disks, if there is memory for the wait.
pub(crate) async fn fetch_all<P: Platform>(
    broker: &Rc<Broker<P>>,
    items: Vec<Item>,
    limits: FetchLimits,
    (place, memo): (&mut Option<RequestPlace>, &Memo),
) -> FetchedPartitions {
    let last = LastQuiet(memo);
    if place.is_none()
        && let Some(found) = last.again(broker, &items, limits).await
    {
        return found;
    }
    let attempt = LastQuiet::attempt(broker, &items);
    let fetched = fetch_anew(broker, items, limits, place).await;
    last.keep(broker, attempt, limits.isolation, &fetched.partitions);
    fetched
}

/// Fetches without what the last fetch found.
async fn fetch_anew<P: Platform>(
    broker: &Rc<Broker<P>>,
    items: Vec<Item>,
    limits: FetchLimits,
    place: &mut Option<RequestPlace>,
) -> FetchedPartitions {
    let count = items.len();
    // A fetch with a place runs from here, because it gives up the place while it waits.
    if place.is_some() {
        return wait_and_read(broker, items, limits, place).await;
    }
    let owners = items.iter().filter_map(|(target, _)| target.as_ref().ok());
    let mut owners = owners.map(|target| broker.shards.owner(target.0, target.1));
    let first = owners.next();
    match first.filter(|first| owners.all(|owner| owner == *first)) {
        Some(there) => {
            let fetched = broker
                .shards
                .call_abandoned(there, move |broker| async move {
                    wait_and_read(&broker, items, limits, &mut None).await
                });
            fetched
                .await
                .unwrap_or_else(|| FetchedPartitions::none(count))
        }
        None => wait_and_read(broker, items, limits, place).await,
    }
}

impl FetchedPartitions {
    /// Returns the answers when the shard of `count` partitions is gone.
    fn none(count: usize) -> Self {
        Self {
            partitions: vec![Err(ErrorCode::NotLeaderOrFollower); count],
            aside: None,
        }
    }
}

async fn wait_and_read<P: Platform>(
    broker: &Rc<Broker<P>>,
    items: Vec<Item>,
    limits: FetchLimits,
    place: &mut Option<RequestPlace>,
) -> FetchedPartitions {
    let may_wait = || {
        let waits = items.len().saturating_mul(WAITING_BYTES);
        broker.answers.wait(waits, limits.peer)
    };
    let mut waiting = None;
    let isolation = limits.isolation;
    let mut known = look_here(broker, &items, (isolation, LookTurn::First)).await;
    let mut elsewhere = LookTurn::First;
    // Of one other shard, the wait itself tells what is there: to ask first would wake it twice.
    if asks_several_others(broker, &items) {
        known = look_at_unknown(broker, &items, known, (isolation, elsewhere)).await;
        elsewhere = LookTurn::Again;
    }
    let estimates = loop {
        let bytes = bytes_of(known.iter().flatten());
        let enough = bytes >= limits.bytes_min || items.is_empty();
        let due = enough
            || any_urgent(known.iter().flatten())
            || broker.platform.clock().now() >= limits.deadline;
        if !due {
            waiting = waiting.or_else(may_wait);
        }
        if due || waiting.is_none() {
            known = look_at_unknown(broker, &items, known, (isolation, elsewhere)).await;
            break whole(known).await;
        }
        let missing = limits.bytes_min.saturating_sub(bytes);
        let had_place = place.take().is_some();
        let (looks, ended) = wait(broker, &items, &known, missing, (limits, elsewhere)).await;
        elsewhere = LookTurn::Again;
        if had_place {
            *place = Some(broker.place(limits.peer).await);
        }
        known = looks;
        match ended {
            // All shards have answered what can be answered without records.
            WaitEnd::Deadline => break whole(known).await,
            WaitEnd::Progress => {
                let again = (isolation, LookTurn::Again);
                known = over(look_here(broker, &items, again).await, known).await;
                known = look_at_unknown(broker, &items, known, again).await;
            }
        }
    };
    let mut read = pin!(read(broker, &items, &estimates, limits));
    if place.is_none() {
        return read.await;
    }
    let soon = broker.platform.clock().after(PLACE_HELD_MAX);
    if let Ok(fetched) = timeout_at(soon, &mut read).await {
        return fetched;
    }
    // A disk may never answer.
    waiting = waiting.or_else(may_wait);
    let had_place = waiting.is_some() && place.take().is_some();
    let fetched = read.await;
    if had_place {
        *place = Some(broker.place(limits.peer).await);
    }
    fetched
}

/// Returns true if partitions of more than one other shard are among the items.
fn asks_several_others<P: Platform>(broker: &Broker<P>, items: &[Item]) -> bool {
    let shards = &broker.shards;
    let targets = items.iter().filter_map(|(target, _)| target.as_ref().ok());
    let owners = targets.map(|target| shards.owner(target.0, target.1));
    let mut others = owners.filter(|owner| *owner != shards.me());
    shards.count() > 2
        && others
            .next()
            .is_some_and(|one| others.any(|other| other != one))
}

/// Puts later looks over earlier ones.
async fn over(earlier: Looks, later: Looks) -> Looks {
    assert_eq!(earlier.len(), later.len(), "each partition has its place");
    each(earlier.into_iter().zip(later), |(earlier, later)| {
        later.or(earlier)
    })
    .await
}

/// Returns what is known of all partitions.
async fn whole(known: Looks) -> Vec<Result<Estimate, ErrorCode>> {
    let look = |look: Option<Result<Estimate, ErrorCode>>| {
        let Some(look) = look else {
            unreachable!("each partition was looked at");
        };
        look
    };
    each(known, look).await
}

/// Reads the estimated bytes, within the request's limit.
async fn read<P: Platform>(
    broker: &Rc<Broker<P>>,
    items: &[Item],
    estimates: &[Result<Estimate, ErrorCode>],
    limits: FetchLimits,
) -> FetchedPartitions {
    assert_eq!(items.len(), estimates.len(), "each partition is estimated");
    let isolation = limits.isolation;
    // Those that give nothing are answered by the look: their shards are not asked again.
    let nothing = |estimate: &Result<Estimate, _>| estimate.as_ref().ok()?.nothing(isolation);
    let mut answers = each(estimates, |estimate| nothing(estimate).map(Ok)).await;
    if answers.iter().all(Option::is_some) {
        return FetchedPartitions {
            partitions: all_answered(answers).await,
            aside: None,
        };
    }
    let due = items.iter().zip(estimates).map(|((_, wanted), estimate)| {
        let due = estimate.as_ref().map_or(0, |estimate| estimate.bytes);
        due.min(usize::try_from(wanted.max_bytes).unwrap_or(0))
    });
    let due = due.fold(0, usize::saturating_add).min(limits.bytes_max);
    let (mut left, aside) = broker.answers.set_aside(due, limits.peer);
    let mut first_due = true;
    let (mut places, mut visits) = (Vec::new(), Vec::new());
    let mut rests = Rests::new();
    let all = items.iter().zip(estimates).zip(&answers).enumerate();
    for (place, (((target, wanted), estimate), answer)) in all {
        if answer.is_none() {
            let due = estimate.as_ref().map_or(0, |estimate| estimate.bytes);
            let bytes = due
                .min(left)
                .min(usize::try_from(wanted.max_bytes).unwrap_or(0));
            let whole = due > 0 && std::mem::take(&mut first_due);
            left = left.saturating_sub(bytes);
            places.push(place);
            visits.push((*target, (*wanted, bytes, whole)));
        }
        rests.item().await;
    }
    let read = at_partitions_abandoned(
        broker,
        visits,
        move |_, partition, (wanted, bytes, whole)| async move {
            read_at(&partition, wanted, isolation, bytes, whole).await
        },
    );
    for (place, read) in places.into_iter().zip(read.await) {
        let Some(answer) = answers.get_mut(place) else {
            unreachable!("a place is one of the fetch's");
        };
        *answer = Some(read);
        rests.item().await;
    }
    FetchedPartitions {
        partitions: all_answered(answers).await,
        aside,
    }
}

/// The answer of a partition, or why there is none.
type Answer = Result<FetchedPartition, ErrorCode>;

async fn all_answered(answers: Vec<Option<Answer>>) -> Vec<Answer> {
    let answer = |answer: Option<Answer>| {
        let Some(answer) = answer else {
            unreachable!("each partition was answered or read");
        };
        answer
    };
    each(answers, answer).await
}

/// Returns the total bytes of slices.
pub(crate) fn slices_bytes(slices: &[Bytes]) -> usize {
    slices.iter().map(Bytes::len).fold(0, usize::saturating_add)
}

fn unread<P: Platform>(partition: &Partition<P>, error: &storage::Error) -> ErrorCode {
    partition.metrics.failed_fetch_requests.add(1);
    partition.storage_error(error)
}

/// Returns the offset after the last batch in consecutive slices; `None` if they are not batches.
fn end_of(slices: &[Bytes]) -> Option<Offset> {
    let mut end = None;
    let mut skipped = 0_usize;
    for (index, slice) in slices.iter().enumerate() {
        while let Some(rest) = slice.get(skipped..).filter(|rest| !rest.is_empty()) {
            let header = if rest.len() >= HEADER_BYTES {
                BatchHeader::parse(rest)
            } else {
                // The header continues in the next slices.
                let more = slices.iter().skip(index.saturating_add(1)).flatten();
                let all = rest.iter().chain(more).copied();
                BatchHeader::parse(&all.take(HEADER_BYTES).collect::<Vec<u8>>())
            };
            let header = header?;
            end = Some(header.last_offset().plus(1));
            skipped = skipped.saturating_add(header.size_bytes);
        }
        skipped = skipped.saturating_sub(slice.len());
    }
    end
}

async fn read_at<P: Platform>(
    partition: &Partition<P>,
    wanted: PartitionFetch,
    isolation: Isolation,
    bytes: usize,
    whole: bool,
) -> Result<FetchedPartition, ErrorCode> {
    let end = estimate_at(partition, wanted, isolation)
        .inspect_err(|_| partition.metrics.failed_fetch_requests.add(1))?
        .end;
    let log = &partition.log;
    let diverging = partition.divergence(wanted.last_fetched_epoch, wanted.fetch_offset)?;
    let wants_records = diverging.is_none() && (bytes > 0 || whole) && wanted.fetch_offset < end;
    let records = if wants_records {
        let records = log.read(wanted.fetch_offset, end, bytes, whole).await;
        let records = records.map_err(|error| unread(partition, &error))?;
        partition
            .metrics
            .bytes_out
            .add(slices_bytes(&records) as u64);
        records
    } else {
        Vec::new()
    };
    let aborted = match isolation {
        Isolation::ReadUncommitted => None,
        Isolation::ReadCommitted if records.is_empty() => Some(Vec::new()),
        Isolation::ReadCommitted => {
            // A later fetch returns the aborted transactions of later records.
            let below = end_of(&records).unwrap_or(end);
            let aborted = log.aborted_transactions(wanted.fetch_offset, below).await;
            Some(aborted.map_err(|error| unread(partition, &error))?)
        }
    };
    Ok(FetchedPartition {
        high_watermark: partition.high_watermark(),
        stable_offset: log.stable_offset().min(partition.high_watermark()),
        log_start_offset: log.log_start_offset(),
        diverging,
        aborted,
        records,
    })
}
