//! The positions of a group: reads them, and has those that are stored or deleted.
//!
//! Requests name topics by name, so newer versions are not used.

mod change;

use std::collections::BTreeMap;

use anyhow::Context as _;
use wire::messages::offset_fetch_request::OffsetFetchRequestGroup;
use wire::messages::{GroupId, OffsetFetchRequest, OffsetFetchResponse, TopicName};

use crate::ask::{Cluster, Coordinates, Failure, PartitionKey, check, patiently, text};
pub(super) use change::{delete, store};

/// Last version that names topics by name.
const BY_NAME: i16 = 9;
/// First version that asks for several groups, and names them in the answer.
const GROUPS_SINCE: i16 = 8;

/// Returns all positions of a group.
pub(super) fn read(
    cluster: &mut Cluster,
    group: &str,
) -> anyhow::Result<BTreeMap<PartitionKey, i64>> {
    let id = cluster.coordinator(Coordinates::Group, group)?;
    let within = cluster.within();
    let broker = cluster.broker(id)?;
    let version = broker.version::<OffsetFetchRequest>()?.min(BY_NAME);
    let name = GroupId(text(group));
    let request = if version >= GROUPS_SINCE {
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
    let positions = patiently(within, || {
        let answer = broker.ask(version, &request)?;
        of_group(group, version, answer)
    });
    positions.with_context(|| format!("positions of group {group}"))
}

/// Returns the positions of this group; an error of one of them is an error.
fn of_group(
    group: &str,
    version: i16,
    answer: OffsetFetchResponse,
) -> anyhow::Result<BTreeMap<PartitionKey, i64>> {
    let mut positions = BTreeMap::new();
    let mut put = |topic: &TopicName, partition: i32, offset: i64, error: i16| {
        check(error, None).with_context(|| format!("position in {}-{partition}", topic.0))?;
        if offset >= 0 {
            positions.insert((topic.0.to_string(), partition), offset);
        }
        anyhow::Ok(())
    };
    if version >= GROUPS_SINCE {
        let mut groups = answer.groups.into_iter();
        let found = groups.find(|one| one.group_id.0.as_str() == group);
        let found = found.ok_or(Failure::LeftOut)?;
        check(found.error_code, None)?;
        for topic in &found.topics {
            for one in &topic.partitions {
                let offset = one.committed_offset;
                put(&topic.name, one.partition_index, offset, one.error_code)?;
            }
        }
    } else {
        check(answer.error_code, None)?;
        for topic in &answer.topics {
            for one in &topic.partitions {
                let offset = one.committed_offset;
                put(&topic.name, one.partition_index, offset, one.error_code)?;
            }
        }
    }
    Ok(positions)
}

#[cfg(test)]
mod tests {
    use wire::messages::offset_fetch_response::{
        OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
        OffsetFetchResponseTopic, OffsetFetchResponseTopics,
    };

    use super::*;

    fn group(name: &str, offset: i64, error: i16) -> OffsetFetchResponseGroup {
        let none = OffsetFetchResponsePartitions::default()
            .with_partition_index(1)
            .with_committed_offset(-1);
        let one = OffsetFetchResponsePartitions::default()
            .with_committed_offset(offset)
            .with_error_code(error);
        let cars = OffsetFetchResponseTopics::default()
            .with_name(TopicName(text("cars")))
            .with_partitions(vec![one, none]);
        OffsetFetchResponseGroup::default()
            .with_group_id(GroupId(text(name)))
            .with_topics(vec![cars])
    }

    fn told(
        answer: &OffsetFetchResponse,
        version: i16,
    ) -> Result<Vec<(PartitionKey, i64)>, String> {
        let positions = of_group("g", version, answer.clone());
        let positions = positions.map_err(|error| format!("{error:#}"))?;
        Ok(positions.into_iter().collect())
    }

    #[test]
    fn only_the_group_that_was_asked_for_has_positions() {
        let place = ("cars".to_owned(), 0);
        let both = vec![group("other", 99, 0), group("g", 7, 0)];
        let answer = OffsetFetchResponse::default().with_groups(both);
        assert_eq!(told(&answer, 9), Ok(vec![(place.clone(), 7)]));
        let other = OffsetFetchResponse::default().with_groups(vec![group("other", 99, 0)]);
        let left_out = Err(Failure::LeftOut.to_string());
        assert_eq!(told(&other, 9), left_out);
        assert_eq!(told(&OffsetFetchResponse::default(), 9), left_out);

        // An old answer does not name the group.
        let one = OffsetFetchResponsePartition::default().with_committed_offset(5);
        let cars = OffsetFetchResponseTopic::default()
            .with_name(TopicName(text("cars")))
            .with_partitions(vec![one]);
        let old = OffsetFetchResponse::default().with_topics(vec![cars]);
        assert_eq!(told(&old, 7), Ok(vec![(place, 5)]));
    }

    #[test]
    fn a_position_with_an_error_is_not_left_out_in_silence() {
        let unstable = OffsetFetchResponse::default().with_groups(vec![group("g", 7, 88)]);
        let reason = "position in cars-0: UNSTABLE_OFFSET_COMMIT";
        assert_eq!(told(&unstable, 9), Err(reason.to_owned()));
        let whole = group("g", 7, 0).with_error_code(30);
        let refused = OffsetFetchResponse::default().with_groups(vec![whole]);
        let reason = "GROUP_AUTHORIZATION_FAILED";
        assert_eq!(told(&refused, 9), Err(reason.to_owned()));
    }
}
