//! For every k: the k-th disk operation fails, finds no room, or is the last one before the power
//! goes, while segments move all the time. Afterwards the log must hold every acknowledged record
//! at its offset, and go on working.

use std::cell::RefCell;
use std::io::ErrorKind;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use platform::sim::{Effect, Fault, OpKind, SimPlatform};
use storage::tier::Mover;
use storage::{FailureKind, LogOptions, Result, StoreOptions};
use wire::types::Offset;

use super::scene::*;
use crate::world::*;

/// What is known of the log from outside.
#[derive(Clone, Debug, Default)]
struct Ledger {
    acknowledged: i64,
    appended: i64,
    /// Records below may be gone by retention.
    retained_from: i64,
    /// Acknowledged records from here on may have been cut off.
    cut: Option<i64>,
    recovery_point: i64,
    log_start: i64,
    clean: bool,
}

type SharedLedger = Rc<RefCell<Ledger>>;

fn crash_options() -> LogOptions {
    LogOptions {
        segment_bytes: 8 << 10,
        file_delete_delay_ms: 1,
        ..options()
    }
}

fn crash_store() -> StoreOptions {
    StoreOptions {
        cache_bytes_max: 16 << 10,
        chunk_bytes: 8 << 10,
        allocate_step_bytes: 8 << 10,
        save_interval_bytes: 10 << 10,
        ..store_options()
    }
}

/// How the first tier's segment files are kept.
#[derive(Clone, Copy, PartialEq, Debug)]
enum FileAccess {
    Calls,
    Mapped,
}

/// Each, and how many operations lie between two that are tried.
const MEDIA: [(FileAccess, usize); 2] = [(FileAccess::Calls, 1), (FileAccess::Mapped, 3)];

fn fresh(on: FileAccess) -> (Scene, SharedLedger) {
    let platform = SimPlatform::new(11);
    if on == FileAccess::Mapped {
        platform::Platform::disk(&platform).use_dax(std::path::Path::new(DIR));
    }
    // Little room, so that some segments are spilled.
    let scene = Scene::on(platform, crash_store(), 80 << 10, 1 << 30);
    // A path is there before any log is: a start of the broker makes it, and what says which it is.
    let identity = std::path::Path::new("/bulk/meta.properties");
    scene.disk().put(identity, b"version=1\n").unwrap();
    (scene, SharedLedger::default())
}

fn checkpoint(scene: &Scene, known: &SharedLedger) {
    let points = scene.world.store.points(std::path::Path::new(DIR));
    if let Some(points) = points.first() {
        let mut known = known.borrow_mut();
        known.recovery_point = points.recovery_point.0;
        known.log_start = points.log_start.0;
    }
}

async fn acknowledge(log: &SimLog, known: &SharedLedger, count: i64, bytes: usize) -> Result<()> {
    let first = log.log_end_offset().0;
    let appended = log.append(&batch(first, count, bytes), EPOCH, NOW_MS)?;
    known.borrow_mut().appended = appended.last_offset.0 + 1;
    log.flush().await?;
    known.borrow_mut().acknowledged = appended.last_offset.0 + 1;
    log.set_high_watermark(log.durable_offset());
    Ok(())
}

/// One turn of the mover and the moves that it begins.
async fn turn(scene: &Scene) {
    let mut mover = Mover::new(&scene.world.store, eager()).unwrap();
    for moved in mover.turn(&scene.world.store).await {
        moved.await.unwrap();
    }
}

async fn ask_up(scene: &Scene, log: &SimLog) {
    for base in scene.bases_on(BULK_FOLDER).into_iter().take(2) {
        log.tiers().ask_for_tier(Offset(base), 0);
    }
    for _ in 0..2 {
        let mut mover = Mover::new(&scene.world.store, still()).unwrap();
        for moved in mover.turn(&scene.world.store).await {
            moved.await.unwrap();
        }
    }
}

/// The life of a log: appends with rolls, moves down and up, retention, truncation, a clean stop.
async fn live(scene: &Scene, known: &SharedLedger) -> Result<()> {
    let log = scene.try_open(crash_options(), false, 0, 0).await?;
    for round in 0..9 {
        acknowledge(&log, known, 1 + round % 3, 2000).await?;
        checkpoint(scene, known);
        if round % 2 == 1 {
            log.save().await?;
            turn(scene).await;
        }
    }
    log.roll().await?;
    log.save().await?;
    checkpoint(scene, known);
    turn(scene).await;
    ask_up(scene, &log).await;
    acknowledge(&log, known, 2, 700).await?;
    log.set_options(LogOptions {
        retention_bytes: Some(24 << 10),
        ..crash_options()
    });
    known.borrow_mut().retained_from = log.log_end_offset().0 - 1;
    log.retain(NOW_MS).await?;
    known.borrow_mut().retained_from = log.log_start_offset().0;
    checkpoint(scene, known);
    let cut = log.log_end_offset().0 - 5;
    known.borrow_mut().cut = Some(cut);
    log.truncate_to(Offset(cut)).await?;
    let end = log.log_end_offset().0;
    {
        let mut known = known.borrow_mut();
        (known.acknowledged, known.appended, known.cut) = (end, end, None);
        known.recovery_point = known.recovery_point.min(end);
    }
    acknowledge(&log, known, 2, 3000).await?;
    turn(scene).await;
    checkpoint(scene, known);
    log.close().await?;
    let mut known = known.borrow_mut();
    known.recovery_point = log.log_end_offset().0;
    known.clean = true;
    Ok(())
}

/// The same up to the `k`-th disk operation, where it is dropped.
async fn live_until(scene: &Scene, known: &SharedLedger, k: u64) {
    let mut life = Box::pin(live(scene, known));
    std::future::poll_fn(|context| {
        // Other tasks take their turns between two looks at the count.
        context.waker().wake_by_ref();
        let over = life.as_mut().poll(context).is_ready();
        if over || scene.disk().operations() >= k {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

/// Opens the log after the crash and holds it against the ledger; then appends, moves, stops and
/// opens once more.
async fn check(scene: &Scene, known: &Ledger) {
    let (clean, point, start) = (known.clean, known.recovery_point, known.log_start);
    let opened = scene.try_open(crash_options(), clean, point, start).await;
    let log = opened.unwrap();
    let (start, end) = (log.log_start_offset().0, log.log_end_offset().0);
    let cut = known.cut.map_or(i64::MAX, |cut| cut - 3);
    let safe = known.acknowledged.min(cut);
    assert!(end >= safe, "acknowledged below {safe}, there below {end}");
    assert!(end <= known.appended, "{end} {known:?}");
    let retained = known.retained_from.max(known.log_start);
    assert!(start <= retained, "{start} {known:?}");
    assert_holds(&log, start, end).await;
    for _ in 0..3 {
        produce(&log, 2, 1000).await;
    }
    log.roll().await.unwrap();
    log.save().await.unwrap();
    scene.settle(eager()).await;
    assert_holds(&log, start, end + 6).await;
    for base in scene.bases_on(BULK_FOLDER) {
        assert!(
            !scene.bases_on(FOLDER).contains(&base),
            "two copies of {base}"
        );
    }
    log.close().await.unwrap();
    let next = scene.successor(scene.disk().crash(5), crash_store());
    let opened = next.try_open(crash_options(), true, end + 6, start).await;
    let log = opened.unwrap();
    assert_eq!(log.log_end_offset(), Offset(end + 6));
    assert_holds(&log, start, end + 6).await;
}

fn operations_of_a_life(on: FileAccess) -> u64 {
    simulate(async {
        let (scene, known) = fresh(on);
        live(&scene, &known).await.unwrap();
        let (downs, ups) = (scene.path(1).came_down().0, scene.path(0).came_up().0);
        assert!(downs > 4 && ups > 0, "{downs} moves down, {ups} up");
        scene.disk().operations()
    })
}

#[test]
fn after_a_loss_of_power_at_any_operation_what_was_acknowledged_is_there() {
    for (on, step) in MEDIA {
        for k in (0..operations_of_a_life(on)).step_by(step) {
            simulate(async {
                let (scene, known) = fresh(on);
                scene.disk().inject(Fault::at(k, Effect::PowerOff));
                let _ = live(&scene, &known).await;
                let known = known.borrow().clone();
                let next = scene.successor(scene.disk().crash(k), crash_store());
                check(&next, &known).await;
            });
        }
    }
}

#[test]
fn after_a_kill_at_any_operation_what_was_acknowledged_is_there() {
    for (on, step) in MEDIA {
        for k in (0..operations_of_a_life(on)).step_by(2 * step) {
            simulate(async {
                let (scene, known) = fresh(on);
                live_until(&scene, &known, k).await;
                let known = known.borrow().clone();
                let next = scene.successor(scene.disk().kill(k), crash_store());
                check(&next, &known).await;
            });
        }
    }
}

#[test]
fn what_a_kill_leaves_while_segments_move_is_no_damage() {
    for k in (0..operations_of_a_life(FileAccess::Calls)).step_by(3) {
        simulate(async {
            let (scene, known) = fresh(FileAccess::Calls);
            live_until(&scene, &known, k).await;
            let known = known.borrow().clone();
            let image = scene.disk().kill(k);
            let put = |name: &str, text: String| {
                image
                    .put(std::path::Path::new(name), text.as_bytes())
                    .unwrap();
            };
            for dir in [DIR, BULK] {
                let identity = format!("{dir}/meta.properties");
                put(&identity, "version=1\nnode.id=1\ncluster.id=c\n".into());
            }
            let points = format!("{DIR}/recovery-point-offset-checkpoint");
            put(
                &points,
                format!("0\n1\norders 0 {}\n", known.recovery_point),
            );
            if known.clean {
                let mark = format!("{DIR}/.kafka_cleanshutdown");
                put(&mark, "{\"version\":0,\"brokerEpoch\":1}".into());
            }
            let report = storage::check::check(&image, &[DIR.into(), BULK.into()]).await;
            let report = report.unwrap();
            // A write that is torn anywhere is damage, which a kill of a process does not leave.
            let damage = report.findings.iter().filter(|one| {
                let of_moves = ["the same segment is in", "in none of the directories"];
                let is_damage = one.severity == storage::check::Severity::Damage;
                is_damage && of_moves.iter().any(|what| one.what.contains(what))
            });
            let damage: Vec<_> = damage.collect();
            assert!(damage.is_empty(), "at {k}: {damage:?} {known:?}");
        });
    }
}

/// A failure of the `k`-th operation, of a kind: what is there is served all along, and after a
/// start.
fn survives_failures(on: FileAccess, step: usize, effect: Effect) {
    for k in (0..operations_of_a_life(on)).step_by(step) {
        simulate(async {
            let (scene, known) = fresh(on);
            scene.disk().inject(Fault::at(k, effect));
            let result = live(&scene, &known).await;
            let known = known.borrow().clone();
            if let Err(error) = &result {
                let told = matches!(
                    error.kind(),
                    FailureKind::Full | FailureKind::Failed | FailureKind::Retry
                );
                assert!(told, "{k}: {error}");
            }
            if let Some(log) = scene.world.store.logs().first()
                && known.cut.is_none()
            {
                let (start, end) = (log.log_start_offset().0, log.durable_offset().0);
                assert_holds(log, start, end).await;
            }
            let next = scene.successor(scene.disk().crash(k), crash_store());
            check(&next, &known).await;
        });
    }
}

#[test]
fn a_failure_of_any_operation_loses_nothing_that_was_acknowledged() {
    for (on, step) in MEDIA {
        survives_failures(on, step, Effect::Fail(ErrorKind::Other));
    }
}

#[test]
fn no_room_at_any_operation_loses_nothing_and_passes() {
    for (on, step) in MEDIA {
        survives_failures(on, step, Effect::Fail(ErrorKind::StorageFull));
    }
}

#[test]
fn a_refusal_of_any_operation_as_on_a_read_only_path_loses_nothing() {
    for (on, step) in MEDIA {
        survives_failures(on, 2 * step, Effect::Fail(ErrorKind::ReadOnlyFilesystem));
    }
}

#[test]
fn running_out_of_descriptors_at_any_operation_loses_nothing() {
    const TOO_MANY_OPEN_FILES: i32 = 24;
    for (on, step) in MEDIA {
        survives_failures(on, 2 * step, Effect::Errno(TOO_MANY_OPEN_FILES));
    }
}

#[test]
fn without_a_descriptor_for_the_sync_of_a_folder_no_log_and_no_path_fails() {
    let mut syncs = 0;
    let mut struck = true;
    while struck {
        struck = simulate(async {
            let (scene, known) = fresh(FileAccess::Calls);
            let fault = Fault::at_kind(syncs, OpKind::SyncDir, Effect::Errno(24));
            scene.disk().inject(fault);
            let _ = live(&scene, &known).await;
            let failed = scene.path(1).failed();
            assert!(failed.is_none(), "{syncs}: {failed:?}");
            if let Some(log) = scene.world.store.logs().first() {
                scene.clock().sleep(Duration::from_secs(3)).await;
                assert!(log.failed().is_none(), "{syncs}: {:?}", log.failed());
            }
            scene.disk().faults_left() == 0
        });
        syncs += 1;
    }
    assert!(syncs > 20, "{syncs}");
}

#[test]
fn a_second_loss_of_power_while_a_start_cleans_up_does_no_harm() {
    for (k, on) in (1..operations_of_a_life(FileAccess::Calls))
        .step_by(23)
        .zip(MEDIA.map(|(on, _)| on).into_iter().cycle())
    {
        for j in (0..16).step_by(3) {
            simulate(async {
                let (scene, known) = fresh(on);
                scene.disk().inject(Fault::at(k, Effect::PowerOff));
                let _ = live(&scene, &known).await;
                let book = known.borrow().clone();
                let between = scene.successor(scene.disk().crash(k), crash_store());
                between.disk().inject(Fault::at(j, Effect::PowerOff));
                let (clean, point, start) = (book.clean, book.recovery_point, book.log_start);
                let opened = between.try_open(crash_options(), clean, point, start).await;
                drop(opened);
                let next = between.successor(between.disk().crash(k + j), crash_store());
                check(&next, &book).await;
            });
        }
    }
}

#[test]
fn what_is_durable_after_a_kill_survives_a_loss_of_power_right_after_it() {
    for (on, step) in MEDIA {
        for k in (0..operations_of_a_life(on)).step_by(5 * step) {
            simulate(async {
                let (scene, known) = fresh(on);
                live_until(&scene, &known, k).await;
                let book = known.borrow().clone();
                let between = scene.successor(scene.disk().kill(k), crash_store());
                let (clean, point, start) = (book.clean, book.recovery_point, book.log_start);
                let opened = between.try_open(crash_options(), clean, point, start).await;
                let durable = opened.unwrap().durable_offset();
                let next = between.successor(between.disk().crash(k), crash_store());
                let opened = next.try_open(crash_options(), false, point, start).await;
                assert!(opened.unwrap().log_end_offset() >= durable);
            });
        }
    }
}
