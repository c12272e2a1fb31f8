//! Files that another program put beside good segments, or took away: the segments keep their
//! records, and what is damaged is set aside.

use std::path::{Path, PathBuf};

use crate::world::*;
use bytes::Bytes;
use platform::disk::Disk;
use platform::sim::SimDisk;
use storage::LogOptions;
use storage::log::producer_state::ProducerSnapshot;
use wire::batch::builder::BatchBuilder;
use wire::types::{LeaderEpoch, Offset, ProducerId, TimestampMs};

fn path(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}

fn small() -> LogOptions {
    LogOptions {
        segment_bytes: 12 << 10,
        ..options()
    }
}

/// Twenty-four records in segments of five, left in good order.
async fn left(options: LogOptions) -> World {
    let world = World::new();
    let log = world.open(options).await;
    for _ in 0..24 {
        produce(&log, 1, 2000).await;
    }
    assert!(log.segment_count() > 3);
    log.close().await.unwrap();
    world
}

async fn bases(disk: &SimDisk) -> Vec<i64> {
    let listed = disk.list(Path::new(FOLDER)).await.unwrap();
    let names = listed.into_iter().map(|entry| entry.name);
    let mut bases: Vec<i64> = names
        .filter_map(|name| name.strip_suffix(".log")?.parse().ok())
        .collect();
    bases.sort_unstable();
    bases
}

async fn kept_aside(disk: &SimDisk, bytes: &[u8]) -> bool {
    for entry in disk.list(Path::new(FOLDER)).await.unwrap() {
        if entry.name.ends_with(".aside") && disk.contents(&path(&entry.name)).unwrap() == bytes {
            return true;
        }
    }
    false
}

#[test]
fn a_swap_that_is_no_segment_replaces_nothing_and_is_set_aside() {
    simulate(async {
        for compact in [false, true] {
            let options = LogOptions { compact, ..small() };
            let world = left(options.clone()).await;
            let disk = world.disk();
            let bases = bases(disk).await;
            let file = |base: i64| disk.contents(&path(&format!("{base:020}.log"))).unwrap();
            let (first, second) = (file(bases[0]), file(bases[1]));
            let mut flipped = second.clone();
            *flipped.last_mut().unwrap() ^= 1;
            let mut of_another = first.clone();
            // The producer id and what follows are under the CRC, so this is a batch that was never
            // in the log.
            let stranger = World::new();
            let log = stranger.open(small()).await;
            append(&log, 3, 100);
            log.flush().await.unwrap();
            log.close().await.unwrap();
            let foreign = stranger.disk().contents(&path(&format!("{:020}.log", 0)));
            of_another.extend_from_slice(&second[..100]);
            let cases: [(&str, i64, Vec<u8>); 8] = [
                ("empty", bases[0], Vec::new()),
                ("garbage", bases[0], b"garbage".to_vec()),
                ("zeros", bases[1], vec![0; 5000]),
                ("cut", bases[0], of_another),
                ("a flipped bit", bases[1], flipped),
                ("of an earlier segment", bases[1], first),
                ("of another log", bases[0], foreign.unwrap()),
                ("within a segment", bases[0] + 1, second),
            ];
            for (said, base, bytes) in cases {
                for clean in [true, false] {
                    let disk = world.disk().kill(1);
                    let name = format!("{base:020}.log.swap");
                    disk.put(&path(&name), &bytes).unwrap();
                    for index in ["index", "timeindex", "txnindex"] {
                        let name = format!("{base:020}.{index}.swap");
                        disk.put(&path(&name), b"nonsense").unwrap();
                    }
                    let next = world.successor(disk);
                    let log = next.try_open(options.clone(), clean, 24, 0).await.unwrap();
                    let range = (log.log_start_offset(), log.log_end_offset());
                    assert_eq!(range, (Offset(0), Offset(24)), "{said}");
                    assert_holds(&log, 0, 24).await;
                    assert!(kept_aside(next.disk(), &bytes).await, "{said}");
                }
            }
        }
    });
}

#[test]
fn an_index_alone_that_was_to_replace_another_does_not() {
    simulate(async {
        let world = left(small()).await;
        let bases = bases(world.disk()).await;
        for (role, bytes) in [
            ("index", &b""[..]),
            ("index", &[7; 96]),
            ("timeindex", &[]),
            ("timeindex", &[0; 24]),
            ("txnindex", &[1; 34]),
            ("snapshot", &[9; 3]),
        ] {
            let disk = world.disk().kill(1);
            let name = format!("{:020}.{role}.swap", bases[1]);
            disk.put(&path(&name), bytes).unwrap();
            let next = world.successor(disk);
            let log = next.try_open(small(), true, 24, 0).await.unwrap();
            assert_holds(&log, 0, 24).await;
        }
    });
}

fn draft(id: i64, sequence: i32) -> BatchBuilder {
    BatchBuilder::new(Offset(0), LeaderEpoch(-1))
        .transactional(true)
        .producer(ProducerId(id), 0, sequence)
}

fn in_transaction(id: i64, sequence: i32) -> Bytes {
    filled(draft(id, sequence), 0, 2, 1000, NOW_MS)
}

fn end_of_transaction(id: i64, commit: bool) -> Bytes {
    let mut marker = draft(id, -1).control(true);
    let (key, value) = ([0, 0, 0, u8::from(commit)], [0; 6]);
    marker.add(TimestampMs(NOW_MS), Some(&key), Some(&value), &[]);
    marker.finish().unwrap()
}

/// Six segments; in each a transaction ends that began in the one before, one that was committed,
/// and in every other one that was aborted. `rounds` beyond six make it longer.
async fn transactional(rounds: i32) -> (World, SimLog) {
    let world = World::new();
    let log = world.open(options()).await;
    let add = |bytes: &Bytes| {
        log.append(bytes, EPOCH, NOW_MS).unwrap();
    };
    for round in 0..rounds {
        add(&in_transaction(7, 2 * round));
        add(&in_transaction(8, 2 * round));
        log.roll().await.unwrap();
        add(&end_of_transaction(7, round % 2 == 1));
        add(&end_of_transaction(8, true));
        for id in 100..120 {
            add(&produced(id, round, 0, 1));
        }
    }
    log.close().await.unwrap();
    (world, log)
}

async fn small_files(disk: &SimDisk) -> Vec<String> {
    let listed = disk.list(Path::new(FOLDER)).await.unwrap();
    let names = listed.into_iter().map(|entry| entry.name);
    let small = names.filter(|name| {
        let kept = [".log", ".deleted", "partition.metadata"];
        !kept.iter().any(|end| name.ends_with(end))
    });
    small.collect()
}

/// What readers and producers see.
#[derive(PartialEq, Debug)]
struct ReaderView {
    aborted: Vec<(i64, i64, i64)>,
    by_time: Vec<Option<i64>>,
    producers: Vec<ProducerSnapshot>,
}

async fn told(log: &SimLog) -> ReaderView {
    let end = log.log_end_offset();
    let found = log.aborted_transactions(Offset(0), end).await.unwrap();
    let aborted = found
        .iter()
        .map(|txn| (txn.producer_id.0, txn.first_offset.0, txn.last_offset.0));
    let mut by_time = Vec::new();
    for ms in [-1, 0, 1] {
        let found = log
            .offset_for_timestamp(TimestampMs(NOW_MS + ms), end)
            .await;
        by_time.push(found.unwrap().map(|found| found.offset.0));
    }
    ReaderView {
        aborted: aborted.collect(),
        by_time,
        producers: log.producers(),
    }
}

#[test]
fn whatever_became_of_a_small_file_readers_and_producers_are_told_the_same() {
    simulate(async {
        let (world, log) = transactional(6).await;
        let (other, _) = transactional(9).await;
        let end = log.log_end_offset().0;
        let names = small_files(world.disk()).await;
        let longer = small_files(other.disk()).await;
        let expected = {
            let next = world.successor(world.disk().kill(1));
            told(&next.try_open(options(), true, end, 0).await.unwrap()).await
        };
        assert_eq!((expected.aborted.len(), expected.producers.len()), (3, 22));
        for name in &names {
            let suffix = name.rsplit('.').next().unwrap();
            let same_kind = names.iter().filter(|other| other.ends_with(suffix));
            let mut contents: Vec<(String, Option<Vec<u8>>)> = vec![
                ("missing".into(), None),
                ("empty".into(), Some(Vec::new())),
                (
                    "garbage".into(),
                    Some(b"garbage that is no file of a log".to_vec()),
                ),
                ("zeros".into(), Some(vec![0; 680])),
            ];
            // A whole snapshot of earlier is what a later one would be if nothing had been written
            // since.
            let told_apart = |other: &&String| suffix != "snapshot" || *other >= name;
            for another in same_kind.filter(told_apart) {
                let bytes = world.disk().contents(&path(another)).unwrap();
                contents.push((format!("that of {another}"), Some(bytes)));
            }
            for another in longer
                .iter()
                .filter(|other| other.ends_with(suffix))
                .rev()
                .take(2)
            {
                let bytes = other.disk().contents(&path(another)).unwrap();
                contents.push((format!("that of {another} of a longer log"), Some(bytes)));
            }
            for (said, bytes) in contents {
                for (clean, point) in [(true, end), (false, end), (false, 0), (false, 1000)] {
                    let said = format!("{name} is {said}, clean {clean}, recovery point {point}");
                    let disk = world.disk().kill(1);
                    match &bytes {
                        Some(bytes) => disk.put(&path(name), bytes).unwrap(),
                        None => disk.remove_file(&path(name)).await.unwrap(),
                    }
                    let next = world.successor(disk);
                    let log = next.try_open(options(), clean, point, 0).await.unwrap();
                    assert_eq!(log.log_end_offset().0, end, "{said}");
                    let mut found = told(&log).await;
                    if suffix == "timeindex" && said.contains("that of") {
                        // It is as good as any: a search by time may begin late.
                        found.by_time.clone_from(&expected.by_time);
                    }
                    assert_eq!(found, expected, "{said}");
                }
            }
        }
    });
}

#[test]
fn snapshots_of_a_longer_log_are_not_believed() {
    simulate(async {
        let (world, log) = transactional(6).await;
        let (other, longer) = transactional(9).await;
        let end = log.log_end_offset().0;
        let expected = {
            let next = world.successor(world.disk().kill(1));
            told(&next.try_open(options(), true, end, 0).await.unwrap()).await
        };
        let newest = format!("{:020}.snapshot", longer.log_end_offset().0);
        let bytes = other.disk().contents(&path(&newest)).unwrap();
        for at in [end, end + 1, end + 70, 1 << 40] {
            for (clean, point) in [(true, end), (false, end), (false, 0), (false, 1 << 40)] {
                let disk = world.disk().kill(1);
                disk.put(&path(&format!("{at:020}.snapshot")), &bytes)
                    .unwrap();
                let next = world.successor(disk);
                let log = next.try_open(options(), clean, point, 0).await.unwrap();
                assert_eq!(log.log_end_offset().0, end, "{at} {clean} {point}");
                assert_eq!(told(&log).await, expected, "{at} {clean} {point}");
            }
        }
    });
}
