//! `forebay txn abort`: writes an abort marker into one partition, like
//! `kafka-transactions.sh abort`.
//!
//! Only this partition changes, whatever the coordinator knows of the transaction.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use wire::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use wire::messages::write_txn_markers_response::WritableTxnMarkerResult;
use wire::messages::{ProducerId, TopicName, WriteTxnMarkersRequest};

use super::producers;
use crate::ask::{Cluster, Failure, check, text};
use crate::outcome::{self, CommandOutcome};
use crate::target::ChosenTarget;

#[derive(Debug, Args)]
pub(super) struct Abort {
    /// The topic.
    #[arg(long)]
    topic: String,
    /// The partition.
    #[arg(long)]
    partition: i32,
    /// Where the transaction begins; `forebay txn producers` shows it.
    #[arg(long, value_name = "OFFSET", required_unless_present = "producer_id")]
    start_offset: Option<i64>,
    /// The producer, for brokers before 3.0, which cannot find it by the offset.
    #[arg(long, value_name = "ID", conflicts_with = "start_offset",
          requires_all = ["producer_epoch", "coordinator_epoch"])]
    producer_id: Option<i64>,
    /// Its epoch.
    #[arg(long, value_name = "EPOCH", requires = "producer_id")]
    producer_epoch: Option<i16>,
    /// The epoch of the coordinator; negative if there was none.
    #[arg(
        long,
        value_name = "EPOCH",
        requires = "producer_id",
        allow_hyphen_values = true
    )]
    coordinator_epoch: Option<i32>,
}

/// The producer and the coordinator of the transaction.
struct TransactionOwner {
    producer_id: i64,
    producer_epoch: i16,
    coordinator_epoch: i32,
}

impl Abort {
    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        let mut cluster = target.cluster()?;
        let leader = producers::leader(&mut cluster, &self.topic, self.partition)?;
        let whose = self.whose(&mut cluster, leader)?;
        let topic = WritableTxnMarkerTopic::default()
            .with_name(TopicName(text(&self.topic)))
            .with_partition_indexes(vec![self.partition]);
        let marker = WritableTxnMarker::default()
            .with_producer_id(ProducerId(whose.producer_id))
            .with_producer_epoch(whose.producer_epoch)
            .with_transaction_result(false)
            // Without a coordinator's epoch the marker has 0: no epoch is older.
            .with_coordinator_epoch(whose.coordinator_epoch.max(0))
            .with_topics(vec![topic]);
        let request = WriteTxnMarkersRequest::default().with_markers(vec![marker]);
        let markers = cluster.broker(leader)?.ask_newest(&request)?.markers;
        let result = answered(&markers, whose.producer_id, &self.topic, self.partition);
        let name = format!("{}-{}", self.topic, self.partition);
        let done = format!("transaction of producer {} aborted", whose.producer_id);
        let outcome = CommandOutcome::of(&name, result, &done);
        outcome::show(target.format, "PARTITION", &[outcome])
    }

    fn whose(&self, cluster: &mut Cluster, leader: i32) -> anyhow::Result<TransactionOwner> {
        if let (Some(producer_id), Some(producer_epoch), Some(coordinator_epoch)) = (
            self.producer_id,
            self.producer_epoch,
            self.coordinator_epoch,
        ) {
            return Ok(TransactionOwner {
                producer_id,
                producer_epoch,
                coordinator_epoch,
            });
        }
        let producers = producers::ask(cluster, leader, &self.topic, self.partition)?;
        let start = self.start_offset.unwrap_or(-1);
        let mut all = producers.iter();
        match all.find(|producer| producer.transaction_start_offset == Some(start)) {
            Some(found) => Ok(TransactionOwner {
                producer_id: found.id,
                producer_epoch: found.epoch,
                coordinator_epoch: found.coordinator_epoch,
            }),
            None => bail!(
                "no open transaction begins at offset {start} of {}-{}",
                self.topic,
                self.partition
            ),
        }
    }
}

/// Returns what the leader answered for the marker of this producer in this partition.
fn answered(
    markers: &[WritableTxnMarkerResult],
    producer_id: i64,
    topic: &str,
    partition: i32,
) -> Result<(), Failure> {
    let markers = markers.iter();
    let of_producer = markers.filter(|marker| marker.producer_id.0 == producer_id);
    let topics = of_producer.flat_map(|marker| &marker.topics);
    let of_topic = topics.filter(|one| one.name.0.as_str() == topic);
    let mut partitions = of_topic.flat_map(|one| &one.partitions);
    let written = partitions.find(|one| one.partition_index == partition);
    Ok(check(written.ok_or(Failure::LeftOut)?.error_code, None)?)
}

#[cfg(test)]
mod tests {
    use wire::messages::write_txn_markers_response::{
        WritableTxnMarkerPartitionResult, WritableTxnMarkerTopicResult,
    };
    use wire::types::ErrorCode;

    use super::*;

    #[test]
    fn what_became_of_another_marker_is_no_answer() {
        let marker = |producer: i64, topic: &str, partition: i32, error: i16| {
            let partition = WritableTxnMarkerPartitionResult::default()
                .with_partition_index(partition)
                .with_error_code(error);
            let topic = WritableTxnMarkerTopicResult::default()
                .with_name(TopicName(text(topic)))
                .with_partitions(vec![partition]);
            WritableTxnMarkerResult::default()
                .with_producer_id(ProducerId(producer))
                .with_topics(vec![topic])
        };
        let markers = [marker(7, "cars", 0, 0), marker(8, "cars", 1, 47)];
        let of = |producer: i64, topic: &str, partition: i32| {
            answered(&markers, producer, topic, partition)
        };
        assert_eq!(of(7, "cars", 0), Ok(()));
        let fenced = Err(ErrorCode::InvalidProducerEpoch.into());
        assert_eq!(of(8, "cars", 1), fenced);
        for (producer, topic, partition) in [(8, "cars", 0), (7, "bikes", 0), (7, "cars", 1)] {
            assert_eq!(of(producer, topic, partition), Err(Failure::LeftOut));
        }
    }
}
