//! A member of a consumer group: what it asks its coordinator, and which partitions are its own.
//!
//! Two pure machines, which are told the time and the answers: [`consumer_protocol`] (KIP-848: the
//! coordinator assigns) and [`classic_protocol`] (one of the members does: [`assign`]). Whoever
//! drives one carries out each [`Step`] before it asks for the next. [`exchange`] turns requests
//! into those of the protocol.
//!
//! Invariants: at most one request is under way; what is to be given up stays the member's until
//! the application has let go of it; what was lost to the group (fenced, unknown) is told as lost,
//! since it may be another member's already. Not here: positions and commits (`consumer`).

pub(crate) mod assign;
pub(crate) mod classic_protocol;
pub(crate) mod consumer_protocol;
mod embedded;
pub(crate) mod exchange;
mod member_settings;
mod step;

use platform::clock::Instant;

use crate::error::ClientError;
use classic_protocol::ClassicMember;
use consumer_protocol::ConsumerMember;
use exchange::GroupAnswer;
pub(crate) use member_settings::MemberSettings;
pub(crate) use step::{
    GroupFailure, Identity, Places, Step, TopicsSeen, is_of_another_coordinator,
};

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
