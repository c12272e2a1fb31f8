//! Tracks how much of a bounded resource each client holds, and which client gives way at the
//! bound: of the address that holds the most, the client that was silent for longest.
//!
//! So one address cannot displace the clients of others, however many clients it invents. IPv6
//! clients are grouped by network (64 bits), which is what one host gets. Every operation takes
//! time logarithmic in the number of clients.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use wire::types::Uuid;

/// The address or network that is charged for a client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Holder(u64);

impl Holder {
    /// Returns the address, or its network.
    pub(crate) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(u64::from(address.to_bits())),
            // A prefix that begins with 32 zero bits would collide with an IPv4 address. Only
            // loopback does among the networks in use, and its value, 0, is not the address of an
            // IPv4 client.
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                let bits = [a, b, c, d].into_iter();
                Self(bits.fold(0, |bits, part| bits << 16 | u64::from(part)))
            }
        }
    }
}

struct Entry {
    holder: Holder,
    heard: u64,
    amount: usize,
}

/// What the clients hold.
#[derive(Default)]
pub(crate) struct Ledger {
    // Bounded: by the owner, `telemetry::INSTANCES_MAX` and `telemetry::received::SERIES_MAX`.
    clients: HashMap<Uuid, Entry>,
    /// The clients of each holder, the one that was silent for longest first.
    // Bounded: one for each client, `telemetry::INSTANCES_MAX`.
    order: BTreeMap<(Holder, u64), Uuid>,
    // Bounded: no more than clients, `telemetry::INSTANCES_MAX`.
    held: HashMap<Holder, usize>,
    /// The holders by the amount that they hold.
    // Bounded: no more than clients, `telemetry::INSTANCES_MAX`.
    ranked: BTreeSet<(usize, Holder)>,
    total: usize,
    heard: u64,
}

impl Ledger {
    /// Records that a client was heard, and holds `more` in addition. The first call sets its
    /// holder.
    pub(crate) fn heard(&mut self, id: Uuid, holder: Holder, more: usize) {
        self.heard = self.heard.saturating_add(1);
        let entry = self.clients.entry(id).or_insert(Entry {
            holder,
            heard: 0,
            amount: 0,
        });
        self.order.remove(&(entry.holder, entry.heard));
        entry.heard = self.heard;
        entry.amount = entry.amount.saturating_add(more);
        let holder = entry.holder;
        let taken = self.order.insert((holder, self.heard), id);
        assert!(taken.is_none(), "a place in the order is one client's");
        assert_eq!(
            self.order.len(),
            self.clients.len(),
            "each client has one place"
        );
        self.total = self.total.saturating_add(more);
        self.set_held(holder, self.held_by(holder).saturating_add(more));
    }

    /// Removes a client, and frees what it held.
    pub(crate) fn remove(&mut self, id: Uuid) {
        let Some(entry) = self.clients.remove(&id) else {
            return;
        };
        self.order.remove(&(entry.holder, entry.heard));
        assert!(self.total >= entry.amount, "the sum of what clients hold");
        self.total = self.total.saturating_sub(entry.amount);
        let held = self.held_by(entry.holder);
        assert!(held >= entry.amount, "the sum of what its clients hold");
        self.set_held(entry.holder, held.saturating_sub(entry.amount));
    }

    /// Returns the total amount.
    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// Returns the amount of one client.
    pub(crate) fn held_by_client(&self, id: Uuid) -> usize {
        self.clients.get(&id).map_or(0, |entry| entry.amount)
    }

    /// Returns the number of clients that hold something.
    pub(crate) fn len(&self) -> usize {
        self.clients.len()
    }

    /// Returns the client that gives way to any other.
    pub(crate) fn first_to_go(&self) -> Option<Uuid> {
        let (_, holder) = self.ranked.last()?;
        self.oldest_of(*holder)
    }

    /// Returns the client that gives way to another of `holder` that wants `more`; `None` if no
    /// holder has enough more.
    ///
    /// After that, the holder that gave way still has at least as much as the other, so it cannot
    /// claim its place back, and the two do not alternate.
    pub(crate) fn gives_way_to(&self, holder: Holder, more: usize) -> Option<Uuid> {
        let (held, richest) = self.ranked.last()?;
        let id = self.oldest_of(*richest)?;
        let left = held.saturating_sub(self.held_by_client(id));
        let wanted = self.held_by(holder).saturating_add(more);
        (*richest != holder && left >= wanted).then_some(id)
    }

    fn oldest_of(&self, holder: Holder) -> Option<Uuid> {
        let mut clients = self.order.range((holder, 0)..=(holder, u64::MAX));
        clients.next().map(|(_, id)| *id)
    }

    fn held_by(&self, holder: Holder) -> usize {
        self.held.get(&holder).copied().unwrap_or(0)
    }

    fn set_held(&mut self, holder: Holder, now: usize) {
        self.ranked.remove(&(self.held_by(holder), holder));
        if now == 0 {
            self.held.remove(&holder);
        } else {
            self.held.insert(holder, now);
            self.ranked.insert((now, holder));
        }
        assert_eq!(
            self.held.len(),
            self.ranked.len(),
            "each holder has one rank"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    fn holder(last: u8) -> Holder {
        Holder::of(Ipv4Addr::new(10, 0, 0, last).into())
    }

    fn id(number: u128) -> Uuid {
        Uuid::from_u128(number)
    }

    #[test]
    fn the_silent_of_the_richest_goes_first() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.first_to_go(), None);
        for number in 0..5 {
            ledger.heard(id(number), holder(1), 1);
        }
        ledger.heard(id(9), holder(2), 1);
        ledger.heard(id(0), holder(1), 0);
        assert_eq!((ledger.total(), ledger.len()), (6, 6));
        assert_eq!(ledger.first_to_go(), Some(id(1)));
        ledger.remove(id(1));
        ledger.remove(id(1));
        assert_eq!(ledger.first_to_go(), Some(id(2)));
        for number in [0, 2, 3, 4] {
            ledger.remove(id(number));
        }
        assert_eq!(ledger.first_to_go(), Some(id(9)));
        ledger.remove(id(9));
        assert_eq!(ledger.total(), 0);
        assert!(ledger.held.is_empty() && ledger.ranked.is_empty() && ledger.order.is_empty());
    }

    #[test]
    fn who_holds_no_less_takes_nothing_from_others() {
        let mut ledger = Ledger::default();
        ledger.heard(id(0), holder(1), 10);
        ledger.heard(id(1), holder(1), 10);
        assert_eq!(ledger.gives_way_to(holder(1), 1), None);
        assert_eq!(ledger.gives_way_to(holder(2), 10), Some(id(0)));
        assert_eq!(ledger.gives_way_to(holder(2), 11), None);
        ledger.heard(id(2), holder(2), 5);
        assert_eq!(ledger.gives_way_to(holder(2), 5), Some(id(0)));
        assert_eq!(ledger.gives_way_to(holder(2), 6), None);
    }

    #[test]
    fn an_ipv6_network_is_one_holder() {
        let one = Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 1);
        let same = Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 9, 9, 9, 9);
        let other = Ipv6Addr::new(0x2001, 0xdb8, 0, 2, 0, 0, 0, 1);
        assert_eq!(Holder::of(one.into()), Holder::of(same.into()));
        assert_ne!(Holder::of(one.into()), Holder::of(other.into()));
        let mapped = Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped();
        assert_eq!(Holder::of(mapped.into()), holder(1));
    }
}
