//! A bucket of tokens: changes to the metadata take tokens, which come back at the rate of the
//! quota, up to what all windows together hold.
//!
//! It may be overdrawn by one request, and gives nothing more until that is made good.

use std::time::Duration;

use platform::clock::Instant;

use super::rate::Windows;

/// The tokens of one client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenBucket {
    tokens: f64,
    filled: Instant,
}

impl TokenBucket {
    /// A full bucket.
    pub(crate) fn full(limit: f64, windows: Windows, now: Instant) -> Self {
        Self {
            tokens: limit * windows.span().as_secs_f64(),
            filled: now,
        }
    }

    /// What is there now.
    fn refill(&mut self, limit: f64, windows: Windows, now: Instant) {
        let since = now.saturating_duration_since(self.filled).as_secs_f64();
        let room = limit * windows.span().as_secs_f64();
        self.tokens = room.min(self.tokens + limit * since);
        self.filled = now;
    }

    /// How long until it is not overdrawn any more.
    pub(crate) fn pause(&mut self, limit: f64, windows: Windows, now: Instant) -> Duration {
        self.refill(limit, windows, now);
        if self.tokens >= 0.0 || limit <= 0.0 {
            return Duration::ZERO;
        }
        let ms = (-self.tokens / limit * 1000.0).round();
        // Bounded: positive, as the tokens are overdrawn; the lesser of a NaN and a number is the number.
        Duration::from_secs_f64(ms.min(f64::from(i32::MAX)) / 1000.0)
    }

    /// Takes tokens, also those that are not there.
    pub(crate) fn take(&mut self, count: f64, limit: f64, windows: Windows, now: Instant) {
        self.refill(limit, windows, now);
        self.tokens -= count;
    }

    /// What was there when it was last looked at; less than nothing when it is overdrawn.
    pub(crate) fn left(&self) -> f64 {
        self.tokens
    }

    /// True when it is full: nothing is lost by forgetting it.
    pub(crate) fn is_full(&self, limit: f64, windows: Windows, now: Instant) -> bool {
        let mut later = *self;
        later.refill(limit, windows, now);
        later.tokens >= limit * windows.span().as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overdrawn_bucket_is_closed_until_it_is_made_good() {
        let windows = Windows {
            samples: 11,
            window: Duration::from_secs(1),
        };
        let start = Instant::now();
        let mut bucket = TokenBucket::full(2.0, windows, start);
        bucket.take(22.0, 2.0, windows, start);
        assert_eq!(bucket.pause(2.0, windows, start), Duration::ZERO);
        bucket.take(5.0, 2.0, windows, start);
        assert_eq!(
            bucket.pause(2.0, windows, start),
            Duration::from_millis(2500)
        );
        let later = start + Duration::from_millis(2500);
        assert_eq!(bucket.pause(2.0, windows, later), Duration::ZERO);
        assert!(!bucket.is_full(2.0, windows, later));
        assert!(bucket.is_full(2.0, windows, later + Duration::from_secs(11)));
    }
}
