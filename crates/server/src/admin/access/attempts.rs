//! Logins under way, by address: each has few of them at a time, so that one that guesses neither
//! takes the places of others nor the thread that verifies passwords.
//!
//! A login beyond these waits for nothing, so one of them is looked at in the time that a failure
//! takes: a client that is known passes, and a guess there is no faster than any other. Invariant:
//! however many connections an address has, its guesses within that time are [`OF_ADDRESS_MAX`]
//! and one.
//!
//! IPv6 addresses of one network count as one, as for Kafka's connections.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use broker::network::network;
use tokio::time::Instant;

/// Most logins of an address at a time.
const OF_ADDRESS_MAX: usize = 8;

/// The logins under way; clones share them.
#[derive(Clone, Default, Debug)]
pub(super) struct Attempts {
    // Bounded: `admin::CONNECTIONS_MAX`, each connection has one request.
    under_way: Arc<Mutex<BTreeMap<IpAddr, AddressLogins>>>,
}

/// The logins of an address.
#[derive(Default, Debug)]
struct AddressLogins {
    count: usize,
    /// No login beyond these is looked at before.
    shut_until: Option<Instant>,
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
        let logins = under_way.entry(address).or_default();
        if logins.count >= OF_ADDRESS_MAX {
            return None;
        }
        logins.count += 1;
        drop(under_way);
        Some(Attempt {
            all: self.clone(),
            address,
        })
    }

    /// Returns true if a login may be looked at for which [`begin`](Self::begin) had no place; no
    /// other of its address is before `until`.
    pub(super) fn looks_beyond(&self, address: IpAddr, now: Instant, until: Instant) -> bool {
        let mut under_way = self.under_way();
        let Some(logins) = under_way.get_mut(&network(address)) else {
            // The others have ended meanwhile, each after its time.
            return true;
        };
        let is_open = logins.shut_until.is_none_or(|shut| shut <= now);
        if is_open {
            logins.shut_until = Some(until);
        }
        is_open
    }

    fn under_way(&self) -> MutexGuard<'_, BTreeMap<IpAddr, AddressLogins>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let mut under_way = self.all.under_way();
        if let Some(logins) = under_way.get_mut(&self.address) {
            logins.count = logins.count.saturating_sub(1);
            if logins.count == 0 {
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

    #[test]
    fn one_login_beyond_them_is_looked_at_in_the_time_of_a_failure() {
        let (attempts, begin) = (Attempts::default(), Instant::now());
        let (one, other) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let after = |ms: u64| begin + std::time::Duration::from_millis(ms);
        let _held: Vec<_> = (0..OF_ADDRESS_MAX)
            .flat_map(|_| [attempts.begin(one), attempts.begin(other)])
            .collect();
        assert!(attempts.looks_beyond(one, begin, after(100)));
        assert!(!attempts.looks_beyond(one, after(99), after(199)));
        assert!(attempts.looks_beyond(other, after(99), after(199)));
        assert!(attempts.looks_beyond(one, after(100), after(200)));
        assert!(!attempts.looks_beyond(one, after(199), after(299)));
    }
}
