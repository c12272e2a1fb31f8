//! What a member wants done, what it is told, and what its coordinator's refusals mean.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use platform::clock::Instant;
use wire::types::{ErrorCode, TopicId, TopicPartition};

use super::assign::TopicSizes;
use super::exchange::GroupRequest;
use crate::error::{ClientError, Refusal};

/// Partitions of a member.
pub(crate) type Places = BTreeSet<TopicPartition>;

/// What is to be done next for a member.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Step {
    /// This is to be asked of the coordinator; the answer goes to `answered`.
    Ask(GroupRequest),
    /// The application has to let go of these; then `revoked` is called.
    Revoke(Places),
    /// These are the member's now.
    Assign(Places),
    /// These are the member's no longer, and may be another's already.
    Lost(Places),
    /// These topics are to be looked up; the result goes to `looked`.
    Look(BTreeSet<Arc<str>>),
    /// Nothing before this time, unless something is answered.
    Wait(Option<Instant>),
    /// The member can do nothing more.
    Failed(GroupFailure),
    /// The member has left, as it was told.
    Left,
}

/// Why a member can do nothing more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum GroupFailure {
    /// The coordinator does not serve the consumer protocol.
    NotServed(ClientError),
    /// Anything else.
    Other(ClientError),
}

/// What was found out about topics; what does not exist is not in it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct TopicsSeen {
    pub(crate) sizes: TopicSizes,
    pub(crate) names: BTreeMap<TopicId, Arc<str>>,
}

/// How a member signs its commits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    pub(crate) member_id: String,
    /// The member epoch, or the generation.
    pub(crate) epoch: i32,
    /// The member is one of the consumer protocol.
    pub(crate) is_consumer_protocol: bool,
}

/// Returns true for refusals that a coordinator takes back by itself, or that another one does not
/// have.
pub(super) fn passes(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::CoordinatorLoadInProgress
            | ErrorCode::CoordinatorNotAvailable
            | ErrorCode::NotCoordinator
            | ErrorCode::RequestTimedOut
            | ErrorCode::NetworkException
    )
}

/// Returns true for refusals that say that this broker is not the coordinator.
pub(crate) fn is_of_another_coordinator(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::CoordinatorNotAvailable | ErrorCode::NotCoordinator
    )
}

/// Returns why a member cannot go on.
pub(super) fn refused(code: ErrorCode, message: Option<String>) -> GroupFailure {
    GroupFailure::Other(ClientError::Refused(Refusal { code, message }))
}
