//! What groups keep, in bytes, and what they may: about, because maps have places of their own, and never less than what
//! clients said. ADR 0021 has the bounds.
//!
//! A group is paid for by the address that made it, as far as that is known: a start forgets. An address may pay for half of what
//! groups may take.
//!
//! Invariant: the sum of all groups is what the groups say one by one ([`Groups::weigh`] follows every change).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use super::{Group, Groups, Position};
use crate::group::versioned::Versioned;

/// What the members of a group may take, with all that they say of themselves.
const GROUP_BYTES_MAX: usize = 32 << 20;
/// What a group takes beside members and offsets.
pub(in crate::group) const GROUP_BYTES: usize = 1024;
/// What an offset takes beside texts.
pub(in crate::group) const OFFSET_BYTES: usize = 256;

/// What the groups of each address take, on one shard.
#[derive(Default, Debug)]
pub(in crate::group) struct Shares {
    // Bounded: addresses that pay for a group, of which there are as many as `check_growth` lets in.
    by_host: RefCell<BTreeMap<StrBytes, usize>>,
}

/// What one group takes of an address's share; dropped, nothing.
#[derive(Debug)]
pub(super) struct Paid {
    shares: Rc<Shares>,
    host: StrBytes,
    bytes: usize,
}

impl Shares {
    pub(super) fn of(&self, host: &StrBytes) -> usize {
        self.by_host.borrow().get(host).copied().unwrap_or(0)
    }
}

impl Paid {
    fn set(&mut self, bytes: usize) {
        let before = std::mem::replace(&mut self.bytes, bytes);
        let mut by_host = self.shares.by_host.borrow_mut();
        let all = by_host.get(&self.host).copied().unwrap_or(0);
        let all = all.saturating_sub(before).saturating_add(bytes);
        if all == 0 {
            by_host.remove(&self.host);
        } else {
            by_host.insert(self.host.clone(), all);
        }
    }
}

impl Drop for Paid {
    fn drop(&mut self) {
        self.set(0);
    }
}

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

    /// Says who asks for what comes next: groups that it makes are paid for by this address.
    pub(crate) fn asked_by(&mut self, host: &StrBytes) {
        self.asker = Some(host.clone());
    }

    /// Whether the groups, and those of the address that pays for this one, may take so much more.
    pub(in crate::group) fn check_growth(
        &self,
        id: &StrBytes,
        growth: usize,
    ) -> Result<(), ErrorCode> {
        if growth == 0 {
            return Ok(());
        }
        let payer = match self.by_id.get(id) {
            Some(known) => known.paid.as_ref().map(|paid| &paid.host),
            None => self.asker.as_ref(),
        };
        let of_payer = payer.map_or(0, |host| self.shares.of(host));
        if payer.is_some() && of_payer.saturating_add(growth) > self.options.state_bytes_max / 2 {
            return Err(ErrorCode::CoordinatorLoadInProgress);
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
        let known = self.by_id.get(id);
        let members = known.map_or(0, |group| group.bytes().saturating_sub(group.offsets_bytes));
        let name = known.map_or(id.len(), |_| 0);
        let growth = if growth > 0 {
            growth.saturating_add(name)
        } else {
            0
        };
        if growth > 0 && members.saturating_add(growth) > GROUP_BYTES_MAX {
            return Err(ErrorCode::GroupMaxSizeReached);
        }
        self.check_growth(id, growth)
    }

    /// Takes the change of a group's size into the sum.
    pub(super) fn weigh(&mut self, id: &StrBytes) {
        if let Some(group) = self.by_id.get_mut(id) {
            // Its id is kept once, however many places have it: they share it.
            let bytes = group.bytes().saturating_add(id.len());
            let before = std::mem::replace(&mut group.counted, bytes);
            if let (0, Some(host)) = (before, &self.asker) {
                group.paid.get_or_insert_with(|| Paid {
                    shares: Rc::clone(&self.shares),
                    host: host.clone(),
                    bytes: 0,
                });
            }
            if let Some(paid) = &mut group.paid {
                paid.set(bytes);
            }
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
