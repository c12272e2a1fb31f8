//! What is wrong with a shard's broker, as reasons for `/readyz`.
//!
//! Each reason names one cause (docs/metrics.md lists them). The functions read the state of logs,
//! partitions and tiers; the only state kept here is since when a last stable offset has not moved.
//! Invariant: at most one entry for each partition with an open transaction.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use broker::hanging::HangingDirs;
use broker::partition::Partition;
use broker::wall_clock::HeldStep;
use platform::Platform;
use platform::clock::Instant;
use prometheus_client::metrics::gauge::Gauge;
use storage::tier::TierTable;
use storage::{FailureKind, Store};
use wire::types::{Offset, TopicPartition};

use crate::health::Reason;
use crate::oauth::KeySource;

/// Time beyond the longest transaction for which a last stable offset may stand still.
const SLACK: Duration = Duration::from_mins(1);

/// Since when last stable offsets have stood still below their high watermarks.
#[derive(Default, Debug)]
// Unbounded: one for each partition with an open transaction; partitions are as many as were
// created.
pub(crate) struct StableOffsets(RefCell<BTreeMap<TopicPartition, (Offset, Instant)>>);

impl StableOffsets {
    /// Returns the partitions whose last stable offset has stood still for longer than any
    /// transaction may take.
    pub(crate) fn stuck<P: Platform>(
        &self,
        led: &[Rc<Partition<P>>],
        transaction_max: Duration,
        now: Instant,
    ) -> Vec<TopicPartition> {
        let open = led.iter().filter_map(|partition| {
            let stable = partition.log.stable_offset();
            (stable < partition.high_watermark()).then(|| (partition.name.clone(), stable))
        });
        self.look(open, transaction_max.saturating_add(SLACK), now)
    }

    fn look(
        &self,
        open: impl Iterator<Item = (TopicPartition, Offset)>,
        still_max: Duration,
        now: Instant,
    ) -> Vec<TopicPartition> {
        let mut seen = self.0.borrow_mut();
        let before = std::mem::take(&mut *seen);
        let mut stuck = Vec::new();
        for (name, offset) in open {
            let since = match before.get(&name) {
                Some((same, since)) if *same == offset => *since,
                _ => now,
            };
            if now.saturating_duration_since(since) > still_max {
                stuck.push(name.clone());
            }
            seen.insert(name, (offset, since));
        }
        stuck
    }
}

/// Reports logs that take no appends: failed ones, and those without room.
pub(crate) fn of_logs<P: Platform>(led: &[Rc<Partition<P>>], into: &mut Vec<Reason>) {
    let (mut failed, mut full) = ((0, String::new()), (0, String::new()));
    for partition in led {
        let Some(error) = partition.log.failed() else {
            if partition.log.tiers().is_without_room() {
                full.0 += 1;
                full.1 = format!("{}: no path of a tier has room", partition.name);
            }
            continue;
        };
        let (count, example) = match error.kind() {
            FailureKind::Failed => &mut failed,
            FailureKind::Full => &mut full,
            _ => continue,
        };
        *count += 1;
        if example.is_empty() {
            *example = format!("{}: {error}", partition.name);
        }
    }
    into.extend(Reason::degraded("latched_logs", failed.0, failed.1));
    into.extend(Reason::degraded("full_logs", full.0, full.1));
}

/// Reports partitions whose logs could not be opened, and segments that are missing or damaged.
pub(crate) fn of_absences<P: Platform>(
    unopened: (usize, String),
    store: &Store<P>,
    into: &mut Vec<Reason>,
) {
    let (count, example) = unopened;
    into.extend(Reason::degraded("offline_partitions", count, example));
    let segments = usize::try_from(store.unreadable_segments()).unwrap_or(usize::MAX);
    into.extend(Reason::degraded("unreadable_segments", segments, ""));
}

/// Reports paths of tiers that are no longer written to. All shards share the table, so one shard
/// reports.
pub(crate) fn of_tiers(tiers: &TierTable, into: &mut Vec<Reason>) {
    let failed = |path: &storage::tier::TierPath| {
        let why = path.failed()?;
        Some(format!("{}: {why}", path.dir().display()))
    };
    let mut failed = tiers.paths().iter().filter_map(|path| failed(path));
    if let Some(example) = failed.next() {
        into.extend(Reason::degraded(
            "failed_paths",
            1 + failed.count(),
            example,
        ));
    }
}

/// Reports log directories that this shard no longer writes to.
pub(crate) fn of_log_dirs<P: Platform>(dirs: &[PathBuf], store: &Store<P>, into: &mut Vec<Reason>) {
    let failed = |dir: &PathBuf| Some(format!("{}: {}", dir.display(), store.dir_failure(dir)?));
    let mut failed = dirs.iter().filter_map(failed);
    if let Some(example) = failed.next() {
        let count = failed.count().saturating_add(1);
        into.extend(Reason::degraded("failed_log_dirs", count, example));
    }
}

/// Reports journals of this shard that are not used: what is durable is so without them, at a
/// higher cost.
pub(crate) fn of_journals<P: Platform>(dirs: &[PathBuf], store: &Store<P>, into: &mut Vec<Reason>) {
    let unused = |dir: &PathBuf| {
        Some(format!(
            "{}: {}",
            dir.display(),
            store.journal_trouble(dir)?
        ))
    };
    let mut unused = dirs.iter().filter_map(unused);
    if let Some(example) = unused.next() {
        let count = unused.count().saturating_add(1);
        into.extend(Reason::degraded("unused_journals", count, example));
    }
}

/// Reports directories whose disks do not answer to any shard. All shards share the list, so one
/// shard reports.
pub(crate) fn of_hanging(hanging: &HangingDirs) -> Option<Reason> {
    let all = hanging.now();
    let example = all.first().map(|(dir, waited)| {
        let (dir, waited_s) = (dir.display(), waited.as_secs());
        format!("{dir}: an operation has been under way for {waited_s} s")
    });
    Reason::degraded("hanging_dirs", all.len(), example.unwrap_or_default())
}

/// Reports partitions of coordinators that are out of service. All shards share the counts, so one
/// shard reports.
pub(crate) fn of_coordinators(metrics: &broker::metrics::Metrics, into: &mut Vec<Reason>) {
    let count = |gauge: &Gauge| usize::try_from(gauge.get()).unwrap_or(0);
    let groups = &metrics.groups;
    let counts = [
        ("failed_group_partitions", &groups.failed_partitions),
        ("stalled_group_partitions", &groups.stalled_partitions),
        (
            "failed_transaction_partitions",
            &metrics.failed_transaction_partitions,
        ),
    ];
    let each = counts.map(|(name, gauge)| Reason::degraded(name, count(gauge), ""));
    into.extend(each.into_iter().flatten());
}

/// Reports a step of the wall clock that is not trusted yet.
pub(crate) fn of_clock(held: HeldStep) -> Option<Reason> {
    let (by_s, left_s) = (held.by_ms / 1000, held.left_ms / 1000);
    let example = format!("set by {by_s} s, believed in {left_s} s");
    Reason::degraded("clock_step", 1, example)
}

/// Reports listeners of OAUTHBEARER that have no keys: no client logs in there by a token.
pub(crate) fn of_token_keys(sources: &[Arc<KeySource>]) -> Option<Reason> {
    let without = sources.iter().filter(|source| !source.has_keys());
    let listeners: Vec<&str> = without.map(|source| &**source.listener()).collect();
    let example = listeners.first().copied().unwrap_or_default();
    Reason::degraded("no_token_keys", listeners.len(), example)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(topic: &str) -> TopicPartition {
        TopicPartition {
            topic: topic.into(),
            partition: 0,
        }
    }

    #[test]
    fn an_offset_that_stands_still_for_too_long_is_stuck_until_it_moves() {
        let offsets = StableOffsets::default();
        let (begin, max) = (Instant::now(), Duration::from_mins(16));
        let check = |at: u64, open: &[(&str, i64)], expected: &[&str]| {
            let open = open
                .iter()
                .map(|(topic, offset)| (name(topic), Offset(*offset)));
            let now = begin + Duration::from_mins(at);
            let stuck: Vec<_> = offsets.look(open, max, now);
            let expected: Vec<_> = expected.iter().map(|topic| name(topic)).collect();
            assert_eq!(stuck, expected, "minute {at}");
        };
        check(0, &[("a", 5), ("b", 7)], &[]);
        check(10, &[("a", 5), ("b", 8)], &[]);
        check(17, &[("a", 5), ("b", 8)], &["a"]);
        check(18, &[("a", 6)], &[]);
        check(30, &[("a", 6), ("b", 8)], &[]);
        assert_eq!(offsets.0.borrow().len(), 2, "what is not open is forgotten");
        check(35, &[("a", 6), ("b", 8)], &["a"]);
    }
}
