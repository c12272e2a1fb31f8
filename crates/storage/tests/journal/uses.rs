//! What a journal is for: one write for many logs, and what it costs nothing else.

use std::path::Path;

use platform::task;
use storage::FailureKind;
use wire::types::Offset;

use crate::scene::*;
use crate::world::*;

async fn started() -> (Shard, KnownDirectory) {
    let mut shard = Shard::on(new_disk(1), DIR);
    let known = KnownDirectory::default();
    let book = known.borrow().clone();
    shard.start(&book).await.unwrap();
    for log in &shard.logs {
        produce(log, 1, 100).await;
    }
    shard.sleep(500).await;
    (shard, known)
}

/// Appends a record to each log and flushes all; returns how many operations that took.
async fn produce_to_all(shard: &Shard) -> u64 {
    let before = shard.disk().operations();
    let flushes: Vec<_> = shard
        .logs
        .iter()
        .map(|log| {
            append(log, 1, 200);
            let log = log.clone();
            task::spawn(async move { log.flush().await })
        })
        .collect();
    for flush in flushes {
        flush.await.unwrap().unwrap();
    }
    shard.disk().operations() - before
}

#[test]
fn one_write_makes_the_appends_of_all_logs_durable() {
    simulate(async {
        let (shard, _) = started().await;
        let operations = produce_to_all(&shard).await;
        // The first one does not wait for the others.
        assert!(operations <= 2, "{operations} for {LOGS} logs");
        assert!(shard.store().unlanded_bytes(Path::new(DIR)) > 0);
        for log in &shard.logs {
            assert_eq!(log.durable_offset(), Offset(2));
            assert_holds(log, 0, 2).await;
        }
        shard.sleep(500).await;
        assert_eq!(shard.store().unlanded_bytes(Path::new(DIR)), 0, "it landed");
    });
}

#[test]
fn a_large_append_takes_what_is_before_it_along() {
    simulate(async {
        let (shard, _) = started().await;
        let log = &shard.logs[0];
        produce(log, 1, 300).await;
        assert!(shard.store().unlanded_bytes(Path::new(DIR)) > 0);
        produce(log, 1, 9000).await;
        assert_eq!(shard.store().unlanded_bytes(Path::new(DIR)), 0);
        assert_holds(log, 0, 3).await;
    });
}

#[test]
fn a_start_without_replay_would_not_have_it() {
    simulate(async {
        let (shard, known) = started().await;
        produce_to_all(&shard).await;
        let next = shard.successor(shard.disk().crash(1));
        let book = known.borrow().clone();
        let log = next.open(0, &book).await.unwrap();
        assert_eq!(log.log_end_offset(), Offset(1), "it was in the ring only");
    });
}

#[test]
fn a_disk_without_room_fills_logs_until_there_is_some_and_loses_nothing() {
    simulate(async {
        let (shard, known) = started().await;
        let log = &shard.logs[WITHOUT_ROOM_AHEAD];
        produce(log, 1, 5000).await;
        shard.disk().set_capacity_bytes(Some(1));
        shard.sleep(1000).await;
        let refused = log.append(&batch(2, 1, 100), EPOCH, NOW_MS).unwrap_err();
        assert_eq!(refused.kind(), FailureKind::Full);
        assert_holds(log, 0, 2).await;
        shard.disk().set_capacity_bytes(None);
        shard.sleep(3000).await;
        produce(log, 1, 100).await;
        assert_holds(log, 0, 3).await;
        shard.stop(&known).await.unwrap();
    });
}

#[test]
fn many_small_appends_go_round_the_ring() {
    simulate(async {
        let (shard, known) = started().await;
        for _ in 0..120 {
            produce_to_all(&shard).await;
        }
        for log in &shard.logs {
            assert_holds(log, 0, 121).await;
        }
        shard.stop(&known).await.unwrap();
    });
}
