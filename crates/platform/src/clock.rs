//! Time: a monotonic clock for deadlines and a wall clock for what is written to disk.
//!
//! Deadlines follow tokio's clock, so a paused runtime is a simulated clock. The wall clock of a
//! machine is read afresh each time (the operating system may step or slew it); the simulated one
//! follows the monotonic clock. Either can be made to jump. Invariant: nothing outside this crate
//! reads the operating system's time.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use tokio::time::Instant;

/// A handle to the clocks of one shard; clones share it.
#[derive(Clone, Debug)]
pub struct Clock {
    wall: Wall,
    /// By how much the wall clock was made to jump.
    jumped_ms: Rc<Cell<i64>>,
}

/// Where wall time comes from.
#[derive(Clone, Copy, Debug)]
enum Wall {
    System,
    Simulated { started: Instant, ms: i64 },
}

impl Clock {
    /// The clocks of this machine.
    pub fn system() -> Self {
        Self::of(Wall::System)
    }

    /// Clocks that show `wall_ms` now (simulation).
    pub fn starting_at(wall_ms: i64) -> Self {
        Self::of(Wall::Simulated {
            started: Instant::now(),
            ms: wall_ms,
        })
    }

    fn of(wall: Wall) -> Self {
        Self {
            wall,
            jumped_ms: Rc::default(),
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
}
