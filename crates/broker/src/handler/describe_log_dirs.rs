//! `DescribeLogDirs` (key 35), versions 1-4: what lies in each log directory, and the room on its file system.
//!
//! Sizes are bytes of records, indexes not counted. Version 4 brought total and usable bytes; unknown ones are -1.
//! A directory that a write or sync failed in carries `KAFKA_STORAGE_ERROR`, as in Kafka; what lies in it is still listed,
//! because it is still read from.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use platform::{Disk, Platform};
use wire::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use wire::messages::{DescribeLogDirsRequest, DescribeLogDirsResponse, TopicName};
use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use crate::Broker;

/// Size of a log, by directory, topic and partition.
type Sizes = Vec<(usize, (String, i32), u64)>;

pub(crate) async fn handle<P: Platform>(
    broker: &Rc<Broker<P>>,
    request: DescribeLogDirsRequest,
) -> DescribeLogDirsResponse {
    let seen = broker
        .shards
        .call_all(|broker| async move { (sizes(&broker), failed_dirs(&broker)) })
        .await;
    let (sizes, failed): (Vec<_>, Vec<_>) = seen.into_iter().unzip();
    let failed: BTreeSet<usize> = failed.into_iter().flatten().collect();
    let mut by_dir: BTreeMap<usize, BTreeMap<String, Vec<(i32, u64)>>> = BTreeMap::new();
    for (dir, (topic, partition), bytes) in sizes.into_iter().flatten() {
        if wanted(&request, &topic, partition) {
            by_dir
                .entry(dir)
                .or_default()
                .entry(topic)
                .or_default()
                .push((partition, bytes));
        }
    }
    let mut results = Vec::new();
    for (index, dir) in broker.log_dirs.dirs.iter().enumerate() {
        let topics = by_dir.remove(&index).unwrap_or_default();
        let path = StrBytes::from_string(dir.path.display().to_string());
        let result = DescribeLogDirsResult::default()
            .with_log_dir(path)
            .with_topics(topics.into_iter().map(topic_sizes).collect());
        let space = broker.platform.disk().space(&dir.path).await;
        results.push(match space {
            Ok(space) => result
                .with_error_code(if failed.contains(&index) {
                    ErrorCode::KafkaStorageError.code()
                } else {
                    0
                })
                .with_total_bytes(i64::try_from(space.total).unwrap_or(i64::MAX))
                .with_usable_bytes(i64::try_from(space.free).unwrap_or(i64::MAX)),
            Err(error) => {
                tracing::warn!(dir = %dir.path.display(), %error, "cannot ask for free room");
                result
                    .with_error_code(ErrorCode::KafkaStorageError.code())
                    .with_total_bytes(-1)
                    .with_usable_bytes(-1)
            }
        });
    }
    DescribeLogDirsResponse::default().with_results(results)
}

fn sizes<P: Platform>(broker: &Broker<P>) -> Sizes {
    let partitions = broker.partitions.borrow();
    let led = partitions.values().filter_map(|slot| slot.as_ref().ok());
    led.map(|partition| {
        let name = (partition.name.topic.to_string(), partition.name.partition);
        (
            broker.log_dirs.index_of(partition.log.dir()),
            name,
            partition.log.size_bytes(),
        )
    })
    .collect()
}

/// The directories that a shard can no longer write to.
fn failed_dirs<P: Platform>(broker: &Broker<P>) -> Vec<usize> {
    let dirs = broker.log_dirs.dirs.iter().enumerate();
    dirs.filter(|(_, dir)| broker.store.dir_failed(&dir.path))
        .map(|(index, _)| index)
        .collect()
}

fn wanted(request: &DescribeLogDirsRequest, topic: &str, partition: i32) -> bool {
    request.topics.as_ref().is_none_or(|topics| {
        topics
            .iter()
            .any(|asked| asked.topic.as_str() == topic && asked.partitions.contains(&partition))
    })
}

fn topic_sizes((topic, partitions): (String, Vec<(i32, u64)>)) -> DescribeLogDirsTopic {
    let partitions = partitions.into_iter().map(|(partition, bytes)| {
        DescribeLogDirsPartition::default()
            .with_partition_index(partition)
            .with_partition_size(i64::try_from(bytes).unwrap_or(i64::MAX))
    });
    let partitions = partitions.collect();
    DescribeLogDirsTopic::default()
        .with_name(TopicName(StrBytes::from_string(topic)))
        .with_partitions(partitions)
}
