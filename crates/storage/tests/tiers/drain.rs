//! A path is emptied while the log is served: what is sealed, what is being written and what is
//! empty leave it, to another path of the same tier while one has room.

use std::path::Path;
use std::time::Duration;

use platform::sim::SimPlatform;
use storage::LogOptions;
use storage::tier::{Mover, TierPath};
use wire::types::Offset;

use super::scene::*;
use crate::world::*;

const GB: u64 = 1 << 30;
const OTHER_HOME: &str = "/logs2";
const OTHER_BULK: &str = "/bulk2";

/// Two paths on each tier; all have room.
fn wide() -> Scene {
    let tiers = vec![
        tier("fast", &[(DIR, GB), (OTHER_HOME, GB)]),
        tier("bulk", &[(BULK, GB), (OTHER_BULK, GB)]),
    ];
    Scene::of(SimPlatform::new(11), store_options(), tiers)
}

fn path<'s>(scene: &'s Scene, dir: &str) -> &'s TierPath {
    let mut paths = scene.tiers.paths().iter();
    paths.find(|path| path.dir() == Path::new(dir)).unwrap()
}

fn bases(scene: &Scene, dir: &str) -> Vec<i64> {
    scene.bases_on(&format!("{dir}/orders-0"))
}

/// Moves and rolls, until some time after there are none.
async fn quiet(scene: &Scene) {
    for _ in 0..4 {
        scene.settle(still()).await;
        scene.clock().sleep(Duration::from_secs(1)).await;
    }
}

async fn restarted(scene: &Scene, end: i64) -> (Scene, SimLog) {
    let next = scene.successor(scene.disk().crash(4), store_options());
    let log = next.try_open(options(), false, 0, 0).await.unwrap();
    assert_eq!(log.log_end_offset().0, end);
    (next, log)
}

#[test]
fn a_path_of_the_slower_tier_is_emptied_to_its_neighbour() {
    simulate(async {
        let scene = wide();
        let log = scene.open(options()).await;
        fill(&log, 4).await;
        scene.settle(eager()).await;
        let full = [BULK, OTHER_BULK].map(|dir| bases(&scene, dir).len());
        assert_eq!(full.iter().sum::<usize>(), 4);
        let (leave, stay) = if full[0] > 0 {
            (BULK, OTHER_BULK)
        } else {
            (OTHER_BULK, BULK)
        };
        path(&scene, leave).set_draining(true);
        quiet(&scene).await;
        assert_eq!(path(&scene, leave).segments(), 0);
        assert_eq!(bases(&scene, stay).len(), 4, "none went up");
        let end = log.log_end_offset().0;
        assert_holds(&log, 0, end).await;
        let (next, log) = restarted(&scene, end).await;
        assert_holds(&log, 0, end).await;
        assert_eq!(bases(&next, stay).len(), 4);
    });
}

#[test]
fn a_log_directory_is_emptied_to_its_neighbour_and_the_home_stays() {
    simulate(async {
        let scene = wide();
        let log = scene.open(options()).await;
        fill(&log, 3).await;
        path(&scene, DIR).set_draining(true);
        quiet(&scene).await;
        fill(&log, 5).await;
        quiet(&scene).await;
        assert_eq!(path(&scene, DIR).segments(), 0);
        assert!(bases(&scene, DIR).is_empty());
        assert_eq!(bases(&scene, OTHER_HOME).len(), 6, "nothing went down");
        let end = log.log_end_offset().0;
        assert_holds(&log, 0, end).await;
        let (next, log) = restarted(&scene, end).await;
        assert_holds(&log, 0, end).await;
        assert!(next.has(FOLDER, "partition.metadata"));
        assert!(!next.has("/logs2/orders-0", "partition.metadata"));
        // When it is used again, what is new is at home, and what was moved stays.
        fill(&log, 7).await;
        assert_holds(&log, 0, log.log_end_offset().0).await;
        assert!(!bases(&next, DIR).is_empty());
    });
}

#[test]
fn what_comes_up_goes_to_the_neighbour_of_a_home_that_is_left() {
    simulate(async {
        let scene = wide();
        let log = scene.open(options()).await;
        fill(&log, 3).await;
        scene.settle(eager()).await;
        path(&scene, DIR).set_draining(true);
        for base in log.tiers().sealed_segments() {
            log.tiers().ask_for_tier(base, 0);
        }
        quiet(&scene).await;
        assert!(bases(&scene, DIR).is_empty());
        assert_eq!(bases(&scene, OTHER_HOME).len(), 5);
        assert_holds(&log, 0, log.log_end_offset().0).await;
    });
}

/// A log with nothing left but the name that says where it goes on.
async fn hollow(scene: &Scene, pins: Option<(usize, usize)>) -> (SimLog, i64) {
    let hollow = LogOptions {
        retention_ms: Some(1),
        tier_pins: pins,
        reserve_bytes: 0,
        file_delete_delay_ms: 1,
        ..options()
    };
    let log = scene.open(hollow).await;
    produce(&log, 7, 100).await;
    log.set_high_watermark(log.durable_offset());
    assert_eq!(log.retain(NOW_MS + 1_000_000).await.unwrap(), 1);
    assert_eq!(log.log_start_offset(), Offset(7));
    (log, 7)
}

#[test]
fn an_empty_log_leaves_a_drained_path_too_and_goes_on_where_it_was() {
    for (pins, from, to) in [
        (None, DIR, OTHER_HOME),
        (Some((1, 1)), BULK, OTHER_BULK),
        (Some((1, 1)), OTHER_BULK, BULK),
    ] {
        simulate(async {
            let scene = wide();
            path(&scene, to).set_cordoned(true);
            let (log, end) = hollow(&scene, pins).await;
            assert_eq!(bases(&scene, from), [end]);
            path(&scene, to).set_cordoned(false);
            path(&scene, from).set_draining(true);
            quiet(&scene).await;
            assert_eq!(bases(&scene, from), [0; 0], "from {from}");
            assert_eq!(bases(&scene, to), [end], "to {to}");
            let (next, log_again) = restarted(&scene, end).await;
            produce(&log_again, 3, 100).await;
            assert_holds(&log_again, end, end + 3).await;
            assert_eq!(bases(&next, to), [end]);
            drop(log);
        });
    }
}

#[test]
fn records_that_come_while_an_empty_log_leaves_are_kept() {
    for turns in 0..40 {
        simulate(async {
            let scene = wide();
            let (log, end) = hollow(&scene, None).await;
            path(&scene, DIR).set_draining(true);
            let mut mover = Mover::new(&scene.world.store, still()).unwrap();
            drop(mover.turn(&scene.world.store).await);
            for _ in 0..turns {
                platform::task::yield_now().await;
            }
            produce(&log, 3, 100).await;
            quiet(&scene).await;
            assert_holds(&log, end, end + 3).await;
            let (_next, log) = restarted(&scene, end + 3).await;
            assert_holds(&log, end, end + 3).await;
        });
    }
}

/// Has an empty log leave a drained path, up to the `k`-th operation of the disk; true when that is
/// done before.
async fn leave_until(scene: &Scene, k: u64) -> bool {
    let mut mover = Mover::new(&scene.world.store, still()).unwrap();
    drop(mover.turn(&scene.world.store).await);
    let millisecond = Duration::from_millis(1);
    scene.disk().set_latency(millisecond, millisecond);
    let last = scene.disk().operations() + k;
    for _ in 0..1000 {
        if scene.disk().operations() >= last {
            return false;
        }
        scene.clock().sleep(millisecond / 2).await;
    }
    true
}

#[test]
fn an_empty_log_on_its_way_between_slow_paths_gives_no_offset_away_twice_when_either_is_missing() {
    simulate(async {
        for k in 1.. {
            let scene = wide();
            path(&scene, OTHER_BULK).set_cordoned(true);
            let (log, end) = hollow(&scene, Some((1, 1))).await;
            assert_eq!(bases(&scene, BULK), [end]);
            path(&scene, OTHER_BULK).set_cordoned(false);
            path(&scene, BULK).set_draining(true);
            let is_done = leave_until(&scene, k).await;
            for missing in [BULK, OTHER_BULK] {
                for crashes in [false, true] {
                    let told = format!("after {k} operations, without {missing}, {crashes}");
                    let disk = if crashes {
                        scene.disk().crash(k)
                    } else {
                        scene.disk().kill(k)
                    };
                    let next = scene.successor(disk, store_options());
                    path(&next, missing).fail("it is not mounted");
                    let found = next.try_open(options(), false, 0, 0).await;
                    let found = found.map(|log| log.log_end_offset().0);
                    let is_right = match &found {
                        Ok(found) => *found == end,
                        Err(error) => matches!(error, storage::Error::Offline { .. }),
                    };
                    assert!(is_right, "{told}: {found:?}");
                    let again = next.successor(next.disk().crash(k), store_options());
                    let log = again.try_open(options(), false, 0, 0).await.unwrap();
                    assert_eq!(log.log_end_offset().0, end, "{told}");
                    produce(&log, 3, 100).await;
                    assert_holds(&log, end, end + 3).await;
                }
            }
            drop(log);
            if is_done {
                assert!(k > 5, "{k}: it has not left");
                break;
            }
        }
    });
}
