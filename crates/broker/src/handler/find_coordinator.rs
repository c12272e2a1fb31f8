//! `FindCoordinator` (key 10), versions 0-6: which broker coordinates a group.
//!
//! Version 1 brought key types, 4 several keys at once. Transactions have no coordinator yet, share
//! groups neither: their keys are answered with an error. Who leads a partition is the caller's
//! knowledge.

use wire::messages::find_coordinator_response::Coordinator;
use wire::messages::{BrokerId, FindCoordinatorRequest, FindCoordinatorResponse};
use wire::protocol::StrBytes;
use wire::types::{ErrorCode, NodeId};

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;

/// A broker as a client is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// Which.
    pub(crate) id: NodeId,
    /// Where.
    pub(crate) host: String,
    /// Where.
    pub(crate) port: u16,
}

/// The keys that a request asks for.
pub(crate) fn keys(request: &FindCoordinatorRequest, version: i16) -> Vec<StrBytes> {
    if version >= 4 {
        request.coordinator_keys.clone()
    } else {
        vec![request.key.clone()]
    }
}

/// Answers with what `find` says of each group.
pub(crate) fn handle(
    request: &FindCoordinatorRequest,
    version: i16,
    find: impl Fn(&str) -> Result<Node, ErrorCode>,
) -> FindCoordinatorResponse {
    let found = keys(request, version).into_iter().map(|key| {
        let node = match request.key_type {
            GROUP => find(&key),
            TRANSACTION => Err(ErrorCode::CoordinatorNotAvailable),
            _ => Err(ErrorCode::InvalidRequest),
        };
        answer(key, node)
    });
    let mut found: Vec<Coordinator> = found.collect();
    if version >= 4 {
        return FindCoordinatorResponse::default().with_coordinators(found);
    }
    let only = found.pop().unwrap_or_default();
    FindCoordinatorResponse::default()
        .with_error_code(only.error_code)
        .with_error_message(only.error_message)
        .with_node_id(only.node_id)
        .with_host(only.host)
        .with_port(only.port)
}

fn answer(key: StrBytes, node: Result<Node, ErrorCode>) -> Coordinator {
    let answer = Coordinator::default().with_key(key);
    match node {
        Ok(node) => answer
            .with_node_id(BrokerId(node.id.0))
            .with_host(StrBytes::from_string(node.host))
            .with_port(i32::from(node.port))
            .with_error_message(None),
        Err(error) => answer
            .with_node_id(BrokerId(-1))
            .with_port(-1)
            .with_error_code(error.code())
            .with_error_message(Some(StrBytes::from_string(error.to_string()))),
    }
}
