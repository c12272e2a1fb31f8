//! `ElectLeaders` (key 43), versions 0-2: makes the preferred replica the leader, or any replica of
//! a partition without a leader.
//!
//! Version 1 added the second kind. Since its start, a standalone node leads every partition that
//! has a replica here, so there is no election to hold, and no other candidate.

use wire::messages::elect_leaders_response::{PartitionResult, ReplicaElectionResult};
use wire::messages::{ElectLeadersRequest, ElectLeadersResponse, TopicName};
use wire::types::ErrorCode;

use crate::controller::{Refusal, check_parts, quoted};
use crate::image::{Image, PartitionImage};

const PREFERRED: i8 = 0;
const UNCLEAN: i8 = 1;

/// Answers from the image.
pub(crate) fn handle(image: &Image, request: &ElectLeadersRequest) -> ElectLeadersResponse {
    let kind = request.election_type;
    let named = request.topic_partitions.iter().flatten();
    if let Err(refusal) = check_parts(named.map(|topic| topic.partitions.len())) {
        return ElectLeadersResponse::default().with_error_code(refusal.code.code());
    }
    if ![PREFERRED, UNCLEAN].contains(&kind) {
        return refused(request);
    }
    let results = match &request.topic_partitions {
        Some(named) => named
            .iter()
            .map(|topic| {
                let partitions = topic.partitions.iter();
                let each =
                    partitions.map(|index| (*index, elect(image, &topic.topic, *index, kind)));
                result(topic.topic.clone(), each)
            })
            .collect(),
        None => image.topics().map(|topic| all_of(topic, kind)).collect(),
    };
    ElectLeadersResponse::default().with_replica_election_results(results)
}

/// Returns the error for an unknown election type; for an empty list of partitions only an empty
/// result.
fn refused(request: &ElectLeadersRequest) -> ElectLeadersResponse {
    let code = ErrorCode::InvalidRequest;
    let named = request.topic_partitions.as_deref().unwrap_or_default();
    let nobody = request.topic_partitions.is_some() && named.is_empty();
    let message = format!("Unknown election type {}", request.election_type);
    let results = named.iter().map(|topic| {
        let refusal = || Refusal::new(code, message.clone());
        let partitions = topic.partitions.iter();
        result(
            topic.topic.clone(),
            partitions.map(|index| (*index, refusal())),
        )
    });
    ElectLeadersResponse::default()
        .with_error_code(if nobody { 0 } else { code.code() })
        .with_replica_election_results(results.collect())
}

/// Returns the partitions of a topic that could not be elected, without those that need no
/// election.
fn all_of(topic: &crate::image::TopicImage, kind: i8) -> ReplicaElectionResult {
    let judged = topic
        .partitions
        .iter()
        .map(|(index, partition)| (*index, judge(partition, kind)));
    let failed = judged.filter(|(_, refusal)| refusal.code != ErrorCode::ElectionNotNeeded);
    result(
        wire::StrBytes::from_string(topic.name.to_string()).into(),
        failed,
    )
}

fn elect(image: &Image, topic: &TopicName, index: i32, kind: i8) -> Refusal {
    let name = topic.as_str();
    let unknown = |message: String| Refusal::new(ErrorCode::UnknownTopicOrPartition, message);
    let Some(found) = image.topic_by_name(name) else {
        return unknown(format!("No such topic as {}", quoted(name)));
    };
    match found.partitions.get(&index) {
        None => unknown(format!("No such partition as {}-{index}", quoted(name))),
        Some(partition) => judge(partition, kind),
    }
}

fn judge(partition: &PartitionImage, kind: i8) -> Refusal {
    let preferred = partition.replicas.first() == Some(&partition.leader);
    let (code, message) = match (kind, partition.leader >= 0) {
        (PREFERRED, true) if preferred => (
            ErrorCode::ElectionNotNeeded,
            "Leader election not needed for topic partition.",
        ),
        (UNCLEAN, true) => (
            ErrorCode::ElectionNotNeeded,
            "Leader election not needed for topic partition.",
        ),
        (PREFERRED, _) => (
            ErrorCode::PreferredLeaderNotAvailable,
            "The preferred leader was not available.",
        ),
        _ => (
            ErrorCode::EligibleLeadersNotAvailable,
            "Eligible topic partition leaders are not available.",
        ),
    };
    Refusal::new(code, message)
}

fn result(
    topic: TopicName,
    partitions: impl Iterator<Item = (i32, Refusal)>,
) -> ReplicaElectionResult {
    let partition = |(index, refusal): (i32, Refusal)| {
        let (code, message) = Refusal::parts(Err(refusal));
        PartitionResult::default()
            .with_partition_id(index)
            .with_error_code(code)
            .with_error_message(message)
    };
    ReplicaElectionResult::default()
        .with_topic(topic)
        .with_partition_result(partitions.map(partition).collect())
}
