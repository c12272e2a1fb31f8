//! Counts of the audit file: what was written, what was lost, and whether it can be written.
//!
//! Labels are classes of events: a client can make none.

use broker::audit::AuditClass;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct ClassLabel {
    class: &'static str,
}

/// The counts; clones share them.
#[derive(Clone, Default, Debug)]
pub struct AuditMetrics {
    lines: Family<ClassLabel, Counter>,
    dropped: Family<ClassLabel, Counter>,
    /// How often a file was put aside.
    pub rotations: Counter,
    /// 1 while the file cannot be written.
    pub failing: Gauge,
}

impl AuditMetrics {
    /// Creates and registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let all = metrics.clone();
        let help = "Lines of events for the audit file";
        registry.register("forebay_audit_lines", help, all.lines);
        let help = "Events that found no room among those that are not written yet";
        registry.register("forebay_audit_dropped", help, all.dropped);
        let help = "Audit files that were put aside because they were large";
        registry.register("forebay_audit_rotations", help, all.rotations);
        let help = "1 while the audit file cannot be written";
        registry.register("forebay_audit_failing", help, all.failing);
        metrics
    }

    /// Counts lines that are to be written.
    pub fn written(&self, class: AuditClass, lines: usize) {
        let lines = u64::try_from(lines).unwrap_or(u64::MAX);
        let class = class.name();
        self.lines
            .get_or_create(&ClassLabel { class })
            .inc_by(lines);
    }

    /// Counts an event that found no room.
    pub fn dropped(&self, class: AuditClass) {
        let class = class.name();
        self.dropped.get_or_create(&ClassLabel { class }).inc();
    }
}
