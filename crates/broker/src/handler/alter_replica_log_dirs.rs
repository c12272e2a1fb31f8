//! `AlterReplicaLogDirs` (key 34), versions 1-2: moves partitions' logs between log directories and tiers.
//!
//! Answered when the move has begun; `DescribeLogDirs` shows how far it is. The directory that a log lies in ends a move
//! that is under way. A path of a lower tier asks for the sealed segments to be moved to that tier, a path of the first
//! tier for all of the log to get there. A partition that is named again goes where it is named last, as in Kafka, which
//! answers once. Kafka's codes: `LOG_DIR_NOT_FOUND` for a path that is no log directory,
//! `KAFKA_STORAGE_ERROR` for a failed one, `INVALID_TOPIC_EXCEPTION` for a name that leaves no room for the copy's,
//! `INVALID_REPLICA_ASSIGNMENT` for a directory that is cordoned.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use platform::Platform;
use storage::tier::TierPath;
use wire::messages::alter_replica_log_dirs_response::{
    AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult,
};
use wire::messages::{AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse, TopicName};
use wire::types::ErrorCode;

use crate::Broker;
use crate::fetch_session::TopicKey;
use crate::many::Place;
use crate::partition::Partition;
use crate::rests::{Rests, each};
use crate::route::at_partitions;

/// What a copy's name has more than the topic's and a hyphen with the partition's number.
const COPY_SUFFIX_BYTES: usize = ".".len() + 32 + "-future".len();
const NAME_BYTES_MAX: usize = 255;

/// Where a log is to go.
#[derive(Clone)]
enum Target {
    /// A log directory.
    Home(PathBuf),
    /// A path of a lower tier.
    Lower(Arc<TierPath>),
}

pub(crate) async fn handle<P: Platform>(
    broker: &Rc<Broker<P>>,
    request: AlterReplicaLogDirsRequest,
    place_of_many: Option<Place>,
) -> AlterReplicaLogDirsResponse {
    // Places among the items.
    let mut known: HashMap<(TopicName, i32), usize> = HashMap::new();
    let mut names = Vec::new();
    let mut items = Vec::new();
    let mut rests = Rests::new();
    for dir in request.dirs {
        let target = target(broker, Path::new(dir.path.as_str()));
        for topic in dir.topics {
            for partition in topic.partitions {
                let item = match place(broker, &topic.name, partition, &target) {
                    Ok((found, to)) => (Ok(found), Some(to)),
                    Err(code) => (Err(code), None),
                };
                let name = (topic.name.clone(), partition);
                let last = *known.entry(name.clone()).or_insert(items.len());
                if let Some(before) = items.get_mut(last) {
                    *before = item;
                } else {
                    items.push(item);
                    names.push(name);
                }
                rests.item().await;
            }
        }
    }
    let to_home = |(_, to): &(_, Option<Target>)| matches!(to, Some(Target::Home(_)));
    let may_move = items.iter().any(to_home);
    // What is left are names, and what takes long now are disks.
    drop(place_of_many);
    let may_move = may_move && broker.may_move_logs().await;
    let moved = at_partitions(broker, items, move |broker, partition, to| async move {
        match to {
            Some(to) => send(&broker, &partition, to, may_move).await,
            None => Err(ErrorCode::LogDirNotFound),
        }
    });
    let mut topics: BTreeMap<TopicName, Vec<AlterReplicaLogDirPartitionResult>> = BTreeMap::new();
    for ((topic, partition), outcome) in names.into_iter().zip(moved.await) {
        // A partition without a replica is called that here, as before there was another word for it.
        let code = match outcome {
            Ok(()) => 0,
            Err(ErrorCode::NotLeaderOrFollower) => ErrorCode::ReplicaNotAvailable.code(),
            Err(code) => code.code(),
        };
        let result = AlterReplicaLogDirPartitionResult::default()
            .with_partition_index(partition)
            .with_error_code(code);
        topics.entry(topic).or_default().push(result);
        rests.item().await;
    }
    let results = each(topics, |(topic, partitions)| {
        AlterReplicaLogDirTopicResult::default()
            .with_topic_name(topic)
            .with_partitions(partitions)
    });
    AlterReplicaLogDirsResponse::default().with_results(results.await)
}

/// The log directory or tier path that is called so.
fn target<P: Platform>(broker: &Broker<P>, path: &Path) -> Result<Target, ErrorCode> {
    let tiers = broker.store.tiers();
    let mut paths = tiers.into_iter().flat_map(|tiers| tiers.paths());
    let of_tier = paths.find(|known| known.dir() == path);
    if of_tier.is_some_and(|known| known.failed().is_some()) {
        return Err(ErrorCode::KafkaStorageError);
    }
    if let Some(lower) = of_tier.filter(|known| known.tier > 0) {
        return Ok(Target::Lower(Arc::clone(lower)));
    }
    let mut dirs = broker.log_dirs.dirs.iter();
    if !dirs.any(|dir| dir.path == path) {
        return Err(ErrorCode::LogDirNotFound);
    }
    if broker.store.dir_failed(path) {
        return Err(ErrorCode::KafkaStorageError);
    }
    Ok(Target::Home(path.to_path_buf()))
}

fn place<P: Platform>(
    broker: &Broker<P>,
    topic: &str,
    partition: i32,
    target: &Result<Target, ErrorCode>,
) -> Result<(crate::route::Target, Target), ErrorCode> {
    let folder = format!("{topic}-{partition}").len();
    if folder.saturating_add(COPY_SUFFIX_BYTES) > NAME_BYTES_MAX {
        return Err(ErrorCode::InvalidTopicException);
    }
    let target = target.clone()?;
    let found = broker.target(&TopicKey::Name(topic.into()), partition)?;
    Ok((found, target))
}

async fn send<P: Platform>(
    broker: &Rc<Broker<P>>,
    partition: &Rc<Partition<P>>,
    to: Target,
    may_move: bool,
) -> Result<(), ErrorCode> {
    match to {
        Target::Lower(path) => {
            Broker::ask_for_tier(partition, &path);
            Ok(())
        }
        Target::Home(dir) => {
            let is_home = partition.log.dir() == dir;
            if !is_home && broker.node.is_cordoned(&dir) {
                return Err(ErrorCode::InvalidReplicaAssignment);
            }
            broker.move_log(partition, &dir, may_move).await?;
            let tiers = broker.store.tiers();
            if let Some(path) = tiers.and_then(|tiers| tiers.holding(&dir)) {
                Broker::ask_for_tier(partition, path);
            }
            Ok(())
        }
    }
}
