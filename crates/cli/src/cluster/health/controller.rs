//! Which controller is in charge, or why there is none.
//!
//! With KRaft the metadata names any broker as controller, because brokers forward requests: the
//! leader of the metadata quorum is the controller. Brokers with `ZooKeeper` do not
//! serve `DescribeQuorum`, and the metadata names the controller.

use wire::messages::{DescribeQuorumRequest, DescribeQuorumResponse};

use super::Problem;
use crate::ask::{Cluster, check};
use crate::cluster::quorum;

/// Returns the controller, given the one that the metadata names; or the problem with it.
pub(super) fn find(cluster: &mut Cluster, named: Option<i32>) -> Result<Option<i32>, Problem> {
    let broker = cluster.entrance().map_err(|error| {
        let reason = format!("{error:#}");
        Problem::at("the controller is not known", reason)
    })?;
    if !broker.serves::<DescribeQuorumRequest>() {
        return named
            .map(Some)
            .ok_or_else(|| Problem::at("no controller", "-"));
    }
    leader(broker.ask_newest(&quorum::request()))
}

/// Returns the leader of the quorum.
fn leader(answer: anyhow::Result<DescribeQuorumResponse>) -> Result<Option<i32>, Problem> {
    let unknown = |reason: String| Problem::at("the controller is not known", reason);
    let answer = answer.map_err(|error| unknown(format!("{error:#}")))?;
    let refused = |code: i16| check(code, None).map_err(|refusal| unknown(refusal.to_string()));
    refused(answer.error_code)?;
    let partition = answer
        .topics
        .iter()
        .find_map(|topic| topic.partitions.first());
    let partition = partition.ok_or_else(|| unknown("an empty answer".to_owned()))?;
    refused(partition.error_code)?;
    if partition.leader_id.0 < 0 {
        return Err(Problem::at("no controller", "the quorum has no leader"));
    }
    Ok(Some(partition.leader_id.0))
}

#[cfg(test)]
mod tests {
    use wire::messages::describe_quorum_response as response;

    use super::*;

    fn answer(leader: i32, error: i16) -> DescribeQuorumResponse {
        let partition = response::PartitionData::default()
            .with_leader_id(leader.into())
            .with_error_code(error);
        let topic = response::TopicData::default().with_partitions(vec![partition]);
        DescribeQuorumResponse::default().with_topics(vec![topic])
    }

    #[test]
    fn the_leader_of_the_quorum_is_the_controller() {
        assert_eq!(leader(Ok(answer(3000, 0))), Ok(Some(3000)));
        let none = leader(Ok(answer(-1, 0))).unwrap_err();
        assert_eq!(none.problem, "no controller");
        for (answer, reason) in [
            (Ok(answer(1, 7)), "REQUEST_TIMED_OUT"),
            (
                Ok(answer(1, 0).with_error_code(31)),
                "CLUSTER_AUTHORIZATION_FAILED",
            ),
            (Ok(DescribeQuorumResponse::default()), "an empty answer"),
            (Err(anyhow::anyhow!("no answer")), "no answer"),
        ] {
            let unknown = Problem::at("the controller is not known", reason);
            assert_eq!(leader(answer), Err(unknown));
        }
    }
}
