//! Counts and times of requests, by API and version.
//!
//! A shard looks a series up once and keeps its handles, so that a request costs one map access, a
//! few atomic additions, and a reading of the clock for each phase that it does not skip.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tokio::time::Instant;
use wire::kafka::Api;

use super::ConnectionMetrics;
use super::times::{Phase, TimeMetrics, Times};

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct VersionLabels {
    request: &'static str,
    version: i16,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct RequestLabels {
    request: &'static str,
}

/// Counts of requests; clones share them.
#[derive(Clone, Debug)]
pub struct RequestMetrics {
    requests: Family<VersionLabels, Counter>,
    bytes: Family<RequestLabels, Counter>,
    times: TimeMetrics,
}

impl RequestMetrics {
    /// Creates and registers them.
    pub fn register(registry: &mut Registry) -> Self {
        const KAFKA: &str = "kafka_network_requestmetrics";
        let metrics = Self {
            requests: Family::default(),
            bytes: Family::default(),
            times: TimeMetrics::register(registry),
        };
        let all = metrics.clone();
        registry.register(format!("{KAFKA}_requests"), "Requests taken", all.requests);
        let help = "Bytes of requests taken";
        registry.register(format!("{KAFKA}_requestbytes"), help, all.bytes);
        metrics
    }
}

/// The series of a request in progress.
#[derive(Clone, Debug)]
pub struct RequestKind {
    series: Rc<Series>,
}

/// The times of a request in progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// When it was read.
    since: Instant,
    queued: Duration,
    /// Time until its handler first waited, if it did.
    local: Option<Duration>,
}

impl Timing {
    /// Begins with a request that was read just now.
    pub(crate) fn new() -> Self {
        Self {
            since: Instant::now(),
            queued: Duration::ZERO,
            local: None,
        }
    }

    /// Notes that the handler begins after it had to wait.
    pub(crate) fn begins_late(&mut self) {
        self.queued = self.since.elapsed();
    }

    /// Notes that the handler waits for the first time.
    pub(crate) fn waits(&mut self) {
        self.local = Some(self.since.elapsed().saturating_sub(self.queued));
    }
}

impl RequestKind {
    /// Counts the times of a request whose answer is ready, and returns the present time.
    pub(crate) fn answered(&self, timing: &Timing, throttle: Duration) -> Instant {
        let now = Instant::now();
        let total = now.saturating_duration_since(timing.since);
        let worked = total.saturating_sub(timing.queued);
        let local = timing.local.unwrap_or(worked);
        let times = &self.series.times;
        times.add(Phase::Total, total);
        times.add(Phase::Queue, timing.queued);
        times.add(Phase::Local, local);
        times.add(Phase::Remote, worked.saturating_sub(local));
        times.add(Phase::Throttle, throttle);
        now
    }

    /// Counts the time in which an answer was written.
    pub(crate) fn sent(&self, time: Duration) {
        self.series.times.add(Phase::Send, time);
    }
}

#[derive(Debug)]
struct Series {
    requests: Counter,
    bytes: Counter,
    times: Arc<Times>,
}

/// The counts as one shard uses them; clones share the looked-up series.
#[derive(Clone, Debug)]
pub struct RequestMeter {
    requests: RequestMetrics,
    /// Counts of connections and bytes.
    pub connections: ConnectionMetrics,
    // Bounded: APIs and versions of the table; `kind_of` puts all others into one series.
    known: Rc<RefCell<HashMap<(i16, i16), RequestKind>>>,
}

impl RequestMeter {
    /// Creates the meter of one shard.
    pub fn new(requests: RequestMetrics, connections: ConnectionMetrics) -> Self {
        Self {
            requests,
            connections,
            known: Rc::default(),
        }
    }

    /// Counts a request that was read.
    pub(crate) fn taken(&self, frame: &[u8]) -> RequestKind {
        let kind = self.kind_of(frame);
        kind.series.requests.inc();
        kind.series.bytes.inc_by(frame.len() as u64);
        kind
    }

    /// Counts the bytes read and written since `counted`.
    pub(crate) fn moved(&self, counted: &mut (u64, u64), now: (u64, u64)) {
        if *counted != now {
            self.connections
                .incoming_bytes
                .inc_by(now.0.saturating_sub(counted.0));
            self.connections
                .outgoing_bytes
                .inc_by(now.1.saturating_sub(counted.1));
            *counted = now;
        }
    }

    /// Returns the series of a frame, by the two numbers at its start.
    ///
    /// All APIs and versions that are not served share one series, so that a peer cannot create
    /// any.
    fn kind_of(&self, frame: &[u8]) -> RequestKind {
        let number = |at: usize| {
            let bytes = frame.get(at..at + 2).and_then(<[u8]>::first_chunk);
            bytes.map_or(-1, |bytes| i16::from_be_bytes(*bytes))
        };
        let (key, version) = (number(0), number(2));
        let api = Api::from_key(key).filter(|api| api.serves(version));
        let key = api.map_or((-1, -1), |_| (key, version));
        let mut known = self.known.borrow_mut();
        known
            .entry(key)
            .or_insert_with(|| self.look_up(api, key.1))
            .clone()
    }

    fn look_up(&self, api: Option<Api>, version: i16) -> RequestKind {
        let request = api.map_or("Unknown", Api::name);
        let RequestMetrics {
            requests,
            bytes,
            times,
        } = &self.requests;
        let series = Series {
            requests: requests
                .get_or_create(&VersionLabels { request, version })
                .clone(),
            bytes: bytes.get_or_create(&RequestLabels { request }).clone(),
            times: times.of(request),
        };
        RequestKind {
            series: Rc::new(series),
        }
    }
}
