//! For every k: the k-th disk operation fails, or is the last one before the power goes (what was
//! not synced is lost, the last write torn). Afterwards the log is opened again and must hold every
//! acknowledged record at its offset, none that was not produced, in order and without a gap, and
//! must go on working.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "crash/opened.rs"]
mod opened;
mod world;

use std::cell::RefCell;
use std::io::ErrorKind;
use std::path::Path;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use platform::Platform;
use platform::sim::{Effect, Fault, OpKind, SimPlatform};
use storage::{FailureKind, LogOptions, Result, StoreOptions};
use wire::types::Offset;
use world::*;

/// What is known of the log from outside.
#[derive(Clone, Debug, Default)]
struct Ledger {
    /// Everything below was acknowledged as durable.
    acknowledged: i64,
    /// Everything below may be there.
    appended: i64,
    /// Records below may be gone by retention.
    retained_from: i64,
    /// The log may have been cut to here, and acknowledged records from here on may be gone.
    cut: Option<i64>,
    recovery_point: i64,
    log_start: i64,
    clean: bool,
    opened: bool,
}

type SharedLedger = Rc<RefCell<Ledger>>;

fn crash_options() -> LogOptions {
    LogOptions {
        segment_bytes: 24 << 10,
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

async fn acknowledge(log: &SimLog, known: &SharedLedger, count: i64, bytes: usize) -> Result<()> {
    let first = log.log_end_offset().0;
    let appended = log.append(&batch(first, count, bytes), EPOCH, NOW_MS)?;
    known.borrow_mut().appended = appended.last_offset.0 + 1;
    log.flush().await?;
    let mut known = known.borrow_mut();
    known.acknowledged = known.acknowledged.max(appended.last_offset.0 + 1);
    drop(known);
    log.set_high_watermark(log.durable_offset());
    Ok(())
}

/// The owner's part: remembers the points as the checkpoint files would.
async fn checkpoint(world: &World, known: &SharedLedger) {
    let points = world.store.points(Path::new(DIR));
    if let Some(points) = points.first() {
        let mut known = known.borrow_mut();
        known.recovery_point = points.recovery_point.0;
        known.log_start = points.log_start.0;
    }
    world.store.checkpointed(&points, true).await;
}

/// The life of a log: appends with rolls, a save, retention, deleted records, truncation, a clean
/// stop.
async fn live(world: &World, known: &SharedLedger) -> Result<()> {
    let log = world.try_open(crash_options(), false, 0, 0).await?;
    known.borrow_mut().opened = true;
    for round in 0..14 {
        acknowledge(
            &log,
            known,
            1 + round % 3,
            900 + 333 * usize::try_from(round % 4).unwrap(),
        )
        .await?;
        checkpoint(world, known).await;
    }
    // Several batches that are flushed together, a roll among them.
    for _ in 0..6 {
        let first = log.log_end_offset().0;
        log.append(&batch(first, 2, 3000), EPOCH, NOW_MS)?;
    }
    known.borrow_mut().appended = log.log_end_offset().0;
    log.flush().await?;
    known.borrow_mut().acknowledged = log.log_end_offset().0;
    log.set_high_watermark(log.durable_offset());
    log.roll().await?;
    log.save().await?;
    checkpoint(world, known).await;

    let bounded = LogOptions {
        retention_bytes: Some(30 << 10),
        ..crash_options()
    };
    log.set_options(bounded);
    known.borrow_mut().retained_from = log.log_end_offset().0 - 1;
    log.retain(NOW_MS).await?;
    known.borrow_mut().retained_from = log.log_start_offset().0;
    acknowledge(&log, known, 2, 700).await?;
    checkpoint(world, known).await;

    let cut = log.log_end_offset().0 - 6;
    known.borrow_mut().cut = Some(cut);
    log.truncate_to(Offset(cut)).await?;
    let end = log.log_end_offset().0;
    {
        let mut known = known.borrow_mut();
        // The checkpoint goes on saying what it said.
        (known.acknowledged, known.appended, known.cut) = (end, end, None);
    }
    for _ in 0..3 {
        acknowledge(&log, known, 1, 500).await?;
    }
    log.set_log_start(Offset(log.log_start_offset().0 + 1))?;
    known.borrow_mut().retained_from = log.log_start_offset().0;
    checkpoint(world, known).await;
    log.close().await?;
    checkpoint_closed(&log, known);
    Ok(())
}

/// The same up to the `k`-th disk operation, where it is dropped.
async fn live_until(world: &World, known: &SharedLedger, k: u64) {
    let mut life = Box::pin(live(world, known));
    std::future::poll_fn(|context| {
        // Other tasks take their turns between two looks at the count.
        context.waker().wake_by_ref();
        let over = life.as_mut().poll(context).is_ready();
        if over || world.disk().operations() >= k {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

fn checkpoint_closed(log: &SimLog, known: &SharedLedger) {
    let mut known = known.borrow_mut();
    known.recovery_point = log.log_end_offset().0;
    known.clean = true;
}

/// Opens the log after the crash and holds it against the ledger; then appends, stops and opens
/// once more.
async fn check(world: &World, known: &Ledger) {
    let log = world
        .try_open(
            crash_options(),
            known.clean,
            known.recovery_point,
            known.log_start,
        )
        .await
        .unwrap();
    let (start, end) = (log.log_start_offset().0, log.log_end_offset().0);
    let safe = known
        .acknowledged
        .min(known.cut.map_or(i64::MAX, |cut| cut - 1));
    assert!(
        end >= safe,
        "acknowledged below {safe}, there below {end}: {known:?}"
    );
    assert!(
        end <= known.appended,
        "appended below {}, there below {end}",
        known.appended
    );
    assert!(
        start <= known.retained_from.max(known.log_start),
        "{start} {known:?}"
    );
    assert_holds(&log, start, end).await;
    for _ in 0..3 {
        produce(&log, 2, 1000).await;
    }
    assert_holds(&log, start, end + 6).await;
    log.close().await.unwrap();
    let next = world.successor_with(world.disk().crash(5), crash_store());
    let log = next
        .try_open(crash_options(), true, end + 6, start)
        .await
        .unwrap();
    assert_eq!(log.log_end_offset(), Offset(end + 6));
    assert_holds(&log, start, end + 6).await;
}

/// How the segment files are kept: every test tries both.
#[derive(Clone, Copy)]
enum FileAccess {
    Calls,
    Mapped,
}

const MEDIA: [FileAccess; 2] = [FileAccess::Calls, FileAccess::Mapped];

fn fresh(on: FileAccess) -> (World, SharedLedger) {
    let platform = SimPlatform::new(11);
    if matches!(on, FileAccess::Mapped) {
        platform.disk().use_dax(Path::new(DIR));
    }
    (World::on(platform, crash_store()), SharedLedger::default())
}

fn operations_of_a_life(on: FileAccess) -> u64 {
    simulate(async {
        let (world, known) = fresh(on);
        live(&world, &known).await.unwrap();
        let operations = world.disk().operations();
        let next = world.successor_with(world.disk().crash(1), crash_store());
        let book = known.borrow().clone();
        check(&next, &book).await;
        operations
    })
}

#[test]
fn after_a_loss_of_power_at_any_operation_what_was_acknowledged_is_there() {
    for on in MEDIA {
        let operations = operations_of_a_life(on);
        assert!(operations > 200, "{operations}");
        for k in 0..operations {
            for seed in 0..2 {
                simulate(async {
                    let (world, known) = fresh(on);
                    world.disk().inject(Fault::at(k, Effect::PowerOff));
                    // Near the end the power may go when the life is over.
                    let _ = live(&world, &known).await;
                    let known = known.borrow().clone();
                    let next =
                        world.successor_with(world.disk().crash(seed * 1000 + k), crash_store());
                    check(&next, &known).await;
                });
            }
        }
    }
}

#[test]
fn after_a_kill_at_any_operation_what_was_acknowledged_is_there() {
    for on in MEDIA {
        let operations = operations_of_a_life(on);
        for k in 0..operations {
            simulate(async {
                let (world, known) = fresh(on);
                live_until(&world, &known, k).await;
                let known = known.borrow().clone();
                let next = world.successor_with(world.disk().kill(k), crash_store());
                check(&next, &known).await;
            });
        }
    }
}

#[test]
fn a_failure_of_any_operation_loses_nothing_that_was_acknowledged() {
    for on in MEDIA {
        let operations = operations_of_a_life(on);
        for k in 0..operations {
            simulate(async {
                let (world, known) = fresh(on);
                world
                    .disk()
                    .inject(Fault::at(k, Effect::Fail(ErrorKind::Other)));
                let result = live(&world, &known).await;
                let known = known.borrow().clone();
                if let Some(log) = world.store.logs().first() {
                    // Reads go on whatever has failed, except of what was being cut or deleted.
                    let (start, end) = (log.log_start_offset().0, log.durable_offset().0);
                    if known.cut.is_none() {
                        assert_holds(log, start, end).await;
                    }
                    assert!(result.is_err() || log.failed().is_none());
                }
                let next = world.successor_with(world.disk().crash(k), crash_store());
                check(&next, &known).await;
            });
        }
    }
}

#[test]
fn a_full_disk_at_any_operation_loses_nothing_and_passes() {
    for on in MEDIA {
        let operations = operations_of_a_life(on);
        for k in 0..operations {
            simulate(async {
                let (world, known) = fresh(on);
                world
                    .disk()
                    .inject(Fault::at(k, Effect::Fail(ErrorKind::StorageFull)));
                let result = live(&world, &known).await;
                if let Err(error) = &result {
                    assert!(
                        matches!(
                            error.kind(),
                            FailureKind::Full | FailureKind::Failed | FailureKind::Retry
                        ),
                        "{error}"
                    );
                }
                let known = known.borrow().clone();
                let next = world.successor_with(world.disk().crash(k), crash_store());
                check(&next, &known).await;
            });
        }
    }
}

/// Numbers that Linux gives to EMFILE and ENFILE.
const NO_DESCRIPTOR: [i32; 2] = [24, 23];

#[test]
fn without_a_descriptor_at_any_operation_the_log_goes_on_when_there_is_one() {
    for on in MEDIA {
        for kind in [
            OpKind::Open,
            OpKind::Create,
            OpKind::List,
            OpKind::SyncDir,
            OpKind::ReadFile,
        ] {
            let mut struck = true;
            let mut k = 0;
            while struck {
                struck = simulate(live_without_a_descriptor(on, kind, k));
                k += 1;
            }
            assert!(k > 1, "{kind:?} is among the operations");
        }
    }
}

/// A life in which the `k`-th operation of a kind finds no descriptor; false when there are fewer.
async fn live_without_a_descriptor(on: FileAccess, kind: OpKind, k: u64) -> bool {
    let (world, known) = fresh(on);
    let errno = NO_DESCRIPTOR[usize::try_from(k % 2).unwrap()];
    let fault = Fault::at_kind(k, kind, Effect::Errno(errno));
    world.disk().inject(fault);
    let result = live(&world, &known).await;
    if let Err(error) = &result {
        assert_eq!(error.kind(), FailureKind::Full, "{kind:?} {k}: {error}");
    }
    let struck = world.disk().faults_left() == 0;
    world.disk().clear_faults();
    assert!(!world.store.dir_failed(Path::new(DIR)), "{kind:?} {k}");
    if let Some(log) = world.store.logs().first() {
        world.platform.clock().sleep(Duration::from_secs(3)).await;
        assert!(log.failed().is_none(), "{kind:?} {k}: {:?}", log.failed());
        // What was refused has been written meanwhile, or is the next to be.
        log.flush().await.unwrap();
        acknowledge(log, &known, 2, 500).await.unwrap();
        log.roll().await.unwrap();
        acknowledge(log, &known, 1, 500).await.unwrap();
        let (start, end) = (log.log_start_offset().0, log.durable_offset().0);
        assert_holds(log, start, end).await;
    }
    let known = known.borrow().clone();
    let next = world.successor_with(world.disk().crash(k), crash_store());
    check(&next, &known).await;
    struck
}

#[test]
fn without_a_descriptor_at_any_operation_of_its_start_a_log_opens_all_the_same() {
    for on in MEDIA {
        let operations = operations_of_a_life(on);
        for cut_at in (3..operations).step_by(19) {
            for k in 0..40 {
                let struck = simulate(async {
                    let (world, known) = fresh(on);
                    world.disk().inject(Fault::at(cut_at, Effect::PowerOff));
                    let _ = live(&world, &known).await;
                    let known = known.borrow().clone();
                    let disk = world.disk().crash(cut_at);
                    let next = world.successor_with(disk, crash_store());
                    for kind in [OpKind::Open, OpKind::ReadFile, OpKind::List, OpKind::Create] {
                        let fault = Fault::at_kind(k, kind, Effect::Errno(23));
                        next.disk().inject(fault);
                    }
                    let (clean, point) = (known.clean, known.recovery_point);
                    let opened = next
                        .try_open(crash_options(), clean, point, known.log_start)
                        .await;
                    drop(opened.unwrap());
                    let struck = next.disk().faults_left() < 4;
                    let last = next.successor_with(next.disk().crash(k), crash_store());
                    check(&last, &known).await;
                    struck
                });
                if !struck {
                    break;
                }
            }
        }
    }
}

#[test]
fn a_second_loss_of_power_during_recovery_does_no_harm() {
    for on in MEDIA {
        let operations = operations_of_a_life(on);
        for k in (3..operations).step_by(17) {
            for j in 0..12 {
                simulate(async {
                    let (world, known) = fresh(on);
                    world.disk().inject(Fault::at(k, Effect::PowerOff));
                    let _ = live(&world, &known).await;
                    let book = known.borrow().clone();
                    let between = world.successor_with(world.disk().crash(k), crash_store());
                    between.disk().inject(Fault::at(j, Effect::PowerOff));
                    let (clean, point) = (book.clean, book.recovery_point);
                    let opened = between
                        .try_open(crash_options(), clean, point, book.log_start)
                        .await;
                    drop(opened);
                    let next = between.successor_with(between.disk().crash(k + j), crash_store());
                    check(&next, &book).await;
                });
            }
        }
    }
}

#[test]
fn what_is_durable_after_a_kill_survives_a_loss_of_power_right_after_it() {
    for on in MEDIA {
        let operations = operations_of_a_life(on);
        for k in (0..operations).step_by(3) {
            simulate(async {
                let (world, known) = fresh(on);
                live_until(&world, &known, k).await;
                let book = known.borrow().clone();
                let between = world.successor_with(world.disk().kill(k), crash_store());
                let (clean, point) = (book.clean, book.recovery_point);
                let opened = between
                    .try_open(crash_options(), clean, point, book.log_start)
                    .await;
                let durable = opened.unwrap().durable_offset();
                let next = between.successor_with(between.disk().crash(k), crash_store());
                let opened = next
                    .try_open(crash_options(), false, point, book.log_start)
                    .await;
                assert!(opened.unwrap().log_end_offset() >= durable);
            });
        }
    }
}
