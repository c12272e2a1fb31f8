//! What is wrong with partitions: no leader, too few replicas in sync.
//!
//! A partition is named once, with the worst that is wrong with it. As in Kafka, a partition with
//! fewer replicas than `min.insync.replicas` needs all of them.

use std::collections::BTreeMap;

use wire::messages::metadata_response::{MetadataResponsePartition, MetadataResponseTopic};

use super::Problem;
use crate::ask::Cluster;
use crate::configs::{Resource, settings};

const MIN_ISR: &str = "min.insync.replicas";

/// Returns the problems of all partitions; asks for settings only where replicas are missing.
pub(super) fn problems(
    cluster: &mut Cluster,
    topics: &[MetadataResponseTopic],
) -> anyhow::Result<Vec<Problem>> {
    let mut needed = BTreeMap::new();
    let lacks = topics
        .iter()
        .filter(|topic| topic.partitions.iter().any(lacks_replicas));
    for topic in lacks {
        let keys = [MIN_ISR.to_owned()];
        let settings = settings(
            cluster.entrance(),
            Resource::Topic,
            name(topic),
            Some(&keys),
        )?;
        let value = settings.into_iter().find_map(|one| one.value);
        if let Some(least) = value.and_then(|value| value.parse::<usize>().ok()) {
            needed.insert(name(topic).to_owned(), least);
        }
    }
    Ok(found(topics, &needed))
}

fn name(topic: &MetadataResponseTopic) -> &str {
    topic.name.as_ref().map_or("", |name| name.0.as_str())
}

fn lacks_replicas(partition: &MetadataResponsePartition) -> bool {
    partition.isr_nodes.len() < partition.replica_nodes.len()
}

/// Returns the problems, given how many replicas in sync each topic needs.
fn found(topics: &[MetadataResponseTopic], needed: &BTreeMap<String, usize>) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut topics: Vec<_> = topics.iter().collect();
    topics.sort_by(|one, other| name(one).cmp(name(other)));
    for topic in topics {
        let name = name(topic);
        let least = needed.get(name).copied().unwrap_or(1);
        let mut partitions: Vec<_> = topic.partitions.iter().collect();
        partitions.sort_by_key(|partition| partition.partition_index);
        for partition in partitions {
            if let Some(problem) = of_partition(partition, least) {
                let place = format!("{name}-{}", partition.partition_index);
                problems.push(Problem::at(problem, place));
            }
        }
    }
    // Those of a kind stay in their order.
    problems.sort_by_key(|one| one.problem);
    problems
}

fn of_partition(partition: &MetadataResponsePartition, least: usize) -> Option<&'static str> {
    let (replicas, isr) = (partition.replica_nodes.len(), partition.isr_nodes.len());
    if partition.leader_id.0 < 0 {
        Some("partition has no leader")
    } else if isr < least.min(replicas) {
        Some("partition is below min.insync.replicas")
    } else if lacks_replicas(partition) {
        Some("partition is under-replicated")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use wire::messages::{BrokerId, TopicName};

    use super::*;
    use crate::ask::text;

    fn partition(
        index: i32,
        leader: i32,
        replicas: &[i32],
        isr: &[i32],
    ) -> MetadataResponsePartition {
        let ids = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect();
        MetadataResponsePartition::default()
            .with_partition_index(index)
            .with_leader_id(BrokerId(leader))
            .with_replica_nodes(ids(replicas))
            .with_isr_nodes(ids(isr))
    }

    #[test]
    fn a_partition_has_the_worst_of_its_problems() {
        let topic = |name: &str, partitions| {
            MetadataResponseTopic::default()
                .with_name(Some(TopicName(text(name))))
                .with_partitions(partitions)
        };
        let cars = topic(
            "cars",
            vec![
                partition(3, -1, &[1, 2, 3], &[]),
                partition(0, 1, &[1, 2, 3], &[1, 2, 3]),
                partition(1, 1, &[1, 2, 3], &[1, 2]),
                partition(2, 1, &[1, 2, 3], &[1]),
            ],
        );
        // One replica is all there is: it is in sync.
        let alone = topic("alone", vec![partition(0, 1, &[1], &[1])]);
        let needed = BTreeMap::from([("cars".to_owned(), 2), ("alone".to_owned(), 2)]);
        let expected = [
            Problem::at("partition has no leader", "cars-3"),
            Problem::at("partition is below min.insync.replicas", "cars-2"),
            Problem::at("partition is under-replicated", "cars-1"),
        ];
        assert_eq!(found(&[cars, alone], &needed), expected);
    }

    #[test]
    fn what_is_whole_is_no_problem() {
        let whole = MetadataResponseTopic::default().with_partitions(vec![partition(
            0,
            1,
            &[1, 2],
            &[2, 1],
        )]);
        assert_eq!(found(&[whole], &BTreeMap::new()), []);
    }
}
