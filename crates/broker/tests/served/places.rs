//! Directories that are not what the settings take them for: copies, exchanged ones, incomplete
//! ones. Such a start is refused and leaves no trace, so that the right one after it finds
//! everything.

use std::path::Path;

use platform::sim::{SimDisk, SimPlatform};
use platform::{Clock, Disk};

use broker::log_dirs::{LogDirs, OperatorConsent};

use wire::messages::InitProducerIdRequest;
use wire::types::ErrorCode;

use crate::harness::batches::{batch, produced};
use crate::harness::{Cluster, NOW_MS, Setup, life, try_life};

const FORGET: OperatorConsent = OperatorConsent {
    format_new: false,
    forget_missing: true,
    forget_journals: false,
};

/// A directory with a topic and its records, left by a clean stop.
fn used(setup: &Setup) -> SimDisk {
    let disk = SimDisk::new(1);
    life(&disk, setup, async |cluster| {
        cluster.create("t", 2).await;
        for partition in 0..2 {
            cluster.produce("t", partition, &["a"]).await;
        }
        cluster.stop().await;
    });
    disk.kill(2)
}

fn served_as_before(disk: &SimDisk, setup: &Setup) {
    life(disk, setup, async |cluster| {
        for partition in 0..2 {
            assert_eq!(cluster.values("t", partition).await, ["a"]);
        }
    });
}

fn on(disk: &SimDisk, story: impl AsyncFnOnce(&SimPlatform)) {
    let platform = SimPlatform::on(disk.clone(), Clock::starting_at(NOW_MS), 7);
    platform::runtime::run_simulated(story(&platform)).unwrap();
}

/// The id of a producer that is new.
async fn new_producer(cluster: &Cluster) -> i64 {
    let request = InitProducerIdRequest::default()
        .with_transactional_id(None)
        .with_producer_id((-1).into())
        .with_producer_epoch(-1);
    let answer = cluster.ask(4, &request).await;
    assert_eq!(answer.error_code, 0);
    answer.producer_id.0
}

fn with_dirs(setup: &Setup, homes: &[&str], lower: &[&str]) -> Setup {
    let mut setup = setup.next();
    setup.options.log_dirs = homes.iter().map(Into::into).collect();
    setup.options.lower_dirs = lower.iter().map(Into::into).collect();
    setup
}

#[test]
fn a_directory_and_its_copy_are_not_used_together() {
    let setup = Setup::shards(1);
    let disk = used(&setup);
    let meta = disk.contents(Path::new("/logs/meta.properties")).unwrap();
    disk.put(Path::new("/copy/meta.properties"), &meta).unwrap();
    for (homes, lower) in [
        (&["/logs", "/copy"][..], &[][..]),
        (&["/logs"][..], &["/copy"][..]),
    ] {
        let setup = with_dirs(&setup, homes, lower);
        let refused = try_life(&disk, &setup, async |_| ()).unwrap_err();
        assert!(
            refused.contains("/logs and /copy have the same directory.id"),
            "{refused}"
        );
    }
    served_as_before(&disk.kill(3), &setup.next());
}

#[test]
fn a_log_directory_that_is_named_as_a_lower_tier_refuses_the_start() {
    let setup = Setup::shards(1);
    let disk = used(&setup);
    let exchanged = with_dirs(&setup, &["/bulk"], &["/logs"]);
    let refused = try_life(&disk, &exchanged, async |_| ()).unwrap_err();
    assert!(refused.contains("/logs is a log directory"), "{refused}");
    on(&disk, async |platform| {
        // With the metadata log in it, no operator can mean it.
        let (homes, lower) = (["/bulk".into()], ["/logs".into()]);
        let meant = LogDirs::check_places(platform, &homes, &lower, FORGET).await;
        assert!(meant.is_err());
    });
    let right = with_dirs(&setup, &["/logs"], &["/bulk"]);
    served_as_before(&disk.kill(3), &right);
}

#[test]
fn parts_of_logs_without_a_metadata_log_refuse_the_start() {
    let disk = SimDisk::new(1);
    let setup = Setup::shards(1);
    on(&disk, async |platform| {
        LogDirs::open(platform, &["/logs".into()], None, None)
            .await
            .unwrap();
    });
    let part = Path::new("/logs/t-0/tier.metadata");
    disk.put(part, b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAKg")
        .unwrap();
    let refused = try_life(&disk, &setup, async |_| ()).unwrap_err();
    assert!(
        refused.contains("the metadata log is in none of log.dirs"),
        "{refused}"
    );
}

#[test]
fn an_emptied_metadata_log_beside_logs_refuses_the_start() {
    let setup = Setup::shards(1);
    let disk = used(&setup);
    let folder = Path::new("/logs/__cluster_metadata-0");
    on(&disk, async |platform| {
        let disk = platform::Platform::disk(platform);
        disk.rename(folder, Path::new("/kept")).await.unwrap();
        disk.create_dir(folder).await.unwrap();
    });
    let refused = try_life(&disk, &setup.next(), async |_| ()).unwrap_err();
    assert!(refused.contains("holds no record"), "{refused}");
    on(&disk, async |platform| {
        let disk = platform::Platform::disk(platform);
        disk.remove_dir(folder).await.unwrap();
        disk.rename(Path::new("/kept"), folder).await.unwrap();
    });
    served_as_before(&disk.kill(3), &setup.next());
}

#[test]
fn logs_that_do_not_say_whose_they_are_refuse_the_start() {
    let setup = Setup::shards(1);
    let disk = used(&setup);
    let (file, kept) = (Path::new("/logs/meta.properties"), Path::new("/kept"));
    on(&disk, async |platform| {
        platform::Platform::disk(platform)
            .rename(file, kept)
            .await
            .unwrap();
    });
    let refused = try_life(&disk, &setup.next(), async |_| ()).unwrap_err();
    assert!(refused.contains("no meta.properties"), "{refused}");
    assert!(
        disk.contents(Path::new("/logs/.kafka_cleanshutdown"))
            .is_ok(),
        "no trace"
    );
    on(&disk, async |platform| {
        platform::Platform::disk(platform)
            .rename(kept, file)
            .await
            .unwrap();
    });
    served_as_before(&disk.kill(3), &setup.next());
}

#[test]
fn what_is_written_after_older_metadata_were_restored_outlives_a_kill() {
    write_after_older_metadata(false);
}

#[test]
fn what_is_written_to_a_log_that_came_late_after_older_metadata_were_restored_outlives_a_kill() {
    write_after_older_metadata(true);
}

/// `is_late`: the disk does not answer for the log before the start is over.
fn write_after_older_metadata(is_late: bool) {
    let setup = Setup::shards(1);
    let mut disk = used(&setup);
    let folder = Path::new("/logs/__cluster_metadata-0");
    let mut backup = Vec::new();
    on(&disk, async |platform| {
        let disk = platform::Platform::disk(platform);
        for entry in disk.list(folder).await.unwrap() {
            let path = folder.join(entry.name);
            let bytes = disk.contents(&path).unwrap();
            backup.push((path, bytes));
        }
    });
    let mut setup = setup.next();
    let mut given = -1;
    for seed in 3..7 {
        life(&disk, &setup, async |cluster| {
            given = new_producer(cluster).await;
            let batch = produced(given, 0, 0, &["b"]);
            cluster.try_produce("t", 0, batch).await.unwrap();
        });
        (disk, setup) = (disk.kill(seed), setup.next());
    }
    on(&disk, async |platform| {
        platform::Platform::disk(platform)
            .remove_dir(folder)
            .await
            .unwrap();
    });
    for (path, bytes) in &backup {
        disk.put(path, bytes).unwrap();
    }
    let file = Path::new("/logs/t-0/00000000000000000000.log");
    disk.set_hanging(file, is_late);
    life(&disk, &setup, async |cluster| {
        if is_late {
            let refused = cluster.try_produce("t", 0, batch(&["c"])).await;
            assert_eq!(refused, Err(ErrorCode::KafkaStorageError));
            disk.set_hanging(file, false);
            cluster.pass_ms(60_000).await;
        }
        let id = new_producer(cluster).await;
        assert!(
            id > given,
            "{id} was given to somebody before, as {given} was"
        );
        let batch = produced(id, 0, 0, &["c"]);
        assert_eq!(cluster.try_produce("t", 0, batch).await, Ok(5));
    });
    life(&disk.kill(8), &setup.next(), async |cluster| {
        assert_eq!(cluster.values("t", 0).await, ["a", "b", "b", "b", "b", "c"]);
    });
}

#[test]
fn a_log_that_cannot_be_opened_is_counted_among_the_offline_ones() {
    let setup = Setup::shards(1);
    let disk = used(&setup);
    disk.put(Path::new("/logs/t-1/partition.metadata"), b"?")
        .unwrap();
    life(&disk, &setup.next(), async |cluster| {
        assert_eq!(cluster.values("t", 0).await, ["a"]);
        let unopened = cluster.brokers[0].unopened_partitions();
        assert_eq!(unopened, (1, "t-1".to_owned()));
    });
}
