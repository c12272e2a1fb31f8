//! A member of a consumer group: what it says of itself, what it has, how far it has come.
//!
//! States of a member: `Stable` (it has what it is to have, as far as that was free) ->
//! `Unrevoked` (it has been told to give partitions up and has not confirmed) -> `Unreleased` (it
//! waits for partitions that somebody else still has) or `Stable`. Epochs: 0 joins, -1 leaves, -2 is
//! a static member that will be back.

use std::collections::{BTreeMap, BTreeSet};

use wire::protocol::StrBytes;
use wire::types::Uuid;

use crate::group::classic::Protocols;

/// Epoch of a member that joins.
pub const JOIN: i32 = 0;
/// Epoch of a member that leaves.
pub const LEAVE: i32 = -1;
/// Epoch of a static member that leaves and will be back.
pub const LEAVE_STATIC: i32 = -2;

const _: () = assert!(
    LEAVE < JOIN && LEAVE_STATIC < JOIN,
    "who leaves has no epoch of the group"
);
const _: () = assert!(LEAVE != LEAVE_STATIC, "who will be back says so");

/// Partitions by topic, each with the epoch in which the member got it.
pub type Assignment = BTreeMap<Uuid, BTreeMap<i32, i32>>;

/// What a member says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Name of a static member.
    pub instance_id: Option<StrBytes>,
    /// Its rack.
    pub rack_id: Option<StrBytes>,
    /// Client id.
    pub client_id: StrBytes,
    /// Address, with a leading slash.
    pub client_host: StrBytes,
    /// Topics that it subscribes to by name.
    // Bounded: `groups::weight::GROUP_BYTES_MAX` for all members of a group.
    pub topics: BTreeSet<StrBytes>,
    /// Topics that it subscribes to by regular expression; empty for none.
    pub regex: StrBytes,
    /// How long it may take to give partitions up.
    pub rebalance_timeout_ms: i32,
    /// The assignor it asks for.
    pub assignor: Option<StrBytes>,
    /// Set while it speaks the classic protocol.
    pub classic: Option<ClassicSide>,
}

/// What only a member with the classic protocol has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassicSide {
    /// How long it may be silent.
    pub session_timeout_ms: i32,
    /// What it offers.
    pub protocols: Protocols,
}

impl Member {
    /// Bytes of what it says of itself, beside the names of topics.
    pub fn size(&self) -> usize {
        let maybe = |text: &Option<StrBytes>| text.as_ref().map_or(0, |text| text.len());
        let offered = self.classic.iter().flat_map(|side| &side.protocols);
        let offered = offered.fold(0_usize, |all, (name, metadata)| {
            all.saturating_add(name.len())
                .saturating_add(metadata.len())
        });
        [
            maybe(&self.instance_id),
            maybe(&self.rack_id),
            maybe(&self.assignor),
            self.client_id.len(),
            self.client_host.len(),
            self.regex.len(),
        ]
        .into_iter()
        .fold(offered, usize::saturating_add)
    }
}

impl Default for Member {
    fn default() -> Self {
        Self {
            instance_id: None,
            rack_id: None,
            client_id: StrBytes::default(),
            client_host: StrBytes::default(),
            topics: BTreeSet::new(),
            regex: StrBytes::default(),
            rebalance_timeout_ms: -1,
            assignor: None,
            classic: None,
        }
    }
}

/// Where a member stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberState {
    /// It has what it is to have.
    Stable,
    /// It has to give partitions up first.
    Unrevoked,
    /// Partitions that it is to have are not free yet.
    Unreleased,
    /// Written by a later release.
    Unknown,
}

impl MemberState {
    /// The number in records.
    pub const fn code(self) -> i8 {
        match self {
            Self::Stable => 0,
            Self::Unrevoked => 1,
            Self::Unreleased => 2,
            Self::Unknown => 127,
        }
    }

    /// The state of that number.
    pub const fn of(code: i8) -> Self {
        match code {
            0 => Self::Stable,
            1 => Self::Unrevoked,
            2 => Self::Unreleased,
            _ => Self::Unknown,
        }
    }
}

/// What a member has, and how far it has come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Its epoch.
    pub epoch: i32,
    /// Its epoch before, which it may still send when an answer was lost.
    pub previous_epoch: i32,
    /// Where it stands.
    pub state: MemberState,
    /// What it has.
    pub assigned: Assignment,
    /// What it has to give up.
    pub revoking: Assignment,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            epoch: JOIN,
            previous_epoch: -1,
            state: MemberState::Stable,
            assigned: Assignment::new(),
            revoking: Assignment::new(),
        }
    }
}

impl Progress {
    /// True when it has arrived at the target of `epoch`.
    pub fn is_at(&self, epoch: i32) -> bool {
        self.state == MemberState::Stable && self.epoch == epoch
    }

    /// The epoch in which it got a partition that it still has or has to give up.
    pub fn held_since(&self, topic: Uuid, partition: i32) -> Option<i32> {
        let held = |all: &Assignment| all.get(&topic)?.get(&partition).copied();
        held(&self.assigned).or_else(|| held(&self.revoking))
    }

    /// Everything that nobody else may have.
    pub fn held(&self) -> impl Iterator<Item = (Uuid, i32)> {
        let all = self.assigned.iter().chain(&self.revoking);
        all.flat_map(|(topic, held)| held.keys().map(|partition| (*topic, *partition)))
    }

    /// The same in another epoch.
    pub(super) fn moved_to(&self, epoch: i32, state: MemberState, assigned: Assignment) -> Self {
        Self {
            epoch,
            previous_epoch: self.epoch,
            state,
            assigned,
            revoking: Assignment::new(),
        }
    }
}
