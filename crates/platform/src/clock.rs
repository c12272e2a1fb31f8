//! Time: a monotonic clock for deadlines and a wall clock for what is written to disk.
//!
//! Deadlines follow tokio's clock, so a paused runtime is a simulated clock. The machine's wall
//! clock is read at each call (the operating system may step or slew it); the simulated one follows
//! the monotonic clock. Either can be made to jump. Invariant: nothing outside this crate reads the
//! operating system's time.
//!
//! Append times are plain wall-clock times. Deletion by age uses a [`Reading`], which distrusts a
//! clock that was just set ([`steps`]). The process has one wall clock, so all its shards share the
//! trusted difference, and each reading checks whether the clocks still agree.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use reading::Reading;
pub use tokio::time::Instant;

mod reading;
pub mod steps;

/// A handle to the clocks of one shard; clones share it.
#[derive(Clone, Debug)]
pub struct Clock {
    wall: Wall,
    /// The sum of the jumps of the wall clock.
    jumped_ms: Rc<Cell<i64>>,
    believed: Arc<TrustedDifference>,
}

/// The trusted difference between the wall clock and the monotonic clock.
#[derive(Debug)]
struct TrustedDifference {
    /// Zero of the monotonic clock.
    since: Instant,
    line_ms: AtomicI64,
    /// Differences up to this are not a step.
    threshold_ms: AtomicI64,
}

impl TrustedDifference {
    /// Trusts whatever the wall clock shows.
    fn anything() -> Arc<Self> {
        Arc::new(Self {
            since: Instant::now(),
            line_ms: AtomicI64::new(0),
            threshold_ms: AtomicI64::new(i64::MAX),
        })
    }
}

/// The trusted difference of the process.
static BELIEVED: LazyLock<Arc<TrustedDifference>> = LazyLock::new(TrustedDifference::anything);

/// Source of wall time.
#[derive(Clone, Copy, Debug)]
enum Wall {
    System,
    Simulated { started: Instant, ms: i64 },
}

impl Clock {
    /// Returns the clocks of this machine.
    pub fn system() -> Self {
        Self::of(Wall::System, Arc::clone(&BELIEVED))
    }

    /// Returns clocks that show `wall_ms` now (simulation).
    pub fn starting_at(wall_ms: i64) -> Self {
        let wall = Wall::Simulated {
            started: Instant::now(),
            ms: wall_ms,
        };
        Self::of(wall, TrustedDifference::anything())
    }

    fn of(wall: Wall, believed: Arc<TrustedDifference>) -> Self {
        Self {
            wall,
            jumped_ms: Rc::default(),
            believed,
        }
    }

    /// Returns monotonic time, for deadlines.
    pub fn now(&self) -> Instant {
        Instant::now()
    }

    /// Returns the time after `wait`; an overflowing `wait` counts as zero.
    pub fn after(&self, wait: Duration) -> Instant {
        let now = self.now();
        now.checked_add(wait).unwrap_or(now)
    }

    /// Returns wall-clock milliseconds since the Unix epoch, for timestamps and retention.
    pub fn wall_ms(&self) -> i64 {
        let ms = match self.wall {
            Wall::System => millis(
                SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .unwrap_or_default(),
            ),
            Wall::Simulated { started, ms } => ms.saturating_add(millis(started.elapsed())),
        };
        ms.saturating_add(self.jumped_ms.get())
    }

    /// Returns monotonic milliseconds since the process (or the simulation) began.
    pub fn up_ms(&self) -> i64 {
        millis(self.believed.since.elapsed())
    }

    /// Returns the wall clock for judging ages, together with its value without an untrusted step.
    pub fn reading(&self) -> Reading {
        let wall_ms = self.wall_ms();
        let line_ms = self.believed.line_ms.load(Ordering::Relaxed);
        let steady_ms = self.up_ms().saturating_add(line_ms);
        let apart_ms = wall_ms.saturating_sub(steady_ms).unsigned_abs();
        let threshold_ms = self.believed.threshold_ms.load(Ordering::Relaxed);
        if apart_ms <= threshold_ms.unsigned_abs() {
            return wall_ms.into();
        }
        Reading { wall_ms, steady_ms }
    }

    /// Sets the trusted value of the wall clock minus [`Clock::up_ms`], and the allowed deviation
    /// from it.
    pub fn believe(&self, line_ms: i64, threshold_ms: i64) {
        self.believed.line_ms.store(line_ms, Ordering::Relaxed);
        let threshold_ms = threshold_ms.max(0);
        self.believed
            .threshold_ms
            .store(threshold_ms, Ordering::Relaxed);
    }

    /// Moves the wall clock (simulation of a clock jump).
    pub fn jump_ms(&self, by: i64) {
        self.jumped_ms.set(self.jumped_ms.get().saturating_add(by));
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

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn simulated_wall_time_follows_the_paused_clock_and_jumps() {
        let clock = Clock::starting_at(1_000);
        let other = clock.clone();
        clock.sleep(Duration::from_secs(5)).await;
        assert_eq!(clock.wall_ms(), 6_000);
        other.jump_ms(-2_500);
        assert_eq!(clock.wall_ms(), 3_500);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reading_sees_a_step_at_once_and_all_of_a_process_see_the_same() {
        let clock = Clock::starting_at(1_000_000);
        let other = clock.clone();
        assert_eq!(clock.reading(), 1_000_000.into());
        clock.believe(1_000_000, 1000);
        clock.sleep(Duration::from_millis(500)).await;
        clock.jump_ms(900);
        assert_eq!(other.reading(), 1_001_400.into());
        clock.jump_ms(200);
        let apart = Reading {
            wall_ms: 1_001_600,
            steady_ms: 1_000_500,
        };
        assert_eq!(other.reading(), apart);
        assert_eq!(apart.age_ms(1_000_000), 500);
        assert_eq!(apart.age_ms(1_001_600), 0);
    }
}
