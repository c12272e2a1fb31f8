//! The bytes that groups take, and their bounds (ADR 0021). Bytes are approximate because maps have
//! overhead, but never less than the clients sent.
//!
//! The address that created a group pays for it, as far as that is known: a restart forgets it. An
//! address may pay for half of the bound (`state_bytes_max`). Beyond the bound there is another
//! quarter of it, in which every address has a share whatever the others take, so that a few
//! addresses cannot keep another one from having a group. The first address to need it may have
//! half of that quarter, the second a sixth, the one in place n the part 1 / n(n + 1): all parts
//! together are the quarter, so the next address always has a part. An address that has used up its
//! half does not keep others from a group that it created: the address that makes the group grow
//! then pays for it. An IPv6 address counts as its network.
//!
//! Invariant: the sum over all groups is the sum of their own counts ([`Groups::weigh`] follows
//! every change).

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use super::{Group, Groups, Position};
use crate::group::versioned::VersionedValue;
use crate::network::network_of_host;

/// Most bytes of the members of a group, with all their data.
const GROUP_BYTES_MAX: usize = 32 << 20;
/// Bytes that a group takes beside its members and offsets: what half a million groups without
/// members made a process grow by, with what its allocator wastes (2.3 KB before the cache of their
/// log is taken off).
pub(in crate::group) const GROUP_BYTES: usize = 2048;
/// Bytes that an offset takes beside its texts.
pub(in crate::group) const OFFSET_BYTES: usize = 256;

const _: () = assert!(
    GROUP_BYTES + OFFSET_BYTES < GROUP_BYTES_MAX,
    "a group may have members"
);

/// The bytes that each address pays for, on one shard.
#[derive(Default, Debug)]
pub(in crate::group) struct Shares {
    // Bounded: addresses that pay for a group, whose number `check_growth` limits.
    by_host: RefCell<BTreeMap<StrBytes, usize>>,
    /// The places, from 1, of the addresses that came when the bound was reached.
    // Bounded: addresses that pay for a group, whose number `check_growth` limits.
    late: RefCell<BTreeMap<StrBytes, usize>>,
}

/// The bytes of one group that an address pays for; dropping it pays them back.
#[derive(Debug)]
pub(super) struct PaidBytes {
    shares: Rc<Shares>,
    host: StrBytes,
    bytes: usize,
}

impl Shares {
    pub(super) fn of(&self, host: &StrBytes) -> usize {
        self.by_host.borrow().get(host).copied().unwrap_or(0)
    }

    /// Returns the place of an address among those that came when the bound was reached.
    ///
    /// An address without one gets the first free place.
    fn place(&self, host: &StrBytes) -> usize {
        let mut late = self.late.borrow_mut();
        if let Some(place) = late.get(host) {
            return *place;
        }
        let by_host = self.by_host.borrow();
        late.retain(|host, _| by_host.contains_key(host));
        let taken: BTreeSet<usize> = late.values().copied().collect();
        // One more place than are taken: at least one of them is free.
        let next = taken.len().saturating_add(1);
        (1..=next)
            .find(|place| !taken.contains(place))
            .unwrap_or(next)
    }

    fn take_place(&self, host: &StrBytes, place: usize) {
        self.late.borrow_mut().insert(host.clone(), place);
    }

    /// Frees all places, because the groups are within the bound again.
    fn free_places(&self) {
        self.late.borrow_mut().clear();
    }

    /// Returns true when `growth` more bytes exceed the address's share.
    fn is_over(&self, host: &StrBytes, growth: usize, share: usize) -> bool {
        self.of(host).saturating_add(growth) > share
    }
}

impl PaidBytes {
    /// Makes another address pay from now on.
    fn give_to(&mut self, host: &StrBytes) {
        let bytes = self.bytes;
        self.set(0);
        self.host = host.clone();
        self.set(bytes);
    }

    fn set(&mut self, bytes: usize) {
        let before = std::mem::replace(&mut self.bytes, bytes);
        let mut by_host = self.shares.by_host.borrow_mut();
        let all = by_host.get(&self.host).copied().unwrap_or(0);
        assert!(all >= before, "the sum of what its groups take");
        let all = all.saturating_sub(before).saturating_add(bytes);
        if all == 0 {
            by_host.remove(&self.host);
        } else {
            by_host.insert(self.host.clone(), all);
        }
    }
}

impl Drop for PaidBytes {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl Group {
    /// Returns the approximate bytes of the group.
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
    /// Returns the approximate bytes of all groups: members, offsets, and records of open
    /// transactions.
    pub fn bytes(&self) -> usize {
        self.bytes.saturating_add(self.open.bytes())
    }

    /// Sets the address whose request is decided next: it pays for the groups that the request
    /// creates.
    pub(crate) fn asked_by(&mut self, host: &StrBytes) {
        self.asker = Some(network_of_host(host));
    }

    /// Returns how many bytes one address may pay for.
    fn share(&self) -> usize {
        self.options.state_bytes_max / 2
    }

    /// Returns whether the bytes of an address stay within its part of the last quarter; if so, the
    /// address takes its place.
    fn is_fair(&self, host: &StrBytes, growth: usize) -> bool {
        let place = self.shares.place(host);
        let parts = place.saturating_mul(place.saturating_add(1));
        let fair = (self.options.state_bytes_max / 4).checked_div(parts);
        let is_fair = fair.is_some_and(|fair| !self.shares.is_over(host, growth, fair));
        if is_fair {
            self.shares.take_place(host, place);
        }
        is_fair
    }

    /// Checks that all groups, and those of the address that pays for this one, may grow by
    /// `growth` bytes.
    pub(in crate::group) fn check_growth(
        &self,
        id: &StrBytes,
        growth: usize,
    ) -> Result<(), ErrorCode> {
        if growth == 0 {
            return Ok(());
        }
        let known = self.by_id.get(id);
        let payer = match known {
            Some(known) => known.paid.as_ref().map(|paid| &paid.host),
            None => self.asker.as_ref(),
        };
        let taken = known.map_or(0, |known| known.counted);
        let taker = self.asker.as_ref().filter(|asker| payer != Some(asker));
        let may = |host: &StrBytes, growth| !self.shares.is_over(host, growth, self.share());
        let pays = payer.is_none_or(|payer| may(payer, growth));
        let takes = || taker.is_some_and(|taker| may(taker, taken.saturating_add(growth)));
        if !pays && !takes() {
            return Err(ErrorCode::CoordinatorLoadInProgress);
        }
        let all = self.bytes().saturating_add(self.bytes_elsewhere);
        let all = all.saturating_add(growth);
        if all <= self.options.state_bytes_max {
            self.shares.free_places();
        }
        // All addresses together have at most the last quarter; a group without a payer has no part
        // in it.
        let end = self.options.state_bytes_max;
        let end = end.saturating_add(end / 4);
        if all > end
            || all > self.options.state_bytes_max
                && !payer.is_some_and(|payer| self.is_fair(payer, growth))
        {
            // An error to retry: other groups are removed and offsets expire.
            return Err(ErrorCode::CoordinatorLoadInProgress);
        }
        Ok(())
    }

    /// Checks that the members of a group may grow by `growth` bytes.
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

    /// Updates the sum after a change of a group's size.
    pub(super) fn weigh(&mut self, id: &StrBytes) {
        let share = self.share();
        if let Some(group) = self.by_id.get_mut(id) {
            // The id counts once, because all copies share their bytes.
            let bytes = group.bytes().saturating_add(id.len());
            let before = std::mem::replace(&mut group.counted, bytes);
            if let (0, Some(host)) = (before, &self.asker) {
                group.paid.get_or_insert_with(|| PaidBytes {
                    shares: Rc::clone(&self.shares),
                    host: host.clone(),
                    bytes: 0,
                });
            }
            if let (Some(paid), Some(asker)) = (&mut group.paid, &self.asker)
                && paid.host != *asker
                && bytes > before
                && self.shares.is_over(&paid.host, bytes - before, share)
            {
                paid.give_to(asker);
            }
            if let Some(paid) = &mut group.paid {
                paid.set(bytes);
            }
            assert!(self.bytes >= before, "the sum of what groups take");
            self.bytes = self.bytes.saturating_sub(before).saturating_add(bytes);
        }
    }
}

/// Returns the approximate bytes of a committed offset.
pub(super) fn offset_bytes(topic: &StrBytes, offset: &VersionedValue<Position>) -> usize {
    offset.committed().map_or(0, |position| {
        let texts = topic.len().saturating_add(position.value.metadata.len());
        texts.saturating_add(OFFSET_BYTES)
    })
}
