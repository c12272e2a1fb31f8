//! Landing beside appends, and landing that does not get on: what is durable has no gap, and a log
//! that cannot land holds no other up.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use platform::Platform;
use platform::sim::{Effect, Fault, OpKind, Rng, SimPlatform};
use platform::task;
use storage::tier::MoveRate;
use storage::{FailureKind, OpenAs, Relocation, Stamp};
use wire::types::{LeaderEpoch, Offset, Uuid};

use crate::scene::*;
use crate::world::*;

/// The process has no more descriptors.
const EMFILE: i32 = 24;

/// Longer than anything that ends.
const FOR_EVER: Duration = Duration::from_mins(1);

/// A shard whose rings are on a device of their own; each log has a record that has landed.
async fn started() -> Shard {
    let mut shard = Shard::on(new_disk(1), FAST);
    shard.start(&Directory::default()).await.unwrap();
    for log in &shard.logs {
        produce(log, 1, 100).await;
    }
    shard.sleep(500).await;
    shard
}

fn slow(kind: OpKind, path: &str, ms: u64) -> Fault {
    Fault {
        path_contains: Some(path.to_owned()),
        ..Fault::at_kind(0, kind, Effect::Slow(Duration::from_millis(ms)))
    }
}

/// Appends four records to the first log: one that lands soon, one that is in flight to the ring
/// when that landing writes, one that the landing writes before it is handed in, and one behind
/// them.
async fn append_around_a_landing(shard: &Shard) {
    let log = &shard.logs[0];
    produce(log, 1, 300).await;
    shard.disk().inject(slow(OpKind::WriteDurably, FAST, 200));
    append(log, 1, 300);
    shard.sleep(1).await;
    append(log, 1, 300);
    shard.disk().inject(slow(OpKind::Sync, "orders0-0", 1000));
    shard.sleep(150).await;
    append(log, 1, 300);
    shard.sleep(150).await;
    assert_eq!(shard.disk().faults_left(), 0, "both were slow");
}

fn note(ledger: &mut Ledger, log: &SimLog) {
    ledger.acknowledged = log.durable_offset().0;
    ledger.appended = log.log_end_offset().0;
    ledger.retained_from = log.log_start_offset().0;
}

fn known_of(shard: &Shard) -> Directory {
    let mut known = Directory::default();
    for (log, ledger) in shard.logs.iter().zip(&mut known.logs) {
        note(ledger, log);
    }
    known
}

/// Cuts the power, and starts again.
async fn start_after_a_crash(shard: &Shard, known: &Directory, seed: u64) {
    let mut next = shard.successor(shard.disk().crash(seed));
    next.start(known).await.unwrap();
    next.check(known).await;
}

async fn check_after_a_crash(shard: &Shard, seed: u64) {
    start_after_a_crash(shard, &known_of(shard), seed).await;
}

#[test]
fn what_a_landing_has_written_and_not_synced_is_durable_only_by_the_ring() {
    for seed in 0..12 {
        simulate(async {
            let shard = started().await;
            append_around_a_landing(&shard).await;
            assert_eq!(shard.logs[0].durable_offset(), Offset(5));
            check_after_a_crash(&shard, seed).await;
        });
    }
}

#[test]
fn what_a_landing_has_written_behind_a_cut_is_in_the_ring_too() {
    for seed in 0..12 {
        simulate(async {
            let shard = started().await;
            let log = &shard.logs[0];
            produce(log, 3, 300).await;
            produce(log, 1, 300).await;
            log.truncate_to(Offset(4)).await.unwrap();
            append_around_a_landing(&shard).await;
            assert_eq!(log.durable_offset(), Offset(8));
            check_after_a_crash(&shard, seed).await;
        });
    }
}

#[test]
fn a_failed_sync_of_a_landing_takes_nothing_that_was_acknowledged() {
    for seed in 0..12 {
        simulate(async {
            let shard = started().await;
            let log = &shard.logs[0];
            let fails = Fault {
                path_contains: Some("orders0-0".to_owned()),
                ..Fault::at_kind(0, OpKind::Sync, Effect::Fail(ErrorKind::Other))
            };
            shard.disk().inject(slow(OpKind::WriteDurably, FAST, 200));
            produce(log, 1, 300).await;
            shard.disk().inject(slow(OpKind::WriteDurably, FAST, 200));
            append(log, 1, 300);
            shard.sleep(1).await;
            append(log, 1, 300);
            shard.disk().inject(fails);
            shard.sleep(150).await;
            drop(log.append(&batch(4, 1, 300), EPOCH, NOW_MS));
            shard.sleep(1000).await;
            assert!(log.failed().is_some(), "its sync failed");
            check_after_a_crash(&shard, seed).await;
        });
    }
}

/// Has the oldest bytes in the ring be of a log whose disk has no room.
async fn fill_disk(shard: &Shard) {
    produce(&shard.logs[WITHOUT_ROOM_AHEAD], 1, 5000).await;
    produce(&shard.logs[COMPACTED], 1, 100).await;
    shard.disk().set_capacity_bytes(Some(1));
    // Until the ring is full, and the others no longer wait for it.
    for _ in 0..22 {
        append(&shard.logs[0], 1, 100);
        let flushed = task::timeout(FOR_EVER, shard.logs[0].flush()).await;
        flushed.expect("it does not wait for the full log").unwrap();
    }
}

#[test]
fn a_log_that_cannot_land_holds_no_other_up() {
    simulate(async {
        let shard = started().await;
        fill_disk(&shard).await;
        let full = &shard.logs[WITHOUT_ROOM_AHEAD];
        let refused = full.append(&batch(2, 1, 100), EPOCH, NOW_MS).unwrap_err();
        assert_eq!(refused.kind(), FailureKind::Full);
        assert!(shard.store().unlanded_bytes(Path::new(DIR)) > 5000);
        shard.disk().set_capacity_bytes(None);
        shard.sleep(3000).await;
        assert_eq!(shard.store().unlanded_bytes(Path::new(DIR)), 0, "it landed");
        produce(full, 1, 100).await;
        produce(&shard.logs[0], 1, 100).await;
        let in_ring = shard.store().unlanded_bytes(Path::new(DIR));
        assert!(in_ring > 0, "the journal is used again");
        check_after_a_crash(&shard, 4).await;
    });
}

#[test]
fn a_crash_while_logs_are_written_past_a_full_ring_loses_nothing() {
    for seed in 0..6 {
        simulate(async {
            let shard = started().await;
            fill_disk(&shard).await;
            shard.disk().set_capacity_bytes(None);
            check_after_a_crash(&shard, seed).await;
        });
    }
}

#[test]
fn closing_and_deleting_end_while_a_log_cannot_land() {
    simulate(async {
        let shard = started().await;
        fill_disk(&shard).await;
        append(&shard.logs[1], 1, 100);
        let closed = task::timeout(FOR_EVER, shard.logs[1].close()).await;
        drop(closed.expect("a stop ends"));
        let deleted = &shard.logs[0];
        append(deleted, 1, 100);
        drop(
            task::timeout(FOR_EVER, deleted.roll())
                .await
                .expect("it ends"),
        );
        let gone = task::timeout(FOR_EVER, deleted.delete()).await;
        gone.expect("room can be made").unwrap();
        let full = &shard.logs[WITHOUT_ROOM_AHEAD];
        let gone = task::timeout(FOR_EVER, full.delete()).await;
        gone.expect("room can be made").unwrap();
        shard.sleep(1000).await;
        let unlanded = shard.store().unlanded_bytes(Path::new(DIR));
        assert_eq!(unlanded, 0, "what held the head is gone");
    });
}

#[test]
fn a_truncation_on_a_full_disk_fails_before_it_changes_anything_and_may_be_tried_again() {
    simulate(async {
        let shard = started().await;
        fill_disk(&shard).await;
        let log = &shard.logs[COMPACTED];
        let anew = log.truncate_fully_and_start_at(Offset(50));
        let refused = task::timeout(FOR_EVER, anew).await.expect("it ends");
        assert_eq!(refused.unwrap_err().kind(), FailureKind::Full);
        let cut = log.truncate_to(Offset(1));
        let refused = task::timeout(FOR_EVER, cut).await.expect("it ends");
        assert_eq!(refused.unwrap_err().kind(), FailureKind::Full);
        assert_holds(log, 0, 2).await;
        shard.disk().set_capacity_bytes(None);
        shard.sleep(3000).await;
        log.truncate_to(Offset(1)).await.unwrap();
        produce(log, 1, 100).await;
        assert_holds(log, 0, 2).await;
        log.truncate_fully_and_start_at(Offset(50)).await.unwrap();
        produce(log, 1, 100).await;
        check_after_a_crash(&shard, 1).await;
    });
}

#[test]
fn a_full_log_keeps_no_other_from_landing_when_the_rings_device_fails() {
    simulate(async {
        let shard = started().await;
        produce(&shard.logs[WITHOUT_ROOM_AHEAD], 1, 5000).await;
        produce(&shard.logs[COMPACTED], 1, 300).await;
        shard.disk().set_capacity_bytes(Some(1));
        // It does not land in the first round, but it may be tried again.
        shard.disk().inject(Fault {
            path_contains: Some("orders3-0".to_owned()),
            ..Fault::at_kind(0, OpKind::Write, Effect::Errno(EMFILE))
        });
        shard
            .disk()
            .set_broken(Path::new(FAST), Some(ErrorKind::Other));
        produce(&shard.logs[0], 1, 100).await;
        shard.sleep(2000).await;
        let data = Path::new(DIR).join("orders3-0/00000000000000000000.log");
        let durable = shard.disk().durable_contents(&data).unwrap();
        let is_there = durable
            .windows(300)
            .any(|bytes| bytes.iter().all(|byte| *byte == b'b'));
        assert!(is_there, "its record was in memory only");
    });
}

#[test]
fn a_stop_ends_although_the_disk_has_no_room_for_the_mark_of_a_void_ring() {
    simulate(async {
        let shard = started().await;
        shard.disk().set_capacity_bytes(Some(1));
        shard
            .disk()
            .set_broken(Path::new(FAST), Some(ErrorKind::Other));
        produce(&shard.logs[0], 1, 100).await;
        let closing = shard.store().close_journal(Path::new(DIR));
        let closed = task::timeout(FOR_EVER, closing).await.expect("it ends");
        // All logs have landed: the directory is unmarked, which needs no room.
        closed.unwrap();
    });
}

#[test]
fn a_large_log_that_its_own_flush_lands_holds_no_other_up() {
    simulate(async {
        let shard = started().await;
        let log = &shard.logs[0];
        produce(log, 1, 5000).await;
        shard.disk().inject(slow(OpKind::WriteDurably, FAST, 5));
        append(log, 1, 4000);
        shard.sleep(1).await;
        // It is written past the ring as soon as the log has become a large one.
        append(log, 1, 9000);
        log.flush().await.unwrap();
        let clock = shard.world.platform.clock();
        let began = clock.now();
        for _ in 0..40 {
            produce(&shard.logs[1], 1, 100).await;
        }
        let took = clock.now().saturating_duration_since(began);
        assert!(took < Duration::from_millis(100), "{took:?}");
    });
}

/// Appends the first record of an epoch.
fn append_in_new_epoch(log: &SimLog, epoch: i32) {
    log.start_epoch(LeaderEpoch(epoch));
    let stamp = Stamp {
        leader_epoch: LeaderEpoch(epoch),
        ..EPOCH
    };
    let first = log.log_end_offset().0;
    log.append(&batch(first, 1, 300), stamp, NOW_MS).unwrap();
}

#[test]
fn leader_epochs_are_saved_by_a_commit_and_a_landing_one_after_the_other() {
    simulate(async {
        let shard = started().await;
        let log = &shard.logs[0];
        produce(log, 1, 300).await;
        let file = "leader-epoch-checkpoint";
        shard.disk().inject(slow(OpKind::Sync, file, 300));
        append_in_new_epoch(log, 2);
        shard.sleep(10).await;
        // The log lands while those before are being saved.
        append_in_new_epoch(log, 3);
        shard.sleep(1000).await;
        assert_eq!(shard.disk().faults_left(), 0, "it was slow");
        assert!(log.failed().is_none(), "{:?}", log.failed());
        let path = Path::new(DIR).join("orders0-0").join(file);
        let saved = shard.disk().durable_contents(&path).unwrap();
        let saved = String::from_utf8(saved).unwrap();
        assert!(saved.lines().any(|line| line == "3 3"), "{saved}");
    });
}

/// Moves the first log to another directory; returns the move.
async fn switched(log: &SimLog, to: &str) -> Relocation<SimPlatform> {
    let rate = Arc::new(MoveRate::default());
    let relocation = Relocation::begin(log, Path::new(to), rate).await.unwrap();
    relocation.catch_up().await.unwrap();
    log.close().await.unwrap();
    relocation.switch(Uuid::from_u128(9)).await.unwrap();
    relocation
}

#[test]
fn a_log_that_comes_back_is_not_cut_by_what_the_ring_had_of_it_before() {
    simulate(async {
        let shard = started().await;
        let other = Path::new("/other");
        shard.disk().put(&other.join("keep"), b"x").unwrap();
        let log = &shard.logs[0];
        produce(log, 4, 300).await;
        log.truncate_to(Offset(3)).await.unwrap();
        let away = switched(log, "/other").await;
        away.retire().await.unwrap();
        let how = OpenAs {
            clean: true,
            recovery_point: Offset(1),
            log_start: Offset::ZERO,
            compacted: None,
        };
        let (partition, id) = (partition_of(0), topic_id_of(0, 0));
        let opened = shard
            .store()
            .open_log(other, partition, id, log_options(0), how);
        let there = opened.await.unwrap();
        produce(&there, 3, 300).await;
        drop(switched(&there, DIR).await);
        let mut known = known_of(&shard);
        note(&mut known.logs[0], &there);
        start_after_a_crash(&shard, &known, 3).await;
    });
}

/// Appends to a log without waiting for what is durable, and cuts it now and then; returns where it
/// was being cut when that failed.
async fn append_restlessly(log: SimLog, clock: platform::Clock, mut rng: Rng) -> Option<i64> {
    for _ in 0..50 {
        let end = log.log_end_offset().0;
        if rng.chance(4) {
            let cut = end - i64::try_from(rng.below(6)).unwrap();
            let cut = cut.max(log.log_start_offset().0);
            if log.truncate_to(Offset(cut)).await.is_err() {
                return Some(cut);
            }
            continue;
        }
        let bytes = if rng.chance(8) { 7000 } else { 300 };
        let bytes = usize::try_from(1 + rng.below(bytes)).unwrap();
        match log.append(&batch(end, 1, bytes), EPOCH, NOW_MS) {
            Ok(_) | Err(storage::Error::Busy) => {}
            Err(_) => return None,
        }
        clock.sleep(Duration::from_millis(rng.below(12))).await;
    }
    None
}

/// One device for logs and one for rings, the one or the other slow; appends all the time; and the
/// power goes.
async fn live_restlessly(seed: u64) {
    let mut rng = Rng::new(seed);
    let disk = new_disk(seed);
    let mut shard = Shard::on(disk.clone(), FAST);
    shard.start(&Directory::default()).await.unwrap();
    disk.set_latency(Duration::ZERO, Duration::from_millis(rng.below(4)));
    let slow_device = if rng.chance(50) { DIR } else { FAST };
    disk.set_rate_of(Path::new(slow_device), Some(50_000 << rng.below(6)));
    for _ in 0..20 {
        let takes_time = Effect::Slow(Duration::from_millis(rng.below(200)));
        disk.inject(Fault::at_kind(rng.below(40), OpKind::Sync, takes_time));
    }
    disk.inject(Fault::at(rng.below(700), Effect::PowerOff));
    let writers: Vec<_> = shard
        .logs
        .iter()
        .map(|log| {
            let clock = shard.world.platform.clock().clone();
            let rng = Rng::new(rng.next_u64());
            task::spawn(append_restlessly(log.clone(), clock, rng))
        })
        .collect();
    let mut cuts = Vec::new();
    for writer in writers {
        cuts.push(task::timeout(FOR_EVER, writer).await.unwrap().unwrap());
    }
    let mut known = known_of(&shard);
    for (ledger, cut) in known.logs.iter_mut().zip(cuts) {
        ledger.cut = cut;
    }
    let mut next = shard.successor(disk.crash(rng.next_u64()));
    next.disk().set_latency(Duration::ZERO, Duration::ZERO);
    next.disk().set_rate_of(Path::new(slow_device), None);
    next.start(&known).await.unwrap();
    next.check(&known).await;
}

#[test]
fn lives_without_rest_end_anywhere() {
    for seed in 0..150 {
        println!("seed {seed}");
        simulate(live_restlessly(seed));
    }
}
