//! `AddRaftVoter` (key 80), versions 0-1, and `RemoveRaftVoter` (key 81), version 0: changes the
//! voters of the metadata log.
//!
//! This node is always the only voter: it talks to no other controller. A change is refused with
//! Kafka's error for a quorum that cannot change, after the checks that Kafka makes first.

use wire::StrBytes;
use wire::messages::{
    AddRaftVoterRequest, AddRaftVoterResponse, RemoveRaftVoterRequest, RemoveRaftVoterResponse,
};
use wire::types::{ErrorCode, Uuid};

use crate::controller::Refusal;

pub(crate) fn add(request: &AddRaftVoterRequest, cluster_id: &str) -> AddRaftVoterResponse {
    let (id, directory) = (request.voter_id, request.voter_directory_id);
    let refusal = cluster(request.cluster_id.as_ref(), cluster_id)
        .or_else(|| voter("Add", id, directory))
        .or_else(|| {
            let message = "Add voter request didn't include an endpoint of the voter";
            let invalid = Refusal::new(ErrorCode::InvalidRequest, message);
            request.listeners.is_empty().then_some(invalid)
        })
        .unwrap_or_else(|| fixed("adding"));
    AddRaftVoterResponse::default()
        .with_error_code(refusal.code.code())
        .with_error_message(said(&refusal))
}

pub(crate) fn remove(
    request: &RemoveRaftVoterRequest,
    cluster_id: &str,
) -> RemoveRaftVoterResponse {
    let (id, directory) = (request.voter_id, request.voter_directory_id);
    let refusal = cluster(request.cluster_id.as_ref(), cluster_id)
        .or_else(|| voter("Remove", id, directory))
        .unwrap_or_else(|| fixed("removing"));
    RemoveRaftVoterResponse::default()
        .with_error_code(refusal.code.code())
        .with_error_message(said(&refusal))
}

/// Refuses a request for another cluster.
fn cluster(asked: Option<&StrBytes>, cluster_id: &str) -> Option<Refusal> {
    let asked = asked.filter(|asked| asked.as_str() != cluster_id)?;
    let message = format!("The given id \"{asked}\" doesn't match the cluster id \"{cluster_id}\"");
    Some(Refusal::new(ErrorCode::InconsistentClusterId, message))
}

fn voter(what: &str, id: i32, directory: Uuid) -> Option<Refusal> {
    let message = format!("{what} voter request didn't include a valid voter");
    (id < 0 || directory.is_nil()).then(|| Refusal::new(ErrorCode::InvalidRequest, message))
}

fn fixed(what: &str) -> Refusal {
    let message =
        format!("Cluster doesn't support {what} voters: its one node is its only controller");
    Refusal::new(ErrorCode::UnsupportedVersion, message)
}

fn said(refusal: &Refusal) -> Option<StrBytes> {
    refusal.message.clone().map(StrBytes::from_string)
}
