//! A member of a classic group, and the protocols it offers.

use std::collections::BTreeSet;

use bytes::Bytes;
use platform::clock::Instant;
use wire::protocol::StrBytes;

use crate::group::classic::Token;

/// Protocols in the member's order of preference, each with its opaque metadata.
pub type Protocols = Vec<(StrBytes, Bytes)>;

/// A member.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Name of a static member.
    pub instance_id: Option<StrBytes>,
    /// Client id.
    pub client_id: StrBytes,
    /// Address, with a leading slash.
    pub client_host: StrBytes,
    /// How long it may take to join a rebalance.
    pub rebalance_timeout_ms: i32,
    /// How long it may be silent.
    pub session_timeout_ms: i32,
    /// What it offers.
    pub protocols: Protocols,
    /// What it was assigned.
    pub assignment: Bytes,
    /// True until its first rebalance completed: it can expire even while its join waits.
    pub(super) is_new: bool,
    pub(super) awaiting_join: Option<Token>,
    pub(super) awaiting_sync: Option<Token>,
    pub(super) session_deadline: Instant,
}

impl Member {
    /// Metadata it gave for a protocol, empty when it does not offer it.
    pub fn metadata(&self, protocol: &StrBytes) -> Bytes {
        let offered = self.protocols.iter().find(|(name, _)| name == protocol);
        offered
            .map(|(_, metadata)| metadata.clone())
            .unwrap_or_default()
    }

    pub(super) fn offers(&self, protocol: &StrBytes) -> bool {
        self.protocols.iter().any(|(name, _)| name == protocol)
    }

    /// The protocol it likes most of those that everybody offers.
    pub(super) fn vote(&self, candidates: &BTreeSet<&StrBytes>) -> Option<StrBytes> {
        let names = self.protocols.iter().map(|(name, _)| name);
        names
            .into_iter()
            .find(|name| candidates.contains(name))
            .cloned()
    }

    /// True when silence is no sign of death: a request of it waits here.
    pub(super) fn is_waiting(&self) -> bool {
        !self.is_new && (self.awaiting_join.is_some() || self.awaiting_sync.is_some())
    }
}
