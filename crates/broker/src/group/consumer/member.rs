//! A member of a consumer group: its subscription, its current assignment and its progress.
//!
//! States of a member: `Stable` (it has every partition of its target that was free) -> `Unrevoked`
//! (it was told to give up partitions and has not confirmed) -> `Unreleased` (it waits for
//! partitions that other members still hold) or `Stable`. Epochs in requests: 0 joins, -1 leaves,
//! -2 is a static member that leaves and will rejoin.

use std::collections::{BTreeMap, BTreeSet};

use wire::protocol::StrBytes;
use wire::types::Uuid;

use crate::group::classic::Protocols;

/// Epoch in the request of a member that joins.
pub const JOIN: i32 = 0;
/// Epoch in the request of a member that leaves.
pub const LEAVE: i32 = -1;
/// Epoch in the request of a static member that leaves and will rejoin.
pub const LEAVE_STATIC: i32 = -2;

const _: () = assert!(
    LEAVE < JOIN && LEAVE_STATIC < JOIN,
    "who leaves has no epoch of the group"
);
const _: () = assert!(LEAVE != LEAVE_STATIC, "who will be back says so");

/// Partitions by topic, each with the epoch in which the member got it.
pub type Assignment = BTreeMap<Uuid, BTreeMap<i32, i32>>;

/// The data that a member sends about itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// The `group.instance.id` of a static member.
    pub instance_id: Option<StrBytes>,
    /// The member's rack.
    pub rack_id: Option<StrBytes>,
    /// Client id.
    pub client_id: StrBytes,
    /// Address, with a leading slash.
    pub client_host: StrBytes,
    /// Topics that it subscribes to by name.
    // Bounded: `groups::weight::GROUP_BYTES_MAX` for all members of a group.
    pub topics: BTreeSet<StrBytes>,
    /// The expression that it subscribes by; empty for none.
    pub regex: StrBytes,
    /// Rebalance timeout: how long the member may take to give up partitions.
    pub rebalance_timeout_ms: i32,
    /// The assignor it asks for.
    pub assignor: Option<StrBytes>,
    /// Set while the member has the classic protocol.
    pub classic: Option<ClassicSide>,
}

/// Data of a member with the classic protocol only.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassicSide {
    /// Session timeout.
    pub session_timeout_ms: i32,
    /// The protocols that it offers.
    pub protocols: Protocols,
}

impl Member {
    /// Returns the bytes of the member's data without the names of topics.
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

/// State of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberState {
    /// It has reached its target.
    Stable,
    /// It has to give up partitions first.
    Unrevoked,
    /// Partitions of its target are not free yet.
    Unreleased,
    /// A state that a later release wrote.
    Unknown,
}

impl MemberState {
    /// Returns the number in records.
    pub const fn code(self) -> i8 {
        match self {
            Self::Stable => 0,
            Self::Unrevoked => 1,
            Self::Unreleased => 2,
            Self::Unknown => 127,
        }
    }

    /// Returns the state with this number.
    pub const fn of(code: i8) -> Self {
        match code {
            0 => Self::Stable,
            1 => Self::Unrevoked,
            2 => Self::Unreleased,
            _ => Self::Unknown,
        }
    }
}

/// A member's epochs, state and current assignment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The member epoch.
    pub epoch: i32,
    /// The previous member epoch, which the member may still send if an answer was lost.
    pub previous_epoch: i32,
    /// State of the member.
    pub state: MemberState,
    /// Partitions that the member has.
    pub assigned: Assignment,
    /// Partitions that the member has to give up.
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
    /// Returns true when the member has reached the target of `epoch`.
    pub fn is_at(&self, epoch: i32) -> bool {
        self.state == MemberState::Stable && self.epoch == epoch
    }

    /// Returns the epoch in which it got a partition that it has or has to give up.
    pub fn held_since(&self, topic: Uuid, partition: i32) -> Option<i32> {
        let held = |all: &Assignment| all.get(&topic)?.get(&partition).copied();
        held(&self.assigned).or_else(|| held(&self.revoking))
    }

    /// Returns every partition that no other member may have.
    pub fn held(&self) -> impl Iterator<Item = (Uuid, i32)> {
        let all = self.assigned.iter().chain(&self.revoking);
        all.flat_map(|(topic, held)| held.keys().map(|partition| (*topic, *partition)))
    }

    /// Returns the progress in another epoch.
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
