//! The wait of one fetch, until its partitions together have a number of bytes more.
//!
//! Each shard looks at its partitions, sleeps, looks again and says what it saw. At the deadline
//! all of them end by themselves, with the answers of partitions that have nothing.
//!
//! The bytes are shared out: each partition wakes the fetch only once it has grown by its share.
//! Until a partition reaches its share, all together cannot have the missing bytes, so the fetch
//! does not check them. The fetch checks only a partition that has reached its share; when the
//! shares have become too large for the rest, it checks all, and shares the rest out again. A fetch
//! that waits for `n` bytes at `k` partitions is woken about `k * log n` times at most, however
//! many appends there are.
//!
//! The check of many partitions yields in between. Each is checked once more when it registers,
//! without a yield, so that the fetch does not miss what it gained before.
//!
//! Invariant: a dropped wait leaves no registration behind.

use std::rc::Rc;

use platform::Platform;
use platform::task::timeout_at;
use wire::types::{ErrorCode, Offset};

use super::looking::{
    Estimate, LookTurn, Looks, Placed, any_urgent, bytes_of, look_at_these, placed, placed_by_shard,
};
use super::{FetchLimits, Item};
use crate::Broker;
use crate::join::all_while;
use crate::partition::{Isolation, Partition};
use crate::purgatory::{Registration, Waiter, WakeReason};
use crate::rests::{Rests, each};
use crate::route::Target;

/// The state of a partition when the fetch found too few bytes.
#[derive(Clone, Copy, Debug)]
struct WaitingPartition {
    target: Target,
    /// The offset up to which it was readable.
    end: Offset,
    /// How many more bytes the client accepts from it.
    room: usize,
}

/// Why a wait is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WaitEnd {
    /// Every shard has waited until the deadline.
    Deadline,
    /// There may be enough bytes, or something else to answer.
    Progress,
}

/// What one shard saw at the end of its wait.
struct ShardLooks {
    end: WaitEnd,
    looks: Vec<(usize, Result<Estimate, ErrorCode>)>,
}

/// Waits until the partitions have `missing` bytes more than known, one of them changes its state,
/// or the deadline passes. Returns what the shards saw that have ended their part. `elsewhere` is
/// whether other shards count the fetch.
pub(super) async fn wait<P: Platform>(
    broker: &Rc<Broker<P>>,
    items: &[Item],
    known: &Looks,
    missing: usize,
    (limits, elsewhere): (FetchLimits, LookTurn),
) -> (Looks, WaitEnd) {
    assert_eq!(items.len(), known.len(), "each partition has its place");
    let found = |these: &[Placed]| {
        let looks = these.iter().filter_map(|(place, ..)| known.get(*place));
        bytes_of(looks.flatten())
    };
    let by_shard = placed_by_shard(broker, items, |_| true).await;
    let by_shard: Vec<_> = by_shard
        .into_iter()
        .map(|these| (found(&these), these))
        .collect();
    let asked = by_shard.iter().filter(|(_, these)| !these.is_empty());
    // Until a shard has its share of the missing bytes, all shards together have fewer than the
    // missing bytes.
    let Some(share) = missing.checked_div(asked.count()) else {
        unreachable!("a fetch that waits has a partition to wait for");
    };
    let asked = by_shard.into_iter().enumerate();
    let asked = asked.filter(|(_, (_, these))| !these.is_empty());
    let calls = asked.map(|(shard, (found, these))| {
        let goal = found.saturating_add(share.max(1));
        // Those here were looked at before.
        let turn = if shard == broker.shards.me() {
            LookTurn::Again
        } else {
            elsewhere
        };
        broker
            .shards
            .call_abandoned(shard, move |broker| async move {
                wait_here(&broker, &these, goal, (limits, turn)).await
            })
    });
    // A shard that is shutting down has no looks.
    let goes_on = |ended: &Option<ShardLooks>| {
        let end = ended.as_ref().map(|shard| shard.end);
        end == Some(WaitEnd::Deadline)
    };
    let ended = all_while(calls, goes_on).await;
    let mut end = WaitEnd::Deadline;
    let mut rests = Rests::new();
    let mut looks: Looks = each(items, |_| None).await;
    for shard in ended {
        let Some(shard) = shard.flatten() else {
            end = WaitEnd::Progress;
            continue;
        };
        if shard.end == WaitEnd::Progress {
            end = WaitEnd::Progress;
        }
        for (place, look) in shard.looks {
            let Some(slot) = looks.get_mut(place) else {
                unreachable!("a place is one of the fetch's");
            };
            *slot = Some(look);
            rests.item().await;
        }
    }
    (looks, end)
}

/// Does the part of one shard: waits until its partitions have `goal` bytes.
async fn wait_here<P: Platform>(
    broker: &Rc<Broker<P>>,
    these: &[Placed],
    goal: usize,
    (limits, turn): (FetchLimits, LookTurn),
) -> ShardLooks {
    let isolation = limits.isolation;
    let mut looks = look_at_these(broker, these, (isolation, turn)).await;
    let bytes = bytes_of(&looks);
    let mut end = WaitEnd::Progress;
    if bytes < goal && !any_urgent(&looks) {
        let waiting = |((_, target, wanted), look): (&Placed, &Result<Estimate, ErrorCode>)| {
            let Ok(estimate) = look else {
                unreachable!("an error is urgent");
            };
            let bytes_max = usize::try_from(wanted.max_bytes).unwrap_or(0);
            WaitingPartition {
                target: *target,
                end: estimate.end,
                room: bytes_max.saturating_sub(estimate.bytes),
            }
        };
        let seen = each(these.iter().zip(&looks), waiting).await;
        end = sleep_until_more(broker, &seen, goal.saturating_sub(bytes), limits).await;
        looks = look_at_these(broker, these, (isolation, LookTurn::Again)).await;
    }
    let looks = placed(these, looks).await;
    ShardLooks { end, looks }
}

/// Sleeps until partitions of this shard have `bytes` more than seen, one of them changes its
/// state, or the deadline passes.
async fn sleep_until_more<P: Platform>(
    broker: &Rc<Broker<P>>,
    seen: &[WaitingPartition],
    bytes: usize,
    limits: FetchLimits,
) -> WaitEnd {
    let Some(mut sleep) = Sleep::begin(broker, seen, bytes, limits.isolation).await else {
        return WaitEnd::Progress;
    };
    match timeout_at(limits.deadline, sleep.until_enough()).await {
        Ok(()) => WaitEnd::Progress,
        Err(_) => WaitEnd::Deadline,
    }
}

struct Sleep<P: Platform> {
    isolation: Isolation,
    waiter: Rc<Waiter>,
    parts: Vec<Part<P>>,
    missing: MissingBytes,
}

/// One partition of a sleeping fetch.
struct Part<P: Platform> {
    partition: Rc<Partition<P>>,
    seen: WaitingPartition,
    registered: Option<Registration>,
}

impl<P: Platform> Sleep<P> {
    /// Builds the wait; `None` if a partition is not led here.
    async fn begin(
        broker: &Broker<P>,
        seen: &[WaitingPartition],
        bytes: usize,
        isolation: Isolation,
    ) -> Option<Self> {
        let mut parts = Vec::with_capacity(seen.len());
        let mut rests = Rests::new();
        for seen in seen {
            parts.push(Part {
                partition: broker.led(seen.target).ok()?,
                seen: *seen,
                registered: None,
            });
            rests.item().await;
        }
        Some(Self {
            isolation,
            waiter: Waiter::sleeping(),
            parts,
            missing: MissingBytes::new(bytes, seen.len()),
        })
    }

    async fn until_enough(&mut self) {
        if self.asks_all().await {
            return;
        }
        while let WakeReason::Reached(names) = self.waiter.woken().await {
            let mut rests = Rests::new();
            for name in &names {
                let Some(part) = self.parts.get_mut(*name) else {
                    unreachable!("a name is a place among the parts");
                };
                self.missing.take(part.gain(self.isolation));
                rests.item().await;
            }
            if self.asks_again(names).await || (self.is_due() && self.asks_all().await) {
                return;
            }
        }
    }

    /// Returns true if there are enough bytes, or unchecked gains could be enough.
    fn is_due(&self) -> bool {
        self.missing.bytes == 0 || self.missing.is_shared_too_coarsely()
    }

    /// Checks every partition, and registers for more. Returns true if there are enough bytes
    /// already.
    async fn asks_all(&mut self) -> bool {
        loop {
            let mut rests = Rests::new();
            for part in &mut self.parts {
                self.missing.take(part.gain(self.isolation));
                rests.item().await;
            }
            self.missing.share_out();
            if self.asks_again(0..self.parts.len()).await {
                return true;
            }
            // Gains during the loop may have made the shares too large again; at most half is
            // missing then, so the loop ends.
            if !self.is_due() {
                return false;
            }
        }
    }

    /// Registers at partitions, as long as the shares are small enough. Returns true if there are
    /// enough bytes already.
    async fn asks_again(&mut self, names: impl IntoIterator<Item = usize>) -> bool {
        let mut rests = Rests::new();
        for name in names {
            if self.is_due() {
                break;
            }
            let Some(part) = self.parts.get_mut(name) else {
                unreachable!("a name is a place among the parts");
            };
            // A partition that closes after this check wakes its registered waiters.
            if part.partition.is_closed() {
                return true;
            }
            self.missing.take(part.gain(self.isolation));
            part.register(&self.waiter, name, self.missing.share, self.isolation);
            rests.item().await;
        }
        self.missing.bytes == 0
    }
}

impl<P: Platform> Part<P> {
    /// Returns the bytes that have become readable since the last check, as far as the client
    /// accepts them.
    fn gain(&mut self, isolation: Isolation) -> usize {
        let end = self.partition.readable_end(isolation);
        if end <= self.seen.end {
            return 0;
        }
        let before = std::mem::replace(&mut self.seen.end, end);
        let log = &self.partition.log;
        let gained = log.available_bytes(before, end, self.seen.room);
        let gained = gained.min(self.seen.room);
        self.seen.room = self.seen.room.saturating_sub(gained);
        gained
    }

    fn register(&mut self, waiter: &Rc<Waiter>, name: usize, share: usize, isolation: Isolation) {
        // Beyond the client's limit, the fetch waits for no more bytes of the partition, but still
        // for its end.
        let bytes = (self.seen.room > 0).then_some(share as u64);
        self.registered = None;
        self.registered = Some(self.partition.wake(waiter, name, bytes, isolation));
    }
}

/// The bytes that a fetch lacks, and how they are shared out.
///
/// Invariant between two checks of all partitions: the gains that `parts` partitions can have
/// without a wake, each less than `share`, are less than the missing bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct MissingBytes {
    bytes: usize,
    parts: usize,
    share: usize,
}

impl MissingBytes {
    fn new(bytes: usize, parts: usize) -> Self {
        assert!(parts > 0, "who waits has a partition to wait for");
        let mut missing = Self {
            bytes,
            parts,
            share: 1,
        };
        missing.share_out();
        missing
    }

    /// Shares out half of the missing bytes, so that the shares remain valid until half has
    /// arrived.
    fn share_out(&mut self) {
        let share = self.bytes.checked_div(self.parts).unwrap_or(0) / 2;
        self.share = share.max(1);
        assert!(
            self.share == 1 || self.share.saturating_mul(self.parts) <= self.bytes,
            "what is gained unasked is less than what is missing"
        );
    }

    fn take(&mut self, gained: usize) {
        self.bytes = self.bytes.saturating_sub(gained);
    }

    fn is_shared_too_coarsely(&self) -> bool {
        self.share > 1 && self.share.saturating_mul(self.parts) > self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::MissingBytes;

    /// Runs random gains of `parts` partitions, each reported once it reaches the share of its last
    /// registration.
    fn run(seed: u64, bytes: usize, parts: usize) -> usize {
        let mut state = seed;
        let mut random = move |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap() % below
        };
        let mut missing = MissingBytes::new(bytes, parts);
        let mut unasked = vec![0; parts];
        let (mut given, mut wakes) = (0, 0);
        while missing.bytes > 0 {
            let part = random(parts);
            let gained = 1 + random(200);
            given += gained;
            unasked[part] += gained;
            if unasked[part] >= missing.share {
                wakes += 1;
                missing.take(std::mem::take(&mut unasked[part]));
                if missing.is_shared_too_coarsely() {
                    for gained in &mut unasked {
                        missing.take(std::mem::take(gained));
                    }
                    missing.share_out();
                }
            }
            let known = bytes.saturating_sub(missing.bytes);
            let hidden: usize = unasked.iter().sum();
            assert!(
                missing.bytes == 0 || hidden < missing.bytes,
                "enough, and nobody says so"
            );
            assert!(known + hidden >= given.min(bytes));
        }
        wakes
    }

    #[test]
    fn enough_is_noticed_at_once_and_too_little_seldom() {
        for seed in 0..50 {
            for (bytes, parts) in [
                (1, 1),
                (1, 50),
                (100, 3),
                (1 << 20, 1),
                (1 << 20, 100),
                (50_000, 7),
            ] {
                let wakes = run(seed, bytes, parts);
                let rounds = usize::try_from(bytes.ilog2()).unwrap() + 2;
                assert!(
                    wakes <= 2 * parts * rounds,
                    "{bytes} bytes at {parts}: {wakes} wakes"
                );
            }
        }
    }
}
