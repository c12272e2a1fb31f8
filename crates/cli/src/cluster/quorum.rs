//! `forebay cluster quorum`: who leads the log of the metadata, and how far the others are.
//!
//! It changes nothing. Brokers with `ZooKeeper` have no quorum, and do not serve the request.

use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use serde::Serialize;
use wire::messages::describe_quorum_request::{PartitionData as Asked, TopicData};
use wire::messages::describe_quorum_response::{PartitionData, ReplicaState};
use wire::messages::{DescribeQuorumRequest, TopicName};

use crate::ask::{check, text};
use crate::moment;
use crate::show::{Table, or_dash};
use crate::target::ChosenTarget;

const METADATA_TOPIC: &str = "__cluster_metadata";

/// The quorum, as its leader describes it.
#[derive(PartialEq, Eq, Debug, Serialize)]
struct Quorum {
    /// `None` while there is an election.
    leader: Option<i32>,
    epoch: i32,
    high_watermark: i64,
    replicas: Vec<Replica>,
}

/// A node that has the log.
#[derive(PartialEq, Eq, Debug, Serialize)]
struct Replica {
    id: i32,
    /// Leader, voter or observer.
    role: &'static str,
    end_offset: i64,
    /// Offsets that it lacks; `None` if its end or that of the leader is not known.
    lag: Option<i64>,
    /// When it last had all that the leader has, in milliseconds since 1970.
    last_caught_up_ms: Option<i64>,
}

/// Returns the question for the quorum of the metadata.
pub(super) fn request() -> DescribeQuorumRequest {
    let topic = TopicData::default()
        .with_topic_name(TopicName(text(METADATA_TOPIC)))
        .with_partitions(vec![Asked::default()]);
    DescribeQuorumRequest::default().with_topics(vec![topic])
}

pub(super) fn run(target: &ChosenTarget) -> anyhow::Result<ExitCode> {
    let mut cluster = target.cluster()?;
    let answer = cluster.entrance()?.ask_newest(&request())?;
    check(answer.error_code, answer.error_message.as_ref())?;
    let mut partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
    let partition = partitions.next().context("an empty answer")?;
    check(partition.error_code, partition.error_message.as_ref())?;
    ensure!(
        !partition.current_voters.is_empty(),
        "the answer names no voters"
    );
    let quorum = of(partition);
    target.format.show(&quorum, || quorum.text())?;
    Ok(ExitCode::SUCCESS)
}

fn of(partition: &PartitionData) -> Quorum {
    let leader = Some(partition.leader_id.0).filter(|&id| id >= 0);
    let is_leader = |replica: &ReplicaState| Some(replica.replica_id.0) == leader;
    let known = |offset: i64| (offset >= 0).then_some(offset);
    let mut voters = partition.current_voters.iter();
    let end = voters.find(|voter| is_leader(voter));
    let end = end.and_then(|leader| known(leader.log_end_offset));
    let replica = |state: &ReplicaState, role: &'static str| Replica {
        id: state.replica_id.0,
        role: if is_leader(state) { "leader" } else { role },
        end_offset: state.log_end_offset,
        lag: end
            .zip(known(state.log_end_offset))
            .map(|(end, own)| end.saturating_sub(own).max(0)),
        last_caught_up_ms: known(state.last_caught_up_timestamp),
    };
    let voters = partition.current_voters.iter();
    let voters = voters.map(|one| replica(one, "voter"));
    let observers = partition.observers.iter();
    let observers = observers.map(|one| replica(one, "observer"));
    let mut replicas: Vec<_> = voters.chain(observers).collect();
    replicas.sort_by_key(|replica| (replica.role == "observer", replica.id));
    Quorum {
        leader,
        epoch: partition.leader_epoch,
        high_watermark: partition.high_watermark,
        replicas,
    }
}

impl Quorum {
    fn text(&self) -> String {
        let mut head = Table::plain();
        let mut fact = |name: &str, value: String| head.row([name.to_owned(), value]);
        fact("LEADER", or_dash(self.leader));
        fact("EPOCH", self.epoch.to_string());
        fact("HIGH-WATERMARK", self.high_watermark.to_string());
        let mut table = Table::headed(&["ID", "ROLE", "END", "LAG", "LAST-CAUGHT-UP"]);
        for one in &self.replicas {
            table.row([
                one.id.to_string(),
                one.role.to_owned(),
                one.end_offset.to_string(),
                or_dash(one.lag),
                or_dash(one.last_caught_up_ms.map(moment::utc)),
            ]);
        }
        format!("{}\n{}", head.render(), table.render())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(id: i32, end: i64) -> ReplicaState {
        ReplicaState::default()
            .with_replica_id(id.into())
            .with_log_end_offset(end)
            .with_last_caught_up_timestamp(-1)
    }

    fn replicas(leader: i32, voters: &[(i32, i64)]) -> Vec<(i32, &'static str, Option<i64>)> {
        let states = voters.iter().map(|&(id, end)| state(id, end));
        let partition = PartitionData::default()
            .with_leader_id(leader.into())
            .with_current_voters(states.collect())
            .with_observers(vec![state(1, 90)]);
        let replicas = of(&partition).replicas.into_iter();
        replicas.map(|one| (one.id, one.role, one.lag)).collect()
    }

    #[test]
    fn the_lag_of_a_node_is_that_behind_the_leader() {
        assert_eq!(
            replicas(3, &[(3, 100), (2, 97), (4, -1)]),
            [
                (2, "voter", Some(3)),
                (3, "leader", Some(0)),
                (4, "voter", None),
                (1, "observer", Some(10)),
            ]
        );
        // Without a leader no lag is known.
        let none = replicas(-1, &[(3, 100)]);
        assert_eq!(none, [(3, "voter", None), (1, "observer", None)]);
    }
}
