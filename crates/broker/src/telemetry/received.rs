//! The metrics of clients, as metrics of the broker: the last value of each series, and the number
//! of pushes.
//!
//! Deltas since the last push are added up. Bounded (`telemetry/retained.rs`): what exceeds the
//! bounds is counted and dropped. The series of a client are removed with the client. Texts of
//! clients are escaped, because an operator may read `/metrics` on a terminal.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use wire::batch::compression::Compression;
use wire::telemetry::{self, Sample, Samples};
use wire::text::escaped;
use wire::types::{ErrorCode, Uuid, uuid_to_base64};

use super::retained::{Bounds, RetainedSeries, SeriesMemory};
use super::{Client, Subscription};

/// Maximum series of one client, and their bytes.
const CLIENT_SERIES_MAX: usize = 500;
const CLIENT_BYTES_MAX: usize = 512 << 10;
/// Maximum series of all clients of a shard.
const SERIES_MAX: usize = 20_000;
/// Maximum bytes of the series of all clients, over all shards.
pub const BYTES_MAX: usize = 32 << 20;
const _: () = assert!(CLIENT_SERIES_MAX < SERIES_MAX, "one client is not all");
const _: () = assert!(CLIENT_BYTES_MAX < BYTES_MAX, "one client is not all");
const _: () = assert!(
    CLIENT_SERIES_MAX * SERIES_BYTES <= CLIENT_BYTES_MAX,
    "a client has room for the series that it may have"
);

/// The bounds of decoding a push.
const READ: telemetry::Bounds = telemetry::Bounds {
    samples: 5000,
    name_bytes: 256,
    attributes_bytes: 1024,
    fields: 300_000,
};
/// Memory of a series in addition to its texts: two labels, a value, and their entries.
const SERIES_BYTES: usize = 512;

/// A series; clones share its texts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SeriesLabel {
    client_instance_id: Arc<str>,
    client_id: Arc<str>,
    metric: Arc<str>,
    attributes: Arc<str>,
}

impl SeriesMemory for SeriesLabel {
    // Counts each text as if it were not shared, so that the size of the `/metrics` page is bounded
    // too.
    fn bytes(&self) -> usize {
        let texts = [
            &self.client_instance_id,
            &self.client_id,
            &self.metric,
            &self.attributes,
        ];
        let texts = texts.into_iter().map(|text| text.len());
        texts.fold(SERIES_BYTES, usize::saturating_add)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ErrorLabel {
    error: String,
}

/// Counters and values, shared by all shards.
#[derive(Clone, Debug)]
pub struct Metrics {
    instances: Gauge,
    pushes: Counter,
    bytes: Counter,
    dropped: Counter,
    given_up: Counter,
    series: Gauge,
    retained: Gauge,
    refused: Family<ErrorLabel, Counter>,
    values: Family<SeriesLabel, Gauge<f64, AtomicU64>>,
}

impl Metrics {
    /// Creates and registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            instances: Gauge::default(),
            pushes: Counter::default(),
            bytes: Counter::default(),
            dropped: Counter::default(),
            given_up: Counter::default(),
            series: Gauge::default(),
            retained: Gauge::default(),
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
            "Values of clients' metrics that nobody asked for or that found no room",
            metrics.dropped.clone(),
        );
        registry.register(
            "kafka_server_clientmetrics_given_up",
            "Series of clients' metrics given up for those of other addresses",
            metrics.given_up.clone(),
        );
        registry.register(
            "kafka_server_clientmetrics_series",
            "Series of clients' metrics that are kept",
            metrics.series.clone(),
        );
        registry.register(
            "kafka_server_clientmetrics_retained_bytes",
            "Bytes of memory for the series of clients' metrics",
            metrics.retained.clone(),
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

/// The metrics from the clients of one shard.
pub struct ReceivedMetrics {
    metrics: Metrics,
    retained: RefCell<RetainedSeries<SeriesLabel>>,
    /// This shard's last contribution to the gauges.
    instances: Cell<i64>,
    series: Cell<i64>,
    bytes: Cell<i64>,
}

impl ReceivedMetrics {
    /// Returns the state without metrics.
    pub fn new(metrics: Metrics, shards: usize) -> Self {
        let bounds = Bounds {
            client_series: CLIENT_SERIES_MAX,
            client_bytes: CLIENT_BYTES_MAX,
            series: SERIES_MAX,
            bytes: BYTES_MAX / shards.max(1),
        };
        Self {
            metrics,
            retained: RefCell::new(RetainedSeries::new(bounds)),
            instances: Cell::new(0),
            series: Cell::new(0),
            bytes: Cell::new(0),
        }
    }

    pub(super) fn count_instances(&self, now: usize) {
        add(&self.metrics.instances, &self.instances, now);
    }

    pub(super) fn refused(&self, code: ErrorCode) {
        let error = format!("{code:?}");
        self.metrics
            .refused
            .get_or_create(&ErrorLabel { error })
            .inc();
    }

    /// Stores the requested metrics of a push that was judged.
    ///
    /// Refuses bytes that are not metrics, or that exceed `plain_max` or the bounds of a push.
    pub fn take(
        &self,
        client: &Client,
        asked: &Subscription,
        codec: Compression,
        pushed: &[u8],
        plain_max: usize,
    ) -> Result<(), ErrorCode> {
        if self.wants(asked, pushed.len()) {
            let samples = self.readable(Self::read(codec, pushed, plain_max))?;
            self.keep(client, asked, samples);
        }
        Ok(())
    }

    /// Counts a push of this many bytes; returns false if it need not be decoded, because no
    /// metrics were requested.
    pub(crate) fn wants(&self, asked: &Subscription, bytes: usize) -> bool {
        self.metrics.pushes.inc();
        self.metrics.bytes.inc_by(bytes as u64);
        !asked.metrics.is_empty()
    }

    /// Decodes a push; `None` if it is not metrics, or exceeds the bounds.
    pub(crate) fn read(codec: Compression, pushed: &[u8], plain_max: usize) -> Option<Samples> {
        let plain = codec.decompress(pushed, plain_max).ok()?;
        telemetry::samples(&plain, READ).ok()
    }

    /// Returns the samples, if there are any; counts refusals and samples beyond the bounds.
    pub(crate) fn readable(&self, samples: Option<Samples>) -> Result<Vec<Sample>, ErrorCode> {
        let Some(samples) = samples else {
            self.refused(ErrorCode::InvalidRecord);
            return Err(ErrorCode::InvalidRecord);
        };
        self.metrics.dropped.inc_by(samples.beyond as u64);
        Ok(samples.samples)
    }

    /// Returns the bytes stored for this shard's clients.
    pub fn retained_bytes(&self) -> usize {
        self.retained.borrow().bytes()
    }

    /// Stores the requested samples of a client.
    pub(crate) fn keep(&self, client: &Client, asked: &Subscription, samples: Vec<Sample>) {
        let instance: Arc<str> = uuid_to_base64(client.id).into();
        let client_id: Arc<str> = escaped(&client.called).into();
        let mut retained = self.retained.borrow_mut();
        for sample in samples {
            if !asked.wants(&sample.name) {
                self.metrics.dropped.inc();
                continue;
            }
            let label = SeriesLabel {
                client_instance_id: Arc::clone(&instance),
                client_id: Arc::clone(&client_id),
                attributes: escaped(&sample.attributes).into(),
                metric: escaped(&sample.name).into(),
            };
            let verdict = retained.keep(client.id, client.holder(), &label);
            self.metrics.given_up.inc_by(verdict.given_up.len() as u64);
            for gone in verdict.given_up {
                self.metrics.values.remove(&gone);
            }
            if verdict.is_kept {
                self.show(&label, &sample);
            } else {
                self.metrics.dropped.inc();
            }
        }
        self.count(&retained);
    }

    fn show(&self, label: &SeriesLabel, sample: &Sample) {
        let gauge = self.metrics.values.get_or_create(label);
        if !sample.is_delta {
            gauge.set(sample.value);
        } else if sample.value.is_finite() {
            gauge.inc_by(sample.value);
        }
    }

    pub(super) fn forget(&self, id: Uuid) {
        let mut retained = self.retained.borrow_mut();
        for gone in retained.forget(id) {
            self.metrics.values.remove(&gone);
        }
        self.count(&retained);
    }

    fn count(&self, retained: &RetainedSeries<SeriesLabel>) {
        add(&self.metrics.series, &self.series, retained.series());
        add(&self.metrics.retained, &self.bytes, retained.bytes());
    }
}

/// Updates a gauge of all shards; `mine` is this shard's last contribution.
fn add(gauge: &Gauge, mine: &Cell<i64>, now: usize) {
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    gauge.inc_by(now.saturating_sub(mine.replace(now)));
}
