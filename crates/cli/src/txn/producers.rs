//! `forebay txn producers`: the producers of a partition, and where their open transactions begin.
//!
//! It asks the leader of the partition.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use serde::Serialize;
use wire::messages::describe_producers_request::TopicRequest;
use wire::messages::describe_producers_response::{PartitionResponse, TopicResponse};
use wire::messages::{DescribeProducersRequest, TopicName};

use crate::ask::{Cluster, Failure, check, text};
use crate::moment;
use crate::show::{Table, or_dash};
use crate::target::ChosenTarget;

#[derive(Debug, Args)]
pub(super) struct Producers {
    /// The topic.
    topic: String,
    /// The partition.
    #[arg(short, long, default_value_t = 0)]
    partition: i32,
}

/// A producer, as the partition's leader knows it.
#[derive(Debug, Serialize)]
pub(super) struct Producer {
    #[serde(rename = "producer_id")]
    pub(super) id: i64,
    #[serde(rename = "producer_epoch")]
    pub(super) epoch: i16,
    pub(super) coordinator_epoch: i32,
    last_sequence: i32,
    last_timestamp: i64,
    pub(super) transaction_start_offset: Option<i64>,
}

impl Producers {
    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        let mut cluster = target.cluster()?;
        let leader = leader(&mut cluster, &self.topic, self.partition)?;
        let mut producers = ask(&mut cluster, leader, &self.topic, self.partition)?;
        producers.sort_by_key(|producer| producer.id);
        target.format.show(&producers, || {
            let mut table = Table::headed(&[
                "PRODUCER-ID",
                "EPOCH",
                "COORDINATOR-EPOCH",
                "LAST-SEQUENCE",
                "LAST-TIME",
                "TRANSACTION-START",
            ]);
            for one in &producers {
                let last = (one.last_timestamp >= 0).then(|| moment::utc(one.last_timestamp));
                table.row([
                    one.id.to_string(),
                    one.epoch.to_string(),
                    one.coordinator_epoch.to_string(),
                    one.last_sequence.to_string(),
                    or_dash(last),
                    or_dash(one.transaction_start_offset),
                ]);
            }
            table.render()
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the leader of a partition.
pub(super) fn leader(cluster: &mut Cluster, topic: &str, partition: i32) -> anyhow::Result<i32> {
    let topics = cluster.topics(&[topic.to_owned()])?;
    let mut partitions = topics.iter().flat_map(|topic| &topic.partitions);
    match partitions.find(|one| one.partition_index == partition) {
        None => bail!("topic {topic} has no partition {partition}"),
        Some(found) if found.leader_id.0 < 0 => {
            bail!("partition {topic}-{partition} has no leader")
        }
        Some(found) => Ok(found.leader_id.0),
    }
}

/// Returns the producers of a partition.
pub(super) fn ask(
    cluster: &mut Cluster,
    leader: i32,
    topic: &str,
    partition: i32,
) -> anyhow::Result<Vec<Producer>> {
    let wanted = TopicRequest::default()
        .with_name(TopicName(text(topic)))
        .with_partition_indexes(vec![partition]);
    let request = DescribeProducersRequest::default().with_topics(vec![wanted]);
    let topics = cluster.broker(leader)?.ask_newest(&request)?.topics;
    let found = answered(topics, topic, partition).map_err(anyhow::Error::from);
    let found = found.with_context(|| format!("producers of {topic}-{partition}"))?;
    let producers = found.active_producers.into_iter().map(|producer| {
        let start = producer.current_txn_start_offset;
        Ok(Producer {
            id: producer.producer_id.0,
            epoch: i16::try_from(producer.producer_epoch)?,
            coordinator_epoch: producer.coordinator_epoch,
            last_sequence: producer.last_sequence,
            last_timestamp: producer.last_timestamp,
            transaction_start_offset: (start >= 0).then_some(start),
        })
    });
    producers.collect()
}

/// Returns what the leader answered for the partition.
fn answered(
    topics: Vec<TopicResponse>,
    topic: &str,
    partition: i32,
) -> Result<PartitionResponse, Failure> {
    let mut topics = topics.into_iter();
    let topic = topics.find(|one| one.name.0.as_str() == topic);
    let mut partitions = topic.into_iter().flat_map(|topic| topic.partitions);
    let found = partitions.find(|one| one.partition_index == partition);
    let found = found.ok_or(Failure::LeftOut)?;
    check(found.error_code, found.error_message.as_ref())?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use wire::types::ErrorCode;

    use super::*;

    #[test]
    fn the_producers_of_another_partition_are_no_answer() {
        let topic = |name: &str, partition: i32, error: i16| {
            let partition = PartitionResponse::default()
                .with_partition_index(partition)
                .with_error_code(error);
            TopicResponse::default()
                .with_name(TopicName(text(name)))
                .with_partitions(vec![partition])
        };
        let of = |name: &str, partition: i32| {
            let topics = vec![topic("trucks", 1, 0), topic("cars", 0, 6)];
            let found = answered(topics, name, partition)?;
            Ok::<_, Failure>(found.partition_index)
        };
        assert_eq!(of("trucks", 1), Ok(1));
        let moved = Err(ErrorCode::NotLeaderOrFollower.into());
        assert_eq!(of("cars", 0), moved);
        assert_eq!(of("cars", 1), Err(Failure::LeftOut));
        assert_eq!(of("bikes", 0), Err(Failure::LeftOut));
    }
}
