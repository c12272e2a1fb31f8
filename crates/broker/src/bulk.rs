//! The share of a shard's thread that large requests have together.
//!
//! A shard is one thread. The cost of a request is bounded by its bytes, but a large one works for
//! many milliseconds in one piece: its body is decoded as a whole, for example. Several of them at
//! a time delay every other client of the shard by the sum of their pieces. So they take turns, and
//! after a piece that took some time the other requests have the thread for several times as long,
//! if there are other requests.
//!
//! Invariants: one large request of a shard works at a time; it holds the turn for one poll and the
//! wait before it, which is bounded, so none waits for another that waits for a disk or a client.
//! In a simulation, where work takes no time, only the turns remain. Requests of the controller
//! take none: they have the controller's turn, which others must not wait for. A Produce costs
//! little for each byte and must begin in the order of its connection, so it takes no turns; one of
//! very many batches leaves the others their share between its pieces. How long each request has
//! waited is counted when it ends, also if its client is gone before. Not here: loops over many
//! items (`rests.rs`); memory (`many.rs`).

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use platform::clock::{Clock, Instant};
use platform::task::yield_now;
use prometheus_client::metrics::histogram::Histogram;
use wire::kafka::Api;

use crate::many;
use crate::network::network;
use crate::queues::Queues;

/// A request of more bytes than this is large: to decode it may take a fraction of a millisecond.
const LARGE_BYTES: usize = 16 << 10;
/// How much longer than a large request the others have the thread.
const OTHERS: u32 = 3;
/// A piece that took less than this delays no other request.
const PIECE_MIN: Duration = Duration::from_micros(250);
/// A process that was stopped in a piece worked for no longer than this.
const PIECE_MAX: Duration = Duration::from_millis(50);
/// How often a request that waits looks whether there are others at all.
const LOOK: Duration = Duration::from_millis(5);

/// Returns true for a request that shares the thread with the other large ones.
///
/// A Fetch rests between its items, and a commit keeps its place among those of its group: they are
/// large from the size on from which they take a place among the requests about many things.
pub(crate) fn is_large(api: Api, frame_bytes: usize) -> bool {
    match api {
        Api::Produce => false,
        Api::Fetch | Api::OffsetCommit => frame_bytes > many::LARGE_BYTES,
        _ => frame_bytes > LARGE_BYTES,
    }
}

/// The turns of the large requests of a shard, of each network in its order.
pub(crate) struct Bulk {
    turns: Queues<IpAddr>,
    share: Cell<Option<OthersShare>>,
    /// Requests of other sizes, and calls of other shards, that came so far.
    others: Cell<u64>,
    /// How long requests have waited, in seconds.
    waits: Histogram,
}

/// The time that one request has waited, which is counted when it ends.
struct WaitTime<'a> {
    waits: &'a Histogram,
    clock: &'a Clock,
    time: Duration,
    /// Since when it waits, if it does now.
    since: Option<Instant>,
}

impl WaitTime<'_> {
    fn begin(&mut self) {
        self.since = Some(self.clock.now());
    }

    fn end(&mut self, now: Instant) {
        if let Some(since) = self.since.take() {
            let waited = now.saturating_duration_since(since);
            self.time = self.time.saturating_add(waited);
        }
    }
}

impl Drop for WaitTime<'_> {
    fn drop(&mut self) {
        self.end(self.clock.now());
        self.waits.observe(self.time.as_secs_f64());
    }
}

/// What the others have after a piece of work.
#[derive(Clone, Copy, PartialEq, Eq)]
struct OthersShare {
    until: Instant,
    /// How many others had come when the piece began.
    before: u64,
}

impl Bulk {
    /// Creates the turns of a shard; `waits` gets the seconds for which requests wait.
    pub(crate) fn new(waits: Histogram) -> Self {
        Self {
            turns: Queues::new(1),
            share: Cell::default(),
            others: Cell::default(),
            waits,
        }
    }

    /// Counts a request that is not large, or a call of another shard.
    pub(crate) fn note_other(&self) {
        self.others.set(self.others.get().wrapping_add(1));
    }

    /// Runs a large request of `peer`, whose polls take turns with those of the others.
    pub(crate) async fn paced<F: Future>(&self, clock: &Clock, peer: IpAddr, work: F) -> F::Output {
        let mut work = pin!(work);
        let line = self.turns.of(&network(peer));
        let mut waited = WaitTime {
            waits: &self.waits,
            clock,
            time: Duration::ZERO,
            since: None,
        };
        loop {
            waited.begin();
            let turn = self.turns.turn(&line).await;
            self.wait_for_others(clock).await;
            let piece = self.begin(clock);
            waited.end(piece.since);
            let polled = poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await;
            self.worked(piece, clock);
            drop(turn);
            match polled {
                Poll::Ready(output) => return output,
                Poll::Pending => woken().await,
            }
        }
    }

    /// Begins a piece of work.
    pub(crate) fn begin(&self, clock: &Clock) -> Piece {
        Piece {
            since: clock.now(),
            before: self.others.get(),
        }
    }

    /// Rests in a long request that may not wait for its turn, after a piece of its work.
    pub(crate) async fn rest(&self, clock: &Clock, piece: Option<Piece>) {
        if let Some(piece) = piece {
            self.worked(piece, clock);
        }
        yield_now().await;
        self.wait_for_others(clock).await;
    }

    fn worked(&self, Piece { since, before }: Piece, clock: &Clock) {
        let now = clock.now();
        self.give(before, now.saturating_duration_since(since), now);
    }

    /// Gives the thread to the others for a multiple of the time of a piece of work.
    fn give(&self, before: u64, spent: Duration, now: Instant) {
        if spent >= PIECE_MIN {
            let until = now.checked_add(spent.min(PIECE_MAX) * OTHERS);
            self.share
                .set(until.map(|until| OthersShare { until, before }));
        }
    }

    /// Waits until the others have had their share of the last piece, or until there are none.
    ///
    /// Later pieces do not prolong it, so that every request that waits goes on.
    async fn wait_for_others(&self, clock: &Clock) {
        let Some(share) = self.share.get() else {
            return;
        };
        // Sockets, disks and shards tell now who came during the piece.
        yield_now().await;
        let mut before = share.before;
        loop {
            let left = share.until.saturating_duration_since(clock.now());
            let come = self.others.get();
            if left.is_zero() || come == before {
                break;
            }
            before = come;
            clock.sleep(left.min(LOOK)).await;
        }
        if self.share.get() == Some(share) {
            self.share.set(None);
        }
    }
}

/// A piece of work that has begun.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    since: Instant,
    before: u64,
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
