//! Counts of TLS: handshakes, connections by what they agreed on, memory, and the sets of keys and
//! certificates that listeners serve with.
//!
//! Labels are listeners, our own words, and names of versions and suites that this server offers: a
//! peer cannot make any.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct HandshakeLabels {
    listener: Arc<str>,
    kind: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct FailureLabels {
    listener: Arc<str>,
    cause: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct AgreementLabels {
    listener: Arc<str>,
    cipher: String,
    protocol: String,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct ListenerLabel {
    listener: Arc<str>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct ReloadLabels {
    listener: Arc<str>,
    result: &'static str,
}

/// Counts of TLS; clones share them.
#[derive(Clone, Default, Debug)]
pub struct TlsMetrics {
    done: Family<HandshakeLabels, Counter>,
    failed: Family<FailureLabels, Counter>,
    agreed: Family<AgreementLabels, Gauge>,
    expiry: Family<ListenerLabel, Gauge>,
    reloads: Family<ReloadLabels, Counter>,
    /// Handshakes under way.
    pub pending: Gauge,
    /// Bytes of records that connections hold, opened or sealed.
    pub held_bytes: Gauge,
}

/// A connection under TLS that is counted, until this is dropped.
#[derive(Debug)]
pub struct SecuredCount(Gauge);

impl TlsMetrics {
    /// Creates and registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let all = metrics.clone();
        let help = "Open connections under TLS, by what they agreed on";
        let connections = "kafka_server_socketservermetrics_connections";
        registry.register(connections, help, all.agreed);
        let help = "TLS handshakes that are complete";
        registry.register("forebay_tls_handshakes", help, all.done);
        let help = "TLS handshakes that failed, by cause";
        registry.register("forebay_tls_handshakes_failed", help, all.failed);
        let help = "TLS handshakes under way";
        registry.register("forebay_tls_handshakes_pending", help, all.pending);
        let help = "Records of TLS that connections hold, received or to be sent";
        registry.register("forebay_tls_record_bytes", help, all.held_bytes);
        let help = "When the first certificate of the chain expires, as Unix time";
        registry.register("forebay_tls_certificate_expiry_seconds", help, all.expiry);
        let help = "Sets of keys and certificates that were read again";
        registry.register("forebay_tls_reloads", help, all.reloads);
        metrics
    }

    /// Counts a handshake that is complete, and its connection until the result is dropped.
    pub fn secured(
        &self,
        listener: &Arc<str>,
        kind: &'static str,
        (cipher, protocol): (String, String),
    ) -> SecuredCount {
        let done = HandshakeLabels {
            listener: Arc::clone(listener),
            kind,
        };
        self.done.get_or_create(&done).inc();
        let agreed = AgreementLabels {
            listener: Arc::clone(listener),
            cipher,
            protocol,
        };
        let connections = self.agreed.get_or_create(&agreed).clone();
        connections.inc();
        SecuredCount(connections)
    }

    /// Counts a handshake that failed.
    pub fn failed(&self, listener: &Arc<str>, cause: &'static str) {
        let failed = FailureLabels {
            listener: Arc::clone(listener),
            cause,
        };
        self.failed.get_or_create(&failed).inc();
    }

    /// Shows when the certificates of a listener expire.
    pub fn expires(&self, listener: &Arc<str>, unix_seconds: i64) {
        let listener = ListenerLabel {
            listener: Arc::clone(listener),
        };
        self.expiry.get_or_create(&listener).set(unix_seconds);
    }

    /// Counts an attempt to take new keys and certificates.
    pub fn reloaded(&self, listener: &Arc<str>, is_done: bool) {
        let reloaded = ReloadLabels {
            listener: Arc::clone(listener),
            result: if is_done { "success" } else { "failure" },
        };
        self.reloads.get_or_create(&reloaded).inc();
    }
}

impl Drop for SecuredCount {
    fn drop(&mut self) {
        self.0.dec();
    }
}
