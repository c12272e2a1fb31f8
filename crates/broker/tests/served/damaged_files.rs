//! Small files of a directory that are damaged, empty or gone: they concern their own partition,
//! and are no reason to lose a record or to cry wolf.

use std::path::Path;

use platform::Disk;
use platform::sim::SimDisk;
use wire::batch::{BatchBuilder, Batches};
use wire::records::metadata::{MetadataRecord, MetadataVersion, PartitionChangeRecord};
use wire::types::{ErrorCode, TimestampMs, Uuid, uuid_from_base64};

use crate::harness::batches::batch;
use crate::harness::journal::lines_of;
use crate::harness::{Setup, life, try_life};

const VALUES: [&str; 3] = ["one", "two", "three"];

/// Two topics with three records each; as a stop leaves them, or a kill.
fn left(setup: &Setup, clean: bool) -> SimDisk {
    let disk = SimDisk::new(1);
    life(&disk, setup, async |cluster| {
        for topic in ["t", "whole"] {
            cluster.create(topic, 1).await;
            cluster.produce(topic, 0, &VALUES).await;
        }
        if clean {
            cluster.stop().await;
        }
    });
    disk.kill(1)
}

fn put(disk: &SimDisk, name: &str, bytes: &[u8]) {
    disk.put(&Path::new("/logs").join(name), bytes).unwrap();
}

#[test]
fn whatever_lies_beside_good_segments_their_records_are_served() {
    let swap = |role: &str| format!("t-0/00000000000000000000.{role}.swap");
    let mut names = vec![
        "recovery-point-offset-checkpoint".to_owned(),
        "replication-offset-checkpoint".to_owned(),
        "cleaner-offset-checkpoint".to_owned(),
        ".kafka_cleanshutdown".to_owned(),
        "t-0/leader-epoch-checkpoint".to_owned(),
        "t-0/aborted-segments".to_owned(),
        "t-0/00000000000000000001.log.swap".to_owned(),
        "t-0/00000000000000000003.log.swap".to_owned(),
        "t-0/00000000000000000003.snapshot".to_owned(),
        "t-0/00000000000000000999.snapshot".to_owned(),
        "t-0/00000000000000000000.log.moving".to_owned(),
        "t-0/00000000000000000000.away".to_owned(),
        "t-0/00000000000000000000.owed".to_owned(),
        "t-0/moved.metadata".to_owned(),
        "t-0/9223372036854775807.log.swap".to_owned(),
        "t-0/09223372036854775807.log.swap".to_owned(),
    ];
    for role in ["log", "index", "timeindex", "txnindex"] {
        names.push(swap(role));
        for suffix in ["", ".cleaned", ".deleted"] {
            if role != "log" || !suffix.is_empty() {
                names.push(format!("t-0/00000000000000000000.{role}{suffix}"));
            }
        }
    }
    let setup = Setup::shards(1);
    let contents: [&[u8]; 5] = [
        b"",
        b"garbage",
        &[0; 61],
        &[0xff; 300],
        b"0\n1\nt 0 9223372036854775807\n",
    ];
    for clean in [true, false] {
        let before = left(&setup, clean);
        for name in &names {
            for bytes in contents {
                let disk = before.kill(2);
                put(&disk, name, bytes);
                // What was cleaned and what was to replace something, together.
                put(&disk, "t-0/00000000000000000000.log.cleaned", bytes);
                life(&disk, &setup.next(), async |cluster| {
                    for topic in ["t", "whole"] {
                        assert_eq!(cluster.values(topic, 0).await, VALUES, "{name} {bytes:?}");
                    }
                    assert_eq!(cluster.produce("t", 0, &["four"]).await, 3, "{name}");
                });
            }
        }
    }
}

#[test]
fn a_partition_whose_folder_says_nonsense_is_offline_and_the_others_are_served() {
    let setup = Setup::shards(1);
    let before = left(&setup, true);
    for bytes in [&b""[..], b"garbage", &[0xff; 600]] {
        let disk = before.kill(2);
        put(&disk, "t-0/partition.metadata", bytes);
        life(&disk, &setup.next(), async |cluster| {
            assert_eq!(cluster.values("whole", 0).await, VALUES);
            let refused = cluster.try_fetch("t", 0, 0).await;
            assert_eq!(refused.unwrap_err(), ErrorCode::KafkaStorageError);
        });
    }
}

#[test]
fn empty_checkpoints_of_kafka_are_no_checkpoints_and_nobody_is_warned_of_them() {
    let setup = Setup::shards(1);
    let disk = left(&setup, false);
    for name in [
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "replication-offset-checkpoint",
        "cleaner-offset-checkpoint",
    ] {
        put(&disk, name, b"");
    }
    let lines = lines_of(|| {
        life(&disk, &setup.next(), async |cluster| {
            assert_eq!(cluster.values("t", 0).await, VALUES);
            cluster.stop().await;
        });
    });
    let about: Vec<_> = lines
        .iter()
        .filter(|it| it.contains("checkpoint"))
        .collect();
    assert!(about.is_empty(), "{about:?}");
}

#[test]
fn a_checkpoint_that_is_a_directory_is_no_reason_not_to_start() {
    let setup = Setup::shards(1);
    for name in [
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "cleaner-offset-checkpoint",
    ] {
        let before = left(&setup, true);
        platform::runtime::run_simulated(async {
            let path = Path::new("/logs").join(name);
            // There is none of what was never compacted.
            let _ = before.remove_file(&path).await;
            before.create_dir(&path).await.unwrap();
            before.sync_dir(Path::new("/logs")).await.unwrap();
        })
        .unwrap();
        let started = try_life(&before.kill(3), &setup.next(), async |cluster| {
            cluster.values("t", 0).await
        });
        assert_eq!(started.unwrap(), VALUES, "{name}");
    }
}

#[test]
fn checkpoints_that_cannot_be_written_are_counted_and_named_once_a_minute() {
    const TOO_MANY_OPEN_FILES: i32 = 24;
    let mut setup = Setup::shards(1);
    setup.options.checkpoint_interval = std::time::Duration::from_secs(5);
    let disk = SimDisk::new(1);
    let lines = lines_of(|| {
        life(&disk, &setup, async |cluster| {
            cluster.create("t", 1).await;
            cluster.produce("t", 0, &VALUES).await;
            disk.set_exhausted(Some(TOO_MANY_OPEN_FILES));
            cluster.pass_ms(180_000).await;
            disk.set_exhausted(None);
            let failed = cluster.metrics.failed_checkpoints.get();
            assert!(failed > 60, "{failed} of 36 rounds of several files");
            cluster.pass_ms(10_000).await;
            assert_eq!(cluster.metrics.failed_checkpoints.get(), failed);
            assert!(
                cluster
                    .shown_metrics()
                    .contains("forebay_checkpoint_failures_total")
            );
        });
    });
    let lines: Vec<_> = lines
        .iter()
        .filter(|line| line.contains("cannot write the checkpoint"))
        .collect();
    let of = |name: &str| lines.iter().filter(|line| line.contains(name)).count();
    assert!((3..=4).contains(&of("recovery-point")), "{lines:#?}");
    assert!(lines.len() <= 16, "{lines:#?}");
}

/// The id that follows a word in a file.
pub(crate) fn uuid_in(disk: &SimDisk, file: &str, word: &str) -> Uuid {
    let bytes = disk.contents(Path::new(file)).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (_, rest) = text.split_once(word).unwrap();
    uuid_from_base64(rest.lines().next().unwrap()).unwrap()
}

/// Puts a batch of these records at the end of the metadata log of a broker that is not running.
fn add_metadata(disk: &SimDisk, records: &[MetadataRecord]) {
    let path = Path::new("/a/__cluster_metadata-0/00000000000000000000.log");
    let mut log = disk.contents(path).unwrap();
    let last = Batches::new(&log.clone()).last().unwrap().unwrap().0;
    let mut batch = BatchBuilder::new(last.next_offset(), last.leader_epoch);
    for record in records {
        let value = record.encode(MetadataVersion::V4_3);
        batch.add(TimestampMs(0), None, Some(&value), &[]);
    }
    log.extend_from_slice(&batch.finish().unwrap());
    disk.put(path, &log).unwrap();
}

#[test]
fn a_partition_in_a_directory_that_is_not_here_is_offline_and_not_begun_anew() {
    let mut setup = Setup::shards(1);
    setup.options.log_dirs = vec!["/a".into(), "/b".into()];
    let disk = SimDisk::new(1);
    life(&disk, &setup, async |cluster| {
        cluster.create("t", 4).await;
        for partition in 0..4 {
            cluster.produce("t", partition, &VALUES).await;
        }
        cluster.stop().await;
    });
    let is_in = |disk: &SimDisk, dir: &str, partition: i32| {
        let file = format!("{dir}/t-{partition}/partition.metadata");
        disk.contents(Path::new(&file)).is_ok()
    };
    let (in_a, in_b): (Vec<i32>, Vec<i32>) = (0..4).partition(|it| is_in(&disk, "/a", *it));
    assert!(!in_a.is_empty() && !in_b.is_empty());
    // As Kafka leaves it, which keeps no list of its directories, and has them in the metadata.
    let told = in_b.iter().map(|partition| {
        let file = format!("/b/t-{partition}/partition.metadata");
        MetadataRecord::from(PartitionChangeRecord {
            topic_id: uuid_in(&disk, &file, "topic_id: "),
            partition_id: *partition,
            leader: 1,
            directories: Some(vec![uuid_in(&disk, "/b/meta.properties", "directory.id=")]),
            ..PartitionChangeRecord::default()
        })
    });
    add_metadata(&disk, &told.collect::<Vec<_>>());
    platform::runtime::run_simulated(async {
        for dir in ["/a", "/b"] {
            let list = Path::new(dir).join("log-dirs");
            disk.remove_file(&list).await.unwrap();
            disk.sync_dir(Path::new(dir)).await.unwrap();
        }
    })
    .unwrap();
    let mut without = setup.next();
    without.options.log_dirs = vec!["/a".into()];
    life(&disk, &without, async |cluster| {
        for partition in &in_a {
            assert_eq!(cluster.values("t", *partition).await, VALUES);
        }
        for partition in &in_b {
            let refused = cluster.try_fetch("t", *partition, 0).await;
            assert_eq!(refused.unwrap_err(), ErrorCode::KafkaStorageError);
            let refused = cluster.try_produce("t", *partition, batch(&["x"])).await;
            assert_eq!(refused, Err(ErrorCode::KafkaStorageError));
            assert!(!is_in(&disk, "/a", *partition), "begun anew");
        }
        let offline = i64::try_from(in_b.len()).unwrap();
        assert_eq!(cluster.metrics.offline_partitions.get(), offline);
        cluster.stop().await;
    });
    // With the directory all is as before.
    let mut with = without.next();
    with.options.log_dirs = setup.options.log_dirs.clone();
    life(&disk, &with, async |cluster| {
        for partition in 0..4 {
            assert_eq!(cluster.values("t", partition).await, VALUES);
        }
    });
}
