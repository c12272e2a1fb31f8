//! Metrics of the group coordinators, added up over all shards.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::groups::Rebalances;

/// Gauges and counters, shared by all shards.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Partitions of `__consumer_offsets` whose groups are not served: they are unreadable or their
    /// log failed.
    pub failed_partitions: Gauge,
    /// Partitions of `__consumer_offsets` whose groups cannot change while earlier records are not
    /// committed.
    pub stalled_partitions: Gauge,
    /// Approximate bytes of the groups.
    pub state_bytes: Gauge,
    classic_rebalances: Counter,
    consumer_rebalances: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProtocolLabel {
    protocol: &'static str,
}

impl Metrics {
    /// Creates and registers them.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let rebalances = Family::<ProtocolLabel, Counter>::default();
        registry.register(
            "forebay_group_rebalances",
            "Complete rebalances of groups, by protocol",
            rebalances.clone(),
        );
        let of_protocol =
            |protocol| Counter::clone(&rebalances.get_or_create(&ProtocolLabel { protocol }));
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
            classic_rebalances: of_protocol("classic"),
            consumer_rebalances: of_protocol("consumer"),
        }
    }

    /// Counts rebalances.
    pub(super) fn rebalanced(&self, rebalances: Rebalances) {
        self.classic_rebalances.inc_by(rebalances.classic);
        self.consumer_rebalances.inc_by(rebalances.consumer);
    }
}
