//! Where a group stands in partitions, asked of its coordinator.
//!
//! It waits for nothing: a position that a transaction is about to change is an error that passes.

use platform::clock::Instant;
use wire::StrBytes;
use wire::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use wire::messages::{GroupId, OffsetFetchRequest, OffsetFetchResponse, TopicName};
use wire::types::TopicPartition;

use super::{PartitionResults, by_topic, each};
use crate::connection::Connection;
use crate::error::{ClientError, Refusal, check};
use crate::fetch::Position;
use crate::group::{Identity, Places};

/// First versions that ask for several groups, and for stable positions only.
const GROUPS_SINCE: i16 = 8;
const STABLE_SINCE: i16 = 7;
const MEMBERS_SINCE: i16 = 9;

/// Asks for the positions of a group; `None` where it has none.
pub(crate) async fn committed(
    connection: &Connection,
    (group, identity): (&str, Option<&Identity>),
    places: &Places,
    deadline: Instant,
) -> Result<PartitionResults<Option<Position>>, ClientError> {
    let version = connection.version::<OffsetFetchRequest>()?;
    let request = request(group, identity, places, version);
    let answer = connection.ask_in(version, &request, deadline).await?;
    Ok(found(places, &answer, version)?)
}

fn request(
    group: &str,
    identity: Option<&Identity>,
    places: &Places,
    version: i16,
) -> OffsetFetchRequest {
    let topics = by_topic(places.iter().map(|place| (place, ())));
    let topics = topics.into_iter().map(|(topic, partitions)| {
        let partitions = partitions.into_iter().map(|(partition, ())| partition);
        (TopicName(text(topic)), partitions.collect::<Vec<_>>())
    });
    let request = OffsetFetchRequest::default().with_require_stable(version >= STABLE_SINCE);
    if version < GROUPS_SINCE {
        let topics = topics.map(|(name, partitions)| {
            OffsetFetchRequestTopic::default()
                .with_name(name)
                .with_partition_indexes(partitions)
        });
        return request
            .with_group_id(GroupId(text(group)))
            .with_topics(Some(topics.collect()));
    }
    let topics = topics.map(|(name, partitions)| {
        OffsetFetchRequestTopics::default()
            .with_name(name)
            .with_partition_indexes(partitions)
    });
    let group = OffsetFetchRequestGroup::default()
        .with_group_id(GroupId(text(group)))
        .with_topics(Some(topics.collect()));
    let member = identity.filter(|one| one.is_consumer_protocol && version >= MEMBERS_SINCE);
    let group = match member {
        Some(member) => group
            .with_member_id(Some(text(&member.member_id)))
            .with_member_epoch(member.epoch),
        None => group.with_member_epoch(-1),
    };
    request.with_groups(vec![group])
}

fn found(
    places: &Places,
    answer: &OffsetFetchResponse,
    version: i16,
) -> Result<PartitionResults<Option<Position>>, Refusal> {
    let mut told = Vec::new();
    let mut tell = |name: &StrBytes, partition: i32, offset: i64, epoch: i32, code: i16| {
        let place = TopicPartition {
            topic: name.as_str().into(),
            partition,
        };
        let epoch = (epoch >= 0).then_some(epoch);
        let position = (offset >= 0).then_some(Position { offset, epoch });
        told.push((place, check(code, None).map(|()| position)));
    };
    if version < GROUPS_SINCE {
        check(answer.error_code, None)?;
        for topic in &answer.topics {
            for one in &topic.partitions {
                tell(
                    &topic.name.0,
                    one.partition_index,
                    one.committed_offset,
                    one.committed_leader_epoch,
                    one.error_code,
                );
            }
        }
    } else {
        for group in &answer.groups {
            check(group.error_code, None)?;
            for topic in &group.topics {
                for one in &topic.partitions {
                    tell(
                        &topic.name.0,
                        one.partition_index,
                        one.committed_offset,
                        one.committed_leader_epoch,
                        one.error_code,
                    );
                }
            }
        }
    }
    Ok(each(places, told))
}

fn text(words: &str) -> StrBytes {
    StrBytes::from_string(words.to_owned())
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use wire::messages::offset_fetch_response::{
        OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
    };

    use super::*;
    use crate::ask::Ask;

    fn places(partitions: &[i32]) -> Places {
        let places = partitions.iter().map(|partition| TopicPartition {
            topic: "t".into(),
            partition: *partition,
        });
        places.collect()
    }

    #[test]
    fn every_version_can_be_said() {
        let identity = Identity {
            member_id: "m".to_owned(),
            epoch: 4,
            is_consumer_protocol: true,
        };
        for version in <OffsetFetchRequest as Ask>::OLDEST..=<OffsetFetchRequest as Ask>::NEWEST {
            for identity in [None, Some(&identity)] {
                let request = request("g", identity, &places(&[0, 1]), version);
                let written = Ask::encode(&request, &mut BytesMut::new(), version);
                assert_eq!(written, Ok(()), "version {version}");
            }
        }
    }

    #[test]
    fn a_partition_without_a_position_has_none() {
        let one = |partition: i32, offset: i64, code: i16| {
            OffsetFetchResponsePartitions::default()
                .with_partition_index(partition)
                .with_committed_offset(offset)
                .with_committed_leader_epoch(-1)
                .with_error_code(code)
        };
        let topic = OffsetFetchResponseTopics::default()
            .with_name(TopicName(text("t")))
            .with_partitions(vec![one(0, 7, 0), one(1, -1, 0), one(2, -1, 88)]);
        let group = OffsetFetchResponseGroup::default().with_topics(vec![topic]);
        let answer = OffsetFetchResponse::default().with_groups(vec![group.clone()]);
        let found = found(&places(&[0, 1, 2]), &answer, 8).unwrap();
        let offsets: Vec<_> = found
            .into_values()
            .map(|one| {
                one.map(|position| position.map(|position| position.offset))
                    .ok()
            })
            .collect();
        assert_eq!(offsets, [Some(Some(7)), Some(None), None]);
        let refused = group.with_error_code(16);
        let answer = OffsetFetchResponse::default().with_groups(vec![refused]);
        assert!(super::found(&places(&[0]), &answer, 9).is_err());
    }
}
