//! One classic group: a pure state machine over members, their protocols and their timeouts.
//!
//! States: `Empty` (no members) -> `PreparingRebalance` (members are joining; joins wait) ->
//! `CompletingRebalance` (a new generation has begun; syncs wait for the leader's assignment and
//! for the log) -> `Stable`. Any change of the members or of what they subscribe to leads back to
//! `PreparingRebalance`, and the last one to leave to `Empty`. A group that is gone (`Dead`) is not
//! kept at all.
//!
//! Invariants: the generation only grows; a generation has at most one assignment; every token that
//! was taken in is answered once; a join waits only in `PreparingRebalance` (save for a static
//! member that is being stored), a sync only in `CompletingRebalance`; the leader is a member. What
//! has to be written is an effect, and the machine goes on when it is told of the outcome
//! ([`ClassicGroup::stored`]). It reads no clock and arms no timer: `now` is an argument,
//! [`ClassicGroup::next_deadline`] says when [`ClassicGroup::expire`] has work.

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
pub use session::{Departed, Leaver};
pub use sync::{Sync, sync_refused};

use super::{Now, Since};
use rebalance::JoinTimer;
pub use record::Converted;
pub use replace::Replacement;

/// The protocol type of consumers.
pub(super) const CONSUMER: &str = "consumer";
/// A member that has never joined in full is dropped after this long, whatever its session timeout.
pub(super) const NEW_MEMBER_TIMEOUT: Duration = Duration::from_mins(5);
/// Static members that are away while nobody else has joined are looked for no more often than this.
pub(super) const ABSENCE_MIN: Duration = Duration::from_secs(1);
/// What an id that was handed out takes beside its text: its place in a map.
const PENDING_BYTES: usize = 512;
/// Ids handed out to members that have not yet come back with them, per group.
pub(super) const PENDING_MEMBERS_MAX: usize = 10_000;

const _: () = assert!(
    ABSENCE_MIN.as_millis() < NEW_MEMBER_TIMEOUT.as_millis(),
    "who is away is looked for before who is new is given up"
);

/// Where a group stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// No members.
    Empty,
    /// Members are joining.
    PreparingRebalance,
    /// Members wait for their assignment.
    CompletingRebalance,
    /// Members work.
    Stable,
}

impl State {
    /// The name that tools print.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
        }
    }
}

/// Stands for a request that waits for its answer.
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
    /// The same answer as a refusal.
    #[must_use]
    pub fn refused(self, error: ErrorCode) -> Self {
        match self {
            Self::Join(answer) => Self::Join(join_refused(answer.member_id, error)),
            Self::Sync(_) => Self::Sync(sync_refused(error)),
        }
    }
}

/// What an event leads to.
#[derive(Default, Debug)]
pub struct Effects {
    /// Answers.
    pub replies: Vec<(Token, Reply)>,
    /// What to append, in order.
    pub stores: Vec<Store>,
}

/// Group metadata to append, and what the machine is to be told of afterwards.
#[derive(Debug)]
pub struct Store {
    /// The record's value.
    pub metadata: GroupMetadataValue,
    /// What waits for it.
    pub then: Then,
}

/// What waits for an append.
#[derive(Debug)]
pub enum Then {
    /// A group that has just been created.
    Created,
    /// Nothing: the last member left.
    Emptied,
    /// Members that wait for their assignments.
    Assigned {
        /// The generation they are for.
        generation: i32,
        /// Assignment by member id.
        // Bounded: lives with one change of a group of at most `groups::weight::GROUP_BYTES_MAX`.
        assignments: BTreeMap<StrBytes, bytes::Bytes>,
    },
    /// A static member that came back under another member id.
    Replaced(Box<Replacement>),
}

/// Limits of a group.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long a new group waits for more members.
    pub initial_rebalance_delay: Duration,
    /// Members of a group.
    pub members_max: usize,
}

/// A classic group.
#[derive(Clone, Debug)]
pub struct ClassicGroup {
    limits: Limits,
    state: State,
    previous: State,
    /// Wall time of the last change of state; `None` before the first.
    state_since_ms: Option<i64>,
    /// The same time, for what is to happen a while after it.
    state_since: Option<Since>,
    generation: i32,
    protocol_type: Option<StrBytes>,
    protocol: Option<StrBytes>,
    /// Invariant: one of `members`.
    leader: Option<StrBytes>,
    /// Changed by [`ClassicGroup::enroll`], [`ClassicGroup::strike`] and [`ClassicGroup::reoffer`] only where
    /// protocols are concerned.
    // Bounded: `groups::weight::GROUP_BYTES_MAX`, and `group.max.size`.
    members: BTreeMap<StrBytes, Member>,
    /// Bytes of the members and of ids handed out, about.
    bytes: usize,
    /// Of the ids that were handed out.
    pending_bytes: usize,
    /// What the members were assigned last.
    assigned_bytes: usize,
    /// How many members offer each protocol: a join is compared with this and not with every member.
    // Bounded: `groups::weight::GROUP_BYTES_MAX`, as the members.
    offered: BTreeMap<StrBytes, usize>,
    /// Member id by instance id. Invariant: every id is one of `members`.
    // Bounded: `groups::weight::GROUP_BYTES_MAX`, as the members.
    statics: BTreeMap<StrBytes, StrBytes>,
    /// Ids handed out and when they lapse. Invariant: none is one of `members`.
    // Bounded: `PENDING_MEMBERS_MAX`, and `groups::weight::GROUP_BYTES_MAX` with what clients call themselves in them.
    pending_joins: BTreeMap<StrBytes, Instant>,
    /// Members of this generation that have not sent a sync. Invariant: every id is one of
    /// `members`.
    // Bounded: `groups::weight::GROUP_BYTES_MAX`, as the members.
    pending_syncs: BTreeSet<StrBytes>,
    /// True when someone joined since the initial rebalance was last put off.
    joined_meanwhile: bool,
    /// The generation whose assignment is on its way to the log.
    storing: Option<i32>,
    /// Topics of all members as of this generation; `None` when unknown.
    // Bounded: `groups::weight::GROUP_BYTES_MAX`, as what members offer.
    subscribed: Option<BTreeSet<String>>,
    join_timer: Option<JoinTimer>,
    sync_deadline: Option<Instant>,
}

impl ClassicGroup {
    /// A group without members or history.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            state: State::Empty,
            previous: State::Empty,
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

    /// Where it stands.
    pub fn state(&self) -> State {
        self.state
    }

    /// The generation.
    pub fn generation(&self) -> i32 {
        self.generation
    }

    /// The protocol type, empty before the first member.
    pub fn protocol_type(&self) -> StrBytes {
        self.protocol_type.clone().unwrap_or_default()
    }

    /// The protocol that the members agreed on.
    pub fn protocol(&self) -> Option<&StrBytes> {
        self.protocol.as_ref()
    }

    /// When the state last changed.
    pub(super) fn state_since(&self) -> Option<Since> {
        self.state_since
    }

    fn note_state_since(&mut self, wall_ms: Option<i64>, now: Now) {
        self.state_since_ms = wall_ms;
        self.state_since = wall_ms.map(|wall_ms| Since::of(wall_ms, now));
    }

    /// The members.
    pub fn members(&self) -> impl Iterator<Item = (&StrBytes, &Member)> {
        self.members.iter()
    }

    /// Bytes of what it keeps of its members, about.
    pub fn bytes(&self) -> usize {
        // Of the last generation: until the next there may be fewer.
        let assigned = if self.members.is_empty() {
            0
        } else {
            self.assigned_bytes
        };
        self.bytes
            .saturating_add(self.pending_bytes)
            .saturating_add(assigned)
    }

    /// By how much a join would make it larger.
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

    /// True when nobody is in it nor about to be.
    pub fn is_idle(&self) -> bool {
        self.state == State::Empty && self.pending_joins.is_empty()
    }

    /// True for groups of consumers.
    pub fn is_consumer(&self) -> bool {
        self.protocol_type
            .as_ref()
            .is_some_and(|kind| kind.as_str() == CONSUMER)
    }

    /// True when a protocol type is known.
    pub fn has_protocol_type(&self) -> bool {
        self.protocol_type.is_some()
    }

    /// True when the topics of the members are known.
    pub fn knows_subscriptions(&self) -> bool {
        self.subscribed.is_some()
    }

    /// True when a member reads `topic`, or may do so for all we know.
    pub fn is_subscribed_to(&self, topic: &str) -> bool {
        match &self.subscribed {
            Some(topics) => topics.contains(topic),
            None => self.is_consumer(),
        }
    }

    /// Checks that a request comes from a member and from the right one of its instance id.
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

    /// What holds between calls.
    pub(super) fn check(&self) {
        let leader = self.leader.as_ref();
        assert!(
            leader.is_none_or(|leader| self.members.contains_key(leader)),
            "the leader is a member"
        );
        let is_empty = self.members.is_empty();
        assert_eq!(leader.is_none(), is_empty, "members have a leader");
        assert!(
            self.state != State::Empty || is_empty,
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

    fn enter(&mut self, state: State, now: Now) {
        self.previous = self.state;
        self.state = state;
        self.note_state_since(Some(now.wall_ms), now);
    }
}

/// `ms` milliseconds after `now`, and never `now` itself: a time that a client or a record names may be
/// nothing or less, and a deadline that is due as soon as it is set would never leave the timer.
fn after(now: Now, ms: i32) -> Instant {
    now.at + Duration::from_millis(u64::try_from(ms).unwrap_or(0).max(1))
}

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;
