//! Metrics: the registry that all crates register with, and what the server itself counts.
//!
//! Names are those that dashboards over Kafka's JMX exporter query, and `forebay_*` where Kafka has
//! none. Each crate declares its own names once; `docs/metrics.md` lists them all.

mod admin;
mod alone;
mod audit;
mod connections;
mod dirs;
pub mod exposition;
mod groups;
mod idle;
mod logs;
mod oauth;
mod process;
mod requests;
mod room;
mod secured;
mod times;

use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::version;

pub use admin::AdminMetrics;
pub use audit::AuditMetrics;
pub use connections::{ConnectionMetrics, ListenerMetrics, OpenCount};
pub use dirs::{DirMetrics, DirRow};
use exposition::Format;
pub use groups::{GroupMetrics, SHOWN_BYTES_MAX};
pub use idle::IdleMetrics;
pub use logs::{LogMetrics, LogRow, Replicas};
pub use oauth::OauthMetrics;
pub(crate) use requests::Timing;
pub use requests::{RequestKind, RequestMeter, RequestMetrics};
pub use room::{RoomMetrics, TierDir};
pub use secured::{SecuredCount, TlsMetrics};

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
            registry.register_collector(Box::new(alone::AbsentReplicas));
        });
        metrics
    }

    /// Registers the metrics of a crate.
    pub fn register<T>(&self, register: impl FnOnce(&mut Registry) -> T) -> T {
        register(&mut self.registry.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns all metrics as a page, with the further names that dashboards ask for.
    pub fn page(&self, format: Format) -> String {
        exposition::page(&self.text(), format)
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
            high_watermark: 4,
            producer_bytes: 600,
            replicas: Replicas {
                count: 3,
                in_sync: 1,
                in_sync_min: 2,
                is_led_by_preferred: true,
            },
        };
        logs.replace(0, vec![row]);
        let text = metrics.text();
        for line in [
            "# TYPE kafka_log_log_size gauge\n",
            "kafka_log_log_size{topic=\"orders\",partition=\"3\"} 10\n",
            "kafka_log_log_logstartoffset{topic=\"orders\",partition=\"3\"} 2\n",
            "kafka_log_log_logendoffset{topic=\"orders\",partition=\"3\"} 5\n",
            "kafka_log_log_numlogsegments{topic=\"orders\",partition=\"3\"} 1\n",
            "kafka_topic_partition_current_offset{topic=\"orders\",partition=\"3\"} 4\n",
            "kafka_topic_partition_in_sync_replica{topic=\"orders\",partition=\"3\"} 1\n",
            "kafka_topic_partition_leader_is_preferred{topic=\"orders\",partition=\"3\"} 1\n",
            "kafka_topic_partition_under_replicated_partition{topic=\"orders\",partition=\"3\"} 1\n",
            "kafka_cluster_partition_underminisr{topic=\"orders\",partition=\"3\"} 1\n",
            "kafka_cluster_partition_atminisr{topic=\"orders\",partition=\"3\"} 0\n",
            "kafka_server_replicamanager_underminisrpartitioncount 1\n",
            "kafka_server_replicamanager_atminisrpartitioncount 0\n",
            "kafka_topic_partitions{topic=\"orders\"} 1\n",
            "forebay_producer_state_bytes 600\n",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        logs.replace(0, Vec::new());
        assert!(!metrics.text().contains("orders"));
    }
}
