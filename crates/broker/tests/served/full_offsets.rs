//! The disk of `__consumer_offsets` refuses, fills up or fails at any moment: a restart finds what
//! groups were answered, and groups are served again without one.

use std::io::ErrorKind;

use platform::sim::{Effect, Fault, OpKind, SimDisk};
use wire::types::ErrorCode;

use crate::harness::{Cluster, Setup, life};

const GROUPS: [&str; 4] = ["a", "b", "c", "d"];

fn faults(of: OpKind, nth: u64, kind: ErrorKind, count: usize) -> Vec<Fault> {
    let fault = Fault {
        path_contains: Some("/__consumer_offsets-".to_owned()),
        ..Fault::at_kind(nth, of, Effect::Fail(kind))
    };
    vec![fault; count]
}

async fn positions(cluster: &Cluster) -> Vec<i64> {
    let mut all = Vec::new();
    for group in GROUPS {
        all.push(cluster.committed(group, "t", 0).await);
    }
    all
}

/// Commits while the disk does what it does, and looks at what is shown afterwards and after a
/// restart.
fn lives(faults: Vec<Fault>, what: &str) {
    let (disk, setup) = (SimDisk::new(1), Setup::shards(2));
    let (acknowledged, before, disk) = life(&disk, &setup, async |cluster| {
        cluster.create("t", 1).await;
        for group in GROUPS {
            cluster.commit(group, "t", 0, 0).await;
        }
        for fault in faults {
            cluster.disk().inject(fault);
        }
        let mut acknowledged = vec![0; GROUPS.len()];
        for offset in 1..5 {
            for (group, acknowledged) in GROUPS.iter().zip(&mut acknowledged) {
                if cluster.try_commit(group, "t", 0, offset).await.is_none() {
                    *acknowledged = offset;
                }
            }
        }
        cluster.disk().clear_faults();
        cluster.pass_ms(10_000).await;
        for (group, acknowledged) in GROUPS.iter().zip(&mut acknowledged) {
            // Patiently, as a client: panics if the group is not served by itself.
            cluster.commit(group, "t", 0, *acknowledged + 10).await;
            *acknowledged += 10;
        }
        let before = positions(cluster).await;
        (acknowledged, before, cluster.disk().kill(1))
    });
    assert_eq!(before, acknowledged, "{what}");
    let after = life(&disk, &setup.next(), positions);
    assert_eq!(after, before, "{what}");
}

#[test]
fn without_room_at_any_write_of_the_offsets_groups_wait_and_are_served_again() {
    for of in [OpKind::Write, OpKind::Create, OpKind::Allocate] {
        for nth in 0..6 {
            for count in [1, 3] {
                let what = format!("{of:?} {nth} x {count}");
                lives(faults(of, nth, ErrorKind::StorageFull, count), &what);
            }
        }
    }
}

/// Longer than any client waits: positions can be read, no group acts on what is not safe, and all
/// goes on when there is room; or the power fails meanwhile.
#[test]
fn a_disk_that_is_full_for_long_loses_no_position_and_makes_none_up() {
    for power_fails in [false, true] {
        let (disk, setup) = (SimDisk::new(1), Setup::shards(2));
        let (shown, disk) = life(&disk, &setup, async |cluster| {
            cluster.create("t", 1).await;
            for group in GROUPS {
                cluster.commit(group, "t", 0, 5).await;
            }
            cluster.disk().set_capacity_bytes(Some(1));
            refuses(cluster).await;
            if !power_fails {
                cluster.disk().set_capacity_bytes(None);
                cluster.pass_ms(30_000).await;
                for group in GROUPS {
                    cluster.commit(group, "t", 0, 1000).await;
                }
                assert_eq!(positions(cluster).await, [1000; 4]);
            }
            (positions(cluster).await, cluster.disk().crash(7))
        });
        disk.set_capacity_bytes(None);
        let after = life(&disk, &setup.next(), positions);
        for (shown, after) in shown.iter().zip(after) {
            assert!(after >= *shown, "{shown} was shown, and {after} is there");
        }
    }
}

async fn refuses(cluster: &Cluster) {
    let mut refused = 0;
    for offset in 6..200 {
        for group in GROUPS {
            let told = cluster.try_commit(group, "t", 0, offset).await;
            let retried = [
                None,
                Some(ErrorCode::CoordinatorNotAvailable),
                Some(ErrorCode::NotCoordinator),
            ];
            assert!(retried.contains(&told), "{told:?}");
            refused += usize::from(told.is_some());
        }
    }
    assert!(refused > 0, "the disk was not full");
}
