//! The time that a request takes of the thread that serves its connection, and of threads beside
//! it that decode and encode.
//!
//! Every poll of the request so far counts; waiting does not. Work of other shards for the request
//! does not count.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use platform::clock::{Clock, Instant};

/// The time that one request has taken; `None` when it is not measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestTime(Option<Rc<BusyTime>>);

#[derive(Debug)]
struct BusyTime {
    clock: Clock,
    spent: Cell<Duration>,
    since: Cell<Option<Instant>>,
}

impl RequestTime {
    /// Measures the time from now on.
    pub(crate) fn with(clock: Clock) -> Self {
        Self(Some(Rc::new(BusyTime {
            clock,
            spent: Cell::default(),
            since: Cell::default(),
        })))
    }

    /// Counts what another thread spent on the request.
    pub(crate) fn add(&self, taken: Duration) {
        if let Some(busy) = &self.0 {
            busy.spent.set(busy.spent.get().saturating_add(taken));
        }
    }

    /// Returns the time in hundredths of a second of one thread.
    pub(crate) fn percent(&self) -> f64 {
        let Some(taken) = &self.0 else {
            return 0.0;
        };
        let running = taken.since.get().map_or(Duration::ZERO, |since| {
            taken.clock.now().saturating_duration_since(since)
        });
        (taken.spent.get() + running).as_secs_f64() * 100.0
    }
}

/// Runs the future and measures its time.
pub(crate) async fn timed<F: Future + Unpin>(busy: &RequestTime, mut future: F) -> F::Output {
    let Some(taken) = &busy.0 else {
        return future.await;
    };
    poll_fn(|context| {
        assert!(
            taken.since.get().is_none(),
            "a request is polled once at a time"
        );
        let since = taken.clock.now();
        taken.since.set(Some(since));
        let polled = Pin::new(&mut future).poll(context);
        taken.since.set(None);
        let spent = taken.clock.now().saturating_duration_since(since);
        taken.spent.set(taken.spent.get() + spent);
        polled
    })
    .await
}

#[cfg(test)]
mod tests {
    use platform::runtime::run_simulated;
    use platform::task::yield_now;

    use super::*;

    #[test]
    fn what_threads_beside_spend_on_a_request_counts_like_its_own_polls() {
        run_simulated(async {
            let busy = RequestTime::with(Clock::starting_at(0));
            let work = Box::pin(async {
                yield_now().await;
                busy.add(Duration::from_millis(20));
                yield_now().await;
                busy.add(Duration::from_millis(5));
            });
            timed(&busy, work).await;
            assert!((busy.percent() - 2.5).abs() < 1e-9, "{}", busy.percent());
            let unmeasured = RequestTime::default();
            unmeasured.add(Duration::from_millis(20));
            assert!(unmeasured.percent() == 0.0);
        })
        .unwrap();
    }
}
