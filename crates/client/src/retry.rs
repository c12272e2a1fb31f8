//! When to try again: growing pauses with jitter, and how long altogether.
//!
//! Invariant: pure; the caller passes the time and the randomness.

use std::time::Duration;

use platform::clock::Instant;

/// The pauses between tries: they double from `first` up to `longest`, each a fifth shorter or
/// longer by chance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    tries: u32,
}

impl Backoff {
    /// Makes the pauses; none was taken.
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest: longest.max(first),
            tries: 0,
        }
    }

    /// Returns the pause before the next try.
    pub fn next(&mut self, random: u64) -> Duration {
        let pause = self.first.saturating_mul(1 << self.tries.min(20));
        self.tries = self.tries.saturating_add(1);
        jittered(pause.min(self.longest), random)
    }

    /// Returns how many pauses were taken.
    pub fn tries(&self) -> u32 {
        self.tries
    }

    /// Begins again, after a success.
    pub fn reset(&mut self) {
        self.tries = 0;
    }
}

/// Returns the pause, a fifth shorter or longer by chance.
fn jittered(pause: Duration, random: u64) -> Duration {
    let percent = 80 + u32::try_from(random % 41).unwrap_or(0);
    pause.saturating_mul(percent) / 100
}

/// Returns when the next try begins; `None` if it would begin after the deadline.
pub fn next_try(now: Instant, pause: Duration, deadline: Instant) -> Option<Instant> {
    let at = now.checked_add(pause)?;
    (at < deadline).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn pauses_double_to_a_bound_and_begin_anew() {
        let mut backoff = Backoff::new(100 * MS, 1000 * MS);
        // 20 of 41 is the middle: no jitter.
        let pauses: Vec<_> = (0..6).map(|_| backoff.next(20).as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1000, 1000]);
        assert_eq!(backoff.tries(), 6);
        backoff.reset();
        assert_eq!(backoff.next(0), 80 * MS);
        assert_eq!(backoff.next(40), 240 * MS);
    }

    #[test]
    fn nothing_overflows() {
        let mut backoff = Backoff::new(Duration::MAX, Duration::ZERO);
        for _ in 0..100 {
            assert!(backoff.next(u64::MAX) > Duration::from_hours(1));
        }
        let now = Instant::now();
        assert_eq!(next_try(now, Duration::MAX, now + MS), None);
    }

    #[test]
    fn no_try_begins_after_the_deadline() {
        let now = Instant::now();
        assert_eq!(next_try(now, 5 * MS, now + 6 * MS), Some(now + 5 * MS));
        assert_eq!(next_try(now, 5 * MS, now + 5 * MS), None);
    }
}
