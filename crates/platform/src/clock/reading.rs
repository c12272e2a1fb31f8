//! What the wall clock shows, and what it would show had it not been set: two readings to judge the age of a date by.
//!
//! A wall clock that jumps makes everything old, or nothing. While it is not known which of the two times is right
//! ([`super::steps`]), a date is taken for one of the time that it is nearer to, and its age is counted in that time: what
//! was dated before the jump ages as if there had been none, and so does what is dated after it. Pure.

/// Both times, in milliseconds since the Unix epoch. They are the same while the clock runs steadily.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reading {
    /// What the wall clock shows.
    pub wall_ms: i64,
    /// What it would show without the step that is not believed yet.
    pub steady_ms: i64,
}

impl From<i64> for Reading {
    /// A wall clock that runs steadily.
    fn from(wall_ms: i64) -> Self {
        Self {
            wall_ms,
            steady_ms: wall_ms,
        }
    }
}

impl Reading {
    /// How long ago a date was, in milliseconds; negative for one in the future.
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

    /// The earlier of the two: what has come by either of them.
    pub fn earliest_ms(self) -> i64 {
        self.wall_ms.min(self.steady_ms)
    }

    /// The later of the two, for dates until which something is kept.
    pub fn latest_ms(self) -> i64 {
        self.wall_ms.max(self.steady_ms)
    }

    /// By how much the wall clock was set and not believed yet; positive: ahead.
    pub fn step_ms(self) -> i64 {
        self.wall_ms.saturating_sub(self.steady_ms)
    }
}
