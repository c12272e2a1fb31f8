//! The counters and timers of storage, each name once. All shards of the process share the handles.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// Handles to storage's metrics; clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Bytes of batches taken into memory.
    pub appended_bytes: Counter,
    /// Flushes: write cycles of a log.
    pub flushes: Counter,
    /// Bytes written to segment files, padding included.
    pub written_bytes: Counter,
    /// Duration of a flush from its plan to the end of its sync, in seconds.
    pub flush_seconds: Histogram,
    /// Flushes that failed and latched the log.
    pub flush_errors: Counter,
    /// Flushes that found no room.
    pub flush_full: Counter,
    /// Reads answered from memory.
    pub cache_hits: Counter,
    /// Reads that went to a file.
    pub cache_misses: Counter,
    /// Bytes read from segment files.
    pub read_bytes: Counter,
    /// Bytes read ahead of readers; part of `read_bytes`.
    pub read_ahead_bytes: Counter,
    /// Bytes read ahead that were released before a reader asked for them.
    pub read_ahead_unused_bytes: Counter,
    /// Occurrences of damaged bytes found on disk.
    pub corruptions: Counter,
    /// Damaged files that were renamed.
    pub set_aside: Counter,
    /// Bytes of such renamed files beside the open logs.
    pub set_aside_bytes: Gauge,
    /// Times that a reader met missing offsets in a log that has no gaps.
    pub holes: Counter,
    /// Bytes of records, not of padding, that recovery cut off.
    pub dropped_bytes: Counter,
    /// Logs that were opened after an unclean stop.
    pub recovered_logs: Counter,
    /// Segments of all open logs.
    pub segments: Gauge,
    /// Open logs.
    pub logs: Gauge,
    /// Open files of segments.
    pub open_files: Gauge,
    /// Bytes of data read while recovering logs after an unclean stop.
    pub recovered_bytes: Counter,
    /// Bytes that recovery cut off because they were not valid batches.
    pub truncated_bytes: Counter,
    /// The journals.
    pub journal: JournalMetrics,
}

/// Handles to the metrics of journals; clones share them.
///
/// The shards bring them up to date when they are asked for ([`crate::Store::show_journals`]).
#[derive(Clone, Debug)]
pub struct JournalMetrics {
    /// Commits that were written.
    pub commits: Counter,
    /// The parts in them: of a log each.
    pub parts: Counter,
    /// Bytes written to rings by commits, padding included.
    pub written_bytes: Counter,
    /// Bytes that are in journals and not in segments.
    pub unlanded_bytes: Gauge,
    /// Duration of a landing of logs, their syncs included, in seconds.
    pub landing_seconds: Histogram,
    /// Journals that are wanted and not used, or not as they should be.
    pub degraded: Gauge,
}

impl Metrics {
    /// Creates the metrics and registers them.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self::unregistered();
        let storage = registry.sub_registry_with_prefix("forebay_storage");
        let mut counter = |name: &str, help: &str, counter: &Counter| {
            storage.register(name, help, counter.clone());
        };
        counter(
            "appended_bytes",
            "Bytes of batches taken into memory",
            &metrics.appended_bytes,
        );
        counter("flushes", "Write cycles of logs", &metrics.flushes);
        counter(
            "written_bytes",
            "Bytes written to segment files",
            &metrics.written_bytes,
        );
        counter(
            "flush_errors",
            "Flushes that failed and latched a log",
            &metrics.flush_errors,
        );
        counter(
            "flush_full",
            "Flushes that found no room",
            &metrics.flush_full,
        );
        counter(
            "recovered_bytes",
            "Bytes read to recover logs",
            &metrics.recovered_bytes,
        );
        counter(
            "truncated_bytes",
            "Bytes cut off in recovery",
            &metrics.truncated_bytes,
        );
        storage.register(
            "flush_seconds",
            "Duration of a flush, sync included",
            metrics.flush_seconds.clone(),
        );
        storage.register(
            "segments",
            "Segments of open logs",
            metrics.segments.clone(),
        );
        storage.register("logs", "Open logs", metrics.logs.clone());
        storage.register(
            "open_files",
            "Segment files that hold a descriptor",
            metrics.open_files.clone(),
        );
        metrics.register_reads(storage);
        metrics.register_damage(storage);
        metrics.journal.register(storage);
        metrics
    }

    fn register_damage(&self, storage: &mut Registry) {
        storage.register(
            "set_aside_bytes",
            "Bytes of files that starts have given another name, beside the logs that are open",
            self.set_aside_bytes.clone(),
        );
        let mut counter = |name: &str, help: &str, counter: &Counter| {
            storage.register(name, help, counter.clone());
        };
        counter(
            "dropped_bytes",
            "Bytes of records cut off in recovery",
            &self.dropped_bytes,
        );
        counter(
            "recovered_logs",
            "Logs that were not left by a clean stop",
            &self.recovered_logs,
        );
        counter(
            "set_aside",
            "Damaged files that were given another name",
            &self.set_aside,
        );
        counter(
            "holes",
            "Times that a reader met missing offsets",
            &self.holes,
        );
    }

    fn register_reads(&self, storage: &mut Registry) {
        let mut counter = |name: &str, help: &str, counter: &Counter| {
            storage.register(name, help, counter.clone());
        };
        counter("cache_hits", "Reads answered from memory", &self.cache_hits);
        counter(
            "cache_misses",
            "Reads that went to a file",
            &self.cache_misses,
        );
        counter(
            "read_bytes",
            "Bytes read from segment files",
            &self.read_bytes,
        );
        counter(
            "read_ahead_bytes",
            "Bytes read ahead of readers, part of read_bytes",
            &self.read_ahead_bytes,
        );
        counter(
            "read_ahead_unused_bytes",
            "Bytes read ahead that nobody asked for",
            &self.read_ahead_unused_bytes,
        );
        counter(
            "corruptions",
            "Times that damaged bytes were met",
            &self.corruptions,
        );
    }

    /// Creates metrics without registering them, for tests and tools.
    pub fn unregistered() -> Self {
        Self {
            appended_bytes: Counter::default(),
            flushes: Counter::default(),
            written_bytes: Counter::default(),
            flush_seconds: Histogram::new(exponential_buckets(0.000_05, 2.0, 18)),
            flush_errors: Counter::default(),
            flush_full: Counter::default(),
            cache_hits: Counter::default(),
            cache_misses: Counter::default(),
            read_bytes: Counter::default(),
            read_ahead_bytes: Counter::default(),
            read_ahead_unused_bytes: Counter::default(),
            corruptions: Counter::default(),
            set_aside: Counter::default(),
            set_aside_bytes: Gauge::default(),
            holes: Counter::default(),
            dropped_bytes: Counter::default(),
            recovered_logs: Counter::default(),
            segments: Gauge::default(),
            logs: Gauge::default(),
            open_files: Gauge::default(),
            recovered_bytes: Counter::default(),
            truncated_bytes: Counter::default(),
            journal: JournalMetrics::unregistered(),
        }
    }
}

impl JournalMetrics {
    fn unregistered() -> Self {
        Self {
            commits: Counter::default(),
            parts: Counter::default(),
            written_bytes: Counter::default(),
            unlanded_bytes: Gauge::default(),
            landing_seconds: Histogram::new(exponential_buckets(0.000_1, 2.0, 17)),
            degraded: Gauge::default(),
        }
    }

    fn register(&self, storage: &mut Registry) {
        let journal = storage.sub_registry_with_prefix("journal");
        journal.register("commits", "Commits of journals", self.commits.clone());
        journal.register(
            "parts",
            "Parts in commits of journals, each of one log",
            self.parts.clone(),
        );
        journal.register(
            "written_bytes",
            "Bytes that commits wrote to journals, padding included",
            self.written_bytes.clone(),
        );
        journal.register(
            "unlanded_bytes",
            "Bytes that are in journals and not in segments",
            self.unlanded_bytes.clone(),
        );
        journal.register(
            "landing_seconds",
            "Duration of a landing: what is in journals is written to segments, sync included",
            self.landing_seconds.clone(),
        );
        journal.register(
            "degraded",
            "Journals that are set and not used, one for each log directory and shard",
            self.degraded.clone(),
        );
    }
}
