//! How long to wait before the next try: twice as long after each failure, up to a bound.
//!
//! Pure, and without chance: what waits here asks one broker for one thing of its own.

use std::time::Duration;

use platform::clock::Instant;

/// The pauses between tries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pauses {
    first: Duration,
    max: Duration,
}

impl Pauses {
    pub(crate) fn new(first: Duration, max: Duration) -> Self {
        Self { first, max }
    }

    /// Returns the time of the next try after `failures` failures in a row.
    pub(crate) fn next(self, failures: u32, now: Instant) -> Instant {
        let doublings = failures.saturating_sub(1).min(20);
        let pause = self.first.saturating_mul(1 << doublings).min(self.max);
        later(now, pause)
    }
}

/// Returns the time after a pause; a pause without end is a day.
pub(crate) fn later(now: Instant, pause: Duration) -> Instant {
    let day = Duration::from_hours(24);
    now.checked_add(pause).unwrap_or_else(|| now + day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound() {
        let (first, max) = (Duration::from_millis(100), Duration::from_secs(1));
        let pauses = Pauses::new(first, max);
        let now = Instant::now();
        let waited =
            [0, 1, 2, 3, 4, 5, u32::MAX].map(|tries| (pauses.next(tries, now) - now).as_millis());
        assert_eq!(waited, [100, 100, 200, 400, 800, 1000, 1000]);
        assert!(later(now, Duration::MAX) > now);
    }
}
