//! Producers of a partition: readers learn of aborted transactions, whatever became of the files
//! that list them, and snapshots of many producers are in proportion to their records.

use std::path::Path;
use std::rc::Rc;

use crate::world::*;
use bytes::Bytes;
use platform::Platform;
use platform::disk::Disk;
use platform::sim::SimPlatform;
use storage::log::producer_state::{Origin, ProducerCheck};
use storage::{LogOptions, Metrics, Store, StoreOptions};
use wire::batch::BatchHeader;
use wire::batch::builder::BatchBuilder;
use wire::types::{LeaderEpoch, Offset, ProducerId, TimestampMs};

fn draft(id: i64, sequence: i32) -> BatchBuilder {
    BatchBuilder::new(Offset(0), LeaderEpoch(-1))
        .transactional(true)
        .producer(ProducerId(id), 0, sequence)
}

fn in_transaction(id: i64, sequence: i32, first: i64) -> Bytes {
    filled(draft(id, sequence), first, 2, 1000, NOW_MS)
}

fn end(id: i64, commit: bool) -> Bytes {
    let mut marker = draft(id, -1).control(true);
    let (key, value) = ([0, 0, 0, u8::from(commit)], [0; 6]);
    marker.add(TimestampMs(NOW_MS), Some(&key), Some(&value), &[]);
    marker.finish().unwrap()
}

fn add(log: &SimLog, bytes: &Bytes) {
    log.append(bytes, EPOCH, NOW_MS).unwrap();
}

async fn aborted(log: &SimLog) -> Vec<(i64, i64, i64)> {
    let end = log.log_end_offset();
    let found = log.aborted_transactions(Offset(0), end).await.unwrap();
    let facts = found
        .iter()
        .map(|txn| (txn.producer_id.0, txn.first_offset.0, txn.last_offset.0));
    facts.collect()
}

#[test]
fn aborted_transactions_are_told_of_after_their_index_was_damaged_or_lost() {
    simulate(async {
        let world = World::new();
        let log = world.open(options()).await;
        for round in 0..4 {
            // One that spans segments, one that is committed, one within a segment.
            add(&log, &in_transaction(7, 2 * round, 0));
            log.roll().await.unwrap();
            add(&log, &in_transaction(8, 4 * round, 0));
            add(&log, &in_transaction(9, 2 * round, 0));
            add(&log, &end(7, false));
            add(&log, &in_transaction(8, 4 * round + 2, 0));
            add(&log, &end(8, true));
            log.roll().await.unwrap();
            add(&log, &end(9, false));
        }
        log.roll().await.unwrap();
        let expected = aborted(&log).await;
        assert_eq!(expected.len(), 8);
        log.close().await.unwrap();
        let listed = world.disk().list(Path::new(FOLDER)).await.unwrap();
        let names = |suffix: &str| {
            let found = listed.iter().map(|entry| entry.name.clone());
            let found = found.filter(|name| name.ends_with(suffix));
            found
                .map(|name| Path::new(FOLDER).join(name))
                .collect::<Vec<_>>()
        };
        let point = log.log_end_offset().0;
        for without_snapshots in [false, true] {
            for damage in [&b"x"[..], &[0; 33], &[255; 34]] {
                let disk = world.disk().kill(1);
                for file in names(".txnindex") {
                    disk.put(&file, damage).unwrap();
                }
                if without_snapshots {
                    for file in names(".snapshot") {
                        disk.put(&file, b"").unwrap();
                    }
                }
                let next = world.successor(disk);
                let log = next.try_open(options(), true, point, 0).await.unwrap();
                assert_eq!(
                    aborted(&log).await,
                    expected,
                    "{without_snapshots} {damage:?}"
                );
            }
            // Without any index.
            let disk = world.disk().kill(1);
            let next = world.successor(disk);
            for suffix in [".txnindex", ".index", ".timeindex"] {
                for file in names(suffix) {
                    next.disk().remove_file(&file).await.unwrap();
                }
            }
            let log = next.try_open(options(), true, point, 0).await.unwrap();
            assert_eq!(aborted(&log).await, expected, "{without_snapshots}");
        }
    });
}

#[test]
fn a_cut_keeps_what_was_aborted_before_it_while_another_segment_is_loaded() {
    simulate(async {
        for yields in 0..80 {
            let few = StoreOptions {
                open_segments_max: 1,
                ..store_options()
            };
            let world = World::on(SimPlatform::new(1), few);
            let log = world.open(options()).await;
            add(&log, &in_transaction(7, 0, 0));
            add(&log, &end(7, false));
            add(&log, &in_transaction(7, 2, 0));
            for _ in 0..3 {
                log.roll().await.unwrap();
                add(&log, &batch(0, 1, 1000));
            }
            log.save().await.unwrap();
            let cut = {
                let log = Rc::clone(&log);
                platform::task::spawn(async move { log.truncate_to(Offset(3)).await })
            };
            for _ in 0..yields {
                platform::task::yield_now().await;
            }
            // Its segment may be gone; if not, the first one is made to let go of its indexes.
            let read = log.read(Offset(5), Offset(6), 1, true).await;
            drop(read);
            cut.await.unwrap().unwrap();
            assert_eq!(log.log_end_offset(), Offset(3), "{yields}");
            assert_eq!(aborted(&log).await, [(7, 0, 2)], "{yields}");
        }
    });
}

#[test]
fn snapshots_of_many_producers_take_less_than_their_records() {
    simulate(async {
        let world = World::new();
        let small = LogOptions {
            segment_bytes: 8 << 10,
            ..options()
        };
        let log = world.open(small.clone()).await;
        for id in 0..3000 {
            log.append(&produced(id, 0, 0, 1), EPOCH, NOW_MS).unwrap();
            if id % 50 == 0 {
                log.flush().await.unwrap();
            }
        }
        log.save().await.unwrap();
        let listed = world.disk().list(Path::new(FOLDER)).await.unwrap();
        let sum = |suffix: &str| -> u64 {
            let found = listed.iter().filter(|entry| entry.name.ends_with(suffix));
            found.map(|entry| entry.len).sum()
        };
        assert!(sum(".snapshot") > 0);
        assert!(
            2 * sum(".snapshot") <= sum(".log"),
            "{} of {}",
            sum(".snapshot"),
            sum(".log")
        );
        // Nothing is forgotten by that.
        let next = world.successor(world.disk().crash(1));
        let log = next.open(small).await;
        assert_eq!(log.producers().len(), 3000);
    });
}

fn is_known(log: &SimLog, batch: &Bytes) -> bool {
    let header = BatchHeader::parse(batch).unwrap();
    let checked = log.check_producer(&header, Origin::Client);
    matches!(checked, Ok(ProducerCheck::Duplicate(_)))
}

#[test]
fn a_batch_that_is_sent_again_is_recognised_after_retention_deleted_it_and_the_power_went() {
    let expiring = LogOptions {
        retention_ms: Some(1000),
        ..options()
    };
    simulate(async {
        for count in [1, 5] {
            let world = World::new();
            let log = world.open(expiring.clone()).await;
            for id in 0..count {
                log.append(&produced(id, 0, id, 1), EPOCH, NOW_MS).unwrap();
            }
            log.flush().await.unwrap();
            log.set_high_watermark(log.log_end_offset());
            // All of it has expired: the log goes on in a new segment.
            assert_eq!(log.retain(NOW_MS + 5000).await.unwrap(), 1);
            assert_eq!(log.log_start_offset(), Offset(count));
            let next = world.successor(world.disk().crash(1));
            let log = next.open(expiring.clone()).await;
            for id in 0..count {
                assert!(is_known(&log, &produced(id, 0, id, 1)), "producer {id}");
            }
        }
    });
}

#[test]
fn producers_of_deleted_segments_are_known_wherever_the_power_goes_while_they_are_deleted() {
    // Segments so small that hardly a roll takes a snapshot.
    let small = || LogOptions {
        segment_bytes: 1500,
        retention_bytes: Some(3000),
        ..options()
    };
    let first = |id: i64| produced(id, 0, id, 1);
    for ended in 0..60 {
        simulate(async {
            let world = World::new();
            let log = world.open(small()).await;
            for id in 0..100 {
                log.append(&first(id), EPOCH, NOW_MS).unwrap();
                log.flush().await.unwrap();
            }
            // One that wrote first of all goes on.
            log.append(&produced(0, 1, 100, 1), EPOCH, NOW_MS).unwrap();
            log.flush().await.unwrap();
            log.set_high_watermark(log.log_end_offset());
            let until = world.disk().operations() + ended;
            let retained = Rc::clone(&log);
            let task = platform::task::spawn(async move { retained.retain(NOW_MS).await });
            while world.disk().operations() < until && !task.is_finished() {
                platform::task::yield_now().await;
            }
            let next = world.successor(world.disk().crash(ended));
            let log = next.open(small()).await;
            let known: Vec<_> = (1..100).filter(|id| is_known(&log, &first(*id))).collect();
            assert_eq!(known.len(), 99, "{ended} operations, {known:?}");
            assert!(is_known(&log, &produced(0, 1, 100, 1)));
        });
    }
}

#[test]
fn a_full_disk_deletes_the_segments_behind_which_the_producers_are_saved() {
    let small = || LogOptions {
        segment_bytes: 1500,
        retention_bytes: Some(3000),
        ..options()
    };
    simulate(async {
        let world = World::new();
        let log = world.open(small()).await;
        for id in 0..200 {
            log.append(&produced(id, 0, id, 1), EPOCH, NOW_MS).unwrap();
        }
        log.save().await.unwrap();
        log.set_high_watermark(log.log_end_offset());
        world.disk().set_capacity_bytes(Some(0));
        assert!(log.retain(NOW_MS).await.unwrap() > 0);
        let next = world.disk().crash(1);
        next.set_capacity_bytes(None);
        let log = world.successor(next).open(small()).await;
        assert!(log.log_start_offset() > Offset(0));
        assert_eq!(log.producers().len(), 200);
    });
}

#[test]
fn a_cut_that_does_not_find_all_producers_for_damage_says_so() {
    simulate(async {
        let metrics = Metrics::unregistered();
        let platform = SimPlatform::new(1);
        let store = Store::new(platform.clone(), store_options(), metrics.clone());
        let world = World { platform, store };
        let log = world.open(options()).await;
        for sequence in 0..6 {
            add(&log, &produced(7, sequence, 0, 1));
            if sequence % 2 == 1 {
                log.roll().await.unwrap();
            }
        }
        add(&log, &batch(0, 3, 100));
        log.save().await.unwrap();
        let entries = world.disk().list(Path::new(FOLDER)).await.unwrap();
        for entry in entries {
            if entry.name.ends_with(".snapshot") {
                let file = Path::new(FOLDER).join(&entry.name);
                world.disk().remove_file(&file).await.unwrap();
            }
        }
        log.truncate_to(Offset(6)).await.unwrap();
        assert_eq!(metrics.corruptions.get(), 0);
        // The length of the first batch of the second segment.
        add(&log, &batch(0, 3, 100));
        log.save().await.unwrap();
        let entries = world.disk().list(Path::new(FOLDER)).await.unwrap();
        for entry in entries {
            if entry.name.ends_with(".snapshot") {
                let file = Path::new(FOLDER).join(&entry.name);
                world.disk().remove_file(&file).await.unwrap();
            }
        }
        let file = Path::new(FOLDER).join(format!("{:020}.log", 2));
        world.disk().flip(&file, 8, 6).unwrap();
        log.truncate_to(Offset(6)).await.unwrap();
        assert_eq!(metrics.corruptions.get(), 1);
        assert_eq!(log.log_end_offset(), Offset(6));
    });
}

/// A process that starts on a disk from which the snapshots have gone, and what it counts.
async fn without_snapshots(world: &World, disk: platform::sim::SimDisk) -> (World, Metrics) {
    let metrics = Metrics::unregistered();
    let platform = SimPlatform::on(disk, world.platform.clock().clone(), 7);
    let store = Store::new(platform.clone(), store_options(), metrics.clone());
    for entry in platform.disk().list(Path::new(FOLDER)).await.unwrap() {
        if entry.name.ends_with(".snapshot") {
            let file = Path::new(FOLDER).join(&entry.name);
            platform.disk().remove_file(&file).await.unwrap();
        }
    }
    (World { platform, store }, metrics)
}

/// Flips a bit of the eight bytes of a base offset; the highest is 0.
fn rot(disk: &platform::sim::SimDisk, segment: i64, batch_at: usize, bit: u64) {
    let file = Path::new(FOLDER).join(format!("{segment:020}.log"));
    let position = batch_at as u64 + bit / 8;
    disk.flip(&file, position, 7 - u8::try_from(bit % 8).unwrap())
        .unwrap();
}

#[test]
fn a_base_offset_that_has_rotted_hides_no_producer_of_the_batches_behind_it() {
    // Beyond the segment, within it, and before it.
    for bit in [1, 6, 60, 61, 62, 63] {
        simulate(async {
            let world = World::new();
            let log = world.open(options()).await;
            for sequence in 0..9 {
                let id = 7 + i64::from(sequence % 3);
                add(&log, &produced(id, sequence / 3, 0, 1));
                if sequence % 3 == 2 {
                    log.roll().await.unwrap();
                }
            }
            add(&log, &produced(9, 3, 0, 1));
            log.save().await.unwrap();
            let end = log.log_end_offset();
            let disk = world.disk().kill(1);
            rot(&disk, 3, 0, bit);
            let (next, metrics) = without_snapshots(&world, disk).await;
            // All but the last batch is trusted.
            let log = next.try_open(options(), false, 9, 0).await.unwrap();
            assert_eq!(log.log_end_offset(), end, "bit {bit}");
            assert_eq!(metrics.corruptions.get(), 1, "bit {bit}");
            for (id, sequence) in [(7, 2), (8, 2), (9, 3)] {
                let again = produced(id, sequence, 0, 1);
                assert!(is_known(&log, &again), "bit {bit}, producer {id}");
            }
            add(&log, &produced(9, 4, 0, 1));
        });
    }
}

#[test]
fn a_transaction_is_over_though_the_base_offset_of_its_marker_has_rotted() {
    for bit in [1, 40, 57, 60, 61, 62, 63] {
        for commit in [false, true] {
            simulate(async {
                let world = World::new();
                let log = world.open(options()).await;
                let first = in_transaction(7, 0, 0);
                let marker = end(7, commit);
                add(&log, &first);
                add(&log, &marker);
                add(&log, &in_transaction(8, 0, 0));
                add(&log, &end(8, true));
                log.roll().await.unwrap();
                add(&log, &batch(0, 1, 100));
                log.save().await.unwrap();
                let disk = world.disk().kill(1);
                rot(&disk, 0, first.len(), bit);
                let (next, _) = without_snapshots(&world, disk).await;
                let log = next.try_open(options(), false, 6, 0).await.unwrap();
                let end = log.log_end_offset();
                log.set_high_watermark(end);
                assert_eq!(log.stable_offset(), end, "bit {bit}, {commit}");
            });
        }
    }
}

#[test]
fn a_batch_that_seems_longer_than_it_is_hides_no_producer_behind_it() {
    simulate(async {
        let world = World::new();
        let log = world.open(options()).await;
        for sequence in 0..40 {
            add(
                &log,
                &produced(7 + i64::from(sequence % 2), sequence / 2, 0, 1),
            );
        }
        log.roll().await.unwrap();
        add(&log, &batch(0, 1, 100));
        log.save().await.unwrap();
        let disk = world.disk().kill(1);
        let size = produced(7, 0, 0, 1).len() as u64;
        let file = Path::new(FOLDER).join(format!("{:020}.log", 0));
        // The last offset delta of the fifth.
        disk.flip(&file, 4 * size + 26, 4).unwrap();
        let (next, metrics) = without_snapshots(&world, disk).await;
        let log = next.try_open(options(), false, 40, 0).await.unwrap();
        assert_eq!(metrics.corruptions.get(), 1);
        for id in [7, 8] {
            assert!(is_known(&log, &produced(id, 19, 0, 1)), "producer {id}");
            assert!(is_known(&log, &produced(id, 16, 0, 1)), "producer {id}");
        }
    });
}

#[test]
fn an_index_of_aborted_transactions_that_knows_more_than_its_log_is_forgotten_at_any_start() {
    let ways = [(true, true), (true, false), (false, true), (false, false)];
    for (is_clean, is_empty) in ways {
        simulate(async {
            let world = World::new();
            let log = world.open(options()).await;
            let first = batch(0, 1, 100);
            let kept = if is_empty { 0 } else { first.len() };
            add(&log, &first);
            add(&log, &in_transaction(7, 0, 0));
            add(&log, &end(7, false));
            log.close().await.unwrap();
            // As a cut leaves it that was killed before it came to the index.
            let disk = world.disk().kill(1);
            let file = Path::new(FOLDER).join(format!("{:020}.log", 0));
            let (next, _) = without_snapshots(&world, disk).await;
            let bytes = next.disk().contents(&file).unwrap();
            next.disk().put(&file, &bytes[..kept]).unwrap();
            let log = next
                .try_open(options(), is_clean, i64::from(!is_empty), 0)
                .await
                .unwrap();
            add(&log, &in_transaction(7, 0, 0));
            add(&log, &end(7, true));
            add(&log, &first);
            log.close().await.unwrap();
            let point = log.log_end_offset().0;
            let next = next.successor(next.disk().kill(1));
            let opened = next.try_open(options(), true, point, 0).await;
            let told = aborted(&opened.unwrap()).await;
            assert_eq!(told, [], "clean {is_clean}, empty {is_empty}");
        });
    }
}

#[test]
fn what_was_aborted_behind_the_end_of_a_damaged_log_says_nothing_of_what_is_written_there() {
    simulate(async {
        let world = World::new();
        let log = world.open(options()).await;
        let first = batch(0, 1, 100);
        add(&log, &first);
        add(&log, &in_transaction(7, 0, 0));
        add(&log, &end(7, false));
        assert_eq!(aborted(&log).await, [(7, 1, 3)]);
        log.close().await.unwrap();
        let disk = world.disk().kill(1);
        let file = Path::new(FOLDER).join(format!("{:020}.log", 0));
        disk.flip(&file, first.len() as u64 + 100, 3).unwrap();
        let (next, _) = without_snapshots(&world, disk).await;
        let log = next.try_open(options(), false, 4, 0).await.unwrap();
        assert_eq!(log.log_end_offset(), Offset(1));
        add(&log, &in_transaction(7, 0, 0));
        add(&log, &end(7, true));
        log.close().await.unwrap();
        let point = log.log_end_offset().0;
        let next = next.successor(next.disk().kill(1));
        let opened = next.try_open(options(), true, point, 0).await;
        let log = opened.unwrap();
        assert_eq!(aborted(&log).await, []);
        add(&log, &in_transaction(7, 2, 0));
        add(&log, &end(7, false));
        assert_eq!(aborted(&log).await, [(7, 4, 6)]);
    });
}

#[test]
fn a_description_of_the_producers_ends_while_ever_more_of_them_come() {
    simulate(async {
        let world = World::new();
        let log = world.open(options()).await;
        let wrote = |log: &SimLog, id: i64| log.append(&produced(id, 0, 0, 1), EPOCH, NOW_MS);
        for id in 0..1000 {
            wrote(&log, id).unwrap();
        }
        let writer = {
            let log = Rc::clone(&log);
            platform::task::spawn(async move {
                let mut id = 1000;
                for _ in 0..20 {
                    let until = id + 600;
                    while id < until {
                        match wrote(&log, id) {
                            Ok(_) => id += 1,
                            Err(_) => log.flush().await.unwrap(),
                        }
                    }
                    platform::task::yield_now().await;
                }
            })
        };
        let described = log.producers_in_pieces().await;
        assert!(!writer.is_finished(), "{} are described", described.len());
        assert!(described.len() >= 1000);
        writer.await.unwrap();
    });
}

#[test]
fn the_snapshot_of_a_segment_that_is_deleted_before_it_is_sealed_does_not_stay_in_memory() {
    let small = || LogOptions {
        segment_bytes: 8 << 10,
        retention_bytes: Some(0),
        ..options()
    };
    simulate(async {
        let world = World::new();
        let log = world.open(small()).await;
        // The snapshots are so small that each roll takes one.
        for written in 0..300 {
            let (id, sequence) = (written % 5, i32::try_from(written / 5).unwrap());
            let batch = produced(id, sequence, 0, 1);
            log.append(&batch, EPOCH, NOW_MS).unwrap();
        }
        assert!(log.segment_count() > 4);
        log.flush().await.unwrap();
        log.set_high_watermark(log.log_end_offset());
        // The upkeep seals one segment; then it is the turn of this, and the others are not sealed.
        assert!(log.retain(NOW_MS).await.unwrap() > 2);
        log.check_invariants();
        log.close().await.unwrap();
    });
}
