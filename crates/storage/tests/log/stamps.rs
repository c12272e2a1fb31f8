//! Base offset and leader epoch stand before what the CRC of a batch covers: a bit of them that has
//! rotted is found all the same, and only readers of that very batch get an error.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::world::*;
use bytes::Bytes;
use platform::disk::Disk;
use platform::sim::SimDisk;
use storage::{FailureKind, LogOptions, Stamp, StoreOptions};
use wire::batch::BatchHeader;
use wire::types::{LeaderEpoch, Offset};

const RECORDS: i64 = 24;
const BYTES: usize = 1000;

fn small() -> LogOptions {
    LogOptions {
        segment_bytes: 12 << 10,
        index_interval_bytes: 2500,
        ..options()
    }
}

/// A log in several epochs, each record a batch of its own, left in good order; and its batches.
async fn left() -> (World, Vec<Bytes>) {
    let world = World::new();
    let log = world.open(small()).await;
    let mut batches = Vec::new();
    for at in 0..RECORDS {
        let leader_epoch = LeaderEpoch(match at {
            0..8 => 4,
            8..16 => 5,
            _ => 1000,
        });
        let stamp = Stamp {
            leader_epoch,
            log_append_time: None,
        };
        log.append(&batch(at, 1, BYTES), stamp, NOW_MS).unwrap();
        log.flush().await.unwrap();
        let read = log.read(Offset(at), Offset(at + 1), 1, true).await.unwrap();
        batches.push(read.concat().into());
    }
    assert_eq!(log.segment_count(), 3);
    log.close().await.unwrap();
    (world, batches)
}

/// The file that a batch is in, and where.
fn place_of(disk: &SimDisk, batches: &[Bytes], at: usize) -> (PathBuf, u64) {
    let file = |base: usize| Path::new(FOLDER).join(format!("{base:020}.log"));
    let base = (0..=at)
        .rev()
        .find(|base| disk.contents(&file(*base)).is_ok());
    let base = base.expect("a segment");
    let before = batches[base..at].iter().map(|batch| batch.len() as u64);
    (file(base), before.sum())
}

/// Reads from every offset on, or all from the start; returns the offsets that gave an error of
/// damage and no records.
async fn refused(log: &SimLog, batches: &[Bytes], each: bool, bytes_max: usize) -> Vec<i64> {
    let mut refused = Vec::new();
    let mut from = 0;
    while from < RECORDS {
        let read = log
            .read(Offset(from), Offset(RECORDS), bytes_max, true)
            .await;
        let mut next = from;
        match read {
            Ok(slices) => {
                let mut rest: Bytes = slices.concat().into();
                while !rest.is_empty() {
                    let size = BatchHeader::parse(&rest).expect("a whole batch").size_bytes;
                    let original = &batches[usize::try_from(next).unwrap()];
                    assert_eq!(
                        rest.split_to(size),
                        original,
                        "read from {from}, {bytes_max} bytes"
                    );
                    next += 1;
                }
                assert!(next > from, "there is something at {from}");
            }
            Err(error) => {
                assert_eq!(error.kind(), FailureKind::Corrupt, "{error}");
                refused.push(from);
                next += 1;
            }
        }
        from = if each { from + 1 } else { next };
    }
    refused
}

#[test]
fn a_rotten_bit_of_offset_or_epoch_is_served_to_nobody_and_hides_nothing_else() {
    simulate(async {
        let (world, batches) = left().await;
        let bits = (0..8)
            .chain(12..16)
            .flat_map(|byte| (0..8).map(move |bit| (byte, bit)));
        let ways = [
            (true, 1, 0),
            (true, 1 << 20, 0),
            (false, 3500, 64 << 10),
            (false, 1, 0),
        ];
        // In the middle, at the ends of epochs, first and last of a segment.
        for ((byte, bit), at) in bits.flat_map(|bit| [3, 7, 8, 9, 10, 12, 15].map(|at| (bit, at))) {
            let disk = world.disk().crash(1);
            let (file, position) = place_of(&disk, &batches, at);
            disk.flip(&file, position + byte, bit).unwrap();
            let (each, bytes_max, read_ahead) = ways[(at + usize::from(bit)) % ways.len()];
            let store = StoreOptions {
                read_ahead_bytes_max: read_ahead,
                ..store_options()
            };
            let next = world.successor_with(disk, store);
            let log = next.try_open(small(), true, RECORDS, 0).await.unwrap();
            assert_eq!(
                refused(&log, &batches, each, bytes_max).await,
                [i64::try_from(at).unwrap()],
                "bit {bit} of byte {byte} of batch {at}, {bytes_max} bytes a read"
            );
        }
    });
}

#[test]
fn a_rotten_bit_anywhere_before_the_records_is_never_served() {
    simulate(async {
        let (world, batches) = left().await;
        for (byte, bit) in (0..61).flat_map(|byte| (0..8).map(move |bit| (byte, bit))) {
            let disk = world.disk().crash(1);
            let (file, position) = place_of(&disk, &batches, 5);
            disk.flip(&file, position + byte, bit).unwrap();
            let next = world.successor(disk);
            let log = next.try_open(small(), true, RECORDS, 0).await.unwrap();
            let refused = refused(&log, &batches, bit % 2 == 0, 3500).await;
            assert!(
                refused.contains(&5),
                "bit {bit} of byte {byte}: {refused:?}"
            );
        }
    });
}

#[test]
fn a_recovered_log_ends_before_a_batch_whose_epoch_has_rotted() {
    simulate(async {
        let (world, batches) = left().await;
        for (bit, at) in (0..32).flat_map(|bit| [18, 20, 21].map(|at| (bit, at))) {
            let disk = world.disk().crash(1);
            let (file, position) = place_of(&disk, &batches, at);
            let byte = 12 + u64::from(bit / 8);
            disk.flip(&file, position + byte, bit % 8).unwrap();
            let next = world.successor(disk);
            let log = next.try_open(small(), false, 0, 0).await.unwrap();
            let end = log.log_end_offset();
            assert_eq!(
                end,
                Offset(i64::try_from(at).unwrap()),
                "bit {bit} of batch {at}"
            );
            let read = log.read(Offset(16), end, 1 << 20, true).await.unwrap();
            assert_eq!(
                read.concat(),
                batches[16..at].concat(),
                "bit {bit} of batch {at}"
            );
        }
    });
}

#[test]
fn readers_who_come_together_all_see_through_a_file_of_epochs_that_is_anothers() {
    simulate(async {
        let (world, batches) = left().await;
        let disk = world.disk().crash(1);
        let file = Path::new(FOLDER).join("leader-epoch-checkpoint");
        // Its last word is right: the start has no reason to doubt it.
        disk.put(&file, b"0\n2\n7 0\n1000 16\n").unwrap();
        let next = world.successor(disk);
        let log = next.try_open(small(), true, RECORDS, 0).await.unwrap();
        let readers: Vec<_> = [0, 1, 2, 9, 10, 0, 8]
            .into_iter()
            .map(|from| {
                let log = Rc::clone(&log);
                let read =
                    async move { (from, log.read(Offset(from), Offset(16), 3500, true).await) };
                platform::task::spawn(read)
            })
            .collect();
        for reader in readers {
            let (from, read) = reader.await.unwrap();
            let found = read.unwrap_or_else(|error| panic!("from {from}: {error}"));
            let from = usize::try_from(from).unwrap();
            let found = found.concat();
            assert!(!found.is_empty() && batches[from..16].concat().starts_with(&found));
        }
    });
}

#[test]
fn an_epoch_that_has_just_begun_stays_when_others_are_asked_of_the_batches() {
    simulate(async {
        let (world, _) = left().await;
        let disk = world.disk().crash(1);
        let file = Path::new(FOLDER).join("leader-epoch-checkpoint");
        // Right of the last batches, which a start looks at.
        let wrong = b"0\n4\n4 0\n5 8\n900 16\n1000 20\n";
        disk.put(&file, wrong).unwrap();
        let next = world.successor(disk);
        let log = next.try_open(small(), true, RECORDS, 0).await.unwrap();
        assert_eq!(log.epoch_at(Offset(16)), Some(LeaderEpoch(900)));
        let stamp = Stamp {
            leader_epoch: LeaderEpoch(1001),
            log_append_time: None,
        };
        // Not written yet when the batches before it are read.
        log.append(&batch(RECORDS, 1, BYTES), stamp, NOW_MS)
            .unwrap();
        log.read(Offset(16), Offset(RECORDS), 1, true)
            .await
            .unwrap();
        assert_eq!(log.epoch_at(Offset(16)), Some(LeaderEpoch(1000)));
        assert_eq!(log.epoch_at(Offset(RECORDS - 1)), Some(LeaderEpoch(1000)));
        assert_eq!(log.epoch_at(Offset(RECORDS)), Some(LeaderEpoch(1001)));
    });
}

#[test]
fn a_reader_who_goes_while_the_batches_are_asked_for_their_epochs_leaves_it_to_the_next() {
    simulate(async {
        let (world, batches) = left().await;
        let mut went = 0;
        for polls in 1.. {
            let disk = world.disk().crash(1);
            let file = Path::new(FOLDER).join("leader-epoch-checkpoint");
            disk.put(&file, b"0\n2\n7 0\n1000 16\n").unwrap();
            let next = world.successor(disk);
            let log = next.try_open(small(), true, RECORDS, 0).await.unwrap();
            if polled(log.read(Offset(0), Offset(8), 1, true), polls).await {
                break;
            }
            went += 1;
            let read = log.read(Offset(0), Offset(8), 1, true).await;
            let read = read.unwrap_or_else(|error| panic!("gone after {polls} polls: {error}"));
            assert_eq!(read.concat(), batches[0]);
        }
        assert!(went > 5, "it has not waited for anything");
    });
}

#[test]
fn the_first_batch_of_a_log_that_has_no_index_yet_begins_where_its_segment_does() {
    simulate(async {
        for (bit, count) in (0..64).flat_map(|bit| [1, 2].map(|count| (bit, count))) {
            for is_clean in [true, false] {
                let world = World::new();
                let log = world.open(options()).await;
                for at in 0..count {
                    add(&log, at);
                }
                log.close().await.unwrap();
                let disk = world.disk().crash(1);
                let file = Path::new(FOLDER).join(format!("{:020}.log", 0));
                disk.flip(&file, bit / 8, u8::try_from(bit % 8).unwrap())
                    .unwrap();
                let next = world.successor(disk);
                let opened = next.try_open(options(), is_clean, count, 0).await;
                let log = opened.unwrap();
                let told = format!("bit {bit} of {count} batches, {is_clean}");
                assert_eq!(log.log_end_offset(), Offset(0), "{told}");
                let listed = next.disk().list(Path::new(FOLDER)).await.unwrap();
                let mut names = listed.iter().map(|entry| &entry.name);
                assert!(names.any(|name| name.ends_with(".aside")), "{told}");
            }
        }
    });
}

#[test]
fn a_batch_does_not_begin_behind_its_segment_where_the_log_would_end_elsewhere_than_it_did() {
    simulate(async {
        for bit in 0..16 {
            let world = World::new();
            let log = world.open(options()).await;
            append(&log, 900, 10);
            log.roll().await.unwrap();
            append(&log, 100, 10);
            log.close().await.unwrap();
            let disk = world.disk().crash(1);
            let file = Path::new(FOLDER).join(format!("{:020}.log", 900));
            disk.flip(&file, 7 - bit / 8, u8::try_from(bit % 8).unwrap())
                .unwrap();
            let next = world.successor(disk);
            let log = next.try_open(options(), true, 1000, 0).await.unwrap();
            assert_eq!(log.log_end_offset(), Offset(900), "bit {bit}");
        }
    });
}

#[test]
fn a_compacted_log_does_not_end_where_a_rotten_base_offset_says() {
    simulate(async {
        let compacted = LogOptions {
            compact: true,
            ..options()
        };
        for (bit, is_clean) in (0..24).flat_map(|bit| [true, false].map(|is_clean| (bit, is_clean)))
        {
            let world = World::new();
            let log = world.open(compacted.clone()).await;
            add(&log, 0);
            log.close().await.unwrap();
            let disk = world.disk().crash(1);
            let file = Path::new(FOLDER).join(format!("{:020}.log", 0));
            // The upper ones: a gap of less may be one.
            disk.flip(&file, bit / 8, u8::try_from(bit % 8).unwrap())
                .unwrap();
            let next = world.successor(disk);
            let opened = next.try_open(compacted.clone(), is_clean, 1, 0).await;
            let log = opened.unwrap();
            assert_eq!(log.log_end_offset(), Offset(0), "bit {bit}, {is_clean}");
        }
    });
}

fn add(log: &SimLog, at: i64) {
    let stamp = Stamp {
        leader_epoch: LeaderEpoch(4),
        log_append_time: None,
    };
    log.append(&batch(at, 1, BYTES), stamp, NOW_MS).unwrap();
}
