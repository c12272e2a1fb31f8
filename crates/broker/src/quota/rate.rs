//! Recent usage as a rate over sliding samples: Kafka's measure.
//!
//! Usage is added to samples of one window each; samples older than all windows together are
//! dropped. The rate is the sum divided by the time since the oldest sample began, but at least by
//! all windows but one, so that a new client is not throttled for its first burst.

use std::collections::VecDeque;
use std::time::Duration;

use platform::clock::Instant;

/// How long usage is remembered: a number of samples of one window each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Windows {
    /// Number of samples, at least 1.
    pub samples: u32,
    /// Length of one sample.
    pub window: Duration,
}

impl Windows {
    /// Returns the time without usage after which no usage counts.
    pub fn span(self) -> Duration {
        self.window * self.samples
    }
}

/// The usage of one client.
#[derive(Default, Debug)]
pub struct Rate {
    // Bounded: `forget` keeps those of the windows, `quota.window.num`.
    samples: VecDeque<Sample>,
}

#[derive(Debug)]
struct Sample {
    began: Instant,
    touched: Instant,
    sum: f64,
}

impl Rate {
    /// Adds to the usage; a negative amount takes it back.
    pub fn add(&mut self, windows: Windows, amount: f64, now: Instant) {
        let current = self.samples.back_mut();
        match current.filter(|last| now.saturating_duration_since(last.began) < windows.window) {
            Some(sample) => {
                sample.sum += amount;
                sample.touched = now;
            }
            None => self.samples.push_back(Sample {
                began: now,
                touched: now,
                sum: amount,
            }),
        }
        self.forget(windows, now);
    }

    /// Returns the usage per second.
    pub(super) fn per_second(&mut self, windows: Windows, now: Instant) -> f64 {
        self.measured(windows, now).0
    }

    /// Returns how long nothing may be used until the rate is down to `limit` per second.
    pub fn pause(&mut self, windows: Windows, limit: f64, now: Instant) -> Duration {
        let (rate, elapsed) = self.measured(windows, now);
        if rate <= limit || limit <= 0.0 {
            return Duration::ZERO;
        }
        let ms = ((rate - limit) / limit * elapsed.as_secs_f64() * 1000.0).round();
        // The protocol's throttle time is at most `i32::MAX` milliseconds.
        // Bounded: positive, as `rate` is above `limit`; `min` of a NaN and a number is the number.
        Duration::from_secs_f64(ms.min(f64::from(i32::MAX)) / 1000.0)
    }

    /// Returns the usage per second, and the time that it is divided by.
    fn measured(&mut self, windows: Windows, now: Instant) -> (f64, Duration) {
        self.forget(windows, now);
        let began = self.samples.front().map_or(now, |sample| sample.began);
        let elapsed = elapsed(windows, now.saturating_duration_since(began));
        let used: f64 = self.samples.iter().map(|sample| sample.sum).sum(); // Bounded: of fractions, which do not overflow.
        (used / elapsed.as_secs_f64(), elapsed)
    }

    /// Returns when usage was last added.
    pub fn touched(&self) -> Option<Instant> {
        self.samples.back().map(|sample| sample.touched)
    }

    fn forget(&mut self, windows: Windows, now: Instant) {
        let stale =
            |sample: &Sample| now.saturating_duration_since(sample.touched) >= windows.span();
        while self.samples.front().is_some_and(stale) {
            self.samples.pop_front();
        }
    }
}

/// Returns the time that the usage is divided by.
fn elapsed(windows: Windows, since: Duration) -> Duration {
    let window = windows.window.max(Duration::from_millis(1));
    let full = u32::try_from(since.as_nanos() / window.as_nanos()).unwrap_or(u32::MAX);
    let missing = windows.samples.saturating_sub(1).saturating_sub(full);
    (since + window * missing).max(window)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KAFKA: Windows = Windows {
        samples: 11,
        window: Duration::from_secs(1),
    };

    #[test]
    fn a_burst_is_spread_over_ten_seconds_and_what_is_above_is_waited_for() {
        let start = Instant::now();
        let mut rate = Rate::default();
        rate.add(KAFKA, 1000.0, start);
        assert_eq!(rate.pause(KAFKA, 100.0, start), Duration::ZERO);
        rate.add(KAFKA, 500.0, start);
        // 150 per second over ten seconds, where 100 are allowed: half as long again.
        assert_eq!(rate.pause(KAFKA, 100.0, start), Duration::from_secs(5));
    }

    #[test]
    fn waiting_as_told_makes_good() {
        let start = Instant::now();
        let mut rate = Rate::default();
        rate.add(KAFKA, 1500.0, start);
        let later = start + rate.pause(KAFKA, 100.0, start);
        assert!(rate.pause(KAFKA, 100.0, later) <= Duration::from_secs(5));
        let forgotten = start + KAFKA.span();
        assert_eq!(rate.pause(KAFKA, 100.0, forgotten), Duration::ZERO);
        assert!(rate.touched().is_none());
    }

    #[test]
    fn steady_usage_below_the_limit_is_never_held_back() {
        let start = Instant::now();
        let mut rate = Rate::default();
        for tick in 0..600 {
            let now = start + Duration::from_millis(100) * tick;
            rate.add(KAFKA, 9.0, now);
            assert_eq!(rate.pause(KAFKA, 100.0, now), Duration::ZERO, "{tick}");
            assert!(rate.samples.len() <= 12);
        }
    }

    #[test]
    fn what_is_taken_back_was_not_used() {
        let start = Instant::now();
        let mut rate = Rate::default();
        rate.add(KAFKA, 5000.0, start);
        rate.add(KAFKA, -5000.0, start);
        assert_eq!(rate.pause(KAFKA, 100.0, start), Duration::ZERO);
    }
}
