//! Paths that are not there when a log is opened: nothing is concluded from what is not found.

use std::path::Path;

use platform::Disk;
use storage::{Error, FailureKind};
use wire::types::Offset;

use super::scene::*;
use crate::world::*;

const GB: u64 = 1 << 30;

async fn moved() -> (Scene, i64) {
    let scene = Scene::new(GB, GB);
    let log = scene.open(options()).await;
    fill(&log, 4).await;
    scene.settle(eager()).await;
    let end = log.log_end_offset().0;
    log.close().await.unwrap();
    (scene, end)
}

#[test]
fn offsets_of_an_absent_path_are_refused_and_the_start_of_the_log_does_not_move() {
    simulate(async {
        let (scene, end) = moved().await;
        let next = scene.successor(scene.disk().crash(1), store_options());
        next.path(1).fail("it is not mounted");
        let log = next.try_open(options(), true, end, 0).await.unwrap();
        assert_eq!((log.log_start_offset().0, log.log_end_offset().0), (0, end));
        let at_home = next.bases_on(FOLDER)[0];
        for offset in [0, 7, at_home - 1] {
            let refused = log.read(Offset(offset), Offset(end), 1000, true).await;
            assert!(matches!(refused, Err(Error::Offline { .. })), "{refused:?}");
        }
        assert_holds(&log, at_home, end).await;
        // Nothing is deleted because it is not there.
        log.set_high_watermark(log.durable_offset());
        assert_eq!(log.retain(NOW_MS).await.unwrap(), 0);
        assert_eq!(log.log_start_offset().0, 0);
        assert!(log.truncate_fully_and_start_at(Offset(9)).await.is_err());
        // With the path, everything is back.
        let again = next.successor(next.disk().crash(2), store_options());
        let log = again.try_open(options(), false, end, 0).await.unwrap();
        assert_holds(&log, 0, end).await;
    });
}

#[test]
fn a_cut_that_an_absent_path_does_not_allow_is_refused_and_the_log_goes_on() {
    simulate(async {
        let (scene, end) = moved().await;
        let next = scene.successor(scene.disk().crash(1), store_options());
        next.path(1).fail("it is not mounted");
        let log = next.try_open(options(), true, end, 0).await.unwrap();
        let is_offline = |refused| matches!(refused, Err(Error::Offline { .. }));
        assert!(is_offline(log.truncate_to(Offset(3)).await));
        let anew = log.truncate_fully_and_start_at(Offset(9)).await;
        assert!(is_offline(anew));
        produce(&log, 2, 100).await;
        // Without snapshots, only the records on the absent path show what producers wrote before.
        for entry in next.disk().list(Path::new(FOLDER)).await.unwrap() {
            if entry.name.ends_with(".snapshot") {
                let file = Path::new(FOLDER).join(&entry.name);
                next.disk().remove_file(&file).await.unwrap();
            }
        }
        assert!(is_offline(log.truncate_to(Offset(end + 1)).await));
        assert!(log.failed().is_none(), "{:?}", log.failed());
        assert_eq!(log.log_end_offset().0, end + 2);
        produce(&log, 2, 100).await;
        // With a snapshot that is of the log without them, it is cut.
        log.save().await.unwrap();
        produce(&log, 2, 100).await;
        log.truncate_to(Offset(end + 4)).await.unwrap();
        assert_eq!(log.log_end_offset().0, end + 4);
        assert_holds(&log, next.bases_on(FOLDER)[0], end + 4).await;
    });
}

#[test]
fn a_gap_in_the_middle_is_refused_and_not_skipped() {
    simulate(async {
        let (scene, end) = moved().await;
        let middle = scene.bases_on(BULK_FOLDER)[2];
        let next = scene.successor(scene.disk().crash(1), store_options());
        let log = next.try_open(options(), true, end, 0).await.unwrap();
        // The oldest two come home again, so that a gap is left when the slow tier goes.
        for base in &next.bases_on(BULK_FOLDER)[..2] {
            log.tiers().ask_for_tier(Offset(*base), 0);
        }
        next.settle(still()).await;
        log.close().await.unwrap();
        let next = next.successor(next.disk().crash(3), store_options());
        next.path(1).fail("it is not mounted");
        let log = next.try_open(options(), true, end, 0).await.unwrap();
        assert_holds(&log, 0, middle).await;
        let refused = log.read(Offset(middle), Offset(end), 1000, true).await;
        assert_eq!(refused.unwrap_err().kind(), FailureKind::Retry);
    });
}

#[test]
fn a_log_whose_end_is_on_an_absent_path_is_not_opened_short() {
    simulate(async {
        let scene = Scene::new(100 << 10, GB);
        let log = scene.open(options()).await;
        fill(&log, 3).await;
        let end = log.log_end_offset().0;
        assert!(scene.bases_on(BULK_FOLDER).last() > scene.bases_on(FOLDER).last());
        let next = scene.successor(scene.disk().crash(1), store_options());
        next.path(1).fail("it is not mounted");
        let refused = next.try_open(options(), false, 0, 0).await;
        let Err(error) = refused else {
            panic!("it was opened")
        };
        assert!(matches!(error, Error::Offline { .. }), "{error}");
        let next = next.successor(next.disk().crash(2), store_options());
        let log = next.try_open(options(), false, 0, 0).await.unwrap();
        assert_eq!(log.log_end_offset().0, end);
        assert_holds(&log, 0, end).await;
    });
}

#[test]
fn files_that_nobody_here_has_made_are_left_alone() {
    simulate(async {
        let (scene, end) = moved().await;
        let foreign = Path::new(BULK_FOLDER).join("notes.txt");
        scene.disk().put(&foreign, b"mine").unwrap();
        let next = scene.successor(scene.disk().crash(1), store_options());
        let log = next.try_open(options(), true, end, 0).await.unwrap();
        assert_holds(&log, 0, end).await;
        assert_eq!(next.disk().contents(&foreign).unwrap(), b"mine");
    });
}

#[test]
fn a_path_that_is_empty_because_it_is_not_mounted_is_offline_and_not_a_new_one() {
    simulate(async {
        let (scene, end) = moved().await;
        let next = scene.successor(scene.disk().crash(1), store_options());
        let unmounted = next.disk().remove_dir(Path::new(BULK_FOLDER)).await;
        unmounted.unwrap();
        let log = next.try_open(options(), true, end, 0).await.unwrap();
        assert_eq!((log.log_start_offset().0, log.log_end_offset().0), (0, end));
        let refused = log.read(Offset(0), Offset(end), 1000, true).await;
        assert!(matches!(refused, Err(Error::Offline { .. })), "{refused:?}");
        assert!(next.path(1).failed().is_some());
        fill(&log, 6).await;
        assert_eq!(next.settle(eager()).await, 0, "nothing is put there");
    });
}

#[test]
fn why_segments_are_kept_is_told_also_while_a_path_is_absent() {
    simulate(async {
        let (scene, end) = moved().await;
        let next = scene.successor(scene.disk().crash(1), store_options());
        next.path(1).fail("it is not mounted");
        let log = next.try_open(options(), true, end, 0).await.unwrap();
        log.set_high_watermark(log.durable_offset());
        let told = log.tiers().kept().await;
        assert_eq!(told.len(), log.segment_count(), "{told:?}");
        let reports = next.world.store.tier_segments(&eager(), |_| true).await;
        let here = reports.iter().filter(|report| report.offline.is_none());
        let here: Vec<_> = here.collect();
        assert!(!here.is_empty(), "{reports:?}");
        assert!(
            here.iter().all(|report| report.kept.is_some()),
            "{reports:?}"
        );
    });
}
