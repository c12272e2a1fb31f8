//! Offsets of partitions: the first, the last, or the one at a time.
//!
//! It also has the values of isolation levels.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use wire::messages::metadata_response::MetadataResponseTopic;
use wire::messages::{ListOffsetsRequest, TopicName};
use wire::types::ErrorCode;

use super::refusal::{Refusal, check};
use super::{Cluster, text};

/// The timestamp that asks for the log start offset.
pub(crate) const EARLIEST: i64 = -2;
/// The timestamp that asks for the offset of the next record, as far as the reader sees.
pub(crate) const LATEST: i64 = -1;

/// A partition: its topic and its index.
pub(crate) type Place = (String, i32);
/// The offset of each partition, or the error.
pub(crate) type Offsets = BTreeMap<Place, Result<i64, Refusal>>;

/// Returns the isolation level as the protocol writes it.
pub(crate) const fn read_committed(yes: bool) -> i8 {
    if yes { 1 } else { 0 }
}

impl Cluster {
    /// Returns the offset at `time`, or at [`EARLIEST`] or [`LATEST`], of every partition of these
    /// topics.
    ///
    /// The offset is -1 if no record is at or after `time`.
    pub(crate) fn offsets(
        &mut self,
        topics: &[MetadataResponseTopic],
        time: i64,
        isolation: i8,
    ) -> anyhow::Result<Offsets> {
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
            let answer = self.broker(leader)?.ask_newest(&request)?;
            for topic in &answer.topics {
                for partition in &topic.partitions {
                    let place = (topic.name.0.to_string(), partition.partition_index);
                    let offset = check(partition.error_code, None).map(|()| partition.offset);
                    found.insert(place, offset);
                }
            }
        }
        Ok(found)
    }

    /// Does the same as [`Self::offsets`], but fails if a partition has no answer.
    pub(crate) fn offsets_of_all(
        &mut self,
        topics: &[MetadataResponseTopic],
        time: i64,
        isolation: i8,
    ) -> anyhow::Result<BTreeMap<Place, i64>> {
        let found = self.offsets(topics, time, isolation)?;
        for topic in topics {
            let name = topic.name.as_ref().map_or("", |name| name.0.as_str());
            for partition in &topic.partitions {
                let place = (name.to_owned(), partition.partition_index);
                if !found.contains_key(&place) {
                    bail!(
                        "partition {name}-{}: the broker did not answer for it",
                        place.1
                    );
                }
            }
        }
        let told = found.into_iter().map(|(place, offset)| {
            let offset = offset.with_context(|| format!("partition {}-{}", place.0, place.1))?;
            Ok((place, offset))
        });
        told.collect()
    }
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
