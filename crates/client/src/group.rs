//! A member of a consumer group: what it asks its coordinator, and which partitions are its own.
//!
//! Two pure machines, to which the consumer's driver passes the time and the answers:
//! [`consumer_protocol`] (KIP-848: the coordinator assigns) and [`classic_protocol`] (one of the
//! members does: [`assign`]). The driver carries out each [`Step`] before it asks for the next.
//! [`exchange`] turns requests into those of the protocol.
//!
//! Invariants: at most one request is under way; a partition to give up stays the member's until
//! the application has let go of it; the machine reports what a fenced or unknown member had as
//! lost, since it may be another member's already. Not here: positions and commits (`consumer`).

pub(crate) mod assign;
pub(crate) mod classic_protocol;
pub(crate) mod consumer_protocol;
mod embedded;
pub(crate) mod exchange;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use platform::clock::Instant;
use wire::types::{ErrorCode, TopicId, TopicPartition};

use crate::error::{ClientError, Refusal};
use crate::pauses::Pauses;
use assign::{Strategy, TopicSizes};
use classic_protocol::ClassicMember;
use consumer_protocol::ConsumerMember;
use exchange::{GroupAnswer, GroupRequest};

/// Partitions of a member.
pub(crate) type Places = BTreeSet<TopicPartition>;

/// What a member is, for as long as it lives.
#[derive(Clone, Debug)]
pub(crate) struct MemberSettings {
    pub(crate) group: String,
    /// The name of a static member.
    pub(crate) instance_id: Option<String>,
    pub(crate) rack: Option<String>,
    pub(crate) topics: BTreeSet<Arc<str>>,
    /// The coordinator's assignor, if the member asks for one.
    pub(crate) assignor: Option<String>,
    /// How the leader of a classic group divides, the preferred way first.
    pub(crate) strategies: Vec<Strategy>,
    pub(crate) session_timeout: Duration,
    pub(crate) heartbeat_interval: Duration,
    /// How long the application may take between two looks, and to let go of partitions.
    pub(crate) rebalance_timeout: Duration,
    /// How often the leader of a classic group looks whether topics have grown.
    pub(crate) metadata_max_age: Duration,
    pub(crate) pauses: Pauses,
}

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

/// A member by either protocol.
#[derive(Debug)]
pub(crate) enum Member {
    Consumer(ConsumerMember),
    Classic(ClassicMember),
}

macro_rules! either {
    ($self:expr, $member:ident => $call:expr) => {
        match $self {
            Member::Consumer($member) => $call,
            Member::Classic($member) => $call,
        }
    };
}

impl Member {
    /// Returns what is to be done next.
    pub(crate) fn step(&mut self, now: Instant) -> Step {
        either!(self, member => member.step(now))
    }

    /// Takes the answer to what was asked last, or why there is none.
    pub(crate) fn answered(&mut self, answer: Result<GroupAnswer, ClientError>, now: Instant) {
        either!(self, member => member.answered(answer, now));
    }

    /// Takes that the application has let go of what it was to give up.
    pub(crate) fn revoked(&mut self, now: Instant) {
        either!(self, member => member.revoked(now));
    }

    /// Takes the result of a look at topics.
    pub(crate) fn looked(&mut self, seen: &TopicsSeen, now: Instant) {
        either!(self, member => member.looked(seen, now));
    }

    /// Takes that the application has not asked for anything for too long: the member leaves.
    pub(crate) fn stalled(&mut self, now: Instant) {
        either!(self, member => member.stalled(now));
    }

    /// Takes that the application is back: a member that has left because of it joins again.
    pub(crate) fn polled(&mut self, now: Instant) {
        either!(self, member => member.polled(now));
    }

    /// Ends the membership; whatever the application had is let go of before.
    pub(crate) fn leave(&mut self, now: Instant) {
        either!(self, member => member.leave(now));
    }

    /// Returns how to sign commits, while the member is in its group.
    pub(crate) fn identity(&self) -> Option<Identity> {
        either!(self, member => member.identity())
    }
}

/// Returns true for refusals that a coordinator takes back by itself, or that another one does not
/// have.
fn passes(code: ErrorCode) -> bool {
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
fn refused(code: ErrorCode, message: Option<String>) -> GroupFailure {
    GroupFailure::Other(ClientError::Refused(Refusal { code, message }))
}
