//! One classic group: a pure state machine over members, their protocols and their timeouts.
//!
//! States: `Empty` (no members) -> `PreparingRebalance` (members are joining; joins wait) ->
//! `CompletingRebalance` (a new generation has begun; syncs wait for the leader's assignment and
//! for the log) -> `Stable`. Any change of the members or of their subscriptions leads back to
//! `PreparingRebalance`; when the last member leaves, the group becomes `Empty`. A `Dead` group is
//! removed.
//!
//! Invariants: the generation never decreases; a generation has at most one assignment; every token
//! is answered exactly once; a join waits only in `PreparingRebalance` (except for a static member
//! that is being stored), a sync only in `CompletingRebalance`; the leader is a member. Records to
//! write are effects, and the machine continues when the caller reports the outcome
//! ([`ClassicGroup::stored`]). It reads no clock and arms no timer: `now` is an argument, and
//! [`ClassicGroup::next_deadline`] returns when [`ClassicGroup::expire`] has work.

mod join;
mod member;
mod rebalance;
mod record;
mod replace;
mod session;
mod sync;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use platform::clock::Instant;
use wire::messages::{JoinGroupResponse, SyncGroupResponse};
use wire::protocol::StrBytes;
use wire::records::offsets::GroupMetadataValue;
use wire::types::ErrorCode;

pub use join::{Join, join_refused};
pub use member::{Member, Protocols};
pub use session::{LeaveResult, Leaver};
pub use sync::{Sync, sync_refused};

use super::{ClockReading, EventAge};
use rebalance::JoinTimer;
pub use record::ConvertedMember;
pub use replace::Replacement;

/// The protocol type of consumers.
pub(super) const CONSUMER: &str = "consumer";
/// Session timeout of a member whose first join has not completed, whatever timeout it asks for.
pub(super) const NEW_MEMBER_TIMEOUT: Duration = Duration::from_mins(5);
/// Least time between two checks for static members that are away while no other member has joined.
pub(super) const ABSENCE_MIN: Duration = Duration::from_secs(1);
/// Bytes that a handed-out member id takes beside its text: its entry in a map.
const PENDING_BYTES: usize = 512;
/// Most member ids per group that were handed out and not used yet.
pub(super) const PENDING_MEMBERS_MAX: usize = 10_000;

const _: () = assert!(
    ABSENCE_MIN.as_millis() < NEW_MEMBER_TIMEOUT.as_millis(),
    "who is away is looked for before who is new is given up"
);

/// State of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClassicGroupState {
    /// No members.
    Empty,
    /// Members are joining.
    PreparingRebalance,
    /// Members wait for their assignments.
    CompletingRebalance,
    /// Members work.
    Stable,
}

impl ClassicGroupState {
    /// Returns the name that tools print.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
        }
    }
}

/// Identifies a request that waits for its answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Token(pub u64);

/// The answer to a request that may have waited.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// To `JoinGroup`.
    Join(JoinGroupResponse),
    /// To `SyncGroup`.
    Sync(SyncGroupResponse),
}

impl Reply {
    /// Returns the same answer as a refusal.
    #[must_use]
    pub fn refused(self, error: ErrorCode) -> Self {
        match self {
            Self::Join(answer) => Self::Join(join_refused(answer.member_id, error)),
            Self::Sync(_) => Self::Sync(sync_refused(error)),
        }
    }
}

/// The consequences of an event.
#[derive(Default, Debug)]
pub struct Effects {
    /// Answers to send.
    pub replies: Vec<(Token, Reply)>,
    /// Records to append, in order.
    pub stores: Vec<Store>,
    /// True if the assignments of a new generation are in the log: a rebalance is complete.
    pub rebalanced: bool,
}

/// Group metadata to append, and the continuation for [`ClassicGroup::stored`].
#[derive(Debug)]
pub struct Store {
    /// The record's value.
    pub metadata: GroupMetadataValue,
    /// What waits for the append.
    pub then: AfterAppend,
}

/// What waits for an append.
#[derive(Debug)]
pub enum AfterAppend {
    /// A group that has just been created.
    Created,
    /// Nothing waits: the last member left.
    Emptied,
    /// Members wait for their assignments.
    Assigned {
        /// The generation of the assignments.
        generation: i32,
        /// Assignment by member id.
        // Bounded: lives with one change of a group of at most `groups::weight::GROUP_BYTES_MAX`.
        assignments: BTreeMap<StrBytes, bytes::Bytes>,
    },
    /// A static member rejoined with another member id.
    Replaced(Box<Replacement>),
}

/// Limits of a group.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long a new group waits for more members (`group.initial.rebalance.delay.ms`).
    pub initial_rebalance_delay: Duration,
    /// Most members of a group (`group.max.size`).
    pub members_max: usize,
}

/// A classic group.
#[derive(Clone, Debug)]
pub struct ClassicGroup {
    limits: Limits,
    state: ClassicGroupState,
    previous: ClassicGroupState,
    /// Wall time of the last change of state, in milliseconds; `None` before the first.
    state_since_ms: Option<i64>,
    /// Age of the last change of state.
    state_since: Option<EventAge>,
    generation: i32,
    protocol_type: Option<StrBytes>,
    protocol: Option<StrBytes>,
    /// Invariant: one of `members`.
    leader: Option<StrBytes>,
    /// Only [`ClassicGroup::enroll`], [`ClassicGroup::strike`] and [`ClassicGroup::reoffer`] insert
    /// or remove members or change their protocols.
    // Bounded: `groups::weight::GROUP_BYTES_MAX`, and `group.max.size`.
    members: BTreeMap<StrBytes, Member>,
    /// Approximate bytes of the members.
    bytes: usize,
    /// Bytes of the member ids that were handed out.
    pending_bytes: usize,
    /// Bytes of the members' last assignments.
    assigned_bytes: usize,
    /// How many members offer each protocol, so that a join is not compared with every member.
    // Bounded: `groups::weight::GROUP_BYTES_MAX`, as the members.
    offered: BTreeMap<StrBytes, usize>,
    /// Member id by instance id. Invariant: every id is one of `members`.
    // Bounded: `groups::weight::GROUP_BYTES_MAX`, as the members.
    statics: BTreeMap<StrBytes, StrBytes>,
    /// Member ids that were handed out, and when each expires. Invariant: none is one of `members`.
    // Bounded: `PENDING_MEMBERS_MAX`, and `groups::weight::GROUP_BYTES_MAX` with the client ids in
    // them.
    pending_joins: BTreeMap<StrBytes, Instant>,
    /// Members of this generation that have not sent a sync. Invariant: every id is one of
    /// `members`.
    // Bounded: `groups::weight::GROUP_BYTES_MAX`, as the members.
    pending_syncs: BTreeSet<StrBytes>,
    /// True when a member joined after the initial rebalance was last postponed.
    joined_meanwhile: bool,
    /// The generation whose assignment is being appended.
    storing: Option<i32>,
    /// Topics of all members in this generation; `None` when unknown.
    // Bounded: `groups::weight::GROUP_BYTES_MAX`, as the members' protocols.
    subscribed: Option<BTreeSet<String>>,
    join_timer: Option<JoinTimer>,
    sync_deadline: Option<Instant>,
}

impl ClassicGroup {
    /// Creates a group without members and history.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            state: ClassicGroupState::Empty,
            previous: ClassicGroupState::Empty,
            state_since_ms: None,
            state_since: None,
            generation: 0,
            protocol_type: None,
            protocol: None,
            leader: None,
            members: BTreeMap::new(),
            bytes: 0,
            pending_bytes: 0,
            assigned_bytes: 0,
            offered: BTreeMap::new(),
            statics: BTreeMap::new(),
            pending_joins: BTreeMap::new(),
            pending_syncs: BTreeSet::new(),
            joined_meanwhile: false,
            storing: None,
            subscribed: None,
            join_timer: None,
            sync_deadline: None,
        }
    }

    /// Returns the state.
    pub fn state(&self) -> ClassicGroupState {
        self.state
    }

    /// Returns the generation.
    pub fn generation(&self) -> i32 {
        self.generation
    }

    /// Returns the protocol type, empty before the first member.
    pub fn protocol_type(&self) -> StrBytes {
        self.protocol_type.clone().unwrap_or_default()
    }

    /// Returns the protocol that the members agreed on.
    pub fn protocol(&self) -> Option<&StrBytes> {
        self.protocol.as_ref()
    }

    /// Returns the age of the last change of state.
    pub(super) fn state_since(&self) -> Option<EventAge> {
        self.state_since
    }

    fn note_state_since(&mut self, wall_ms: Option<i64>, now: ClockReading) {
        self.state_since_ms = wall_ms;
        self.state_since = wall_ms.map(|wall_ms| EventAge::of(wall_ms, now));
    }

    /// Returns the members.
    pub fn members(&self) -> impl Iterator<Item = (&StrBytes, &Member)> {
        self.members.iter()
    }

    /// Returns the approximate bytes that the members take.
    pub fn bytes(&self) -> usize {
        // Assignments of the last generation count until the next one, when there may be fewer.
        let assigned = if self.members.is_empty() {
            0
        } else {
            self.assigned_bytes
        };
        self.bytes
            .saturating_add(self.pending_bytes)
            .saturating_add(assigned)
    }

    /// Returns by how many bytes a join enlarges the group.
    pub(super) fn growth(&self, join: &Join) -> usize {
        let before = self.members.get(&join.member_id);
        let before = before.or_else(|| {
            let holder = self.statics.get(join.instance_id.as_ref()?)?;
            self.members.get(holder)
        });
        let offered = member::bytes_of(&join.protocols);
        let Some(before) = before else {
            let id = if join.member_id.is_empty() {
                &join.fresh_id
            } else {
                &join.member_id
            };
            let instance = join.instance_id.as_ref();
            let texts = member::texts_of(id, &join.client_id, &join.client_host, instance);
            return offered.saturating_add(member::BYTES).saturating_add(texts);
        };
        offered.saturating_sub(member::bytes_of(&before.protocols))
    }

    /// Returns true when the group has no members and awaits none.
    pub fn is_idle(&self) -> bool {
        self.state == ClassicGroupState::Empty && self.pending_joins.is_empty()
    }

    /// Returns true for a new group: it has no members, awaits none, and never had any.
    pub(super) fn is_blank(&self) -> bool {
        self.is_idle() && self.generation == 0 && self.state_since.is_none()
    }

    /// Returns true for a group of consumers.
    pub fn is_consumer(&self) -> bool {
        self.protocol_type
            .as_ref()
            .is_some_and(|kind| kind.as_str() == CONSUMER)
    }

    /// Returns true when a protocol type is known.
    pub fn has_protocol_type(&self) -> bool {
        self.protocol_type.is_some()
    }

    /// Returns true when the topics of the members are known.
    pub fn knows_subscriptions(&self) -> bool {
        self.subscribed.is_some()
    }

    /// Returns true when a member reads `topic`, or may read it because the subscriptions are
    /// unknown.
    pub fn is_subscribed_to(&self, topic: &str) -> bool {
        match &self.subscribed {
            Some(topics) => topics.contains(topic),
            None => self.is_consumer(),
        }
    }

    /// Checks that a request comes from a member, and that its instance id belongs to that member.
    pub fn check_member(
        &self,
        id: &StrBytes,
        instance: Option<&StrBytes>,
    ) -> Result<(), ErrorCode> {
        if let Some(instance) = instance {
            match self.statics.get(instance) {
                None => return Err(ErrorCode::UnknownMemberId),
                Some(holder) if holder != id => return Err(ErrorCode::FencedInstanceId),
                Some(_) => {}
            }
        }
        if self.members.contains_key(id) {
            Ok(())
        } else {
            Err(ErrorCode::UnknownMemberId)
        }
    }

    /// Asserts what holds between calls.
    pub(super) fn check(&self) {
        let leader = self.leader.as_ref();
        assert!(
            leader.is_none_or(|leader| self.members.contains_key(leader)),
            "the leader is a member"
        );
        let is_empty = self.members.is_empty();
        assert_eq!(leader.is_none(), is_empty, "members have a leader");
        assert!(
            self.state != ClassicGroupState::Empty || is_empty,
            "who is in it has it begin"
        );
        let (waited, all) = (self.pending_syncs.len(), self.members.len());
        assert!(waited <= all, "who is waited for is a member");
        if is_empty {
            assert_eq!(self.bytes, 0, "the sum of what members take");
            assert!(self.offered.is_empty(), "what members offer");
        }
        if self.pending_joins.is_empty() {
            assert_eq!(self.pending_bytes, 0, "the sum of what ids take");
        }
    }

    fn enter(&mut self, state: ClassicGroupState, now: ClockReading) {
        self.previous = self.state;
        self.state = state;
        self.note_state_since(Some(now.wall_ms), now);
    }
}

/// Returns the time `ms` milliseconds after `now`, and at least one millisecond after.
///
/// Clients and records may name zero or negative times, and a deadline that is already due when it
/// is set would never leave the timer.
fn after(now: ClockReading, ms: i32) -> Instant {
    now.at + Duration::from_millis(u64::try_from(ms).unwrap_or(0).max(1))
}

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;
