//! What the group coordinators of all shards count, added up.

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Gauges, shared by all shards.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Partitions of `__consumer_offsets` whose groups are not served, because they could not be read or their log failed.
    pub failed_partitions: Gauge,
    /// Partitions of `__consumer_offsets` whose groups change nothing, because what they have written is not in the log yet.
    pub stalled_partitions: Gauge,
    /// Bytes of what groups keep, about.
    pub state_bytes: Gauge,
}

impl Metrics {
    /// Makes and registers them.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let mut gauge = |name: &str, help: &str| {
            let gauge = Gauge::default();
            registry.register(name, help, gauge.clone());
            gauge
        };
        Self {
            failed_partitions: gauge(
                "forebay_group_coordinator_failed_partitions",
                "Partitions of __consumer_offsets whose groups are not served",
            ),
            stalled_partitions: gauge(
                "forebay_group_coordinator_stalled_partitions",
                "Partitions of __consumer_offsets whose groups wait for the log",
            ),
            state_bytes: gauge(
                "forebay_group_coordinator_state_bytes",
                "Bytes of what groups keep, about",
            ),
        }
    }
}
