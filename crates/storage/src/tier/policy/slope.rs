//! The growth rate of a sum that is observed at intervals.
//!
//! It rises at once and falls slowly: a burst needs an immediate reaction, and a pause of a second
//! does not end it.

/// The time in which an old measurement loses most of its weight when the rate falls.
const MEMORY_MS: f64 = 5_000.0;

/// The shortest measured interval, because writes come in bursts.
const MEASURE_MS: i64 = 1_000;

/// A rate in bytes per second.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Slope {
    last: Option<(i64, u64)>,
    rate: f64,
}

impl Slope {
    /// Observes that the sum is `bytes` at `now_ms`, and returns the rate; sums only grow.
    #[expect(clippy::cast_precision_loss, reason = "a rate is an estimate")]
    pub fn observe(&mut self, now_ms: i64, bytes: u64) -> u64 {
        let Some((then_ms, before)) = self.last else {
            self.last = Some((now_ms, bytes));
            return 0;
        };
        let elapsed_ms = now_ms.saturating_sub(then_ms);
        if elapsed_ms < MEASURE_MS {
            return self.bytes_per_second();
        }
        self.last = Some((now_ms, bytes));
        let rate = bytes.saturating_sub(before) as f64 * 1000.0 / elapsed_ms as f64;
        let weight = if rate > self.rate {
            1.0
        } else {
            1.0 - (-(elapsed_ms as f64) / MEMORY_MS).exp()
        };
        self.rate += weight * (rate - self.rate);
        self.bytes_per_second()
    }

    /// Returns the rate of the last observation.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate is not negative, and far from the largest number"
    )]
    pub fn bytes_per_second(&self) -> u64 {
        self.rate as u64
    }
}
