//! How long requests take, by phase, under Kafka's names.
//!
//! Phases: queue (from a request being read to its handler beginning, because earlier requests of
//! the connection or a throttle come first), local (until the handler first waits), remote (the
//! rest: disks, other shards, other members, new records), throttle (the time for which the client
//! is held back afterwards) and send (from the answer being ready until the connection has nothing
//! left to write). Total is queue, local and remote together.
//!
//! Invariant: each [`Times`] has one writer, the shard that made it, so counting needs no lock and
//! no atomic addition; a scrape adds up what all shards have counted.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// Upper bounds of the histograms, in microseconds.
const BOUNDS_US: [u32; 16] = [
    100, 250, 500, 1000, 2500, 5000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 10_000_000, 60_000_000,
];

/// A phase of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Total,
    Queue,
    Local,
    Remote,
    Throttle,
    Send,
}

/// The phases with their names in Kafka, in the order of [`Phase`].
const PHASES: [(Phase, &str, &str); 6] = [
    (
        Phase::Total,
        "totaltimems",
        "Milliseconds from a request being read to its answer being ready",
    ),
    (
        Phase::Queue,
        "requestqueuetimems",
        "Milliseconds from a request being read to its handler beginning",
    ),
    (
        Phase::Local,
        "localtimems",
        "Milliseconds from the handler beginning until it first waits",
    ),
    (
        Phase::Remote,
        "remotetimems",
        "Milliseconds from the handler first waiting to the answer being ready",
    ),
    (
        Phase::Throttle,
        "throttletimems",
        "Milliseconds for which the client is held back after the request",
    ),
    (
        Phase::Send,
        "responsesendtimems",
        "Milliseconds from the answer being ready to its bytes being written",
    ),
];

/// Times of one phase.
#[derive(Default, Debug)]
struct Histogram {
    counts: [AtomicU64; BOUNDS_US.len() + 1],
    sum_ns: AtomicU64,
}

impl Histogram {
    fn add(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let is_below = |bound: &&u32| u64::from(**bound).saturating_mul(1000) < ns;
        let at = BOUNDS_US.iter().take_while(is_below).count();
        if let Some(count) = self.counts.get(at) {
            add(count, 1);
        }
        add(&self.sum_ns, ns);
    }
}

/// Adds to a number that no other thread writes.
fn add(to: &AtomicU64, amount: u64) {
    let sum = to.load(Ordering::Relaxed).wrapping_add(amount);
    to.store(sum, Ordering::Relaxed);
}

/// Times of one kind of request on one shard.
#[derive(Default, Debug)]
pub(super) struct Times([Histogram; PHASES.len()]);

impl Times {
    /// Counts a time; only the shard that made this may call it.
    pub(super) fn add(&self, phase: Phase, time: Duration) {
        let at = phase as usize;
        if let Some(histogram) = self.0.get(at) {
            histogram.add(time);
        }
    }
}

/// Times of all requests on all shards; clones share them.
#[derive(Clone, Default, Debug)]
// Bounded: the rows of the table of requests with their versions, for each of `num.shards`.
pub(super) struct TimeMetrics(Arc<Mutex<Vec<NamedTimes>>>);

/// The times of the requests of one API, with its name.
type NamedTimes = (&'static str, Arc<Times>);

impl TimeMetrics {
    /// Creates and registers them.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register_collector(Box::new(metrics.clone()));
        metrics
    }

    /// Returns new times for a request, to be written by one shard.
    pub(super) fn of(&self, request: &'static str) -> Arc<Times> {
        let times = Arc::new(Times::default());
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push((request, Arc::clone(&times)));
        times
    }
}

#[derive(Clone, Debug, EncodeLabelSet)]
struct Labels {
    request: &'static str,
}

/// The sum over shards and versions.
#[derive(Default)]
struct Sum {
    counts: [u64; BOUNDS_US.len() + 1],
    sum_ns: u64,
}

impl Sum {
    fn add(&mut self, histogram: &Histogram) {
        for (sum, count) in self.counts.iter_mut().zip(&histogram.counts) {
            *sum = sum.wrapping_add(count.load(Ordering::Relaxed));
        }
        let sum_ns = histogram.sum_ns.load(Ordering::Relaxed);
        self.sum_ns = self.sum_ns.wrapping_add(sum_ns);
    }

    /// Returns the counts with their upper bounds in milliseconds.
    fn buckets(&self) -> Vec<(f64, u64)> {
        let bounds = BOUNDS_US.iter().map(|bound| f64::from(*bound) / 1000.0);
        let counts = self.counts.iter().copied();
        bounds.chain([f64::INFINITY]).zip(counts).collect()
    }
}

impl Collector for TimeMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (phase, name, help) in PHASES {
            let mut sums: BTreeMap<&'static str, Sum> = BTreeMap::new();
            for (request, times) in all.iter() {
                if let Some(histogram) = times.0.get(phase as usize) {
                    sums.entry(*request).or_default().add(histogram);
                }
            }
            let name = format!("kafka_network_requestmetrics_{name}");
            let mut metric = encoder.encode_descriptor(&name, help, None, MetricType::Histogram)?;
            for (request, sum) in sums {
                let count = sum
                    .counts
                    .iter()
                    .fold(0, |all: u64, one| all.wrapping_add(*one));
                let sum_ms = Duration::from_nanos(sum.sum_ns).as_secs_f64() * 1000.0;
                metric
                    .encode_family(&Labels { request })?
                    .encode_histogram::<NoLabelSet>(sum_ms, count, &sum.buckets(), None)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_in_the_order_of_their_names() {
        for (at, (phase, ..)) in PHASES.iter().enumerate() {
            assert_eq!(*phase as usize, at);
        }
    }

    #[test]
    fn times_of_all_shards_are_added_up_in_milliseconds() {
        let mut registry = Registry::default();
        let metrics = TimeMetrics::register(&mut registry);
        let shards = [metrics.of("Fetch"), metrics.of("Fetch")];
        metrics
            .of("Produce")
            .add(Phase::Send, Duration::from_hours(1));
        shards[0].add(Phase::Remote, Duration::from_micros(100));
        shards[0].add(Phase::Remote, Duration::from_micros(101));
        shards[1].add(Phase::Remote, Duration::from_millis(500));
        let mut shown = String::new();
        prometheus_client::encoding::text::encode(&mut shown, &registry).unwrap();
        let remote = "kafka_network_requestmetrics_remotetimems";
        let send = "kafka_network_requestmetrics_responsesendtimems";
        for line in [
            format!("{remote}_count{{request=\"Fetch\"}} 3"),
            format!("{remote}_sum{{request=\"Fetch\"}} 500.201"),
            format!("{remote}_bucket{{le=\"0.1\",request=\"Fetch\"}} 1"),
            format!("{remote}_bucket{{le=\"0.25\",request=\"Fetch\"}} 2"),
            format!("{remote}_bucket{{le=\"500.0\",request=\"Fetch\"}} 3"),
            format!("{send}_bucket{{le=\"60000.0\",request=\"Produce\"}} 0"),
            format!("{send}_bucket{{le=\"+Inf\",request=\"Produce\"}} 1"),
        ] {
            assert!(
                shown.lines().any(|has| has == line),
                "{line} is not in\n{shown}"
            );
        }
    }
}
