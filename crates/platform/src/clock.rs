//! Time: a monotonic clock for deadlines and a wall clock for what is written to disk.
//!
//! Both follow tokio's clock, so a paused runtime is a simulated clock; the wall clock can be made to jump.
//! Invariant: nothing outside this crate reads the operating system's time.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use tokio::time::Instant;

/// A handle to the clocks of one shard; clones share it.
#[derive(Clone, Debug)]
pub struct Clock {
    started: Instant,
    wall_ms_at_start: Rc<Cell<i64>>,
}

impl Clock {
    /// The clocks of this machine. Must be made inside a tokio runtime.
    pub fn system() -> Self {
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self::starting_at(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    }

    /// Clocks that show `wall_ms` now (simulation).
    pub fn starting_at(wall_ms: i64) -> Self {
        Self {
            started: Instant::now(),
            wall_ms_at_start: Rc::new(Cell::new(wall_ms)),
        }
    }

    /// Monotonic time, for deadlines.
    pub fn now(&self) -> Instant {
        Instant::now()
    }

    /// Wall-clock milliseconds since the Unix epoch, for timestamps and retention.
    pub fn wall_ms(&self) -> i64 {
        let elapsed = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        self.wall_ms_at_start.get().saturating_add(elapsed)
    }

    /// Moves the wall clock (simulation of a clock jump).
    pub fn jump_ms(&self, by: i64) {
        self.wall_ms_at_start
            .set(self.wall_ms_at_start.get().saturating_add(by));
    }

    /// Completes after `duration`.
    pub async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    /// Completes at `deadline`.
    pub async fn sleep_until(&self, deadline: Instant) {
        tokio::time::sleep_until(deadline).await;
    }
}
