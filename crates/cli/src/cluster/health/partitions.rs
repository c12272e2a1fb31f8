//! What is wrong with partitions: no leader, too few replicas in sync.
//!
//! A partition is named once, with the worst that is wrong with it. As in Kafka, a partition with
//! fewer replicas than `min.insync.replicas` needs all of them.

use std::collections::BTreeMap;

use wire::messages::metadata_response::{MetadataResponsePartition, MetadataResponseTopic};

use super::Problem;
use crate::ask::{Cluster, Failure, Refusal, check};
use crate::configs::{self, Resource, Setting};

const MIN_ISR: &str = "min.insync.replicas";

/// The most topics whose settings are asked for at once.
const TOPICS_MAX: usize = 1000;

/// Returns the problems of all partitions; asks for settings only where replicas are missing.
pub(super) fn problems(cluster: &mut Cluster, topics: &[MetadataResponseTopic]) -> Vec<Problem> {
    let lacks = topics
        .iter()
        .filter(|topic| topic.partitions.iter().any(lacks_replicas));
    let lacks: Vec<_> = lacks.map(name).collect();
    let mut needed = NeededReplicas::default();
    for names in lacks.chunks(TOPICS_MAX) {
        let keys = [MIN_ISR.to_owned()];
        let broker = cluster.entrance();
        let answers =
            broker.and_then(|broker| configs::of_each(broker, Resource::Topic, names, Some(&keys)));
        needed.take(names, answers);
    }
    let mut problems = found(topics, &needed.replicas);
    problems.extend(needed.problems);
    problems
}

/// How many replicas in sync topics need, and the topics that this is not known of.
#[derive(Default, Debug)]
struct NeededReplicas {
    replicas: BTreeMap<String, usize>,
    problems: Vec<Problem>,
}

impl NeededReplicas {
    /// Takes in what the broker answered for these topics.
    fn take(
        &mut self,
        names: &[&str],
        answers: anyhow::Result<BTreeMap<String, Result<Vec<Setting>, Refusal>>>,
    ) {
        let mut unknown = |place: String| {
            let problem = "min.insync.replicas is not known";
            self.problems.push(Problem::at(problem, place));
        };
        let mut answers = match answers {
            Ok(answers) => answers,
            Err(error) => return unknown(format!("{} topics ({error:#})", names.len())),
        };
        for &name in names {
            let answer = answers
                .remove(name)
                .map(|answer| answer.map_err(Failure::from));
            match answer.unwrap_or(Err(Failure::LeftOut)) {
                Ok(settings) => match least(settings) {
                    Some(least) => {
                        self.replicas.insert(name.to_owned(), least);
                    }
                    None => unknown(format!("{name} (no number in the answer)")),
                },
                Err(failure) => unknown(format!("{name} ({failure})")),
            }
        }
    }
}

/// Returns how many replicas in sync the settings demand.
fn least(settings: Vec<Setting>) -> Option<usize> {
    let mut settings = settings.into_iter();
    let setting = settings.find(|setting| setting.name == MIN_ISR)?;
    setting.value?.parse().ok()
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
        if let Err(refusal) = check(topic.error_code, None) {
            let place = format!("{name} ({refusal})");
            problems.push(Problem::at("topic is not described", place));
        }
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
    fn settings_that_are_not_answered_are_problems_and_end_nothing() {
        let setting = |name: &str, value: Option<&str>| Setting {
            name: name.into(),
            value: value.map(str::to_owned),
            source: "topic",
            read_only: false,
        };
        let other = || setting("retention.ms", Some("9"));
        let refused = Err(wire::types::ErrorCode::TopicAuthorizationFailed.into());
        let answers = BTreeMap::from([
            (
                "a".to_owned(),
                Ok(vec![other(), setting(MIN_ISR, Some("2"))]),
            ),
            ("b".to_owned(), refused),
            ("d".to_owned(), Ok(vec![other()])),
            ("e".to_owned(), Ok(vec![setting(MIN_ISR, None)])),
            ("f".to_owned(), Ok(vec![setting(MIN_ISR, Some("two"))])),
        ]);
        let mut needed = NeededReplicas::default();
        needed.take(&["a", "b", "c", "d", "e", "f"], Ok(answers));
        needed.take(&["g", "h"], Err(anyhow::anyhow!("no answer")));
        assert_eq!(needed.replicas, BTreeMap::from([("a".to_owned(), 2)]));
        let places: Vec<_> = needed
            .problems
            .iter()
            .map(|one| one.place.as_str())
            .collect();
        let expected = [
            "b (TOPIC_AUTHORIZATION_FAILED)",
            "c (the broker did not answer for it)",
            "d (no number in the answer)",
            "e (no number in the answer)",
            "f (no number in the answer)",
            "2 topics (no answer)",
        ];
        assert_eq!(places, expected);
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
