//! `AlterPartitionReassignments` (key 45), versions 0-1: gives partitions other replicas, or
//! cancels a reassignment in progress.
//!
//! On a single node, the only possible replica is this node. A partition of a directory that
//! belonged to a cluster may still name other replicas: it can be reduced to this node immediately,
//! because this node has all the data that exists. Version 1 added the flag that forbids changing
//! the replication factor.

use wire::messages::alter_partition_reassignments_request::ReassignablePartition;
use wire::messages::alter_partition_reassignments_response::{
    ReassignablePartitionResponse, ReassignableTopicResponse,
};
use wire::messages::{AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse};
use wire::records::metadata::{MetadataRecord, PartitionChangeRecord};
use wire::types::ErrorCode;

use crate::controller::placement::{check_manual, directories_of};
use crate::controller::{ControllerDecision, Refusal, Rules, check_parts, quoted};
use crate::image::PartitionImage;
use crate::rests::{DECISION, Rests};

/// Decides on a request.
pub(crate) async fn handle(
    rules: Rules<'_>,
    request: &AlterPartitionReassignmentsRequest,
) -> ControllerDecision<AlterPartitionReassignmentsResponse> {
    let mut records = Vec::new();
    let mut responses = Vec::new();
    let keeps_factor = !request.allow_replication_factor_change;
    let parts = request.topics.iter().map(|topic| topic.partitions.len());
    let allowed = check_parts(parts);
    // A refusal is little work.
    let weight = if allowed.is_ok() { DECISION } else { 1 };
    let mut rests = Rests::new();
    for topic in &request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in &topic.partitions {
            let decided = allowed
                .clone()
                .and_then(|()| rules.reassign(topic.name.as_str(), partition, keeps_factor));
            let (code, message) = Refusal::parts(decided.map(|more| records.extend(more)));
            partitions.push(
                ReassignablePartitionResponse::default()
                    .with_partition_index(partition.partition_index)
                    .with_error_code(code)
                    .with_error_message(message),
            );
            rests.items(weight).await;
        }
        if topic.partitions.is_empty() {
            rests.item().await;
        }
        responses.push(
            ReassignableTopicResponse::default()
                .with_name(topic.name.clone())
                .with_partitions(partitions),
        );
    }
    let response = AlterPartitionReassignmentsResponse::default()
        .with_allow_replication_factor_change(request.allow_replication_factor_change)
        .with_error_message(None)
        .with_responses(responses);
    ControllerDecision { records, response }
}

impl Rules<'_> {
    fn reassign(
        &self,
        name: &str,
        wanted: &ReassignablePartition,
        keeps_factor: bool,
    ) -> Result<Option<MetadataRecord>, Refusal> {
        let unknown = |message: String| Refusal::new(ErrorCode::UnknownTopicOrPartition, message);
        let topic = self.image.topic_by_name(name);
        let topic = topic
            .ok_or_else(|| unknown(format!("Unable to find a topic named {}.", quoted(name))))?;
        let index = wanted.partition_index;
        let partition = topic.partitions.get(&index);
        let partition = partition
            .ok_or_else(|| unknown(format!("Unable to find partition {name}:{index}.")))?;
        let change = match &wanted.replicas {
            None => self.call_off(partition)?,
            Some(replicas) => {
                let replicas: Vec<i32> = replicas.iter().map(|id| id.0).collect();
                self.move_to(partition, replicas, keeps_factor)?
            }
        };
        Ok(change.map(|change| {
            PartitionChangeRecord {
                partition_id: index,
                topic_id: topic.id.0,
                ..change
            }
            .into()
        }))
    }

    /// Returns the partition to its replicas from before the reassignment.
    fn call_off(
        &self,
        partition: &PartitionImage,
    ) -> Result<Option<PartitionChangeRecord>, Refusal> {
        if partition.adding.is_empty() && partition.removing.is_empty() {
            let message = "No partition reassignment is in progress.";
            return Err(Refusal::new(ErrorCode::NoReassignmentInProgress, message));
        }
        let before = partition.replicas.iter().copied();
        let before: Vec<i32> = before.filter(|id| !partition.adding.contains(id)).collect();
        if !partition.isr.iter().any(|id| before.contains(id)) {
            return Err(Refusal::new(
                ErrorCode::InvalidReplicaAssignment,
                "Unable to revert the assignment: none of the replicas from before is in sync.",
            ));
        }
        Ok(Some(self.settled(partition, before)))
    }

    fn move_to(
        &self,
        partition: &PartitionImage,
        replicas: Vec<i32>,
        keeps_factor: bool,
    ) -> Result<Option<PartitionChangeRecord>, Refusal> {
        check_manual(self.image, &replicas, None)?;
        let before = partition.replicas.iter();
        let before = before.filter(|id| !partition.adding.contains(id)).count();
        if keeps_factor && before != replicas.len() {
            return Err(Refusal::new(
                ErrorCode::InvalidReplicationFactor,
                format!(
                    "The replication factor is changed from {before} to {}",
                    replicas.len()
                ),
            ));
        }
        // There is no replication, so no broker would ever copy the records that a new replica
        // lacks.
        if let Some(other) = replicas.iter().find(|id| !partition.isr.contains(id)) {
            return Err(Refusal::new(
                ErrorCode::InvalidReplicaAssignment,
                format!(
                    "Broker {other} is not in sync, and there is no replication that could bring \
                     it there."
                ),
            ));
        }
        let settled = partition.adding.is_empty() && partition.removing.is_empty();
        if settled && partition.replicas == replicas {
            return Ok(None);
        }
        Ok(Some(self.settled(partition, replicas)))
    }

    /// Returns the change to these replicas, with the reassignment ended.
    fn settled(&self, partition: &PartitionImage, replicas: Vec<i32>) -> PartitionChangeRecord {
        let isr = partition.isr.iter().copied();
        let isr: Vec<i32> = isr.filter(|id| replicas.contains(id)).collect();
        PartitionChangeRecord {
            directories: Some(directories_of(self.image, partition, &replicas)),
            isr: (isr != partition.isr).then_some(isr),
            removing_replicas: (!partition.removing.is_empty()).then(Vec::new),
            adding_replicas: (!partition.adding.is_empty()).then(Vec::new),
            replicas: Some(replicas),
            ..PartitionChangeRecord::default()
        }
    }
}

#[cfg(test)]
mod tests;
