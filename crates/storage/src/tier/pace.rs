//! How fast segments are copied: one rate for all shards, and after the flushes of the shard.
//!
//! The rate is a promise per step: each reserves the time its bytes take at the rate, after what all shards have
//! reserved before it, and waits for its turn. A copy never waits for flushes for ever.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use platform::Platform;
use platform::clock::Instant;
use platform::task;

use crate::store::Store;

/// How long flushes are given way to, before each step: so many looks, so long apart.
const GIVE_WAY_LOOKS: usize = 8;
const GIVE_WAY_INTERVAL: Duration = Duration::from_millis(1);
/// Waits are cut in pieces, so that a copy that has become useless ends soon.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// The rate of all moves together.
#[derive(Debug, Default)]
pub(crate) struct Rate {
    /// 0: without limit.
    bytes_per_second: AtomicU64,
    origin: OnceLock<Instant>,
    /// Microseconds after `origin` up to where time is reserved.
    reserved_micros: AtomicU64,
}

impl Rate {
    pub(crate) fn set(&self, bytes_per_second: Option<u64>) {
        let bytes = bytes_per_second.unwrap_or(0);
        self.bytes_per_second.store(bytes, Ordering::Relaxed);
    }

    /// Reserves the time that `bytes` take; says how long it is until it begins.
    pub(crate) fn reserve(&self, now: Instant, bytes: u64) -> Duration {
        let rate = self.bytes_per_second.load(Ordering::Relaxed);
        if rate == 0 {
            return Duration::ZERO;
        }
        let origin = *self.origin.get_or_init(|| now);
        let elapsed = now.saturating_duration_since(origin).as_micros();
        let now_micros = u64::try_from(elapsed).unwrap_or(u64::MAX);
        let takes = bytes.saturating_mul(1_000_000) / rate;
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

impl<P: Platform> Store<P> {
    /// Waits for the turn of `bytes` of a copy; `goes_on` is asked now and then, and a false ends the wait.
    pub(crate) async fn wait_to_copy(&self, rate: &Rate, bytes: u64, goes_on: impl Fn() -> bool) {
        task::yield_now().await;
        for _ in 0..GIVE_WAY_LOOKS {
            if self.shared.flushing.get() == 0 {
                break;
            }
            self.clock().sleep(GIVE_WAY_INTERVAL).await;
        }
        let mut left = rate.reserve(self.clock().now(), bytes);
        while left > Duration::ZERO && goes_on() {
            let now = left.min(WAIT_MAX);
            self.clock().sleep(now).await;
            left -= now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_share_the_rate_and_idle_time_is_not_saved_up() {
        let rate = Rate::default();
        let now = Instant::now();
        assert_eq!(rate.reserve(now, 1 << 30), Duration::ZERO, "no limit");
        rate.set(Some(1000));
        assert_eq!(rate.reserve(now, 500), Duration::ZERO);
        assert_eq!(rate.reserve(now, 500), Duration::from_millis(500));
        let later = now + Duration::from_secs(10);
        assert_eq!(rate.reserve(later, 1000), Duration::ZERO);
        assert_eq!(rate.reserve(later, 1), Duration::from_secs(1));
    }
}
