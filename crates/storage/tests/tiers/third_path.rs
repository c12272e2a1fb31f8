//! A segment on its way from one slow path to another, while home is a third: whatever ends the
//! process, and whichever of the two paths is missing afterwards, nothing is lost, and nothing that
//! was deleted comes back.

use std::future::poll_fn;
use std::path::Path;
use std::task::Poll;

use platform::sim::{Effect, Fault, OpKind, SimDisk, SimPlatform};
use storage::LogOptions;
use storage::tier::Mover;

use super::scene::*;
use crate::world::*;

const GB: u64 = 1 << 30;
const SECOND: &str = "/second";
const SECOND_FOLDER: &str = "/second/orders-0";

fn small() -> LogOptions {
    LogOptions {
        segment_bytes: 8 << 10,
        file_delete_delay_ms: 1,
        preallocate: false,
        ..options()
    }
}

/// Two sealed segments on one of two slow paths, by number, and the other.
async fn on_a_slow_path() -> (Scene, SimLog, [usize; 2]) {
    let (scene, log) = at_home().await;
    scene.tiers.paths()[2].set_draining(true);
    scene.settle(eager()).await;
    scene.tiers.paths()[2].set_draining(false);
    assert_eq!(scene.bases_on(BULK_FOLDER).len(), 2);
    (scene, log, [1, 2])
}

/// Two sealed segments of several batches at home, beside two slow paths.
async fn at_home() -> (Scene, SimLog) {
    let tiers = vec![
        tier("fast", &[(DIR, GB)]),
        tier("bulk", &[(BULK, GB), (SECOND, GB)]),
    ];
    let scene = Scene::of(SimPlatform::new(11), store_options(), tiers);
    for dir in [BULK, SECOND] {
        let identity = Path::new(dir).join("meta.properties");
        scene.disk().put(&identity, b"version=1\n").unwrap();
    }
    let log = scene.open(small()).await;
    while log.segment_count() <= 2 {
        produce(&log, 3, 600).await;
    }
    log.set_high_watermark(log.durable_offset());
    log.save().await.unwrap();
    (scene, log)
}

fn folder(path: usize) -> &'static str {
    [FOLDER, BULK_FOLDER, SECOND_FOLDER][path]
}

/// Lets moves go on up to the `k`-th operation of the disk; true when they are done before.
async fn move_until(scene: &Scene, k: u64) -> bool {
    let last = scene.disk().operations() + k;
    let mut mover = Mover::new(&scene.world.store, still()).unwrap();
    let turn = async {
        for moved in mover.turn(&scene.world.store).await {
            moved.await.unwrap();
        }
    };
    let mut turn = Box::pin(turn);
    poll_fn(|context| {
        context.waker().wake_by_ref();
        if turn.as_mut().poll(context).is_ready() {
            return Poll::Ready(true);
        }
        if scene.disk().operations() >= last {
            return Poll::Ready(false);
        }
        Poll::Pending
    })
    .await
}

async fn without(scene: &Scene, disk: SimDisk, missing: usize, end: i64) -> (Scene, SimLog) {
    let next = scene.successor(disk, store_options());
    next.tiers.paths()[missing].fail("it is not mounted");
    let log = next.try_open(small(), false, end, 0).await.unwrap();
    (next, log)
}

/// Each end of the move is missing once, at each operation of a move, after a kill or a loss of
/// power by turns.
fn each_end_is_missing(deletes: bool) {
    simulate(async {
        for k in 1.. {
            let (scene, log, ends) = on_a_slow_path().await;
            let end = log.log_end_offset().0;
            scene.tiers.paths()[ends[0]].set_draining(true);
            let is_done = move_until(&scene, k).await;
            for (at, missing) in ends.into_iter().enumerate() {
                let told = format!("after {k} operations, end {at} is missing");
                let disk = if (k + at as u64).is_multiple_of(2) {
                    scene.disk().kill(k)
                } else {
                    scene.disk().crash(k)
                };
                let (next, log) = without(&scene, disk, missing, end).await;
                let here = (log.log_start_offset().0, log.log_end_offset().0);
                assert_eq!(here, (0, end), "{told}: they are known of");
                if deletes {
                    log.set_high_watermark(log.log_end_offset());
                    log.set_options(LogOptions {
                        retention_bytes: Some(0),
                        ..small()
                    });
                    for turn in 0.. {
                        if log.retain(NOW_MS).await.unwrap() == 0 {
                            break;
                        }
                        assert!(turn < 100, "{told}: it never ends");
                    }
                    assert_eq!(log.log_start_offset().0, end, "{told}");
                }
                // As an operator who has forgotten the path, and then one who has not.
                let again = next.successor(next.disk().crash(k), store_options());
                let log = again.try_open(small(), false, end, 0).await.unwrap();
                let start = log.log_start_offset().0;
                assert_eq!(log.log_end_offset().0, end, "{told}");
                assert_eq!(start, if deletes { end } else { 0 }, "{told}");
                assert_holds(&log, start, end).await;
            }
            if is_done {
                assert!(k > 20, "{k}: nothing was moved");
                break;
            }
        }
    });
}

#[test]
fn a_move_between_slow_paths_loses_nothing_when_either_is_missing_after_it_was_ended() {
    each_end_is_missing(false);
}

#[test]
fn what_was_deleted_does_not_come_back_with_an_end_of_its_move_that_was_missing() {
    each_end_is_missing(true);
}

#[test]
fn a_copy_is_kept_while_the_path_of_the_one_that_counts_is_missing() {
    simulate(async {
        let mut kept = 0;
        for k in 1.. {
            let (scene, log, [from, to]) = on_a_slow_path().await;
            let end = log.log_end_offset().0;
            scene.tiers.paths()[from].set_draining(true);
            let is_done = move_until(&scene, k).await;
            let copies = scene.bases_on(folder(to));
            let (next, log) = without(&scene, scene.disk().kill(k), from, end).await;
            for base in copies {
                kept += 1;
                assert!(
                    next.has(folder(to), &format!("{base:020}.log")),
                    "after {k} operations the copy of {base} has gone"
                );
            }
            drop(log);
            if is_done {
                break;
            }
        }
        assert!(kept > 2, "{kept}");
    });
}

#[test]
fn a_source_that_keeps_its_files_on_a_full_disk_does_not_bring_back_what_was_deleted() {
    simulate(async {
        let (scene, log, [from, _]) = on_a_slow_path().await;
        let end = log.log_end_offset().0;
        scene.tiers.paths()[from].set_draining(true);
        let source = scene.bases_on(folder(from))[0];
        for _ in 0..4 {
            // It has become read-only.
            scene.disk().inject(Fault {
                path_contains: Some(format!("{}/{source:020}.log", folder(from))),
                ..Fault::at_kind(0, OpKind::Rename, Effect::Errno(30))
            });
        }
        scene.disk().set_capacity_of(Path::new(DIR), Some(1));
        scene.settle(still()).await;
        scene.disk().clear_faults();
        assert!(scene.bases_on(folder(from)).contains(&source), "it stays");
        assert!(log.failed().is_none(), "the log goes on");
        scene.disk().set_capacity_of(Path::new(DIR), None);
        log.set_high_watermark(log.log_end_offset());
        log.set_options(LogOptions {
            retention_bytes: Some(0),
            ..small()
        });
        while log.retain(NOW_MS).await.unwrap() > 0 {}
        assert_eq!(log.log_start_offset().0, end);
        let next = scene.successor(scene.disk().crash(1), store_options());
        let log = next.try_open(small(), false, end, 0).await.unwrap();
        assert_eq!(log.log_start_offset().0, end);
        assert_eq!(log.log_end_offset().0, end);
    });
}

#[test]
fn a_copy_at_the_other_end_of_a_move_counts_when_the_one_that_the_note_names_has_gone() {
    simulate(async {
        let mut both = 0;
        for k in 1..400 {
            let (scene, log, ends) = on_a_slow_path().await;
            let end = log.log_end_offset().0;
            scene.tiers.paths()[ends[0]].set_draining(true);
            let is_done = move_until(&scene, k).await;
            let disk = scene.disk().kill(k);
            let [from, to] = ends.map(|at| scene.bases_on(folder(at)));
            let twins: Vec<_> = from.into_iter().filter(|base| to.contains(base)).collect();
            for base in &twins {
                let note = Path::new(FOLDER).join(format!("{base:020}.away"));
                let text = String::from_utf8(disk.contents(&note).unwrap()).unwrap();
                let noted = if text.contains(SECOND) {
                    SECOND_FOLDER
                } else {
                    BULK_FOLDER
                };
                // Its disk had said that it was durable.
                let gone = Path::new(noted).join(format!("{base:020}.log"));
                platform::Disk::remove_file(&disk, &gone).await.unwrap();
                both += 1;
            }
            if !twins.is_empty() {
                // Once without the path that has it.
                for missing in [None, Some(ends[0]), Some(ends[1])] {
                    let told = format!("after {k} operations, without {missing:?}");
                    let next = scene.successor(disk.kill(k), store_options());
                    if let Some(missing) = missing {
                        next.tiers.paths()[missing].fail("it is not mounted");
                    }
                    let log = next.try_open(small(), false, end, 0).await.unwrap();
                    let found = (log.log_start_offset().0, log.log_end_offset().0);
                    assert_eq!(found, (0, end), "{told}");
                    drop(log);
                    let again = next.successor(next.disk().kill(k), store_options());
                    let log = again.try_open(small(), false, end, 0).await.unwrap();
                    assert_holds(&log, 0, end).await;
                    assert_eq!(again.metrics.set_aside.get(), 0, "{told}");
                }
            }
            if is_done {
                break;
            }
        }
        assert!(both > 2, "{both}");
    });
}

#[test]
fn a_start_on_a_full_home_disk_goes_on_beside_a_source_that_cannot_let_go_of_its_files() {
    simulate(async {
        let (scene, log, [from, _]) = on_a_slow_path().await;
        let end = log.log_end_offset().0;
        scene.tiers.paths()[from].set_draining(true);
        scene.disk().set_capacity_of(Path::new(DIR), Some(1));
        let source = Path::new([DIR, BULK, SECOND][from]);
        let moved = scene.bases_on(folder(from));
        scene.disk().set_read_only_below(source, true);
        scene.settle(still()).await;
        assert_eq!(scene.bases_on(folder(from)), moved, "they stay");
        let next = scene.successor(scene.disk().kill(1), store_options());
        let log = next.try_open(small(), false, end, 0).await.unwrap();
        assert_eq!((log.log_start_offset().0, log.log_end_offset().0), (0, end));
        assert_holds(&log, 0, end).await;
        // Room comes, what was deleted is deleted, and nothing of it comes back.
        next.disk().set_capacity_of(Path::new(DIR), None);
        log.set_high_watermark(log.log_end_offset());
        log.set_options(LogOptions {
            retention_bytes: Some(0),
            ..small()
        });
        for turn in 0.. {
            if log.retain(NOW_MS).await.unwrap() == 0 {
                break;
            }
            assert!(turn < 100, "it never ends");
        }
        assert_eq!(log.log_start_offset().0, end);
        let disk = next.disk().crash(2);
        disk.set_read_only_below(source, false);
        let again = next.successor(next.disk().crash(2), store_options());
        let log = again.try_open(small(), false, end, 0).await.unwrap();
        assert_eq!(
            (log.log_start_offset().0, log.log_end_offset().0),
            (end, end)
        );
    });
}

/// What a disk that said that all was durable may leave of a file.
fn spoiled(bytes: &[u8], how: u64) -> Vec<u8> {
    let half = wire::batch::BatchHeader::parse(bytes).unwrap().size_bytes;
    let mut left = bytes.to_vec();
    match how {
        0 => left[bytes.len() / 2] ^= 1,
        1 => left.truncate(half),
        2 => left.truncate(bytes.len() - 7),
        3 => left.clear(),
        _ => left[half..].fill(0),
    }
    left
}

/// A start that is ended after any operation, and one that may change nothing on a slow path, lose
/// nothing.
async fn assert_is_whole_after_any_start(scene: &Scene, disk: &SimDisk, end: i64, told: &str) {
    for k in (1..).step_by(3) {
        let first = scene.successor(disk.kill(k), store_options());
        let is_done = start_until(&first, end, k).await;
        let next = first.successor(first.disk().crash(k), store_options());
        let log = next.try_open(small(), false, end, 0).await.unwrap();
        assert_eq!(log.log_end_offset().0, end, "{told}, {k}");
        assert_holds(&log, 0, end).await;
        if is_done {
            break;
        }
    }
    for slow in [BULK, SECOND] {
        let mut disk = disk.kill(1);
        for is_read_only in [true, false] {
            disk.set_read_only_below(Path::new(slow), is_read_only);
            let next = scene.successor(disk, store_options());
            let log = next.try_open(small(), false, end, 0).await.unwrap();
            assert_holds(&log, 0, end).await;
            disk = next.disk().kill(2);
        }
    }
}

/// Polls a start up to the `k`-th operation of its disk; true when it is done before.
async fn start_until(scene: &Scene, end: i64, k: u64) -> bool {
    let last = scene.disk().operations() + k;
    let mut open = Box::pin(scene.try_open(small(), false, end, 0));
    poll_fn(|context| {
        context.waker().wake_by_ref();
        match open.as_mut().poll(context) {
            Poll::Ready(_) => Poll::Ready(true),
            Poll::Pending if scene.disk().operations() >= last => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// A start that has noted that the other copy counts has made its name durable before, which its
/// move had not.
async fn assert_noted_is_durable(scene: &Scene, disk: &SimDisk, end: i64, base: i64) -> usize {
    let note = Path::new(FOLDER).join(format!("{base:020}.away"));
    let before = disk.contents(&note).unwrap();
    let mut noted = 0;
    for k in 1.. {
        let first = scene.successor(disk.kill(k), store_options());
        let is_done = start_until(&first, end, k).await;
        for seed in 0..8 {
            let crashed = first.disk().crash(seed);
            if crashed.contents(&note).is_ok_and(|now| now == before) {
                continue;
            }
            noted += 1;
            let next = first.successor(crashed, store_options());
            let log = next.try_open(small(), false, end, 0).await.unwrap();
            assert_eq!(log.log_start_offset().0, 0, "after {k}, by {seed}");
            assert_holds(&log, 0, end).await;
        }
        if is_done {
            break;
        }
    }
    noted
}

/// The copies that the notes name are spoiled where a move has left two; with what else there is
/// the log is whole.
async fn spoil_the_noted(scene: &Scene, k: u64, end: i64, folders: [&str; 2]) -> usize {
    let [from, to] = folders.map(|folder| scene.bases_on(folder));
    let twins: Vec<_> = from.into_iter().filter(|base| to.contains(base)).collect();
    if twins.is_empty() {
        return 0;
    }
    let mut both = 0;
    for how in 0..5 {
        let disk = scene.disk().kill(k);
        let mut spoils = 0;
        for base in &twins {
            let note = Path::new(FOLDER).join(format!("{base:020}.away"));
            let Ok(text) = disk.contents(&note) else {
                continue;
            };
            let text = String::from_utf8(text).unwrap();
            let noted = if text.contains(SECOND) {
                SECOND_FOLDER
            } else {
                BULK_FOLDER
            };
            let file = Path::new(noted).join(format!("{base:020}.log"));
            let bytes = disk.contents(&file).unwrap();
            platform::Disk::remove_file(&disk, &file).await.unwrap();
            disk.put(&file, &spoiled(&bytes, how)).unwrap();
            spoils += 1;
        }
        if spoils == 0 {
            continue;
        }
        both += spoils;
        let told = format!("after {k} operations, spoiled by {how}");
        let may_be_lost = |base: &&i64| {
            let is_lost = |folder: &str| {
                let file = Path::new(folder).join(format!("{base:020}.log"));
                (0..8).any(|seed| disk.crash(seed).contents(&file).is_err())
            };
            folders.into_iter().any(is_lost)
        };
        if let Some(base) = twins.iter().find(may_be_lost) {
            assert!(assert_noted_is_durable(scene, &disk, end, *base).await > 0);
        }
        let durable = disk.kill(k);
        for folder in folders {
            // Until a start has found it, a name that is not durable may not outlive a loss of
            // power.
            let synced = platform::Disk::sync_dir(&durable, Path::new(folder)).await;
            synced.unwrap();
        }
        assert_is_whole_after_any_start(scene, &durable, end, &told).await;
        let next = scene.successor(disk.kill(k), store_options());
        let log = next.try_open(small(), false, end, 0).await.unwrap();
        let found = (log.log_start_offset().0, log.log_end_offset().0);
        assert_eq!(found, (0, end), "{told}");
        assert_holds(&log, 0, end).await;
        assert_eq!(next.metrics.set_aside.get(), spoils as u64, "{told}");
        let again = next.successor(next.disk().crash(k), store_options());
        let log = again.try_open(small(), false, end, 0).await.unwrap();
        assert_holds(&log, 0, end).await;
        assert_eq!(again.metrics.set_aside.get(), 0, "{told}");
    }
    both
}

#[test]
fn the_whole_copy_of_a_segment_that_was_being_moved_counts_when_the_noted_one_is_damaged() {
    simulate(async {
        let mut both = 0;
        for k in 1..400 {
            let (scene, log, ends) = on_a_slow_path().await;
            let end = log.log_end_offset().0;
            scene.tiers.paths()[ends[0]].set_draining(true);
            let is_done = move_until(&scene, k).await;
            both += spoil_the_noted(&scene, k, end, ends.map(folder)).await;
            if is_done {
                break;
            }
        }
        assert!(both > 10, "{both}");
    });
}

#[test]
fn home_s_whole_copy_counts_when_the_one_that_was_just_moved_is_damaged() {
    simulate(async {
        let mut both = 0;
        for k in 1..400 {
            let (scene, log) = at_home().await;
            let end = log.log_end_offset().0;
            for base in log.tiers().sealed_segments() {
                log.tiers().ask_for_tier(base, 1);
            }
            let is_done = move_until(&scene, k).await;
            for slow in [BULK_FOLDER, SECOND_FOLDER] {
                both += spoil_the_noted(&scene, k, end, [FOLDER, slow]).await;
            }
            if is_done {
                break;
            }
        }
        assert!(both > 10, "{both}");
    });
}
