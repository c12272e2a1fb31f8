//! Brokers whose logs use journals: what was acknowledged is there after a kill or a loss of power,
//! with any number of shards, with journals or without; a clean stop leaves nothing that is needed.

use std::path::{Path, PathBuf};

use platform::Disk;
use platform::sim::SimDisk;
use storage::checkpoint::meta_properties;

use crate::harness::{Cluster, Setup, life};
use crate::restart::{went_on, work};

const DIR: &str = "/logs";
const META: &str = "/logs/meta.properties";
/// A device of its own for rings.
pub(crate) const FAST: &str = "/fast";

/// A disk with a directory for rings.
pub(crate) fn new_disk(seed: u64) -> SimDisk {
    let disk = SimDisk::new(seed);
    disk.put(&Path::new(FAST).join("keep"), b"x").unwrap();
    disk
}

/// Returns the files of rings in a directory.
pub(crate) async fn rings_in(disk: &SimDisk, dir: &str) -> Vec<PathBuf> {
    let listed = disk.list(Path::new(dir)).await.unwrap();
    let rings = listed.iter().filter(|entry| entry.name.ends_with(".ring"));
    rings
        .map(|entry| Path::new(dir).join(&entry.name))
        .collect()
}

/// Bytes that are in journals only.
pub(crate) fn unlanded(cluster: &Cluster) -> u64 {
    let each = cluster.brokers.iter();
    each.map(|broker| broker.store.unlanded_bytes(Path::new(DIR)))
        .sum()
}

/// Whether others than this version read the directory: Kafka, and older versions.
pub(crate) fn is_everybodys(disk: &SimDisk) -> bool {
    let bytes = disk.contents(Path::new(META)).unwrap();
    meta_properties::parse(Path::new(META), &bytes).is_ok()
}

#[test]
fn what_was_acknowledged_survives_a_kill_whatever_shards_and_journals_follow() {
    for dir in [None, Some(FAST)] {
        for (before, after) in [(1, 1), (2, 2), (3, 1), (1, 3)] {
            let setup = Setup::shards(before).with_journal(dir);
            let disk = life(&new_disk(4), &setup, async |cluster| {
                work(cluster).await;
                assert!(unlanded(cluster) > 0, "it is in the journal");
                cluster.disk().kill(1)
            });
            assert!(!is_everybodys(&disk), "it is not whole without its journal");
            let next = Setup {
                shards: after,
                ..setup.next()
            };
            let disk = life(&disk, &next, async |cluster| {
                went_on(cluster).await;
                assert_eq!(cluster.brokers[0].log_dirs.refused_logs(), None);
                let rings = rings_in(cluster.disk(), dir.unwrap_or(DIR)).await;
                assert_eq!(rings.len(), after, "{rings:?}");
                cluster.disk().kill(2)
            });
            // And without a journal from then on.
            let mut last = next.next();
            last.options.journal = None;
            life(&disk, &last, async |cluster| {
                assert!(is_everybodys(cluster.disk()));
                for partition in 0..3 {
                    let values = cluster.values("t", partition).await;
                    assert_eq!(values, ["a", "b", "c", "d"]);
                }
            });
        }
    }
}

#[test]
fn what_was_acknowledged_survives_losses_of_power_one_after_the_other() {
    for seed in 0..6 {
        let setup = Setup::shards(2).with_journal(Some(FAST));
        let disk = life(&new_disk(seed), &setup, async |cluster| {
            work(cluster).await;
            // Some of it lands, some does not.
            cluster.pass_ms(seed * 700).await;
            cluster.produce("t", 0, &["e"]).await;
            cluster.disk().crash(seed)
        });
        let next = setup.next();
        let disk = life(&disk, &next, async |cluster| {
            cluster.produce("t", 1, &["f"]).await;
            cluster.disk().crash(seed + 1)
        });
        life(&disk, &next.next(), async |cluster| {
            assert_eq!(cluster.values("t", 0).await, ["a", "b", "c", "e"]);
            assert_eq!(cluster.values("t", 1).await, ["a", "b", "c", "f"]);
            assert_eq!(cluster.committed("g", "t", 1).await, 2);
        });
    }
}

#[test]
fn a_clean_stop_leaves_a_directory_that_needs_no_journal() {
    for dir in [None, Some(FAST)] {
        let setup = Setup::shards(2).with_journal(dir);
        let disk = life(&new_disk(1), &setup, async |cluster| {
            work(cluster).await;
            cluster.stop().await;
            cluster.disk().crash(3)
        });
        assert!(is_everybodys(&disk));
        let rings = platform::runtime::run_simulated(async {
            let rings = rings_in(&disk, dir.unwrap_or(DIR)).await;
            for ring in &rings {
                disk.remove_file(ring).await.unwrap();
            }
            rings.len()
        });
        assert_eq!(rings.unwrap(), 2);
        life(&disk, &setup.next(), async |cluster| {
            assert!(cluster.brokers[0].log_dirs.clean_epoch().is_some());
            went_on(cluster).await;
        });
    }
}

#[test]
fn many_lives_use_the_same_rings() {
    let mut setup = Setup::shards(2).with_journal(None);
    let mut disk = life(&new_disk(1), &setup, async |cluster| {
        cluster.create("t", 2).await;
        cluster.disk().kill(0)
    });
    for at in 0..8_u64 {
        setup = setup.next();
        disk = life(&disk, &setup, async |cluster| {
            let value = at.to_string();
            for partition in 0..2 {
                cluster.produce("t", partition, &[&value]).await;
            }
            match at % 3 {
                0 => cluster.disk().kill(at),
                1 => cluster.disk().crash(at),
                _ => {
                    cluster.stop().await;
                    cluster.disk().kill(at)
                }
            }
        });
    }
    life(&disk, &setup.next(), async |cluster| {
        for partition in 0..2 {
            let values = cluster.values("t", partition).await;
            assert_eq!(values, ["0", "1", "2", "3", "4", "5", "6", "7"]);
        }
    });
}

/// A ring's bytes, as a backup of its device has them.
pub(crate) fn copy_of(disk: &SimDisk, ring: &Path) -> Vec<u8> {
    disk.contents(ring).unwrap()
}

#[test]
fn topics_are_deleted_and_made_again_under_a_journal() {
    let setup = Setup::shards(2).with_journal(Some(FAST));
    let disk = life(&new_disk(9), &setup, async |cluster| {
        work(cluster).await;
        assert_eq!(cluster.delete("t").await, None);
        cluster.create("t", 3).await;
        cluster.produce("t", 1, &["new"]).await;
        cluster.disk().kill(5)
    });
    life(&disk, &setup.next(), async |cluster| {
        assert_eq!(cluster.values("t", 1).await, ["new"]);
        assert!(cluster.values("t", 0).await.is_empty());
    });
}

#[test]
fn metrics_tell_of_commits_and_landings() {
    let setup = Setup::shards(1).with_journal(None);
    life(&new_disk(2), &setup, async |cluster| {
        work(cluster).await;
        let store = &cluster.brokers[0].store;
        store.show_journals();
        let metrics = &cluster.storage_metrics(0).journal;
        assert!(metrics.commits.get() > 0);
        assert!(metrics.parts.get() >= metrics.commits.get());
        assert!(metrics.written_bytes.get() >= metrics.commits.get() * 4096);
        assert!(metrics.unlanded_bytes.get() > 0);
        cluster.pass_ms(5000).await;
        store.show_journals();
        assert_eq!(metrics.unlanded_bytes.get(), 0, "it has landed");
        assert_eq!(metrics.degraded.get(), 0);
    });
}
