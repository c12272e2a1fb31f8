//! The loss of the journal's device: everything in the ring is in memory too, so the logs land and
//! go on without it, and no start reads the ring afterwards.

use std::io::ErrorKind;
use std::path::Path;

use platform::sim::{Effect, Fault, SimDisk};

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
