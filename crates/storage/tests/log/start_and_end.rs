//! Where a log starts and ends: rolls, retention, deleted records, truncation, deletion.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::world::*;
use platform::disk::Disk;
use platform::sim::{Effect, Fault, OpKind};
use platform::task::spawn;
use storage::log::RetentionReason;
use storage::{FailureKind, LogOptions, OpenAs};
use wire::types::{LeaderEpoch, Offset, TimestampMs, TopicPartition};

async fn pass(seconds: u64) {
    let never = std::future::pending::<()>();
    let _ = platform::task::timeout(Duration::from_secs(seconds), never).await;
}

#[test]
fn segments_roll_by_size_time_and_on_demand() {
    simulate(async {
        let world = World::new();
        let timed = LogOptions {
            segment_ms: Some(1000),
            ..options()
        };
        let log = world.open(timed).await;
        log.append(&batch_at(0, 1, 10, NOW_MS), EPOCH, NOW_MS)
            .unwrap();
        log.append(&batch_at(1, 1, 10, NOW_MS + 1000), EPOCH, NOW_MS)
            .unwrap();
        let later = NOW_MS + 1_000_000;
        log.append(&batch_at(2, 1, 10, NOW_MS + 1000), EPOCH, later)
            .unwrap();
        assert_eq!(log.segment_count(), 1, "old records come late: no reason");
        log.append(&batch_at(3, 1, 10, NOW_MS + 1001), EPOCH, NOW_MS)
            .unwrap();
        assert_eq!(log.segment_count(), 2);
        log.roll().await.unwrap();
        log.roll().await.unwrap();
        assert_eq!(log.segment_count(), 3, "an empty segment is not rolled");
        for _ in 0..50 {
            produce(&log, 1, 2000).await;
        }
        assert!(log.segment_count() >= 4, "by size");
        assert_holds(&log, 0, 54).await;
        pass(1).await;
        let logs: Vec<_> = world
            .names()
            .into_iter()
            .filter(|name| name.ends_with(".log"))
            .collect();
        assert_eq!(logs.len(), log.segment_count());
        assert_eq!(logs[1], "00000000000000000003.log");
    });
}

#[test]
fn retention_by_size_keeps_the_newest_segments() {
    simulate(async {
        let world = World::new();
        let bounded = LogOptions {
            retention_bytes: Some(150 << 10),
            ..options()
        };
        let log = world.open(bounded).await;
        for _ in 0..120 {
            produce(&log, 1, 3000).await;
        }
        assert_eq!(
            log.retain(NOW_MS).await.unwrap(),
            0,
            "nothing above the high watermark goes"
        );
        let kept = log.tiers().kept().await;
        assert!(
            kept.iter()
                .all(|(_, why)| *why == RetentionReason::Unsettled)
        );
        log.set_high_watermark(log.log_end_offset());
        let kept = log.tiers().kept().await;
        let deleted = log.retain(NOW_MS).await.unwrap();
        assert!(deleted > 0);
        // It was said before.
        assert!(
            kept[..deleted]
                .iter()
                .all(|(_, why)| *why == RetentionReason::Due)
        );
        let within = |why: &RetentionReason| matches!(why, RetentionReason::Within(_));
        assert!(kept[deleted..].iter().all(|(_, why)| within(why)));
        assert!(log.size_bytes() >= 150 << 10 && log.size_bytes() < 220 << 10);
        let start = log.log_start_offset();
        assert!(start > Offset(0));
        assert_holds(&log, start.0, 120).await;
        let below = log
            .read(Offset(0), Offset(120), 100, true)
            .await
            .unwrap_err();
        assert_eq!(below.kind(), FailureKind::Invalid);
        assert!(
            world
                .names()
                .contains(&"00000000000000000000.log.deleted".to_owned())
        );
        pass(61).await;
        assert!(world.names().iter().all(|name| !name.ends_with(".deleted")));
    });
}

#[test]
fn retention_by_time_takes_the_active_segment_too_and_offsets_go_on() {
    simulate(async {
        let world = World::new();
        let aged = LogOptions {
            retention_ms: Some(10_000),
            ..options()
        };
        let log = world.open(aged.clone()).await;
        for _ in 0..40 {
            produce(&log, 1, 3000).await;
        }
        log.set_high_watermark(Offset(40));
        assert_eq!(log.retain(NOW_MS + 9000).await.unwrap(), 0);
        assert!(log.retain(NOW_MS + 11_000).await.unwrap() > 1);
        assert_eq!(log.log_start_offset(), Offset(40));
        assert_eq!(
            log.retain(NOW_MS + 99_000).await.unwrap(),
            0,
            "nothing is left to delete"
        );
        for seed in 0..5 {
            let next = world.successor(world.disk().crash(seed));
            let log = next.open(aged.clone()).await;
            assert_eq!(
                log.log_end_offset(),
                Offset(40),
                "offsets are not given twice"
            );
            produce(&log, 1, 10).await;
            assert_holds(&log, 40, 41).await;
        }
    });
}

#[test]
fn a_reader_under_way_keeps_a_deleted_segment() {
    simulate(async {
        let world = World::new();
        let log = world.open(options()).await;
        for _ in 0..40 {
            produce(&log, 1, 3000).await;
        }
        log.set_high_watermark(Offset(40));
        let read = log.read(Offset(0), Offset(40), 10_000, true).await.unwrap();
        log.set_log_start(Offset(39)).unwrap();
        assert!(log.retain(NOW_MS).await.unwrap() > 0);
        pass(100).await;
        assert_eq!(decode(&read.concat().into())[0], (0, 0));
        assert_eq!(log.log_start_offset(), Offset(39));
        assert_holds(&log, 39, 40).await;
    });
}

#[test]
fn records_are_deleted_up_to_the_high_watermark_only() {
    simulate(async {
        let world = World::new();
        let log = world.open(options()).await;
        produce(&log, 5, 10).await;
        produce(&log, 5, 10).await;
        log.set_high_watermark(Offset(5));
        assert!(log.set_log_start(Offset(6)).is_err());
        log.set_log_start(Offset(3)).unwrap();
        assert_eq!(log.log_start_offset(), Offset(3));
        assert!(log.read(Offset(2), Offset(5), 10, true).await.is_err());
        assert_holds(&log, 3, 5).await;
        log.close().await.unwrap();
        let next = world.successor(world.disk().crash(1));
        let log = next.try_open(options(), true, 10, 3).await.unwrap();
        assert_eq!(log.log_start_offset(), Offset(3));
    });
}

#[test]
fn a_truncated_log_ends_where_it_was_cut_for_good() {
    simulate(async {
        for cut in [0_i64, 1, 2, 15, 16, 31, 55, 79, 80] {
            let world = World::new();
            let log = world.open(options()).await;
            for _ in 0..40 {
                produce(&log, 2, 1500).await;
            }
            log.truncate_to(Offset(cut)).await.unwrap();
            let end = cut - cut % 2;
            assert_eq!(log.log_end_offset(), Offset(end), "cut at {cut}");
            assert_eq!(log.durable_offset(), Offset(end));
            assert_holds(&log, 0, end).await;
            // Shorter batches now, so that what was cut would show behind them.
            for _ in 0..5 {
                produce(&log, 1, 700).await;
            }
            assert_holds(&log, 0, end + 5).await;
            let crashed = world.successor(world.disk().crash(4));
            let log = crashed.open(options()).await;
            assert_eq!(log.log_end_offset(), Offset(end + 5));
            assert_holds(&log, 0, end + 5).await;
        }
    });
}

#[test]
fn truncation_forgets_epochs_and_producers_past_the_cut() {
    simulate(async {
        let world = World::new();
        let log = world.open(options()).await;
        log.append(&produced(5, 0, 0, 10), EPOCH, NOW_MS).unwrap();
        log.flush().await.unwrap();
        let before = log.producers();
        let second = storage::Stamp {
            leader_epoch: LeaderEpoch(2),
            ..EPOCH
        };
        log.append(&produced(5, 10, 10, 10), second, NOW_MS)
            .unwrap();
        log.append(&produced(6, 0, 20, 10), second, NOW_MS).unwrap();
        assert_eq!(log.epoch_end(LeaderEpoch(1)), (LeaderEpoch(1), Offset(10)));
        log.truncate_to(Offset(10)).await.unwrap();
        assert_eq!(log.latest_epoch(), Some(LeaderEpoch(1)));
        assert_eq!(log.epoch_end(LeaderEpoch(1)), (LeaderEpoch(1), Offset(10)));
        assert_eq!(log.epoch_end(LeaderEpoch(2)), (LeaderEpoch(-1), Offset(-1)));
        assert_eq!(log.producers(), before);
    });
}

#[test]
fn a_log_can_begin_anew_elsewhere() {
    simulate(async {
        let world = World::new();
        let log = world.open(options()).await;
        for _ in 0..40 {
            produce(&log, 1, 3000).await;
        }
        log.truncate_fully_and_start_at(Offset(1000)).await.unwrap();
        assert_eq!(
            (log.log_start_offset(), log.log_end_offset()),
            (Offset(1000), Offset(1000))
        );
        produce(&log, 3, 100).await;
        assert_holds(&log, 1000, 1003).await;
        let next = world.successor(world.disk().crash(3));
        let log = next.open(options()).await;
        assert_eq!(
            (log.log_start_offset(), log.log_end_offset()),
            (Offset(1000), Offset(1003))
        );
    });
}

#[test]
fn a_deleted_log_is_gone_at_once_and_its_bytes_later() {
    simulate(async {
        let world = World::new();
        let log = world.open(options()).await;
        produce(&log, 3, 100).await;
        log.delete().await.unwrap();
        assert_eq!(
            log.append(&batch(0, 1, 1), EPOCH, 0).unwrap_err().kind(),
            FailureKind::Closed
        );
        assert_eq!(
            log.read(Offset(0), Offset(3), 1, true)
                .await
                .unwrap_err()
                .kind(),
            FailureKind::Closed
        );
        let folders = async || {
            let entries = world.disk().list(Path::new(DIR)).await.unwrap();
            entries
                .into_iter()
                .map(|entry| entry.name)
                .collect::<Vec<_>>()
        };
        let left = folders().await;
        assert!(
            left.len() == 1 && left[0].starts_with("orders-0.") && left[0].ends_with("-delete")
        );
        let again = world.open(options()).await;
        assert_eq!(again.log_end_offset(), Offset(0));
        pass(61).await;
        assert_eq!(folders().await, ["orders-0"]);
        again.delete().await.unwrap();
        world.store.remove_leftovers(Path::new(DIR)).await.unwrap();
        assert!(folders().await.is_empty());
    });
}

/// Each with a sync of its own, ten thousand take a minute.
#[test]
fn logs_that_are_deleted_at_once_share_the_syncs_of_their_directory_and_do_not_come_back() {
    const LOGS: i32 = 200;
    simulate(async {
        let world = World::new();
        let mut logs = Vec::new();
        for index in 0..LOGS {
            let partition = TopicPartition {
                topic: Arc::from("many"),
                partition: index,
            };
            let how = OpenAs {
                clean: false,
                recovery_point: Offset(0),
                log_start: Offset(0),
                compacted: None,
            };
            let log = world
                .store
                .open_log(Path::new(DIR), partition, topic_id(), options(), how)
                .await;
            logs.push(log.unwrap());
        }
        let before = world.disk().operations();
        let deleted = logs
            .into_iter()
            .map(|log| spawn(async move { log.delete().await }));
        for deleted in deleted.collect::<Vec<_>>() {
            deleted.await.unwrap().unwrap();
        }
        let operations = world.disk().operations() - before;
        let renames = u64::try_from(LOGS).unwrap();
        assert!(
            operations <= renames + renames / 4,
            "{operations} operations"
        );
        // What the log has deleted stays deleted, whenever the power goes.
        let disk = world.disk().crash(3);
        let next = world.successor(disk);
        let left = next.disk().list(Path::new(DIR)).await.unwrap();
        assert_eq!(left.len(), usize::try_from(LOGS).unwrap());
        assert!(left.iter().all(|entry| entry.name.ends_with("-delete")));
    });
}

#[test]
fn a_start_does_not_wait_for_the_folders_of_thousands_of_deleted_logs() {
    simulate(async {
        let world = World::new();
        for at in 0..3000 {
            let name = format!("gone-{at}.{at:032x}-delete/00000000000000000000.log");
            let file = Path::new(DIR).join(name);
            world.disk().put(&file, b"x").unwrap();
        }
        let before = world.disk().operations();
        world.store.remove_leftovers(Path::new(DIR)).await.unwrap();
        let awaited = world.disk().operations() - before;
        assert!(awaited < 500, "{awaited}");
        pass(1).await;
        let left = world.disk().list(Path::new(DIR)).await.unwrap();
        assert!(left.is_empty(), "{}", left.len());
    });
}

#[test]
fn the_folder_of_a_deleted_log_that_cannot_be_removed_keeps_no_start_from_going_on() {
    simulate(async {
        let world = World::new();
        let folder = |at: i32| Path::new(DIR).join(format!("gone-{at}.{at:032x}-delete"));
        for at in 0..3 {
            let file = folder(at).join("00000000000000000000.log");
            world.disk().put(&file, b"x").unwrap();
        }
        let denied = Effect::Fail(std::io::ErrorKind::PermissionDenied);
        let mut fault = Fault::at_kind(0, OpKind::RemoveDir, denied);
        fault.path_contains = Some("gone-1.".to_owned());
        world.disk().inject(fault);
        world.store.remove_leftovers(Path::new(DIR)).await.unwrap();
        let left = world.disk().list(Path::new(DIR)).await.unwrap();
        assert!(left.iter().all(|entry| entry.name.starts_with("gone-1.")));
        world.store.remove_leftovers(Path::new(DIR)).await.unwrap();
        let left = world.disk().list(Path::new(DIR)).await.unwrap();
        assert!(left.is_empty(), "the next start has removed it");
    });
}

#[test]
fn offsets_are_found_by_timestamp() {
    simulate(async {
        let world = World::new();
        let log = world.open(options()).await;
        for at in 0..200_i64 {
            // Batches of three records a second apart; every tenth batch is late by a minute.
            let late = if at % 10 == 9 { 60_000 } else { 0 };
            let batch = batch_at(3 * at, 3, 800, 1_000_000 + 1000 * at - late);
            log.append(&batch, EPOCH, NOW_MS).unwrap();
        }
        log.flush().await.unwrap();
        let end = log.log_end_offset();
        let find = async |timestamp| {
            let found = log
                .offset_for_timestamp(TimestampMs(timestamp), end)
                .await
                .unwrap();
            found.map(|found| (found.offset.0, found.timestamp.0))
        };
        assert_eq!(find(0).await, Some((0, 1_000_000)));
        assert_eq!(find(1_000_001).await, Some((1, 1_000_001)));
        assert_eq!(find(1_100_000).await, Some((300, 1_100_000)));
        assert_eq!(
            find(1_099_001).await,
            Some((300, 1_100_000)),
            "the late batch comes too early"
        );
        assert_eq!(find(1_198_002).await, Some((596, 1_198_002)));
        assert_eq!(find(1_198_003).await, None);
        let newest = log.max_timestamp(end).await.unwrap().unwrap();
        assert_eq!(
            (newest.offset.0, newest.leader_epoch),
            (596, LeaderEpoch(1))
        );
        assert_eq!(
            log.offset_for_timestamp(TimestampMs(1_100_000), Offset(300))
                .await
                .unwrap(),
            None
        );
    });
}

#[test]
fn offsets_are_found_by_timestamp_where_kafka_left_the_time_index_empty() {
    simulate(async {
        let world = World::new();
        let log = world.open(options()).await;
        log.append(&batch_at(0, 5, 100, 1_000_000), EPOCH, NOW_MS)
            .unwrap();
        log.roll().await.unwrap();
        log.append(&batch_at(5, 5, 100, 2_000_000), EPOCH, NOW_MS)
            .unwrap();
        log.close().await.unwrap();
        let first = format!("{FOLDER}/{:020}.timeindex", 0);
        let last = format!("{FOLDER}/{:020}.timeindex", 5);
        let bytes = |file: &str| world.disk().contents(Path::new(file)).unwrap();
        assert_eq!(
            bytes(&last).len(),
            12,
            "a clean stop says the largest timestamp"
        );
        world.disk().put(Path::new(&first), &[]).unwrap();
        let log = world.try_open(options(), true, 10, 0).await.unwrap();
        let found = log.offset_for_timestamp(TimestampMs(1), Offset(10)).await;
        assert_eq!(found.unwrap().map(|found| found.offset), Some(Offset(0)));
    });
}

#[test]
fn epochs_begin_when_they_are_told_and_survive() {
    simulate(async {
        let world = World::new();
        let log = world.open(options()).await;
        produce(&log, 5, 10).await;
        log.start_epoch(LeaderEpoch(4));
        assert_eq!(log.epoch_end(LeaderEpoch(1)), (LeaderEpoch(1), Offset(5)));
        assert_eq!(log.epoch_end(LeaderEpoch(3)), (LeaderEpoch(1), Offset(5)));
        assert_eq!(log.epoch_end(LeaderEpoch(4)), (LeaderEpoch(4), Offset(5)));
        let stamp = storage::Stamp {
            leader_epoch: LeaderEpoch(4),
            ..EPOCH
        };
        log.append(&batch(5, 5, 10), stamp, NOW_MS).unwrap();
        log.flush().await.unwrap();
        assert_eq!(
            log.append(&batch(0, 1, 1), EPOCH, 0).unwrap_err().kind(),
            FailureKind::Invalid
        );
        let next = world.successor(world.disk().crash(1));
        let log = next.open(options()).await;
        assert_eq!(log.epoch_at(Offset(4)), Some(LeaderEpoch(1)));
        assert_eq!(log.epoch_at(Offset(5)), Some(LeaderEpoch(4)));
    });
}

/// Appends and gives way, so that part of it is written and part of that durable; then the power
/// goes.
async fn crashed_while_appending(world: &World, log: &SimLog, seed: u64) -> (World, i64) {
    for turn in 0..40 + seed {
        append(log, 1, 1500);
        for _ in 0..turn % 5 {
            platform::task::yield_now().await;
        }
    }
    let durable = log.durable_offset().0;
    (world.successor(world.disk().crash(seed)), durable)
}

#[test]
fn a_checkpoint_from_before_a_truncation_vouches_for_nothing_that_came_after() {
    let small = || LogOptions {
        segment_bytes: 8 << 10,
        ..options()
    };
    for seed in 0..40 {
        simulate(async {
            let world = World::new();
            let log = world.open(small()).await;
            for _ in 0..60 {
                produce(&log, 1, 1500).await;
            }
            log.save().await.unwrap();
            let said = log.points().recovery_point.0;
            log.truncate_to(Offset(10)).await.unwrap();
            let (next, durable) = crashed_while_appending(&world, &log, seed).await;
            let log = next.try_open(small(), false, said, 0).await.unwrap();
            let end = log.log_end_offset().0;
            assert!(end >= durable, "{durable} was durable, {end} is there");
            assert_holds(&log, 0, end).await;
            // The checkpoint is not written yet.
            let (next, durable) = crashed_while_appending(&next, &log, seed).await;
            let log = next.try_open(small(), false, said, 0).await.unwrap();
            let end = log.log_end_offset().0;
            assert!(end >= durable, "{durable} was durable, {end} is there");
            assert_holds(&log, 0, end).await;
        });
    }
}

#[test]
fn a_log_that_is_shorter_than_its_checkpoint_says_is_checked_until_that_is_written_again() {
    let small = || LogOptions {
        segment_bytes: 8 << 10,
        ..options()
    };
    for seed in 0..40 {
        simulate(async {
            let world = World::new();
            let log = world.try_open(small(), false, 200, 0).await.unwrap();
            let (next, durable) = crashed_while_appending(&world, &log, seed).await;
            let log = next.try_open(small(), false, 200, 0).await.unwrap();
            let end = log.log_end_offset().0;
            assert!(end >= durable, "{durable} was durable, {end} is there");
            assert_holds(&log, 0, end).await;
            // The checkpoint is written: from now on it counts, also after a crash.
            log.save().await.unwrap();
            let points = next.store.points(Path::new(DIR));
            next.store.checkpointed(&points, true).await;
            let limits = Path::new(FOLDER).join("checkpoint-limits");
            assert!(next.disk().contents(&limits).is_err());
            let said = points.first().map_or(0, |points| points.recovery_point.0);
            assert_eq!(said, end);
            let next = next.successor(next.disk().crash(seed));
            let log = next.try_open(small(), false, said, 0).await.unwrap();
            assert_eq!(log.points().recovery_point, Offset(end));
        });
    }
}

#[test]
fn records_after_a_cut_within_the_batch_that_the_log_started_in_are_there_after_a_crash() {
    simulate(async {
        let world = World::new();
        let log = world.open(options()).await;
        for _ in 0..10 {
            produce(&log, 4, 100).await;
        }
        log.set_high_watermark(log.log_end_offset());
        log.set_log_start(Offset(18)).unwrap();
        let said = log.points();
        log.truncate_to(Offset(18)).await.unwrap();
        assert_eq!(
            (log.log_start_offset(), log.log_end_offset()),
            (Offset(16), Offset(16))
        );
        produce(&log, 5, 100).await;
        let next = world.successor(world.disk().crash(1));
        let log = next
            .try_open(options(), false, said.recovery_point.0, said.log_start.0)
            .await
            .unwrap();
        assert_eq!(log.log_start_offset(), Offset(16));
        assert_holds(&log, 16, 21).await;
    });
}

#[test]
fn a_log_whose_cut_is_given_up_half_way_takes_nothing_more_and_ends_where_a_start_finds_it() {
    let small = || LogOptions {
        segment_bytes: 8 << 10,
        ..options()
    };
    let mut has_ended = false;
    for polls in 0..2000 {
        has_ended = simulate(async {
            let world = World::new();
            let log = world.open(small()).await;
            for _ in 0..24 {
                produce(&log, 1, 1500).await;
            }
            let has_ended = polled(log.truncate_to(Offset(7)), polls).await;
            // What a loaded segment meets, a move, a clean stop: no panic, and no bytes that were
            // cut.
            let _ = log.save().await;
            let _ = log.roll().await;
            let _ = log.close().await;
            let next = world.successor(world.disk().crash(polls as u64));
            let log = next.open(small()).await;
            let end = log.log_end_offset().0;
            assert!((7..=24).contains(&end), "{polls}: {end}");
            assert_holds(&log, 0, end).await;
            has_ended
        });
        if has_ended {
            break;
        }
    }
    assert!(has_ended, "in so many polls it is cut");
}
