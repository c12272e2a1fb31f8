//! Several log directories: where logs are put, found again, and what one directory's failure means
//! to the others.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use broker::log_dirs::{LogDirs, LogDirsError, OperatorConsent};
use platform::sim::{Effect, Fault, OpKind, SimDisk, SimPlatform};
use platform::{Clock, Disk, Platform};
use storage::tier::{Capacity, Medium, PathOptions, Safety, TierOptions, TierTable};
use wire::kafka::NewestVersion;
use wire::messages::DescribeLogDirsRequest;
use wire::types::{ErrorCode, TopicId, Uuid};

use crate::damaged_files::uuid_in;
use crate::harness::batches::batch;
use crate::harness::journal::lines_of;
use crate::harness::{NOW_MS, Setup, life, try_life};
use crate::offsets::delete_before;

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
        let answer = cluster.ask(5, &NewestVersion::from(request)).await;
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

/// Two directories with logs in both, and what each partition holds.
fn two_used(setup: &Setup) -> SimDisk {
    let disk = SimDisk::new(1);
    life(&disk, setup, async |cluster| {
        cluster.create("t", 4).await;
        for partition in 0..4 {
            cluster.produce("t", partition, &["a"]).await;
        }
        cluster.stop().await;
    });
    disk
}

fn with_dirs(setup: &Setup, dirs: &[&str]) -> Setup {
    let mut setup = setup.next();
    setup.options.log_dirs = dirs.iter().map(Into::into).collect();
    setup
}

pub(crate) async fn open_as(
    disk: &SimDisk,
    dirs: &[&str],
    told: OperatorConsent,
) -> Result<LogDirs, LogDirsError> {
    let platform = SimPlatform::on(disk.clone(), Clock::starting_at(NOW_MS), 5);
    let dirs: Vec<_> = dirs.iter().map(Into::into).collect();
    LogDirs::open_as_told(&platform, &dirs, None, None, told).await
}

#[test]
fn a_directory_that_is_not_mounted_refuses_the_start_and_makes_no_empty_logs() {
    let setup = two_directories(1);
    for gone in ["/a", "/b"] {
        let disk = two_used(&setup).kill(2);
        platform::runtime::run_simulated(async {
            let (from, to) = (Path::new(gone), Path::new("/x"));
            disk.rename(from, to).await.unwrap();
        })
        .unwrap();
        let error = try_life(&disk, &setup.next(), async |_| ()).unwrap_err();
        assert!(error.contains("is its file system mounted?"), "{error}");
        assert!(
            error.contains(&format!("no meta.properties found in {gone}")),
            "{error}"
        );
        let left = if gone == "/a" { "/b" } else { "/a" };
        let error = try_life(&disk, &with_dirs(&setup, &[left]), async |_| ()).unwrap_err();
        assert!(error.contains(&format!("last at {gone}")), "{error}");
        platform::runtime::run_simulated(async {
            disk.remove_dir(Path::new(gone)).await.unwrap();
            disk.rename(Path::new("/x"), Path::new(gone)).await.unwrap();
        })
        .unwrap();
        life(&disk, &setup.next(), async |cluster| {
            for partition in 0..4 {
                assert_eq!(cluster.values("t", partition).await, ["a"]);
            }
        });
    }
}

#[test]
fn a_directory_is_added_and_another_forgotten_when_the_operator_says_so() {
    let setup = two_directories(1);
    let disk = two_used(&setup).kill(2);
    let new = OperatorConsent {
        format_new: true,
        ..OperatorConsent::default()
    };
    let gone = OperatorConsent {
        forget_missing: true,
        ..OperatorConsent::default()
    };
    platform::runtime::run_simulated(async {
        let three = ["/a", "/b", "/c"];
        let refused = open_as(&disk, &three, gone).await;
        assert!(matches!(refused, Err(LogDirsError::Unformatted { .. })));
        open_as(&disk, &three, new).await.unwrap();
        open_as(&disk, &three, OperatorConsent::default())
            .await
            .unwrap();
        let refused = open_as(&disk, &["/a", "/b"], new).await;
        assert!(matches!(refused, Err(LogDirsError::Missing { .. })));
        open_as(&disk, &["/a", "/b"], gone).await.unwrap();
        open_as(&disk, &["/b", "/a"], OperatorConsent::default())
            .await
            .unwrap();
    })
    .unwrap();
}

#[test]
fn directories_of_an_older_version_and_of_kafka_are_taken_as_they_are() {
    let setup = two_directories(1);
    let disk = two_used(&setup).kill(2);
    platform::runtime::run_simulated(async {
        for dir in ["/a", "/b"] {
            disk.remove_file(&Path::new(dir).join("log-dirs"))
                .await
                .unwrap();
        }
    })
    .unwrap();
    life(&disk, &setup.next(), async |cluster| {
        for partition in 0..4 {
            assert_eq!(cluster.values("t", partition).await, ["a"]);
        }
    });
}

#[test]
fn the_very_first_start_with_two_directories_may_be_cut_short() {
    let setup = two_directories(1);
    for k in 0..60 {
        let disk = SimDisk::new(k);
        disk.inject(Fault::at(k, Effect::PowerOff));
        let _ = try_life(&disk, &setup, async |_| ());
        life(&disk.crash(k), &setup.next(), async |cluster| {
            cluster.create("t", 1).await;
            assert_eq!(cluster.produce("t", 0, &["a"]).await, 0);
        });
    }
}

#[test]
fn of_a_log_in_two_directories_the_larger_is_served() {
    let setup = two_directories(1);
    let disk = two_used(&setup).kill(2);
    let is_in = |dir: &str, p: i32| {
        let file = format!("{dir}/t-{p}/partition.metadata");
        disk.contents(Path::new(&file)).is_ok()
    };
    for (p, dir, other) in (0..4).map(|p| {
        if is_in("/a", p) {
            (p, "/a", "/b")
        } else {
            (p, "/b", "/a")
        }
    }) {
        let metadata = disk.contents(Path::new(&format!("{dir}/t-{p}/partition.metadata")));
        let copy = format!("{other}/t-{p}/partition.metadata");
        disk.put(Path::new(&copy), &metadata.unwrap()).unwrap();
    }
    life(&disk, &setup.next(), async |cluster| {
        for partition in 0..4 {
            assert_eq!(cluster.values("t", partition).await, ["a"]);
        }
    });
}

#[test]
fn of_a_log_in_two_directories_one_that_cannot_be_listed_is_not_taken_for_the_smaller() {
    let setup = two_directories(1);
    let disk = two_used(&setup).kill(2);
    let note = |dir: &str| format!("{dir}/t-0/partition.metadata");
    let is_in_a = disk.contents(Path::new(&note("/a"))).is_ok();
    let (dir, other) = if is_in_a { ("/a", "/b") } else { ("/b", "/a") };
    let metadata = disk.contents(Path::new(&note(dir))).unwrap();
    disk.put(Path::new(&note(other)), &metadata).unwrap();
    for _ in 0..1000 {
        disk.inject(Fault {
            path_contains: Some(format!("{dir}/t-0")),
            ..Fault::at_kind(0, OpKind::List, Effect::Fail(std::io::ErrorKind::Other))
        });
    }
    let setup = setup.next();
    life(&disk, &setup, async |cluster| {
        let refused = cluster.try_produce("t", 0, batch(&["b"])).await;
        assert_eq!(refused, Err(ErrorCode::KafkaStorageError));
        assert_eq!(cluster.metrics.offline_partitions.get(), 1);
    });
    // Nothing was written to the empty copy meanwhile.
    life(&disk.kill(3), &setup.next(), async |cluster| {
        assert_eq!(cluster.produce("t", 0, &["b"]).await, 1);
        assert_eq!(cluster.values("t", 0).await, ["a", "b"]);
    });
}

#[test]
fn of_three_copies_of_a_log_the_one_that_arrived_or_another_is_served_and_none_begins_anew() {
    let setup = with_dirs(&two_directories(1), &["/a", "/b", "/c"]);
    let disk = two_used(&setup).kill(2);
    let file = |dir: &str, name: &str| PathBuf::from(format!("{dir}/t-0/{name}"));
    let is_home = |dir: &&str| disk.contents(&file(dir, "partition.metadata")).is_ok();
    let home = ["/a", "/b", "/c"].into_iter().find(is_home).unwrap();
    let metadata = disk.contents(&file(home, "partition.metadata")).unwrap();
    let data = disk
        .contents(&file(home, "00000000000000000000.log"))
        .unwrap();
    for (old, third) in [
        ("/a", "/b"),
        ("/b", "/c"),
        ("/c", "/a"),
        ("/b", "/a"),
        ("/c", "/b"),
        ("/a", "/c"),
    ] {
        if [old, third].contains(&home) {
            continue;
        }
        let disk = disk.kill(3);
        let id = uuid_in(&disk, &format!("{old}/meta.properties"), "directory.id=");
        let id = wire::types::uuid_to_base64(id);
        let note = format!(
            "version: 0\nfrom_directory: {id}\nrecovery_point: 0\nlog_start: 0\ncompacted: -1\n"
        );
        disk.put(&file(home, "moved.metadata"), note.as_bytes())
            .unwrap();
        for dir in [old, third] {
            disk.put(&file(dir, "partition.metadata"), &metadata)
                .unwrap();
            disk.put(&file(dir, "00000000000000000000.log"), &data)
                .unwrap();
        }
        // The largest of them.
        disk.put(&file(third, "note.txt"), &vec![b'x'; 100_000])
            .unwrap();
        let mut lines = lines_of(|| {
            life(&disk, &setup.next(), async |cluster| {
                assert_eq!(
                    cluster.values("t", 0).await,
                    ["a"],
                    "{home} came from {old}"
                );
            });
        });
        assert!(
            disk.contents(&file(old, "partition.metadata")).is_err(),
            "{old} is old"
        );
        // Of the two that are left one is left alone, not both.
        lines.retain(|line| line.contains("a log lies in two directories"));
        assert_eq!(lines.len(), 1, "{lines:?}");
        let (served, left) = (file(third, ""), file(home, ""));
        let [served, left] = [served, left].map(|dir| dir.display().to_string());
        let (served, left) = (served.trim_end_matches('/'), left.trim_end_matches('/'));
        assert!(lines[0].contains(&format!("served={served} ")), "{lines:?}");
        assert!(
            lines[0].contains(&format!("left_alone={left} ")),
            "{lines:?}"
        );
    }
}

#[test]
fn a_folder_that_cannot_be_understood_is_its_own_logs_trouble() {
    let setup = two_directories(1);
    let file = |name: &str| Path::new("/a").join(name);
    for damage in ["stray", "own", "directory"] {
        let disk = two_used(&setup).kill(2);
        let own = (0..4).find(|p| {
            disk.contents(&file(&format!("t-{p}/partition.metadata")))
                .is_ok()
        });
        let own = own.unwrap();
        match damage {
            "stray" => disk.put(&file("stray-0/partition.metadata"), b"").unwrap(),
            "own" => {
                let name = file(&format!("t-{own}/partition.metadata"));
                disk.put(&name, b"").unwrap();
            }
            _ => disk.put(&file("odd-0/partition.metadata/x"), b"x").unwrap(),
        }
        life(&disk, &setup.next(), async |cluster| {
            for partition in (0..4).filter(|p| damage != "own" || *p != own) {
                assert_eq!(cluster.values("t", partition).await, ["a"], "{damage}");
            }
            let offline = i64::from(damage == "own");
            assert_eq!(
                cluster.metrics.offline_partitions.get(),
                offline,
                "{damage}"
            );
        });
    }
}

#[test]
fn a_folder_with_another_number_of_zeros_is_not_the_log() {
    let setup = Setup::shards(1);
    let disk = SimDisk::new(1);
    life(&disk, &setup, async |cluster| {
        cluster.create("t", 1).await;
        for value in ["a", "b", "c"] {
            cluster.produce("t", 0, &[value]).await;
        }
        assert_eq!(delete_before(cluster, "t", 2).await, Ok(2));
        cluster.stop().await;
    });
    let disk = disk.kill(3);
    let id = TopicId(Uuid::from_u128(7));
    let metadata = format!("version: 0\ntopic_id: {id}");
    let file = Path::new("/logs/t-00/partition.metadata");
    disk.put(file, metadata.as_bytes()).unwrap();
    life(&disk, &setup.next(), async |cluster| {
        assert_eq!(cluster.values("t", 0).await, ["c"]);
    });
}

#[test]
fn one_bad_line_of_the_log_starts_brings_no_deleted_records_back() {
    let setup = Setup::shards(1);
    let disk = SimDisk::new(1);
    life(&disk, &setup, async |cluster| {
        cluster.create("t", 1).await;
        for value in ["a", "b", "c"] {
            cluster.produce("t", 0, &[value]).await;
        }
        assert_eq!(delete_before(cluster, "t", 2).await, Ok(2));
        cluster.stop().await;
    });
    let disk = disk.kill(3);
    let file = Path::new("/logs/log-start-offset-checkpoint");
    let text = String::from_utf8(disk.contents(file).unwrap()).unwrap();
    disk.put(file, format!("{text}u 0 -5\n").as_bytes())
        .unwrap();
    life(&disk, &setup.next(), async |cluster| {
        assert_eq!(cluster.values("t", 0).await, ["c"]);
    });
}
