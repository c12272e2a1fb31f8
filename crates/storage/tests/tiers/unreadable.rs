//! A start meets what it cannot read, or more than one of a thing, on a tier's path: the rest of
//! the log is served, and nothing is lost.

use std::path::{Path, PathBuf};

use platform::disk::Disk;
use platform::sim::{Effect, Fault, OpKind, SimPlatform};
use storage::LogOptions;
use wire::types::Offset;

use super::scene::*;
use crate::world::*;

const GB: u64 = 1 << 30;
const EIO: i32 = 5;
const SECOND: &str = "/second";
const SECOND_FOLDER: &str = "/second/orders-0";

fn small() -> LogOptions {
    LogOptions {
        segment_bytes: 8 << 10,
        ..options()
    }
}

fn data(folder: &str, base: i64) -> PathBuf {
    Path::new(folder).join(format!("{base:020}.log"))
}

/// A log of four sealed segments, closed; where they begin, and where it ends.
async fn left(scene: &Scene, moved: bool) -> (Vec<i64>, i64) {
    for dir in [BULK, SECOND] {
        let identity = Path::new(dir).join("meta.properties");
        scene.disk().put(&identity, b"version=1\n").unwrap();
    }
    let log = scene.open(small()).await;
    fill(&log, 4).await;
    if moved {
        scene.settle(eager()).await;
    }
    let bases = log.tiers().sealed_segments();
    let end = log.log_end_offset().0;
    log.close().await.unwrap();
    (bases.into_iter().map(|base| base.0).collect(), end)
}

fn cannot_read(scene: &Scene, file: &Path) {
    let fault = Fault {
        path_contains: Some(file.to_string_lossy().into_owned()),
        ..Fault::at_kind(0, OpKind::Read, Effect::Errno(EIO))
    };
    scene.disk().inject(fault);
}

#[test]
fn a_copy_that_nobody_noted_and_that_cannot_be_read_costs_only_its_path() {
    simulate(async {
        let scene = Scene::new(GB, GB);
        let (bases, end) = left(&scene, false).await;
        let base = bases[0];
        let bytes = scene.disk().contents(&data(FOLDER, base)).unwrap();
        let copy = data(BULK_FOLDER, base);
        scene.disk().put(&copy, &bytes).unwrap();
        let next = scene.successor(scene.disk().kill(1), store_options());
        cannot_read(&next, &copy);
        let log = next.try_open(small(), true, end, 0).await.unwrap();
        assert_eq!(next.disk().faults_left(), 0, "it was read");
        assert!(next.path(1).failed().is_some() && next.path(0).failed().is_none());
        assert_eq!(log.log_end_offset().0, end);
        // No note says that the other copy counts.
        assert_holds(&log, 0, end).await;
    });
}

#[test]
fn what_lies_beside_a_segment_that_cannot_be_read_is_not_set_aside() {
    simulate(async {
        let tiers = vec![
            tier("fast", &[(DIR, GB)]),
            tier("bulk", &[(BULK, GB), (SECOND, GB)]),
        ];
        let scene = Scene::of(SimPlatform::new(11), store_options(), tiers);
        scene.tiers.paths()[2].set_draining(true);
        let (bases, end) = left(&scene, true).await;
        // The last one is on the other path, and home has lost its note.
        let disk = scene.disk().kill(1);
        let last = bases[3];
        let bytes = disk.contents(&data(BULK_FOLDER, last)).unwrap();
        disk.put(&data(SECOND_FOLDER, last), &bytes).unwrap();
        disk.remove_file(&data(BULK_FOLDER, last)).await.unwrap();
        let note = Path::new(FOLDER).join(format!("{last:020}.away"));
        disk.remove_file(&note).await.unwrap();
        let next = scene.successor(disk, store_options());
        cannot_read(&next, &data(BULK_FOLDER, bases[2]));
        let log = next.try_open(small(), true, end, 0).await.unwrap();
        assert_eq!(next.disk().faults_left(), 0, "it was read");
        assert_eq!(next.metrics.set_aside.get(), 0);
        assert_eq!((log.log_start_offset().0, log.log_end_offset().0), (0, end));
        drop(log);
        let again = next.successor(next.disk().kill(2), store_options());
        let log = again.try_open(small(), true, end, 0).await.unwrap();
        assert_holds(&log, 0, end).await;
    });
}

#[test]
fn a_copy_without_batches_is_no_reason_to_remove_one_that_has_some() {
    simulate(async {
        let scene = Scene::new(GB, GB);
        let (bases, end) = left(&scene, true).await;
        let base = bases[3];
        let disk = scene.disk().kill(1);
        let file = data(BULK_FOLDER, base);
        let bytes = disk.contents(&file).unwrap();
        // What the note names is empty, and the records are at home.
        disk.put(&file, b"").unwrap();
        disk.put(&data(FOLDER, base), &bytes).unwrap();
        let next = scene.successor(disk, store_options());
        drop(next.try_open(small(), true, end, 0).await);
        let aside = PathBuf::from(format!("{}.aside", data(FOLDER, base).display()));
        assert_eq!(next.disk().contents(&aside).unwrap(), bytes);
    });
}

#[test]
fn a_base_offset_that_has_rotted_upwards_does_not_rank_a_copy_higher() {
    simulate(async {
        let scene = Scene::new(GB, GB);
        let (bases, end) = left(&scene, false).await;
        let disk = scene.disk().kill(1);
        let bytes = disk.contents(&data(FOLDER, bases[1])).unwrap();
        let mut rotten = bytes.clone();
        let last = last_batch(&rotten);
        // No CRC is over it.
        rotten[last + 4] |= 0x40;
        disk.put(&data(FOLDER, bases[1]), &rotten).unwrap();
        disk.put(&data(BULK_FOLDER, bases[1]), &bytes).unwrap();
        let next = scene.successor(disk, store_options());
        let log = next.try_open(small(), true, end, 0).await.unwrap();
        assert_holds(&log, 0, end).await;
    });
}

/// Where the last batch of a segment begins.
fn last_batch(bytes: &[u8]) -> usize {
    let (mut at, mut last) = (0, 0);
    while let Some(header) = wire::batch::BatchHeader::parse(&bytes[at..]) {
        last = at;
        at += header.size_bytes;
    }
    last
}

#[test]
fn a_start_without_room_does_not_fail_over_a_debt_of_which_a_part_is_paid() {
    simulate(async {
        let scene = Scene::new(GB, GB);
        let (bases, end) = left(&scene, true).await;
        let disk = scene.disk().kill(1);
        let base = bases[3] + 1;
        let path = scene.path(1);
        let id = wire::types::uuid_to_base64(path.identity().unwrap());
        let unknown = wire::types::uuid_to_base64(wire::types::Uuid::from_u128(77));
        let debts = format!("version: 1\ncopy {id} {BULK}\ncopy {unknown} /elsewhere\n");
        let note = Path::new(FOLDER).join(format!("{base:020}.owed"));
        disk.put(&note, debts.as_bytes()).unwrap();
        disk.put(&data(BULK_FOLDER, base), &batch(base, 1, 500))
            .unwrap();
        disk.set_capacity_of(Path::new(DIR), Some(1));
        let next = scene.successor(disk, store_options());
        let log = next.try_open(small(), true, end, 0).await.unwrap();
        assert_holds(&log, 0, end).await;
        assert!(!next.bases_on(BULK_FOLDER).contains(&base), "it was paid");
        assert_eq!(next.disk().contents(&note).unwrap(), debts.as_bytes());
    });
}

#[test]
fn a_segment_that_cannot_be_read_when_another_may_begin_within_it_costs_only_its_path() {
    simulate(async {
        let scene = Scene::new(GB, GB);
        let (bases, end) = left(&scene, true).await;
        let last = *scene.bases_on(BULK_FOLDER).last().unwrap();
        let other = data(BULK_FOLDER, last + 1);
        scene.disk().put(&other, &batch(last + 1, 2, 500)).unwrap();
        let next = scene.successor(scene.disk().kill(1), store_options());
        cannot_read(&next, &data(BULK_FOLDER, last));
        let log = next.try_open(small(), true, end, 0).await.unwrap();
        assert_eq!(next.disk().faults_left(), 0, "it was read");
        assert!(next.path(1).failed().is_some() && next.path(0).failed().is_none());
        assert_eq!(log.log_end_offset().0, end);
        assert_eq!(log.log_start_offset().0, bases[0], "they are known of");
    });
}

#[test]
fn of_three_copies_those_that_a_note_rules_out_go_when_the_one_that_counts_is_sound() {
    simulate(async {
        let tiers = vec![
            tier("fast", &[(DIR, GB)]),
            tier("bulk", &[(BULK, GB), (SECOND, GB)]),
        ];
        let scene = Scene::of(SimPlatform::new(11), store_options(), tiers);
        let (_, end) = left(&scene, true).await;
        let (folder, other) = if scene.bases_on(BULK_FOLDER).is_empty() {
            (SECOND_FOLDER, BULK_FOLDER)
        } else {
            (BULK_FOLDER, SECOND_FOLDER)
        };
        let base = scene.bases_on(folder)[0];
        let bytes = scene.disk().contents(&data(folder, base)).unwrap();
        scene.disk().put(&data(other, base), &bytes).unwrap();
        let mut damaged = bytes;
        damaged[200] ^= 1;
        scene.disk().put(&data(FOLDER, base), &damaged).unwrap();
        let next = scene.successor(scene.disk().kill(1), store_options());
        let log = next.try_open(small(), true, end, 0).await.unwrap();
        assert_holds(&log, 0, end).await;
        assert_eq!(next.metrics.set_aside.get(), 0);
        assert!(!next.bases_on(other).contains(&base));
        assert!(!next.bases_on(FOLDER).contains(&base));
    });
}

#[test]
fn what_is_set_aside_takes_the_name_of_nothing_that_was_set_aside_before() {
    simulate(async {
        let scene = Scene::new(GB, GB);
        let (bases, end) = left(&scene, false).await;
        let base = bases[1] + 1;
        let file = data(BULK_FOLDER, base);
        let bytes = batch(base, 2, 500).to_vec();
        let next = scene.successor(scene.disk().kill(1), store_options());
        next.disk().put(&file, &bytes).unwrap();
        let now_ms = next.clock().wall_ms();
        let times = (now_ms..now_ms + 20).map(|ms| format!(".{ms}"));
        let names = times.chain([String::new()]);
        let asides: Vec<_> = names
            .map(|time| PathBuf::from(format!("{}{time}.aside", file.display())))
            .collect();
        for (at, aside) in asides.iter().enumerate() {
            next.disk().put(aside, at.to_string().as_bytes()).unwrap();
        }
        let log = next.try_open(small(), true, end, 0).await.unwrap();
        assert_holds(&log, 0, end).await;
        assert!(!next.bases_on(BULK_FOLDER).contains(&base));
        for (at, aside) in asides.iter().enumerate() {
            let found = next.disk().contents(aside).unwrap();
            assert_eq!(found, at.to_string().as_bytes(), "{}", aside.display());
        }
        let entries = next.disk().list(Path::new(BULK_FOLDER)).await.unwrap();
        let there = entries
            .iter()
            .filter(|entry| entry.name.ends_with(".aside"));
        assert_eq!(there.count(), asides.len() + 1);
    });
}

#[test]
fn a_copy_that_is_owed_does_not_count_because_nobody_knows_where_the_right_one_is() {
    simulate(async {
        let scene = Scene::new(GB, GB);
        let (bases, end) = left(&scene, true).await;
        let disk = scene.disk().kill(1);
        let base = bases[1];
        let id = wire::types::uuid_to_base64(scene.path(1).identity().unwrap());
        let name = |what: &str| Path::new(FOLDER).join(format!("{base:020}.{what}"));
        disk.put(&name("away"), b"garbage").unwrap();
        let debt = format!("version: 1\ncopy {id} {BULK}\n");
        disk.put(&name("owed"), debt.as_bytes()).unwrap();
        let mut scene = scene.successor(disk, store_options());
        for life in 0..3 {
            let log = scene.try_open(small(), true, end, 0).await.unwrap();
            assert!(
                scene.bases_on(BULK_FOLDER).contains(&base),
                "life {life}: it may be all that is left"
            );
            assert_eq!((log.log_start_offset().0, log.log_end_offset().0), (0, end));
            let read = log.read(Offset(base), Offset(end), 1000, true).await;
            assert!(
                matches!(read, Err(storage::Error::Offline { .. })),
                "life {life}: {:?}",
                read.map(drop)
            );
            drop(log);
            scene = scene.successor(scene.disk().kill(life), store_options());
        }
    });
}

#[test]
fn a_copy_that_nobody_noted_is_served_while_its_twin_is_on_a_path_with_something_unreadable() {
    simulate(async {
        let tiers = vec![
            tier("fast", &[(DIR, GB)]),
            tier("bulk", &[(BULK, GB), (SECOND, GB)]),
        ];
        let scene = Scene::of(SimPlatform::new(11), store_options(), tiers);
        let (bases, end) = left(&scene, false).await;
        let disk = scene.disk().kill(1);
        // On the slow path: the copy of one segment that home has, too, and an unfinished
        // compaction's file.
        for base in [bases[3], bases[2]] {
            let bytes = disk.contents(&data(FOLDER, base)).unwrap();
            disk.put(&data(BULK_FOLDER, base), &bytes).unwrap();
        }
        let bytes = disk.contents(&data(FOLDER, bases[0])).unwrap();
        let swap = Path::new(BULK_FOLDER).join(format!("{:020}.log.swap", bases[0]));
        disk.put(&swap, &bytes).unwrap();
        let next = scene.successor(disk, store_options());
        cannot_read(&next, &swap);
        let log = next.try_open(small(), true, end, 0).await.unwrap();
        assert_eq!(next.disk().faults_left(), 0, "it was read");
        assert_holds(&log, 0, end).await;
    });
}

#[test]
fn a_note_that_is_none_costs_nothing_and_a_list_of_debts_that_is_none_is_named() {
    simulate(async {
        let scene = Scene::new(GB, GB);
        let (bases, end) = left(&scene, true).await;
        let disk = scene.disk().kill(1);
        let name = |kind: &str| Path::new(FOLDER).join(format!("{:020}.{kind}", bases[0]));
        disk.put(&name("away"), &vec![b'x'; 17 << 20]).unwrap();
        let next = scene.successor(disk, store_options());
        let log = next.try_open(small(), true, end, 0).await.unwrap();
        assert_holds(&log, 0, end).await;
        drop(log);
        let disk = next.disk().kill(1);
        // Reading all of it compares each line with each.
        disk.put(&name("owed"), &b"copy x\n".repeat(10_000))
            .unwrap();
        let next = scene.successor(disk, store_options());
        let refused = next.try_open(small(), true, end, 0).await;
        let error = refused.map(drop).unwrap_err().to_string();
        assert!(error.contains(".owed"), "{error}");
    });
}
