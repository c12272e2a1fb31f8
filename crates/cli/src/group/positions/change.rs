//! Stores and deletes positions of a group.
//!
//! Each position has an outcome of its own, also one that the answer leaves out.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use wire::messages::{
    GroupId, OffsetCommitRequest, OffsetCommitResponse, OffsetDeleteRequest, OffsetDeleteResponse,
    TopicName,
};

use crate::ask::{
    Cluster, Coordinates, Failure, PartitionKey, Refusal, check, each_answer, patiently, text,
};

/// Last version that names topics by name.
const COMMIT_BY_NAME: i16 = 9;

/// What became of each position.
type PositionResults = BTreeMap<PartitionKey, Result<(), Failure>>;

/// Stores positions of a group without members.
pub(in crate::group) fn store(
    cluster: &mut Cluster,
    group: &str,
    positions: &BTreeMap<PartitionKey, i64>,
) -> anyhow::Result<PositionResults> {
    let mut topics: BTreeMap<&str, Vec<OffsetCommitRequestPartition>> = BTreeMap::new();
    for ((topic, partition), &offset) in positions {
        let position = OffsetCommitRequestPartition::default()
            .with_partition_index(*partition)
            .with_committed_offset(offset)
            .with_committed_leader_epoch(-1)
            .with_committed_metadata(Some(text("")));
        topics.entry(topic).or_default().push(position);
    }
    let topics = topics.into_iter().map(|(name, partitions)| {
        OffsetCommitRequestTopic::default()
            .with_name(TopicName(text(name)))
            .with_partitions(partitions)
    });
    let request = OffsetCommitRequest::default()
        .with_group_id(GroupId(text(group)))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(topics.collect());
    let id = cluster.coordinator(Coordinates::Group, group)?;
    let within = cluster.within();
    let broker = cluster.broker(id)?;
    let version = broker.version::<OffsetCommitRequest>()?.min(COMMIT_BY_NAME);
    let stored = patiently(within, || {
        let answer = broker.ask(version, &request)?;
        let stored = stored(positions, answer);
        match passing(&stored) {
            Some(refusal) => Err(refusal.clone().into()),
            None => Ok(stored),
        }
    });
    stored.with_context(|| format!("positions of group {group}"))
}

fn stored(
    positions: &BTreeMap<PartitionKey, i64>,
    answer: OffsetCommitResponse,
) -> PositionResults {
    let told = answer.topics.into_iter().flat_map(|topic| {
        let name = topic.name;
        topic.partitions.into_iter().map(move |one| {
            let place = (name.0.to_string(), one.partition_index);
            (place, check(one.error_code, None))
        })
    });
    each_answer(positions.keys().cloned(), Ok(told))
}

/// Returns a refusal if all are transient: nothing was stored, and can be tried again.
fn passing(became: &PositionResults) -> Option<&Refusal> {
    let mut all = became.values().map(|result| match result {
        Err(Failure::Refused(refusal)) if refusal.passes() => Some(refusal),
        _ => None,
    });
    let first = all.next()??;
    all.all(|one| one.is_some()).then_some(first)
}

/// Deletes positions.
pub(in crate::group) fn delete(
    cluster: &mut Cluster,
    group: &str,
    places: &BTreeSet<PartitionKey>,
) -> anyhow::Result<PositionResults> {
    let mut topics: BTreeMap<&str, Vec<OffsetDeleteRequestPartition>> = BTreeMap::new();
    for (topic, partition) in places {
        let partition = OffsetDeleteRequestPartition::default().with_partition_index(*partition);
        topics.entry(topic).or_default().push(partition);
    }
    let topics = topics.into_iter().map(|(name, partitions)| {
        OffsetDeleteRequestTopic::default()
            .with_name(TopicName(text(name)))
            .with_partitions(partitions)
    });
    let request = OffsetDeleteRequest::default()
        .with_group_id(GroupId(text(group)))
        .with_topics(topics.collect());
    let id = cluster.coordinator(Coordinates::Group, group)?;
    let within = cluster.within();
    let broker = cluster.broker(id)?;
    let answer = patiently(within, || {
        let answer = broker.ask_newest(&request)?;
        check(answer.error_code, None)?;
        Ok(answer)
    });
    let answer = answer.with_context(|| format!("positions of group {group}"))?;
    Ok(deleted(places, answer))
}

fn deleted(places: &BTreeSet<PartitionKey>, answer: OffsetDeleteResponse) -> PositionResults {
    let told = answer.topics.into_iter().flat_map(|topic| {
        let name = topic.name;
        topic.partitions.into_iter().map(move |one| {
            let place = (name.0.to_string(), one.partition_index);
            (place, check(one.error_code, None))
        })
    });
    each_answer(places.iter().cloned(), Ok(told))
}

#[cfg(test)]
mod tests {
    use wire::messages::offset_commit_response::{
        OffsetCommitResponsePartition, OffsetCommitResponseTopic,
    };
    use wire::messages::offset_delete_response::{
        OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
    };
    use wire::types::ErrorCode;

    use super::*;

    fn place(partition: i32) -> PartitionKey {
        ("cars".to_owned(), partition)
    }

    fn refused(error: ErrorCode) -> Result<(), Failure> {
        Err(error.into())
    }

    #[test]
    fn a_position_that_the_answer_leaves_out_was_not_deleted() {
        let gone = OffsetDeleteResponsePartition::default();
        let not_asked = OffsetDeleteResponsePartition::default().with_partition_index(7);
        let cars = OffsetDeleteResponseTopic::default()
            .with_name(TopicName(text("cars")))
            .with_partitions(vec![gone, not_asked]);
        let answer = OffsetDeleteResponse::default().with_topics(vec![cars]);
        let deleted = deleted(&[place(0), place(1)].into(), answer);
        let expected = [(place(0), Ok(())), (place(1), Err(Failure::LeftOut))];
        assert_eq!(deleted, expected.into());
    }

    #[test]
    fn only_a_position_that_the_answer_confirms_was_stored() {
        let one = |index: i32, error: i16| {
            OffsetCommitResponsePartition::default()
                .with_partition_index(index)
                .with_error_code(error)
        };
        let cars = OffsetCommitResponseTopic::default()
            .with_name(TopicName(text("cars")))
            .with_partitions(vec![one(0, 0), one(1, 29), one(7, 0)]);
        let answer = OffsetCommitResponse::default().with_topics(vec![cars]);
        let wanted = [0, 1, 2].map(|index| (place(index), 5)).into();
        let became = stored(&wanted, answer);
        let expected = [
            (place(0), Ok(())),
            (place(1), refused(ErrorCode::TopicAuthorizationFailed)),
            (place(2), Err(Failure::LeftOut)),
        ];
        assert_eq!(became, expected.into());
    }

    #[test]
    fn only_if_all_refusals_are_transient_the_positions_are_stored_again() {
        let moved = || refused(ErrorCode::NotCoordinator);
        let again = |all: [Result<(), Failure>; 2]| {
            let [first, second] = all;
            passing(&[(place(0), first), (place(1), second)].into()).is_some()
        };
        assert!(again([moved(), moved()]));
        assert!(!again([moved(), Ok(())]) && !again([Ok(()), moved()]));
        assert!(!again([moved(), Err(Failure::LeftOut)]));
        assert!(!again([
            moved(),
            refused(ErrorCode::TopicAuthorizationFailed)
        ]));
        assert_eq!(passing(&PositionResults::new()), None);
    }
}
