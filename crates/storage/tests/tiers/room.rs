//! Paths that fill up, fail or are slow: each takes down only what is on it.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use platform::sim::SimPlatform;
use storage::{FailureKind, LogOptions, OpenAs, StoreOptions};
use wire::types::{Offset, TopicPartition};

use super::scene::*;
use crate::world::*;

const GB: u64 = 1 << 30;

fn small() -> LogOptions {
    LogOptions {
        preallocate: false,
        reserve_bytes: 0,
        file_delete_delay_ms: 1,
        ..options()
    }
}

#[test]
fn a_first_tier_that_is_full_spills_and_nothing_is_refused() {
    simulate(async {
        let scene = Scene::new(200 << 10, GB);
        let log = scene.open(small()).await;
        fill(&log, 8).await;
        assert!(!scene.bases_on(BULK_FOLDER).is_empty());
        assert!(scene.path(0).used_bytes() < 280 << 10);
        let end = log.log_end_offset().0;
        assert_holds(&log, 0, end).await;
        let next = scene.successor(scene.disk().crash(2), store_options());
        let log = next.try_open(small(), false, 0, 0).await.unwrap();
        assert_eq!(log.log_end_offset().0, end);
        assert_holds(&log, 0, end).await;
    });
}

#[test]
fn no_room_in_the_middle_of_a_segment_moves_what_is_unwritten_elsewhere() {
    for room in [30_u64, 45, 60, 75, 90, 110] {
        simulate(async {
            let scene = Scene::new(GB, GB);
            scene
                .disk()
                .set_capacity_of(Path::new(DIR), Some(room << 10));
            let log = scene.open(small()).await;
            for round in 0..60 {
                append(&log, 2, 1500);
                if round % 3 == 0 {
                    log.flush().await.unwrap();
                }
            }
            log.flush().await.unwrap();
            let end = log.log_end_offset().0;
            assert_eq!(end, 120);
            assert_holds(&log, 0, end).await;
            assert!(!scene.bases_on(BULK_FOLDER).is_empty());
            scene.disk().set_capacity_of(Path::new(DIR), None);
            let next = scene.successor(scene.disk().crash(room), store_options());
            let log = next.try_open(small(), false, 0, 0).await.unwrap();
            assert_eq!(log.log_end_offset().0, end, "with {room} KB");
            assert_holds(&log, 0, end).await;
            produce(&log, 2, 2000).await;
            assert_holds(&log, 0, end + 2).await;
        });
    }
}

#[test]
fn with_all_tiers_full_appends_are_refused_until_there_is_room_again() {
    simulate(async {
        let scene = Scene::new(150 << 10, 150 << 10);
        let log = scene.open(small()).await;
        let refused = loop {
            let first = log.log_end_offset().0;
            match log.append(&batch(first, 3, 3000), EPOCH, NOW_MS) {
                Ok(_) => log.flush().await.unwrap(),
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind(), FailureKind::Full);
        assert!(log.tiers().is_without_room());
        let end = log.log_end_offset().0;
        log.set_high_watermark(log.durable_offset());
        log.save().await.unwrap();
        assert_holds(&log, 0, end).await;
        log.set_options(LogOptions {
            retention_bytes: Some(100 << 10),
            ..small()
        });
        assert!(log.retain(NOW_MS).await.unwrap() > 0);
        assert!(!log.tiers().is_without_room());
        produce(&log, 3, 3000).await;
        assert_holds(&log, log.log_start_offset().0, end + 3).await;
    });
}

#[test]
fn a_log_that_capacities_do_not_bind_goes_on_while_all_others_are_refused() {
    simulate(async {
        let scene = Scene::new(100 << 10, 100 << 10);
        let log = scene.open(small()).await;
        let refused = loop {
            let first = log.log_end_offset().0;
            match log.append(&batch(first, 3, 3000), EPOCH, NOW_MS) {
                Ok(_) => log.flush().await.unwrap(),
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind(), FailureKind::Full);
        log.tiers().ignore_capacities();
        let end = log.log_end_offset().0;
        for _ in 0..30 {
            produce(&log, 2, 3000).await;
        }
        assert_holds(&log, 0, end + 60).await;
        assert!(
            scene
                .bases_on(FOLDER)
                .contains(&log.tiers().sealed_segments().last().unwrap().0)
        );
    });
}

#[test]
fn with_all_disks_full_nothing_is_lost_deleting_works_and_it_passes() {
    simulate(async {
        let scene = Scene::new(GB, GB);
        for dir in [DIR, BULK] {
            scene
                .disk()
                .set_capacity_of(Path::new(dir), Some(120 << 10));
        }
        let log = scene.open(small()).await;
        let mover = scene.world.store.spawn_mover(eager()).unwrap();
        // Bytes are taken until no disk has room for them: those that wait are kept in memory, and
        // not acknowledged.
        let mut acknowledged = 0;
        let failed = loop {
            let first = log.log_end_offset().0;
            match log.append(&batch(first, 2, 2000), EPOCH, NOW_MS) {
                Ok(appended) => {
                    let next = appended.last_offset.0 + 1;
                    let flushed = platform::task::timeout(Duration::from_secs(3), log.flush());
                    if matches!(flushed.await, Ok(Ok(()))) {
                        acknowledged = next;
                    }
                }
                Err(error) => break error,
            }
        };
        assert_eq!(failed.kind(), FailureKind::Full);
        let waiting = log.log_end_offset().0;
        log.set_high_watermark(log.durable_offset());
        assert_holds(&log, 0, acknowledged).await;
        log.set_options(LogOptions {
            retention_bytes: Some(60 << 10),
            ..small()
        });
        assert!(log.retain(NOW_MS).await.unwrap() > 0);
        scene.clock().sleep(Duration::from_secs(10)).await;
        produce(&log, 1, 500).await;
        assert_eq!(
            log.log_end_offset().0,
            waiting + 1,
            "what waited was written"
        );
        assert_holds(&log, log.log_start_offset().0, waiting + 1).await;
        mover.abort();
        let end = log.log_end_offset().0;
        let next = scene.successor(scene.disk().crash(4), store_options());
        let start = log.log_start_offset().0;
        let log = next.try_open(small(), false, 0, start).await.unwrap();
        assert_eq!(log.log_end_offset().0, end);
        assert_holds(&log, start, end).await;
    });
}

#[test]
fn no_room_for_a_copy_leaves_the_segment_where_it_is() {
    simulate(async {
        let scene = Scene::new(GB, GB);
        let log = scene.open(small()).await;
        fill(&log, 3).await;
        scene
            .disk()
            .set_capacity_of(Path::new(BULK), Some(100 << 10));
        scene.settle(eager()).await;
        assert_eq!(scene.bases_on(BULK_FOLDER).len(), 1);
        assert!(!scene.has(
            BULK_FOLDER,
            &format!("{:020}.log.moving", scene.bases_on(FOLDER)[0])
        ));
        assert_holds(&log, 0, log.log_end_offset().0).await;
        scene.disk().set_capacity_of(Path::new(BULK), None);
        scene.settle(eager()).await;
        assert_eq!(scene.bases_on(BULK_FOLDER).len(), 3);
    });
}

#[test]
fn a_path_that_fails_takes_down_only_what_is_on_it() {
    simulate(async {
        let scene = Scene::new(GB, GB);
        let log = scene.open(small()).await;
        fill(&log, 3).await;
        scene.settle(eager()).await;
        let bases = scene.bases_on(BULK_FOLDER);
        scene
            .disk()
            .set_broken(Path::new(BULK), Some(ErrorKind::Other));
        let end = log.log_end_offset().0;
        let next = scene.successor(scene.disk().kill(1), store_options());
        let log = next.try_open(small(), false, end, 0).await.unwrap();
        let refused = log
            .read(Offset(0), Offset(end), 1000, true)
            .await
            .unwrap_err();
        assert_eq!(refused.kind(), FailureKind::Retry, "{refused}");
        assert_eq!(log.log_start_offset().0, 0);
        let first_at_home = next.bases_on(FOLDER)[0];
        assert!(first_at_home > bases[2]);
        assert_holds(&log, first_at_home, end).await;
        fill(&log, 6).await;
        assert_holds(&log, first_at_home, log.log_end_offset().0).await;
        assert_eq!(next.settle(eager()).await, 0, "nothing is put on it");
    });
}

#[test]
fn a_failed_write_to_a_slower_tier_fails_the_logs_that_write_there_and_no_others() {
    simulate(async {
        let scene = Scene::new(GB, GB);
        let pinned = LogOptions {
            tier_pins: Some((1, 1)),
            ..small()
        };
        let log = scene.open(pinned).await;
        produce(&log, 1, 10).await;
        log.roll().await.unwrap();
        produce(&log, 3, 3000).await;
        assert_eq!(
            scene.bases_on(BULK_FOLDER),
            [0, 1],
            "from the first segment on"
        );
        assert!(scene.bases_on(FOLDER).is_empty());
        let other = TopicPartition {
            topic: "orders".into(),
            partition: 1,
        };
        let how = OpenAs {
            clean: false,
            recovery_point: Offset(0),
            log_start: Offset(0),
            compacted: None,
        };
        let store = &scene.world.store;
        let opened = store.open_log(Path::new(DIR), other, topic_id(), small(), how);
        let at_home = opened.await.unwrap();
        scene
            .disk()
            .set_broken(Path::new(BULK), Some(ErrorKind::Other));
        append(&log, 1, 100);
        assert!(log.flush().await.is_err());
        assert_eq!(log.failed().unwrap().kind(), FailureKind::Failed);
        assert!(!store.dir_failed(Path::new(DIR)));
        produce(&at_home, 5, 1000).await;
        assert_holds(&at_home, 0, 5).await;
    });
}

#[test]
fn a_slow_tier_does_not_slow_produce() {
    let seconds = |rate: Option<u64>| {
        simulate(async move {
            let scene = Scene::new(GB, GB);
            scene.disk().set_rate_of(Path::new(BULK), rate);
            let log = scene.open(small()).await;
            let mover = scene.world.store.spawn_mover(eager()).unwrap();
            let clock = scene.clock();
            let mut worst = Duration::ZERO;
            for _ in 0..200 {
                clock.sleep(Duration::from_millis(20)).await;
                let started = clock.now();
                produce(&log, 3, 3000).await;
                worst = worst.max(started.elapsed());
            }
            mover.abort();
            worst
        })
    };
    let (fast, slow) = (seconds(None), seconds(Some(1 << 20)));
    assert!(slow <= fast + Duration::from_millis(5), "{fast:?} {slow:?}");
}

#[test]
fn the_rate_of_moves_is_kept() {
    simulate(async {
        let scene = Scene::new(GB, GB);
        let log = scene.open(small()).await;
        fill(&log, 8).await;
        let bytes = log.size_bytes();
        let clock = scene.clock();
        let started = clock.now();
        let mut settings = eager();
        settings.bytes_per_second = Some(100 << 10);
        scene.settle(settings).await;
        let least = Duration::from_millis((bytes - (128 << 10)) * 1000 / (100 << 10));
        assert!(
            started.elapsed() >= least,
            "{:?} {least:?}",
            started.elapsed()
        );
    });
}

#[test]
fn a_store_without_memory_to_spare_still_spills() {
    simulate(async {
        let tight = StoreOptions {
            cache_bytes_max: 64 << 10,
            unwritten_bytes_max: 256 << 10,
            ..store_options()
        };
        let scene = Scene::on(SimPlatform::new(5), tight, GB, GB);
        scene.disk().set_capacity_of(Path::new(DIR), Some(50 << 10));
        let log = scene.open(small()).await;
        for _ in 0..30 {
            produce(&log, 2, 2000).await;
        }
        assert_holds(&log, 0, 60).await;
    });
}

#[test]
fn an_empty_segment_keeps_its_name_while_no_path_has_room_for_another() {
    simulate(async {
        let scene = Scene::new(GB, GB);
        let log = scene.open(small()).await;
        fill(&log, 3).await;
        log.set_high_watermark(log.durable_offset());
        let read = log.high_watermark();
        log.set_options(LogOptions {
            retention_bytes: Some(0),
            ..small()
        });
        log.roll().await.unwrap();
        while log.retain(NOW_MS).await.unwrap() > 0 {}
        assert_eq!((log.log_start_offset(), log.log_end_offset()), (read, read));
        // What was deleted takes room until later.
        scene.clock().sleep(Duration::from_secs(1)).await;
        for dir in [DIR, BULK] {
            scene.disk().set_capacity_of(Path::new(dir), Some(1));
        }
        append(&log, 4, 3000);
        let flushed = platform::task::timeout(Duration::from_secs(3), log.flush()).await;
        assert!(!matches!(flushed, Ok(Ok(()))));
        // No checkpoint says where the log starts: its only name does.
        let next = scene.successor(scene.disk().kill(3), store_options());
        let after = next.try_open(small(), false, 0, 0).await.unwrap();
        let bounds = (after.log_start_offset(), after.log_end_offset());
        assert_eq!(
            bounds,
            (read, read),
            "offsets that were read are given away again"
        );
    });
}

#[test]
fn without_room_for_a_note_at_home_no_segment_is_begun_elsewhere() {
    simulate(async {
        let tiers = vec![tier("fast", &[(DIR, GB)]), tier("bulk", &[(BULK, GB)])];
        let scene = Scene::unidentified(SimPlatform::new(11), store_options(), tiers);
        let log = scene.open(small()).await;
        fill(&log, 3).await;
        let space = platform::Disk::space(scene.disk(), Path::new(DIR))
            .await
            .unwrap();
        let used = space.total - space.free;
        scene.disk().set_capacity_of(Path::new(DIR), Some(used));
        append(&log, 60, 3000);
        let flushed = platform::task::timeout(Duration::from_secs(3), log.flush()).await;
        assert!(
            !matches!(flushed, Ok(Ok(()))),
            "records went where no note says that they are"
        );
        let (safe, end) = (log.durable_offset().0, log.log_end_offset().0);
        // Their producers have no answer yet, and with room they are written.
        scene.disk().set_capacity_of(Path::new(DIR), None);
        log.flush_for_good().await.unwrap();
        assert_holds(&log, 0, end).await;
        assert!(safe < end);
    });
}

#[test]
fn a_segment_that_was_not_noted_and_begins_within_another_hides_no_record() {
    for (clean, len) in [(true, 0), (false, 0), (true, 1), (false, 1)] {
        simulate(async {
            let scene = Scene::new(GB, GB);
            let log = scene.open(small()).await;
            fill(&log, 3).await;
            let end = log.log_end_offset().0;
            let base = log.tiers().sealed_segments()[1].0 + 1;
            log.close().await.unwrap();
            let name = format!("{base:020}.log");
            let file = Path::new(BULK_FOLDER).join(&name);
            let bytes = if len == 0 {
                Vec::new()
            } else {
                batch(base, 2, 2000).to_vec()
            };
            scene.disk().put(&file, &bytes).unwrap();
            let next = scene.successor(scene.disk().kill(3), store_options());
            let log = next.try_open(small(), clean, 0, 0).await.unwrap();
            assert_eq!(log.log_end_offset().0, end);
            assert_holds(&log, 0, end).await;
            assert!(next.has(BULK_FOLDER, &format!("{name}.aside")));
        });
    }
}

/// How long the mover takes for everything that is sealed, beside the bytes over the rate of the
/// second tier.
async fn time_beside_the_rate(scene: &Scene, bulk_rate: u64) -> f64 {
    let sealed = scene.path(0).used_bytes();
    scene.disk().set_rate_of(Path::new(BULK), Some(bulk_rate));
    let clock = scene.clock();
    let started = clock.now();
    let mover = scene.world.store.spawn_mover(eager()).unwrap();
    while scene.path(0).segments() > 1 {
        assert!(
            started.elapsed() < Duration::from_mins(1),
            "it does not end"
        );
        clock.sleep(Duration::from_millis(1)).await;
    }
    mover.abort();
    let moved = sealed - scene.path(0).used_bytes();
    #[expect(clippy::cast_precision_loss, reason = "bytes of a test")]
    let ideal = moved as f64 / bulk_rate as f64;
    started.elapsed().as_secs_f64() / ideal
}

#[test]
fn a_slow_tier_does_not_wait_for_the_next_turn() {
    let beside = simulate(async {
        let scene = Scene::new(GB, GB);
        let log = scene.open(small()).await;
        fill(&log, 20).await;
        // A segment takes twice as long as a turn.
        let segment = log.size_bytes() / u64::try_from(log.segment_count()).unwrap();
        time_beside_the_rate(&scene, segment * 5).await
    });
    assert!(beside < 1.15, "{beside}");
}

#[test]
fn a_slow_tier_does_not_wait_for_reads_of_the_next_step() {
    let beside = simulate(async {
        let scene = Scene::new(GB, GB);
        let large = LogOptions {
            segment_bytes: 24 << 20,
            ..small()
        };
        let log = scene.open(large).await;
        while log.segment_count() <= 2 {
            produce(&log, 10, 50_000).await;
        }
        log.set_high_watermark(log.durable_offset());
        let rate = 20 << 20;
        scene.disk().set_rate_of(Path::new(DIR), Some(rate));
        time_beside_the_rate(&scene, rate).await
    });
    assert!(beside < 1.2, "{beside}");
}
