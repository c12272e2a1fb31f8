//! Connections whose clients have not logged in yet: a number at a time, of all listeners together
//! and of each.
//!
//! Beyond the bound, the oldest connection of the address with the most ends (with IPv6, of the
//! network with the most). So a client that holds connections and does not log in loses them first,
//! and does not keep out a client that logs in, which takes a moment.
//!
//! Invariant: each is in `by_age` and in `by_address`, once. Pure but for telling those that end.
//! Not here: the values of the bounds, and which clients have to log in.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use broker::network::network;
use tokio::sync::oneshot;

/// How many there may be, at least one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Of all listeners.
    pub(super) all: usize,
    /// Of the listener of the one that comes.
    pub(super) listener: usize,
}

/// Those of one address at one listener.
type Origin = (Arc<str>, IpAddr);

/// The connections, each with the number in which it came.
#[derive(Default, Debug)]
pub(super) struct Strangers {
    came: u64,
    // Bounded: `max.connections.unauthenticated`.
    by_age: BTreeMap<u64, Stranger>,
    // Bounded: `max.connections.unauthenticated`.
    by_address: HashMap<Origin, BTreeSet<u64>>,
}

#[derive(Debug)]
struct Stranger {
    origin: Origin,
    /// Dropping this tells the connection to end.
    _stays: oneshot::Sender<()>,
}

impl Strangers {
    /// Adds a connection; another may have to end. Returns its number, and what completes when it
    /// has to end itself.
    pub(super) fn come(
        &mut self,
        listener: &Arc<str>,
        address: IpAddr,
        bounds: Bounds,
    ) -> (u64, oneshot::Receiver<()>) {
        let number = self.came;
        self.came = self.came.saturating_add(1);
        let origin = (Arc::clone(listener), network(address));
        let (stays, told) = oneshot::channel();
        let of_address = self.by_address.entry(origin.clone()).or_default();
        of_address.insert(number);
        let stranger = Stranger {
            origin,
            _stays: stays,
        };
        self.by_age.insert(number, stranger);
        let here = |origin: &Origin| origin.0 == *listener;
        // More than one if the bounds have changed.
        while self.count(here) > bounds.listener.max(1) && self.end_one(here) {}
        while self.by_age.len() > bounds.all.max(1) && self.end_one(|_| true) {}
        (number, told)
    }

    /// Removes a connection that has ended, or whose client has logged in.
    pub(super) fn go(&mut self, number: u64) {
        let Some(gone) = self.by_age.remove(&number) else {
            return;
        };
        let Some(of_address) = self.by_address.get_mut(&gone.origin) else {
            unreachable!("each is among those of its address")
        };
        of_address.remove(&number);
        if of_address.is_empty() {
            self.by_address.remove(&gone.origin);
        }
    }

    fn count(&self, of: impl Fn(&Origin) -> bool) -> usize {
        let those = self.by_address.iter().filter(|(origin, _)| of(origin));
        those.fold(0, |sum, (_, numbers)| sum.saturating_add(numbers.len()))
    }

    /// Ends the oldest one of the address that has most; returns false if there is none.
    fn end_one(&mut self, of: impl Fn(&Origin) -> bool) -> bool {
        let those = self.by_address.iter().filter(|(origin, _)| of(origin));
        let ranked = those.filter_map(|(_, numbers)| {
            let oldest = *numbers.first()?;
            Some((numbers.len(), Reverse(oldest)))
        });
        let Some((_, Reverse(oldest))) = ranked.max() else {
            return false;
        };
        self.go(oldest);
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MANY: usize = 1000;

    struct Crowd {
        strangers: Strangers,
        told: Vec<(u64, oneshot::Receiver<()>)>,
    }

    impl Crowd {
        fn new() -> Self {
            Self {
                strangers: Strangers::default(),
                told: Vec::new(),
            }
        }

        fn come(&mut self, listener: &str, address: &str, all: usize, listener_max: usize) -> u64 {
            let bounds = Bounds {
                all,
                listener: listener_max,
            };
            let address = address.parse().unwrap();
            let come = self.strangers.come(&listener.into(), address, bounds);
            let number = come.0;
            self.told.push(come);
            number
        }

        /// Returns the numbers of the connections that have to end.
        fn ended(&mut self) -> Vec<u64> {
            let told = self.told.iter_mut();
            let ended = told.filter_map(|(number, told)| {
                let is_told = told.try_recv() == Err(oneshot::error::TryRecvError::Closed);
                is_told.then_some(*number)
            });
            ended.collect()
        }
    }

    #[test]
    fn who_holds_most_loses_the_oldest_first() {
        let mut crowd = Crowd::new();
        for _ in 0..3 {
            crowd.come("A", "10.0.0.1", 4, MANY);
        }
        let honest = crowd.come("A", "10.0.0.2", 4, MANY);
        assert!(crowd.ended().is_empty());
        for _ in 0..10 {
            crowd.come("A", "10.0.0.1", 4, MANY);
        }
        assert_eq!(crowd.ended(), [0, 1, 2, 4, 5, 6, 7, 8, 9, 10]);
        crowd.strangers.go(honest);
        crowd.come("A", "10.0.0.3", 4, MANY);
        assert_eq!(crowd.ended().len(), 11, "one that logs in leaves its place");
    }

    #[test]
    fn of_addresses_with_as_many_the_oldest_ends() {
        let mut crowd = Crowd::new();
        for last in 0..6 {
            crowd.come("A", &format!("10.0.0.{last}"), 4, MANY);
        }
        assert_eq!(crowd.ended(), [0, 1]);
    }

    #[test]
    fn a_network_counts_as_one_address() {
        let mut crowd = Crowd::new();
        crowd.come("A", "10.0.0.1", 3, MANY);
        for last in 0..4 {
            crowd.come("A", &format!("2001:db8::{last}"), 3, MANY);
        }
        assert_eq!(crowd.ended(), [1, 2]);
    }

    #[test]
    fn a_listener_has_a_bound_of_its_own() {
        let mut crowd = Crowd::new();
        for _ in 0..3 {
            crowd.come("A", "10.0.0.1", MANY, MANY);
        }
        for _ in 0..3 {
            crowd.come("B", "10.0.0.2", MANY, 2);
        }
        assert_eq!(crowd.ended(), [3]);
        // There is always room for the one that comes.
        let last = crowd.come("C", "10.0.0.3", MANY, 0);
        assert!(!crowd.ended().contains(&last));
    }

    proptest! {
        #[test]
        fn there_are_never_more_than_may_be(
            steps in proptest::collection::vec((0..3_u8, 0..4_u8, any::<bool>()), 1..200),
            all in 0..20_usize,
            of_listener in 0..8_usize,
        ) {
            let mut crowd = Crowd::new();
            for (listener, address, goes) in steps {
                let number = crowd.come(
                    &listener.to_string(),
                    &format!("10.0.0.{address}"),
                    all,
                    of_listener,
                );
                if goes {
                    crowd.strangers.go(number);
                }
                let strangers = &crowd.strangers;
                prop_assert!(strangers.by_age.len() <= all.max(1));
                for listener in 0..3 {
                    let name = listener.to_string();
                    prop_assert!(strangers.count(|origin| *origin.0 == name) <= of_listener.max(1));
                }
                prop_assert_eq!(strangers.count(|_| true), strangers.by_age.len());
            }
        }
    }
}
