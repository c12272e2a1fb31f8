//! When segments were sealed, and when they came to their tier, is known after a restart: the
//! oldest still go first, and what has just been moved still stays.

use std::path::Path;
use std::time::Duration;

use storage::tier::policy::PolicySettings;
use storage::tier::{Mover, SegmentReport};
use storage::{CompactOptions, OpenAs};
use wire::types::{Offset, TopicPartition};

use super::failing::{compacted, policy};
use super::scene::*;
use crate::world::*;

const GB: u64 = 1 << 30;
const HOUR: Duration = Duration::from_hours(1);

async fn reports(scene: &Scene) -> Vec<SegmentReport> {
    scene.world.store.tier_segments(&still(), |_| true).await
}

/// Three sealed segments, an hour between one and the next; the first goes down two hours after
/// that.
async fn aged() -> (Scene, SimLog) {
    let scene = Scene::new(GB, GB);
    let log = scene.open(options()).await;
    for count in 1..=3 {
        fill(&log, count).await;
        scene.clock().sleep(HOUR).await;
    }
    scene.clock().sleep(HOUR).await;
    log.tiers().ask_for_tier(Offset(0), 1);
    assert_eq!(scene.settle(still()).await, 1);
    (scene, log)
}

#[test]
fn a_restart_does_not_make_segments_younger() {
    for clean in [true, false] {
        simulate(async {
            let (scene, log) = aged().await;
            let before = reports(&scene).await;
            let end = log.log_end_offset().0;
            if clean {
                log.close().await.unwrap();
            }
            scene.clock().sleep(HOUR).await;
            let next = scene.successor(scene.disk().crash(1), store_options());
            let opened = next.try_open(options(), clean, end, 0).await;
            let _log = opened.unwrap();
            let after = reports(&next).await;
            for (before, after) in before.iter().zip(&after).take(3) {
                assert_eq!(before.base, after.base);
                assert!(
                    before.sealed_ms.unwrap().abs_diff(after.sealed_ms.unwrap()) < 1000,
                    "{before:?} {after:?}"
                );
                let was_moved = |report: &SegmentReport| Some(report.arrived_ms) > report.sealed_ms;
                assert_eq!(was_moved(before), was_moved(after), "{before:?} {after:?}");
            }
            let (moved, known) = (after[0].arrived_ms, before[0].arrived_ms);
            assert!(moved.abs_diff(known) < 1000, "{moved} {known}");
            assert!(moved - after[0].sealed_ms.unwrap() > 3 * 3_600_000);
        });
    }
}

#[test]
fn what_was_moved_before_a_restart_still_stays() {
    simulate(async {
        let (scene, log) = aged().await;
        log.close().await.unwrap();
        let next = scene.successor(scene.disk().crash(1), store_options());
        let end = log.log_end_offset().0;
        let _log = next.try_open(options(), true, end, 0).await.unwrap();
        // The first tier is empty enough for all of it, but the segment has come down a moment ago.
        let settings = PolicySettings {
            threshold: Some(0.9),
            hysteresis: 0.1,
            residency_ms: 60_000,
            ..eager()
        };
        assert_eq!(next.settle(settings).await, 0);
        next.clock().sleep(Duration::from_mins(2)).await;
        assert_eq!(next.settle(settings).await, 1);
        assert!(next.bases_on(BULK_FOLDER).is_empty());
    });
}

#[test]
fn what_was_sealed_longest_goes_first_also_after_a_restart() {
    let open = async |scene: &Scene, number: i32, end: i64| {
        let name = TopicPartition {
            topic: "orders".into(),
            partition: number,
        };
        let how = OpenAs {
            clean: end > 0,
            recovery_point: Offset(end),
            log_start: Offset(0),
            compacted: None,
        };
        let store = &scene.world.store;
        let opened = store.open_log(Path::new(DIR), name, topic_id(), options(), how);
        opened.await.unwrap()
    };
    simulate(async {
        let scene = Scene::new(GB, GB);
        let mut ends = Vec::new();
        for number in [1, 0] {
            let log = open(&scene, number, 0).await;
            fill(&log, 1).await;
            scene.clock().sleep(HOUR).await;
            log.close().await.unwrap();
            ends.push(log.log_end_offset().0);
        }
        let next = scene.successor(scene.disk().crash(1), store_options());
        // The younger one is looked at first.
        let _zero = open(&next, 0, ends[1]).await;
        let _one = open(&next, 1, ends[0]).await;
        let mut mover = Mover::new(&next.world.store, eager()).unwrap();
        for moved in mover.turn(&next.world.store).await {
            moved.await.unwrap();
        }
        assert!(next.has("/bulk/orders-1", "00000000000000000000.log"));
        assert!(!next.has("/bulk/orders-0", "00000000000000000000.log"));
    });
}

#[test]
fn a_compaction_does_not_make_segments_older() {
    simulate(async {
        let scene = Scene::new(GB, GB);
        let log = scene.open(compacted()).await;
        // Begun hours before they are sealed.
        for _ in 1..=3 {
            scene.clock().sleep(HOUR).await;
            log.append(&batch(0, 3, 1000), EPOCH, NOW_MS).unwrap();
            log.roll().await.unwrap();
            log.save().await.unwrap();
        }
        let before = reports(&scene).await;
        let newest = before.iter().filter_map(|report| report.sealed_ms).max();
        log.compaction().begin_compacting();
        log.set_high_watermark(log.durable_offset());
        let options = CompactOptions {
            map_bytes_max: 1 << 20,
            map_load_factor: 0.9,
            buffer_bytes: 64 << 10,
            bytes_per_second_max: f64::MAX,
        };
        log.compact(&policy(), &options).await.unwrap();
        let after = reports(&scene).await;
        let (old, new) = (segment_bytes(&before), segment_bytes(&after));
        assert_ne!(old, new, "something was compacted");
        let made = after.iter().filter_map(|report| report.sealed_ms).max();
        assert_eq!(made, newest, "{before:?} {after:?}");
    });
}

fn segment_bytes(reports: &[SegmentReport]) -> Vec<u64> {
    reports.iter().map(|report| report.bytes).collect()
}
