//! What reassignments answer and write on one node.

use wire::messages::alter_partition_reassignments_request::ReassignableTopic;
use wire::messages::{
    BrokerId, ElectLeadersRequest, ListPartitionReassignmentsRequest, elect_leaders_request,
};
use wire::records::metadata::RegisterBrokerRecord;

use super::*;
use crate::controller::tests::{DIRECTORY, apply, create, options, started};
use crate::handler::{elect_leaders, list_partition_reassignments};
use crate::image::Image;
use crate::rests::PIECE;
use crate::rests::tests::{now, rested};

fn topic(name: &str, index: i32, replicas: Option<&[i32]>) -> ReassignableTopic {
    let replicas = replicas.map(|ids| ids.iter().copied().map(BrokerId).collect());
    let partition = ReassignablePartition::default()
        .with_partition_index(index)
        .with_replicas(replicas);
    ReassignableTopic::default()
        .with_name(wire::StrBytes::from_string(name.into()).into())
        .with_partitions(vec![partition])
}

fn decide(
    image: &Image,
    topic: ReassignableTopic,
    may_change: bool,
) -> (Vec<MetadataRecord>, i16, String) {
    let options = options();
    let rules = Rules {
        image,
        options: &options,
    };
    let request = AlterPartitionReassignmentsRequest::default()
        .with_allow_replication_factor_change(may_change)
        .with_topics(vec![topic]);
    let outcome = now(handle(rules, &request));
    let result = &outcome.response.responses[0].partitions[0];
    let message = result
        .error_message
        .as_deref()
        .unwrap_or_default()
        .to_owned();
    (outcome.records, result.error_code, message)
}

/// Returns a topic of a former two-node cluster: node 2 is gone, and was being replaced by node 3.
fn taken_over() -> Image {
    let mut image = started();
    create(&mut image, "a", 1, &[]);
    for id in [2, 3] {
        apply(
            &mut image,
            [RegisterBrokerRecord {
                broker_id: id,
                ..RegisterBrokerRecord::default()
            }
            .into()],
        );
    }
    let change = PartitionChangeRecord {
        topic_id: image.topic_by_name("a").unwrap().id.0,
        partition_id: 0,
        replicas: Some(vec![2, 1, 3]),
        directories: Some(vec![
            wire::types::Uuid::from_u128(2),
            DIRECTORY,
            wire::types::Uuid::from_u128(3),
        ]),
        removing_replicas: Some(vec![2]),
        adding_replicas: Some(vec![3]),
        ..PartitionChangeRecord::default()
    };
    apply(&mut image, [change.into()]);
    image
}

#[test]
fn nothing_changes_when_the_replicas_are_those_already() {
    let mut image = started();
    create(&mut image, "a", 1, &[]);
    assert_eq!(
        decide(&image, topic("a", 0, Some(&[1])), true),
        (Vec::new(), 0, String::new())
    );
}

#[test]
fn what_cannot_be_is_refused_in_words() {
    let mut image = started();
    create(&mut image, "a", 1, &[]);
    for (topic, code, says) in [
        (
            topic("b", 0, Some(&[1])),
            ErrorCode::UnknownTopicOrPartition,
            "Unable to find a topic named b.",
        ),
        (
            topic("a", 7, Some(&[1])),
            ErrorCode::UnknownTopicOrPartition,
            "Unable to find partition a:7.",
        ),
        (
            topic("a", 0, None),
            ErrorCode::NoReassignmentInProgress,
            "No partition reassignment is in progress.",
        ),
        (
            topic("a", 0, Some(&[])),
            ErrorCode::InvalidReplicaAssignment,
            "an empty replica list",
        ),
        (
            topic("a", 0, Some(&[9])),
            ErrorCode::InvalidReplicaAssignment,
            "broker 9, but no such broker",
        ),
        (
            topic("a", 0, Some(&[1, 1])),
            ErrorCode::InvalidReplicaAssignment,
            "more than once",
        ),
    ] {
        let (records, found, message) = decide(&image, topic, true);
        assert_eq!((records.len(), found), (0, code.code()));
        assert!(message.contains(says), "{message}");
    }
    let image = taken_over();
    let (_, code, message) = decide(&image, topic("a", 0, Some(&[1, 3])), true);
    assert_eq!(code, ErrorCode::InvalidReplicaAssignment.code());
    assert!(message.contains("Broker 3 is not in sync"), "{message}");
    let (_, code, message) = decide(&image, topic("a", 0, Some(&[1])), false);
    assert_eq!(code, ErrorCode::InvalidReplicationFactor.code());
    assert_eq!(message, "The replication factor is changed from 2 to 1");
}

#[test]
fn what_a_cluster_left_behind_is_listed_and_can_be_settled_or_called_off() {
    let image = taken_over();
    let list = |image: &Image| {
        let request = ListPartitionReassignmentsRequest::default().with_topics(None);
        now(list_partition_reassignments::handle(image, &request)).topics
    };
    let partition = &list(&image)[0].partitions[0];
    assert_eq!(partition.replicas, [BrokerId(2), BrokerId(1), BrokerId(3)]);
    assert_eq!(
        (
            &partition.adding_replicas[..],
            &partition.removing_replicas[..]
        ),
        (&[BrokerId(3)][..], &[BrokerId(2)][..])
    );
    for (wanted, replicas, directories) in [
        (Some(&[1][..]), vec![1], vec![DIRECTORY]),
        (
            None,
            vec![2, 1],
            vec![wire::types::Uuid::from_u128(2), DIRECTORY],
        ),
    ] {
        let mut after = image.clone();
        let (records, code, _) = decide(&image, topic("a", 0, wanted), true);
        assert_eq!(code, 0);
        apply(&mut after, records);
        assert!(list(&after).is_empty());
        let settled = &after.topic_by_name("a").unwrap().partitions[&0];
        assert_eq!(
            (&settled.replicas, &settled.directories),
            (&replicas, &directories)
        );
        assert_eq!((settled.isr.as_slice(), settled.leader), (&[1][..], 1));
    }
}

#[test]
fn there_is_nothing_to_elect() {
    let mut image = taken_over();
    create(&mut image, "b", 2, &[]);
    let elect = |kind: i8, named: Option<(&str, i32)>| {
        let named = named.map(|(name, index)| {
            let topic = elect_leaders_request::TopicPartitions::default();
            let topic = topic.with_topic(wire::StrBytes::from_string(name.into()).into());
            vec![topic.with_partitions(vec![index])]
        });
        let request = ElectLeadersRequest::default()
            .with_election_type(kind)
            .with_topic_partitions(named);
        let response = elect_leaders::handle(&image, &request);
        let results = response.replica_election_results.into_iter();
        let codes = results
            .flat_map(|topic| topic.partition_result)
            .map(|result| result.error_code);
        (response.error_code, codes.collect::<Vec<_>>())
    };
    let not_needed = ErrorCode::ElectionNotNeeded.code();
    let unavailable = ErrorCode::PreferredLeaderNotAvailable.code();
    assert_eq!(elect(0, Some(("b", 0))), (0, vec![not_needed]));
    assert_eq!(elect(1, Some(("a", 0))), (0, vec![not_needed]));
    assert_eq!(elect(0, Some(("a", 0))), (0, vec![unavailable]));
    assert_eq!(
        elect(0, Some(("b", 9))),
        (0, vec![ErrorCode::UnknownTopicOrPartition.code()])
    );
    assert_eq!(
        elect(0, None),
        (0, vec![unavailable]),
        "those that need none are left out"
    );
    assert_eq!(elect(7, None).0, ErrorCode::InvalidRequest.code());
}

#[test]
fn too_many_partitions_are_refused_in_hardly_more_turns_than_it_takes_to_name_them() {
    const PARTITIONS: usize = 20_000;
    let mut image = started();
    create(&mut image, "a", 1, &[]);
    let options = options();
    let rules = Rules {
        image: &image,
        options: &options,
    };
    let in_one = topic("a", 0, Some(&[1])).with_partitions(
        (0..i32::try_from(PARTITIONS).unwrap())
            .map(|index| ReassignablePartition::default().with_partition_index(index))
            .collect(),
    );
    let in_many = (0..PARTITIONS).map(|number| topic(&format!("t{number}"), 0, Some(&[1])));
    for topics in [vec![in_one], in_many.collect()] {
        let request = AlterPartitionReassignmentsRequest::default().with_topics(topics);
        let (rests, outcome) = rested(handle(rules, &request));
        assert!(rests < PARTITIONS / PIECE + 2, "{rests} rests");
        assert!(outcome.records.is_empty());
        let told = outcome.response.responses.iter();
        let codes: Vec<_> = told
            .flat_map(|topic| &topic.partitions)
            .map(|partition| partition.error_code)
            .collect();
        let policy = ErrorCode::PolicyViolation.code();
        assert_eq!(codes, vec![policy; PARTITIONS]);
    }
}
