//! What clients measured, as metrics of the broker: the last value of each series, and how many pushes there were.
//!
//! Amounts since the last push are added up. Bounded: so many series of one client and of all that a shard knows; what
//! is beyond is counted and dropped. A client that is forgotten takes its series with it.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use wire::telemetry::Sample;
use wire::types::{ErrorCode, Uuid, uuid_to_base64};

/// Series of one client.
const CLIENT_SERIES_MAX: usize = 500;
/// Series of all clients of a shard.
const SERIES_MAX: usize = 20_000;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SeriesLabel {
    client_instance_id: Arc<str>,
    client_id: Arc<str>,
    metric: String,
    attributes: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ErrorLabel {
    error: String,
}

/// Counters and values, shared by all shards.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    instances: Gauge,
    pushes: Counter,
    bytes: Counter,
    dropped: Counter,
    refused: Family<ErrorLabel, Counter>,
    values: Family<SeriesLabel, Gauge<f64, AtomicU64>>,
}

impl Metrics {
    /// Makes and registers them.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            instances: Gauge::default(),
            pushes: Counter::default(),
            bytes: Counter::default(),
            dropped: Counter::default(),
            refused: Family::default(),
            values: Family::default(),
        };
        registry.register(
            "kafka_server_clientmetrics_instances",
            "Clients that take part in telemetry",
            metrics.instances.clone(),
        );
        registry.register(
            "kafka_server_clientmetrics_pushes",
            "Pushes of clients' metrics",
            metrics.pushes.clone(),
        );
        registry.register(
            "kafka_server_clientmetrics_bytes",
            "Bytes of clients' metrics, compressed",
            metrics.bytes.clone(),
        );
        registry.register(
            "kafka_server_clientmetrics_dropped",
            "Values of clients' metrics beyond the bound of series",
            metrics.dropped.clone(),
        );
        registry.register(
            "kafka_server_clientmetrics_refused",
            "Telemetry requests refused, by error",
            metrics.refused.clone(),
        );
        registry.register(
            "forebay_client_metric",
            "Last value of what clients measure",
            metrics.values.clone(),
        );
        metrics
    }
}

/// What the clients of one shard have sent.
pub(crate) struct Received {
    metrics: Metrics,
    series: RefCell<HashMap<Uuid, HashSet<SeriesLabel>>>,
    series_count: Cell<usize>,
    instances: Cell<i64>,
}

impl Received {
    /// Nothing yet.
    pub(crate) fn new(metrics: Metrics) -> Self {
        Self {
            metrics,
            series: RefCell::default(),
            series_count: Cell::new(0),
            instances: Cell::new(0),
        }
    }

    pub(super) fn count_instances(&self, now: usize) {
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        self.metrics
            .instances
            .inc_by(now - self.instances.replace(now));
    }

    pub(super) fn refused(&self, code: ErrorCode) {
        let error = format!("{code:?}");
        self.metrics
            .refused
            .get_or_create(&ErrorLabel { error })
            .inc();
    }

    /// A push whose bytes are no metrics.
    pub(crate) fn malformed(&self) {
        self.refused(ErrorCode::InvalidRecord);
    }

    /// Keeps what a client measured; `bytes` is what it sent.
    pub(crate) fn keep(&self, id: Uuid, client_id: &str, samples: Vec<Sample>, bytes: usize) {
        self.metrics.pushes.inc();
        self.metrics.bytes.inc_by(bytes as u64);
        let instance: Arc<str> = uuid_to_base64(id).into();
        let client_id: Arc<str> = client_id.into();
        let mut series = self.series.borrow_mut();
        let of_client = series.entry(id).or_default();
        for sample in samples {
            let label = SeriesLabel {
                client_instance_id: Arc::clone(&instance),
                client_id: Arc::clone(&client_id),
                attributes: shown(&sample.attributes),
                metric: sample.name,
            };
            if !of_client.contains(&label) {
                if of_client.len() >= CLIENT_SERIES_MAX || self.series_count.get() >= SERIES_MAX {
                    self.metrics.dropped.inc();
                    continue;
                }
                of_client.insert(label.clone());
                self.series_count.set(self.series_count.get() + 1);
            }
            let gauge = self.metrics.values.get_or_create(&label);
            if sample.is_delta {
                gauge.inc_by(sample.value);
            } else {
                gauge.set(sample.value);
            }
        }
    }

    pub(super) fn forget(&self, id: Uuid) {
        for label in self.series.borrow_mut().remove(&id).into_iter().flatten() {
            self.metrics.values.remove(&label);
            self.series_count.set(self.series_count.get() - 1);
        }
    }
}

/// Attributes as one label, in their order.
fn shown(attributes: &[(String, String)]) -> String {
    let pairs = attributes
        .iter()
        .map(|(key, value)| format!("{key}={value}"));
    pairs.collect::<Vec<_>>().join(",")
}
