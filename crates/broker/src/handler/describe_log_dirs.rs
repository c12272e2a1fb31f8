//! `DescribeLogDirs` (key 35), versions 1-5: the partitions in each log directory, and the space on
//! its file system.
//!
//! Sizes are bytes of records, without indexes. Version 4 added total and usable bytes; unknown
//! values are -1. Version 5 added which directories are cordoned: by setting, by an operator or
//! because they are being drained. A directory in which a write or fsync failed has
//! `KAFKA_STORAGE_ERROR`, as in Kafka; its partitions are still listed, because they can still be
//! read. With tiers, every path of every tier is a directory, and a partition is listed in each
//! that has segments of it. A log that is moving to another directory is listed there as a future
//! log, with the bytes copied so far. The space of a directory that hangs is unknown, and has
//! `KAFKA_STORAGE_ERROR` too.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use platform::disk::Space;
use platform::{Disk, Platform};
use wire::kafka::NewestVersion;
use wire::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use wire::messages::{DescribeLogDirsRequest, DescribeLogDirsResponse, TopicName};
use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use crate::Broker;
use crate::join::join_all;
use crate::rests::Rests;

/// A log, or a part of it, in a directory.
#[derive(Clone, Copy)]
struct ReplicaInfo {
    partition: i32,
    bytes: u64,
    /// For a future log: the number of records by which the copy is behind.
    behind: Option<i64>,
}

/// The logs of each directory and topic.
type Sizes = Vec<(PathBuf, String, ReplicaInfo)>;

pub(crate) async fn handle<P: Platform>(
    broker: &Rc<Broker<P>>,
    request: DescribeLogDirsRequest,
) -> NewestVersion<DescribeLogDirsResponse> {
    let seen = broker
        .shards
        .call_all(|broker| async move { (sizes(&broker), failed_dirs(&broker)) })
        .await;
    let (sizes, failed): (Vec<_>, Vec<_>) = seen.into_iter().unzip();
    let failed: BTreeSet<PathBuf> = failed.into_iter().flatten().collect();
    let mut rests = Rests::new();
    let wanted = RequestedPartitions::of(&request, &mut rests).await;
    let mut by_dir: BTreeMap<PathBuf, BTreeMap<String, Vec<ReplicaInfo>>> = BTreeMap::new();
    for (dir, topic, listed) in sizes.into_iter().flatten() {
        if wanted
            .as_ref()
            .is_none_or(|wanted| wanted.has(&topic, listed.partition))
        {
            by_dir
                .entry(dir)
                .or_default()
                .entry(topic)
                .or_default()
                .push(listed);
        }
        rests.item().await;
    }
    let mut results = Vec::new();
    let mut more = Vec::new();
    let dirs = dirs(broker);
    // At once: each that hangs is waited for, and many may hang.
    let spaces = join_all(dirs.iter().map(|dir| space_of(broker, dir))).await;
    for (dir, space) in dirs.into_iter().zip(spaces) {
        more.push(broker.is_cordoned(&dir));
        let topics = by_dir.remove(&dir).unwrap_or_default();
        let path = StrBytes::from_string(dir.display().to_string());
        let result = DescribeLogDirsResult::default()
            .with_log_dir(path)
            .with_topics(topics.into_iter().map(topic_sizes).collect());
        results.push(match space {
            Ok(space) => result
                .with_error_code(if failed.contains(&dir) {
                    ErrorCode::KafkaStorageError.code()
                } else {
                    0
                })
                .with_total_bytes(i64::try_from(space.total).unwrap_or(i64::MAX))
                .with_usable_bytes(i64::try_from(space.free).unwrap_or(i64::MAX)),
            Err(error) => {
                if let Some(unsaid) = broker.roomless.turn(broker.platform.clock().now()) {
                    tracing::warn!(dir = %dir.display(), %error, unsaid, "cannot ask for free room");
                }
                result
                    .with_error_code(ErrorCode::KafkaStorageError.code())
                    .with_total_bytes(-1)
                    .with_usable_bytes(-1)
            }
        });
    }
    NewestVersion {
        message: DescribeLogDirsResponse::default().with_results(results),
        more,
    }
}

/// Returns the space of a directory, unless it hangs.
async fn space_of<P: Platform>(broker: &Rc<Broker<P>>, dir: &Path) -> io::Result<Space> {
    let (me, at) = (Rc::clone(broker), dir.to_owned());
    let asked = async move { me.platform.disk().space(&at).await };
    let answered = broker.while_it_answers(dir, asked).await;
    // Without an answer: the directory hangs, or the shard ends, and no client gets it.
    answered.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
}

/// Returns the log directories, and the paths of the lower tiers.
fn dirs<P: Platform>(broker: &Broker<P>) -> Vec<PathBuf> {
    let home = broker.log_dirs.dirs.iter().map(|dir| dir.path.clone());
    let lower = broker
        .store
        .tiers()
        .into_iter()
        .flat_map(|tiers| tiers.lower_dirs());
    home.chain(lower.cloned()).collect()
}

fn sizes<P: Platform>(broker: &Broker<P>) -> Sizes {
    let partitions = broker.partitions.borrow();
    let led = partitions.values().filter_map(|slot| slot.as_ref().ok());
    led.flat_map(|partition| {
        let log = &partition.log;
        let row = |dir: &Path, bytes, behind| {
            let partition_index = partition.name.partition;
            let listed = ReplicaInfo {
                partition: partition_index,
                bytes,
                behind,
            };
            (dir.to_path_buf(), partition.name.topic.to_string(), listed)
        };
        let mut rows: Sizes = match broker.store.tiers() {
            None => vec![row(log.dir(), log.size_bytes(), None)],
            Some(tiers) => {
                let by_path = log.tiers().bytes_by_path().into_iter();
                let known =
                    by_path.filter_map(|(id, bytes)| Some(row(tiers.path(id)?.dir(), bytes, None)));
                known.collect()
            }
        };
        if let Some(moving) = broker.moves.of(partition) {
            let behind = log.log_end_offset().since(moving.copied_end());
            rows.push(row(
                moving.dir(),
                moving.copied_bytes(),
                Some(behind.max(0)),
            ));
        }
        rows
    })
    .collect()
}

/// Returns the directories that a shard can no longer write to.
fn failed_dirs<P: Platform>(broker: &Broker<P>) -> Vec<PathBuf> {
    let paths = broker
        .store
        .tiers()
        .into_iter()
        .flat_map(|tiers| tiers.paths());
    let of_tiers = paths.filter(|path| path.failed().is_some());
    let of_tiers = of_tiers.map(|path| path.dir().to_path_buf());
    let dirs = dirs(broker).into_iter();
    dirs.filter(|dir| broker.store.dir_failed(dir))
        .chain(of_tiers)
        .collect()
}

/// The partitions that a request names.
// Bounded: lives with one request, `wire::kafka::shape::DECODED_BYTES_MAX`.
struct RequestedPartitions<'a>(BTreeMap<&'a str, BTreeSet<i32>>);

impl<'a> RequestedPartitions<'a> {
    /// Returns the named partitions; `None` for all.
    async fn of(request: &'a DescribeLogDirsRequest, rests: &mut Rests) -> Option<Self> {
        let mut wanted: BTreeMap<&str, BTreeSet<i32>> = BTreeMap::new();
        for topic in request.topics.as_ref()? {
            let partitions = wanted.entry(topic.topic.as_str()).or_default();
            partitions.extend(&topic.partitions);
            rests.items(topic.partitions.len().max(1)).await;
        }
        Some(Self(wanted))
    }

    fn has(&self, topic: &str, partition: i32) -> bool {
        let partitions = self.0.get(topic);
        partitions.is_some_and(|partitions| partitions.contains(&partition))
    }
}

fn topic_sizes((topic, partitions): (String, Vec<ReplicaInfo>)) -> DescribeLogDirsTopic {
    let partitions = partitions.into_iter().map(|listed| {
        DescribeLogDirsPartition::default()
            .with_partition_index(listed.partition)
            .with_partition_size(i64::try_from(listed.bytes).unwrap_or(i64::MAX))
            .with_offset_lag(listed.behind.unwrap_or(0))
            .with_is_future_key(listed.behind.is_some())
    });
    let partitions = partitions.collect();
    DescribeLogDirsTopic::default()
        .with_name(TopicName(StrBytes::from_string(topic)))
        .with_partitions(partitions)
}
