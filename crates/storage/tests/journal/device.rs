//! The loss of the journal's device: everything in the ring is in memory too, so the logs land and
//! go on without it, and no start reads the ring afterwards.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use platform::Disk as _;
use platform::sim::{Effect, Fault, OpKind, SimDisk};
use platform::task;
use storage::journal::JournalError;
use storage::journal::names::ring_path;
use storage::journal::start::{SettledDirectory, UnsettledDirectory, settle};
use storage::journal::void;
use wire::types::Offset;

use crate::life::{live, watched};
use crate::scene::*;
use crate::world::*;

/// Has the ring's device fail from the `k`-th operation on.
fn breaks_from(disk: &SimDisk, k: u64) -> impl FnMut() {
    let disk = disk.clone();
    let mut is_broken = false;
    move || {
        if !is_broken && disk.operations() >= k {
            disk.set_broken(Path::new(FAST), Some(ErrorKind::Other));
            is_broken = true;
        }
    }
}

#[test]
fn the_logs_go_on_without_the_device_of_their_journal() {
    for k in (80..520).step_by(29) {
        println!("operation {k}");
        simulate(async {
            let (mut shard, known) = (Shard::on(new_disk(12), FAST), KnownDirectory::default());
            let disk = shard.disk().clone();
            let mut breaks = breaks_from(&disk, k);
            let look = || {
                breaks();
                false
            };
            let ended = watched(&disk, live(&mut shard, &known), look).await;
            let book = known.borrow().clone();
            assert!(
                ended.is_some_and(|ended| ended.is_ok()) || shard.logs.len() < LOGS,
                "the logs have all in memory"
            );
            let next = shard.successor(shard.disk().crash(k));
            next.disk().set_broken(Path::new(FAST), None);
            check(next, &book).await;
        });
    }
}

#[test]
fn a_loss_of_power_while_the_logs_go_on_without_it_loses_nothing() {
    for k in (90..400).step_by(31) {
        for later in [1, 4, 9, 20, 45, 80] {
            println!("operation {k}, and {later} later");
            simulate(async {
                let (mut shard, known) = (Shard::on(new_disk(13), FAST), KnownDirectory::default());
                let disk = shard.disk().clone();
                disk.inject(Fault::at(k + later, Effect::PowerOff));
                let mut breaks = breaks_from(&disk, k);
                let look = || {
                    breaks();
                    disk.faults_left() == 0
                };
                drop(watched(&disk, live(&mut shard, &known), look).await);
                let book = known.borrow().clone();
                let next = shard.successor(shard.disk().crash(k));
                next.disk().set_broken(Path::new(FAST), None);
                check(next, &book).await;
            });
        }
    }
}

/// A shard that has lost the device of its ring after a record was in it.
async fn lost(writes_again: bool) -> Shard {
    let mut shard = Shard::on(new_disk(14), FAST);
    shard.start(&Directory::default()).await.unwrap();
    produce(&shard.logs[0], 1, 100).await;
    shard
        .disk()
        .set_broken(Path::new(FAST), Some(ErrorKind::Other));
    if writes_again {
        produce(&shard.logs[0], 1, 100).await;
        shard.sleep(1000).await;
    }
    let next = shard.successor(shard.disk().crash(1));
    next.disk()
        .set_broken(Path::new(FAST), Some(ErrorKind::Other));
    next
}

#[test]
fn a_void_ring_keeps_no_start_from_its_way_though_its_device_stays_broken() {
    simulate(async {
        let next = lost(true).await;
        next.settle().await.unwrap();
        // From now on nothing in it counts.
        next.settle().await.unwrap();
        next.disk().set_broken(Path::new(FAST), None);
        next.prepare().await.unwrap();
    });
}

#[test]
fn a_ring_that_counts_is_read_or_its_directory_is_not_used() {
    simulate(async {
        let next = lost(false).await;
        let refused = next.settle().await.unwrap_err().to_string();
        assert!(
            refused.contains(FAST) && refused.contains(".ring"),
            "{refused}"
        );
        next.disk().set_broken(Path::new(FAST), None);
        next.settle().await.unwrap();
    });
}

#[test]
fn a_start_whose_disk_has_no_room_left_is_unmarked_all_the_same() {
    simulate(async {
        let mut shard = Shard::on(new_disk(15), FAST);
        shard.start(&Directory::default()).await.unwrap();
        produce(&shard.logs[0], 1, 100).await;
        shard.sleep(500).await;
        let next = shard.successor(shard.disk().crash(1));
        next.disk().set_capacity_bytes(Some(1));
        next.settle().await.unwrap();
    });
}

/// Settles as a start does whose settings have the rings in `also_in`.
async fn settle_as_told(
    shard: &Shard,
    also_in: Option<&str>,
    gives_up: bool,
) -> Result<SettledDirectory, JournalError> {
    let also_in: Vec<_> = also_in.into_iter().map(PathBuf::from).collect();
    let dir = UnsettledDirectory {
        path: Path::new(DIR),
        rings_dir: None,
        also_in: &also_in,
        gives_up,
    };
    settle(&shard.world.platform, &dir).await
}

/// A start after a shard with a record in its ring only.
async fn with_a_record_in_the_ring(seed: u64) -> Shard {
    let mut shard = Shard::on(new_disk(seed), FAST);
    shard.start(&Directory::default()).await.unwrap();
    produce(&shard.logs[0], 1, 100).await;
    shard.successor(shard.disk().crash(1))
}

async fn has_the_record(shard: &Shard) {
    let log = shard.open(0, &Directory::default()).await.unwrap();
    assert_eq!(log.log_end_offset(), Offset(1));
}

fn ring_in(dir: &str) -> PathBuf {
    ring_path(Path::new(dir), directory_id(), 0)
}

#[test]
fn a_ring_whose_device_takes_no_writes_any_more_is_read() {
    simulate(async {
        let next = with_a_record_in_the_ring(16).await;
        next.disk().set_read_only_below(Path::new(FAST), true);
        next.settle().await.unwrap();
        has_the_record(&next).await;
    });
}

#[test]
fn a_ring_that_moved_is_found_where_the_settings_say_and_not_written_to() {
    simulate(async {
        let next = with_a_record_in_the_ring(17).await;
        let bytes = next.disk().contents(&ring_in(FAST)).unwrap();
        next.disk().remove_file(&ring_in(FAST)).await.unwrap();
        next.disk().put(&ring_in("/moved"), &bytes).unwrap();
        let told = settle_as_told(&next, None, false).await.unwrap_err();
        assert!(told.to_string().contains("forebay recover"), "{told}");
        // Nothing is given up that is there.
        let settled = settle_as_told(&next, Some("/moved"), true).await.unwrap();
        assert!(settled.given_up.is_empty(), "{settled:?}");
        has_the_record(&next).await;
        // The directory may be a copy of one that needs it.
        let after = next.disk().contents(&ring_in("/moved")).unwrap();
        assert!(after == bytes, "a replay does not write to a ring");
    });
}

#[test]
fn a_ring_is_not_given_up_because_the_machine_lacks_descriptors() {
    simulate(async {
        let next = with_a_record_in_the_ring(18).await;
        next.disk().inject(Fault {
            path_contains: Some(".ring".to_owned()),
            ..Fault::at_kind(0, OpKind::Open, Effect::Errno(24))
        });
        settle_as_told(&next, None, true).await.unwrap_err();
        next.settle().await.unwrap();
        has_the_record(&next).await;
    });
}

#[test]
fn a_damaged_void_mark_refuses_the_start_until_the_ring_is_given_up() {
    simulate(async {
        let next = lost(true).await;
        let mark = void::path_in(Path::new(DIR), &ring_in(FAST)).unwrap();
        next.disk().put(&mark, b"x").unwrap();
        let told = settle_as_told(&next, None, false).await.unwrap_err();
        let told = told.to_string();
        assert!(
            told.contains(&*mark.to_string_lossy()) && told.contains("--forget-journals"),
            "{told}"
        );
        let settled = settle_as_told(&next, None, true).await.unwrap();
        assert_eq!(settled.given_up.len(), 1);
        next.settle().await.unwrap();
    });
}

#[test]
fn a_log_is_cut_only_when_no_start_reads_a_commit_that_failed() {
    for seed in 0..30 {
        simulate(async {
            let mut shard = Shard::on(new_disk(seed), FAST);
            shard.start(&Directory::default()).await.unwrap();
            // The commit is in the ring all the same, or parts of it are.
            for (path, fault) in [
                (
                    ".ring",
                    Fault::at_kind(0, OpKind::WriteDurably, Effect::Fail(ErrorKind::Other)),
                ),
                (
                    ".void",
                    Fault::at(0, Effect::Slow(std::time::Duration::from_secs(5))),
                ),
            ] {
                shard.disk().inject(Fault {
                    path_contains: Some(path.to_owned()),
                    ..fault
                });
            }
            let log = shard.logs[0].clone();
            for at in 0..3 {
                append(&log, 1, 100 + at);
            }
            log.flush().await.unwrap();
            let cutting = log.clone();
            let cut = task::spawn(async move { cutting.truncate_to(Offset(1)).await });
            shard.sleep(200).await;
            if log.log_end_offset() == Offset(1) {
                produce(&log, 1, 700).await;
            }
            let next = shard.successor(shard.disk().crash(seed));
            next.settle().await.unwrap();
            cut.abort();
        });
    }
}

#[test]
fn of_a_damaged_ring_that_is_given_up_what_is_before_the_damage_is_taken() {
    simulate(async {
        let mut shard = Shard::on(new_disk(19), FAST);
        shard.start(&Directory::default()).await.unwrap();
        for log in &shard.logs {
            produce(log, 1, 100).await;
        }
        let next = shard.successor(shard.disk().crash(1));
        let mut bytes = next.disk().contents(&ring_in(FAST)).unwrap();
        let commits = bytes.chunks_exact(4096).enumerate();
        let commits: Vec<_> = commits
            .filter(|(_, block)| block.starts_with(b"FBJc"))
            .map(|(at, _)| at * 4096)
            .collect();
        assert_eq!(commits.len(), LOGS);
        bytes[commits[2] + 150] ^= 1;
        next.disk().put(&ring_in(FAST), &bytes).unwrap();
        let told = settle_as_told(&next, None, false).await.unwrap_err();
        assert!(matches!(told, JournalError::Damaged { .. }), "{told}");
        assert!(told.remedy().is_some_and(|it| it.contains("journal show")));
        let settled = settle_as_told(&next, None, true).await.unwrap();
        assert_eq!(settled.given_up.len(), 1, "{settled:?}");
        for (at, end) in [(0, 1), (1, 1), (2, 0), (3, 0)] {
            let log = next.open(at, &Directory::default()).await.unwrap();
            assert_eq!(log.log_end_offset(), Offset(end), "log {at}");
        }
    });
}
