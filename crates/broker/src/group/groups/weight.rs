//! What groups keep, in bytes, and what they may: about, because maps have places of their own, and never less than what
//! clients said. ADR 0021 has the bounds.
//!
//! A group is paid for by the address that made it, as far as that is known: a start forgets. An address may pay for half of what
//! groups may take, and has a share of a quarter more of it whatever the others take: a few must not keep anybody else from a
//! group. Of that quarter the first that comes may have a half, the second a sixth, the one in place n the part 1 / n(n + 1): the
//! sum of them all is the quarter, so there is something left for the next. One that has used its half up does not keep others
//! from a group that it made: who makes it grow pays for it then. An address of version 6 is the network that it is in.
//!
//! Invariant: the sum of all groups is what the groups say one by one ([`Groups::weigh`] follows every change).

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use super::{Group, Groups, Position};
use crate::group::versioned::Versioned;
use crate::network::network_of_host;

/// What the members of a group may take, with all that they say of themselves.
const GROUP_BYTES_MAX: usize = 32 << 20;
/// What a group takes beside members and offsets.
pub(in crate::group) const GROUP_BYTES: usize = 1024;
/// What an offset takes beside texts.
pub(in crate::group) const OFFSET_BYTES: usize = 256;

const _: () = assert!(
    GROUP_BYTES + OFFSET_BYTES < GROUP_BYTES_MAX,
    "a group may have members"
);

/// What the groups of each address take, on one shard.
#[derive(Default, Debug)]
pub(in crate::group) struct Shares {
    // Bounded: addresses that pay for a group, of which there are as many as `check_growth` lets in.
    by_host: RefCell<BTreeMap<StrBytes, usize>>,
    /// The places of those that came when all was taken, from 1.
    // Bounded: addresses that pay for a group, of which there are as many as `check_growth` lets in.
    late: RefCell<BTreeMap<StrBytes, usize>>,
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

    /// The place of an address among those that came when all was taken: the first that is free, for one that has none yet.
    fn place(&self, host: &StrBytes) -> usize {
        let mut late = self.late.borrow_mut();
        if let Some(place) = late.get(host) {
            return *place;
        }
        let by_host = self.by_host.borrow();
        late.retain(|host, _| by_host.contains_key(host));
        let taken: BTreeSet<usize> = late.values().copied().collect();
        // Of so many places one is free.
        let next = taken.len().saturating_add(1);
        (1..=next)
            .find(|place| !taken.contains(place))
            .unwrap_or(next)
    }

    fn take_place(&self, host: &StrBytes, place: usize) {
        self.late.borrow_mut().insert(host.clone(), place);
    }

    /// There is room for all again.
    fn free_places(&self) {
        self.late.borrow_mut().clear();
    }

    /// True when so much more is beyond an address's share.
    fn is_over(&self, host: &StrBytes, growth: usize, share: usize) -> bool {
        self.of(host).saturating_add(growth) > share
    }
}

impl Paid {
    /// Another address pays from now on.
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
        self.asker = Some(network_of_host(host));
    }

    /// What the groups of one address may take.
    fn share(&self) -> usize {
        self.options.state_bytes_max / 2
    }

    /// Whether an address has no more than its share of what is kept for who comes when all is taken; then its place is its own.
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

    /// Whether the groups, and those of the address that pays for this one, may take so much more.
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
        // However many come: together they have no more than a quarter. A group that has nobody to pay for it is not theirs.
        let end = self.options.state_bytes_max;
        let end = end.saturating_add(end / 4);
        if all > end
            || all > self.options.state_bytes_max
                && !payer.is_some_and(|payer| self.is_fair(payer, growth))
        {
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
        let share = self.share();
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

/// What a committed offset takes, about.
pub(super) fn offset_bytes(topic: &StrBytes, offset: &Versioned<Position>) -> usize {
    offset.committed().map_or(0, |position| {
        let texts = topic.len().saturating_add(position.value.metadata.len());
        texts.saturating_add(OFFSET_BYTES)
    })
}
