//! Offsets of partitions: the first, the last, or the one at a time.
//!
//! It also has the values of isolation levels.

use std::collections::BTreeMap;

use anyhow::Context as _;
use wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use wire::messages::metadata_response::MetadataResponseTopic;
use wire::messages::{ListOffsetsRequest, ListOffsetsResponse, TopicName};
use wire::types::ErrorCode;

use super::answers::each_answer;
use super::refusal::check;
use super::{Cluster, Failure, text};

/// The timestamp that asks for the log start offset.
pub(crate) const EARLIEST: i64 = -2;
/// The timestamp that asks for the offset of the next record, as far as the reader sees.
pub(crate) const LATEST: i64 = -1;

/// A partition: its topic and its index.
pub(crate) type PartitionKey = (String, i32);
/// The offset of each partition, or why it is not known.
pub(crate) type Offsets = BTreeMap<PartitionKey, Result<i64, Failure>>;

/// Returns the isolation level as the protocol writes it.
pub(crate) const fn read_committed(yes: bool) -> i8 {
    if yes { 1 } else { 0 }
}

impl Cluster {
    /// Returns the offset at `time`, or at [`EARLIEST`] or [`LATEST`], of every partition of these
    /// topics.
    ///
    /// The offset is -1 if no record is at or after `time`. Each partition that was asked for is in
    /// the answer; a leader that cannot be asked is the error of its partitions.
    pub(crate) fn offsets(
        &mut self,
        topics: &[MetadataResponseTopic],
        time: i64,
        isolation: i8,
    ) -> Offsets {
        let mut found = Offsets::new();
        let mut by_leader: BTreeMap<i32, BTreeMap<String, Vec<i32>>> = BTreeMap::new();
        for topic in topics {
            let name = topic.name.as_ref().map_or("", |name| name.0.as_str());
            for partition in &topic.partitions {
                let (index, leader) = (partition.partition_index, partition.leader_id.0);
                if leader < 0 {
                    let place = (name.to_owned(), index);
                    found.insert(place, Err(ErrorCode::LeaderNotAvailable.into()));
                } else {
                    let of_leader = by_leader.entry(leader).or_default();
                    of_leader.entry(name.to_owned()).or_default().push(index);
                }
            }
        }
        for (leader, topics) in by_leader {
            let request = question(&topics, time, isolation);
            let broker = self.broker(leader);
            let answer = broker.and_then(|broker| broker.ask_newest(&request));
            found.extend(answered(&topics, answer));
        }
        found
    }

    /// Does the same as [`Self::offsets`], but fails if a partition has no offset.
    pub(crate) fn offsets_of_all(
        &mut self,
        topics: &[MetadataResponseTopic],
        time: i64,
        isolation: i8,
    ) -> anyhow::Result<BTreeMap<PartitionKey, i64>> {
        let told = self.offsets(topics, time, isolation).into_iter();
        let told = told.map(|(place, offset)| {
            let offset = offset.map_err(anyhow::Error::from);
            let offset = offset.with_context(|| format!("partition {}-{}", place.0, place.1))?;
            Ok((place, offset))
        });
        told.collect()
    }
}

/// Returns what a leader answered for each of its partitions, or why it did not.
fn answered(
    asked: &BTreeMap<String, Vec<i32>>,
    answer: anyhow::Result<ListOffsetsResponse>,
) -> Offsets {
    let places = asked.iter().flat_map(|(name, partitions)| {
        let partitions = partitions.iter();
        partitions.map(move |&index| (name.clone(), index))
    });
    let told = answer.map(|answer| {
        answer.topics.into_iter().flat_map(|topic| {
            let name = topic.name;
            topic.partitions.into_iter().map(move |one| {
                let offset = check(one.error_code, None).map(|()| one.offset);
                ((name.0.to_string(), one.partition_index), offset)
            })
        })
    });
    each_answer(places, told)
}

fn question(topics: &BTreeMap<String, Vec<i32>>, time: i64, isolation: i8) -> ListOffsetsRequest {
    let topics = topics.iter().map(|(name, partitions)| {
        let partitions = partitions.iter().map(|&index| {
            ListOffsetsPartition::default()
                .with_partition_index(index)
                .with_current_leader_epoch(-1)
                .with_timestamp(time)
        });
        ListOffsetsTopic::default()
            .with_name(TopicName(text(name)))
            .with_partitions(partitions.collect())
    });
    ListOffsetsRequest::default()
        .with_replica_id((-1).into())
        .with_isolation_level(isolation)
        .with_topics(topics.collect())
}

#[cfg(test)]
mod tests {
    use wire::messages::list_offsets_response::{
        ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
    };

    use super::*;

    #[test]
    fn each_partition_has_an_answer_of_its_leader_or_an_error() {
        let asked = BTreeMap::from([("cars".to_owned(), vec![0, 1, 2])]);
        let offset = |index: i32, error: i16| {
            ListOffsetsPartitionResponse::default()
                .with_partition_index(index)
                .with_error_code(error)
                .with_offset(7)
        };
        let cars = ListOffsetsTopicResponse::default()
            .with_name(TopicName(text("cars")))
            .with_partitions(vec![offset(0, 0), offset(1, 6), offset(7, 0)]);
        let answer = ListOffsetsResponse::default().with_topics(vec![cars]);
        // The request did not ask for partition 7, so no entry is made of it.
        let found: Vec<_> = answered(&asked, Ok(answer)).into_values().collect();
        let moved = Err(ErrorCode::NotLeaderOrFollower.into());
        assert_eq!(found, [Ok(7), moved, Err(Failure::LeftOut)]);

        let lost = answered(&asked, Err(anyhow::anyhow!("no answer")));
        let silent = Err(Failure::NotAsked("no answer".into()));
        assert_eq!(lost.into_values().collect::<Vec<_>>(), vec![silent; 3]);
    }
}
