//! Deleting records: what other logs, and other directories, wait for is nothing to it, and nothing
//! is said to be deleted that may come back.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use platform::Platform;
use platform::sim::{Effect, Fault, OpKind, SimDisk};
use platform::task::spawn;
use wire::messages::DeleteRecordsRequest;
use wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use wire::types::{ErrorCode, Offset};

use crate::hanging_disks::{on_lower_tier, spread, two_directories};
use crate::harness::asks::{error, produce, topic_name};
use crate::harness::batches::batch;
use crate::harness::journal::lines_of;
use crate::harness::{Cluster, Setup, life};
use crate::moving_tiers::tiers;
use crate::offsets::delete_before;

const NOT_DURABLE: Result<i64, ErrorCode> = Err(ErrorCode::KafkaStorageError);

#[test]
fn records_are_deleted_beside_a_log_that_was_cut_and_waits_for_a_path_that_hangs() {
    let (disk, mut setup) = (SimDisk::new(1), tiers());
    setup.options.retention_check = Duration::from_hours(1);
    let mut lines = lines_of(|| {
        life(&disk, &setup, async |cluster| {
            on_lower_tier(cluster, &disk, &[("retention.ms", "60000")]).await;
            let others: Vec<_> = (0..8).map(|number| format!("u{number}")).collect();
            for other in &others {
                cluster.create(other, 1).await;
                cluster.produce(other, 0, &["a", "b"]).await;
            }
            cluster.pass_ms(2 * 60_000).await;
            let mut logs = cluster.brokers[0].store.logs().into_iter();
            let cut = logs.find(|log| log.topic_partition().topic.as_ref() == "t");
            let cut = cut.unwrap();
            let beside = |other: &String| {
                let file = cut.dir().join(format!("{other}-0/partition.metadata"));
                disk.contents(&file).is_ok()
            };
            assert!(others.iter().any(beside), "none is in its directory");
            cut.truncate_to(Offset(4)).await.unwrap();
            disk.set_hanging(Path::new("/c"), true);
            let now = cluster.platform.clock().reading();
            spawn(async move { drop(cut.retain(now).await) });
            cluster.pass_ms(1000).await;
            for other in &others {
                assert_eq!(delete_before(cluster, other, 1).await, Ok(1), "{other}");
            }
            assert_eq!(delete_before(cluster, "t", 1).await, NOT_DURABLE);
            disk.set_hanging(Path::new("/c"), false);
            cluster.pass_ms(2 * 60_000).await;
            assert!(delete_before(cluster, "t", 1).await.is_ok());
        });
    });
    lines.retain(|line| line.contains("do not hold for a log yet"));
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("partition=t-0"), "{lines:?}");
}

/// Deletes the first record of each partition.
async fn delete_first(cluster: &Cluster, count: i32) -> BTreeMap<i32, Result<i64, ErrorCode>> {
    let first = |index| {
        DeleteRecordsPartition::default()
            .with_partition_index(index)
            .with_offset(1)
    };
    let topic = DeleteRecordsTopic::default()
        .with_name(topic_name("t"))
        .with_partitions((0..count).map(first).collect());
    let request = DeleteRecordsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(1000);
    let answer = cluster.ask(2, &request).await;
    let told = answer.topics[0].partitions.iter();
    let told = told.map(|told| {
        let start = error(told.error_code).map_or(Ok(told.low_watermark), Err);
        (told.partition_index, start)
    });
    told.collect()
}

#[test]
fn records_are_deleted_beside_a_directory_whose_checkpoints_cannot_be_written() {
    let disk = SimDisk::new(1);
    life(&disk, &two_directories(), async |cluster| {
        let (in_b, in_a) = spread(cluster, &disk).await;
        assert!(!in_b.is_empty() && !in_a.is_empty());
        let fails = Fault {
            path_contains: Some("/b/log-start-offset-checkpoint".to_owned()),
            ..Fault::at_kind(0, OpKind::Write, Effect::Fail(std::io::ErrorKind::Other))
        };
        disk.inject(fails);
        let told = delete_first(cluster, 4).await;
        assert_eq!(disk.faults_left(), 0, "it was not tried");
        for partition in &in_a {
            assert_eq!(told[partition], Ok(1));
        }
        for partition in &in_b {
            assert_eq!(told[partition], NOT_DURABLE);
        }
        // It can be by now.
        let told = delete_first(cluster, 4).await;
        assert!(told.values().all(|start| *start == Ok(1)));
    });
}

#[test]
fn records_of_a_topic_that_goes_meanwhile_are_not_said_to_be_deleted() {
    let disk = SimDisk::new(1);
    life(&disk, &Setup::shards(1), async |cluster| {
        cluster.create("t", 1).await;
        disk.set_latency(Duration::from_millis(300), Duration::from_millis(300));
        let appended = spawn(cluster.asking(0, 9, &produce("t", 1, &[(0, batch(&["a"]))])));
        cluster.pass_ms(1).await;
        let partition = DeleteRecordsPartition::default().with_offset(-1);
        let topic = DeleteRecordsTopic::default()
            .with_name(topic_name("t"))
            .with_partitions(vec![partition]);
        let request = DeleteRecordsRequest::default()
            .with_topics(vec![topic])
            .with_timeout_ms(60_000);
        let deleted = spawn(cluster.asking(0, 2, &request));
        cluster.pass_ms(1).await;
        assert_eq!(cluster.delete("t").await, None);
        let told = deleted.await.unwrap().topics[0].partitions[0].clone();
        let gone = Some(ErrorCode::NotLeaderOrFollower);
        assert_eq!((error(told.error_code), told.low_watermark), (gone, -1));
        drop(appended.await);
    });
}

/// Kafka keeps the partitions of a request in a map.
#[test]
fn a_partition_that_is_named_often_is_deleted_from_once() {
    let topic = |name: &str, offsets: &[(i32, i64)]| {
        let partitions = offsets.iter().map(|&(index, offset)| {
            DeleteRecordsPartition::default()
                .with_partition_index(index)
                .with_offset(offset)
        });
        DeleteRecordsTopic::default()
            .with_name(topic_name(name))
            .with_partitions(partitions.collect())
    };
    life(&SimDisk::new(1), &Setup::shards(1), async |cluster| {
        cluster.create("t", 1).await;
        cluster.produce("t", 0, &["a", "b", "c"]).await;
        let request = DeleteRecordsRequest::default()
            .with_topics(vec![
                topic("t", &[(0, 3), (7, 1), (0, 1)]),
                topic("u", &[(0, 1)]),
                topic("t", &[(7, 1), (0, 2)]),
            ])
            .with_timeout_ms(1000);
        let answer = cluster.ask(2, &request).await;
        let told: Vec<_> = answer
            .topics
            .iter()
            .map(|topic| {
                let partitions = topic.partitions.iter();
                let told = partitions.map(|told| {
                    (
                        told.partition_index,
                        error(told.error_code),
                        told.low_watermark,
                    )
                });
                (topic.name.as_str(), told.collect::<Vec<_>>())
            })
            .collect();
        let missing = Some(ErrorCode::UnknownTopicOrPartition);
        let expected = [
            ("t", vec![(0, None, 2), (7, missing, -1)]),
            ("u", vec![(0, missing, -1)]),
        ];
        assert_eq!(told, expected);
    });
}
