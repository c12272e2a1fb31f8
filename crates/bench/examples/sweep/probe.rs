//! Other clients meanwhile: some connections that ask for metadata all the time, and the longest
//! that one had to wait: by the wall, and by the work that its shard did before it answered. The
//! latter tells a slow broker from a busy machine.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use wire::kafka::Api;

use crate::make::{self, Aim};
use crate::process::Shards;
use crate::wire_up::Connection;
use crate::words::Words;

/// Enough that every shard has one or the other.
const CONNECTIONS: usize = 6;
const PAUSE: Duration = Duration::from_millis(4);
/// Questions by which a connection learns which shard answers it.
const ACQUAINTANCE: usize = 100;

/// How long a request waited.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct WaitTime {
    pub(crate) wall: Duration,
    /// What the shard did meanwhile; never more than `wall`, except for inexact measuring.
    pub(crate) work: Duration,
}

impl WaitTime {
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            wall: self.wall.max(other.wall),
            work: self.work.max(other.work),
        }
    }
}

/// What one of them has seen, in microseconds since the beginning.
#[derive(Default)]
struct ProbeState {
    /// When the question was asked that has no answer yet; 0 if there is none.
    asked: AtomicU64,
    /// How long every shard had been at work then.
    busy: Mutex<Vec<u64>>,
    /// Which shard answers; `usize::MAX` while it is unknown.
    home: AtomicU64,
    /// The longest that an answer took since it was looked at.
    worst: Mutex<WaitTime>,
}

impl ProbeState {
    /// What the shard that answers, or if it is not known the busiest, has done since the question.
    fn work(&self, busy: &[u64]) -> Duration {
        let asked = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let done = since(&asked, busy);
        let home = usize::try_from(self.home.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        let most = || done.iter().max().copied().unwrap_or(0);
        Duration::from_nanos(done.get(home).copied().unwrap_or_else(most))
    }

    fn ask(&self, begun: Instant, shards: &Shards) {
        let busy = shards.busy();
        *self.busy.lock().unwrap_or_else(PoisonError::into_inner) = busy;
        self.asked.store(micros(begun), Ordering::Relaxed);
    }

    fn note(&self, waited: WaitTime) {
        let mut worst = self.worst.lock().unwrap_or_else(PoisonError::into_inner);
        *worst = worst.max(waited);
    }
}

fn since(before: &[u64], after: &[u64]) -> Vec<u64> {
    let pairs = before.iter().zip(after);
    pairs
        .map(|(before, after)| after.saturating_sub(*before))
        .collect()
}

pub(crate) struct Probes {
    begun: Instant,
    seen: Arc<Vec<ProbeState>>,
    shards: Arc<Shards>,
    ending: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Probes {
    pub(crate) fn start(address: SocketAddr, shards: Shards) -> Self {
        let begun = Instant::now();
        let shards = Arc::new(shards);
        let seen = Arc::new(
            (0..CONNECTIONS)
                .map(|_| ProbeState::default())
                .collect::<Vec<_>>(),
        );
        let ending = Arc::new(AtomicBool::new(false));
        let threads = (0..CONNECTIONS)
            .map(|number| {
                let (seen, ending) = (Arc::clone(&seen), Arc::clone(&ending));
                let shards = Arc::clone(&shards);
                thread::spawn(move || {
                    while !ending.load(Ordering::Relaxed) {
                        probe(address, begun, (&seen[number], &shards), &ending);
                    }
                })
            })
            .collect();
        Self {
            begun,
            seen,
            shards,
            ending,
            threads,
        }
    }

    /// Returns the longest wait of a probe since the last look, or of one that still waits.
    pub(crate) fn worst(&self) -> WaitTime {
        let (now, busy) = (micros(self.begun), self.shards.busy());
        let worst = self.seen.iter().map(|seen| {
            let asked = seen.asked.load(Ordering::Relaxed);
            if asked != 0 {
                seen.note(WaitTime {
                    wall: Duration::from_micros(now.saturating_sub(asked)),
                    work: seen.work(&busy),
                });
            }
            let mut worst = seen.worst.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *worst)
        });
        worst.fold(WaitTime::default(), WaitTime::max)
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn micros(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_micros())
        .unwrap_or(u64::MAX)
        .max(1)
}

/// Asks on one connection until it breaks or the end; a broken one counts for as long as its
/// question had no answer.
fn probe(address: SocketAddr, begun: Instant, seen: (&ProbeState, &Shards), ending: &AtomicBool) {
    let (seen, shards) = seen;
    let is_open = || seen.asked.load(Ordering::Relaxed) != 0;
    if !is_open() {
        seen.ask(begun, shards);
    }
    seen.home.store(u64::MAX, Ordering::Relaxed);
    let Ok(mut connection) = Connection::open(address) else {
        thread::sleep(PAUSE);
        return;
    };
    let body = make::body(Api::Metadata, 9, &Aim::Plain, &Words::stranger(0));
    let frame = make::frame(Api::Metadata, 9, 1, &body);
    let mut ask = move || connection.send(&frame).and_then(|()| connection.receive());
    while !ending.load(Ordering::Relaxed) {
        // A question that a broken connection left open goes on.
        if !is_open() {
            seen.ask(begun, shards);
        }
        if ask().is_err() {
            return;
        }
        let work = seen.work(&shards.busy());
        let asked = seen.asked.swap(0, Ordering::Relaxed);
        let wall = Duration::from_micros(micros(begun).saturating_sub(asked));
        seen.note(WaitTime { wall, work });
        if seen.home.load(Ordering::Relaxed) == u64::MAX {
            let before = shards.busy();
            if (0..ACQUAINTANCE).any(|_| ask().is_err()) {
                return;
            }
            let done = since(&before, &shards.busy());
            let home = (0..done.len()).find(|&home| {
                let others = done.iter().enumerate().filter(|(other, _)| *other != home);
                others.map(|(_, other)| other * 2).sum::<u64>() < done[home]
            });
            let home = home.map_or(u64::MAX - 1, |home| home as u64);
            seen.home.store(home, Ordering::Relaxed);
        }
        thread::sleep(PAUSE);
    }
}
