//! For every k: the k-th disk operation fails, finds no room, or is the last one before the power
//! goes or the process is killed, in the life of a log that rolls into files of a pool. Afterwards
//! every acknowledged record is there, and every file of the pool is whole and empty.

use std::cell::RefCell;
use std::io::ErrorKind;
use std::path::Path;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use platform::Platform;
use platform::sim::{Effect, Fault};
use storage::{LogOptions, Result, StoreOptions};

use super::scene::*;
use crate::world::*;

const FILE_BYTES: u64 = 24 << 10;

/// What is known of the log from outside.
#[derive(Clone, Debug, Default)]
struct Ledger {
    acknowledged: i64,
    appended: i64,
    /// Records below may be gone by retention.
    retained_from: i64,
    clean: bool,
}

type SharedLedger = Rc<RefCell<Ledger>>;

fn fresh() -> (Scene, SharedLedger) {
    let scene = Scene::new(Setting {
        file_bytes: FILE_BYTES,
        capacity_files: 12,
        store: StoreOptions {
            cache_bytes_max: 16 << 10,
            chunk_bytes: 8 << 10,
            allocate_step_bytes: 8 << 10,
            save_interval_bytes: 10 << 10,
            ..store_options()
        },
        ..Setting::default()
    });
    (scene, SharedLedger::default())
}

fn crash_options() -> LogOptions {
    LogOptions {
        segment_bytes: u32::try_from(FILE_BYTES).unwrap(),
        ..log_options()
    }
}

/// A log that rolls some times, with pauses in which the pool fills; retention; a clean stop.
async fn live(scene: &Scene, known: &SharedLedger) -> Result<()> {
    scene.start_pool();
    let log = scene.try_open(crash_options(), false, 0, 0).await?;
    let clock = scene.world.platform.clock().clone();
    for round in 0..18 {
        let first = log.log_end_offset().0;
        log.append(&batch(first, 1 + round % 2, 2900), EPOCH, NOW_MS)?;
        known.borrow_mut().appended = log.log_end_offset().0;
        log.flush().await?;
        known.borrow_mut().acknowledged = log.durable_offset().0;
        log.set_high_watermark(log.durable_offset());
        let store = &scene.world.store;
        let points = store.points(Path::new(DIR));
        store.checkpointed(&points, true).await;
        if round % 4 == 0 {
            clock.sleep(Duration::from_millis(50)).await;
        }
    }
    log.save().await?;
    log.set_options(LogOptions {
        retention_bytes: Some(40 << 10),
        ..crash_options()
    });
    known.borrow_mut().retained_from = log.log_end_offset().0 - 1;
    log.retain(NOW_MS).await?;
    known.borrow_mut().retained_from = log.log_start_offset().0;
    clock.sleep(Duration::from_millis(50)).await;
    log.close().await?;
    known.borrow_mut().clean = true;
    Ok(())
}

/// The same up to the `k`-th disk operation, where it is dropped.
async fn live_until(scene: &Scene, known: &SharedLedger, k: u64) {
    let mut life = Box::pin(live(scene, known));
    std::future::poll_fn(|context| {
        let over = life.as_mut().poll(context).is_ready();
        if over || scene.disk().operations() >= k {
            return Poll::Ready(());
        }
        Poll::Pending
    })
    .await;
}

/// A start after the crash: the log against the ledger, the pool against what it must be; then the
/// log goes on.
async fn check(scene: &Scene, known: &Ledger) {
    scene.start_pool();
    let log = scene.try_open(crash_options(), false, 0, 0).await.unwrap();
    let (start, end) = (log.log_start_offset().0, log.log_end_offset().0);
    assert!(end >= known.acknowledged, "{start}..{end}: {known:?}");
    assert!(end <= known.appended, "{start}..{end}: {known:?}");
    assert!(start <= known.retained_from, "{start}..{end}: {known:?}");
    assert_holds(&log, start, end).await;
    scene.pooled().await;
    for _ in 0..14 {
        produce(&log, 1, 4500).await;
    }
    scene.pooled().await;
    assert_holds(&log, start, end + 14).await;
}

/// Lives once for each of its operations, ended by `end`, which gives the disk that the next
/// process finds.
fn at_every_operation(end: &impl AsyncFn(&Scene, &SharedLedger, u64) -> Scene) {
    let operations = simulate(async {
        let (scene, known) = fresh();
        live(&scene, &known).await.unwrap();
        let operations = scene.disk().operations();
        let waiting = scene.pooled().await;
        let first = waiting.first().map(|file| file.name.clone());
        assert!(
            first >= Some(format!("{:020}.pooled", 3)),
            "taken by rolls: {waiting:?}"
        );
        operations
    });
    assert!(operations > 200, "{operations}");
    for k in 0..operations {
        simulate(async {
            let (scene, known) = fresh();
            let next = end(&scene, &known, k).await;
            let known = known.borrow().clone();
            check(&next, &known).await;
        });
    }
}

#[test]
fn after_a_loss_of_power_at_any_operation() {
    at_every_operation(&async |scene, known, k| {
        scene.disk().inject(Fault::at(k, Effect::PowerOff));
        // Near the end the power may go when the life is over.
        let _ = live(scene, known).await;
        scene.successor(scene.disk().crash(k))
    });
}

#[test]
fn after_a_kill_at_any_operation() {
    at_every_operation(&async |scene, known, k| {
        live_until(scene, known, k).await;
        scene.successor(scene.disk().kill(k))
    });
}

#[test]
fn after_a_failure_of_any_operation() {
    at_every_operation(&async |scene, known, k| {
        let failure = Effect::Fail(ErrorKind::Other);
        scene.disk().inject(Fault::at(k, failure));
        let _ = live(scene, known).await;
        scene.successor(scene.disk().crash(k))
    });
}

#[test]
fn after_a_full_disk_at_any_operation() {
    at_every_operation(&async |scene, known, k| {
        let full = Effect::Fail(ErrorKind::StorageFull);
        scene.disk().inject(Fault::at(k, full));
        live(scene, known).await.ok();
        scene.successor(scene.disk().kill(k))
    });
}
