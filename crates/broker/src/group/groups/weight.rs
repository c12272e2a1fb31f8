//! What groups keep, in bytes, and what they may: about, because maps have places of their own, and never less than what
//! clients said. ADR 0021 has the bounds.
//!
//! Invariant: the sum of all groups is what the groups say one by one ([`Groups::weigh`] follows every change).

use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use super::{Group, Groups, Position};
use crate::group::versioned::Versioned;

/// What the members of a group may take, with all that they say of themselves.
const GROUP_BYTES_MAX: usize = 32 << 20;
/// What a group takes beside members and offsets.
pub(super) const GROUP_BYTES: usize = 1024;
/// What an offset takes beside texts.
pub(in crate::group) const OFFSET_BYTES: usize = 256;

impl Group {
    /// Bytes of what it keeps, about.
    pub(super) fn bytes(&self) -> usize {
        let consumer = self
            .consumer
            .as_ref()
            .map_or(0, |consumer| consumer.bytes());
        let members = self.machine.bytes().saturating_add(consumer);
        members
            .saturating_add(self.offsets_bytes)
            .saturating_add(GROUP_BYTES)
    }
}

impl Groups {
    /// Bytes of what is kept, about: members and what they say, positions, what transactions have open.
    pub fn bytes(&self) -> usize {
        self.bytes.saturating_add(self.open.bytes())
    }

    /// Whether the groups may take so much more.
    pub(in crate::group) fn check_growth(&self, growth: usize) -> Result<(), ErrorCode> {
        if growth == 0 {
            return Ok(());
        }
        let all = self.bytes().saturating_add(self.bytes_elsewhere);
        if all.saturating_add(growth) > self.options.state_bytes_max {
            // For clients to try again: others go, offsets expire.
            return Err(ErrorCode::CoordinatorLoadInProgress);
        }
        Ok(())
    }

    /// Whether the members of a group may take so much more.
    pub(in crate::group) fn check_members(
        &self,
        id: &StrBytes,
        growth: usize,
    ) -> Result<(), ErrorCode> {
        let members = self
            .by_id
            .get(id)
            .map_or(0, |group| group.bytes().saturating_sub(group.offsets_bytes));
        if growth > 0 && members.saturating_add(growth) > GROUP_BYTES_MAX {
            return Err(ErrorCode::GroupMaxSizeReached);
        }
        self.check_growth(growth)
    }

    /// Takes the change of a group's size into the sum.
    pub(super) fn weigh(&mut self, id: &StrBytes) {
        if let Some(group) = self.by_id.get_mut(id) {
            let bytes = group.bytes();
            let before = std::mem::replace(&mut group.counted, bytes);
            self.bytes = self.bytes.saturating_sub(before).saturating_add(bytes);
        }
    }
}

/// What a committed offset takes, about.
pub(super) fn offset_bytes(topic: &StrBytes, offset: &Versioned<Position>) -> usize {
    offset.committed().map_or(0, |position| {
        let texts = topic.len().saturating_add(position.value.metadata.len());
        texts.saturating_add(OFFSET_BYTES)
    })
}
