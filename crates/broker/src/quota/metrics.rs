//! How often and for how long clients are throttled, by quota, and what those with quotas use.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::QuotaKind;
use super::usage::{ShardUsage, UsageMetrics};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QuotaLabel {
    quota: &'static str,
}

/// Counters, shared by all shards.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    requests: Family<QuotaLabel, Counter>,
    ms: Family<QuotaLabel, Counter>,
    bytes: Gauge,
    usage: UsageMetrics,
}

impl Metrics {
    /// Creates and registers the metrics.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let bytes = Gauge::default();
        let help = "Bytes that it takes to know what clients with quotas have used, about";
        registry.register("forebay_quota_meters_bytes", help, bytes.clone());
        let usage = UsageMetrics::default();
        registry.register_collector(Box::new(usage.clone()));
        let mut family = |name: &str, help: &str| {
            let family = Family::default();
            registry.register(name, help, family.clone());
            family
        };
        Self {
            requests: family(
                "kafka_server_clientquota_throttledrequests",
                "Requests whose client was held back by a quota",
            ),
            ms: family(
                "kafka_server_clientquota_throttletime_ms",
                "Milliseconds for which clients were held back by a quota",
            ),
            bytes,
            usage,
        }
    }

    /// Updates the gauge of the meters' bytes.
    pub(crate) fn kept(&self, before: usize, after: usize) {
        if before != after {
            let bytes = |bytes| i64::try_from(bytes).unwrap_or(i64::MAX);
            self.bytes
                .inc_by(bytes(after).saturating_sub(bytes(before)));
        }
    }

    /// Replaces what one shard shows of the clients that it counts.
    pub(crate) fn show(&self, shard: usize, usage: ShardUsage) {
        self.usage.replace(shard, usage);
    }

    /// Counts a throttle time, unless it is zero.
    pub(crate) fn throttled(&self, kind: QuotaKind, pause: Duration) {
        if pause.is_zero() {
            return;
        }
        let label = QuotaLabel { quota: kind.key() };
        self.requests.get_or_create(&label).inc();
        let ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        self.ms.get_or_create(&label).inc_by(ms);
    }
}
