//! Counts of connections, bytes on sockets, and memory of requests.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Listener {
    listener: Arc<str>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

/// Counts of connections; clones share them.
#[derive(Clone, Debug)]
pub struct ConnectionMetrics {
    open: Family<Listener, Gauge>,
    created: Family<Listener, Counter>,
    closed: Family<Listener, Counter>,
    ended: Family<Reason, Counter>,
    refused: Family<Reason, Counter>,
    held_back_ms: Family<Listener, Counter>,
    sent_away_ms: Family<Listener, Counter>,
    /// Bytes read from clients.
    pub incoming_bytes: Counter,
    /// Bytes written to clients.
    pub outgoing_bytes: Counter,
}

/// The counts of one listener.
#[derive(Clone, Debug)]
pub struct ListenerMetrics {
    open: Gauge,
    created: Counter,
    closed: Counter,
    held_back_ms: Counter,
    sent_away_ms: Counter,
}

impl ConnectionMetrics {
    /// Creates and registers them.
    pub fn register(registry: &mut Registry) -> Self {
        const KAFKA: &str = "kafka_server_socketservermetrics";
        let metrics = Self {
            open: Family::default(),
            created: Family::default(),
            closed: Family::default(),
            ended: Family::default(),
            refused: Family::default(),
            held_back_ms: Family::default(),
            sent_away_ms: Family::default(),
            incoming_bytes: Counter::default(),
            outgoing_bytes: Counter::default(),
        };
        let all = metrics.clone();
        registry.register(
            format!("{KAFKA}_connection_count"),
            "Open connections",
            all.open,
        );
        let help = "Connections accepted";
        registry.register(format!("{KAFKA}_connection_creation"), help, all.created);
        registry.register(
            format!("{KAFKA}_connection_close"),
            "Connections ended",
            all.closed,
        );
        let help = "Bytes read from clients";
        registry.register(format!("{KAFKA}_incoming_byte"), help, all.incoming_bytes);
        let help = "Bytes written to clients";
        registry.register(format!("{KAFKA}_outgoing_byte"), help, all.outgoing_bytes);
        registry.register(
            "forebay_connections_ended",
            "Connections ended, by reason",
            all.ended,
        );
        let help = "Connections closed as soon as accepted, by reason";
        registry.register("forebay_connections_refused", help, all.refused);
        registry.register(
            format!("{KAFKA}_connection_accept_throttle_time_ms"),
            "Milliseconds for which connections waited by max.connection.creation.rate",
            all.held_back_ms,
        );
        registry.register(
            format!("{KAFKA}_ip_connection_accept_throttle_time_ms"),
            "Milliseconds after which connections were closed by connection_creation_rate",
            all.sent_away_ms,
        );
        metrics
    }

    /// Returns the counts of one listener.
    pub fn of_listener(&self, listener: &Arc<str>) -> ListenerMetrics {
        let label = Listener {
            listener: Arc::clone(listener),
        };
        ListenerMetrics {
            open: self.open.get_or_create(&label).clone(),
            created: self.created.get_or_create(&label).clone(),
            closed: self.closed.get_or_create(&label).clone(),
            held_back_ms: self.held_back_ms.get_or_create(&label).clone(),
            sent_away_ms: self.sent_away_ms.get_or_create(&label).clone(),
        }
    }

    /// Counts a connection that ended.
    pub fn ended(&self, reason: &'static str) {
        self.ended.get_or_create(&Reason { reason }).inc();
    }

    /// Counts a connection that was refused.
    pub fn refused(&self, reason: &'static str) {
        self.refused.get_or_create(&Reason { reason }).inc();
    }
}

impl ListenerMetrics {
    /// Counts the time that a connection waits before it is served.
    pub fn held_back(&self, pause: Duration) {
        self.held_back_ms.inc_by(whole_ms(pause));
    }

    /// Counts the time after which a connection is closed without being served.
    pub fn sent_away(&self, pause: Duration) {
        self.sent_away_ms.inc_by(whole_ms(pause));
    }

    /// Counts a connection from now until the result is dropped.
    pub fn opened(&self) -> OpenCount {
        self.open.inc();
        self.created.inc();
        OpenCount {
            metrics: self.clone(),
        }
    }
}

fn whole_ms(pause: Duration) -> u64 {
    u64::try_from(pause.as_millis()).unwrap_or(u64::MAX)
}

/// An open connection that is counted.
#[derive(Debug)]
pub struct OpenCount {
    metrics: ListenerMetrics,
}

impl Drop for OpenCount {
    fn drop(&mut self) {
        self.metrics.open.dec();
        self.metrics.closed.inc();
    }
}
