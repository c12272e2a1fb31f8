//! Time: a monotonic clock for deadlines and a wall clock for what is written to disk.
//!
//! Deadlines follow tokio's clock, so a paused runtime is a simulated clock. The wall clock of a
//! machine is read afresh each time (the operating system may step or slew it); the simulated one
//! follows the monotonic clock. Either can be made to jump. Invariant: nothing outside this crate
//! reads the operating system's time.
//!
//! What was appended when is told by the wall clock as it is. What is deleted for its age is judged by a
//! [`Reading`], which does not believe a clock that was just set ([`steps`]): the process has one wall clock, so all
//! its shards share what is believed of it, and each reading looks for itself whether the clocks still agree.

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
    /// By how much the wall clock was made to jump.
    jumped_ms: Rc<Cell<i64>>,
    believed: Arc<Believed>,
}

/// How wall and monotonic clock are believed to differ.
#[derive(Debug)]
struct Believed {
    /// Where the monotonic clock is zero.
    since: Instant,
    line_ms: AtomicI64,
    /// Differences up to this are no step.
    threshold_ms: AtomicI64,
}

impl Believed {
    /// Whatever the wall clock shows.
    fn anything() -> Arc<Self> {
        Arc::new(Self {
            since: Instant::now(),
            line_ms: AtomicI64::new(0),
            threshold_ms: AtomicI64::new(i64::MAX),
        })
    }
}

/// That of the process.
static BELIEVED: LazyLock<Arc<Believed>> = LazyLock::new(Believed::anything);

/// Where wall time comes from.
#[derive(Clone, Copy, Debug)]
enum Wall {
    System,
    Simulated { started: Instant, ms: i64 },
}

impl Clock {
    /// The clocks of this machine.
    pub fn system() -> Self {
        Self::of(Wall::System, Arc::clone(&BELIEVED))
    }

    /// Clocks that show `wall_ms` now (simulation).
    pub fn starting_at(wall_ms: i64) -> Self {
        let wall = Wall::Simulated {
            started: Instant::now(),
            ms: wall_ms,
        };
        Self::of(wall, Believed::anything())
    }

    fn of(wall: Wall, believed: Arc<Believed>) -> Self {
        Self {
            wall,
            jumped_ms: Rc::default(),
            believed,
        }
    }

    /// Monotonic time, for deadlines.
    pub fn now(&self) -> Instant {
        Instant::now()
    }

    /// When `wait` will be over; a wait that no clock can hold is none.
    pub fn after(&self, wait: Duration) -> Instant {
        let now = self.now();
        now.checked_add(wait).unwrap_or(now)
    }

    /// Wall-clock milliseconds since the Unix epoch, for timestamps and retention.
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

    /// Monotonic milliseconds since the process (or the simulation) began.
    pub fn up_ms(&self) -> i64 {
        millis(self.believed.since.elapsed())
    }

    /// The wall clock, for judging ages: also as it would be without a step that is not believed.
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

    /// Says what is believed from now on: the wall clock less [`Clock::up_ms`], and how far it may be from that.
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
