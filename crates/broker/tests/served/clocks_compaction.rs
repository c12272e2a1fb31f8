//! The wall clock is set while compaction waits for ages: what is too young stays so, and
//! tombstones have their time.
//!
//! Clients date by the clock that the broker shows. Every record is a segment of its own, so that
//! compaction may look at all but the last, whatever the clock does.

use platform::Platform;
use platform::sim::SimDisk;
use wire::types::TimestampMs;

use crate::clocks::{HOUR_MS, STEPS_MS, TAKES_ALL, pass, set, setup};
use crate::harness::batches::builder;
use crate::harness::{Cluster, life};

/// In which compaction looks at everything, more than once.
const LOOKS_MS: i64 = 5 * 60_000;

async fn compacted(cluster: &Cluster, more: (&str, &str)) {
    let config = [
        ("cleanup.policy", "compact"),
        ("min.cleanable.dirty.ratio", "0.0"),
        ("internal.segment.bytes", "120"),
        more,
    ];
    let config: Vec<_> = TAKES_ALL.into_iter().chain(config).collect();
    cluster.create_with("c", 1, &config).await;
}

async fn put(cluster: &Cluster, key: &str, value: Option<&str>) {
    let mut batch = builder();
    let now = TimestampMs(cluster.platform.clock().wall_ms());
    batch.add(now, Some(key.as_bytes()), value.map(str::as_bytes), &[]);
    let batch = batch.finish().unwrap();
    cluster.try_produce("c", 0, batch).await.unwrap();
}

/// What is left some time after `key` was put behind it.
async fn left(cluster: &Cluster, key: &str) -> Vec<String> {
    put(cluster, key, Some(key)).await;
    pass(cluster, LOOKS_MS).await;
    cluster.values("c", 0).await
}

#[test]
fn what_is_too_young_to_be_compacted_is_not_made_old_by_the_clock() {
    for by_ms in STEPS_MS {
        life(&SimDisk::new(1), &setup(), async |cluster| {
            compacted(cluster, ("min.compaction.lag.ms", "7200000")).await;
            put(cluster, "k", Some("first")).await;
            put(cluster, "k", Some("second")).await;
            pass(cluster, LOOKS_MS).await;
            set(cluster, by_ms);
            assert_eq!(
                left(cluster, "a").await,
                ["first", "second", "a"],
                "set by {by_ms}"
            );
            pass(cluster, HOUR_MS).await;
            assert_eq!(
                left(cluster, "b").await,
                ["first", "second", "a", "b"],
                "set by {by_ms}, an hour later"
            );
            pass(cluster, HOUR_MS).await;
            let late = left(cluster, "c").await;
            assert!(cluster.brokers[0].held_step().is_some());
            if by_ms > 0 {
                assert_eq!(late, ["second", "a", "b", "c"], "set by {by_ms}: never");
            } else {
                // The clock that is shown has not come to the time at which they were written.
                assert_eq!(late.len(), 5, "set by {by_ms}: {late:?}");
            }
        });
    }
}

#[test]
fn a_tombstone_stays_for_its_time_whatever_the_clock_does() {
    for by_ms in STEPS_MS {
        let mut setup = setup();
        setup.options.clock.hold_ms = 12 * HOUR_MS;
        life(&SimDisk::new(1), &setup, async |cluster| {
            compacted(cluster, ("delete.retention.ms", "7200000")).await;
            put(cluster, "gone", Some("old")).await;
            put(cluster, "gone", None).await;
            // Its time begins when it is first compacted.
            assert_eq!(left(cluster, "a").await, ["", "a"], "{by_ms}");
            set(cluster, by_ms);
            pass(cluster, HOUR_MS).await;
            assert_eq!(
                left(cluster, "b").await,
                ["", "a", "b"],
                "set by {by_ms}: it went early"
            );
            pass(cluster, HOUR_MS).await;
            let late = left(cluster, "c").await;
            assert!(cluster.brokers[0].held_step().is_some());
            if by_ms > 0 {
                assert_eq!(late, ["a", "b", "c"], "set by {by_ms}: it stays");
            } else {
                assert_eq!(late, ["", "a", "b", "c"], "set by {by_ms}");
            }
            // Set right again, its time has passed by both.
            set(cluster, -by_ms);
            pass(cluster, LOOKS_MS).await;
            assert_eq!(left(cluster, "d").await, ["a", "b", "c", "d"], "{by_ms}");
        });
    }
}
