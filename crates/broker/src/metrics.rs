//! The broker's metrics, under the names that dashboards for Kafka query.
//!
//! The names are Kafka's JMX names in lower case with underscores, as the usual exporter rules
//! produce them. A series without a topic (`topic=""`) is the sum over all topics, as in Kafka.
//! Handles are atomic and shared by all shards. Units are in the names; the list for readers is
//! `docs/metrics.md`.

mod cluster;
mod errors;
pub(crate) mod lately;

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::access::Denials;
use crate::compaction;
use crate::group;
use crate::image::Image;
use crate::quota;
use crate::telemetry;
use crate::transaction::metrics::Metrics as TransactionMetrics;
use cluster::ClusterMetrics;
pub(crate) use errors::ErrorTally;
pub use errors::RequestErrors;

/// The topic label of a series; empty for the sum over all topics.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TopicLabel {
    topic: Arc<str>,
}

type ByTopic = Family<TopicLabel, Counter>;

/// The broker's metrics; clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    messages_in: ByTopic,
    bytes_in: ByTopic,
    bytes_out: ByTopic,
    bytes_rejected: ByTopic,
    produce_requests: ByTopic,
    fetch_requests: ByTopic,
    failed_produce_requests: ByTopic,
    failed_fetch_requests: ByTopic,
    /// Fetch sessions in the cache.
    pub fetch_sessions: Gauge,
    /// Bytes that fetch sessions take, approximately.
    pub fetch_session_bytes: Gauge,
    /// Fetch sessions that were evicted for others.
    pub fetch_session_evictions: Counter,
    /// Partitions of fetches that connections remember because they found nothing.
    pub(crate) quiet_partitions: Gauge,
    /// Partitions led by this node.
    pub leaders: Gauge,
    /// Partitions on this node.
    pub partitions: Gauge,
    /// Partitions whose log could not be opened or has failed.
    pub offline_partitions: Gauge,
    /// Topics in the metadata.
    pub topics: Gauge,
    /// Partitions in the metadata.
    pub all_partitions: Gauge,
    /// Partitions with fewer replicas in sync than they should have.
    pub under_replicated: Gauge,
    /// 1 while this node is the controller.
    pub controllers: Gauge,
    /// Partitions of `__transaction_state` whose transactional ids are not served, because their
    /// log failed.
    pub failed_transaction_partitions: Gauge,
    /// Bytes that transactional ids take, approximately.
    pub transaction_state_bytes: Gauge,
    /// The step of the wall clock that the broker does not accept yet, in milliseconds.
    pub clock_step: Gauge,
    /// Number of steps of the wall clock.
    pub clock_steps: Counter,
    /// Bytes that the metadata log can take on a full disk.
    pub metadata_reserve: Gauge,
    /// Partitions in which a transaction has been open for longer than the longest timeout.
    pub late_transactions: Gauge,
    /// Failed writes of checkpoint files.
    pub failed_checkpoints: Counter,
    /// How long the checkpoints of one log directory took, in seconds.
    pub(crate) checkpoint_seconds: Histogram,
    /// How long large requests waited for their turns, in seconds.
    pub(crate) bulk_waits: Histogram,
    pub(crate) cluster: ClusterMetrics,
    /// Errors that clients get.
    pub errors: RequestErrors,
    /// What clients were denied.
    pub(crate) denials: Denials,
    /// Compaction.
    pub compaction: compaction::Metrics,
    /// Group coordinators.
    pub groups: group::metrics::Metrics,
    /// Transaction coordinators.
    pub(crate) transactions: TransactionMetrics,
    /// Quotas.
    pub(crate) quotas: quota::Metrics,
    /// Telemetry of clients.
    pub(crate) telemetry: telemetry::Metrics,
}

/// The series of one topic and of all topics, looked up once.
#[derive(Clone, Debug)]
pub struct TopicMetrics {
    /// Records appended.
    pub messages_in: Pair,
    /// Bytes appended.
    pub bytes_in: Pair,
    /// Bytes sent to consumers.
    pub bytes_out: Pair,
    /// Bytes of refused batches.
    pub bytes_rejected: Pair,
    /// Produce requests, one per topic and request.
    pub produce_requests: Pair,
    /// Fetch requests, one per topic and request.
    pub fetch_requests: Pair,
    /// Produce requests answered with an error.
    pub failed_produce_requests: Pair,
    /// Fetch requests answered with an error.
    pub failed_fetch_requests: Pair,
}

/// The counters of one topic and of all topics.
#[derive(Clone, Debug)]
pub struct Pair(Counter, Counter);

impl Pair {
    /// Adds `amount` to both.
    pub fn add(&self, amount: u64) {
        self.0.inc_by(amount);
        self.1.inc_by(amount);
    }
}

/// Returns the series of a topic, and that of all topics.
fn pair(family: &ByTopic, topic: &Arc<str>) -> Pair {
    let label = TopicLabel {
        topic: Arc::clone(topic),
    };
    let one = family.get_or_create(&label).clone();
    let all = family.get_or_create(&TopicLabel { topic: "".into() });
    Pair(one, all.clone())
}

impl Metrics {
    /// Creates and registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let mut by_topic = |name, help| new_by_topic(registry, name, help);
        let messages_in = by_topic("messagesin", "Records appended");
        let bytes_in = by_topic("bytesin", "Bytes appended");
        let bytes_out = by_topic("bytesout", "Bytes sent to consumers");
        let bytes_rejected = by_topic("bytesrejected", "Bytes of refused batches");
        let produce_requests = by_topic("totalproducerequests", "Produce requests");
        let fetch_requests = by_topic("totalfetchrequests", "Fetch requests");
        let failed_produce_requests =
            by_topic("failedproducerequests", "Produce requests that failed");
        let failed_fetch_requests = by_topic("failedfetchrequests", "Fetch requests that failed");
        let [failed, state_bytes, late] = of_transactions(registry);
        let (clock_step, clock_steps) = of_the_clock(registry);
        let (fetch_sessions, fetch_session_bytes, evictions) = of_fetch_sessions(registry);
        let quiet_partitions = of_quiet_fetches(registry);
        let mut gauge = |name, help| new_gauge(registry, name, help);
        Self {
            fetch_session_evictions: evictions,
            fetch_session_bytes,
            messages_in,
            bytes_in,
            bytes_out,
            bytes_rejected,
            produce_requests,
            fetch_requests,
            failed_produce_requests,
            failed_fetch_requests,
            fetch_sessions,
            quiet_partitions,
            leaders: gauge(
                "kafka_server_replicamanager_leadercount",
                "Partitions led by this node",
            ),
            partitions: gauge(
                "kafka_server_replicamanager_partitioncount",
                "Partitions on this node",
            ),
            offline_partitions: gauge(
                "kafka_controller_kafkacontroller_offlinepartitionscount",
                "Partitions without a working leader",
            ),
            topics: gauge(
                "kafka_controller_kafkacontroller_globaltopiccount",
                "Topics",
            ),
            all_partitions: gauge(
                "kafka_controller_kafkacontroller_globalpartitioncount",
                "Partitions",
            ),
            controllers: controllers(registry),
            clock_step,
            clock_steps,
            metadata_reserve: of_the_metadata_reserve(registry),
            under_replicated: under_replicated(registry),
            failed_transaction_partitions: failed,
            transaction_state_bytes: state_bytes,
            late_transactions: late,
            failed_checkpoints: failed_checkpoints(registry),
            checkpoint_seconds: checkpoint_seconds(registry),
            bulk_waits: of_large_requests(registry),
            cluster: ClusterMetrics::register(registry),
            errors: RequestErrors::register(registry),
            denials: Denials::register(registry),
            compaction: compaction::Metrics::register(registry),
            groups: group::metrics::Metrics::register(registry),
            transactions: TransactionMetrics::register(registry),
            quotas: quota::Metrics::register(registry),
            telemetry: telemetry::Metrics::register(registry),
        }
    }

    /// Sets the gauges that depend only on the metadata, and counts what has changed since
    /// `before`.
    pub(crate) fn count_metadata(&self, before: &Image, image: &Image) {
        let (mut topics, mut partitions, mut under_replicated) = (0, 0, 0);
        for topic in image.topics() {
            topics += 1;
            for partition in topic.partitions.values() {
                partitions += 1;
                under_replicated += i64::from(partition.isr.len() < partition.replicas.len());
            }
        }
        self.topics.set(topics);
        self.all_partitions.set(partitions);
        self.under_replicated.set(under_replicated);
        self.cluster.count(before, image);
    }

    /// Returns the series of `topic`.
    pub fn topic(&self, topic: &Arc<str>) -> TopicMetrics {
        let pair = |family: &ByTopic| pair(family, topic);
        TopicMetrics {
            messages_in: pair(&self.messages_in),
            bytes_in: pair(&self.bytes_in),
            bytes_out: pair(&self.bytes_out),
            bytes_rejected: pair(&self.bytes_rejected),
            produce_requests: pair(&self.produce_requests),
            fetch_requests: pair(&self.fetch_requests),
            failed_produce_requests: pair(&self.failed_produce_requests),
            failed_fetch_requests: pair(&self.failed_fetch_requests),
        }
    }

    /// Returns the counter of a topic's fetches.
    pub(crate) fn fetches_of(&self, topic: &Arc<str>) -> Pair {
        pair(&self.fetch_requests, topic)
    }

    /// Returns the bytes that producers have sent and that consumers have been sent, over all
    /// topics.
    pub fn traffic(&self) -> (u64, u64) {
        let all = TopicLabel { topic: "".into() };
        let sum = |family: &ByTopic| family.get(&all).map_or(0, |counter| counter.get());
        (sum(&self.bytes_in), sum(&self.bytes_out))
    }

    /// Removes the series of a deleted topic.
    pub fn forget(&self, topic: &Arc<str>) {
        let label = TopicLabel {
            topic: Arc::clone(topic),
        };
        let families = [
            &self.messages_in,
            &self.bytes_in,
            &self.bytes_out,
            &self.bytes_rejected,
            &self.produce_requests,
            &self.fetch_requests,
            &self.failed_produce_requests,
            &self.failed_fetch_requests,
        ];
        for family in families {
            family.remove(&label);
        }
    }
}

/// Registers the gauges of what keeps transactions from ending.
fn of_transactions(registry: &mut Registry) -> [Gauge; 3] {
    let gauges = [
        (
            "forebay_transaction_coordinator_failed_partitions",
            "Partitions of __transaction_state whose transactional ids are not served",
        ),
        (
            "forebay_transaction_coordinator_state_bytes",
            "Bytes that transactional ids and their open transactions take, about",
        ),
        (
            "kafka_server_replicamanager_partitionswithlatetransactionscount",
            "Partitions in which a transaction is open for longer than any may take",
        ),
    ];
    gauges.map(|(name, help)| new_gauge(registry, name, help))
}

fn controllers(registry: &mut Registry) -> Gauge {
    let name = "kafka_controller_kafkacontroller_activecontrollercount";
    new_gauge(registry, name, "1 while this node is the controller")
}

fn checkpoint_seconds(registry: &mut Registry) -> Histogram {
    // From 100 microseconds, a look at files that stay the same, to 26 seconds.
    let histogram = Histogram::new(exponential_buckets(0.000_1, 4.0, 10));
    registry.register(
        "forebay_checkpoint_seconds",
        "Duration of the checkpoints of a log directory, from the offsets to the last file",
        histogram.clone(),
    );
    histogram
}

fn failed_checkpoints(registry: &mut Registry) -> Counter {
    let counter = Counter::default();
    registry.register(
        "forebay_checkpoint_failures",
        "Times that a checkpoint file of a log directory could not be written",
        counter.clone(),
    );
    counter
}

/// Registers the waits of large requests for their turns.
fn of_large_requests(registry: &mut Registry) -> Histogram {
    // Half a millisecond to 16 seconds.
    let waits = Histogram::new(exponential_buckets(0.000_5, 2.0, 16));
    let help = "Time for which a large request waited for its turns and for the share of others";
    registry.register("forebay_large_request_wait_seconds", help, waits.clone());
    waits
}

/// Registers the metrics of fetch sessions: how many there are, their bytes, evictions.
fn of_fetch_sessions(registry: &mut Registry) -> (Gauge, Gauge, Counter) {
    let evictions = Counter::default();
    registry.register(
        "kafka_server_fetchsessioncache_incrementalfetchsessionevictions",
        "Incremental fetch sessions that were evicted for others",
        evictions.clone(),
    );
    let mut gauge = |name, help| new_gauge(registry, name, help);
    let sessions = gauge(
        "kafka_server_fetchsessioncache_numincrementalfetchsessions",
        "Incremental fetch sessions kept",
    );
    let help = "Bytes that fetch sessions take, about";
    (
        sessions,
        gauge("forebay_fetch_session_state_bytes", help),
        evictions,
    )
}

fn under_replicated(registry: &mut Registry) -> Gauge {
    new_gauge(
        registry,
        "kafka_server_replicamanager_underreplicatedpartitions",
        "Partitions with replicas that are not in sync",
    )
}

/// Registers the metrics of wall clock steps.
fn of_the_clock(registry: &mut Registry) -> (Gauge, Counter) {
    let steps = Counter::default();
    registry.register(
        "forebay_clock_steps",
        "How often the wall clock was set by more than clock.step.threshold.ms",
        steps.clone(),
    );
    let help =
        "By how much the wall clock was set, while that is not believed for what is deleted by age";
    (new_gauge(registry, "forebay_clock_step_ms", help), steps)
}

fn of_the_metadata_reserve(registry: &mut Registry) -> Gauge {
    let help = "Bytes that the metadata log can take when the disk is full";
    new_gauge(registry, "forebay_metadata_log_reserved_bytes", help)
}

fn of_quiet_fetches(registry: &mut Registry) -> Gauge {
    let help = "Partitions of fetches that found nothing, which connections remember";
    new_gauge(registry, "forebay_fetch_remembered_partitions", help)
}

fn new_by_topic(registry: &mut Registry, name: &str, help: &str) -> ByTopic {
    let family = ByTopic::default();
    let name = format!("kafka_server_brokertopicmetrics_{name}");
    registry.register(name, help, family.clone());
    family
}

fn new_gauge(registry: &mut Registry, name: &str, help: &str) -> Gauge {
    let gauge = Gauge::default();
    registry.register(name, help, gauge.clone());
    gauge
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_traffic_is_the_sum_over_all_topics_with_deleted_ones() {
        let metrics = Metrics::register(&mut Registry::default());
        assert_eq!(metrics.traffic(), (0, 0), "no topic yet");
        let (one, two) = (Arc::from("one"), Arc::from("two"));
        metrics.topic(&one).bytes_in.add(5);
        metrics.topic(&one).bytes_out.add(70);
        metrics.topic(&two).bytes_in.add(6);
        metrics.forget(&one);
        assert_eq!(metrics.traffic(), (11, 70));
    }
}
