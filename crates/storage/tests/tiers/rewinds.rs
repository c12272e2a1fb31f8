//! What a start knows of the producers while segments are on a path that is not there, or takes no
//! changes: it never goes back to them, and is refused by none.

use std::path::Path;

use platform::sim::SimPlatform;
use storage::LogOptions;
use storage::log::producer_state::{Origin, ProducerCheck};
use wire::batch::BatchHeader;
use wire::types::{LeaderEpoch, Offset, ProducerId};

use super::scene::*;
use crate::world::*;

const GB: u64 = 1 << 30;

fn is_known(log: &SimLog, batch: &bytes::Bytes) -> bool {
    let header = BatchHeader::parse(batch).unwrap();
    let checked = log.check_producer(&header, Origin::Client);
    matches!(checked, Ok(ProducerCheck::Duplicate(_)))
}

#[test]
fn a_log_without_producers_opens_while_the_path_of_what_retention_left_is_away() {
    for (clean, missing) in [(false, false), (false, true), (true, true)] {
        simulate(async {
            let scene = Scene::new(GB, GB);
            let log = scene.open(options()).await;
            fill(&log, 4).await;
            scene.settle(eager()).await;
            log.set_options(LogOptions {
                retention_bytes: Some(150 << 10),
                ..options()
            });
            assert!(log.retain(NOW_MS).await.unwrap() > 0);
            let (start, end) = (log.log_start_offset().0, log.log_end_offset().0);
            let left = scene.bases_on(BULK_FOLDER);
            assert!(start > 0 && left.len() > 1, "{left:?}");
            let home = scene.bases_on(FOLDER)[0];
            if clean {
                log.close().await.unwrap();
            }
            let next = scene.successor(scene.disk().kill(1), store_options());
            if missing {
                next.path(1).fail("it is not mounted");
            } else {
                next.disk().set_read_only_below(Path::new(BULK), true);
            }
            let log = next.try_open(options(), clean, end, 0).await.unwrap();
            let found = (log.log_start_offset(), log.log_end_offset());
            assert_eq!(found, (Offset(start), Offset(end)));
            assert_holds(&log, if missing { home } else { start }, end).await;
        });
    }
}

/// Segments so small that hardly a roll takes a snapshot.
fn small() -> LogOptions {
    LogOptions {
        segment_bytes: 1500,
        ..options()
    }
}

#[test]
fn producers_whose_batches_are_on_a_path_that_is_not_there_are_known_from_a_later_snapshot() {
    simulate(async {
        let scene = Scene::on(SimPlatform::new(11), store_options(), GB, GB);
        let log = scene.open(small()).await;
        let first = |id: i64| produced(id, 0, id, 1);
        for id in 0..100 {
            log.append(&first(id), EPOCH, NOW_MS).unwrap();
            log.flush().await.unwrap();
        }
        log.set_high_watermark(log.log_end_offset());
        log.roll().await.unwrap();
        log.append(&first(100), EPOCH, NOW_MS).unwrap();
        log.save().await.unwrap();
        scene.settle(eager()).await;
        assert!(scene.bases_on(BULK_FOLDER).len() > 2);
        let end = log.log_end_offset().0;
        let next = scene.successor(scene.disk().kill(1), store_options());
        next.path(1).fail("it is not mounted");
        let log = next.try_open(small(), false, end, 0).await.unwrap();
        assert_eq!(log.log_end_offset(), Offset(end));
        let known = (0..=100).filter(|id| is_known(&log, &first(*id)));
        assert_eq!(known.count(), 101);
    });
}

#[test]
fn a_transaction_that_began_on_a_path_that_is_not_there_stays_open() {
    simulate(async {
        let scene = Scene::new(GB, GB);
        let log = scene.open(small()).await;
        let within = |sequence: i32, at: i64| {
            let builder = wire::batch::builder::BatchBuilder::new(Offset(0), LeaderEpoch(-1));
            let builder = builder.transactional(true);
            filled(
                builder.producer(ProducerId(7), 0, sequence),
                at,
                1,
                1000,
                NOW_MS,
            )
        };
        for at in 0..4 {
            log.append(&within(at, i64::from(at)), EPOCH, NOW_MS)
                .unwrap();
            log.flush().await.unwrap();
        }
        log.roll().await.unwrap();
        log.save().await.unwrap();
        scene.settle(eager()).await;
        assert!(scene.bases_on(BULK_FOLDER).len() > 2);
        log.append(&within(4, 4), EPOCH, NOW_MS).unwrap();
        log.save().await.unwrap();
        log.set_high_watermark(log.log_end_offset());
        assert_eq!(log.stable_offset(), Offset(0));
        let end = log.log_end_offset().0;
        // Only what a save at the end has written tells of it.
        let disk = scene.disk().kill(1);
        for base in 1..end {
            let path = Path::new(FOLDER).join(format!("{base:020}.snapshot"));
            if disk.contents(&path).is_ok() {
                disk.put(&path, b"").unwrap();
            }
        }
        let next = scene.successor(disk, store_options());
        next.path(1).fail("it is not mounted");
        let log = next.try_open(small(), false, end, 0).await.unwrap();
        log.set_high_watermark(log.log_end_offset());
        assert_eq!(log.stable_offset(), Offset(0));
        assert!(is_known(&log, &within(4, 4)));
    });
}

/// A log with an empty segment at home and all else on another path; and its end.
async fn all_that_is_written_is_on_bulk() -> (Scene, i64) {
    let scene = Scene::new(GB, GB);
    let log = scene.open(options()).await;
    fill(&log, 3).await;
    log.roll().await.unwrap();
    log.save().await.unwrap();
    scene.settle(eager()).await;
    let end = log.log_end_offset().0;
    assert_eq!(scene.bases_on(FOLDER), [end], "an empty one");
    (scene, end)
}

#[test]
fn a_log_whose_last_but_one_is_on_a_path_that_is_read_only_or_away_opens_and_takes_appends() {
    // How much of the last segment there is knowledge of, and what became of the path.
    for (back, missing) in [(0, false), (0, true), (5, false)] {
        simulate(async {
            let (scene, end) = all_that_is_written_is_on_bulk().await;
            let next = scene.successor(scene.disk().kill(1), store_options());
            if missing {
                next.path(1).fail("it is not mounted");
            } else {
                next.disk().set_read_only_below(Path::new(BULK), true);
            }
            let opened = next.try_open(options(), false, end - back, 0).await;
            let log = opened.unwrap();
            assert_eq!(log.log_end_offset(), Offset(end));
            produce(&log, 3, 3000).await;
            log.roll().await.unwrap();
            produce(&log, 3, 3000).await;
            log.save().await.unwrap();
            let from = if missing { end } else { 0 };
            assert_holds(&log, from, end + 6).await;
            log.close().await.unwrap();
            // With the path as it was.
            let again = next.successor(next.disk().kill(2), store_options());
            again.disk().set_read_only_below(Path::new(BULK), false);
            let log = again.try_open(options(), true, end + 6, 0).await.unwrap();
            assert_holds(&log, 0, end + 6).await;
        });
    }
}

#[test]
fn a_damaged_segment_on_a_read_only_path_is_not_cut_and_nothing_behind_it_goes() {
    simulate(async {
        let (scene, end) = all_that_is_written_is_on_bulk().await;
        let bases = scene.bases_on(BULK_FOLDER);
        let disk = scene.disk().kill(1);
        let damaged = Path::new(BULK_FOLDER).join(format!("{:020}.log", bases[1]));
        disk.flip(&damaged, 5000, 1).unwrap();
        let next = scene.successor(disk, store_options());
        next.disk().set_read_only_below(Path::new(BULK), true);
        assert!(next.try_open(options(), false, 0, 0).await.is_err());
        assert_eq!(next.bases_on(BULK_FOLDER), bases);
        assert_eq!(next.bases_on(FOLDER), [end]);
    });
}
