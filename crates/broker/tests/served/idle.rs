//! A broker without requests leaves its disks as they are: what its checkpoints would contain is
//! there already.

use std::path::Path;

use platform::Disk;
use platform::sim::SimDisk;
use storage::checkpoint::offsets;

use crate::harness::{Cluster, Setup, life};

/// Between the checkpoints, and between two notes of the clock, which are ten minutes apart.
const CHECKPOINT_MS: u64 = 61_000;
const NOTED_MS: u64 = 660_000;
const UNNOTED_MS: u64 = 500_000;

async fn with_many_partitions(cluster: &Cluster) {
    cluster.create("many", 50).await;
    for partition in 0..50 {
        cluster.produce("many", partition, &["a", "b"]).await;
    }
}

#[test]
fn an_idle_broker_changes_nothing_on_its_disks() {
    let disk = SimDisk::new(1);
    life(&disk, &Setup::shards(2), async |cluster| {
        with_many_partitions(cluster).await;
        cluster.pass_ms(NOTED_MS).await;
        let (changes, operations) = (disk.changes(), disk.operations());
        cluster.pass_ms(UNNOTED_MS).await;
        assert_eq!(disk.changes() - changes, 0);
        assert!(disk.operations() > operations, "the files are looked at");
        let timed = cluster.metric("forebay_checkpoint_seconds_count");
        assert!(timed.is_some_and(|count| count != "0"));
        cluster.produce("many", 3, &["c"]).await;
        let changes = disk.changes();
        cluster.pass_ms(CHECKPOINT_MS).await;
        assert!(disk.changes() > changes, "one partition has changed");
    });
}

#[test]
fn a_checkpoint_that_is_removed_or_changed_is_written_again() {
    let disk = SimDisk::new(1);
    life(&disk, &Setup::shards(2), async |cluster| {
        with_many_partitions(cluster).await;
        cluster.pass_ms(NOTED_MS).await;
        for name in [
            offsets::RECOVERY_POINTS,
            offsets::LOG_STARTS,
            offsets::HIGH_WATERMARKS,
        ] {
            let path = Path::new("/logs").join(name);
            let before = disk.read_file(&path).await.unwrap();
            disk.remove_file(&path).await.unwrap();
            cluster.pass_ms(CHECKPOINT_MS).await;
            assert_eq!(disk.read_file(&path).await.unwrap(), before, "{name}");
            disk.replace_file(&path, b"0\n0\n").await.unwrap();
            cluster.pass_ms(CHECKPOINT_MS).await;
            assert_eq!(disk.read_file(&path).await.unwrap(), before, "{name}");
        }
    });
}
