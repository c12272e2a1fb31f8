//! What is there after a stop, a kill, or a loss of power, and how much is read to find out.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use crate::world::*;
use platform::Platform;
use platform::disk::Disk;
use platform::sim::SimPlatform;
use storage::{FailureKind, LogOptions, StoreOptions};
use wire::types::{LeaderEpoch, Offset};

fn path(name: &str) -> std::path::PathBuf {
    Path::new(FOLDER).join(name)
}

#[test]
fn after_a_clean_stop_everything_is_there_and_little_is_read() {
    simulate(async {
        let world = World::new();
        let log = world.open(options()).await;
        for round in 0..50 {
            produce(&log, 1 + round % 5, 2000).await;
        }
        let end = log.log_end_offset();
        log.close().await.unwrap();
        assert_eq!(append_error(&log), FailureKind::Closed);
        let data: u64 = log.size_bytes();

        let next = world.successor(world.disk().crash(1));
        let log = next.try_open(options(), true, end.0, 0).await.unwrap();
        assert_eq!((log.log_end_offset(), log.durable_offset()), (end, end));
        assert_eq!(log.size_bytes(), data);
        assert_holds(&log, 0, end.0).await;
        produce(&log, 3, 2000).await;
        assert_holds(&log, 0, end.0 + 3).await;
    });
}

#[test]
fn clean_stops_leave_files_of_exact_length_and_nothing_else() {
    simulate(async {
        let world = World::new();
        let log = world.open(options()).await;
        for _ in 0..50 {
            produce(&log, 1, 2000).await;
        }
        log.close().await.unwrap();
        let mut bytes = 0;
        for name in world.names().iter().filter(|name| name.ends_with(".log")) {
            let file = world.disk().contents(&path(name)).unwrap();
            bytes += file.len() as u64;
            assert!(
                !decode(&file.into()).is_empty(),
                "{name} is batches to its end"
            );
        }
        assert_eq!(bytes, log.size_bytes());
        let entries = world.disk().list(Path::new(FOLDER)).await.unwrap();
        let left: Vec<_> = entries
            .iter()
            .filter(|entry| entry.name.ends_with("deleted"))
            .collect();
        assert!(left.is_empty(), "{left:?}");
    });
}

fn append_error(log: &SimLog) -> FailureKind {
    log.append(&batch(0, 1, 1), EPOCH, NOW_MS)
        .unwrap_err()
        .kind()
}

#[test]
fn after_a_kill_the_log_goes_on_where_it_was() {
    simulate(async {
        let world = World::new();
        let log = world.open(options()).await;
        for _ in 0..70 {
            produce(&log, 2, 1000).await;
        }
        for seed in 0..10 {
            let next = world.successor(world.disk().crash(seed));
            let log = next.open(options()).await;
            assert_eq!(log.log_end_offset(), Offset(140));
            assert_holds(&log, 0, 140).await;
            produce(&log, 2, 1000).await;
            assert_eq!(log.latest_epoch(), Some(LeaderEpoch(1)));
        }
    });
}

#[test]
fn only_what_lies_past_the_recovery_point_is_read_after_a_kill() {
    simulate(async {
        let store = StoreOptions {
            save_interval_bytes: 40_000,
            ..store_options()
        };
        let world = World::on(SimPlatform::new(1), store);
        let options = LogOptions {
            segment_bytes: 1 << 20,
            ..options()
        };
        let log = world.open(options.clone()).await;
        for _ in 0..200 {
            produce(&log, 1, 2000).await;
        }
        let points = world.store.points(Path::new(DIR));
        let recovery_point = points[0].recovery_point.0;
        assert!(
            recovery_point > 150,
            "saved in the background: {recovery_point}"
        );
        let disk = world.disk().crash(1);
        // What is trusted is not looked at, so damage there is met by its readers only.
        disk.flip(&path("00000000000000000000.log"), 5000, 1)
            .unwrap();
        let next = world.successor(disk);
        let log = next
            .try_open(options, false, recovery_point, 0)
            .await
            .unwrap();
        assert_eq!(log.log_end_offset(), Offset(200));
        assert_holds(&log, 3, 200).await;
        let error = log
            .read(Offset(2), Offset(200), 1 << 20, true)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), FailureKind::Corrupt);
    });
}

#[test]
fn the_log_ends_at_the_first_batch_that_is_not_valid() {
    simulate(async {
        let world = World::new();
        let log = world.open(options()).await;
        for _ in 0..10 {
            produce(&log, 1, 3000).await;
        }
        let disk = world.disk().crash(1);
        let size = batch(0, 1, 3000).len() as u64;
        disk.flip(&path("00000000000000000000.log"), 7 * size + 1000, 3)
            .unwrap();
        let next = world.successor(disk);
        let log = next.open(options()).await;
        assert_eq!(log.log_end_offset(), Offset(7));
        assert_eq!(
            next.disk()
                .contents(&path("00000000000000000000.log"))
                .unwrap()
                .len() as u64,
            7 * size
        );
        produce(&log, 5, 100).await;
        let again = next.successor(next.disk().crash(5));
        let log = again.open(options()).await;
        assert_holds(&log, 0, 12).await;
    });
}

#[test]
fn whatever_lies_behind_the_end_is_never_taken_for_a_batch() {
    simulate(async {
        let good = {
            let world = World::new();
            let log = world.open(options()).await;
            produce(&log, 2, 500).await;
            produce(&log, 2, 500).await;
            log.close().await.unwrap();
            world
                .disk()
                .contents(&path("00000000000000000000.log"))
                .unwrap()
        };
        let half = good.len() / 2;
        let behind: [&[u8]; 6] = [
            &[0; 5000],
            &[0xff; 5000],
            &good[..half],
            &good[half..],
            &good[half..good.len() - 1],
            &[
                0, 0, 0, 0, 0, 0, 0, 4, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1, 2,
            ],
        ];
        for garbage in behind {
            let world = World::new();
            let mut file = good.clone();
            file.extend_from_slice(garbage);
            world
                .disk()
                .put(&path("00000000000000000000.log"), &file)
                .unwrap();
            let log = world.open(options()).await;
            assert_eq!(log.log_end_offset(), Offset(4));
            assert_holds(&log, 0, 4).await;
        }
    });
}

#[test]
fn missing_and_damaged_indexes_are_built_anew() {
    simulate(async {
        let world = World::new();
        let log = world.open(options()).await;
        for _ in 0..60 {
            produce(&log, 1, 3000).await;
        }
        let end = log.log_end_offset().0;
        log.close().await.unwrap();
        assert!(log.segment_count() >= 3);
        for damage in 0..3 {
            let disk = world.disk().kill(damage);
            for name in world.names() {
                let is_index = name.ends_with(".index") || name.ends_with(".timeindex");
                if is_index && damage == 0 {
                    disk.remove_file(&path(&name)).await.unwrap();
                } else if is_index && damage == 1 {
                    disk.put(&path(&name), &[7; 96]).unwrap();
                } else if is_index {
                    disk.put(&path(&name), &[7; 5]).unwrap();
                }
            }
            let next = world.successor(disk);
            for clean in [true, false] {
                let log = next.try_open(options(), clean, end, 0).await.unwrap();
                assert_holds(&log, 0, end).await;
                for offset in (0..end).step_by(7) {
                    assert_holds(&log, offset, offset + 1).await;
                }
            }
        }
    });
}

#[test]
fn an_index_that_points_between_batches_is_built_anew_when_it_is_met() {
    simulate(async {
        let world = World::new();
        let log = world.open(options()).await;
        for _ in 0..60 {
            produce(&log, 1, 3000).await;
        }
        log.close().await.unwrap();
        let disk = world.disk().kill(1);
        let index = path("00000000000000000000.index");
        let mut bytes = disk.contents(&index).unwrap();
        for entry in bytes.chunks_mut(8) {
            entry[7] ^= 1;
        }
        disk.put(&index, &bytes).unwrap();
        let next = world.successor(disk);
        let log = next.try_open(options(), true, 60, 0).await.unwrap();
        for offset in (0..60).rev() {
            assert_holds(&log, offset, offset + 1).await;
        }
    });
}

#[test]
fn foreign_files_stay_and_leftovers_go() {
    simulate(async {
        let world = World::new();
        let keep = ["notes.txt", "00000000000000000000.log.bak", "lost.deleted"];
        let remove = [
            "00000000000000000000.log.deleted",
            "00000000000000000003.index.cleaned",
            "next.log.deleted",
            "leader-epoch-checkpoint.tmp",
            "00000000000000000003.timeindex",
        ];
        for name in keep.iter().chain(&remove) {
            world.disk().put(&path(name), b"something").unwrap();
        }
        let log = world.open(options()).await;
        produce(&log, 1, 10).await;
        for name in keep {
            assert_eq!(world.disk().contents(&path(name)).unwrap(), b"something");
        }
        for name in remove {
            assert!(world.disk().contents(&path(name)).is_err(), "{name}");
        }
    });
}

#[test]
fn a_compaction_that_was_finished_is_completed() {
    simulate(async {
        let world = World::new();
        let log = world.open(options()).await;
        for _ in 0..60 {
            produce(&log, 1, 3000).await;
        }
        log.close().await.unwrap();
        let disk = world.disk().kill(1);
        let names = world.names();
        let logs: Vec<_> = names.iter().filter(|name| name.ends_with(".log")).collect();
        // The first two segments became one, of the first one's first five and the second one's
        // last records.
        let first = disk.contents(&path(logs[0])).unwrap();
        let second = disk.contents(&path(logs[1])).unwrap();
        let (whole, small) = (batch(0, 1, 3000).len(), batch(30, 1, 3000).len());
        let cleaned = [&first[..2 * whole], &second[second.len() - small..]].concat();
        disk.put(&path(&format!("{}.swap", logs[0])), &cleaned)
            .unwrap();
        let next = world.successor(disk);
        let compacted = LogOptions {
            compact: true,
            delete: false,
            ..options()
        };
        let log = next.try_open(compacted, false, 60, 0).await.unwrap();
        let found = names_between(&log, 0, 60, 1 << 20).await;
        assert_eq!(found[..2], [(0, 0), (1, 1)]);
        assert_eq!(found[2].0, found[2].1);
        assert!(found[2].0 > 30, "the last one of the second segment");
        assert_eq!(found.last(), Some(&(59, 59)));
    });
}

#[test]
fn the_directory_of_another_topic_is_refused() {
    simulate(async {
        let world = World::new();
        world.open(options()).await.close().await.unwrap();
        let other = wire::types::TopicId(wire::types::Uuid::from_u128(7));
        let how = storage::OpenAs {
            clean: true,
            recovery_point: Offset(0),
            log_start: Offset(0),
            compacted: None,
        };
        let opened = world
            .store
            .open_log(Path::new(DIR), partition(), other, options(), how)
            .await;
        let text = opened.err().unwrap().to_string();
        assert!(
            text.contains("orders-0") && text.contains("belongs to topic id"),
            "{text}"
        );
    });
}

#[test]
fn producers_are_known_after_any_stop() {
    simulate(async {
        let store = StoreOptions {
            save_interval_bytes: 10_000,
            ..store_options()
        };
        let world = World::on(SimPlatform::new(1), store);
        let log = world.open(options()).await;
        for round in 0..100 {
            log.append(&produced(5, round, i64::from(round), 1), EPOCH, NOW_MS)
                .unwrap();
            log.append(&produced(6, 3 * round, 0, 3), EPOCH, NOW_MS)
                .unwrap();
            log.flush().await.unwrap();
        }
        let before = log.producers();
        let recovery_point = world.store.points(Path::new(DIR))[0].recovery_point.0;
        for (seed, recovery_point) in [(1, 0), (2, recovery_point), (3, 17)] {
            let next = world.successor(world.disk().crash(seed));
            let log = next
                .try_open(options(), false, recovery_point, 0)
                .await
                .unwrap();
            assert_eq!(log.producers(), before);
            let end = log.log_end_offset().0;
            log.close().await.unwrap();
            let next = next.successor(next.disk().crash(seed));
            let log = next.try_open(options(), true, end, 0).await.unwrap();
            assert_eq!(log.producers(), before);
        }
    });
}

#[test]
fn a_roll_that_a_cut_overtakes_leaves_nothing_behind() {
    for turns in 0..60 {
        simulate(async {
            let world = World::new();
            let log = world.open(options()).await;
            produce(&log, 4, 100).await;
            let other = Rc::clone(&log);
            let rolled = platform::task::spawn(async move {
                for _ in 0..turns {
                    platform::task::yield_now().await;
                }
                other.roll().await
            });
            log.truncate_to(Offset(0)).await.unwrap();
            rolled.await.unwrap().unwrap();
            log.close().await.unwrap();
            let next = world.successor(world.disk().crash(1));
            let log = next.try_open(options(), true, 0, 0).await.unwrap();
            assert_eq!(
                log.log_end_offset(),
                Offset(0),
                "rolled after {turns} turns"
            );
        });
    }
}

#[test]
fn a_deleted_segment_that_has_stayed_takes_no_record_with_it() {
    for clean in [true, false] {
        simulate(async {
            let world = World::new();
            let small = LogOptions {
                segment_bytes: 4 << 10,
                file_delete_delay_ms: 0,
                ..options()
            };
            let log = world.open(small.clone()).await;
            for _ in 0..20 {
                produce(&log, 1, 1000).await;
            }
            log.set_high_watermark(Offset(20));
            let first = Path::new(FOLDER).join("00000000000000000000.log");
            let stays = world.disk().contents(&first).unwrap();
            log.set_log_start(Offset(9)).unwrap();
            assert_eq!(log.retain(NOW_MS).await.unwrap(), 3);
            log.close().await.unwrap();
            let disk = world.disk().crash(1);
            disk.put(&first, &stays).unwrap();
            // The recovery point is where a segment begins: the one before it is looked at, too.
            let next = world.successor(disk);
            let log = next.try_open(small, clean, 9, 9).await.unwrap();
            assert_eq!(log.log_start_offset(), Offset(9));
            assert_eq!(log.log_end_offset(), Offset(20));
            assert_holds(&log, 9, 20).await;
            assert_eq!(log.retain(NOW_MS).await.unwrap(), 1, "it goes now");
            assert_holds(&log, 9, 20).await;
        });
    }
}

#[test]
fn a_segment_that_is_cut_while_it_is_opened_for_a_reader_takes_appends() {
    for after in 400..1200 {
        simulate(async {
            let world = World::on(
                SimPlatform::new(after),
                StoreOptions {
                    read_ahead_bytes_max: 0,
                    ..store_options()
                },
            );
            let small = LogOptions {
                segment_bytes: 4 << 10,
                ..options()
            };
            let log = world.open(small.clone()).await;
            for _ in 0..10 {
                produce(&log, 1, 1000).await;
            }
            log.close().await.unwrap();
            let next = world.successor(world.disk().crash(1));
            let log = next.try_open(small, true, 10, 0).await.unwrap();
            let (min, max) = (Duration::from_micros(100), Duration::from_millis(5));
            next.disk().set_latency(min, max);
            let reader = {
                let (log, clock) = (Rc::clone(&log), next.platform.clock().clone());
                platform::task::spawn(async move {
                    clock.sleep(Duration::from_micros(100 * after)).await;
                    let _ = log.read(Offset(4), Offset(5), 1 << 10, true).await;
                })
            };
            log.truncate_to(Offset(5)).await.unwrap();
            reader.await.unwrap();
            produce(&log, 1, 1000).await;
            assert!(log.failed().is_none(), "{after} {:?}", log.failed());
            assert_holds(&log, 0, 6).await;
        });
    }
}
