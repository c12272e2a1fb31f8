//! Copies of a segment that do not count, and notes that say so, through full disks, refused notes
//! and losses of power: none of them ever takes the place of the records that were acknowledged.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use platform::sim::{Effect, Fault, OpKind};
use storage::LogOptions;
use storage::tier::Mover;
use wire::types::{Offset, Uuid};

use super::scene::*;
use crate::world::*;

const GB: u64 = 1 << 30;

fn data(folder: &str, base: i64) -> PathBuf {
    Path::new(folder).join(format!("{base:020}.log"))
}

fn note_by_name(base: i64, id: Uuid) -> String {
    format!("{base:020}.{}.away", id.simple())
}

fn bulk_id(scene: &Scene) -> Uuid {
    scene.path(1).identity().unwrap()
}

#[test]
fn an_empty_copy_that_nobody_noted_does_not_take_the_place_of_records_still_written_to() {
    // Behind its batches an active segment has room that was reserved, or half a batch.
    for tail in ["reserved", "torn", "exact"] {
        simulate(async {
            let scene = Scene::new(GB, GB);
            let log = scene.open(options()).await;
            fill(&log, 2).await;
            produce(&log, 2, 500).await;
            let end = log.log_end_offset().0;
            let active = *scene.bases_on(FOLDER).last().unwrap();
            let file = data(FOLDER, active);
            let next = scene.successor(scene.disk().kill(1), store_options());
            let mut bytes = next.disk().contents(&file).unwrap();
            if tail != "reserved" {
                // A record without headers ends with a zero.
                let used = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 2;
                bytes.truncate(used);
            }
            if tail == "torn" {
                let half = bytes[..bytes.len() / 2].to_vec();
                bytes.extend(half);
            }
            next.disk().put(&file, &bytes).unwrap();
            next.disk().put(&data(BULK_FOLDER, active), b"").unwrap();
            let log = next.try_open(options(), false, 0, 0).await.unwrap();
            assert_eq!(log.log_end_offset().0, end, "{tail}");
            assert_holds(&log, 0, end).await;
        });
    }
}

#[test]
fn on_a_full_disk_records_that_arrive_while_the_log_leaves_its_path_are_there_after_a_loss_of_power()
 {
    for delay_us in (0..12_000).step_by(500) {
        simulate(async {
            let scene = Scene::new(GB, GB);
            let log = scene.open(options()).await;
            fill(&log, 2).await;
            // There is a folder on the other path.
            scene.settle(eager()).await;
            log.roll().await.unwrap();
            log.save().await.unwrap();
            log.flush().await.unwrap();
            scene.disk().set_capacity_of(Path::new(DIR), Some(1));
            let step = Duration::from_millis(1);
            scene.disk().set_latency(step, step);
            scene.path(0).set_draining(true);
            let mut mover = Mover::new(&scene.world.store, still()).unwrap();
            drop(mover.turn(&scene.world.store).await);
            scene.clock().sleep(Duration::from_micros(delay_us)).await;
            append(&log, 2, 500);
            scene.clock().sleep(Duration::from_millis(200)).await;
            scene.disk().set_capacity_of(Path::new(DIR), None);
            scene.path(0).set_draining(false);
            scene.clock().sleep(Duration::from_secs(5)).await;
            log.flush().await.unwrap();
            produce(&log, 2, 500).await;
            let end = log.log_end_offset().0;
            let next = scene.successor(scene.disk().crash(delay_us), store_options());
            let log = next.try_open(options(), false, 0, 0).await.unwrap();
            assert_eq!(log.log_end_offset().0, end, "after {delay_us} us");
            assert_holds(&log, 0, end).await;
        });
    }
}

#[test]
fn a_note_that_had_no_room_for_a_text_outlives_a_start_without_room() {
    simulate(async {
        let scene = Scene::new(GB, GB);
        let log = scene.open(options()).await;
        fill(&log, 3).await;
        scene.settle(eager()).await;
        let (end, away) = (log.log_end_offset().0, scene.bases_on(BULK_FOLDER));
        assert!(!away.is_empty());
        log.close().await.unwrap();
        let full = scene.successor(scene.disk().crash(1), store_options());
        for base in &away {
            let text = format!("{base:020}.away");
            let name = note_by_name(*base, bulk_id(&scene));
            let folder = Path::new(FOLDER);
            let disk = full.disk().clone();
            platform::Disk::remove_file(&disk, &folder.join(text))
                .await
                .unwrap();
            full.disk().put(&folder.join(name), b"").unwrap();
        }
        full.disk().set_capacity_of(Path::new(DIR), Some(1));
        let log = full.try_open(options(), true, end, 0).await.unwrap();
        assert_holds(&log, 0, end).await;
        drop(log);
        // The next start has room again, and the other path not.
        let next = full.successor(full.disk().crash(2), store_options());
        next.disk().set_capacity_of(Path::new(DIR), None);
        next.path(1).fail("it is not mounted");
        let log = next.try_open(options(), false, end, 0).await.unwrap();
        assert_eq!(log.log_start_offset(), Offset(0), "they are known of");
        assert_eq!(log.log_end_offset(), Offset(end));
    });
}

#[test]
fn a_note_by_name_of_where_a_segment_was_before_does_not_count() {
    simulate(async {
        let scene = Scene::new(GB, GB);
        let log = scene.open(options()).await;
        fill(&log, 3).await;
        scene.settle(eager()).await;
        let base = scene.bases_on(BULK_FOLDER)[0];
        // As a full disk leaves it.
        let name = note_by_name(base, bulk_id(&scene));
        scene
            .disk()
            .put(&Path::new(FOLDER).join(&name), b"")
            .unwrap();
        log.tiers().ask_for_tier(Offset(base), 0);
        scene.settle(still()).await;
        assert!(scene.bases_on(FOLDER).contains(&base));
        assert!(!scene.has(FOLDER, &name), "it came home");
    });
}

#[test]
fn a_copy_whose_note_was_refused_does_not_bring_back_records_that_were_cut_off() {
    for seed in 0..24 {
        simulate(async {
            let scene = Scene::new(GB, GB);
            let log = scene.open(options()).await;
            fill(&log, 2).await;
            let base = scene.bases_on(FOLDER)[1];
            log.tiers().ask_for_tier(Offset(base), 1);
            scene.disk().inject(Fault {
                path_contains: Some(format!("{base:020}.away")),
                ..Fault::at_kind(0, OpKind::Rename, Effect::Fail(ErrorKind::Other))
            });
            let mut mover = Mover::new(&scene.world.store, still()).unwrap();
            for moved in mover.turn(&scene.world.store).await {
                moved.await.unwrap();
            }
            assert_eq!(scene.disk().faults_left(), 0, "a move was under way");
            assert!(scene.bases_on(FOLDER).contains(&base), "it has not moved");
            log.truncate_to(Offset(base + 3)).await.unwrap();
            let end = log.log_end_offset().0;
            assert!(end > base);
            let next = scene.successor(scene.disk().crash(seed), store_options());
            let log = next.try_open(options(), false, 0, 0).await.unwrap();
            assert_eq!(log.log_end_offset().0, end, "{seed}");
        });
    }
}

#[test]
fn without_room_to_note_that_the_log_comes_home_its_records_are_there_after_a_loss_of_power() {
    for seed in 0..8 {
        simulate(async {
            let scene = Scene::new(GB, GB);
            let log = scene.open(options()).await;
            scene.path(0).set_draining(true);
            fill(&log, 2).await;
            log.roll().await.unwrap();
            log.save().await.unwrap();
            scene.settle(still()).await;
            scene.clock().sleep(Duration::from_secs(1)).await;
            let active = *scene.bases_on(BULK_FOLDER).last().unwrap();
            assert_eq!(active, log.log_end_offset().0, "the log goes on there");
            scene.path(0).set_draining(false);
            scene.path(1).set_draining(true);
            scene.disk().inject(Fault {
                path_contains: Some(".owed".to_owned()),
                ..Fault::at_kind(0, OpKind::Write, Effect::Fail(ErrorKind::StorageFull))
            });
            let mut mover = Mover::new(&scene.world.store, still()).unwrap();
            drop(mover.turn(&scene.world.store).await);
            scene.clock().sleep(Duration::from_secs(1)).await;
            assert_eq!(scene.disk().faults_left(), 0, "it was to come home");
            produce(&log, 3, 500).await;
            let end = log.log_end_offset().0;
            let next = scene.successor(scene.disk().crash(seed), store_options());
            let log = next.try_open(options(), false, 0, 0).await.unwrap();
            assert_eq!(log.log_end_offset().0, end, "{seed}");
            assert_holds(&log, 0, end).await;
        });
    }
}

/// A log that goes on on the second tier although it need not, and is on its way home from there.
async fn coming_home(delay_us: u64, is_full: bool) -> (Scene, SimLog) {
    let scene = Scene::new(GB, GB);
    let log = scene.open(options()).await;
    scene.path(0).set_draining(true);
    fill(&log, 2).await;
    log.roll().await.unwrap();
    log.save().await.unwrap();
    scene.settle(still()).await;
    scene.clock().sleep(Duration::from_secs(1)).await;
    let active = *scene.bases_on(BULK_FOLDER).last().unwrap();
    assert_eq!(active, log.log_end_offset().0, "the log goes on there");
    scene.path(0).set_draining(false);
    scene.path(1).set_draining(true);
    let step = Duration::from_millis(1);
    scene.disk().set_latency(step, step);
    let mut mover = Mover::new(&scene.world.store, still()).unwrap();
    drop(mover.turn(&scene.world.store).await);
    scene.clock().sleep(Duration::from_micros(delay_us)).await;
    append(&log, 2, 500);
    if is_full {
        scene.disk().set_capacity_of(Path::new(DIR), Some(1));
    }
    (scene, log)
}

#[test]
fn records_that_arrive_while_the_log_comes_home_are_there_after_a_loss_of_power() {
    for is_full in [false, true] {
        let (mut home, mut stayed) = (0, 0);
        for delay_us in (0..24_000).step_by(500) {
            simulate(async {
                let (scene, log) = coming_home(delay_us, is_full).await;
                scene.clock().sleep(Duration::from_secs(20)).await;
                scene.disk().set_capacity_of(Path::new(DIR), None);
                scene.path(1).set_draining(false);
                scene.clock().sleep(Duration::from_secs(5)).await;
                log.flush().await.unwrap();
                produce(&log, 2, 500).await;
                let end = log.log_end_offset().0;
                let last = scene.bases_on(BULK_FOLDER).last().copied();
                let is_home = scene.bases_on(FOLDER).last().copied() > last;
                *(if is_home { &mut home } else { &mut stayed }) += 1;
                let next = scene.successor(scene.disk().crash(delay_us), store_options());
                let log = next.try_open(options(), false, 0, 0).await.unwrap();
                assert_eq!(
                    log.log_end_offset().0,
                    end,
                    "{is_full}: after {delay_us} us"
                );
                assert_holds(&log, 0, end).await;
            });
        }
        assert!(home > 0 && stayed > 0, "{is_full}: {home} {stayed}");
    }
}

#[test]
fn a_copy_without_a_note_does_not_outlive_its_segment_on_a_path_that_was_away() {
    for delay_us in (0..60_000).step_by(1000) {
        simulate(async {
            let scene = Scene::new(GB, GB);
            let log = scene.open(options()).await;
            fill(&log, 3).await;
            let end = log.log_end_offset().0;
            let step = Duration::from_millis(1);
            scene.disk().set_latency(step, step);
            let mut mover = Mover::new(&scene.world.store, eager()).unwrap();
            drop(mover.turn(&scene.world.store).await);
            scene.clock().sleep(Duration::from_micros(delay_us)).await;
            let away = scene.successor(scene.disk().crash(delay_us), store_options());
            away.disk().set_latency(Duration::ZERO, Duration::ZERO);
            away.path(1).fail("it is not mounted");
            let log = away.try_open(options(), false, end, 0).await.unwrap();
            log.set_high_watermark(log.log_end_offset());
            log.set_options(LogOptions {
                retention_bytes: Some(0),
                ..options()
            });
            for turn in 0.. {
                if log.retain(NOW_MS).await.unwrap() == 0 {
                    break;
                }
                assert!(turn < 100, "after {delay_us} us it never ends");
            }
            away.clock().sleep(Duration::from_secs(1)).await;
            let next = away.successor(away.disk().kill(1), store_options());
            let log = next.try_open(options(), false, end, 0).await.unwrap();
            let start = log.log_start_offset().0;
            assert_eq!(log.log_end_offset().0, end);
            assert_holds(&log, start, end).await;
        });
    }
}

#[test]
fn a_full_disk_is_relieved_although_another_path_owes_a_copy_of_the_segment() {
    simulate(async {
        let scene = Scene::new(GB, GB);
        let log = scene.open(options()).await;
        fill(&log, 3).await;
        let end = log.log_end_offset().0;
        log.close().await.unwrap();
        let disk = scene.disk().kill(1);
        let unknown = wire::types::uuid_to_base64(Uuid::from_u128(77));
        for base in scene.bases_on(FOLDER) {
            let note = Path::new(FOLDER).join(format!("{base:020}.owed"));
            let debt = format!("version: 1\ncopy {unknown} /elsewhere\n");
            disk.put(&note, debt.as_bytes()).unwrap();
        }
        let next = scene.successor(disk, store_options());
        let log = next.try_open(options(), true, end, 0).await.unwrap();
        next.disk().set_capacity_of(Path::new(DIR), Some(1));
        let mut mover = Mover::new(&next.world.store, eager()).unwrap();
        for _ in 0..6 {
            for moved in mover.turn(&next.world.store).await {
                moved.await.unwrap();
            }
        }
        assert_eq!(next.bases_on(BULK_FOLDER).len(), 3);
        assert!(log.failed().is_none(), "a full disk latches nothing");
        let again = next.successor(next.disk().crash(1), store_options());
        again.path(1).fail("it is not mounted");
        let log = again.try_open(options(), false, end, 0).await.unwrap();
        assert_eq!((log.log_start_offset().0, log.log_end_offset().0), (0, end));
    });
}
