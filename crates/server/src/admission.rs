//! Who may connect: bounds on connections in all and per address.
//!
//! Invariant: every seat given is counted until it is dropped. One table for the process, behind a
//! lock that is held for an addition or a subtraction.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::config::NetworkSettings;

/// The table; clones share it.
#[derive(Clone, Debug)]
pub struct Admission {
    table: Arc<Mutex<Table>>,
}

#[derive(Debug)]
struct Table {
    all: usize,
    all_max: usize,
    per_address: HashMap<IpAddr, usize>,
    per_address_max: usize,
    overrides: HashMap<IpAddr, usize>,
}

/// A place for one connection; dropping it frees it.
#[derive(Debug)]
pub struct Seat {
    admission: Admission,
    address: IpAddr,
}

/// Which bound is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Full {
    /// `max.connections`.
    All,
    /// `max.connections.per.ip`, or its override for the address.
    Address,
}

impl Full {
    /// Name of the setting.
    pub fn setting(self) -> &'static str {
        match self {
            Self::All => "max.connections",
            Self::Address => "max.connections.per.ip",
        }
    }
}

impl Admission {
    /// With the bounds of the settings.
    pub fn new(settings: &NetworkSettings) -> Self {
        let overrides = settings.connections_per_ip_overrides.iter();
        let table = Table {
            all: 0,
            all_max: settings.connections_max,
            per_address: HashMap::new(),
            per_address_max: settings.connections_per_ip_max,
            overrides: overrides
                .map(|(address, max)| (address.to_canonical(), *max))
                .collect(),
        };
        Self {
            table: Arc::new(Mutex::new(table)),
        }
    }

    /// A seat for a connection from `address`, if there is one.
    pub fn admit(&self, address: IpAddr) -> Result<Seat, Full> {
        let address = address.to_canonical();
        let mut table = self.lock();
        if table.all >= table.all_max {
            return Err(Full::All);
        }
        let max = table
            .overrides
            .get(&address)
            .copied()
            .unwrap_or(table.per_address_max);
        if table
            .per_address
            .get(&address)
            .is_some_and(|count| *count >= max)
            || max == 0
        {
            return Err(Full::Address);
        }
        table.all += 1;
        *table.per_address.entry(address).or_default() += 1;
        Ok(Seat {
            admission: self.clone(),
            address,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // Nothing in here can panic half-way.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut table = self.admission.lock();
        table.all -= 1;
        if let Some(count) = table.per_address.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                table.per_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(all: usize, per_ip: usize, overrides: &[(&str, usize)]) -> Admission {
        let settings = NetworkSettings {
            connections_max: all,
            connections_per_ip_max: per_ip,
            connections_per_ip_overrides: overrides
                .iter()
                .map(|(ip, max)| (ip.parse().unwrap(), *max))
                .collect(),
            ..crate::config::Settings::defaults().network
        };
        Admission::new(&settings)
    }

    fn from(admission: &Admission, address: &str) -> Result<Seat, Full> {
        admission.admit(address.parse().unwrap())
    }

    #[test]
    fn a_freed_seat_is_given_again() {
        let admission = admission(2, 10, &[]);
        let first = from(&admission, "10.0.0.1").unwrap();
        let _second = from(&admission, "10.0.0.2").unwrap();
        assert_eq!(from(&admission, "10.0.0.3").unwrap_err(), Full::All);
        drop(first);
        assert!(from(&admission, "10.0.0.3").is_ok());
        assert_eq!(
            admission.lock().per_address.len(),
            1,
            "addresses without a seat are forgotten"
        );
    }

    #[test]
    fn one_address_has_its_own_bound() {
        let admission = admission(100, 1, &[("10.0.0.9", 2), ("10.0.0.8", 0)]);
        let _seat = from(&admission, "10.0.0.1").unwrap();
        assert_eq!(from(&admission, "10.0.0.1").unwrap_err(), Full::Address);
        let mapped = from(&admission, "::ffff:10.0.0.1");
        assert_eq!(
            mapped.unwrap_err(),
            Full::Address,
            "an address has one bound in both notations"
        );
        let _more = (
            from(&admission, "10.0.0.9").unwrap(),
            from(&admission, "10.0.0.9").unwrap(),
        );
        assert_eq!(from(&admission, "10.0.0.9").unwrap_err(), Full::Address);
        assert_eq!(from(&admission, "10.0.0.8").unwrap_err(), Full::Address);
    }
}
