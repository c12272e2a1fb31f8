//! The connections of the admin endpoint: a bounded number at a time, none of them for long.
//!
//! A client has [`EXCHANGE_MAX`] to send its request and [`EXCHANGE_MAX`] to take the response; the
//! time to compute the response does not count. When all places are taken, a new connection
//! replaces the oldest one that has not sent its request yet or does not take its response, else
//! the oldest of all. So a client that holds connections open cannot keep a probe from being
//! answered. Invariant: at most `places_max` connections are served at a time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// Longest time for a request to arrive, and for a response to be taken.
pub(super) const EXCHANGE_MAX: Duration = Duration::from_secs(10);

/// The state of one exchange, which its handler sets and [`Places`] reads.
#[derive(Clone, Default, Debug)]
pub(super) struct Exchange {
    shared: Arc<AnsweringSignal>,
}

#[derive(Default, Debug)]
struct AnsweringSignal {
    /// The broker has to act next, not the client.
    answering: AtomicBool,
    changed: Notify,
}

impl Exchange {
    /// Records that the request has arrived: from now on the client waits for the broker.
    pub(super) fn asked(&self) {
        self.turn(true);
    }

    /// Records that the response is ready: from now on the client has to take it.
    pub(super) fn answered(&self) {
        self.turn(false);
    }

    fn turn(&self, answering: bool) {
        self.shared.answering.store(answering, Ordering::Release);
        self.shared.changed.notify_one();
    }

    fn is_answering(&self) -> bool {
        self.shared.answering.load(Ordering::Acquire)
    }

    /// Completes when the client has taken too long.
    pub(super) async fn overdue(&self) {
        loop {
            let changed = self.shared.changed.notified();
            if self.is_answering() {
                changed.await;
            } else if timeout(EXCHANGE_MAX, changed).await.is_err() {
                return;
            }
        }
    }
}

/// The connections that are served.
#[derive(Debug)]
pub(super) struct Places {
    /// Oldest first.
    // Bounded: `admin::CONNECTIONS_MAX`.
    taken: VecDeque<(AbortHandle, Exchange)>,
    places_max: usize,
}

impl Places {
    pub(super) fn new(places_max: usize) -> Self {
        Self {
            taken: VecDeque::new(),
            places_max,
        }
    }

    /// Gives a place to a connection, by ending another one if none is free.
    pub(super) fn give(&mut self, connection: AbortHandle, exchange: Exchange) {
        self.taken.retain(|(handle, _)| !handle.is_finished());
        if self.taken.len() >= self.places_max {
            let waits = |(_, exchange): &(_, Exchange)| !exchange.is_answering();
            let at = self.taken.iter().position(waits).unwrap_or(0);
            if let Some((oldest, _)) = self.taken.remove(at) {
                oldest.abort();
            }
        }
        self.taken.push_back((connection, exchange));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().start_paused(true).build().unwrap()
    }

    #[test]
    fn the_newest_takes_the_place_of_the_oldest_that_is_not_being_answered() {
        runtime().block_on(async {
            let mut places = Places::new(2);
            let mut tasks = Vec::new();
            for answering in [true, false, false] {
                let exchange = Exchange::default();
                if answering {
                    exchange.asked();
                }
                let task = tokio::spawn(std::future::pending::<()>());
                places.give(task.abort_handle(), exchange);
                tasks.push(task);
            }
            assert!((&mut tasks[1]).await.unwrap_err().is_cancelled());
            assert!(!tasks[0].is_finished() && !tasks[2].is_finished());
        });
    }

    #[test]
    fn a_client_has_time_to_ask_and_to_take_the_answer_and_we_have_as_long_as_it_takes() {
        runtime().block_on(async {
            let exchange = Exchange::default();
            let begin = tokio::time::Instant::now();
            let ours = exchange.clone();
            tokio::spawn(async move {
                tokio::time::sleep(EXCHANGE_MAX / 2).await;
                ours.asked();
                tokio::time::sleep(10 * EXCHANGE_MAX).await;
                ours.answered();
            });
            exchange.overdue().await;
            assert_eq!(begin.elapsed(), EXCHANGE_MAX / 2 + 11 * EXCHANGE_MAX);
        });
    }
}
