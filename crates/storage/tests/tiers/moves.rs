//! Segments on their way between tiers, while the log is read, cut, deleted from and stopped.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use storage::{Error, LogOptions};
use wire::types::{Offset, TimestampMs};

use super::scene::*;
use crate::world::*;

const GB: u64 = 1 << 30;

#[test]
fn sealed_segments_go_down_and_the_log_is_what_it_was() {
    simulate(async {
        let scene = Scene::new(GB, GB);
        let twin = World::new();
        let log = scene.open(options()).await;
        let plain = twin.open(options()).await;
        fill(&log, 4).await;
        fill(&plain, 4).await;
        assert_eq!(scene.settle(eager()).await, 4);
        assert_eq!(scene.bases_on(BULK_FOLDER).len(), 4);
        assert_eq!(scene.bases_on(FOLDER).len(), 1);
        let end = log.log_end_offset();
        assert_eq!(end, plain.log_end_offset());
        assert_holds(&log, 0, end.0).await;
        // Byte for byte, data and indexes.
        for base in scene.bases_on(BULK_FOLDER) {
            for suffix in ["log", "index", "timeindex"] {
                let name = format!("{base:020}.{suffix}");
                let moved = scene.disk().contents(&Path::new(BULK_FOLDER).join(&name));
                let stayed = twin.disk().contents(&Path::new(FOLDER).join(&name));
                assert!(moved.unwrap() == stayed.unwrap(), "{name}");
            }
            // Snapshots stay at home.
            assert!(!scene.has(BULK_FOLDER, &format!("{base:020}.snapshot")));
        }
        let time = TimestampMs(NOW_MS + 5);
        assert_eq!(
            log.offset_for_timestamp(time, end).await.unwrap(),
            plain.offset_for_timestamp(time, end).await.unwrap()
        );
        assert_eq!(log.size_bytes(), plain.size_bytes());
        let on_bulk = log.tiers().bytes_by_path()[0];
        assert_eq!(scene.tiers.path(on_bulk.0).unwrap().dir(), Path::new(BULK));
        assert_eq!(scene.path(1).used_bytes(), on_bulk.1);
    });
}

#[test]
fn what_has_moved_is_found_by_the_next_start_and_comes_up_again() {
    simulate(async {
        let scene = Scene::new(GB, GB);
        let log = scene.open(options()).await;
        fill(&log, 4).await;
        scene.settle(eager()).await;
        let end = log.log_end_offset().0;
        log.close().await.unwrap();
        let next = scene.successor(scene.disk().crash(3), store_options());
        let log = next.try_open(options(), true, end, 0).await.unwrap();
        assert_eq!((log.log_start_offset().0, log.log_end_offset().0), (0, end));
        assert_holds(&log, 0, end).await;
        assert_eq!(next.bases_on(BULK_FOLDER).len(), 4);
        for base in next.bases_on(BULK_FOLDER) {
            assert!(log.tiers().ask_for_tier(Offset(base), 0));
        }
        assert_eq!(next.settle(still()).await, 4);
        assert!(next.bases_on(BULK_FOLDER).is_empty());
        assert_holds(&log, 0, end).await;
    });
}

#[test]
fn what_was_asked_of_a_log_is_done_when_it_has_been_opened_anew() {
    simulate(async {
        let scene = Scene::new(GB, GB);
        let before = scene.open(options()).await;
        fill(&before, 4).await;
        scene.settle(eager()).await;
        for base in scene.bases_on(BULK_FOLDER) {
            assert!(before.tiers().ask_for_tier(Offset(base), 0));
        }
        before.close().await.unwrap();
        let end = before.log_end_offset().0;
        let log = scene.try_open(options(), true, end, 0).await.unwrap();
        assert_eq!(scene.settle(still()).await, 0, "nobody has asked this one");
        log.tiers().take_over_asks(&before);
        assert_eq!(scene.settle(still()).await, 4);
        assert!(scene.bases_on(BULK_FOLDER).is_empty());
        assert_holds(&log, 0, end).await;
    });
}

#[test]
fn a_reader_of_the_old_copy_reads_it_to_the_end_and_then_it_goes() {
    simulate(async {
        let scene = Scene::new(GB, GB);
        let log = scene.open(options()).await;
        fill(&log, 2).await;
        let slow = (Duration::from_millis(50), Duration::from_millis(50));
        let next = scene.successor(scene.disk().kill(1), store_options());
        let log_end = log.log_end_offset().0;
        let log = next.try_open(options(), false, log_end, 0).await.unwrap();
        next.disk().set_latency(slow.0, slow.1);
        let reader = Rc::clone(&log);
        let reading = platform::task::spawn(async move {
            for _ in 0..5 {
                assert_holds(&reader, 0, log_end).await;
            }
        });
        next.settle(eager()).await;
        reading.await.unwrap();
        assert_eq!(next.bases_on(BULK_FOLDER).len(), 2);
        let clock = next.clock();
        clock.sleep(Duration::from_mins(2)).await;
        for base in next.bases_on(BULK_FOLDER) {
            assert!(!next.has(FOLDER, &format!("{base:020}.log.deleted")));
        }
    });
}

#[test]
fn retention_deletes_segments_wherever_they_are_and_the_notes_of_them() {
    simulate(async {
        let scene = Scene::new(GB, GB);
        let log = scene.open(options()).await;
        fill(&log, 4).await;
        scene.settle(eager()).await;
        let bases = scene.bases_on(BULK_FOLDER);
        log.set_options(LogOptions {
            retention_bytes: Some(100 << 10),
            ..options()
        });
        let deleted = log.retain(NOW_MS).await.unwrap();
        assert!(deleted > 1, "{deleted}");
        let gone = &bases[..deleted];
        assert_eq!(scene.bases_on(BULK_FOLDER), bases[deleted..].to_vec());
        for base in gone {
            assert!(!scene.has(FOLDER, &format!("{base:020}.away")));
        }
        let (start, end) = (log.log_start_offset().0, log.log_end_offset().0);
        assert_holds(&log, start, end).await;
        let next = scene.successor(scene.disk().crash(4), store_options());
        let log = next.try_open(options(), false, 0, 0).await.unwrap();
        assert_eq!(
            (log.log_start_offset().0, log.log_end_offset().0),
            (start, end)
        );
    });
}

#[test]
fn cutting_into_a_segment_that_has_moved_goes_on_there() {
    simulate(async {
        let scene = Scene::new(GB, GB);
        let log = scene.open(options()).await;
        fill(&log, 3).await;
        scene.settle(eager()).await;
        let cut = scene.bases_on(BULK_FOLDER)[1] + 4;
        log.truncate_to(Offset(cut)).await.unwrap();
        let end = log.log_end_offset().0;
        assert!(end <= cut && end > cut - 4, "{end} {cut}");
        produce(&log, 3, 3000).await;
        assert_holds(&log, 0, end + 3).await;
        let next = scene.successor(scene.disk().crash(4), store_options());
        let log = next.try_open(options(), false, 0, 0).await.unwrap();
        assert_holds(&log, 0, end + 3).await;
        assert_eq!(log.log_end_offset().0, end + 3);
    });
}

#[test]
fn a_deleted_log_is_gone_from_every_tier() {
    simulate(async {
        let scene = Scene::new(GB, GB);
        let log = scene.open(options()).await;
        fill(&log, 3).await;
        scene.settle(eager()).await;
        log.delete().await.unwrap();
        assert!(scene.bases_on(BULK_FOLDER).is_empty());
        drop(log);
        let again = scene.open(options()).await;
        assert_eq!(again.log_end_offset().0, 0);
        assert_eq!(
            scene.path(1).segments(),
            0,
            "nothing is counted that is gone"
        );
    });
}

#[test]
fn a_stop_or_a_cut_in_the_middle_of_a_move_ends_it() {
    for after_ms in [1, 20, 45, 70, 100, 150, 220] {
        simulate(async {
            let scene = Scene::new(GB, GB);
            let log = scene.open(options()).await;
            fill(&log, 3).await;
            let end = log.log_end_offset().0;
            let delay = Duration::from_millis(7);
            scene.disk().set_latency(delay, delay);
            let clock = scene.clock();
            let other = Rc::clone(&log);
            let ended = platform::task::spawn(async move {
                clock.sleep(Duration::from_millis(after_ms)).await;
                if after_ms % 2 == 0 {
                    other.truncate_to(Offset(2)).await.unwrap();
                } else {
                    other.close().await.unwrap();
                }
            });
            scene.settle(eager()).await;
            ended.await.unwrap();
            let left = log.log_end_offset().0;
            let next = scene.successor(scene.disk().crash(after_ms), store_options());
            next.disk().set_latency(Duration::ZERO, Duration::ZERO);
            let log = next.try_open(options(), false, 0, 0).await.unwrap();
            assert_eq!(log.log_end_offset().0, left.min(end));
            assert_holds(&log, 0, left).await;
        });
    }
}

#[test]
fn a_drained_path_is_emptied_while_it_serves_and_gets_nothing_new() {
    simulate(async {
        let scene = Scene::new(GB, GB);
        let log = scene.open(options()).await;
        fill(&log, 3).await;
        scene.path(0).set_draining(true);
        scene.settle(still()).await;
        produce(&log, 3, 3000).await;
        fill(&log, 5).await;
        scene.settle(still()).await;
        assert!(
            scene.bases_on(FOLDER).is_empty(),
            "{:?}",
            scene.bases_on(FOLDER)
        );
        assert_holds(&log, 0, log.log_end_offset().0).await;
        let end = log.log_end_offset().0;
        let next = scene.successor(scene.disk().crash(4), store_options());
        let log = next.try_open(options(), false, 0, 0).await.unwrap();
        assert_eq!(log.log_end_offset().0, end);
        assert_holds(&log, 0, end).await;
    });
}

#[test]
fn damage_is_found_before_a_segment_moves_and_it_is_neither_served_nor_removed() {
    simulate(async {
        let scene = Scene::new(GB, GB);
        let log = scene.open(options()).await;
        fill(&log, 3).await;
        let log_end = log.log_end_offset().0;
        let next = scene.successor(scene.disk().kill(1), store_options());
        let log = next.try_open(options(), false, log_end, 0).await.unwrap();
        let bases = next.bases_on(FOLDER);
        let damaged = Path::new(FOLDER).join(format!("{:020}.log", bases[1]));
        next.disk().flip(&damaged, 30_000, 3).unwrap();
        assert_eq!(next.settle(eager()).await, 3, "one of them fails");
        assert_eq!(next.bases_on(FOLDER), [bases[1], bases[3]]);
        let refused = log
            .read(Offset(bases[1]), Offset(log_end), 1000, true)
            .await;
        assert!(matches!(refused, Err(Error::Offline { .. })), "{refused:?}");
        assert_holds(&log, 0, bases[1]).await;
        assert_holds(&log, bases[2], log_end).await;
        assert_eq!(
            next.world.store.tiers().unwrap().paths()[1].move_errors(),
            1
        );
    });
}

#[test]
fn moves_at_the_same_time_to_a_path_that_is_new_do_not_hinder_each_other() {
    for seed in 0..20 {
        simulate(async {
            let platform = platform::sim::SimPlatform::new(seed);
            let scene = Scene::on(platform, store_options(), GB, GB);
            let log = scene.open(options()).await;
            fill(&log, 5).await;
            let latency = Duration::from_micros(seed * 10);
            scene.disk().set_latency(Duration::ZERO, latency);
            let mut settings = eager();
            settings.threads = 4;
            scene.settle(settings).await;
            assert!(
                scene.path(1).failed().is_none(),
                "{:?}",
                scene.path(1).failed()
            );
            assert_eq!(scene.bases_on(BULK_FOLDER).len(), 5);
            assert_holds(&log, 0, log.log_end_offset().0).await;
        });
    }
}
