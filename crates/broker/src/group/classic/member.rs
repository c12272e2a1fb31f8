//! A member of a classic group with the protocols that it offers, and the group's count of offered
//! protocols.

use std::collections::BTreeSet;

use bytes::Bytes;
use platform::clock::Instant;
use wire::protocol::StrBytes;

use crate::group::classic::{ClassicGroup, PENDING_BYTES, Token};

/// Protocols in the member's order of preference, each with opaque metadata.
pub type Protocols = Vec<(StrBytes, Bytes)>;

/// A member.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// The `group.instance.id` of a static member.
    pub instance_id: Option<StrBytes>,
    /// Client id.
    pub client_id: StrBytes,
    /// Address, with a leading slash.
    pub client_host: StrBytes,
    /// Rebalance timeout: how long the member may take to rejoin.
    pub rebalance_timeout_ms: i32,
    /// Session timeout.
    pub session_timeout_ms: i32,
    /// The protocols that it offers.
    pub protocols: Protocols,
    /// Its assignment.
    pub assignment: Bytes,
    /// True until its first rebalance completes; until then it can expire even while its join
    /// waits.
    pub(super) is_new: bool,
    pub(super) awaiting_join: Option<Token>,
    pub(super) awaiting_sync: Option<Token>,
    pub(super) session_deadline: Instant,
}

impl Member {
    /// Returns its metadata for a protocol, empty when it does not offer the protocol.
    pub fn metadata(&self, protocol: &StrBytes) -> Bytes {
        let offered = self.protocols.iter().find(|(name, _)| name == protocol);
        offered
            .map(|(_, metadata)| metadata.clone())
            .unwrap_or_default()
    }

    /// Returns the names of its protocols, each once.
    pub(super) fn offers(&self) -> BTreeSet<&StrBytes> {
        self.protocols.iter().map(|(name, _)| name).collect()
    }

    /// Returns its most preferred protocol among the candidates, which every member offers.
    pub(super) fn vote(&self, candidates: &BTreeSet<&StrBytes>) -> Option<StrBytes> {
        let names = self.protocols.iter().map(|(name, _)| name);
        names
            .into_iter()
            .find(|name| candidates.contains(name))
            .cloned()
    }

    /// Returns true when the session cannot expire because a request of the member waits here.
    pub(super) fn is_waiting(&self) -> bool {
        !self.is_new && (self.awaiting_join.is_some() || self.awaiting_sync.is_some())
    }
}

/// Bytes that a member takes beside its own texts and protocols: entries in maps.
pub(super) const BYTES: usize = 1024;

/// Returns the bytes of a member.
fn bytes_of_member(id: &StrBytes, member: &Member) -> usize {
    let texts = texts_of(
        id,
        &member.client_id,
        &member.client_host,
        member.instance_id.as_ref(),
    );
    BYTES
        .saturating_add(texts)
        .saturating_add(bytes_of(&member.protocols))
}

/// Returns the bytes of the ids and names of a member and its client, up to 32 KiB each.
pub(super) fn texts_of(
    id: &StrBytes,
    client_id: &StrBytes,
    client_host: &StrBytes,
    instance_id: Option<&StrBytes>,
) -> usize {
    id.len()
        .saturating_add(client_id.len())
        .saturating_add(client_host.len())
        .saturating_add(instance_id.map_or(0, |instance| instance.len()))
}

/// Returns the bytes of the protocols that a member offers.
pub(super) fn bytes_of(protocols: &Protocols) -> usize {
    let each = protocols.iter();
    each.fold(0, |all: usize, (name, metadata)| {
        let own = name.len().saturating_add(metadata.len());
        all.saturating_add(own).saturating_add(64)
    })
}

impl ClassicGroup {
    /// Adds a member and returns the previous member with this id.
    pub(super) fn enroll(&mut self, id: &StrBytes, member: Member) -> Option<Member> {
        for name in member.offers() {
            *self.offered.entry(name.clone()).or_default() += 1;
        }
        let bytes = bytes_of_member(id, &member);
        self.bytes = self.bytes.saturating_add(bytes);
        let before = self.members.insert(id.clone(), member);
        if let Some(before) = &before {
            self.withdraw(id, before);
        }
        before
    }

    /// Removes a member and returns it.
    pub(super) fn strike(&mut self, id: &StrBytes) -> Option<Member> {
        let member = self.members.remove(id)?;
        self.withdraw(id, &member);
        Some(member)
    }

    /// Replaces the protocols that a member offers.
    pub(super) fn reoffer(&mut self, id: &StrBytes, protocols: &Protocols) {
        let known = self.members.get(id);
        if known.is_none_or(|member| member.protocols == *protocols) {
            return;
        }
        if let Some(mut member) = self.strike(id) {
            member.protocols.clone_from(protocols);
            self.enroll(id, member);
        }
    }

    fn withdraw(&mut self, id: &StrBytes, member: &Member) {
        let bytes = bytes_of_member(id, member);
        assert!(self.bytes >= bytes, "a member is weighed as it comes");
        self.bytes = self.bytes.saturating_sub(bytes);
        for name in member.offers() {
            let Some(count) = self.offered.get_mut(name) else {
                unreachable!("what a member offers is counted");
            };
            assert!(*count > 0, "what nobody offers is forgotten");
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.offered.remove(name);
            }
        }
    }

    /// Notes that a member id was handed out, to be used before `until`.
    pub(super) fn await_joiner(&mut self, id: StrBytes, until: Instant) {
        let bytes = PENDING_BYTES.saturating_add(id.len());
        if self.pending_joins.insert(id, until).is_none() {
            self.pending_bytes = self.pending_bytes.saturating_add(bytes);
        }
    }

    /// Forgets a member id that was handed out.
    pub(super) fn stop_awaiting(&mut self, id: &StrBytes) {
        if self.pending_joins.remove(id).is_some() {
            let bytes = PENDING_BYTES.saturating_add(id.len());
            assert!(
                self.pending_bytes >= bytes,
                "an id is weighed as it is handed out"
            );
            self.pending_bytes = self.pending_bytes.saturating_sub(bytes);
        }
    }

    /// Updates the bytes of the members' assignments.
    pub(super) fn weigh_assignments(&mut self) {
        let assigned = self.members.values().map(|member| member.assignment.len());
        self.assigned_bytes = assigned.fold(0, usize::saturating_add);
    }

    /// Returns true when every member offers the protocol.
    pub(super) fn is_offered_by_all(&self, name: &StrBytes) -> bool {
        let count = self.offered.get(name).copied().unwrap_or(0);
        assert!(
            count <= self.members.len(),
            "a member offers a protocol once"
        );
        count == self.members.len()
    }
}
