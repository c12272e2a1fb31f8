//! Metrics of compaction, under the names of Kafka's `LogCleaner` and `LogCleanerManager`.
//!
//! Where Kafka has one value for all its cleaner threads and each shard here has its own, the
//! series has a label `shard`; dashboards take the maximum in both cases.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use storage::{CompactionRound, Dirt};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DirectoryLabel {
    logdirectory: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ShardLabel {
    shard: u64,
}

/// Metric handles; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    max_dirty_percent: Family<ShardLabel, Gauge>,
    max_compaction_delay_secs: Family<ShardLabel, Gauge>,
    time_since_last_run_ms: Family<ShardLabel, Gauge>,
    uncleanable_partitions: Family<DirectoryLabel, Gauge>,
    uncleanable_bytes: Family<DirectoryLabel, Gauge>,
    buffer_utilization_percent: Gauge,
    recopy_percent: Gauge,
    clean_time_secs: Gauge,
    dead_threads: Gauge,
    rounds: Counter,
    read_bytes: Counter,
    written_bytes: Counter,
    last_run_ms: Arc<AtomicI64>,
}

/// The state of a shard's logs when it last examined them.
#[derive(Clone, Debug, Default)]
pub(super) struct CompactionBacklog {
    dirty_percent: i64,
    delay_secs: i64,
    // Bounded: one for each of `log.dirs`.
    uncleanable: BTreeMap<PathBuf, (i64, i64)>,
}

impl CompactionBacklog {
    pub(super) fn note_uncleanable(&mut self, dir: &Path, bytes: u64) {
        let (count, sum) = self.uncleanable.entry(dir.to_owned()).or_default();
        *count += 1;
        *sum += i64::try_from(bytes).unwrap_or(i64::MAX);
    }

    pub(super) fn note_dirt(&mut self, dirt: &Dirt) {
        self.dirty_percent = self.dirty_percent.max(percent(dirt.ratio()));
        self.delay_secs = self.delay_secs.max(dirt.overdue_ms / 1000);
    }
}

impl Metrics {
    /// Creates and registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let manager = registry.sub_registry_with_prefix("kafka_log_logcleanermanager");
        manager.register(
            "max_dirty_percent",
            "Dirty part of the dirtiest log when it was last looked",
            metrics.max_dirty_percent.clone(),
        );
        manager.register(
            "time_since_last_run_ms",
            "Time since a log was last compacted, -1 before that",
            metrics.time_since_last_run_ms.clone(),
        );
        manager.register(
            "uncleanable_partitions_count",
            "Logs that are not compacted any more because they are damaged",
            metrics.uncleanable_partitions.clone(),
        );
        manager.register(
            "uncleanable_bytes",
            "Bytes of logs that are not compacted any more",
            metrics.uncleanable_bytes.clone(),
        );
        let cleaner = registry.sub_registry_with_prefix("kafka_log_logcleaner");
        for (name, help, gauge) in [
            (
                "max_buffer_utilization_percent",
                "Used part of the offset map in the last round",
                &metrics.buffer_utilization_percent,
            ),
            (
                "cleaner_recopy_percent",
                "What the last round left of the bytes it looked at",
                &metrics.recopy_percent,
            ),
            (
                "max_clean_time_secs",
                "Duration of the last round",
                &metrics.clean_time_secs,
            ),
            (
                "deadthreadcount",
                "Always 0: a compaction that cannot go on ends the process",
                &metrics.dead_threads,
            ),
        ] {
            cleaner.register(name, help, gauge.clone());
        }
        cleaner.register(
            "max_compaction_delay_secs",
            "By how much the oldest dirty record is past max.compaction.lag.ms",
            metrics.max_compaction_delay_secs.clone(),
        );
        let ours = registry.sub_registry_with_prefix("forebay_compaction");
        ours.register("rounds", "Rounds of compaction", metrics.rounds.clone());
        ours.register(
            "read_bytes",
            "Bytes read to compact logs",
            metrics.read_bytes.clone(),
        );
        ours.register(
            "written_bytes",
            "Bytes written to compact logs",
            metrics.written_bytes.clone(),
        );
        metrics
    }

    /// Counts a round.
    pub(super) fn count(&self, round: &CompactionRound, elapsed: Duration, now_ms: i64) {
        self.buffer_utilization_percent
            .set(percent(round.map_utilization));
        self.recopy_percent
            .set(share(round.bytes_after, round.bytes_before));
        self.clean_time_secs
            .set(i64::try_from(elapsed.as_secs()).unwrap_or(i64::MAX));
        self.rounds.inc();
        self.read_bytes.inc_by(round.bytes_read);
        self.written_bytes.inc_by(round.bytes_written);
        self.last_run_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Publishes a shard's new state, given the state `before`.
    pub(super) fn show(
        &self,
        shard: usize,
        before: &CompactionBacklog,
        now: &CompactionBacklog,
        now_ms: i64,
    ) {
        let label = ShardLabel {
            shard: shard as u64,
        };
        let set = |family: &Family<ShardLabel, Gauge>, value: i64| {
            family.get_or_create(&label).set(value);
        };
        set(&self.max_dirty_percent, now.dirty_percent);
        set(&self.max_compaction_delay_secs, now.delay_secs);
        let last_run_ms = self.last_run_ms.load(Ordering::Relaxed);
        let since = if last_run_ms == 0 {
            -1
        } else {
            now_ms - last_run_ms
        };
        set(&self.time_since_last_run_ms, since);
        let dirs = before.uncleanable.keys().chain(now.uncleanable.keys());
        let dirs: std::collections::BTreeSet<_> = dirs.collect();
        for dir in dirs {
            let of =
                |found: &CompactionBacklog| found.uncleanable.get(dir).copied().unwrap_or_default();
            let (was, is) = (of(before), of(now));
            let label = DirectoryLabel {
                logdirectory: dir.display().to_string(),
            };
            self.uncleanable_partitions
                .get_or_create(&label)
                .inc_by(is.0 - was.0);
            self.uncleanable_bytes
                .get_or_create(&label)
                .inc_by(is.1 - was.1);
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "0 to 100")]
fn percent(ratio: f64) -> i64 {
    (ratio.clamp(0.0, 1.0) * 100.0).round() as i64
}

fn share(part: u64, whole: u64) -> i64 {
    i64::try_from(part.saturating_mul(100) / whole.max(1)).unwrap_or(i64::MAX)
}
