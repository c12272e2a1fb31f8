//! Sizes, offsets and replicas of partitions, under the names of Kafka and of `kafka_exporter`.
//!
//! Each shard replaces its rows before a scrape, so that a deleted topic leaves no row behind. Only
//! partitions that this node leads have rows, as in Kafka. Invariant: a shard that replaces its
//! rows does not wait for a page that is being written. Not here: which replicas are in sync (the
//! metadata say so).

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use wire::types::TopicPartition;

/// One log at the time of a scrape.
#[derive(Clone, Debug)]
pub struct LogRow {
    /// The partition.
    pub partition: TopicPartition,
    /// Bytes of its segments.
    pub size_bytes: u64,
    /// Log start offset.
    pub start_offset: i64,
    /// Log end offset.
    pub end_offset: i64,
    /// Number of segments.
    pub segments: u64,
    /// Offset up to which consumers may read.
    pub high_watermark: i64,
    /// Memory of the producers that it remembers, about.
    pub producer_bytes: u64,
    /// Its replicas.
    pub replicas: Replicas,
}

/// How many replicas a partition has, and how many it needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Replicas {
    /// Number of replicas.
    pub count: usize,
    /// Number of replicas in sync.
    pub in_sync: usize,
    /// `min.insync.replicas` of the topic.
    pub in_sync_min: usize,
    /// True if the first of its replicas leads it.
    pub is_led_by_preferred: bool,
}

impl Replicas {
    /// Returns the number of replicas in sync that writes need; as in Kafka, never more than there
    /// are replicas.
    fn needed(self) -> usize {
        self.in_sync_min.min(self.count)
    }

    fn is_under_min(self) -> bool {
        self.in_sync < self.needed()
    }

    fn is_at_min(self) -> bool {
        self.in_sync == self.needed()
    }

    fn is_under_replicated(self) -> bool {
        self.in_sync < self.count
    }
}

/// The logs of all shards; clones share them.
#[derive(Clone, Default, Debug)]
pub struct LogMetrics {
    // Unbounded: a row for each partition, as many as were created.
    rows: Arc<Mutex<BTreeMap<usize, Arc<Vec<LogRow>>>>>,
}

impl LogMetrics {
    /// Creates and registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register_collector(Box::new(metrics.clone()));
        metrics
    }

    /// Replaces the logs of one shard.
    pub fn replace(&self, shard: usize, rows: Vec<LogRow>) {
        let rows = Arc::new(rows);
        let mut shards = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let old = shards.insert(shard, rows);
        drop(shards);
        // There may be many: they are freed when others can lock again.
        drop(old);
    }

    /// Returns the logs of each shard.
    fn shards(&self) -> Vec<Arc<Vec<LogRow>>> {
        let shards = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        shards.values().cloned().collect()
    }

    /// Returns the high watermark of every partition.
    pub(super) fn high_watermarks(&self) -> HashMap<(Arc<str>, i32), i64> {
        let shards = self.shards();
        let rows = all(&shards);
        rows.map(|row| {
            let TopicPartition { topic, partition } = &row.partition;
            ((Arc::clone(topic), *partition), row.high_watermark)
        })
        .collect()
    }
}

#[derive(Clone, Debug, EncodeLabelSet)]
struct Labels {
    topic: String,
    partition: i32,
}

#[derive(Clone, Debug, EncodeLabelSet)]
struct TopicLabel {
    topic: String,
}

/// A name, its help text, and the function that reads the value from a row.
type Series = (&'static str, &'static str, fn(&LogRow) -> i64);

/// Values of each partition.
const SERIES: [Series; 12] = [
    ("kafka_log_log_size", "Bytes of a log", |row| {
        signed(row.size_bytes)
    }),
    ("kafka_log_log_logstartoffset", "Log start offset", |row| {
        row.start_offset
    }),
    ("kafka_log_log_logendoffset", "Log end offset", |row| {
        row.end_offset
    }),
    ("kafka_log_log_numlogsegments", "Segments of a log", |row| {
        signed(row.segments)
    }),
    (
        "kafka_cluster_partition_underminisr",
        "1: fewer replicas in sync than min.insync.replicas",
        |row| row.replicas.is_under_min().into(),
    ),
    (
        "kafka_cluster_partition_atminisr",
        "1: as many replicas in sync as min.insync.replicas",
        |row| row.replicas.is_at_min().into(),
    ),
    (
        "kafka_topic_partition_current_offset",
        "High watermark",
        |row| row.high_watermark,
    ),
    (
        "kafka_topic_partition_oldest_offset",
        "Log start offset",
        |row| row.start_offset,
    ),
    ("kafka_topic_partition_replicas", "Replicas", |row| {
        signed(row.replicas.count as u64)
    }),
    (
        "kafka_topic_partition_in_sync_replica",
        "Replicas in sync",
        |row| signed(row.replicas.in_sync as u64),
    ),
    (
        "kafka_topic_partition_under_replicated_partition",
        "1: not all replicas are in sync",
        |row| row.replicas.is_under_replicated().into(),
    ),
    (
        "kafka_topic_partition_leader_is_preferred",
        "1: the first of its replicas leads it",
        |row| row.replicas.is_led_by_preferred.into(),
    ),
];

/// Sums over the partitions of this node.
const TOTALS: [Series; 3] = [
    (
        "kafka_server_replicamanager_underminisrpartitioncount",
        "Partitions with fewer replicas in sync than min.insync.replicas",
        |row| row.replicas.is_under_min().into(),
    ),
    (
        "kafka_server_replicamanager_atminisrpartitioncount",
        "Partitions with as many replicas in sync as min.insync.replicas",
        |row| row.replicas.is_at_min().into(),
    ),
    (
        "forebay_producer_state_bytes",
        "Bytes of the producers that partitions remember, about",
        |row| signed(row.producer_bytes),
    ),
];

impl Collector for LogMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let shards = self.shards();
        for (name, help, value) in SERIES {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for row in all(&shards) {
                let labels = Labels {
                    topic: row.partition.topic.to_string(),
                    partition: row.partition.partition,
                };
                ConstGauge::new(value(row)).encode(metric.encode_family(&labels)?)?;
            }
        }
        for (name, help, value) in TOTALS {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            let sum = all(&shards).fold(0, |sum: i64, row| sum.saturating_add(value(row)));
            ConstGauge::new(sum).encode(metric)?;
        }
        let mut partitions: BTreeMap<&str, i64> = BTreeMap::new();
        for row in all(&shards) {
            let count = partitions.entry(&row.partition.topic).or_default();
            *count = count.saturating_add(1);
        }
        let name = "kafka_topic_partitions";
        let help = "Partitions of a topic";
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (topic, count) in partitions {
            let label = TopicLabel {
                topic: topic.to_owned(),
            };
            ConstGauge::new(count).encode(metric.encode_family(&label)?)?;
        }
        Ok(())
    }
}

/// Returns the rows of all shards.
fn all(shards: &[Arc<Vec<LogRow>>]) -> impl Iterator<Item = &LogRow> {
    shards.iter().flat_map(|rows| rows.iter())
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use prometheus_client::encoding::text;
    use std::sync::mpsc;
    use std::time::Duration;

    /// A page during whose writing something else happens.
    struct Page<'a> {
        beside: &'a mut dyn FnMut(),
    }

    impl fmt::Write for Page<'_> {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            if text.contains("meanwhile") {
                (self.beside)();
            }
            Ok(())
        }
    }

    /// Checks that `replace` does not wait for a page that is being written; some label of the
    /// page is `meanwhile`.
    pub(in crate::metrics) fn does_not_wait_for_a_page(
        registry: &Registry,
        replace: impl Fn() + Clone + Send + 'static,
    ) {
        let mut replaced = 0;
        let mut beside = || {
            let (done, is_done) = mpsc::channel();
            let replace = replace.clone();
            std::thread::spawn(move || {
                replace();
                let _ = done.send(());
            });
            let waited = is_done.recv_timeout(Duration::from_secs(10));
            assert!(waited.is_ok(), "it waits for the page");
            replaced += 1;
        };
        let mut page = Page {
            beside: &mut beside,
        };
        text::encode(&mut page, registry).unwrap();
        assert!(replaced > 0);
    }

    #[test]
    fn a_shard_does_not_wait_for_a_page_to_show_its_logs() {
        let mut registry = Registry::default();
        let logs = LogMetrics::register(&mut registry);
        let row = LogRow {
            partition: TopicPartition {
                topic: "meanwhile".into(),
                partition: 0,
            },
            size_bytes: 1,
            start_offset: 0,
            end_offset: 0,
            segments: 1,
            high_watermark: 0,
            producer_bytes: 0,
            replicas: Replicas {
                count: 1,
                in_sync: 1,
                in_sync_min: 1,
                is_led_by_preferred: true,
            },
        };
        logs.replace(0, vec![row]);
        does_not_wait_for_a_page(&registry, move || logs.replace(0, Vec::new()));
    }
}
