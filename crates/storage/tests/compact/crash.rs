//! A life with compaction in it, cut off at every disk operation: by a loss of power, by a kill, by
//! a failure of the operation, by a full disk. Afterwards the log is opened again and must hold the
//! newest record of every key, none that was superseded before a tombstone went, and must go on, be
//! compacted again, and stop.

use std::cell::RefCell;
use std::io::ErrorKind;
use std::path::Path;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use platform::Platform;
use platform::sim::{Effect, Fault, OpKind, SimPlatform};
use storage::{FailureKind, LogOptions, OpenAs, Result, StoreOptions};
use wire::types::Offset;

use crate::history::*;
use crate::world::*;

#[derive(Clone, Default)]
struct KnownHistory {
    history: History,
    /// Everything below is durable.
    durable: i64,
    recovery_point: i64,
    compacted: Option<i64>,
    clean: bool,
}

type Book = Rc<RefCell<KnownHistory>>;

fn small_options() -> LogOptions {
    LogOptions {
        segment_bytes: 3 << 10,
        ..compacted_options()
    }
}

fn small_store() -> StoreOptions {
    StoreOptions {
        cache_bytes_max: 16 << 10,
        chunk_bytes: 8 << 10,
        allocate_step_bytes: 8 << 10,
        save_interval_bytes: 8 << 10,
        open_segments_max: 2,
        ..store_options()
    }
}

async fn append(log: &SimLog, book: &Book, draft: &Draft, now_ms: i64) -> Result<()> {
    if let Some(error) = log.failed() {
        return Err(error);
    }
    book.borrow_mut().history.append(log, draft, now_ms);
    flushed(log, book).await
}

async fn flushed(log: &SimLog, book: &Book) -> Result<()> {
    log.flush().await?;
    book.borrow_mut().durable = log.durable_offset().0;
    log.set_high_watermark(log.durable_offset());
    Ok(())
}

/// What the owner writes to the checkpoint files from time to time; `begun` is what it writes
/// before the first round.
fn checkpoint(world: &World, book: &Book, log: &SimLog) {
    let points = world.store.points(Path::new(DIR));
    let mut book = book.borrow_mut();
    book.recovery_point = points.first().map_or(0, |points| points.recovery_point.0);
    book.compacted = log.compaction().compacted_offset().map(|offset| offset.0);
}

async fn round(world: &World, book: &Book, log: &SimLog) -> Result<()> {
    if log.compaction().begin_compacting() {
        checkpoint(world, book, log);
    }
    log.save().await?;
    let now_ms = world.platform.clock().wall_ms();
    // Whether it comes to its end or not, tombstones have begun to count.
    let below = log.stable_offset().0;
    book.borrow_mut().history.note_round(below, now_ms);
    log.compact(&POLICY, &ROUND).await?;
    Ok(())
}

fn draft(at: u8) -> Draft {
    let value = |key: u8| (!(at + key).is_multiple_of(5)).then_some(120 + key);
    Draft {
        codec: at,
        records: (0..4)
            .map(|key| (at.wrapping_mul(7).wrapping_add(key) % 9, value(key)))
            .collect(),
        producer: at.is_multiple_of(3).then_some(i64::from(at % 2)),
        ..Draft::default()
    }
}

async fn live(world: &World, book: &Book) -> Result<()> {
    let log = world.try_open(small_options(), false, 0, 0).await?;
    let now_ms = || world.platform.clock().wall_ms();
    for at in 0..14 {
        append(&log, book, &draft(at), now_ms()).await?;
    }
    for (producer, commit) in [(10, true), (11, false)] {
        let in_transaction = Draft {
            producer: Some(producer),
            transactional: true,
            ..draft(3)
        };
        append(&log, book, &in_transaction, now_ms()).await?;
        book.borrow_mut()
            .history
            .end(&log, producer, commit, now_ms());
        flushed(&log, book).await?;
    }
    log.roll().await?;
    round(world, book, &log).await?;
    checkpoint(world, book, &log);
    for at in 14..20 {
        append(&log, book, &draft(at), now_ms()).await?;
    }
    world.platform.clock().jump_ms(2_000);
    log.roll().await?;
    round(world, book, &log).await?;
    append(&log, book, &draft(21), now_ms()).await?;
    log.close().await?;
    checkpoint(world, book, &log);
    let mut book = book.borrow_mut();
    book.clean = true;
    book.recovery_point = log.log_end_offset().0;
    Ok(())
}

async fn live_until(world: &World, book: &Book, k: u64) {
    let mut life = Box::pin(live(world, book));
    std::future::poll_fn(|context| {
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

async fn reopen(world: &World, known: &KnownHistory, options: LogOptions) -> SimLog {
    let how = OpenAs {
        clean: known.clean,
        recovery_point: Offset(known.recovery_point),
        log_start: Offset(0),
        compacted: known.compacted.map(Offset),
    };
    let opened = world
        .store
        .open_log(Path::new(DIR), partition(), topic_id(), options, how);
    opened.await.unwrap()
}

async fn check(world: &World, mut known: KnownHistory, options: LogOptions) {
    let log = reopen(world, &known, options.clone()).await;
    let end = log.log_end_offset().0;
    assert!(end >= known.durable, "{end} of {}", known.durable);
    known.history.cut(end);
    log.set_high_watermark(Offset(end));
    let now_ms = world.platform.clock().wall_ms();
    for id in log
        .producers()
        .iter()
        .filter(|p| p.transaction_start.is_none())
    {
        // A marker that was not durable has decided nothing; one that was has.
        known.history.open.remove(&id.producer_id.0);
    }
    known.history.check(&log, end, now_ms).await;
    if !options.compact {
        return;
    }
    // It goes on where it is: a round, more records, a stop.
    log.set_options(compacted_options());
    log.roll().await.unwrap();
    compact(&log, &mut known.history, now_ms).await;
    known.history.check(&log, end, now_ms).await;
    known.history.append(&log, &draft(40), now_ms);
    settle(&log).await;
    known.history.check(&log, end, now_ms).await;
    log.close().await.unwrap();
    known.clean = true;
    let disk = world.disk().crash(9);
    let next = world.successor_with(disk, small_store());
    let log = reopen(&next, &known, options).await;
    log.set_high_watermark(log.log_end_offset());
    known.history.check(&log, end, now_ms).await;
    let names = next.names();
    assert!(
        !names.iter().any(|name| name.ends_with("deleted")),
        "{names:?}"
    );
}

fn fresh() -> (World, Book) {
    (
        World::on(SimPlatform::new(11), small_store()),
        Book::default(),
    )
}

fn operations_of_a_life() -> u64 {
    simulate(async {
        let (world, book) = fresh();
        live(&world, &book).await.unwrap();
        let operations = world.disk().operations();
        let next = world.successor_with(world.disk().crash(1), small_store());
        let known = book.borrow().clone();
        assert!(known.compacted.unwrap() > 60, "{:?}", known.compacted);
        check(&next, known, small_options()).await;
        operations
    })
}

#[test]
fn after_a_loss_of_power_at_any_operation_no_key_has_lost_its_newest_record() {
    let operations = operations_of_a_life();
    assert!(operations > 200, "{operations}");
    for k in 0..operations {
        simulate(async {
            let (world, book) = fresh();
            world.disk().inject(Fault::at(k, Effect::PowerOff));
            let _ = live(&world, &book).await;
            let known = book.borrow().clone();
            let next = world.successor_with(world.disk().crash(k), small_store());
            check(&next, known, small_options()).await;
        });
    }
}

#[test]
fn gaps_are_known_for_what_they_are_when_the_policy_has_changed_since() {
    let operations = operations_of_a_life();
    for k in (0..operations).step_by(5) {
        simulate(async {
            let (world, book) = fresh();
            world.disk().inject(Fault::at(k, Effect::PowerOff));
            let _ = live(&world, &book).await;
            let mut known = book.borrow().clone();
            // The recovery point may be as old as can be.
            known.recovery_point = 0;
            let next = world.successor_with(world.disk().crash(k), small_store());
            let plain = LogOptions {
                compact: false,
                ..small_options()
            };
            check(&next, known, plain).await;
        });
    }
}

#[test]
fn after_a_kill_at_any_operation_no_key_has_lost_its_newest_record() {
    let operations = operations_of_a_life();
    for k in 0..operations {
        simulate(async {
            let (world, book) = fresh();
            live_until(&world, &book, k).await;
            let known = book.borrow().clone();
            let next = world.successor_with(world.disk().kill(k), small_store());
            check(&next, known, small_options()).await;
        });
    }
}

#[test]
fn a_failure_or_a_full_disk_at_any_operation_loses_nothing() {
    let operations = operations_of_a_life();
    for k in 0..operations {
        // A full disk is for the most part the same failure.
        let kinds = [ErrorKind::Other, ErrorKind::StorageFull];
        for kind in kinds.into_iter().take(if k % 3 == 0 { 2 } else { 1 }) {
            simulate(async {
                let (world, book) = fresh();
                world.disk().inject(Fault::at(k, Effect::Fail(kind)));
                let result = live(&world, &book).await;
                if let (Err(error), ErrorKind::StorageFull) = (&result, kind) {
                    let expected = [FailureKind::Full, FailureKind::Failed, FailureKind::Retry];
                    assert!(expected.contains(&error.kind()), "{error}");
                }
                let known = book.borrow().clone();
                if let Some(log) = world.store.logs().first() {
                    // Readers go on reading, whatever has failed.
                    let now_ms = world.platform.clock().wall_ms();
                    let end = log.durable_offset().0;
                    let mut seen = known.clone();
                    seen.history.cut(log.log_end_offset().0);
                    seen.history.check(log, end, now_ms).await;
                }
                let next = world.successor_with(world.disk().crash(k), small_store());
                check(&next, known, small_options()).await;
            });
        }
    }
}

#[test]
fn without_a_descriptor_at_any_operation_compaction_fails_nothing() {
    for kind in [
        OpKind::Open,
        OpKind::Create,
        OpKind::List,
        OpKind::SyncDir,
        OpKind::ReadFile,
    ] {
        let mut struck = true;
        for k in 0.. {
            if !struck {
                break;
            }
            struck = simulate(async {
                let (world, book) = fresh();
                let fault = Fault::at_kind(k, kind, Effect::Errno(24));
                world.disk().inject(fault);
                let result = live(&world, &book).await;
                if let Err(error) = &result {
                    assert_eq!(error.kind(), FailureKind::Full, "{kind:?} {k}: {error}");
                }
                let struck = world.disk().faults_left() == 0;
                world.disk().clear_faults();
                if let Some(log) = world.store.logs().first() {
                    world.platform.clock().sleep(Duration::from_secs(2)).await;
                    assert!(log.failed().is_none(), "{kind:?} {k}: {:?}", log.failed());
                    let now_ms = world.platform.clock().wall_ms();
                    append(log, &book, &draft(22), now_ms).await.unwrap();
                    log.roll().await.unwrap();
                    round(&world, &book, log).await.unwrap();
                }
                let known = book.borrow().clone();
                let next = world.successor_with(world.disk().crash(k), small_store());
                check(&next, known, small_options()).await;
                struck
            });
        }
    }
}

#[test]
fn a_second_loss_of_power_while_a_swap_is_finished_does_no_harm() {
    let operations = operations_of_a_life();
    for k in (100..operations).step_by(13) {
        for j in (0..14).step_by(2) {
            simulate(async {
                let (world, book) = fresh();
                world.disk().inject(Fault::at(k, Effect::PowerOff));
                let _ = live(&world, &book).await;
                let known = book.borrow().clone();
                let between = world.successor_with(world.disk().crash(k), small_store());
                between.disk().inject(Fault::at(j, Effect::PowerOff));
                let point = known.recovery_point;
                drop(
                    between
                        .try_open(small_options(), known.clean, point, 0)
                        .await,
                );
                let next = between.successor_with(between.disk().crash(k + j), small_store());
                check(&next, known, small_options()).await;
            });
        }
    }
}
