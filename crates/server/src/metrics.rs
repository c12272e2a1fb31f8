//! Metrics: the registry that all crates register with, and what the server itself counts.
//!
//! Names are those that dashboards over Kafka's JMX exporter query, and `forebay_*` where Kafka has
//! none. Each crate declares its own names once; `docs/metrics.md` lists them all.

mod connections;
mod dirs;
mod logs;
mod process;
mod requests;

use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::version;

pub use connections::{ConnectionMetrics, ListenerMetrics, OpenCount};
pub use dirs::{DirMetrics, DirRow};
pub use logs::{LogMetrics, LogRow};
pub use requests::{RequestKind, RequestMeter, RequestMetrics};

/// The registry of the process; clones share it.
#[derive(Clone, Default, Debug)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
}

impl Metrics {
    /// Creates a registry with the metrics of the process itself.
    pub fn new() -> Self {
        let metrics = Self::default();
        metrics.register(|registry| {
            let build = Info::new([("version", version::VERSION), ("commit", version::COMMIT)]);
            registry.register("forebay_build", "What runs; the value is always 1", build);
            registry.register_collector(Box::new(process::Process::new()));
        });
        metrics
    }

    /// Registers the metrics of a crate.
    pub fn register<T>(&self, register: impl FnOnce(&mut Registry) -> T) -> T {
        register(&mut self.registry.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns all metrics as text, in the `OpenMetrics` format.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        // Writing to a `String` cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::types::TopicPartition;

    #[test]
    fn logs_are_shown_by_partition_until_they_are_gone() {
        let metrics = Metrics::new();
        let logs = metrics.register(LogMetrics::register);
        let partition = TopicPartition {
            topic: "orders".into(),
            partition: 3,
        };
        let row = LogRow {
            partition,
            size_bytes: 10,
            start_offset: 2,
            end_offset: 5,
            segments: 1,
        };
        logs.replace(0, vec![row]);
        let text = metrics.text();
        for line in [
            "# TYPE kafka_log_log_size gauge\n",
            "kafka_log_log_size{topic=\"orders\",partition=\"3\"} 10\n",
            "kafka_log_log_logstartoffset{topic=\"orders\",partition=\"3\"} 2\n",
            "kafka_log_log_logendoffset{topic=\"orders\",partition=\"3\"} 5\n",
            "kafka_log_log_numlogsegments{topic=\"orders\",partition=\"3\"} 1\n",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        logs.replace(0, Vec::new());
        assert!(!metrics.text().contains("orders"));
    }
}
