//! Sizes and offsets of logs, by partition, under Kafka's names.
//!
//! Each shard replaces its rows before a scrape, so that a deleted topic leaves no row behind.

use std::collections::BTreeMap;
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
}

/// The logs of all shards; clones share them.
#[derive(Clone, Default, Debug)]
pub struct LogMetrics {
    // Unbounded: a row for each partition, of which there are as many as were created.
    rows: Arc<Mutex<BTreeMap<usize, Vec<LogRow>>>>,
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
        self.rows
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(shard, rows);
    }
}

#[derive(Clone, Debug, EncodeLabelSet)]
struct Labels {
    topic: String,
    partition: i32,
}

/// A name, its help text, and the function that reads the value from a row.
type Series = (&'static str, &'static str, fn(&LogRow) -> i64);

const SERIES: [Series; 4] = [
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
];

impl Collector for LogMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let shards = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, help, value) in SERIES {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for row in shards.values().flatten() {
                let labels = Labels {
                    topic: row.partition.topic.to_string(),
                    partition: row.partition.partition,
                };
                ConstGauge::new(value(row)).encode(metric.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
