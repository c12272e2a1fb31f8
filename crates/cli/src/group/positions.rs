//! Reads, stores and deletes the positions of a group.
//!
//! Requests name topics by name, so newer versions are not used.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use wire::messages::offset_fetch_request::OffsetFetchRequestGroup;
use wire::messages::{
    GroupId, OffsetCommitRequest, OffsetDeleteRequest, OffsetDeleteResponse, OffsetFetchRequest,
    TopicName,
};

use crate::ask::{Cluster, Coordinates, Failure, Place, check, patiently, text};

/// Last version that names topics by name.
const FETCH_BY_NAME: i16 = 9;
const COMMIT_BY_NAME: i16 = 9;

/// Returns all positions of a group.
pub(super) fn read(cluster: &mut Cluster, group: &str) -> anyhow::Result<BTreeMap<Place, i64>> {
    let id = cluster.coordinator(Coordinates::Group, group)?;
    let within = cluster.within();
    let broker = cluster.broker(id)?;
    let version = broker.version::<OffsetFetchRequest>()?.min(FETCH_BY_NAME);
    let name = GroupId(text(group));
    let request = if version >= 8 {
        let all = OffsetFetchRequestGroup::default()
            .with_group_id(name)
            .with_member_epoch(-1)
            .with_topics(None);
        OffsetFetchRequest::default().with_groups(vec![all])
    } else {
        OffsetFetchRequest::default()
            .with_group_id(name)
            .with_topics(None)
    };
    let answer = patiently(within, || {
        let answer = broker.ask(version, &request)?;
        let code = answer
            .groups
            .first()
            .map_or(answer.error_code, |group| group.error_code);
        check(code, None)?;
        Ok(answer)
    });
    let answer = answer.with_context(|| format!("positions of group {group}"))?;
    let mut positions = BTreeMap::new();
    let mut put = |topic: &TopicName, partition: i32, offset: i64| {
        if offset >= 0 {
            positions.insert((topic.0.to_string(), partition), offset);
        }
    };
    for topic in answer.groups.iter().flat_map(|group| &group.topics) {
        for one in &topic.partitions {
            put(&topic.name, one.partition_index, one.committed_offset);
        }
    }
    for topic in &answer.topics {
        for one in &topic.partitions {
            put(&topic.name, one.partition_index, one.committed_offset);
        }
    }
    Ok(positions)
}

/// Stores positions of a group without members, or returns an error.
pub(super) fn store(
    cluster: &mut Cluster,
    group: &str,
    positions: &BTreeMap<Place, i64>,
) -> anyhow::Result<()> {
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
    patiently(within, || {
        for topic in broker.ask(version, &request)?.topics {
            for one in topic.partitions {
                check(one.error_code, None).with_context(|| {
                    format!("position of {}-{}", topic.name.0, one.partition_index)
                })?;
            }
        }
        Ok(())
    })
}

/// Deletes positions; returns what became of each, also of those that the answer leaves out.
pub(super) fn delete(
    cluster: &mut Cluster,
    group: &str,
    places: &BTreeSet<Place>,
) -> anyhow::Result<BTreeMap<Place, Result<(), Failure>>> {
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

fn deleted(
    places: &BTreeSet<Place>,
    answer: OffsetDeleteResponse,
) -> BTreeMap<Place, Result<(), Failure>> {
    let left_out = places
        .iter()
        .map(|place| (place.clone(), Err(Failure::LeftOut)));
    let mut deleted: BTreeMap<_, _> = left_out.collect();
    for topic in answer.topics {
        for one in topic.partitions {
            let place = (topic.name.0.to_string(), one.partition_index);
            let result = check(one.error_code, None);
            deleted.insert(place, result.map_err(Failure::from));
        }
    }
    deleted
}

#[cfg(test)]
mod tests {
    use wire::messages::offset_delete_response::{
        OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
    };

    use super::*;

    #[test]
    fn a_position_that_the_answer_leaves_out_was_not_deleted() {
        let place = |partition| ("cars".to_owned(), partition);
        let gone = OffsetDeleteResponsePartition::default().with_partition_index(0);
        let cars = OffsetDeleteResponseTopic::default()
            .with_name(TopicName(text("cars")))
            .with_partitions(vec![gone]);
        let answer = OffsetDeleteResponse::default().with_topics(vec![cars]);
        let deleted = deleted(&[place(0), place(1)].into(), answer);
        let expected = [(place(0), Ok(())), (place(1), Err(Failure::LeftOut))];
        assert_eq!(deleted, expected.into());
    }
}
