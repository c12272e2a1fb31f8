//! How busy the threads of the shards are, and the idle shares that Kafka's dashboards ask for.
//!
//! A shard serves its connections and handles their requests on one thread, so Kafka's two idle
//! shares (request handlers, network processors) are one value here: the mean over the shards of
//! the time in which the executor had nothing to run, over the last minute or two. The executor
//! counts that time anyway. A shard that has not looked for longer than [`SILENT_MAX`] does not
//! come to the scrapes: it is busy, whatever it was before. Not here: threads that read and write
//! for a shard.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tokio::runtime::Handle;

/// Least time over which an idle share is taken, once the shard has run for so long.
const WINDOW_MIN: Duration = Duration::from_mins(1);

/// Longest age of the last look of a shard that is not stuck. A shard looks when a survey of it
/// begins and when it ends; a scrape waits for seconds at most.
const SILENT_MAX: Duration = Duration::from_secs(15);

/// The busy time of a shard at one moment.
#[derive(Clone, Copy, Debug)]
struct BusySample {
    at: Instant,
    busy: Duration,
}

/// The looks that an idle share is taken from.
#[derive(Clone, Copy, Debug)]
struct Window {
    begin: BusySample,
    /// The beginning of the next window.
    next: BusySample,
    end: BusySample,
}

impl Window {
    fn new(look: BusySample) -> Self {
        Self {
            begin: look,
            next: look,
            end: look,
        }
    }

    fn move_to(&mut self, look: BusySample) {
        if look.at.saturating_duration_since(self.next.at) >= WINDOW_MIN {
            (self.begin, self.next) = (self.next, look);
        }
        self.end = look;
    }

    /// Returns the idle part of the window, from 0 to 1; 0 for a shard that is silent at `now`.
    fn idle(&self, now: Instant) -> f64 {
        if now.saturating_duration_since(self.end.at) > SILENT_MAX {
            return 0.0;
        }
        let time = self.end.at.saturating_duration_since(self.begin.at);
        if time.is_zero() {
            return 1.0;
        }
        let busy = self.end.busy.saturating_sub(self.begin.busy);
        (1.0 - busy.as_secs_f64() / time.as_secs_f64()).clamp(0.0, 1.0)
    }
}

/// The busy times of all shards; clones share them.
#[derive(Clone, Default, Debug)]
// Bounded: one for each of `num.shards`.
pub struct IdleMetrics(Arc<Mutex<BTreeMap<usize, Window>>>);

#[derive(Clone, Debug, EncodeLabelSet)]
struct Labels {
    shard: u64,
}

impl IdleMetrics {
    /// Creates and registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register_collector(Box::new(metrics.clone()));
        metrics
    }

    /// Takes the busy time of the shard whose thread calls this.
    pub fn look(&self, shard: usize) {
        let busy = Handle::current().metrics().worker_total_busy_duration(0);
        let at = Instant::now();
        self.take(shard, BusySample { at, busy });
    }

    fn take(&self, shard: usize, look: BusySample) {
        let mut windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let window = windows.entry(shard).or_insert_with(|| Window::new(look));
        window.move_to(look);
    }

    /// Returns the mean idle part of all shards at the time of a scrape.
    fn idle(&self, now: Instant) -> f64 {
        let windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = u32::try_from(windows.len()).unwrap_or(u32::MAX);
        let sum = windows.values().fold(0.0, |sum, one| sum + one.idle(now));
        if count == 0 {
            1.0
        } else {
            sum / f64::from(count)
        }
    }
}

impl Collector for IdleMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let idle = self.idle(Instant::now());
        let help = "Idle part of the time of the shards' threads, from 0 to 1";
        for name in [
            "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
            "kafka_network_socketserver_networkprocessoravgidle_percent",
        ] {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(idle).encode(metric)?;
        }
        let help = "Time in which the shard's thread had something to do";
        let name = "forebay_shard_busy_seconds";
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        let windows = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for (shard, window) in windows {
            let labels = Labels {
                shard: shard as u64,
            };
            let busy = window.end.busy.as_secs_f64();
            ConstCounter::new(busy).encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_idle_share_is_that_of_the_last_minutes_and_the_mean_of_the_shards() {
        let metrics = IdleMetrics::default();
        let begin = Instant::now();
        let take = |shard, at: u64, busy: u64| {
            let (at, busy) = (begin + Duration::from_secs(at), Duration::from_secs(busy));
            metrics.take(shard, BusySample { at, busy });
        };
        let check = |at: u64, expected: f64| {
            let idle = metrics.idle(begin + Duration::from_secs(at));
            assert!((idle - expected).abs() < 1e-9, "{idle}, not {expected}");
        };
        take(0, 0, 0);
        check(0, 1.0);
        take(0, 40, 10);
        check(40, 0.75);
        // An idle day, then a busy minute.
        take(0, 86_400, 10);
        take(0, 86_460, 70);
        check(86_460, 0.0);
        take(1, 86_450, 0);
        take(1, 86_460, 0);
        check(86_460, 0.5);
    }

    #[test]
    fn a_shard_that_does_not_come_to_the_scrapes_is_busy() {
        let metrics = IdleMetrics::default();
        let begin = Instant::now();
        let at = |seconds: u64| begin + Duration::from_secs(seconds);
        for shard in [0, 1] {
            for seconds in [0, 60] {
                let (at, busy) = (at(seconds), Duration::ZERO);
                metrics.take(shard, BusySample { at, busy });
            }
        }
        let idle = |seconds| format!("{:.3}", metrics.idle(at(seconds)));
        assert_eq!(idle(60), "1.000");
        // One of them still looks.
        let look = |shard, seconds: u64| {
            let (at, busy) = (at(seconds), Duration::ZERO);
            metrics.take(shard, BusySample { at, busy });
        };
        look(0, 75);
        assert_eq!(idle(77), "0.500");
        look(1, 90);
        look(0, 90);
        assert_eq!(idle(90), "1.000");
    }
}
