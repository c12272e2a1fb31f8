//! Sends a fetch to learn which error a partition returns.
//!
//! The records in the answer are discarded.

use std::collections::BTreeMap;

use wire::messages::fetch_request::{FetchPartition, FetchTopic};
use wire::messages::{FetchRequest, TopicName};

use crate::ask::{Cluster, Refusal, check, text};

/// Last version that names topics by name.
const VERSION_MAX: i16 = 12;

/// Returns the errors of a topic's partitions for a fetch at these offsets.
pub(super) fn refusals(
    cluster: &mut Cluster,
    topic: &str,
    offsets: &BTreeMap<i32, i64>,
) -> anyhow::Result<BTreeMap<i32, Refusal>> {
    let mut by_leader: BTreeMap<i32, Vec<FetchPartition>> = BTreeMap::new();
    for described in cluster.topics(&[topic.to_owned()])? {
        for partition in described.partitions {
            let index = partition.partition_index;
            if let Some(offset) = offsets.get(&index) {
                let wanted = FetchPartition::default()
                    .with_partition(index)
                    .with_current_leader_epoch(-1)
                    .with_last_fetched_epoch(-1)
                    .with_log_start_offset(-1)
                    .with_fetch_offset(*offset)
                    .with_partition_max_bytes(1);
                by_leader
                    .entry(partition.leader_id.0)
                    .or_default()
                    .push(wanted);
            }
        }
    }
    // Partitions without a leader are left to librdkafka, which waits for one.
    by_leader.retain(|leader, _| *leader >= 0);
    let mut found = BTreeMap::new();
    for (leader, partitions) in by_leader {
        let of_topic = FetchTopic::default()
            .with_topic(TopicName(text(topic)))
            .with_partitions(partitions);
        let request = FetchRequest::default()
            .with_replica_id((-1).into())
            .with_max_wait_ms(0)
            .with_min_bytes(0)
            .with_max_bytes(1)
            .with_session_epoch(-1)
            .with_topics(vec![of_topic]);
        let broker = cluster.broker(leader)?;
        let version = broker.version::<FetchRequest>()?.min(VERSION_MAX);
        let answer = broker.ask(version, &request)?;
        check(answer.error_code, None)?;
        let partitions = answer.responses.iter().flat_map(|topic| &topic.partitions);
        for partition in partitions {
            if let Err(refusal) = check(partition.error_code, None) {
                found.insert(partition.partition_index, refusal);
            }
        }
    }
    Ok(found)
}
