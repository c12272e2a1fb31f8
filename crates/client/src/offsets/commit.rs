//! Stores where a group stands in partitions.

use std::collections::BTreeMap;

use platform::clock::Instant;
use wire::StrBytes;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::{GroupId, OffsetCommitRequest, OffsetCommitResponse, TopicName};
use wire::types::TopicPartition;

use super::{PartitionResults, by_topic, each};
use crate::connection::Connection;
use crate::error::{ClientError, check};
use crate::fetch::Position;
use crate::group::Identity;

/// First version with the name of a static member.
const INSTANCE_SINCE: i16 = 7;

/// Who commits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Committer {
    pub(crate) group: String,
    pub(crate) instance_id: Option<String>,
    /// The member; `None` for a group without members.
    pub(crate) identity: Option<Identity>,
}

/// Stores positions.
pub(crate) async fn commit(
    connection: &Connection,
    committer: &Committer,
    positions: &BTreeMap<TopicPartition, Position>,
    deadline: Instant,
) -> Result<PartitionResults<()>, ClientError> {
    let version = connection.version::<OffsetCommitRequest>()?;
    let request = request(committer, positions, version);
    let answer = connection.ask_in(version, &request, deadline).await?;
    Ok(stored(positions, answer))
}

fn request(
    committer: &Committer,
    positions: &BTreeMap<TopicPartition, Position>,
    version: i16,
) -> OffsetCommitRequest {
    let topics = by_topic(positions.iter()).into_iter();
    let topics = topics.map(|(topic, positions)| {
        let partitions = positions.into_iter().map(|(partition, position)| {
            OffsetCommitRequestPartition::default()
                .with_partition_index(partition)
                .with_committed_offset(position.offset)
                .with_committed_leader_epoch(position.epoch.unwrap_or(-1))
                .with_committed_metadata(Some(StrBytes::from_static_str("")))
        });
        OffsetCommitRequestTopic::default()
            .with_name(TopicName(text(topic)))
            .with_partitions(partitions.collect())
    });
    let (member_id, epoch) = match &committer.identity {
        Some(identity) => (text(&identity.member_id), identity.epoch),
        None => (StrBytes::from_static_str(""), -1),
    };
    let instance = committer.instance_id.as_deref();
    let instance = instance.filter(|_| version >= INSTANCE_SINCE && committer.identity.is_some());
    OffsetCommitRequest::default()
        .with_group_id(GroupId(text(&committer.group)))
        .with_generation_id_or_member_epoch(epoch)
        .with_member_id(member_id)
        .with_group_instance_id(instance.map(text))
        .with_topics(topics.collect())
}

fn stored(
    positions: &BTreeMap<TopicPartition, Position>,
    answer: OffsetCommitResponse,
) -> PartitionResults<()> {
    let told = answer.topics.into_iter().flat_map(|topic| {
        let name = topic.name.0;
        topic.partitions.into_iter().map(move |one| {
            let place = TopicPartition {
                topic: name.as_str().into(),
                partition: one.partition_index,
            };
            (place, check(one.error_code, None))
        })
    });
    each(positions.keys(), told)
}

fn text(words: &str) -> StrBytes {
    StrBytes::from_string(words.to_owned())
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;
    use crate::ask::Ask;

    #[test]
    fn every_version_can_be_said() {
        let committer = Committer {
            group: "g".to_owned(),
            instance_id: Some("i".to_owned()),
            identity: Some(Identity {
                member_id: "m".to_owned(),
                epoch: 4,
                is_consumer_protocol: false,
            }),
        };
        let place = TopicPartition {
            topic: "t".into(),
            partition: 3,
        };
        let epoch = Some(2);
        let positions = BTreeMap::from([(place, Position { offset: 5, epoch })]);
        for version in <OffsetCommitRequest as Ask>::OLDEST..=<OffsetCommitRequest as Ask>::NEWEST {
            let request = request(&committer, &positions, version);
            assert_eq!(request.topics[0].partitions[0].committed_offset, 5);
            let written = Ask::encode(&request, &mut BytesMut::new(), version);
            assert_eq!(written, Ok(()), "version {version}");
        }
    }
}
