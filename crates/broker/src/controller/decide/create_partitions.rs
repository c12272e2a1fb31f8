//! `CreatePartitions` (key 37), versions 0-3: adds partitions to existing topics, which the client
//! needs the right to alter.

use std::collections::BTreeMap;

use wire::StrBytes;
use wire::acl::{Operation, ResourceType};
use wire::messages::create_partitions_request::CreatePartitionsTopic;
use wire::messages::create_partitions_response::CreatePartitionsTopicResult;
use wire::messages::{CreatePartitionsRequest, CreatePartitionsResponse};
use wire::types::ErrorCode;

use crate::access::Access;
use crate::controller::mutations::Gate;
use crate::controller::{
    ControllerDecision, RECORDS_PER_REQUEST_MAX, Refusal, Rules, check_count, too_large,
};
use crate::rests::{DECISION, Rests, each};

/// Decides on a request.
pub(crate) async fn handle(
    rules: Rules<'_>,
    access: &Access,
    request: &CreatePartitionsRequest,
    gate: &Gate<'_>,
) -> ControllerDecision<CreatePartitionsResponse> {
    if let Err(refusal) = check_count(request.topics.len()) {
        return refused(request, &refusal).await;
    }
    let mut named = BTreeMap::<&str, usize>::new();
    for topic in &request.topics {
        let times = named.entry(topic.name.as_str()).or_default();
        *times = times.saturating_add(1);
    }
    let (mut records, mut results) = (Vec::new(), Vec::new());
    let mut rests = Rests::new();
    for (name, count) in &named {
        if *count > 1 {
            let refusal = Refusal::new(ErrorCode::InvalidRequest, "Duplicate topic name.");
            results.push(result(name, Err(refusal)));
        }
    }
    let mut room = i64::try_from(RECORDS_PER_REQUEST_MAX).unwrap_or(i64::MAX);
    for topic in &request.topics {
        let name = topic.name.as_str();
        if named.get(name) != Some(&1) {
            continue;
        }
        if !access.may(Operation::Alter, ResourceType::Topic, name) {
            let denied = ErrorCode::TopicAuthorizationFailed;
            results.push(result(name, Err(denied.into())));
            rests.item().await;
            continue;
        }
        let existing = rules
            .image
            .topic_by_name(name)
            .map_or(0, |topic| topic.partitions.len());
        let existing = i64::try_from(existing).unwrap_or(i64::MAX);
        let more = i64::from(topic.count).saturating_sub(existing).max(0);
        room = room.saturating_sub(more);
        if room < 0 {
            return refused(request, &too_large()).await;
        }
        let assignment = topic.assignments.as_ref().map(|assignments| {
            let brokers = assignments.iter().map(|chosen| chosen.broker_ids.iter());
            brokers.map(|ids| ids.map(|id| id.0).collect()).collect()
        });
        let grown = rules.grow_topic(name, topic.count, assignment);
        let grown = grown.and_then(|added| gate.pass(added.len()).map(|()| added));
        let outcome = grown.map(|added| records.extend(added.into_iter().map(Into::into)));
        results.push(result(name, outcome));
        rests.items(DECISION).await;
    }
    if request.validate_only {
        records.clear();
    }
    ControllerDecision {
        records,
        response: CreatePartitionsResponse::default().with_results(results),
    }
}

/// Returns the same refusal for every topic; no topic grows.
async fn refused(
    request: &CreatePartitionsRequest,
    refusal: &Refusal,
) -> ControllerDecision<CreatePartitionsResponse> {
    let told = |topic: &CreatePartitionsTopic| result(topic.name.as_str(), Err(refusal.clone()));
    let results = each(&request.topics, told).await;
    let response = CreatePartitionsResponse::default().with_results(results);
    ControllerDecision {
        records: Vec::new(),
        response,
    }
}

fn result(name: &str, outcome: Result<(), Refusal>) -> CreatePartitionsTopicResult {
    let (code, message) = Refusal::parts(outcome);
    CreatePartitionsTopicResult::default()
        .with_name(StrBytes::from_string(name.to_owned()).into())
        .with_error_code(code)
        .with_error_message(message)
}

#[cfg(test)]
mod tests;
