//! Journals that fail, are missing, or are not the right ones, and disks without room.

use std::io::ErrorKind;
use std::path::Path;

use broker::log_dirs::OperatorConsent;
use platform::Disk;
use platform::sim::SimDisk;

use crate::harness::batches::large;
use crate::harness::{Cluster, Setup, life, try_life};
use crate::journaled::{FAST, copy_of, is_everybodys, new_disk, rings_in, unlanded};
use crate::moving::{alter, home, two_directories};
use crate::restart::{went_on, work};

const DIR: &str = "/logs";

fn break_fast(disk: &SimDisk, broken: bool) {
    disk.set_broken(Path::new(FAST), broken.then_some(ErrorKind::Other));
}

fn troubles(cluster: &Cluster) -> Vec<String> {
    let each = cluster.brokers.iter();
    each.filter_map(|broker| broker.store.journal_trouble(Path::new(DIR)))
        .collect()
}

/// Works, loses the journal's device, and goes on.
async fn lose_device(cluster: &Cluster) {
    work(cluster).await;
    assert!(unlanded(cluster) > 0 && troubles(cluster).is_empty());
    break_fast(cluster.disk(), true);
    went_on(cluster).await;
    cluster.pass_ms(5000).await;
    assert!(!troubles(cluster).is_empty(), "the operator hears of it");
}

/// What [`lose_device`] has left.
async fn is_all_there(cluster: &Cluster) {
    for partition in 0..3 {
        let values = cluster.values("t", partition).await;
        assert_eq!(values, ["a", "b", "c", "d"]);
    }
    assert_eq!(cluster.committed("g", "t", 1).await, 2);
}

#[test]
fn the_loss_of_the_journals_device_loses_nothing_and_keeps_no_start_from_its_way() {
    for ends in ["stop", "kill", "crash"] {
        for stays_broken in [true, false] {
            let setup = Setup::shards(2).with_journal(Some(FAST));
            let disk = life(&new_disk(3), &setup, async |cluster| {
                lose_device(cluster).await;
                match ends {
                    "stop" => {
                        cluster.stop().await;
                        assert!(is_everybodys(cluster.disk()));
                        cluster.disk().kill(1)
                    }
                    "kill" => cluster.disk().kill(1),
                    _ => cluster.disk().crash(1),
                }
            });
            break_fast(&disk, stays_broken);
            let next = setup.next();
            let disk = life(&disk, &next, async |cluster| {
                is_all_there(cluster).await;
                assert_eq!(troubles(cluster).len(), if stays_broken { 2 } else { 0 });
                cluster.produce("t", 0, &["e"]).await;
                cluster.disk().kill(2)
            });
            break_fast(&disk, false);
            life(&disk, &next.next(), async |cluster| {
                let values = cluster.values("t", 0).await;
                assert_eq!(values, ["a", "b", "c", "d", "e"], "{ends}");
                assert!(troubles(cluster).is_empty());
            });
        }
    }
}

/// A life that is killed with records in the journals only.
fn killed() -> (SimDisk, Setup) {
    let setup = Setup::shards(2).with_journal(Some(FAST));
    let disk = life(&new_disk(6), &setup, async |cluster| {
        work(cluster).await;
        assert!(unlanded(cluster) > 0);
        cluster.disk().kill(1)
    });
    (disk, setup.next())
}

fn refusal(disk: &SimDisk, setup: &Setup) -> String {
    let started = try_life(disk, setup, async |_| ());
    started.expect_err("it may lack what was acknowledged")
}

#[test]
fn a_missing_journal_refuses_the_start_by_its_name_until_it_is_given_up() {
    let (disk, setup) = killed();
    let ring = platform::runtime::run_simulated(async {
        let ring = rings_in(&disk, FAST).await.remove(1);
        disk.rename(&ring, Path::new("/fast/away")).await.unwrap();
        ring
    });
    let ring = ring.unwrap();
    let told = refusal(&disk, &setup);
    assert!(
        told.contains(&*ring.to_string_lossy()) && told.contains("--forget-journals"),
        "{told}"
    );
    assert!(!is_everybodys(&disk), "nothing was changed");
    let next = Setup {
        told: OperatorConsent {
            forget_journals: true,
            ..OperatorConsent::default()
        },
        ..setup.next()
    };
    life(&disk, &next, async |cluster| {
        // What the other one had is there.
        assert!(troubles(cluster).is_empty());
        cluster.create("u", 1).await;
        cluster.produce("u", 0, &["a"]).await;
    });
}

#[test]
fn a_journal_that_comes_back_is_as_good_as_ever() {
    let (disk, setup) = killed();
    break_fast(&disk, true);
    refusal(&disk, &setup);
    break_fast(&disk, false);
    life(&disk, &setup.next(), went_on);
}

#[test]
fn an_older_copy_of_a_journal_is_not_taken_for_it() {
    for stops in [true, false] {
        let setup = Setup::shards(1).with_journal(Some(FAST));
        let (disk, ring, copy) = life(&new_disk(6), &setup, async |cluster| {
            work(cluster).await;
            let ring = rings_in(cluster.disk(), FAST).await.remove(0);
            let copy = copy_of(cluster.disk(), &ring);
            if stops {
                cluster.stop().await;
            }
            (cluster.disk().kill(1), ring, copy)
        });
        let next = setup.next();
        let disk = life(&disk, &next, async |cluster| {
            went_on(cluster).await;
            cluster.disk().kill(2)
        });
        let right = copy_of(&disk, &ring);
        disk.put(&ring, &copy).unwrap();
        let told = refusal(&disk, &next.next());
        assert!(told.contains("backup"), "{told}");
        disk.put(&ring, &right).unwrap();
        life(&disk, &next.next(), is_all_there_of);
    }
}

async fn is_all_there_of(cluster: &Cluster) {
    is_all_there(cluster).await;
}

#[test]
fn a_journal_of_another_directory_cluster_or_version_is_refused_by_its_name() {
    let (disk, setup) = killed();
    let ring = platform::runtime::run_simulated(async { rings_in(&disk, FAST).await.remove(0) });
    let ring = ring.unwrap();
    let right = copy_of(&disk, &ring);
    // The version of both headers, with a right CRC.
    let mut later = right.clone();
    for block in [0, 4096] {
        later[block + 11] = 9;
        let crc = wire::crc::crc32c_append(
            wire::crc::crc32c(&later[block..block + 12]),
            &later[block + 16..block + 4096],
        );
        later[block + 12..block + 16].copy_from_slice(&crc.to_be_bytes());
    }
    disk.put(&ring, &later).unwrap();
    let told = refusal(&disk, &setup);
    assert!(
        told.contains("version is 9") && told.contains(&*ring.to_string_lossy()),
        "{told}"
    );
    disk.put(&ring, &right).unwrap();
    life(&disk, &setup.next(), went_on);
}

#[test]
fn a_full_disk_takes_nothing_and_lets_the_next_start_in() {
    let setup = Setup::shards(2).with_journal(Some(FAST));
    let disk = life(&new_disk(1), &setup, async |cluster| {
        for at in 0..40 {
            cluster.create(&format!("topic-{at}"), 1).await;
        }
        cluster.create("big", 1).await;
        work(cluster).await;
        let space = cluster.disk().space(Path::new(DIR)).await.unwrap();
        let used_bytes = space.total - space.free;
        cluster
            .disk()
            .set_capacity_bytes(Some(used_bytes + (2 << 20)));
        while cluster.try_produce("big", 0, large(100_000)).await.is_ok() {}
        // Small ones, too: until their logs are full.
        for _ in 0..200 {
            if cluster.try_produce("big", 0, large(2000)).await.is_err() {
                break;
            }
        }
        for at in 0..20 {
            assert_eq!(cluster.delete(&format!("topic-{at}")).await, None);
        }
        cluster.disk().kill(1)
    });
    life(&disk, &setup.next(), async |cluster| {
        assert_eq!(cluster.delete("big").await, None);
        cluster.disk().set_capacity_bytes(None);
        cluster.pass_ms(65_000).await;
        went_on(cluster).await;
    });
}

#[test]
fn the_loss_of_all_journals_takes_no_topic() {
    let (disk, setup) = killed();
    let lost = platform::runtime::run_simulated(async {
        for ring in rings_in(&disk, FAST).await {
            disk.remove_file(&ring).await.unwrap();
        }
    });
    lost.unwrap();
    let next = Setup {
        told: OperatorConsent {
            forget_journals: true,
            ..OperatorConsent::default()
        },
        ..setup.next()
    };
    life(&disk, &next, async |cluster| {
        for partition in 0..3 {
            cluster.produce("t", partition, &["x"]).await;
        }
    });
}

#[test]
fn a_log_that_cannot_land_is_not_moved_and_goes_on_when_there_is_room() {
    let setup = two_directories().with_journal(Some(FAST));
    life(&new_disk(2), &setup, async |cluster| {
        let mut full = None;
        for topic in ["t", "u", "v", "w", "x"] {
            cluster.create(topic, 1).await;
            if home(cluster.disk(), topic) == "/b" {
                full = Some(topic);
                break;
            }
        }
        let topic = full.expect("topics are in both directories");
        let kept = |number: usize| format!("{number}{}", "x".repeat(9000));
        cluster.produce(topic, 0, &[&kept(0)]).await;
        cluster.pass_ms(5000).await;
        cluster.disk().set_capacity_of(Path::new("/b"), Some(1));
        cluster.produce(topic, 0, &[&kept(1)]).await;
        cluster.pass_ms(5000).await;
        let brokers = cluster.brokers.iter();
        let unlanded = brokers.map(|broker| broker.store.unlanded_bytes(Path::new("/b")));
        assert!(unlanded.sum::<u64>() > 0, "it has no room to land");
        // Whether it is refused now or given up later.
        let _ = alter(cluster, topic, "/a").await;
        cluster.pass_ms(20_000).await;
        cluster.disk().set_capacity_of(Path::new("/b"), None);
        cluster.pass_ms(20_000).await;
        cluster.produce(topic, 0, &["c"]).await;
        let values = cluster.values(topic, 0).await;
        assert_eq!(values, [kept(0), kept(1), "c".to_owned()]);
    });
}

#[test]
fn a_stop_on_a_full_disk_needs_no_journal_whose_device_was_lost() {
    let setup = Setup::shards(2).with_journal(Some(FAST));
    let disk = life(&new_disk(9), &setup, async |cluster| {
        work(cluster).await;
        cluster.pass_ms(5000).await;
        // Neither the mark that the rings are void nor what a stop saves has room.
        cluster.disk().set_capacity_of(Path::new(DIR), Some(1));
        break_fast(cluster.disk(), true);
        cluster.stop().await;
        cluster.disk().kill(1)
    });
    disk.set_capacity_of(Path::new(DIR), None);
    assert!(is_everybodys(&disk), "its logs have everything");
    life(&disk, &setup.next(), async |cluster| {
        assert_eq!(cluster.committed("g", "t", 1).await, 2);
        assert_eq!(&cluster.values("t", 0).await[..3], ["a", "b", "c"]);
    });
}

#[test]
fn a_start_without_room_uses_what_was_kept_for_checkpoints() {
    let (disk, setup) = killed();
    let used = platform::runtime::run_simulated(async {
        let space = disk.space(Path::new(DIR)).await.unwrap();
        space.total - space.free
    });
    disk.set_capacity_bytes(Some(used.unwrap()));
    life(&disk, &setup.next(), async |cluster| {
        cluster.disk().set_capacity_bytes(None);
        cluster.pass_ms(5000).await;
        went_on(cluster).await;
    });
}
