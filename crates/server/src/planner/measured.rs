//! The traffic of this broker, as the initial load of a plan.

use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::Instant;

/// Least time between two measurements.
const SECONDS_MIN: f64 = 1.0;

/// Returns the bytes taken and given so far.
type Counts = Box<dyn Fn() -> (u64, u64) + Send + Sync>;

/// Rates between two looks; before the second look, since the start.
pub(crate) struct MeasuredRates {
    counts: Counts,
    /// The last look: its time, the counts, the rates, and the highest rate so far.
    last: Mutex<RateSample>,
}

#[derive(Clone, Copy)]
struct RateSample {
    at: Instant,
    counts: (u64, u64),
    taken: f64,
    given: f64,
    peak: f64,
}

impl MeasuredRates {
    /// Starts to measure these counts.
    pub(crate) fn new(counts: impl Fn() -> (u64, u64) + Send + Sync + 'static) -> Self {
        let look = RateSample {
            at: Instant::now(),
            counts: counts(),
            taken: 0.0,
            given: 0.0,
            peak: 0.0,
        };
        Self {
            counts: Box::new(counts),
            last: Mutex::new(look),
        }
    }

    /// Returns the load of this broker as a plan.
    pub(crate) fn scenario(&self) -> String {
        let look = self.look();
        let fan_out = if look.taken > 0.0 {
            (look.given / look.taken).clamp(0.0, 100.0)
        } else {
            1.0
        };
        let mut text = String::from(
            "name = \"measured\"\nabout = \"What this broker took and gave since the last look.\"\n",
        );
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            text,
            "notes = [\"Record and batch sizes, retention and copies are not measured: say them.\"]\n\
             [[load]]\nname = \"measured\"\npeak = \"{:.0} B/s\"\naverage = \"{:.0} B/s\"\nfan_out = {fan_out:.3}\nbatch = \"64 KB\"\nretention = \"7 d\"",
            look.peak.max(1.0),
            look.taken.max(1.0),
        );
        text
    }

    #[expect(clippy::cast_precision_loss, reason = "a rate is an estimate")]
    fn look(&self) -> RateSample {
        let mut last = self
            .last
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let seconds = last.at.elapsed().as_secs_f64();
        if seconds >= SECONDS_MIN {
            let now = (self.counts)();
            let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
            let (taken, given) = (rate(now.0, last.counts.0), rate(now.1, last.counts.1));
            *last = RateSample {
                at: Instant::now(),
                counts: now,
                taken,
                given,
                peak: last.peak.max(taken),
            };
        }
        *last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_does_nothing_is_a_plan_too() {
        let measured = MeasuredRates::new(|| (0, 0));
        let text = measured.scenario();
        plan::load::Scenario::read("measured", &text, &[])
            .unwrap_or_else(|problem| panic!("{problem}\n{text}"));
    }
}
