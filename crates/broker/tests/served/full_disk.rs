//! A disk without a byte left: deleting topics, deleting records and shortening retention work, and
//! their room comes back.

use std::path::Path;

use broker::image::ResourceType;
use platform::Disk;
use platform::sim::SimDisk;
use wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use wire::messages::{DeleteRecordsRequest, IncrementalAlterConfigsRequest};
use wire::types::ErrorCode;

use crate::harness::asks::{error, text, topic_name};
use crate::harness::batches::large;
use crate::harness::journal::lines_of;
use crate::harness::{Cluster, Setup, life};

const DISK_BYTES: u64 = 32 << 20;
/// Until the files of what was deleted are gone.
const GONE_MS: u64 = 62_000;

/// Topics `big` and `small`; `big` has what fits on the disk.
async fn fill(cluster: &Cluster, config: &[(&str, &str)]) {
    cluster.disk().set_capacity_bytes(Some(DISK_BYTES));
    cluster.create_with("big", 1, config).await;
    cluster.create("small", 1).await;
    cluster.produce("small", 0, &["kept"]).await;
    cluster.pass_ms(120_000).await;
    let mut produced = 0;
    while cluster.try_produce("big", 0, large(200_000)).await.is_ok() {
        produced += 1;
        assert!(produced < 1000, "the disk is never full");
    }
    assert!(produced > 50, "{produced}");
    // Another program takes what is left.
    let space = cluster.disk().space(Path::new("/logs")).await.unwrap();
    let used_bytes = space.total - space.free;
    cluster.disk().set_capacity_bytes(Some(used_bytes));
}

/// The disk is as large as it was.
fn as_large_as_before(cluster: &Cluster) {
    cluster.disk().set_capacity_bytes(Some(DISK_BYTES));
}

async fn serves(cluster: &Cluster, what: &str) {
    cluster.pass_ms(GONE_MS).await;
    as_large_as_before(cluster);
    cluster.pass_ms(2000).await;
    for _ in 0..20 {
        let taken = cluster.try_produce("small", 0, large(200_000)).await;
        assert!(taken.is_ok(), "{what}: {taken:?}");
    }
}

async fn delete_records(cluster: &Cluster, topic: &str, upto: i64) -> Option<ErrorCode> {
    let partition = DeleteRecordsPartition::default()
        .with_partition_index(0)
        .with_offset(upto);
    let topic = DeleteRecordsTopic::default()
        .with_name(topic_name(topic))
        .with_partitions(vec![partition]);
    let request = DeleteRecordsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(1000);
    let answer = cluster.ask(2, &request).await;
    error(answer.topics[0].partitions[0].error_code)
}

async fn set(cluster: &Cluster, topic: &str, name: &str, value: &str) -> Option<ErrorCode> {
    let config = AlterableConfig::default()
        .with_name(text(name))
        .with_value(Some(text(value)));
    let resource = AlterConfigsResource::default()
        .with_resource_type(ResourceType::TOPIC.0)
        .with_resource_name(text(topic))
        .with_configs(vec![config]);
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
    let answer = cluster.ask(1, &request).await;
    error(answer.responses[0].error_code)
}

#[test]
fn on_a_full_disk_topics_can_be_deleted_and_make_room() {
    life(&SimDisk::new(1), &Setup::shards(2), async |cluster| {
        for at in 0..300 {
            cluster.create(&format!("topic-{at}"), 1).await;
        }
        fill(cluster, &[]).await;
        for at in 0..300 {
            let name = format!("topic-{at}");
            assert_eq!(cluster.delete(&name).await, None, "{name}");
        }
        assert_eq!(cluster.delete("big").await, None);
        serves(cluster, "after the deletion").await;
        cluster.create("again", 3).await;
    });
}

#[test]
fn a_broker_starts_on_a_full_disk_and_topics_can_be_deleted_there() {
    for clean in [true, false] {
        let (disk, setup) = (SimDisk::new(1), Setup::shards(2));
        let disk = life(&disk, &setup, async |cluster| {
            for at in 0..100 {
                cluster.create(&format!("topic-{at}"), 1).await;
            }
            fill(cluster, &[]).await;
            if clean {
                // What the logs cannot save for want of room is found by the next start.
                let _ = cluster.brokers[0].stop().await;
            }
            cluster.disk().kill(1)
        });
        disk.set_capacity_bytes(Some(DISK_BYTES));
        life(&disk, &setup.next(), async |cluster| {
            assert_eq!(cluster.values("small", 0).await, ["kept"], "clean {clean}");
            while cluster.try_produce("big", 0, large(100_000)).await.is_ok() {}
            for at in 0..100 {
                let name = format!("topic-{at}");
                assert_eq!(cluster.delete(&name).await, None, "{name}, clean {clean}");
            }
            assert_eq!(cluster.delete("big").await, None, "clean {clean}");
            serves(cluster, "after the deletion").await;
        });
    }
}

#[test]
fn on_a_full_disk_records_can_be_deleted_and_stay_deleted() {
    let (disk, setup) = (SimDisk::new(1), Setup::shards(2));
    let disk = life(&disk, &setup, async |cluster| {
        fill(cluster, &[("segment.bytes", "1048576")]).await;
        assert_eq!(delete_records(cluster, "big", 50).await, None);
        assert_eq!(delete_records(cluster, "small", 1).await, None);
        cluster.disk().kill(1)
    });
    disk.set_capacity_bytes(Some(DISK_BYTES));
    life(&disk, &setup.next(), async |cluster| {
        assert_eq!(cluster.offset("big", 0, -2).await, 50);
        assert_eq!(cluster.offset("small", 0, -2).await, 1);
        cluster.pass_ms(301_000).await;
        serves(cluster, "after the deletion").await;
    });
}

#[test]
fn on_a_full_disk_a_shorter_retention_makes_room() {
    life(&SimDisk::new(1), &Setup::shards(2), async |cluster| {
        fill(cluster, &[("segment.bytes", "1048576")]).await;
        let code = set(cluster, "big", "retention.bytes", "2097152").await;
        assert_eq!(code, None);
        cluster.pass_ms(301_000).await;
        serves(cluster, "with a shorter retention").await;
    });
}

#[test]
fn partitions_are_not_made_of_the_room_for_deletions() {
    let mut setup = Setup::shards(2);
    setup.options.metadata_reserve_bytes = 64 << 10;
    life(&SimDisk::new(1), &setup, async |cluster| {
        fill(cluster, &[]).await;
        let mut refused = None;
        for at in 0..100 {
            refused = cluster.try_create(&format!("new-{at}"), 50, &[]).await;
            if refused.is_some() {
                break;
            }
        }
        assert_eq!(refused, Some(ErrorCode::KafkaStorageError), "at once");
        for at in 0..100 {
            let value = format!("{}", 1_000_000 + at);
            let code = set(cluster, "small", "max.message.bytes", &value).await;
            assert_eq!(code, None, "settings may make room");
        }
        assert_eq!(cluster.delete("big").await, None);
        serves(cluster, "after the deletion").await;
        assert_eq!(cluster.try_create("new", 1, &[]).await, None);
    });
}

#[test]
fn a_stop_on_a_full_disk_succeeds_and_nothing_is_said_that_is_not_so() {
    let (disk, mut setup) = (SimDisk::new(1), Setup::shards(2));
    setup.options.metadata_snapshot_bytes = 4000;
    let mut acknowledged = 0;
    let mut after = None;
    let lines = lines_of(|| {
        after = Some(life(&disk, &setup, async |cluster| {
            fill(cluster, &[]).await;
            acknowledged = cluster.offset("big", 0, -1).await;
            for at in 0..60 {
                let value = format!("{}", 1_000_000 + at);
                let code = set(cluster, "small", "max.message.bytes", &value).await;
                assert_eq!(code, None);
            }
            let stopped = cluster.brokers[0].stop().await;
            stopped.expect("there is nothing to mend but the room");
            cluster.disk().kill(1)
        }));
    });
    let count = |what: &str| lines.iter().filter(|line| line.contains(what)).count();
    assert_eq!(count("a snapshot of the metadata"), 1, "{lines:?}");
    assert_eq!(count("there is room again"), 0, "there is none: {lines:?}");
    assert_eq!(count("cannot close"), 0, "{lines:?}");
    assert!(count("no room to leave the log in order") > 0, "{lines:?}");
    life(&after.unwrap(), &setup.next(), async |cluster| {
        assert_eq!(cluster.values("small", 0).await, ["kept"]);
        assert!(cluster.offset("big", 0, -1).await >= acknowledged);
        as_large_as_before(cluster);
        assert_eq!(cluster.delete("big").await, None);
        serves(cluster, "after a stop and a start").await;
    });
}

#[test]
fn the_broker_knows_its_own_files_again() {
    let (disk, setup) = (SimDisk::new(1), Setup::shards(1));
    let disk = life(&disk, &setup, async |cluster| {
        cluster.create("t", 1).await;
        cluster.pass_ms(120_000).await;
        cluster.disk().kill(1)
    });
    let lines = lines_of(|| life(&disk, &setup.next(), async |_| ()));
    let foreign: Vec<_> = lines
        .iter()
        .filter(|line| line.contains("foreign"))
        .collect();
    assert!(foreign.is_empty(), "{foreign:?}");
}
