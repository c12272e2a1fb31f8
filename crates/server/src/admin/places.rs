//! The connections of the admin endpoint: so many at a time, and none for long.
//!
//! A client has [`EXCHANGE_MAX`] to send its request and as long again to take its answer; what lies between is ours. When
//! all places are taken, the newest gets one: of those who have not asked yet, or do not take their answer, the oldest is cut
//! off, else the oldest of all. So nobody keeps a probe from being answered by holding connections.
//! Invariant: no more than `places_max` connections are served at a time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// Longest time for a request to come, and for an answer to be taken.
pub(super) const EXCHANGE_MAX: Duration = Duration::from_secs(10);

/// What a connection is at, as its handler says and whoever gives places sees.
#[derive(Clone, Default, Debug)]
pub(super) struct Exchange {
    shared: Arc<Shared>,
}

#[derive(Default, Debug)]
struct Shared {
    /// The next step is ours.
    answering: AtomicBool,
    changed: Notify,
}

impl Exchange {
    /// The request is there: from now on we are waited for.
    pub(super) fn asked(&self) {
        self.turn(true);
    }

    /// The answer is there: from now on it is to be taken.
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

/// Who is served.
#[derive(Debug)]
pub(super) struct Places {
    /// The oldest first.
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

    /// Gives a place to a connection, if need be that of another.
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
