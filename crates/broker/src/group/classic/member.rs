//! A member of a classic group, and the protocols it offers; the members of a group, with the count of what they offer.

use std::collections::BTreeSet;

use bytes::Bytes;
use platform::clock::Instant;
use wire::protocol::StrBytes;

use crate::group::classic::{ClassicGroup, PENDING_BYTES, Token};

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

    /// The names of its protocols, each once.
    pub(super) fn offers(&self) -> BTreeSet<&StrBytes> {
        self.protocols.iter().map(|(name, _)| name).collect()
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

/// What a member takes beside what it says: places in maps.
pub(super) const BYTES: usize = 1024;

/// Bytes of a member.
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

/// Bytes of what a member and its client are called: up to 32 KiB each.
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

/// Bytes of what a member offers.
pub(super) fn bytes_of(protocols: &Protocols) -> usize {
    let each = protocols.iter();
    each.fold(0, |all: usize, (name, metadata)| {
        let own = name.len().saturating_add(metadata.len());
        all.saturating_add(own).saturating_add(64)
    })
}

impl ClassicGroup {
    /// Takes a member in; returns the one that was there under the id.
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

    /// Takes a member out.
    pub(super) fn strike(&mut self, id: &StrBytes) -> Option<Member> {
        let member = self.members.remove(id)?;
        self.withdraw(id, &member);
        Some(member)
    }

    /// A member offers something else from now on.
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

    /// An id was handed out, and is waited for.
    pub(super) fn await_joiner(&mut self, id: StrBytes, until: Instant) {
        let bytes = PENDING_BYTES.saturating_add(id.len());
        if self.pending_joins.insert(id, until).is_none() {
            self.pending_bytes = self.pending_bytes.saturating_add(bytes);
        }
    }

    /// An id is not waited for any more.
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

    /// Takes note of what the members have been assigned.
    pub(super) fn weigh_assignments(&mut self) {
        let assigned = self.members.values().map(|member| member.assignment.len());
        self.assigned_bytes = assigned.fold(0, usize::saturating_add);
    }

    /// True when every member offers the protocol.
    pub(super) fn is_offered_by_all(&self, name: &StrBytes) -> bool {
        let count = self.offered.get(name).copied().unwrap_or(0);
        assert!(
            count <= self.members.len(),
            "a member offers a protocol once"
        );
        count == self.members.len()
    }
}
