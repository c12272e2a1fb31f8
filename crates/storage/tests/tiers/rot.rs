//! Bytes that change by themselves in a segment of the slower tier: found before they are served or
//! moved, named, and left where they are, whatever the policy and retention would like.

use std::path::{Path, PathBuf};

use storage::tier::VerifyOutcome;
use storage::tier::policy::StayReason;
use storage::{Error, FailureKind, LogOptions};
use wire::types::Offset;

use super::scene::*;
use crate::world::*;

const GB: u64 = 1 << 30;

/// A log with four segments on the slower tier, read by a process whose memory holds none of it,
/// and a flipped bit in the second of them.
async fn rotten(position: u64) -> (Scene, SimLog, Vec<i64>, PathBuf) {
    let scene = Scene::new(GB, GB);
    let log = scene.open(options()).await;
    fill(&log, 4).await;
    scene.settle(eager()).await;
    log.close().await.unwrap();
    let end = log.log_end_offset().0;
    let next = scene.successor(scene.disk().crash(1), store_options());
    let log = next.try_open(options(), true, end, 0).await.unwrap();
    log.set_high_watermark(log.durable_offset());
    let bases = next.bases_on(BULK_FOLDER);
    assert_eq!(bases.len(), 4);
    let file = Path::new(BULK_FOLDER).join(format!("{:020}.log", bases[1]));
    next.disk().flip(&file, position, 3).unwrap();
    (next, log, bases, file)
}

#[test]
fn it_is_not_served_and_what_is_around_it_is() {
    // In the first batch, in the middle, in the last one.
    for position in [200, 30_000, 60_000] {
        simulate(async {
            let (scene, log, bases, file) = rotten(position).await;
            let end = log.log_end_offset();
            // Every offset is asked for: what comes is right, or nothing comes.
            let mut refused = 0;
            for at in bases[1]..bases[2] {
                match log.read(Offset(at), Offset(bases[2]), 9000, true).await {
                    Ok(slices) => {
                        let found = decode(&slices.concat().into());
                        assert!(
                            found.iter().all(|(offset, name)| offset == name),
                            "{found:?}"
                        );
                        assert!(found.iter().any(|(offset, _)| *offset == at));
                    }
                    Err(Error::Corrupt { path, .. }) => {
                        assert_eq!(path, file);
                        refused += 1;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            assert_eq!(refused, 3, "the three records of one batch");
            assert_holds(&log, 0, bases[1]).await;
            assert_holds(&log, bases[2], end.0).await;
            assert_eq!(scene.bases_on(BULK_FOLDER), bases);
        });
    }
}

#[test]
fn a_verification_names_it_and_takes_only_it_offline() {
    simulate(async {
        let (scene, log, bases, file) = rotten(30_000).await;
        let end = log.log_end_offset().0;
        for &base in &bases {
            let verified = log.tiers().verify_segment(Offset(base)).await.unwrap();
            if base == bases[1] {
                let VerifyOutcome::Damaged(reason, at) = verified else {
                    panic!("{verified:?}")
                };
                assert_eq!(reason, "the CRC is wrong");
                assert!(at <= 30_000 && at + 10_000 > 30_000, "{at}");
            } else {
                assert!(matches!(verified, VerifyOutcome::Good(_)), "{verified:?}");
            }
        }
        let refused = log.read(Offset(bases[1]), Offset(end), 1000, true).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind(), FailureKind::Retry);
        assert!(
            refused.to_string().contains(&file.display().to_string()),
            "{refused}"
        );
        let reports = scene.world.store.tier_segments(&eager(), |_| true).await;
        let offline = reports.iter().filter(|report| report.offline.is_some());
        let offline: Vec<_> = offline.map(|report| (report.base.0, report.stay)).collect();
        assert_eq!(offline, [(bases[1], StayReason::Quarantined)]);
        assert_holds(&log, 0, bases[1]).await;
        assert_holds(&log, bases[2], end).await;
    });
}

#[test]
fn it_stays_where_it_is_when_its_path_is_drained_or_its_tier_emptied() {
    simulate(async {
        let (scene, log, bases, _) = rotten(30_000).await;
        scene.path(1).set_draining(true);
        scene.settle(still()).await;
        assert_eq!(scene.bases_on(BULK_FOLDER), [bases[1]]);
        assert_eq!(
            scene.path(0).move_errors(),
            1,
            "tried once, not again and again"
        );
        let again = scene.successor(scene.disk().crash(3), store_options());
        let end = log.log_end_offset().0;
        let log = again.try_open(options(), false, end, 0).await.unwrap();
        assert_holds(&log, 0, bases[1]).await;
        assert_holds(&log, bases[2], end).await;
        assert_eq!(again.bases_on(BULK_FOLDER), [bases[1]]);
    });
}

#[test]
fn retention_takes_it_like_any_other_segment() {
    simulate(async {
        let (scene, log, bases, _) = rotten(30_000).await;
        log.tiers().verify_segment(Offset(bases[1])).await.unwrap();
        log.set_options(LogOptions {
            retention_bytes: Some(70 << 10),
            file_delete_delay_ms: 1,
            ..options()
        });
        assert!(log.retain(NOW_MS).await.unwrap() >= 2);
        assert!(!scene.bases_on(BULK_FOLDER).contains(&bases[1]));
        assert_holds(&log, log.log_start_offset().0, log.log_end_offset().0).await;
    });
}

#[test]
fn what_a_damaged_log_has_lost_does_not_come_back_with_a_later_start() {
    for clean in [true, false] {
        simulate(async {
            let scene = Scene::new(GB, GB);
            let log = scene.open(options()).await;
            fill(&log, 4).await;
            scene.settle(eager()).await;
            log.close().await.unwrap();
            let bases = scene.bases_on(BULK_FOLDER);
            let file = Path::new(BULK_FOLDER).join(format!("{:020}.log", bases[1]));
            scene.disk().flip(&file, 30_000, 3).unwrap();
            // Nothing is known to be durable: the log ends before the damage, and goes on there.
            let next = scene.successor(scene.disk().kill(1), store_options());
            let log = next.try_open(options(), false, 0, 0).await.unwrap();
            let end = log.log_end_offset().0;
            assert!((bases[1]..bases[2]).contains(&end), "{end}");
            produce(&log, 3, 3000).await;
            assert_eq!(next.bases_on(BULK_FOLDER), bases[..2]);
            let aside = next.metrics.set_aside_bytes.get();
            assert!(aside > 100 << 10, "two segments at least: {aside}");
            let disk = if clean {
                log.close().await.unwrap();
                next.disk().crash(1)
            } else {
                next.disk().kill(1)
            };
            let again = scene.successor(disk, store_options());
            let log = again.try_open(options(), clean, end, 0).await.unwrap();
            assert_eq!(log.log_end_offset().0, end + 3);
            assert_holds(&log, 0, end + 3).await;
            assert_eq!(again.bases_on(BULK_FOLDER), bases[..2]);
            // A start that has set nothing aside tells of what is there, and a log that goes takes
            // its own with it.
            let metrics = &again.metrics;
            assert_eq!(
                (metrics.set_aside.get(), metrics.set_aside_bytes.get()),
                (0, aside)
            );
            log.delete().await.unwrap();
            assert_eq!(metrics.set_aside_bytes.get(), 0);
        });
    }
}
