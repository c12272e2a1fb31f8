//! What a start cuts off the end of a log: what was being written when the process ended goes;
//! damage is kept under another name.

use std::path::{Path, PathBuf};

use crate::world::*;
use platform::disk::Disk;
use platform::sim::SimDisk;
use storage::{FailureKind, LogOptions};
use wire::types::Offset;

const RECORD_BYTES: usize = 3000;

fn log_file() -> PathBuf {
    Path::new(FOLDER).join("00000000000000000000.log")
}

/// Ten records in one segment, and the length of each batch.
async fn ten() -> (World, u64) {
    let world = World::new();
    let log = world.open(options()).await;
    for _ in 0..10 {
        produce(&log, 1, RECORD_BYTES).await;
    }
    log.close().await.unwrap();
    (world, batch(0, 1, RECORD_BYTES).len() as u64)
}

async fn aside(disk: &SimDisk) -> Vec<Vec<u8>> {
    let listed = disk.list(Path::new(FOLDER)).await.unwrap();
    let names = listed.into_iter().map(|entry| entry.name);
    let aside = names.filter(|name| name.ends_with(".aside"));
    aside
        .map(|name| disk.contents(&Path::new(FOLDER).join(name)).unwrap())
        .collect()
}

/// Opens what `damage` leaves of ten records, after a kill, with a recovery point.
async fn opened(point: i64, damage: impl AsyncFn(&SimDisk, u64)) -> (World, SimLog) {
    let (world, size) = ten().await;
    let disk = world.disk().kill(1);
    damage(&disk, size).await;
    let next = world.successor(disk);
    let log = next.try_open(options(), false, point, 0).await.unwrap();
    (next, log)
}

#[test]
fn a_damaged_batch_and_what_is_behind_it_is_kept_under_another_name() {
    simulate(async {
        // In the body, in the length, in the magic, in the offset, all of it, and more.
        for (at, len) in [(1000, 1), (8, 4), (16, 1), (0, 8), (0, 3000), (0, 3060)] {
            for point in [0, 3, 7] {
                let (world, size) = ten().await;
                let disk = world.disk().kill(1);
                let mut bytes = disk.contents(&log_file()).unwrap();
                let from = usize::try_from(7 * size).unwrap();
                for byte in &mut bytes[from + at..][..len] {
                    *byte ^= 0x55;
                }
                disk.put(&log_file(), &bytes).unwrap();
                let next = world.successor(disk);
                let log = next.try_open(options(), false, point, 0).await.unwrap();
                assert_eq!(log.log_end_offset(), Offset(7), "{at} {len} {point}");
                assert_eq!(aside(next.disk()).await, [bytes[from..].to_vec()]);
                let cut = next.disk().contents(&log_file()).unwrap();
                assert!(cut[..from] == bytes[..from], "what is good stays");
                assert!(cut[from..].iter().all(|byte| *byte == 0), "room at most");
                let dirs = [PathBuf::from(DIR)];
                let report = storage::check::check(next.disk(), &dirs).await.unwrap();
                let mut notes = report.findings.iter().map(|found| found.path.display());
                assert!(notes.any(|path| path.to_string().contains(".log.from-")));
                // It stays there, and once.
                produce(&log, 1, 100).await;
                let again = next.successor(next.disk().crash(3));
                let log = again.try_open(options(), false, 7, 0).await.unwrap();
                assert_eq!(log.log_end_offset(), Offset(8));
                assert_eq!(aside(again.disk()).await, [bytes[from..].to_vec()]);
            }
        }
    });
}

#[test]
fn what_a_stop_clean_by_its_mark_has_left_damaged_is_kept_as_well() {
    simulate(async {
        let (world, size) = ten().await;
        let disk = world.disk().kill(1);
        // The header of the last batch: the rest of a clean log is not looked at.
        disk.flip(&log_file(), 9 * size + 10, 3).unwrap();
        let bytes = disk.contents(&log_file()).unwrap();
        let next = world.successor(disk);
        let log = next.try_open(options(), true, 10, 0).await.unwrap();
        assert_eq!(log.log_end_offset(), Offset(9));
        let from = usize::try_from(9 * size).unwrap();
        assert_eq!(aside(next.disk()).await, [bytes[from..].to_vec()]);
    });
}

#[test]
fn a_batch_that_was_being_written_when_the_process_ended_is_cut_off_and_that_is_all() {
    simulate(async {
        type Damage = fn(&mut Vec<u8>, usize);
        let torn: [Damage; 4] = [
            |bytes, size| bytes.truncate(9 * size + 1500),
            |bytes, size| bytes[9 * size + 1500..].fill(0),
            |bytes, size| bytes[9 * size..9 * size + 512].fill(0),
            |bytes, size| {
                bytes.truncate(9 * size + 100);
                bytes.extend(vec![0; 20_000]);
            },
        ];
        for damage in torn {
            let (next, log) = opened(0, async |disk, size| {
                let mut bytes = disk.contents(&log_file()).unwrap();
                damage(&mut bytes, usize::try_from(size).unwrap());
                disk.put(&log_file(), &bytes).unwrap();
            })
            .await;
            assert_eq!(log.log_end_offset(), Offset(9));
            assert_holds(&log, 0, 9).await;
            assert!(aside(next.disk()).await.is_empty());
        }
    });
}

#[test]
fn without_room_for_what_is_to_be_kept_the_log_waits_and_nothing_is_cut() {
    simulate(async {
        let (world, size) = ten().await;
        let disk = world.disk().kill(1);
        disk.flip(&log_file(), 2 * size + 500, 3).unwrap();
        let bytes = disk.contents(&log_file()).unwrap();
        let next = world.successor(disk);
        next.disk().set_capacity_bytes(Some(40_000));
        let refused = next.try_open(options(), false, 0, 0).await;
        let refused = refused.err().map(|error| error.kind());
        assert_eq!(refused, Some(FailureKind::Full));
        assert_eq!(next.disk().contents(&log_file()).unwrap(), bytes);
        next.disk().set_capacity_bytes(None);
        let log = next.try_open(options(), false, 0, 0).await.unwrap();
        assert_eq!(log.log_end_offset(), Offset(2));
        let from = usize::try_from(2 * size).unwrap();
        assert_eq!(aside(next.disk()).await, [bytes[from..].to_vec()]);
    });
}

#[test]
fn bytes_that_look_like_batches_everywhere_do_not_hold_up_a_start() {
    simulate(async {
        let large = LogOptions {
            segment_bytes: 16 << 20,
            max_batch_bytes: 8 << 20,
            ..options()
        };
        let world = World::new();
        let log = world.open(large.clone()).await;
        produce(&log, 1, 100).await;
        log.close().await.unwrap();
        let disk = world.disk().kill(1);
        let mut bytes = disk.contents(&log_file()).unwrap();
        // A header of a batch of megabytes every 61 bytes; none is a batch.
        let mut header = bytes[..61].to_vec();
        header[..8].copy_from_slice(&1_i64.to_be_bytes());
        header[8..12].copy_from_slice(&4_000_000_i32.to_be_bytes());
        for _ in 0..100_000 {
            bytes.extend(&header);
        }
        disk.put(&log_file(), &bytes).unwrap();
        let next = world.successor(disk);
        let log = next.try_open(large, false, 0, 0).await.unwrap();
        assert_eq!(log.log_end_offset(), Offset(1));
        assert_eq!(aside(next.disk()).await.len(), 1, "in doubt it is kept");
    });
}

/// A message of an older format: no key, and a value.
fn older(magic: u8, offset: i64, value: &[u8]) -> Vec<u8> {
    let timestamp: &[u8] = if magic == 1 { &[0; 8] } else { &[] };
    let value_len = i32::try_from(value.len()).unwrap();
    // Its CRC is not computed here.
    let body = [
        &[9, 9, 9, 9, magic, 0],
        timestamp,
        &(-1_i32).to_be_bytes(),
        &value_len.to_be_bytes(),
        value,
    ]
    .concat();
    let len = i32::try_from(body.len()).unwrap();
    [&offset.to_be_bytes()[..], &len.to_be_bytes(), &body].concat()
}

#[test]
fn messages_of_an_older_format_are_not_served_and_not_deleted() {
    simulate(async {
        for (magic, point, clean) in [(0, 0, false), (1, 0, false), (1, 5, false), (1, 20, true)] {
            let (world, _) = ten().await;
            let disk = world.disk().kill(1);
            let messages: Vec<u8> = (0..20).flat_map(|at| older(magic, at, b"kept")).collect();
            disk.put(&log_file(), &messages).unwrap();
            let next = world.successor(disk);
            let log = next.try_open(options(), clean, point, 0).await.unwrap();
            assert_eq!(log.log_end_offset(), Offset(0), "{magic} {point} {clean}");
            assert!(
                aside(next.disk()).await.contains(&messages),
                "{magic} {point} {clean}"
            );
        }
    });
}
