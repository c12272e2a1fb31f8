//! Checkpoints are hints: whatever they say, a log that was left in good order keeps its records,
//! and what is damaged is set aside, not removed.

use std::fmt::Write as _;
use std::path::Path;

use crate::world::*;
use platform::Platform;
use platform::disk::{Disk, DiskFile, Open};
use platform::sim::{SimDisk, SimPlatform};
use proptest::prelude::*;
use storage::{LogOptions, Metrics, Stamp, Store};
use wire::types::{LeaderEpoch, Offset};

const EPOCHS: &str = "/logs/orders-0/leader-epoch-checkpoint";

fn small() -> LogOptions {
    LogOptions {
        segment_bytes: 12 << 10,
        ..options()
    }
}

fn in_epoch(epoch: i32) -> Stamp {
    Stamp {
        leader_epoch: LeaderEpoch(epoch),
        log_append_time: None,
    }
}

/// Twenty-four records in the epochs 1 (from 0), 4 (from 9) and 5 (from 17), in several segments,
/// left in good order.
async fn left() -> World {
    let world = World::new();
    let log = world.open(small()).await;
    for at in 0..24 {
        log.append(&batch(at, 1, 2000), in_epoch(epoch_of(at)), NOW_MS)
            .unwrap();
        log.flush().await.unwrap();
    }
    assert!(log.segment_count() > 3);
    log.close().await.unwrap();
    world
}

fn epoch_of(at: i64) -> i32 {
    match at {
        0..9 => 1,
        9..17 => 4,
        _ => 5,
    }
}

/// True where one batch alone has another epoch than the file says, and by one bit: either may have
/// rotted, so it is refused.
fn is_against_one_bit_of_one_batch(file: &[u8]) -> bool {
    let text = String::from_utf8_lossy(file);
    let mut known: Vec<(i32, i64)> = Vec::new();
    for line in text.lines().skip(2) {
        let Some((epoch, start)) = line.split_once(' ') else {
            return false;
        };
        let (Ok(epoch), Ok(start)) = (epoch.parse(), start.parse()) else {
            return false;
        };
        known.retain(|before| before.0 < epoch && before.1 < start);
        known.push((epoch, start));
    }
    let differing_bits = |at: i64| {
        let says = epoch_of(at);
        match known.iter().rfind(|entry| entry.1 <= at) {
            Some(entry) => (entry.0 ^ says).count_ones(),
            None => known
                .first()
                .map_or(0, |next| if says > next.0 { 32 } else { 0 }),
        }
    };
    let batches: Vec<u32> = (0..24).map(differing_bits).collect();
    let differ = |run: &&[u32]| run[0] > 0;
    let runs = batches.chunk_by(|one, next| (*one > 0) == (*next > 0));
    runs.filter(differ).any(|run| run == [1])
}

fn epoch_ends(log: &SimLog) -> Vec<(i32, i64)> {
    let end = |epoch| log.epoch_end(LeaderEpoch(epoch));
    let ends = [1, 4, 5].map(end);
    ends.map(|(epoch, offset)| (epoch.0, offset.0)).to_vec()
}

async fn names(disk: &SimDisk) -> Vec<String> {
    let listed = disk.list(Path::new(FOLDER)).await.unwrap();
    listed.into_iter().map(|entry| entry.name).collect()
}

#[test]
fn leader_epochs_are_taken_from_the_batches_where_the_file_is_wrong_or_gone() {
    let files: [&[u8]; 10] = [
        b"",
        b"0\n1\n2147483647 0\n",
        b"0\n1\n3 1000\n",
        b"0\n2\n1 0\n9 12\n",
        b"0\n3\n1 0\n4 10\n5 17\n",
        b"0\n1\n5 0\n",
        b"0\n2\n1 0\n4 9\n",
        b"garbage",
        b"0\n1\n1 9223372036854775807\n",
        &[0; 600],
    ];
    for (clean, file) in [true, false]
        .into_iter()
        .flat_map(|clean| files.map(|file| (clean, file)))
    {
        simulate(async {
            let world = left().await;
            world.disk().put(Path::new(EPOCHS), file).unwrap();
            let next = world.successor(world.disk().crash(1));
            let log = next.try_open(small(), clean, 24, 0).await.unwrap();
            let said = String::from_utf8_lossy(file).into_owned();
            assert_eq!(log.log_end_offset(), Offset(24), "{said}");
            assert_holds(&log, 0, 24).await;
            // Where an epoch begins within what is trusted is not looked at before it is read.
            assert_eq!(epoch_ends(&log), [(1, 9), (4, 17), (5, 24)], "{said}");
            log.flush().await.unwrap();
            let again = next.successor(next.disk().crash(2));
            let log = again.try_open(small(), clean, 24, 0).await.unwrap();
            assert_eq!(log.log_end_offset(), Offset(24));
        });
    }
}

/// A wrong epoch that differs in one bit from what a single batch at the end of a segment says is
/// not rot of that batch where the next segment says the same.
#[test]
fn a_file_of_one_epoch_hides_no_batch_but_one_that_stands_alone_against_it_by_a_bit() {
    let mut hidden = Vec::new();
    for (epoch, start) in (0..9).flat_map(|epoch| (0..=24).map(move |start| (epoch, start))) {
        let file = lines(vec![(epoch, start)]);
        if is_against_one_bit_of_one_batch(&file) {
            hidden.push((epoch, start));
            continue;
        }
        simulate(async {
            let world = left().await;
            world.disk().put(Path::new(EPOCHS), &file).unwrap();
            let next = world.successor(world.disk().crash(1));
            let log = next.try_open(small(), true, 0, 0).await.unwrap();
            assert_holds(&log, 0, 24).await;
        });
    }
    assert_eq!(hidden, [(5, 16), (7, 23)]);
}

#[test]
fn a_damaged_file_of_epochs_is_kept_under_another_name() {
    simulate(async {
        let world = left().await;
        world.disk().put(Path::new(EPOCHS), b"0\n1\nx\n").unwrap();
        let next = world.successor(world.disk().crash(1));
        let log = next.try_open(small(), true, 24, 0).await.unwrap();
        log.flush().await.unwrap();
        let names = names(next.disk()).await;
        let aside = names.iter().find(|name| name.ends_with(".aside"));
        let aside = Path::new(FOLDER).join(aside.unwrap());
        assert_eq!(next.disk().contents(&aside).unwrap(), b"0\n1\nx\n");
        assert!(names.contains(&"leader-epoch-checkpoint".to_owned()));
        // It is there after the next start, too.
        log.close().await.unwrap();
        let again = next.successor(next.disk().crash(2));
        again.try_open(small(), true, 24, 0).await.unwrap();
        assert!(again.disk().contents(&aside).is_ok());
    });
}

#[test]
fn a_log_start_beyond_the_end_deletes_nothing() {
    for (clean, log_start) in [
        (true, 25),
        (true, 1 << 40),
        (true, i64::MAX),
        (false, i64::MAX),
        (false, 1 << 62),
        (true, -5),
    ] {
        simulate(async {
            let world = left().await;
            let next = world.successor(world.disk().crash(1));
            let log = next.try_open(small(), clean, 24, log_start).await.unwrap();
            assert_eq!(log.log_end_offset(), Offset(24), "{clean} {log_start}");
            assert_holds(&log, 0, 24).await;
        });
    }
    simulate(async {
        // After a crash the records may be gone that were before it. What is there is kept all the
        // same.
        let world = left().await;
        let next = world.successor(world.disk().crash(1));
        let log = next.try_open(small(), false, 24, 5000).await.unwrap();
        assert_eq!(log.log_start_offset(), Offset(5000));
        let names = names(next.disk()).await;
        let aside = names.iter().filter(|name| name.contains(".log."));
        let aside: Vec<_> = aside.filter(|name| name.ends_with(".aside")).collect();
        let mut kept = 0;
        for name in aside {
            let bytes = next.disk().contents(&Path::new(FOLDER).join(name)).unwrap();
            kept += decode(&bytes.into()).len();
        }
        assert_eq!(kept, 24);
    });
}

#[test]
fn offsets_at_the_end_of_all_numbers_in_a_data_file_are_damage_and_no_panic() {
    // The base offset is not under the CRC: every value of it gets here.
    for (clean, base) in [true, false]
        .into_iter()
        .flat_map(|clean| [i64::MAX, i64::MAX - 3, i64::MIN, -1, 1 << 62].map(|base| (clean, base)))
    {
        simulate(async {
            let world = World::new();
            let log = world.open(options()).await;
            for _ in 0..10 {
                produce(&log, 3, 2000).await;
            }
            log.close().await.unwrap();
            let file = Path::new(FOLDER).join("00000000000000000000.log");
            let whole = world.disk().contents(&file).unwrap();
            let mut at = 0;
            while at < whole.len() {
                let mut bytes = whole.clone();
                bytes[at..at + 8].copy_from_slice(&base.to_be_bytes());
                let size = i32::from_be_bytes(bytes[at + 8..at + 12].try_into().unwrap());
                at += 12 + usize::try_from(size).unwrap();
                let disk = SimDisk::new(1);
                for name in names(world.disk()).await {
                    let path = Path::new(FOLDER).join(&name);
                    disk.put(&path, &world.disk().contents(&path).unwrap())
                        .unwrap();
                }
                disk.put(&file, &bytes).unwrap();
                let next = World::on(
                    SimPlatform::on(disk, world.platform.clock().clone(), 1),
                    store_options(),
                );
                for point in [0, 15, 30, i64::MAX] {
                    let opened = next.try_open(options(), clean, point, 0).await;
                    let log = opened.unwrap();
                    let (start, end) = (log.log_start_offset(), log.log_end_offset());
                    let _ = log.read(start, end, 1 << 20, true).await;
                    let _ = log.close().await;
                }
            }
        });
    }
}

#[test]
fn a_reader_that_meets_a_hole_has_it_counted() {
    simulate(async {
        let world = left().await;
        let logs = names(world.disk()).await;
        let logs: Vec<_> = logs.iter().filter(|name| name.ends_with(".log")).collect();
        world
            .disk()
            .remove_file(&Path::new(FOLDER).join(logs[1]))
            .await
            .unwrap();
        world.disk().sync_dir(Path::new(FOLDER)).await.unwrap();
        let clock = world.platform.clock().clone();
        let platform = SimPlatform::on(world.disk().crash(1), clock, 7);
        let metrics = Metrics::unregistered();
        let store = Store::new(platform.clone(), store_options(), metrics.clone());
        let next = World { platform, store };
        let log = next.try_open(small(), true, 24, 0).await.unwrap();
        let mut at = Offset(0);
        let mut read = 0;
        while at < Offset(24) {
            let slices = log.read(at, Offset(24), 3000, true).await.unwrap();
            let found = decode(&slices.concat().into());
            read += found.len();
            at = Offset(found.last().unwrap().0 + 1);
        }
        assert!(read < 24);
        assert_eq!(metrics.holes.get(), 1);
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// For any content of the checkpoint files.
    #[test]
    fn a_log_that_was_left_in_good_order_keeps_its_records(
        epochs in prop_oneof![
            any::<Vec<u8>>(),
            proptest::collection::vec((any::<i32>(), any::<i64>()), 0..4).prop_map(lines),
            proptest::collection::vec((0..9_i32, 0..40_i64), 0..4).prop_map(lines),
        ],
        recovery_point: i64,
        log_start in prop_oneof![any::<i64>(), 25..100_i64, Just(0)],
    ) {
        simulate(async {
            let world = left().await;
            world.disk().put(Path::new(EPOCHS), &epochs).unwrap();
            let next = world.successor(world.disk().crash(1));
            let log = next.try_open(small(), true, recovery_point, log_start).await.unwrap();
            assert_eq!(log.log_end_offset(), Offset(24));
            if !is_against_one_bit_of_one_batch(&epochs) {
                assert_holds(&log, log.log_start_offset().0, 24).await;
            }
            if !(1..=24).contains(&log_start) {
                assert_eq!(log.log_start_offset(), Offset(0));
            }
        });
    }
}

fn lines(entries: Vec<(i32, i64)>) -> Vec<u8> {
    let mut text = format!("0\n{}\n", entries.len());
    for (epoch, start) in entries {
        let _ = writeln!(text, "{epoch} {start}");
    }
    text.into_bytes()
}

/// A file system takes files of 2^63 bytes that hold nothing, and a start does not read what was
/// sealed.
#[test]
fn segments_that_are_longer_together_than_a_number_can_say_do_not_end_the_process() {
    simulate(async {
        let world = left().await;
        let logs = names(world.disk()).await.into_iter();
        let logs = logs.filter(|name| name.ends_with(".log"));
        for name in logs.take(3) {
            let path = Path::new(FOLDER).join(name);
            let file = world.disk().open(&path, Open::Write).await.unwrap();
            file.set_len(i64::MAX.unsigned_abs()).await.unwrap();
            file.sync().await.unwrap();
        }
        let next = world.successor(world.disk().crash(1));
        let log = next.try_open(small(), true, 24, 0).await.unwrap();
        assert_eq!(log.size_bytes(), u64::MAX);
        assert_eq!(log.log_end_offset(), Offset(24));
        log.append(&batch(24, 1, 2000), in_epoch(5), NOW_MS)
            .unwrap();
        log.flush().await.unwrap();
        log.close().await.unwrap();
    });
}

/// The end of the file is read at a start, to be written again with what comes: its CRCs are not
/// checked by then.
#[test]
fn what_was_damaged_in_the_last_block_is_refused_also_after_more_was_appended() {
    simulate(async {
        for clean in [true, false] {
            let world = left().await;
            let next = world.successor(world.disk().kill(1));
            let names = names(next.disk()).await;
            let last = names.iter().filter(|name| name.ends_with(".log")).max();
            let file = Path::new(FOLDER).join(last.unwrap());
            let len = next.disk().contents(&file).unwrap().len() as u64;
            next.disk().flip(&file, len - 100, 3).unwrap();
            let log = next.try_open(small(), clean, 24, 0).await.unwrap();
            let damaged = log.log_end_offset().plus(-1);
            log.append(&batch(24, 1, 100), in_epoch(5), NOW_MS).unwrap();
            for written in [false, true] {
                if written {
                    log.flush().await.unwrap();
                }
                let below = damaged.plus(1);
                let read = log.read(damaged, below, 1 << 20, true).await;
                let kept = read.as_ref().map(|parts| decode_all(parts));
                let refused = kept.is_err();
                // After an unclean stop it may have been cut off: then what is there is whole.
                assert!(refused || !clean, "{clean} {written}: {kept:?}");
            }
        }
    });
}

fn decode_all(parts: &[bytes::Bytes]) -> usize {
    decode(&parts.concat().into()).len()
}
