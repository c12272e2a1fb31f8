//! Which brokers get a new partition.
//!
//! Partition `i` begins at the `i`-th usable broker and takes the following ones, so leaders and
//! replicas spread evenly. For a broker with exactly one log directory, the record names that
//! directory; a broker with several chooses itself.

use wire::records::metadata::PartitionRecord;
use wire::types::{ErrorCode, Uuid};

use crate::image::{Image, PartitionImage};

use super::Refusal;

/// Marks a replica whose broker has not chosen a directory yet.
const UNASSIGNED: Uuid = Uuid::from_u128(1);

/// Returns the replicas for partitions `first..first + count`, `factor` each.
pub(crate) fn place(
    image: &Image,
    first: i32,
    count: i32,
    factor: i16,
) -> Result<Vec<Vec<i32>>, Refusal> {
    let refuse = |message: String| Err(Refusal::new(ErrorCode::InvalidReplicationFactor, message));
    let usable: Vec<i32> = image
        .brokers()
        .filter(|b| b.is_active())
        .map(|b| b.id)
        .collect();
    let Some(wanted) = usize::try_from(factor).ok().filter(|&wanted| wanted > 0) else {
        return refuse(format!(
            "Invalid replication factor {factor}: the replication factor must be positive."
        ));
    };
    if usable.is_empty() {
        return refuse(
            "All brokers are currently fenced, or have all their log directories cordoned.".into(),
        );
    }
    if wanted > usable.len() {
        return refuse(format!(
            "The target replication factor of {factor} cannot be reached because only {} \
             broker(s) are registered \
             or some brokers have all their log directories cordoned.",
            usable.len()
        ));
    }
    let partition = |index: i32| {
        let start = usize::try_from(index).unwrap_or(0) % usable.len();
        usable
            .iter()
            .cycle()
            .skip(start)
            .take(wanted)
            .copied()
            .collect()
    };
    Ok((first..first.saturating_add(count))
        .map(partition)
        .collect())
}

/// Checks replicas that a user chose; `factor` is the replica count of the existing partitions.
pub(crate) fn check_manual(
    image: &Image,
    replicas: &[i32],
    factor: Option<usize>,
) -> Result<(), Refusal> {
    let refuse = |message: String| Err(Refusal::new(ErrorCode::InvalidReplicaAssignment, message));
    if replicas.is_empty() {
        return refuse("The manual partition assignment includes an empty replica list.".into());
    }
    let mut sorted = replicas.to_vec();
    sorted.sort_unstable();
    let mut previous = None;
    for id in sorted {
        if image.broker(wire::types::NodeId(id)).is_none() {
            return refuse(format!(
                "The manual partition assignment includes broker {id}, but no such broker is \
                 registered."
            ));
        }
        if previous == Some(id) {
            return refuse(format!(
                "The manual partition assignment includes the broker {id} more than once."
            ));
        }
        previous = Some(id);
    }
    match factor {
        Some(factor) if factor != replicas.len() => refuse(format!(
            "The manual partition assignment includes a partition with {} replica(s), but this is \
             not consistent \
             with previous partitions, which have {factor} replica(s).",
            replicas.len()
        )),
        _ => Ok(()),
    }
}

/// Returns the replicas that can be in sync from the beginning.
pub(crate) fn active(image: &Image, replicas: &[i32]) -> Vec<i32> {
    let is_active = |id: i32| {
        image
            .broker(wire::types::NodeId(id))
            .is_some_and(|b| b.is_active())
    };
    replicas
        .iter()
        .copied()
        .filter(|id| is_active(*id))
        .collect()
}

/// Returns the record of a new partition. `isr` is not empty.
pub(crate) fn new_partition(
    image: &Image,
    topic: Uuid,
    index: i32,
    replicas: Vec<i32>,
    isr: Vec<i32>,
) -> PartitionRecord {
    let directory = |id: &i32| only_directory(image, *id);
    PartitionRecord {
        partition_id: index,
        topic_id: topic,
        directories: replicas.iter().map(directory).collect(),
        leader: isr.first().copied().unwrap_or(-1),
        leader_epoch: 0,
        partition_epoch: 0,
        replicas,
        isr,
        ..PartitionRecord::default()
    }
}

/// Returns the broker's directory if it has exactly one.
fn only_directory(image: &Image, broker: i32) -> Uuid {
    let broker = image.broker(wire::types::NodeId(broker));
    match broker.map(|broker| broker.directories.as_slice()) {
        Some([only]) => *only,
        _ => UNASSIGNED,
    }
}

/// Returns the directories of replicas; replicas that the partition already has keep theirs.
pub(crate) fn directories_of(
    image: &Image,
    partition: &PartitionImage,
    replicas: &[i32],
) -> Vec<Uuid> {
    let directory = |id: &i32| {
        let known = partition.replicas.iter().position(|known| known == id);
        let known = known.and_then(|at| partition.directories.get(at));
        known.copied().unwrap_or_else(|| only_directory(image, *id))
    };
    replicas.iter().map(directory).collect()
}
