//! A token bucket: metadata changes take tokens, which return at the rate of the quota, up to the
//! amount for all windows together.
//!
//! One request may overdraw it; it then gives no tokens until the deficit is refilled.

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
    /// Creates a full bucket.
    pub(crate) fn full(limit: f64, windows: Windows, now: Instant) -> Self {
        Self {
            tokens: limit * windows.span().as_secs_f64(),
            filled: now,
        }
    }

    /// Adds the tokens since the last refill.
    fn refill(&mut self, limit: f64, windows: Windows, now: Instant) {
        let since = now.saturating_duration_since(self.filled).as_secs_f64();
        let room = limit * windows.span().as_secs_f64();
        self.tokens = room.min(self.tokens + limit * since);
        self.filled = now;
    }

    /// Returns how long until the bucket is not overdrawn.
    pub(crate) fn pause(&mut self, limit: f64, windows: Windows, now: Instant) -> Duration {
        self.refill(limit, windows, now);
        if self.tokens >= 0.0 || limit <= 0.0 {
            return Duration::ZERO;
        }
        let ms = (-self.tokens / limit * 1000.0).round();
        // Bounded: positive, as tokens are overdrawn; `min` of a NaN and a number is the number.
        Duration::from_secs_f64(ms.min(f64::from(i32::MAX)) / 1000.0)
    }

    /// Takes tokens, even more than there are.
    pub(crate) fn take(&mut self, count: f64, limit: f64, windows: Windows, now: Instant) {
        self.refill(limit, windows, now);
        self.tokens -= count;
    }

    /// Returns the tokens at the last refill; negative when overdrawn.
    pub(crate) fn left(&self) -> f64 {
        self.tokens
    }

    /// Returns true when the bucket is full, so that dropping it loses nothing.
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
