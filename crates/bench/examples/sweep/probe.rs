//! Other clients meanwhile: some connections that ask for metadata all the time, and the longest that one had to wait.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use wire::kafka::Api;

use crate::make::{self, Aim};
use crate::wire_up::Connection;
use crate::words::Words;

/// Enough that every shard has one or the other.
const CONNECTIONS: usize = 6;
const PAUSE: Duration = Duration::from_millis(4);

/// What one of them has seen, in microseconds since the beginning.
#[derive(Default)]
struct Seen {
    /// When the question was asked that has no answer yet; 0 if there is none.
    asked: AtomicU64,
    /// The longest that an answer took since it was looked at.
    worst: AtomicU64,
}

pub(crate) struct Probes {
    begun: Instant,
    seen: Arc<Vec<Seen>>,
    ending: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Probes {
    pub(crate) fn start(address: SocketAddr) -> Self {
        let begun = Instant::now();
        let seen = Arc::new(
            (0..CONNECTIONS)
                .map(|_| Seen::default())
                .collect::<Vec<_>>(),
        );
        let ending = Arc::new(AtomicBool::new(false));
        let threads = (0..CONNECTIONS)
            .map(|number| {
                let (seen, ending) = (Arc::clone(&seen), Arc::clone(&ending));
                thread::spawn(move || {
                    while !ending.load(Ordering::Relaxed) {
                        ask(address, begun, &seen[number], &ending);
                    }
                })
            })
            .collect();
        Self {
            begun,
            seen,
            ending,
            threads,
        }
    }

    /// The longest that anybody has waited since the last look, or waits now.
    pub(crate) fn worst(&self) -> Duration {
        let now = micros(self.begun);
        let worst = self.seen.iter().map(|seen| {
            let asked = seen.asked.load(Ordering::Relaxed);
            let waits = if asked == 0 {
                0
            } else {
                now.saturating_sub(asked)
            };
            waits.max(seen.worst.swap(0, Ordering::Relaxed))
        });
        Duration::from_micros(worst.max().unwrap_or(0))
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

/// Asks on one connection until it breaks or the end; a broken one counts for as long as its question had no answer.
fn ask(address: SocketAddr, begun: Instant, seen: &Seen, ending: &AtomicBool) {
    seen.asked.fetch_max(micros(begun), Ordering::Relaxed);
    let Ok(mut connection) = Connection::open(address) else {
        thread::sleep(PAUSE);
        return;
    };
    let body = make::body(Api::Metadata, 9, &Aim::Plain, &Words::stranger(0));
    let frame = make::frame(Api::Metadata, 9, 1, &body);
    while !ending.load(Ordering::Relaxed) {
        // A question that a broken connection left open goes on.
        if seen.asked.load(Ordering::Relaxed) == 0 {
            seen.asked.store(micros(begun), Ordering::Relaxed);
        }
        if connection.send(&frame).is_err() || connection.receive().is_err() {
            return;
        }
        let asked = seen.asked.swap(0, Ordering::Relaxed);
        let took = micros(begun).saturating_sub(asked);
        seen.worst.fetch_max(took, Ordering::Relaxed);
        thread::sleep(PAUSE);
    }
}
