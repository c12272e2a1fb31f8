//! The error messages for a client that lacks a right: Kafka's sentences, which its tools print.

use wire::acl::ResourceType;
use wire::types::ErrorCode;

/// Returns the error of a client that lacks a right on a resource of this type, and its words.
pub(crate) const fn denied(resource_type: ResourceType) -> (ErrorCode, &'static str) {
    match resource_type {
        ResourceType::Topic => (
            ErrorCode::TopicAuthorizationFailed,
            "Topic authorization failed.",
        ),
        ResourceType::Group => (
            ErrorCode::GroupAuthorizationFailed,
            "Group authorization failed.",
        ),
        ResourceType::Cluster => (
            ErrorCode::ClusterAuthorizationFailed,
            "Cluster authorization failed.",
        ),
        ResourceType::TransactionalId => (
            ErrorCode::TransactionalIdAuthorizationFailed,
            "Transactional Id authorization failed.",
        ),
        ResourceType::DelegationToken | ResourceType::User => (
            ErrorCode::DelegationTokenAuthorizationFailed,
            "Delegation Token authorization failed.",
        ),
    }
}

/// Returns the words of an error that [`denied`] gives; `None` for any other.
pub(crate) fn words(code: ErrorCode) -> Option<&'static str> {
    let all = ResourceType::ALL.iter().map(|one| denied(*one));
    let mut fitting = all.filter(|(denied, _)| *denied == code);
    fitting.next().map(|(_, words)| words)
}
