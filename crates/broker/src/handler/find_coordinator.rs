//! `FindCoordinator` (key 10), versions 0-6: the broker that coordinates a group or a transactional
//! id.
//!
//! Version 1 added key types, 4 several keys in one request. Share groups have no coordinator yet:
//! their keys get an error. The caller knows which broker leads a partition.

use std::collections::BTreeMap;

use wire::acl::{Operation, ResourceType};
use wire::messages::find_coordinator_response::Coordinator;
use wire::messages::{BrokerId, FindCoordinatorRequest, FindCoordinatorResponse};
use wire::protocol::StrBytes;
use wire::types::{ErrorCode, NodeId};

use crate::access::{Access, words};
use crate::rests::{Rests, each};

/// The key type of groups.
pub(crate) const GROUP: i8 = 0;
/// The key type of transactional ids.
pub(crate) const TRANSACTION: i8 = 1;
/// The key type of share groups, which do not exist yet.
const SHARE: i8 = 2;

/// A broker as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// Node id.
    pub(crate) id: NodeId,
    /// Host name.
    pub(crate) host: String,
    /// Port.
    pub(crate) port: u16,
}

/// Returns the keys of a request.
pub(crate) fn keys(request: &FindCoordinatorRequest, version: i16) -> Vec<StrBytes> {
    if version >= 4 {
        request.coordinator_keys.clone()
    } else {
        vec![request.key.clone()]
    }
}

/// Returns the errors of keys for which the client may not ask.
// Bounded: lives with one request, `wire::kafka::shape::DECODED_BYTES_MAX`.
pub(crate) async fn denied_keys(
    request: &FindCoordinatorRequest,
    version: i16,
    access: &Access,
) -> BTreeMap<StrBytes, ErrorCode> {
    let (kind, code) = match request.key_type {
        GROUP => (ResourceType::Group, ErrorCode::GroupAuthorizationFailed),
        TRANSACTION => (
            ResourceType::TransactionalId,
            ErrorCode::TransactionalIdAuthorizationFailed,
        ),
        _ => return BTreeMap::new(),
    };
    let mut denied = BTreeMap::new();
    if !access.is_limited() {
        return denied;
    }
    let mut rests = Rests::new();
    for key in keys(request, version) {
        if !access.may(Operation::Describe, kind, &key) {
            denied.insert(key, code);
        }
        rests.item().await;
    }
    denied
}

/// Answers with the result of `find` for each key.
pub(crate) async fn handle(
    request: &FindCoordinatorRequest,
    version: i16,
    find: impl Fn(&StrBytes) -> Result<Node, ErrorCode>,
) -> FindCoordinatorResponse {
    let answer_of = |key: StrBytes| {
        let node = match request.key_type {
            GROUP | TRANSACTION => find(&key),
            SHARE => Err(ErrorCode::InvalidRequest),
            // An unknown key type: the only error that has a message in every version.
            _ => {
                let answer = answer(key, Err(ErrorCode::InvalidRequest));
                return answer.with_error_message(Some(message(ErrorCode::InvalidRequest)));
            }
        };
        answer(key, node)
    };
    let mut found: Vec<Coordinator> = each(keys(request, version), answer_of).await;
    if version >= 4 {
        return FindCoordinatorResponse::default().with_coordinators(found);
    }
    let Some(only) = found.pop() else {
        unreachable!("before version 4 one key is asked for");
    };
    // In versions with a single key, the message for a success is "NONE".
    let message = match ErrorCode::try_from_code(only.error_code) {
        None => StrBytes::from_static_str("NONE"),
        Some(error) => message(error),
    };
    FindCoordinatorResponse::default()
        .with_error_code(only.error_code)
        .with_error_message(Some(message))
        .with_node_id(only.node_id)
        .with_host(only.host)
        .with_port(only.port)
}

fn answer(key: StrBytes, node: Result<Node, ErrorCode>) -> Coordinator {
    let answer = Coordinator::default()
        .with_key(key)
        .with_error_message(Some(StrBytes::default()));
    match node {
        Ok(node) => answer
            .with_node_id(BrokerId(node.id.0))
            .with_host(StrBytes::from_string(node.host))
            .with_port(i32::from(node.port)),
        Err(error) => answer
            .with_node_id(BrokerId(-1))
            .with_port(-1)
            .with_error_code(error.code()),
    }
}

fn message(error: ErrorCode) -> StrBytes {
    match error {
        ErrorCode::CoordinatorNotAvailable => {
            StrBytes::from_static_str("The coordinator is not available.")
        }
        ErrorCode::InvalidRequest => {
            StrBytes::from_static_str("There is no coordinator for keys of this type.")
        }
        other => words(other).map_or_else(
            || StrBytes::from_string(other.to_string()),
            StrBytes::from_static_str,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rests::tests::now;

    #[allow(clippy::unnecessary_wraps, reason = "what `handle` asks with can fail")]
    fn here(_: &StrBytes) -> Result<Node, ErrorCode> {
        let host = "h".to_owned();
        Ok(Node {
            id: NodeId(1),
            host,
            port: 9092,
        })
    }

    fn request(kind: i8) -> FindCoordinatorRequest {
        let key = StrBytes::from_static_str("g");
        FindCoordinatorRequest::default()
            .with_key(key.clone())
            .with_key_type(kind)
            .with_coordinator_keys(vec![key.clone(), key])
    }

    fn asked(
        request: &FindCoordinatorRequest,
        version: i16,
        find: impl Fn(&StrBytes) -> Result<Node, ErrorCode>,
    ) -> FindCoordinatorResponse {
        now(handle(request, version, find))
    }

    #[test]
    fn one_key_is_answered_as_old_clients_read_it() {
        let found = asked(&request(GROUP), 3, here);
        assert_eq!(
            (found.error_code, found.node_id.0, found.port),
            (0, 1, 9092)
        );
        assert_eq!(found.error_message.as_deref(), Some("NONE"));
        assert!(found.coordinators.is_empty());
        let nowhere = |_: &StrBytes| Err(ErrorCode::CoordinatorNotAvailable);
        let missing = asked(&request(TRANSACTION), 3, nowhere);
        assert_eq!(
            (missing.error_code, missing.node_id.0, missing.port),
            (15, -1, -1)
        );
        assert_eq!(
            missing.error_message.as_deref(),
            Some("The coordinator is not available.")
        );
    }

    #[test]
    fn several_keys_are_answered_one_by_one() {
        let found = asked(&request(GROUP), 4, here);
        assert_eq!(found.coordinators.len(), 2);
        assert!(
            found
                .coordinators
                .iter()
                .all(|one| one.error_code == 0 && one.port == 9092)
        );
        let unknown = asked(&request(5), 6, here);
        assert_eq!(
            unknown.coordinators[1].error_code,
            ErrorCode::InvalidRequest.code()
        );
    }
}
