//! For every k: the k-th disk operation of a life over journal and segments fails, is the last one
//! before the power goes, or is the last one of a process that is killed. What was not synced is
//! lost, torn, or there, each by itself.
//!
//! A run takes every `STRIDE`-th operation, from one that differs between the tests; with
//! `FOREBAY_CRASH_STRIDE=1` it takes all of them, some 500 for each test.

use std::io::ErrorKind;
use std::time::Duration;

use platform::sim::{Effect, Fault, Rng};
use storage::{Error, FailureKind};

use crate::life::{live, live_until, watched};
use crate::scene::*;
use crate::world::*;

/// One of this number of operations is taken, unless `FOREBAY_CRASH_STRIDE` says otherwise.
const STRIDE: u64 = 13;

fn stride() -> u64 {
    let asked = std::env::var("FOREBAY_CRASH_STRIDE").ok();
    let asked = asked.and_then(|text| text.parse().ok());
    asked.unwrap_or(STRIDE).max(1)
}

fn fresh() -> (Shard, KnownDirectory) {
    (Shard::on(new_disk(11), DIR), KnownDirectory::default())
}

fn operations_of_a_life() -> u64 {
    simulate(async {
        let (mut shard, known) = fresh();
        live(&mut shard, &known).await.unwrap();
        let operations = shard.disk().operations();
        let next = shard.successor(shard.disk().crash(1));
        let book = known.borrow().clone();
        check(next, &book).await;
        assert!(operations > 400, "{operations} operations are no life");
        operations
    })
}

/// Calls `run` for every `stride`-th operation of a life.
#[expect(clippy::print_stdout, reason = "which operation it was that failed")]
fn each(stride: u64, first: u64, run: impl Fn(u64)) {
    let operations = operations_of_a_life();
    let some = (first % stride..operations).step_by(usize::try_from(stride).unwrap());
    for k in some {
        println!("operation {k} of {operations}");
        run(k);
    }
}

fn power_goes(k: u64, seed: u64) {
    simulate(async {
        let (mut shard, known) = fresh();
        shard.disk().inject(Fault::at(k, Effect::PowerOff));
        drop(live(&mut shard, &known).await);
        let book = known.borrow().clone();
        let next = shard.successor(shard.disk().crash(seed * 10_000 + k));
        check(next, &book).await;
    });
}

fn process_is_killed(k: u64) {
    simulate(async {
        let (mut shard, known) = fresh();
        live_until(&mut shard, &known, k).await;
        let book = known.borrow().clone();
        let killed = shard.disk().kill(k);
        // The next start goes on a while, and then the power goes.
        let mut between = shard.successor(killed);
        between
            .disk()
            .inject(Fault::at(20 + k % 60, Effect::PowerOff));
        drop(between.start(&book).await);
        let next = between.successor(between.disk().crash(k));
        check(next, &book).await;
    });
}

fn operation_fails(k: u64) {
    simulate(async {
        let (mut shard, known) = fresh();
        let fault = Fault::at(k, Effect::Fail(ErrorKind::Other));
        shard.disk().inject(fault);
        drop(live(&mut shard, &known).await);
        let book = known.borrow().clone();
        for (at, log) in shard.logs.iter().enumerate() {
            let is_whole =
                book.logs[at].cut.is_none() && !matches!(log.failed(), Some(Error::Closed));
            if is_whole && book.logs[at].acknowledged > 0 {
                let (start, end) = (log.log_start_offset().0, log.durable_offset().0);
                assert_holds(log, start, end).await;
            }
        }
        let next = shard.successor(shard.disk().crash(k));
        check(next, &book).await;
    });
}

fn disk_is_full_once(k: u64) {
    simulate(async {
        let (mut shard, known) = fresh();
        let fault = Fault::at(k, Effect::Fail(ErrorKind::StorageFull));
        shard.disk().inject(fault);
        let result = live(&mut shard, &known).await;
        if let Some(error) = result
            .as_ref()
            .err()
            .and_then(|e| e.downcast_ref::<Error>())
        {
            // A round of compaction that a failed directory ends says that the log is closed.
            let passes = [
                FailureKind::Full,
                FailureKind::Failed,
                FailureKind::Retry,
                FailureKind::Closed,
            ];
            let struck = shard.disk().struck();
            assert!(
                passes.contains(&error.kind()),
                "{k}: {error} after {struck:?}"
            );
        }
        let book = known.borrow().clone();
        let next = shard.successor(shard.disk().crash(k));
        check(next, &book).await;
    });
}

fn power_goes_twice(k: u64, j: u64) {
    simulate(async {
        let (mut shard, known) = fresh();
        shard.disk().inject(Fault::at(k, Effect::PowerOff));
        drop(live(&mut shard, &known).await);
        let book = known.borrow().clone();
        let mut between = shard.successor(shard.disk().crash(k));
        between.disk().inject(Fault::at(j, Effect::PowerOff));
        drop(between.start(&book).await);
        let next = between.successor(between.disk().crash(k + j));
        check(next, &book).await;
    });
}

#[test]
fn after_a_loss_of_power_at_any_operation_what_was_acknowledged_is_there() {
    each(stride(), 0, |k| power_goes(k, k % 3));
}

#[test]
fn after_a_kill_at_any_operation_what_was_acknowledged_is_there() {
    each(stride(), 5, process_is_killed);
}

#[test]
fn a_failure_of_any_operation_loses_nothing_that_was_acknowledged() {
    each(stride(), 3, operation_fails);
}

#[test]
fn a_full_disk_at_any_operation_loses_nothing_that_was_acknowledged() {
    each(stride(), 8, disk_is_full_once);
}

#[test]
fn a_second_loss_of_power_while_the_rings_are_replayed_does_no_harm() {
    each(stride() * 4, 2, |k| {
        for j in (k % 5..60).step_by(5) {
            power_goes_twice(k, j);
        }
    });
}

/// A process that is killed in its first start leaves names that are seen and not durable. The next
/// one appends over a roll, and the power goes while logs land: the first segment says where a log
/// begins, so its name has to be durable before another one is.
async fn killed_at_first(k: u64, j: u64) {
    let (mut shard, known) = fresh();
    let disk = shard.disk().clone();
    let is_over = || disk.operations() >= k;
    let book = known.borrow().clone();
    drop(watched(&disk, shard.start(&book), is_over).await);
    let mut next = shard.successor(shard.disk().kill(k));
    next.start(&book).await.unwrap();
    let mut book = book;
    for (log, ledger) in next.logs.iter().zip(&mut book.logs) {
        produce(log, 1, 300).await;
        log.roll().await.unwrap();
        produce(log, 1, 300).await;
        (ledger.acknowledged, ledger.appended) = (2, 2);
    }
    next.disk().inject(Fault::at(j, Effect::PowerOff));
    next.sleep(500).await;
    let last = next.successor(next.disk().crash(k * 100 + j));
    check(last, &book).await;
}

#[test]
fn what_a_kill_at_the_first_start_left_does_not_lose_what_is_appended_later() {
    let operations = simulate(async {
        let (mut shard, known) = fresh();
        let book = known.borrow().clone();
        shard.start(&book).await.unwrap();
        shard.disk().operations()
    });
    for k in 0..operations {
        for j in (k % 7..28).step_by(7) {
            simulate(killed_at_first(k, j));
        }
    }
}

#[test]
fn lives_on_a_disk_that_takes_its_time_end_anywhere() {
    for seed in 0..25 {
        simulate(life_on_a_slow_disk(seed));
    }
}

async fn life_on_a_slow_disk(seed: u64) {
    let mut rng = Rng::new(seed);
    let disk = new_disk(seed);
    disk.set_latency(Duration::ZERO, Duration::from_millis(1 + rng.below(4)));
    let (mut shard, known) = (Shard::on(disk, DIR), KnownDirectory::default());
    let k = rng.below(900);
    shard.disk().inject(Fault::at(k, Effect::PowerOff));
    drop(live(&mut shard, &known).await);
    let book = known.borrow().clone();
    let next = shard.successor(shard.disk().crash(rng.next_u64()));
    next.disk().set_latency(Duration::ZERO, Duration::ZERO);
    check(next, &book).await;
}
