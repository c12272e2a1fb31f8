//! The wait of one fetch on one shard: until its partitions can give so many bytes more, together.
//!
//! The bytes are shared out: each partition wakes the fetch only once it has grown by its share. As long as nobody has
//! reached his share, all together cannot have given what is missing, so nobody needs to be asked. Who has is asked
//! alone; when the shares have become too large for what is left, all are asked and the rest is shared out anew. A
//! fetch that waits for `n` bytes at `k` partitions is woken some `k * log n` times at most, however many appends there
//! are.
//! Others have their turn while many partitions are asked: each is asked once more with the registration, in one piece, so
//! that what it gains before that is not missed.
//! Invariant: dropped, it leaves no registration behind.

use std::rc::Rc;

use platform::Platform;
use platform::task::timeout_at;
use wire::types::Offset;

use super::FetchLimits;
use crate::Broker;
use crate::partition::{Isolation, Partition};
use crate::purgatory::{Registration, Waiter, Woken};
use crate::rests::Rests;
use crate::route::Target;

/// A partition as it was when the fetch found too little.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) target: Target,
    /// Readers could read up to here.
    pub(super) end: Offset,
    /// More bytes that the client would take from it.
    pub(super) room: usize,
}

/// Sleeps until partitions of this shard can give `bytes` more than was seen, one of them is not what it was, or the
/// deadline.
pub(super) async fn sleep_until_more<P: Platform>(
    broker: &Rc<Broker<P>>,
    seen: &[Seen],
    bytes: usize,
    limits: FetchLimits,
) {
    let Some(mut sleep) = Sleep::begin(broker, seen, bytes, limits.isolation).await else {
        return;
    };
    // Time being up is as good a reason to go on as data.
    let _ = timeout_at(limits.deadline, sleep.until_enough()).await;
}

struct Sleep<P: Platform> {
    isolation: Isolation,
    waiter: Rc<Waiter>,
    parts: Vec<Part<P>>,
    missing: Missing,
}

/// One partition of a sleeping fetch.
struct Part<P: Platform> {
    partition: Rc<Partition<P>>,
    seen: Seen,
    registered: Option<Registration>,
}

impl<P: Platform> Sleep<P> {
    /// `None` when a partition is not led here.
    async fn begin(
        broker: &Broker<P>,
        seen: &[Seen],
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
            missing: Missing::new(bytes, seen.len()),
        })
    }

    async fn until_enough(&mut self) {
        if self.asks_all().await {
            return;
        }
        while let Woken::Reached(names) = self.waiter.woken().await {
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

    /// True when there is enough, or what there may be unasked may be enough.
    fn is_due(&self) -> bool {
        self.missing.bytes == 0 || self.missing.is_shared_too_coarsely()
    }

    /// Asks every partition what it can give, and to say when there is more. True when there is enough already.
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
            // What they have gained meanwhile may have made the shares too large: half is missing, then.
            if !self.is_due() {
                return false;
            }
        }
    }

    /// Asks partitions to say when there is more, as long as that is worth it. True when there is enough already.
    async fn asks_again(&mut self, names: impl IntoIterator<Item = usize>) -> bool {
        let mut rests = Rests::new();
        for name in names {
            if self.is_due() {
                break;
            }
            let Some(part) = self.parts.get_mut(name) else {
                unreachable!("a name is a place among the parts");
            };
            // Who ends from here on wakes those who are registered.
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
    /// Bytes that have become readable since this was asked last, as far as the client takes them.
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
        // What the client takes no more of is waited for no more; that it ends is news all the same.
        let bytes = (self.seen.room > 0).then_some(share as u64);
        self.registered = None;
        self.registered = Some(self.partition.wake(waiter, name, bytes, isolation));
    }
}

/// The bytes that a fetch lacks, and how they are shared out.
///
/// Invariant between two looks at every partition: what `parts` partitions can have gained unasked, each less than
/// `share`, is less than what is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Missing {
    bytes: usize,
    parts: usize,
    share: usize,
}

impl Missing {
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

    /// Shares out half of it: then there is something to be taken before it has to be done again.
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
    use super::Missing;

    /// Random gains of `parts` partitions, each told of once it has reached the share of its last registration.
    fn run(seed: u64, bytes: usize, parts: usize) -> usize {
        let mut state = seed;
        let mut random = move |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap() % below
        };
        let mut missing = Missing::new(bytes, parts);
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
