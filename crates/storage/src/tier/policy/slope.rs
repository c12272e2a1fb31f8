//! How fast something grows: a rate from a sum that is looked at now and then.
//!
//! Quick to rise and slow to fall: a burst must be met at once, and a pause of a second is not its end.

/// Time in which what was measured loses most of its weight when the rate falls.
const MEMORY_MS: f64 = 5_000.0;

/// Shorter than this nothing is measured: writes come in lumps.
const MEASURE_MS: i64 = 1_000;

/// A rate in bytes a second.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Slope {
    last: Option<(i64, u64)>,
    rate: f64,
}

impl Slope {
    /// Takes in that the sum was `bytes` at `now_ms`; sums only grow. Says the rate.
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

    /// The rate as last observed.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate is not negative, and far from the largest number"
    )]
    pub fn bytes_per_second(&self) -> u64 {
        self.rate as u64
    }
}
