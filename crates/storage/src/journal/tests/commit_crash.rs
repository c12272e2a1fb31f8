//! The k-th disk operation of a journal's life fails, or is the last before the power goes, for
//! every k: what was acknowledged is read back or has landed, in order, and nothing else is.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use platform::sim::{Effect, Fault, Rng, SimDisk};
use platform::task;

use super::commit_story::{SharedLedger, live, start};
use super::ring_file::{PATH, new_disk, simulate};
use crate::journal::header::Header;

/// How a life ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    PowerCut,
    Killed,
}

/// Lives on a disk, until the callers are done or have their errors; returns the disk after.
async fn live_and_end(disk: &SimDisk, known: &SharedLedger, seed: u64, end: End) -> SimDisk {
    let life = live(disk.clone(), SharedLedger::clone(known), seed);
    let ended = task::timeout(Duration::from_hours(3), life).await;
    ended.expect("nobody waits for ever");
    // Each story meets another end.
    let seed = disk.trace_hash();
    match end {
        End::PowerCut => {
            let after = disk.crash(seed);
            rot_a_header(&after, seed);
            after
        }
        End::Killed => disk.kill(seed),
    }
}

/// Damages one of two headers that are whole, sometimes: the other one leads to all that counts.
fn rot_a_header(disk: &SimDisk, seed: u64) {
    let path = Path::new(PATH);
    let Ok(file) = disk.contents(path) else {
        return;
    };
    let mut rng = Rng::new(seed);
    let are_whole = [0, 4096].map(|at| Header::decode(&file[at..at + 4096]).is_ok());
    if are_whole == [true, true] && rng.chance(40) {
        let place = rng.below(8192);
        disk.flip(path, place, 3).unwrap();
    }
}

/// A life that meets a fault, one that may lose power as well, and a start after that.
///
/// Returns false when the fault did not strike.
fn story(seed: u64, fault: Fault, end: End, counts: &mut BTreeMap<&'static str, usize>) -> bool {
    simulate(async {
        let known = SharedLedger::default();
        let disk = new_disk(seed).await;
        disk.set_latency(Duration::ZERO, Duration::from_millis(3));
        disk.inject(fault);
        let next = live_and_end(&disk, &known, seed, end).await;
        let struck = disk.faults_left() == 0;
        let mut rng = Rng::new(seed);
        // The next life meets less: it is the start on what the first has left that counts.
        next.inject(Fault::at(rng.below(70), Effect::PowerOff));
        let last = live_and_end(&next, &known, seed + 1000, End::PowerCut).await;
        let started = start(&last, &known, &mut rng).await;
        if let Err(error) = started {
            panic!("{error}");
        }
        for (what, count) in &known.borrow().counts {
            *counts.entry(what).or_default() += count;
        }
        struck
    })
}

/// Tells the same story with the fault at each operation.
fn at_each_operation(effect: Effect, end: End, seeds: u64) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for seed in 0..seeds {
        let mut operations = 0;
        while story(seed, Fault::at(operations, effect), end, &mut counts) {
            operations += 1;
        }
        assert!(operations > 60, "{operations} operations are no life");
    }
    counts
}

#[test]
fn the_power_goes_at_each_operation() {
    let counts = at_each_operation(Effect::PowerOff, End::PowerCut, 2);
    for what in [
        "acknowledged",
        "read back",
        "landed",
        "dropped",
        "failed",
        "cut",
    ] {
        assert!(counts[what] > 100, "{counts:?}");
    }
    assert!(counts["waited to cut"] > 5, "{counts:?}");
}

#[test]
fn the_process_is_killed_at_each_operation_and_the_power_goes_later() {
    let counts = at_each_operation(Effect::PowerOff, End::Killed, 2);
    assert!(counts["read back"] > 100, "{counts:?}");
}

#[test]
fn each_operation_fails_once() {
    let counts = at_each_operation(Effect::Fail(ErrorKind::Other), End::PowerCut, 1);
    assert!(counts["failed"] > 50, "{counts:?}");
    let counts = at_each_operation(Effect::Fail(ErrorKind::StorageFull), End::PowerCut, 1);
    assert!(counts["failed"] > 50, "{counts:?}");
}

#[test]
fn many_lives_follow_each_other_on_one_ring() {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 0..15 {
        simulate(async {
            let known = SharedLedger::default();
            let mut disk = new_disk(seed).await;
            let mut rng = Rng::new(seed);
            for life in 0..8 {
                disk.set_latency(Duration::ZERO, Duration::from_millis(rng.below(4)));
                disk.inject(Fault::at(rng.below(160), Effect::PowerOff));
                let end = if rng.chance(50) {
                    End::PowerCut
                } else {
                    End::Killed
                };
                disk = live_and_end(&disk, &known, seed * 100 + life, end).await;
            }
            if let Err(error) = start(&disk, &known, &mut rng).await {
                panic!("{error}");
            }
            for (what, count) in &known.borrow().counts {
                *counts.entry(*what).or_default() += count;
            }
        });
    }
    assert!(
        counts["read back"] > 100 && counts["landed"] > 100,
        "{counts:?}"
    );
}

#[test]
fn the_same_seed_tells_the_same_story() {
    let tell = |seed| {
        simulate(async {
            let disk = new_disk(seed).await;
            disk.set_latency(Duration::ZERO, Duration::from_millis(3));
            live_and_end(&disk, &SharedLedger::default(), seed, End::PowerCut).await;
            disk.trace_hash()
        })
    };
    assert_eq!(tell(3), tell(3));
    assert_ne!(tell(3), tell(4));
}
