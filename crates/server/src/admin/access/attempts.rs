//! Logins under way, by address: each has few of them at a time, so that one that guesses neither
//! takes the places of others nor the thread that verifies passwords.
//!
//! IPv6 addresses of one network count as one, as for Kafka's connections.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use broker::network::network;

/// Most logins of an address at a time.
const OF_ADDRESS_MAX: usize = 8;

/// The logins under way; clones share them.
#[derive(Clone, Default, Debug)]
pub(super) struct Attempts {
    // Bounded: `admin::CONNECTIONS_MAX`, each connection has one request.
    under_way: Arc<Mutex<BTreeMap<IpAddr, usize>>>,
}

/// A login under way, until this is dropped.
#[derive(Debug)]
pub(super) struct Attempt {
    all: Attempts,
    address: IpAddr,
}

impl Attempts {
    /// Counts a login; `None` if the address has too many already.
    pub(super) fn begin(&self, address: IpAddr) -> Option<Attempt> {
        let address = network(address);
        let mut under_way = self.under_way();
        let count = under_way.entry(address).or_default();
        if *count >= OF_ADDRESS_MAX {
            return None;
        }
        *count += 1;
        drop(under_way);
        Some(Attempt {
            all: self.clone(),
            address,
        })
    }

    fn under_way(&self) -> MutexGuard<'_, BTreeMap<IpAddr, usize>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let mut under_way = self.all.under_way();
        if let Some(count) = under_way.get_mut(&self.address) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                under_way.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_some_at_a_time_and_others_have_their_own() {
        let attempts = Attempts::default();
        let (one, other) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let mut held: Vec<_> = (0..OF_ADDRESS_MAX).map(|_| attempts.begin(one)).collect();
        assert!(held.iter().all(Option::is_some));
        assert!(attempts.begin(one).is_none());
        assert!(attempts.begin(other).is_some());
        held.pop();
        assert!(attempts.begin(one).is_some());
        drop(held);
        assert!(attempts.under_way().is_empty());
    }
}
