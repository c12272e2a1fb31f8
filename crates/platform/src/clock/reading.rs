//! The wall clock's time and the time that it would show without a step: two readings for judging
//! ages.
//!
//! A wall clock that jumps makes everything old, or nothing. While it is unknown which of the two
//! times is right ([`super::steps`]), a date is assigned to the nearer one, and its age is counted
//! from that one. Dates from before the jump then age as if there had been no jump, and so do dates
//! from after it. Pure.

/// Both times, in milliseconds since the Unix epoch; they are equal while the clock runs steadily.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reading {
    /// The wall clock.
    pub wall_ms: i64,
    /// The wall clock without the untrusted step.
    pub steady_ms: i64,
}

impl From<i64> for Reading {
    /// Creates the reading of a wall clock that runs steadily.
    fn from(wall_ms: i64) -> Self {
        Self {
            wall_ms,
            steady_ms: wall_ms,
        }
    }
}

impl Reading {
    /// Returns the age of a date in milliseconds; negative for a date in the future.
    pub fn age_ms(self, dated_ms: i64) -> i64 {
        let (wall, steady) = (
            self.wall_ms.saturating_sub(dated_ms),
            self.steady_ms.saturating_sub(dated_ms),
        );
        if wall.unsigned_abs() < steady.unsigned_abs() {
            wall
        } else {
            steady
        }
    }

    /// Returns the earlier of the two: a time that has passed by both clocks.
    pub fn earliest_ms(self) -> i64 {
        self.wall_ms.min(self.steady_ms)
    }

    /// Returns the later of the two, for dates until which something is kept.
    pub fn latest_ms(self) -> i64 {
        self.wall_ms.max(self.steady_ms)
    }

    /// Returns the untrusted step of the wall clock; positive when it is ahead.
    pub fn step_ms(self) -> i64 {
        self.wall_ms.saturating_sub(self.steady_ms)
    }
}
