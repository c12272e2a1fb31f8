//! The state that all tasks of one generator thread share: the load, the clock, the counters, and
//! the phase of the run.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::{mpsc, watch};

use super::cluster::Cluster;
use super::hook::PartitionPlace;
use super::tally::Tally;
use crate::spec::Load;

/// A clock of seconds since the load began, with the wall-clock time of the start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    start: Instant,
    wall_ms: f64,
}

impl Clock {
    /// Creates a clock that starts at a time, possibly in the future.
    pub(super) fn starting_at(start: SystemTime) -> Self {
        let (now, wall) = (Instant::now(), SystemTime::now());
        let since_epoch = start.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            start: match start.duration_since(wall) {
                Ok(ahead) => now + ahead,
                Err(_passed) => now,
            },
            wall_ms: since_epoch.as_secs_f64() * 1e3,
        }
    }

    /// Returns the seconds since the start, negative before it.
    pub(super) fn now(&self) -> f64 {
        let now = Instant::now();
        match now.checked_duration_since(self.start) {
            Some(since) => since.as_secs_f64(),
            None => -(self.start - now).as_secs_f64(),
        }
    }

    /// Returns a time in milliseconds since 1970.
    pub(super) fn wall_ms(&self, time: f64) -> f64 {
        self.wall_ms + time * 1e3
    }

    /// Returns how long it is until a time.
    pub(super) fn until(&self, time: f64) -> Duration {
        Duration::try_from_secs_f64(time - self.now()).unwrap_or_default()
    }
}

/// The phase of the run; set by the conductor, read by every task.
#[derive(Clone, Debug, Default)]
pub(super) struct Phase {
    /// Set when the load begins.
    pub(super) clock: Option<Clock>,
    /// Nothing more is sent.
    pub(super) produced: bool,
    /// Consumers end once they have reached these offsets.
    pub(super) read_to: Option<Arc<BTreeMap<PartitionPlace, i64>>>,
    /// All tasks end.
    pub(super) over: bool,
}

/// The state that all threads share.
#[derive(Debug)]
pub(super) struct SharedBudgets {
    /// Bytes of records that may still be sent.
    pub(super) budget: AtomicU64,
    /// Bytes of consumed records.
    pub(super) read_bytes: AtomicU64,
    /// Bytes of records after which consumers end.
    pub(super) read_bytes_max: u64,
    /// Consumed records, to detect consumers without progress.
    pub(super) read_records: AtomicU64,
}

impl SharedBudgets {
    /// Takes at most `count` records of `each` bytes from the budget, and returns their number.
    pub(super) fn claim(&self, count: u32, each: u64) -> u32 {
        let mut granted = 0;
        let take = |left: u64| {
            granted = u64::from(count).min(left.checked_div(each).unwrap_or(u64::MAX));
            Some(left - granted * each)
        };
        // Cannot fail: the closure always returns a value.
        let _ = self
            .budget
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        granted as u32
    }

    /// Counts consumed records and bytes.
    pub(super) fn add_read(&self, records: u64, bytes: u64) {
        self.read_records.fetch_add(records, Ordering::Relaxed);
        self.read_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns whether consumers have read their limit.
    pub(super) fn read_enough(&self) -> bool {
        self.read_bytes.load(Ordering::Relaxed) >= self.read_bytes_max
    }
}

/// A message from a task to the conductor.
#[derive(Debug)]
pub(super) enum Event {
    /// A producer or consumer has connected, or failed to.
    Ready(anyhow::Result<()>),
    /// A producer has ended.
    ProducerDone,
    /// A consumer has ended.
    ConsumerDone,
}

/// The state that all tasks of one thread share.
pub(super) struct Worker {
    pub(super) load: Arc<Load>,
    /// Address for cluster metadata.
    pub(super) bootstrap: String,
    /// The cluster when the load started.
    pub(super) cluster: Cluster,
    pub(super) shared: Arc<SharedBudgets>,
    pub(super) phase: watch::Receiver<Phase>,
    pub(super) events: mpsc::UnboundedSender<Event>,
    pub(super) tally: RefCell<Tally>,
    /// Set when the load begins.
    pub(super) clock: Cell<Clock>,
}

impl Worker {
    /// Returns the seconds since the load began.
    pub(super) fn now(&self) -> f64 {
        self.clock.get().now()
    }

    /// Looks the topics up again.
    pub(super) async fn look_again(&self) -> anyhow::Result<Cluster> {
        let Cluster {
            security, topics, ..
        } = &self.cluster;
        Cluster::look_once(&self.bootstrap, security, topics).await
    }

    /// Returns when producers end.
    pub(super) fn end(&self) -> f64 {
        self.load.warmup_seconds + self.load.seconds
    }

    /// Returns whether nothing more is sent.
    pub(super) fn is_produced(&self) -> bool {
        let phase = self.phase.borrow();
        phase.produced || phase.over
    }

    /// Returns whether all tasks end.
    pub(super) fn is_over(&self) -> bool {
        self.phase.borrow().over
    }

    /// Waits until all tasks end.
    pub(super) async fn over(&self) {
        // Fails only if the sender is gone, which also ends the tasks.
        let _ = self.phase.clone().wait_for(|phase| phase.over).await;
    }

    /// Reports that a task is connected and waits for the load to begin; returns false if it never
    /// will.
    pub(super) async fn begin(&self, ready: anyhow::Result<()>) -> bool {
        let failed = ready.is_err();
        // Without a receiver the load has ended.
        let _ = self.events.send(Event::Ready(ready));
        let mut phase = self.phase.clone();
        let begun = phase
            .wait_for(|phase| phase.clock.is_some() || phase.over)
            .await;
        let Ok(clock) = begun.map(|phase| phase.clock) else {
            return false;
        };
        let Some(clock) = clock.filter(|_| !failed) else {
            return false;
        };
        self.clock.set(clock);
        tokio::time::sleep(clock.until(0.0)).await;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_spent_in_whole_records_and_never_overdrawn() {
        let shared = SharedBudgets {
            budget: 1050.into(),
            read_bytes: 0.into(),
            read_bytes_max: 0,
            read_records: 0.into(),
        };
        assert_eq!(shared.claim(7, 100), 7);
        assert_eq!(shared.claim(7, 100), 3);
        assert_eq!(shared.claim(7, 100), 0);
        assert_eq!(shared.claim(7, 50), 1);
        assert_eq!(shared.claim(7, 0), 7);
    }
}
