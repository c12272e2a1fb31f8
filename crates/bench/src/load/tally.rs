//! The counters of a running load: one set per thread, merged at the end.
//!
//! Invariants: events of the warm-up count only in the curve; latencies stay histograms until the
//! very end, each recorded once: the latencies of the whole are those of its intervals. Times are
//! seconds since the load began.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use tokio::sync::mpsc::UnboundedSender;

use crate::latency;
use crate::outcome::{Interval, Latency, Side};

/// Limit on the distinct latencies recorded for a batch, from its first record's to its last one's.
const STEPS_MAX: u32 = 16;

/// The counts of one side of a load.
#[derive(Clone, Debug)]
pub(super) struct SideTally {
    pub(super) records: u64,
    pub(super) bytes: u64,
    pub(super) wire_bytes: u64,
    pub(super) requests: u64,
    latency: Histogram<u64>,
}

impl SideTally {
    fn new() -> Self {
        Self {
            records: 0,
            bytes: 0,
            wire_bytes: 0,
            requests: 0,
            latency: latency::histogram(),
        }
    }

    fn add(&mut self, other: &Self) {
        self.records += other.records;
        self.bytes += other.bytes;
        self.wire_bytes += other.wire_bytes;
        self.requests += other.requests;
        self.latency += &other.latency;
    }

    /// Returns the counts in reported form.
    pub(super) fn side(&self) -> Side {
        Side {
            records: self.records,
            bytes: self.bytes,
            wire_bytes: self.wire_bytes,
            requests: self.requests,
            latency: Latency::of(&self.latency),
        }
    }
}

/// One thread's part of an interval.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// Index of the interval; the one that ends with the warm-up is -1.
    pub(super) index: i64,
    produced: u64,
    consumed: u64,
    latency: Histogram<u64>,
}

impl Window {
    fn new(index: i64) -> Self {
        Self {
            index,
            produced: 0,
            consumed: 0,
            latency: latency::histogram(),
        }
    }

    /// Adds another thread's part of the same interval.
    pub(super) fn add(&mut self, other: &Self) {
        self.produced += other.produced;
        self.consumed += other.consumed;
        self.latency += &other.latency;
    }

    /// Returns the interval in reported form.
    pub(super) fn interval(&self, seconds: f64) -> Interval {
        let at_quantile = |quantile| {
            if self.latency.is_empty() {
                0
            } else {
                self.latency.value_at_quantile(quantile)
            }
        };
        Interval {
            at: (self.index + 1) as f64 * seconds,
            produced: self.produced,
            consumed: self.consumed,
            p50_us: at_quantile(0.5),
            p99_us: at_quantile(0.99),
            latency: Latency::of(&self.latency),
            tier_bytes: Vec::new(),
        }
    }
}

/// All counts of one thread.
#[derive(Clone, Debug)]
pub(super) struct Totals {
    pub(super) produce: SideTally,
    pub(super) consume: SideTally,
    pub(super) errors: BTreeMap<String, u64>,
    /// Time of the last counted event.
    pub(super) last_event: f64,
}

impl Totals {
    pub(super) fn new() -> Self {
        Self {
            produce: SideTally::new(),
            consume: SideTally::new(),
            errors: BTreeMap::new(),
            last_event: 0.0,
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.produce.add(&other.produce);
        self.consume.add(&other.consume);
        for (error, count) in &other.errors {
            *self.errors.entry(error.clone()).or_default() += count;
        }
        self.last_event = self.last_event.max(other.last_event);
    }
}

/// The running counters of one thread.
pub(super) struct Tally {
    warmup: f64,
    interval: f64,
    totals: Totals,
    window: Window,
    windows: UnboundedSender<Window>,
}

/// Records that arrived together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ArrivedRecords {
    pub(super) records: u64,
    pub(super) bytes: u64,
    pub(super) wire_bytes: u64,
}

impl Tally {
    /// Creates counters that send finished windows to `windows`.
    pub(super) fn new(warmup: f64, interval: f64, windows: UnboundedSender<Window>) -> Self {
        let mut tally = Self {
            warmup,
            interval,
            totals: Totals::new(),
            window: Window::new(0),
            windows,
        };
        tally.window.index = tally.index_at(0.0);
        tally
    }

    fn index_at(&self, time: f64) -> i64 {
        ((time - self.warmup) / self.interval).floor() as i64
    }

    /// Returns when the current interval ends.
    pub(super) fn window_end(&self) -> f64 {
        self.warmup + (self.window.index + 1) as f64 * self.interval
    }

    /// Advances to `now` and sends finished windows.
    pub(super) fn advance(&mut self, now: f64) {
        let index = self.index_at(now);
        while self.window.index < index {
            let next = Window::new(self.window.index + 1);
            let done = std::mem::replace(&mut self.window, next);
            self.finish(done);
        }
    }

    /// Finishes an interval.
    fn finish(&mut self, window: Window) {
        if window.index >= 0 {
            self.totals.produce.latency += &window.latency;
        }
        // Fails only if nothing collects the curve any more.
        let _ = self.windows.send(window);
    }

    /// Returns whether the warm-up is over.
    fn counts(&self) -> bool {
        self.window.index >= 0
    }

    /// Counts an acknowledged batch, or one sent with acks=0.
    ///
    /// Its records were due evenly between the two times of `due`.
    pub(super) fn acknowledged(
        &mut self,
        now: f64,
        count: u32,
        arrived: ArrivedRecords,
        due: (f64, f64),
    ) {
        self.advance(now);
        self.window.produced += arrived.bytes;
        record(&mut self.window.latency, count, (now - due.0, now - due.1));
        if self.counts() {
            self.totals.last_event = now;
            add(&mut self.totals.produce, arrived);
        }
    }

    /// Counts a request with an acknowledged batch.
    pub(super) fn requested(&mut self, now: f64) {
        if now >= self.warmup {
            self.totals.produce.requests += 1;
        }
    }

    /// Counts one record acknowledged to a client that does not report requests.
    #[cfg(feature = "librdkafka")]
    pub(super) fn delivered(&mut self, now: f64, bytes: u64, due: f64) {
        let arrived = ArrivedRecords {
            records: 1,
            bytes,
            wire_bytes: 0,
        };
        self.acknowledged(now, 1, arrived, (due, due));
    }

    /// Counts the consumed records of one batch, `age` seconds after their timestamp.
    pub(super) fn read(&mut self, now: f64, arrived: ArrivedRecords, age: f64) {
        self.advance(now);
        self.window.consumed += arrived.bytes;
        if self.counts() {
            self.totals.last_event = now;
            let side = &mut self.totals.consume;
            add(side, arrived);
            side.latency
                .saturating_record_n(micros(age), arrived.records);
        }
    }

    /// Counts a fetch response.
    pub(super) fn fetched(&mut self, now: f64) {
        if now >= self.warmup {
            self.totals.consume.requests += 1;
        }
    }

    /// Counts an error, in the warm-up too.
    pub(super) fn error(&mut self, what: impl Into<String>) {
        self.errors(what, 1);
    }

    /// Counts an error that occurred `count` times.
    pub(super) fn errors(&mut self, what: impl Into<String>, count: u64) {
        *self.totals.errors.entry(what.into()).or_default() += count;
    }

    /// Ends counting: sends the rest of the curve and returns the totals.
    pub(super) fn end(mut self) -> Totals {
        let last = Window::new(self.window.index + 1);
        let last = std::mem::replace(&mut self.window, last);
        self.finish(last);
        self.totals
    }
}

fn add(side: &mut SideTally, arrived: ArrivedRecords) {
    side.records += arrived.records;
    side.bytes += arrived.bytes;
    side.wire_bytes += arrived.wire_bytes;
}

/// Records the latencies of `count` records, spread evenly between two latencies.
fn record(latency: &mut Histogram<u64>, count: u32, (first, last): (f64, f64)) {
    if count == 1 || (first - last).abs() < 1e-6 {
        latency.saturating_record_n(micros(first), count.into());
        return;
    }
    let steps = count.clamp(1, STEPS_MAX);
    for step in 0..steps {
        let here = u64::from(count / steps) + u64::from(step < count % steps);
        let part = f64::from(step) / f64::from(steps.max(2) - 1);
        latency.saturating_record_n(micros(first + (last - first) * part), here);
    }
}

fn micros(seconds: f64) -> u64 {
    (seconds * 1e6).round().max(1.0) as u64
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;

    const BATCH: ArrivedRecords = ArrivedRecords {
        records: 10,
        bytes: 1000,
        wire_bytes: 1100,
    };

    #[test]
    fn warm_up_reaches_the_curve_only() {
        let (windows, mut seen) = unbounded_channel();
        let mut tally = Tally::new(2.0, 1.0, windows);
        tally.acknowledged(0.5, 10, BATCH, (0.4, 0.4));
        tally.acknowledged(2.5, 10, BATCH, (2.3, 2.4));
        tally.read(4.1, BATCH, 0.01);
        let totals = tally.end();
        assert_eq!(
            (totals.produce.records, totals.produce.wire_bytes),
            (10, 1100)
        );
        assert_eq!((totals.consume.records, totals.last_event), (10, 4.1));
        let mut curve = Vec::new();
        while let Ok(window) = seen.try_recv() {
            let interval = window.interval(1.0);
            curve.push((interval.at, interval.produced, interval.consumed));
        }
        let expected = [
            (-1.0, 1000, 0),
            (0.0, 0, 0),
            (1.0, 1000, 0),
            (2.0, 0, 0),
            (3.0, 0, 1000),
        ];
        assert_eq!(curve, expected);
    }

    #[test]
    fn every_record_of_a_batch_has_its_own_latency() {
        for count in [1, 2, 16, 1000, 1001] {
            let mut latency = latency::histogram();
            record(&mut latency, count, (0.2, 0.1));
            assert_eq!(latency.len(), u64::from(count));
            assert!(latency.max().abs_diff(200_000) < 300);
            if count > 1 {
                assert!(latency.min().abs_diff(100_000) < 300);
                assert!((latency.mean() - 150_000.0).abs() < 2_000.0, "{count}");
            }
        }
    }
}
