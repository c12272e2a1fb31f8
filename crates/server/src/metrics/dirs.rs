//! The state of every directory that holds logs: Kafka's count of offline ones, and each by its
//! name.
//!
//! Shards report their view before a scrape; a directory that any shard cannot use is offline.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

/// One directory, as a shard sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirRow {
    /// The directory.
    pub dir: String,
    /// Name of its tier; empty without tiers.
    pub tier: String,
    /// Why it is not used; `None` if it is.
    pub failed: Option<String>,
    /// Time since the oldest operation in progress began.
    pub under_way_for: Duration,
}

#[derive(Default, Debug)]
struct ShardDirs {
    // Bounded: `log.dirs` of each shard.
    dirs: BTreeMap<usize, Vec<DirRow>>,
    // Bounded: one for each shard, `num.shards`.
    unreadable_segments: BTreeMap<usize, u64>,
}

/// The directories of all shards; clones share them.
#[derive(Clone, Default, Debug)]
pub struct DirMetrics(Arc<Mutex<ShardDirs>>);

#[derive(Clone, Debug, EncodeLabelSet)]
struct Labels {
    dir: String,
    tier: String,
}

impl DirRow {
    fn labels(&self) -> Labels {
        Labels {
            dir: self.dir.clone(),
            tier: self.tier.clone(),
        }
    }
}

impl DirMetrics {
    /// Creates and registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register_collector(Box::new(metrics.clone()));
        metrics
    }

    /// Replaces the directories of one shard.
    pub fn replace(&self, shard: usize, dirs: Vec<DirRow>, unreadable_segments: u64) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.dirs.insert(shard, dirs);
        known.unreadable_segments.insert(shard, unreadable_segments);
    }

    /// Returns each directory once, with a reason if any shard has one, and the age of the oldest
    /// operation.
    pub fn all(&self) -> Vec<DirRow> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: BTreeMap<&str, DirRow> = BTreeMap::new();
        for row in known.dirs.values().flatten() {
            let merged = all.entry(&row.dir).or_insert_with(|| row.clone());
            merged.under_way_for = merged.under_way_for.max(row.under_way_for);
            if merged.failed.is_none() {
                merged.failed.clone_from(&row.failed);
            }
        }
        all.into_values().collect()
    }
}

impl Collector for DirMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let all = self.all();
        let offline = all.iter().filter(|row| row.failed.is_some()).count();
        let mut gauge = |name, help, value: i64| {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(metric)
        };
        gauge(
            "kafka_log_logmanager_offlinelogdirectorycount",
            "Directories that cannot be used",
            i64::try_from(offline).unwrap_or(i64::MAX),
        )?;
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let unreadable = known.unreadable_segments.values();
        let unreadable = unreadable.copied().fold(0, u64::saturating_add);
        drop(known);
        gauge(
            "forebay_log_unreadable_segments",
            "Segments that are damaged or on a path that is not there",
            i64::try_from(unreadable).unwrap_or(i64::MAX),
        )?;
        let name = "forebay_log_dir_state";
        let help = "1: the directory is used; 0: it has failed or is not there";
        let mut state = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for row in &all {
            let is_used = i64::from(row.failed.is_none());
            ConstGauge::new(is_used).encode(state.encode_family(&row.labels())?)?;
        }
        let name = "forebay_log_dir_oldest_operation_seconds";
        let help = "For how long the oldest operation in the directory has been under way";
        let mut oldest = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for row in &all {
            let seconds = row.under_way_for.as_secs_f64();
            ConstGauge::new(seconds).encode(oldest.encode_family(&row.labels())?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_one_shard_cannot_use_is_offline() {
        let mut registry = Registry::default();
        let metrics = DirMetrics::register(&mut registry);
        let row = |dir: &str, failed: Option<&str>| DirRow {
            dir: dir.to_owned(),
            tier: String::new(),
            failed: failed.map(str::to_owned),
            under_way_for: Duration::from_secs(if dir == "/b" { 12 } else { 0 }),
        };
        metrics.replace(0, vec![row("/a", None), row("/b", None)], 1);
        metrics.replace(1, vec![row("/a", None), row("/b", Some("gone"))], 2);
        metrics.replace(2, vec![row("/a", None), row("/b", None)], 0);
        assert_eq!(metrics.all(), [row("/a", None), row("/b", Some("gone"))]);
        let mut shown = String::new();
        prometheus_client::encoding::text::encode(&mut shown, &registry).unwrap();
        for line in [
            "kafka_log_logmanager_offlinelogdirectorycount 1\n",
            "forebay_log_unreadable_segments 3\n",
            "forebay_log_dir_state{dir=\"/a\",tier=\"\"} 1\n",
            "forebay_log_dir_state{dir=\"/b\",tier=\"\"} 0\n",
            "forebay_log_dir_oldest_operation_seconds{dir=\"/a\",tier=\"\"} 0.0\n",
            "forebay_log_dir_oldest_operation_seconds{dir=\"/b\",tier=\"\"} 12.0\n",
        ] {
            assert!(shown.contains(line), "{shown}");
        }
    }
}
