//! Several log directories: where logs are put, found again, and what one directory's failure means to the others.

use std::path::Path;
use std::sync::Arc;

use broker::log_dirs::{LogDirs, LogDirsError};
use platform::sim::{Effect, Fault, OpKind, SimDisk, SimPlatform};
use platform::{Disk, Platform};
use storage::tier::{Capacity, Medium, PathOptions, Safety, TierOptions, TierTable};
use wire::kafka::Newest;
use wire::messages::DescribeLogDirsRequest;
use wire::types::ErrorCode;

use crate::harness::batches::batch;
use crate::harness::{Setup, life};

fn two_directories(shards: usize) -> Setup {
    let mut setup = Setup::shards(shards);
    setup.options.log_dirs = vec!["/a".into(), "/b".into()];
    setup
}

#[test]
fn partitions_are_spread_and_found_again() {
    let (disk, setup) = (SimDisk::new(1), two_directories(2));
    life(&disk, &setup, async |cluster| {
        cluster.create("t", 6).await;
        for partition in 0..6 {
            cluster.produce("t", partition, &["a"]).await;
        }
        let request = DescribeLogDirsRequest::default().with_topics(None);
        let answer = cluster.ask(4, &request).await;
        let counts = answer
            .results
            .iter()
            .map(|dir| dir.topics[0].partitions.len());
        assert_eq!(counts.collect::<Vec<_>>(), [3, 3]);
        cluster.stop().await;
    });
    for dir in ["/a", "/b"] {
        assert!(
            disk.contents(&Path::new(dir).join(".kafka_cleanshutdown"))
                .is_ok()
        );
    }
    // In another order they are the same directories.
    let mut setup = setup.next();
    setup.options.log_dirs.reverse();
    life(&disk, &setup, async |cluster| {
        for partition in 0..6 {
            assert_eq!(cluster.values("t", partition).await, ["a"]);
        }
    });
}

#[test]
fn a_cordoned_directory_says_so_and_takes_nothing_new() {
    let (disk, setup) = (SimDisk::new(1), two_directories(1));
    let setup = setup.with("cordoned.log.dirs", "/b");
    life(&disk, &setup, async |cluster| {
        cluster.create("t", 2).await;
        let request = DescribeLogDirsRequest::default().with_topics(None);
        let answer = cluster.ask(5, &Newest::from(request)).await;
        let dirs = answer.message.results.iter().zip(&answer.more);
        let told = dirs.map(|(dir, cordoned)| (dir.log_dir.as_str(), *cordoned, dir.topics.len()));
        assert_eq!(
            told.collect::<Vec<_>>(),
            [("/a", false, 1), ("/b", true, 0)]
        );
    });
}

#[test]
fn a_failed_directory_leaves_the_other_alone() {
    let (disk, setup) = (SimDisk::new(1), two_directories(1));
    life(&disk, &setup, async |cluster| {
        cluster.create("t", 2).await;
        let in_b = (0..2).find(|p| {
            disk.contents(Path::new(&format!("/b/t-{p}/partition.metadata")))
                .is_ok()
        });
        let in_b = in_b.unwrap();
        for partition in 0..2 {
            cluster.produce("t", partition, &["a"]).await;
        }
        disk.inject(Fault {
            path_contains: Some("/b/".into()),
            ..Fault::at_kind(0, OpKind::Sync, Effect::Fail(std::io::ErrorKind::Other))
        });
        let refused = cluster.try_produce("t", in_b, batch(&["b"])).await;
        assert_eq!(refused, Err(ErrorCode::KafkaStorageError));
        assert_eq!(cluster.produce("t", 1 - in_b, &["b"]).await, 1);
        assert_eq!(cluster.metrics.offline_partitions.get(), 1);
        let request = DescribeLogDirsRequest::default().with_topics(None);
        let answer = cluster.ask(4, &request).await;
        let storage_error = ErrorCode::KafkaStorageError.code();
        let errors = answer.results.iter().map(|dir| dir.error_code);
        assert_eq!(errors.collect::<Vec<_>>(), [0, storage_error]);
        cluster.stop().await;
    });
    assert!(disk.contents(Path::new("/a/.kafka_cleanshutdown")).is_ok());
    assert!(disk.contents(Path::new("/b/.kafka_cleanshutdown")).is_err());
    life(&disk, &setup.next(), async |cluster| {
        for partition in 0..2 {
            assert_eq!(cluster.values("t", partition).await[0], "a");
            assert!(
                cluster
                    .try_produce("t", partition, batch(&["c"]))
                    .await
                    .is_ok()
            );
        }
    });
}

/// A fast tier at `/a` and a slow one at `/b`.
fn two_tiers() -> Arc<TierTable> {
    let tier = |name: &str, dir: &str| TierOptions {
        name: name.into(),
        paths: vec![PathOptions {
            dir: dir.into(),
            capacity: Capacity::Whole,
        }],
        medium: Medium::File,
        safety: Safety::Durable,
        read_bytes_per_second: None,
        write_bytes_per_second: None,
    };
    TierTable::new(vec![tier("fast", "/a"), tier("bulk", "/b")])
}

async fn start(platform: &SimPlatform) -> Result<Arc<TierTable>, LogDirsError> {
    let tiers = two_tiers();
    let dirs = LogDirs::open(platform, &["/a".into()], None, None).await?;
    dirs.open_lower_tiers(platform, &tiers).await?;
    Ok(tiers)
}

#[test]
fn a_slower_path_that_is_suddenly_empty_is_offline_and_not_a_new_one() {
    platform::runtime::run_simulated(async {
        let platform = SimPlatform::new(1);
        let disk = platform.disk().clone();
        let tiers = start(&platform).await.unwrap();
        assert!(tiers.paths().iter().all(|path| path.failed().is_none()));
        let of = |dir: &str| disk.contents(&Path::new(dir).join("meta.properties"));
        assert_ne!(of("/a").unwrap(), of("/b").unwrap(), "ids of their own");
        let identity = of("/b").unwrap();
        disk.remove_file(Path::new("/b/meta.properties"))
            .await
            .unwrap();
        let tiers = start(&platform).await.unwrap();
        let reason = tiers.paths()[1].failed().unwrap();
        assert!(reason.contains("mounted"), "{reason}");
        assert!(of("/b").is_err(), "nothing is written there");
        disk.put(Path::new("/b/meta.properties"), &identity)
            .unwrap();
        let tiers = start(&platform).await.unwrap();
        assert!(tiers.paths()[1].failed().is_none());
    })
    .unwrap();
}

#[test]
fn a_slower_path_of_another_cluster_refuses_the_start() {
    platform::runtime::run_simulated(async {
        let platform = SimPlatform::new(1);
        let other = "version=1\nnode.id=1\ncluster.id=5L6g3nShT-eMCtK--X86sw\n";
        let path = Path::new("/b/meta.properties");
        platform.disk().put(path, other.as_bytes()).unwrap();
        let refused = start(&platform).await;
        assert!(matches!(refused, Err(LogDirsError::OtherCluster { .. })));
    })
    .unwrap();
}
