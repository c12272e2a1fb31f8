//! Where logs start and end, asked of their leader.

use std::collections::BTreeMap;

use platform::clock::Instant;
use wire::StrBytes;
use wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use wire::messages::{ListOffsetsRequest, ListOffsetsResponse, TopicName};
use wire::types::TopicPartition;

use super::{PartitionResults, by_topic, each};
use crate::connection::Connection;
use crate::error::{ClientError, check};
use crate::fetch::Whence;

/// Timestamps that ask for the start and the end.
const START: i64 = -2;
const END: i64 = -1;
/// First version that knows what a transaction is.
const ISOLATION_SINCE: i16 = 2;

/// What is asked of one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ListAsk {
    pub(crate) whence: Whence,
    pub(crate) leader_epoch: i32,
}

/// Asks the leader of these partitions; the end is that for readers of committed records, if they
/// are such.
pub(crate) async fn list(
    connection: &Connection,
    wanted: &BTreeMap<TopicPartition, ListAsk>,
    committed: bool,
    deadline: Instant,
) -> Result<PartitionResults<i64>, ClientError> {
    let version = connection.version::<ListOffsetsRequest>()?;
    let request = request(wanted, committed, version);
    let answer = connection.ask_in(version, &request, deadline).await?;
    Ok(found(wanted, answer))
}

fn request(
    wanted: &BTreeMap<TopicPartition, ListAsk>,
    committed: bool,
    version: i16,
) -> ListOffsetsRequest {
    let topics = by_topic(wanted.iter()).into_iter().map(|(topic, asks)| {
        let partitions = asks.into_iter().map(|(partition, ask)| {
            let timestamp = match ask.whence {
                Whence::Start => START,
                Whence::End | Whence::At(..) => END,
            };
            ListOffsetsPartition::default()
                .with_partition_index(partition)
                .with_current_leader_epoch(ask.leader_epoch)
                .with_timestamp(timestamp)
        });
        ListOffsetsTopic::default()
            .with_name(TopicName(StrBytes::from_string(topic.to_owned())))
            .with_partitions(partitions.collect())
    });
    let committed = committed && version >= ISOLATION_SINCE;
    ListOffsetsRequest::default()
        .with_replica_id((-1).into())
        .with_isolation_level(i8::from(committed))
        .with_topics(topics.collect())
}

fn found(
    wanted: &BTreeMap<TopicPartition, ListAsk>,
    answer: ListOffsetsResponse,
) -> PartitionResults<i64> {
    let told = answer.topics.into_iter().flat_map(|topic| {
        let name = topic.name.0;
        topic.partitions.into_iter().map(move |one| {
            let place = TopicPartition {
                topic: name.as_str().into(),
                partition: one.partition_index,
            };
            // An empty log may have no offset for a question.
            let offset = check(one.error_code, None).map(|()| one.offset.max(0));
            (place, offset)
        })
    });
    each(wanted.keys(), told)
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use wire::messages::list_offsets_response::{
        ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
    };
    use wire::types::ErrorCode;

    use super::*;
    use crate::ask::Ask;

    fn wanted(partitions: &[i32]) -> BTreeMap<TopicPartition, ListAsk> {
        let wanted = partitions.iter().map(|partition| {
            let place = TopicPartition {
                topic: "t".into(),
                partition: *partition,
            };
            let ask = ListAsk {
                whence: Whence::Start,
                leader_epoch: 3,
            };
            (place, ask)
        });
        wanted.collect()
    }

    #[test]
    fn every_version_can_be_said() {
        for version in <ListOffsetsRequest as Ask>::OLDEST..=<ListOffsetsRequest as Ask>::NEWEST {
            let request = request(&wanted(&[0, 1]), true, version);
            let written = Ask::encode(&request, &mut BytesMut::new(), version);
            assert_eq!(written, Ok(()), "version {version}");
        }
    }

    #[test]
    fn each_partition_has_an_offset_or_the_reason_why_not() {
        let one = |partition: i32, error: i16, offset: i64| {
            ListOffsetsPartitionResponse::default()
                .with_partition_index(partition)
                .with_error_code(error)
                .with_offset(offset)
        };
        let topic = ListOffsetsTopicResponse::default()
            .with_name(TopicName(StrBytes::from_static_str("t")))
            .with_partitions(vec![one(0, 0, 7), one(1, 6, -1), one(9, 0, 5)]);
        let answer = ListOffsetsResponse::default().with_topics(vec![topic]);
        let found = found(&wanted(&[0, 1, 2]), answer);
        let results: Vec<_> = found
            .into_values()
            .map(|one| one.map_err(|refusal| refusal.code))
            .collect();
        let moved = Err(ErrorCode::NotLeaderOrFollower);
        let left_out = Err(ErrorCode::UnknownServerError);
        assert_eq!(results, [Ok(7), moved, left_out]);
    }
}
