//! `AlterReplicaLogDirs` (key 34), versions 1-2: moves partitions' logs between log directories and
//! tiers.
//!
//! The response is sent when the move has begun; `DescribeLogDirs` shows the progress. Naming the
//! log's current directory cancels a move in progress. A path of a lower tier moves the sealed
//! segments to that tier, a path of the first tier moves the whole log there. If a request names a
//! partition several times, the last one counts, and there is one result, as in Kafka. Kafka's
//! errors: `LOG_DIR_NOT_FOUND` for a path that is not a log directory, `KAFKA_STORAGE_ERROR` for a
//! failed one, `INVALID_TOPIC_EXCEPTION` for a topic name that is too long to add the suffix of the
//! copy's folder, `INVALID_REPLICA_ASSIGNMENT` for a cordoned directory.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use platform::Platform;
use platform::task;
use storage::tier::TierPath;
use wire::acl::{CLUSTER_NAME, Operation, ResourceType};
use wire::messages::alter_replica_log_dirs_response::{
    AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult,
};
use wire::messages::{AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse, TopicName};
use wire::types::ErrorCode;

use crate::Broker;
use crate::access::Access;
use crate::fetch_session::TopicKey;
use crate::many::RequestPlace;
use crate::partition::Partition;
use crate::rests::{PIECE, Rests, each};
use crate::route::at_partitions;

/// Bytes that the name of a copy's folder adds to that of the log's folder.
const COPY_SUFFIX_BYTES: usize = ".".len() + 32 + "-future".len();
const NAME_BYTES_MAX: usize = 255;

/// The destination of a log.
#[derive(Clone)]
enum Target {
    /// A log directory.
    Home(PathBuf),
    /// A path of a lower tier.
    Lower(Arc<TierPath>),
}

pub(crate) async fn handle<P: Platform>(
    broker: &Rc<Broker<P>>,
    access: &Access,
    request: AlterReplicaLogDirsRequest,
    place_of_many: Option<RequestPlace>,
) -> AlterReplicaLogDirsResponse {
    let mut rests = Rests::new();
    let mut count: usize = 0;
    for topic in request.dirs.iter().flat_map(|dir| &dir.topics) {
        count = count.saturating_add(topic.partitions.len());
        rests.item().await;
    }
    // Index of each partition in `items`. A table that grows hashes all of it in one piece.
    let mut known: HashMap<(TopicName, i32), usize> = HashMap::with_capacity(count);
    let mut names = Vec::with_capacity(count);
    let mut items = Vec::with_capacity(count);
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
    // From here only names take memory, and the request waits for disks, so it gives up its place.
    drop(place_of_many);
    if known.len() > PIECE {
        task::free_elsewhere(known);
    }
    let may_move = prepared(broker, access, &mut items).await;
    let moved = at_partitions(broker, items, move |broker, partition, to| async move {
        match to {
            Some(to) => send(&broker, &partition, to, may_move).await,
            None => Err(ErrorCode::LogDirNotFound),
        }
    });
    let mut topics: BTreeMap<TopicName, Vec<AlterReplicaLogDirPartitionResult>> = BTreeMap::new();
    for ((topic, partition), outcome) in names.into_iter().zip(moved.await) {
        // This request reports a partition without a replica by the error from before
        // `NOT_LEADER_OR_FOLLOWER`.
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

/// What is asked of a partition: where it is, and where its log is to be.
type Item = (Result<crate::route::Target, ErrorCode>, Option<Target>);

/// Returns whether logs may move to other directories, and refuses all of them if the client has
/// lost its right meanwhile.
async fn prepared<P: Platform>(
    broker: &Rc<Broker<P>>,
    access: &Access,
    items: &mut [Item],
) -> bool {
    let to_home = |(_, to): &Item| matches!(to, Some(Target::Home(_)));
    let may_move = items.iter().any(to_home) && broker.may_move_logs().await;
    let (operation, resource_type) = (Operation::Alter, ResourceType::Cluster);
    if access.has_lost(broker, operation, resource_type, CLUSTER_NAME) {
        for (found, _) in items {
            *found = found.and(Err(ErrorCode::ClusterAuthorizationFailed));
        }
    }
    may_move
}

/// Returns the log directory or tier path with this path.
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
