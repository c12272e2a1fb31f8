//! Names of new files are durable before what is in them counts, also if another task syncs the
//! folder meanwhile, and however that ends.

use std::io::ErrorKind;
use std::rc::Rc;
use std::time::Duration;

use crate::world::*;
use platform::Platform;
use platform::sim::{Effect, Fault, OpKind, SimPlatform};
use platform::task;
use storage::{LogOptions, Stamp};
use wire::types::LeaderEpoch;

fn bounded() -> LogOptions {
    LogOptions {
        segment_bytes: 8 << 10,
        retention_bytes: Some(12 << 10),
        preallocate: false,
        ..options()
    }
}

fn reserving() -> LogOptions {
    LogOptions {
        preallocate: true,
        ..bounded()
    }
}

/// Appends with rolls while retention deletes beside it, on a slow disk; the `failing`-th sync of a
/// folder fails; the power goes as soon as the last append is acknowledged. What was acknowledged
/// has to be there.
async fn roll_beside_retention(seed: u64, failing: u64) {
    let world = World::on(SimPlatform::new(seed), store_options());
    let log = world.open(bounded()).await;
    let slow = Duration::from_millis(5);
    world.disk().set_latency(Duration::ZERO, slow);
    let fault = Effect::Fail(ErrorKind::Other);
    world
        .disk()
        .inject(Fault::at_kind(failing, OpKind::SyncDir, fault));
    let retained = Rc::clone(&log);
    let clock = world.platform.clock().clone();
    let retaining = task::spawn(async move {
        loop {
            let _ = retained.retain(NOW_MS).await;
            clock.sleep(Duration::from_millis(1)).await;
        }
    });
    for _ in 0..4 + seed % 30 {
        let first = log.log_end_offset().0;
        let appended = log.append(&batch(first, 1, 3000), EPOCH, NOW_MS);
        if appended.is_err() || log.flush().await.is_err() {
            break;
        }
        log.set_high_watermark(log.durable_offset());
    }
    let (start, acknowledged) = (log.log_start_offset().0, log.durable_offset());
    let next = world.successor(world.disk().crash(seed));
    retaining.abort();
    let log = next.try_open(bounded(), false, 0, start).await.unwrap();
    let end = log.log_end_offset();
    assert!(
        end >= acknowledged,
        "{seed} {failing}: {end} of {acknowledged}"
    );
    assert_holds(&log, log.log_start_offset().0, end.0).await;
}

#[test]
fn what_is_acknowledged_beside_retention_rests_on_names_that_are_durable() {
    for failing in [0, 1, 2, 3, 4, 5, 8, 13, 1000] {
        for seed in 0..20 {
            simulate(roll_beside_retention(seed, failing));
        }
    }
}

/// Without an epoch there is no file of epochs whose saving would sync the folder.
fn add(log: &SimLog, bytes: usize) {
    let stamp = Stamp {
        leader_epoch: LeaderEpoch(-1),
        log_append_time: None,
    };
    let first = log.log_end_offset().0;
    log.append(&batch(first, 1, bytes), stamp, NOW_MS).unwrap();
}

#[test]
fn an_append_waits_for_a_sync_of_its_name_that_retention_has_begun() {
    for seed in 0..20 {
        simulate(async {
            let world = World::new();
            let log = world.open(reserving()).await;
            while log.segment_count() < 6 {
                add(&log, 3000);
                log.flush().await.unwrap();
            }
            log.set_high_watermark(log.durable_offset());
            log.roll().await.unwrap();
            let slow = |kind, ms| {
                let effect = Effect::Slow(Duration::from_millis(ms));
                world.disk().inject(Fault::at_kind(0, kind, effect));
            };
            // Upkeep, which would keep retention waiting, pauses after a failure.
            let full = Effect::Fail(ErrorKind::StorageFull);
            world
                .disk()
                .inject(Fault::at_kind(0, OpKind::Allocate, full));
            add(&log, 100);
            log.flush().await.unwrap();
            assert_eq!(world.disk().faults_left(), 0, "upkeep has failed");
            // The file is made and being written when retention syncs its folder.
            slow(OpKind::Write, 100);
            for _ in 0..3 {
                add(&log, 3000);
            }
            world
                .platform
                .clock()
                .sleep(Duration::from_millis(10))
                .await;
            slow(OpKind::SyncDir, 1000);
            let retained = Rc::clone(&log);
            task::spawn(async move { retained.retain(NOW_MS).await });
            log.flush().await.unwrap();
            let (start, acknowledged) = (log.log_start_offset().0, log.durable_offset());
            let next = world.successor(world.disk().crash(seed));
            let log = next.try_open(bounded(), false, 0, start).await.unwrap();
            assert_eq!(log.log_end_offset(), acknowledged, "{seed}");
            assert_holds(&log, log.log_start_offset().0, acknowledged.0).await;
        });
    }
}

#[test]
fn a_sync_of_the_folder_that_fails_in_retention_latches_the_log() {
    simulate(async {
        let world = World::new();
        let log = world.open(bounded()).await;
        for _ in 0..12 {
            produce(&log, 1, 3000).await;
        }
        log.set_high_watermark(log.durable_offset());
        // Nothing else is left that syncs the folder.
        log.save().await.unwrap();
        let fault = Effect::Fail(ErrorKind::Other);
        world
            .disk()
            .inject(Fault::at_kind(0, OpKind::SyncDir, fault));
        log.retain(NOW_MS).await.unwrap_err();
        let refused = log.append(&batch(12, 1, 10), EPOCH, NOW_MS).unwrap_err();
        assert_eq!(refused.kind(), storage::FailureKind::Failed);
    });
}

#[test]
fn what_is_left_when_all_else_is_deleted_has_its_name_before() {
    for seed in 0..20 {
        simulate(async {
            let world = World::new();
            let aged = LogOptions {
                segment_bytes: 8 << 10,
                retention_ms: Some(10_000),
                preallocate: false,
                ..options()
            };
            let log = world.open(aged.clone()).await;
            while log.segment_count() < 4 {
                add(&log, 3000);
                log.flush().await.unwrap();
            }
            let acknowledged = log.durable_offset();
            log.set_high_watermark(acknowledged);
            let clock = world.platform.clock().clone();
            clock.sleep(Duration::from_secs(1)).await;
            // The next segment is begun, and its file is long in the making.
            let slow = Effect::Slow(Duration::from_secs(5));
            world.disk().inject(Fault::at_kind(0, OpKind::Create, slow));
            add(&log, 7000);
            let retained = Rc::clone(&log);
            task::spawn(async move { retained.retain(NOW_MS + 11_000).await });
            clock.sleep(Duration::from_millis(100 * (seed + 1))).await;
            // No checkpoint has the start of the log.
            let next = world.successor(world.disk().crash(seed));
            let log = next.try_open(aged.clone(), false, 0, 0).await.unwrap();
            let end = log.log_end_offset();
            assert!(end >= acknowledged, "{seed}: {end} of {acknowledged}");
        });
    }
}
