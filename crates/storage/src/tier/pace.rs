//! How fast segments are copied: one rate for all shards.
//!
//! Each copy step reserves the time that its bytes take at the rate, after all reservations of all
//! shards before it, and waits for its turn. A new rate applies at once: it drops the reservations,
//! and waiting steps reserve again.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use platform::clock::Instant;

/// No limit.
const UNLIMITED: u64 = u64::MAX;

/// The rate of all moves together.
#[derive(Debug)]
pub struct MoveRate {
    bytes_per_second: AtomicU64,
    /// How many times the rate has changed.
    changes: AtomicU64,
    origin: OnceLock<Instant>,
    /// The end of the reserved time, in microseconds after `origin`.
    reserved_micros: AtomicU64,
}

impl Default for MoveRate {
    fn default() -> Self {
        Self {
            bytes_per_second: AtomicU64::new(UNLIMITED),
            changes: AtomicU64::new(0),
            origin: OnceLock::new(),
            reserved_micros: AtomicU64::new(0),
        }
    }
}

impl MoveRate {
    /// Sets the rate of moves: at 0 they stop, at `None` they have no limit.
    pub fn set(&self, bytes_per_second: Option<u64>) {
        let rate = bytes_per_second.unwrap_or(UNLIMITED);
        if self.bytes_per_second.swap(rate, Ordering::Relaxed) != rate {
            self.reserved_micros.store(0, Ordering::Relaxed);
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns how many times the rate has changed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Reserves the time that `bytes` take, and returns how long it is until it begins.
    pub(crate) fn reserve(&self, now: Instant, bytes: u64) -> Duration {
        let rate = self.bytes_per_second.load(Ordering::Relaxed);
        if rate == UNLIMITED {
            return Duration::ZERO;
        }
        if rate == 0 {
            return Duration::MAX;
        }
        let origin = *self.origin.get_or_init(|| now);
        let elapsed = now.saturating_duration_since(origin).as_micros();
        let now_micros = u64::try_from(elapsed).unwrap_or(u64::MAX);
        let takes = u128::from(bytes) * 1_000_000 / u128::from(rate);
        let takes = u64::try_from(takes).unwrap_or(u64::MAX);
        let mut begins = 0;
        let _ =
            self.reserved_micros
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |reserved| {
                    begins = reserved.max(now_micros);
                    Some(begins.saturating_add(takes))
                });
        Duration::from_micros(begins - now_micros)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_share_the_rate_and_idle_time_is_not_saved_up() {
        let rate = MoveRate::default();
        let now = Instant::now();
        assert_eq!(rate.reserve(now, 1 << 30), Duration::ZERO, "no limit");
        rate.set(Some(1000));
        assert_eq!(rate.reserve(now, 500), Duration::ZERO);
        assert_eq!(rate.reserve(now, 500), Duration::from_millis(500));
        let later = now + Duration::from_secs(10);
        assert_eq!(rate.reserve(later, 1000), Duration::ZERO);
        assert_eq!(rate.reserve(later, 1), Duration::from_secs(1));
    }

    #[test]
    fn another_rate_holds_at_once() {
        let rate = MoveRate::default();
        let now = Instant::now();
        rate.set(Some(1));
        rate.reserve(now, 1 << 40);
        rate.set(Some(1));
        assert!(rate.reserve(now, 1) > Duration::from_hours(24), "the same");
        rate.set(Some(1000));
        assert_eq!(rate.reserve(now, 500), Duration::ZERO);
        assert_eq!(rate.reserve(now, 1), Duration::from_millis(500));
        rate.set(Some(0));
        assert_eq!(rate.reserve(now, 1), Duration::MAX, "they stand still");
        rate.set(None);
        assert_eq!(rate.reserve(now, 1 << 40), Duration::ZERO);
    }
}
