//! The bytes of transactional ids that each address pays for, so that no address can take all of
//! them.
//!
//! The address whose request made an id pays for it and for the partitions of its transaction,
//! until the id expires or the broker stops: no address pays for what a start has read. An address
//! may pay for half of what ids may take together, on each shard. An IPv6 address counts as its
//! network. Not here: the bytes of an id, and the bound on all ids (`weight.rs`).
//!
//! Invariant: what an address pays for is the sum over its ids, because [`PaidBytes`] pay
//! themselves back.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;

use wire::types::ErrorCode;

use crate::network::network;

/// The bytes that each network pays for, on one shard.
#[derive(Default, Debug)]
pub(super) struct Payers {
    // Bounded: networks that pay for an id, whose bytes `weight::check_growth` limits.
    by_network: RefCell<BTreeMap<IpAddr, usize>>,
}

/// The bytes of one id that a network pays for; dropping it pays them back.
#[derive(Debug)]
pub(super) struct PaidBytes {
    payers: Rc<Payers>,
    network: IpAddr,
    bytes: usize,
}

impl Payers {
    fn of(&self, network: IpAddr) -> usize {
        let by_network = self.by_network.borrow();
        by_network.get(&network).copied().unwrap_or(0)
    }

    /// Checks that the ids of an address may grow by `growth`, where all may have `bytes_max`.
    ///
    /// The error makes clients retry: transactions end, and ids expire.
    pub(super) fn check_growth(
        &self,
        payer: IpAddr,
        growth: usize,
        bytes_max: usize,
    ) -> Result<(), ErrorCode> {
        let paid = self.of(network(payer));
        if growth > 0 && paid.saturating_add(growth) > bytes_max / 2 {
            return Err(ErrorCode::CoordinatorLoadInProgress);
        }
        Ok(())
    }

    /// Has an address pay for an id, of no bytes yet.
    pub(super) fn pay(self: &Rc<Self>, payer: IpAddr) -> PaidBytes {
        PaidBytes {
            payers: Rc::clone(self),
            network: network(payer),
            bytes: 0,
        }
    }
}

impl PaidBytes {
    /// Returns an address of the network that pays.
    pub(super) fn payer(&self) -> IpAddr {
        self.network
    }

    pub(super) fn set(&mut self, bytes: usize) {
        let before = std::mem::replace(&mut self.bytes, bytes);
        let mut by_network = self.payers.by_network.borrow_mut();
        let all = by_network.get(&self.network).copied().unwrap_or(0);
        assert!(all >= before, "the sum of what its ids take");
        let all = all.saturating_sub(before).saturating_add(bytes);
        if all == 0 {
            by_network.remove(&self.network);
        } else {
            by_network.insert(self.network, all);
        }
    }
}

impl Drop for PaidBytes {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_pays_for_half_and_has_it_back_when_its_ids_are_gone() {
        let payers = Rc::new(Payers::default());
        let (one, other) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let mut first = payers.pay(one);
        first.set(300);
        let mut second = payers.pay(one);
        second.set(200);
        let full = Err(ErrorCode::CoordinatorLoadInProgress);
        assert_eq!(payers.check_growth(one, 1, 1000), full);
        assert_eq!(payers.check_growth(one, 0, 100), Ok(()));
        assert_eq!(payers.check_growth(other, 500, 1000), Ok(()));
        first.set(299);
        assert_eq!(payers.check_growth(one, 1, 1000), Ok(()));
        drop(second);
        assert_eq!(payers.of(one), 299);
        drop(first);
        assert!(payers.by_network.borrow().is_empty());
    }
}
