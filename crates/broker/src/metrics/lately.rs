//! Durations that were measured lately: their mean and the longest of them, over the last half
//! minute to minute.
//!
//! Kafka shows such means and maxima. A duration is noted in the present window; after [`WINDOW`]
//! that window becomes the previous one, and the one before it is forgotten. Both together are
//! shown. If nothing was noted, mean and maximum are NaN, as in Kafka. Pure. Not here: counts since
//! the start, for which there are counters.

use std::time::Duration;

use platform::clock::Instant;

/// Length of a window.
const WINDOW: Duration = Duration::from_secs(30);

/// Number, sum and maximum of durations.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Durations {
    count: u32,
    sum: Duration,
    longest: Duration,
}

impl Durations {
    fn add(&mut self, one: Duration) {
        self.count = self.count.saturating_add(1);
        self.sum = self.sum.saturating_add(one);
        self.longest = self.longest.max(one);
    }

    /// Returns these durations and others together.
    pub(crate) fn and(self, others: Self) -> Self {
        Self {
            count: self.count.saturating_add(others.count),
            sum: self.sum.saturating_add(others.sum),
            longest: self.longest.max(others.longest),
        }
    }

    /// Returns the mean in milliseconds; NaN if there are none.
    pub(crate) fn mean_ms(self) -> f64 {
        self.sum.as_secs_f64() * 1000.0 / f64::from(self.count)
    }

    /// Returns the longest in milliseconds; NaN if there are none.
    pub(crate) fn longest_ms(self) -> f64 {
        if self.count == 0 {
            f64::NAN
        } else {
            self.longest.as_secs_f64() * 1000.0
        }
    }
}

/// Durations noted lately.
#[derive(Debug)]
pub(crate) struct RecentDurations {
    /// When the present window began.
    began: Instant,
    present: Durations,
    previous: Durations,
}

impl RecentDurations {
    /// Begins the first window.
    pub(crate) fn since(now: Instant) -> Self {
        Self {
            began: now,
            present: Durations::default(),
            previous: Durations::default(),
        }
    }

    /// Notes a duration that was measured at `now`.
    pub(crate) fn note(&mut self, one: Duration, now: Instant) {
        self.turn(now);
        self.present.add(one);
    }

    /// Returns the durations of the present and the previous window.
    pub(crate) fn noted(&mut self, now: Instant) -> Durations {
        self.turn(now);
        self.present.and(self.previous)
    }

    fn turn(&mut self, now: Instant) {
        let age = now.saturating_duration_since(self.began);
        if age < WINDOW {
            return;
        }
        let present = std::mem::take(&mut self.present);
        if age < WINDOW * 2 {
            self.previous = present;
            self.began += WINDOW;
        } else {
            self.previous = Durations::default();
            self.began = now;
        }
        assert!(
            now.saturating_duration_since(self.began) < WINDOW,
            "the present window has not ended"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_longest_are_of_the_last_half_minute_to_minute() {
        let start = Instant::now();
        let mut lately = RecentDurations::since(start);
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut check = |seconds: u64, noted_ms: Option<u64>, mean: &str, longest: &str| {
            if let Some(ms) = noted_ms {
                lately.note(Duration::from_millis(ms), at(seconds));
            }
            let noted = lately.noted(at(seconds));
            let shown = (noted.mean_ms().to_string(), noted.longest_ms().to_string());
            assert_eq!(shown, (mean.to_owned(), longest.to_owned()), "{seconds}");
        };
        check(0, None, "NaN", "NaN");
        check(1, Some(10), "10", "10");
        check(29, Some(20), "15", "20");
        check(31, Some(30), "20", "30");
        check(59, None, "20", "30");
        check(60, None, "30", "30");
        check(89, None, "30", "30");
        check(90, None, "NaN", "NaN");
        check(3_600, Some(5), "5", "5");
        check(3_660, None, "NaN", "NaN");
    }

    #[test]
    fn the_mean_of_several_shards_is_that_of_all_durations() {
        let now = Instant::now();
        let noted = |each: &[u64]| {
            let mut lately = RecentDurations::since(now);
            for ms in each {
                lately.note(Duration::from_millis(*ms), now);
            }
            lately.noted(now)
        };
        let all = noted(&[1, 2, 3]).and(noted(&[10])).and(noted(&[]));
        let shown = (all.mean_ms().to_string(), all.longest_ms().to_string());
        assert_eq!(shown, ("4".to_owned(), "10".to_owned()));
    }
}
