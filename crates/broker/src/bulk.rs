//! The share of a shard's thread that large requests have together.
//!
//! A shard is one thread. The cost of a request is bounded by its bytes, but a large one works for
//! many milliseconds in one piece: its body is decoded as a whole, for example. Several of them at
//! a time delay every other client of the shard by the sum of their pieces. So they take turns, and
//! after a piece that took some time the other requests have the thread for several times as long,
//! if there are other requests.
//!
//! Invariants: one large request of a shard works at a time; a request that is not polled does not
//! hold the turn, so none waits for another that waits. In a simulation, where work takes no time,
//! only the turns remain. A Produce costs little for each byte and must begin in the order of its
//! connection, so it takes no turns; one of very many batches leaves the others their share between
//! its pieces. Not here: loops over many items (`rests.rs`); memory (`many.rs`).

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use platform::Platform;
use platform::clock::{Clock, Instant};
use platform::sync::Semaphore;
use platform::task::yield_now;
use wire::kafka::Api;

use crate::Broker;
use crate::queues::turn_at;

/// A request of more bytes than this is large: to decode it may take a fraction of a millisecond.
const LARGE_BYTES: usize = 16 << 10;
/// How much longer than a large request the others have the thread.
const OTHERS: u32 = 3;
/// A piece that took less than this delays nobody.
const PIECE_MIN: Duration = Duration::from_micros(250);
/// How often a request that waits looks whether there are others at all.
const LOOK: Duration = Duration::from_millis(1);

/// Returns true for a request that shares the thread with the other large ones.
pub(crate) fn is_large(api: Api, frame_bytes: usize) -> bool {
    frame_bytes > LARGE_BYTES && api != Api::Produce
}

/// The turns of the large requests of a shard.
pub(crate) struct Bulk {
    turn: Semaphore,
    /// Until when the thread is the others'.
    others_until: Cell<Option<Instant>>,
    /// Requests of other sizes that were taken so far.
    others: Cell<u64>,
}

impl Bulk {
    /// Creates the turns of a shard.
    pub(crate) fn new() -> Self {
        Self {
            turn: Semaphore::new(1),
            others_until: Cell::default(),
            others: Cell::default(),
        }
    }

    /// Counts a request that is not large.
    pub(crate) fn note_other(&self) {
        self.others.set(self.others.get().wrapping_add(1));
    }

    /// Runs a large request, whose polls take turns with those of the others.
    pub(crate) async fn paced<F: Future>(&self, clock: &Clock, work: F) -> F::Output {
        let mut work = pin!(work);
        loop {
            let turn = turn_at(&self.turn).await;
            self.wait_for_others(clock).await;
            let since = clock.now();
            let polled = poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await;
            self.worked(since, clock.now());
            drop(turn);
            match polled {
                Poll::Ready(output) => return output,
                Poll::Pending => woken().await,
            }
        }
    }

    /// Gives the thread to the others for a multiple of a piece of work.
    fn worked(&self, since: Instant, now: Instant) {
        let spent = now.saturating_duration_since(since);
        if spent >= PIECE_MIN {
            self.others_until.set(now.checked_add(spent * OTHERS));
        }
    }

    /// Waits until the others have had their share, or until there are none.
    async fn wait_for_others(&self, clock: &Clock) {
        while let Some(until) = self.others_until.get() {
            let left = until.saturating_duration_since(clock.now());
            let before = self.others.get();
            if !left.is_zero() {
                clock.sleep(left.min(LOOK)).await;
            }
            if left.is_zero() || self.others.get() == before {
                self.others_until.set(None);
            }
        }
    }
}

impl<P: Platform> Broker<P> {
    /// Runs a large request, which takes turns with the others of this shard.
    pub(crate) async fn paced<F: Future>(&self, work: F) -> F::Output {
        self.bulk.paced(self.platform.clock(), work).await
    }

    /// Rests in a long request that may not wait for its turn, after it worked since then.
    pub(crate) async fn rest(&self, since: Option<Instant>) {
        let clock = self.platform.clock();
        if let Some(since) = since {
            self.bulk.worked(since, clock.now());
        }
        yield_now().await;
        self.bulk.wait_for_others(clock).await;
    }
}

/// Waits until the task is polled again.
async fn woken() {
    let mut is_later = false;
    poll_fn(|_| {
        if std::mem::replace(&mut is_later, true) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

#[cfg(test)]
mod tests;
