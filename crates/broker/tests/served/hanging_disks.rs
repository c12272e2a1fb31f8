//! A disk that does not answer: it is named, what is on other disks is served, saved and kept, and a stop does not wait for
//! it for ever.

use std::path::Path;
use std::time::Duration;

use broker::hanging::{Hanging, watch};
use platform::sim::SimDisk;
use platform::task::{spawn, timeout};
use wire::types::ErrorCode;

use crate::harness::asks::{outcome, produce};
use crate::harness::batches::batch;
use crate::harness::{Cluster, Setup, life};

fn two_directories() -> Setup {
    let mut setup = Setup::shards(2);
    setup.options.log_dirs = vec!["/a".into(), "/b".into()];
    setup
}

/// Makes a topic of four partitions with a record each; gives those that are on the second disk, and the others.
async fn spread(cluster: &Cluster, disk: &SimDisk) -> (Vec<i32>, Vec<i32>) {
    cluster.create("t", 4).await;
    for partition in 0..4 {
        cluster.produce("t", partition, &["a"]).await;
    }
    let is_in_b = |partition: &i32| {
        let file = format!("/b/t-{partition}/partition.metadata");
        disk.contents(Path::new(&file)).is_ok()
    };
    (0..4).partition(is_in_b)
}

#[test]
fn a_disk_that_hangs_is_named_until_it_answers_and_the_others_are_served_and_saved() {
    let disk = SimDisk::new(1);
    life(&disk, &two_directories(), async |cluster| {
        let (in_b, in_a) = spread(cluster, &disk).await;
        assert!(!in_b.is_empty() && !in_a.is_empty());
        let hanging = Hanging::default();
        let dirs = vec!["/a".into(), "/b".into()];
        spawn(watch(cluster.platform.clone(), 0, dirs, hanging.clone()));
        cluster.pass_ms(60_000).await;
        assert!(hanging.now().is_empty());
        disk.set_hanging(Path::new("/b"), true);
        let waits = spawn(cluster.asking(0, 9, &produce("t", -1, &[(in_b[0], batch(&["b"]))])));
        cluster.pass_ms(5_000).await;
        assert!(hanging.now().is_empty(), "slow is not hanging");
        cluster.pass_ms(7_000).await;
        let told = hanging.now();
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0].0, Path::new("/b"));
        assert!(told[0].1 >= Duration::from_secs(10), "{told:?}");
        for partition in &in_a {
            assert_eq!(cluster.produce("t", *partition, &["b"]).await, 1);
            assert_eq!(cluster.values("t", *partition).await, ["a", "b"]);
        }
        let points = Path::new("/a/replication-offset-checkpoint");
        let before = disk.contents(points).ok();
        cluster.pass_ms(5 * 60_000).await;
        let after = disk.contents(points).ok();
        assert!(
            after.is_some() && after != before,
            "its checkpoints wait for another disk"
        );
        let answer = waits.await.unwrap();
        let told = outcome(&answer.responses[0].partition_responses[0]);
        assert_eq!(told, Err(ErrorCode::RequestTimedOut));
        disk.set_hanging(Path::new("/b"), false);
        cluster.pass_ms(3_000).await;
        assert!(hanging.now().is_empty());
        assert_eq!(cluster.produce("t", in_b[0], &["c"]).await, 2);
        assert_eq!(cluster.values("t", in_b[0]).await, ["a", "b", "c"]);
    });
}

#[test]
fn a_stop_gives_up_a_disk_that_hangs_and_leaves_the_others_in_order() {
    let (disk, setup) = (SimDisk::new(1), two_directories());
    let (mut in_b, mut in_a) = (Vec::new(), Vec::new());
    life(&disk, &setup, async |cluster| {
        (in_b, in_a) = spread(cluster, &disk).await;
        disk.set_hanging(Path::new("/b"), true);
        spawn(cluster.asking(
            0,
            9,
            &produce("t", -1, &[(in_b[0], batch(&["unacknowledged"]))]),
        ));
        cluster.pass_ms(1_000).await;
        let stopped = timeout(Duration::from_mins(2), cluster.stop());
        assert!(stopped.await.is_ok(), "it waits for ever");
    });
    let marked = |dir: &str| disk.contents(&Path::new(dir).join(".kafka_cleanshutdown"));
    assert!(marked("/a").is_ok());
    assert!(marked("/b").is_err());
    let after = disk.kill(2);
    after.set_hanging(Path::new("/b"), false);
    life(&after, &setup.next(), async |cluster| {
        for partition in in_a.iter().chain(&in_b) {
            assert_eq!(cluster.values("t", *partition).await[0], "a");
        }
    });
}
