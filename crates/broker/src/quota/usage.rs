//! What clients with quotas use and how long they are held back, as the metrics show it.
//!
//! Each shard shows the buckets that it counts before a scrape. The names are those of Kafka's
//! metrics by user and client id; what all users or all client ids share has an empty label.
//! Invariant: names are escaped, and no two rows have the same ones, as a page with a row twice
//! would be refused as a whole. Not here: which buckets are shown (`places.rs`).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use platform::sync::watch;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use wire::text::escaped;

use super::QuotaKind;
use super::limits::Bucket;
use crate::metrics::lately::Durations;

/// Kinds of quotas, each with its name in metrics, the name of its usage, and what that is.
const KINDS: [(QuotaKind, &str, &str, &str); 3] = [
    (
        QuotaKind::Produce,
        "produce",
        "byte_rate",
        "Bytes a second that clients with a quota send in Produce requests",
    ),
    (
        QuotaKind::Fetch,
        "fetch",
        "byte_rate",
        "Bytes a second that clients with a quota are sent in answers to Fetch",
    ),
    (
        QuotaKind::Request,
        "request",
        "request_time",
        "Share of a thread, in percent, that requests of clients with a quota take",
    ),
];

/// What a bucket has used.
#[derive(Clone, Debug)]
pub(super) struct BucketUsage {
    pub(super) bucket: Bucket,
    /// Usage per second.
    pub(super) per_second: f64,
    /// How long its clients were held back, lately.
    pub(super) pauses: Durations,
}

/// What one shard shows.
#[derive(Clone, Default, Debug)]
pub(crate) struct ShardUsage {
    /// The buckets that have a place.
    pub(super) buckets: Vec<BucketUsage>,
    /// Charges of buckets without one, since the start.
    pub(super) left_out: u64,
}

/// What all shards show; clones share it.
#[derive(Clone, Default, Debug)]
// Bounded: one for each of `num.shards`.
pub(super) struct UsageMetrics(watch::Sender<BTreeMap<usize, Arc<ShardUsage>>>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct ClientLabels {
    user: String,
    client_id: String,
}

impl UsageMetrics {
    /// Replaces what one shard shows.
    pub(super) fn replace(&self, shard: usize, usage: ShardUsage) {
        self.0.send_modify(|shards| {
            shards.insert(shard, Arc::new(usage));
        });
    }
}

impl Collector for UsageMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let shards: Vec<_> = self.0.borrow().values().cloned().collect();
        let mut rows: BTreeMap<(QuotaKind, ClientLabels), &BucketUsage> = BTreeMap::new();
        for usage in shards.iter().flat_map(|shard| &shard.buckets) {
            let (kind, user, client_id) = usage.bucket.parts();
            let labels = ClientLabels {
                user: escaped(user).into_owned(),
                client_id: escaped(client_id).into_owned(),
            };
            rows.entry((kind, labels)).or_insert(usage);
        }
        for (kind, of, usage, help) in KINDS {
            let rows = || rows.iter().filter(move |((found, _), _)| *found == kind);
            let name = format!("kafka_server_{of}_{usage}");
            let mut metric = encoder.encode_descriptor(&name, help, None, MetricType::Gauge)?;
            for ((_, labels), usage) in rows() {
                ConstGauge::new(usage.per_second).encode(metric.encode_family(labels)?)?;
            }
            let name = format!("kafka_server_{of}_throttle_time");
            let help =
                "Mean of the milliseconds for which a client is held back by a quota, lately";
            let mut metric = encoder.encode_descriptor(&name, help, None, MetricType::Gauge)?;
            for ((_, labels), usage) in rows() {
                let mean_ms = usage.pauses.mean_ms();
                let shown = if mean_ms.is_nan() { 0.0 } else { mean_ms };
                ConstGauge::new(shown).encode(metric.encode_family(labels)?)?;
            }
        }
        let left_out = shards
            .iter()
            .fold(0, |all: u64, shard| all.saturating_add(shard.left_out));
        let help = "Charges of clients with quotas whose usage is not shown";
        let name = "forebay_quota_usage_left_out";
        let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(left_out).encode(metric)
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::image::QuotaTable;
    use crate::quota::Limits;

    fn usage(kind: QuotaKind, client: &str, per_second: f64) -> BucketUsage {
        let entity = [("client-id".to_owned(), None)].into();
        let quotas = [(kind.key().to_owned(), 1.0)].into();
        let limits = Limits::new(&QuotaTable::from([(entity, quotas)]));
        BucketUsage {
            bucket: limits.find(kind, "u", client).unwrap().0,
            per_second,
            pauses: Durations::default(),
        }
    }

    #[test]
    fn names_are_escaped_and_each_is_there_once() {
        let mut registry = Registry::default();
        let metrics = UsageMetrics::default();
        registry.register_collector(Box::new(metrics.clone()));
        let shard = |buckets, left_out| ShardUsage { buckets, left_out };
        let bell = usage(QuotaKind::Produce, "a\u{7}", 2.0);
        let written_so = usage(QuotaKind::Produce, "a\\u{7}", 3.0);
        let quoted = usage(QuotaKind::Fetch, "\"", 4.0);
        metrics.replace(0, shard(vec![quoted.clone(), bell], 5));
        metrics.replace(1, shard(vec![written_so], 2));
        let mut shown = String::new();
        prometheus_client::encoding::text::encode(&mut shown, &registry).unwrap();
        for line in [
            "kafka_server_produce_byte_rate{user=\"\",client_id=\"a\\\\u{7}\"} 2.0",
            "kafka_server_produce_throttle_time{user=\"\",client_id=\"a\\\\u{7}\"} 0.0",
            "kafka_server_fetch_byte_rate{user=\"\",client_id=\"\\\"\"} 4.0",
            "forebay_quota_usage_left_out_total 7",
        ] {
            assert!(shown.lines().any(|has| has == line), "{line}\n{shown}");
        }
        let samples = shown.lines().filter(|line| !line.starts_with('#'));
        assert_eq!(samples.count(), 5, "{shown}");
    }
}
