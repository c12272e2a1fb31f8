//! Who may connect: bounds on connections in all and per address, and on how fast they come.
//!
//! As Kafka has it: above `max.connection.creation.rate` a listener takes the next connection later; an address above its
//! quota (`connection_creation_rate`) has its connection closed, and only after as long as it takes to be allowed again,
//! so that it does not come at once. Neither waits for longer than one sample of usage. Not as Kafka: a connection above
//! `max.connections` is closed, not kept waiting.
//! Invariant: every seat given is counted until it is dropped. One table for the process, behind a lock that is held for
//! an addition or a subtraction. It does not wait: whoever accepts does.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use broker::node_config::{ConnectionLimits, NodeConfig};
use broker::quota::Rate;
use platform::clock::Instant;
use tokio::sync::watch;

/// The settings as they change; nothing before the metadata is known.
pub type Changing = watch::Receiver<Option<Arc<NodeConfig>>>;

/// Addresses with a quota below which nobody is looked for to be forgotten.
const SWEEP_MIN: usize = 1024;

/// The table; clones share it.
#[derive(Clone, Debug)]
pub struct Admission {
    table: Arc<Mutex<Table>>,
}

#[derive(Debug)]
struct Table {
    limits: ConnectionLimits,
    changing: Option<Changing>,
    all: usize,
    per_address: HashMap<IpAddr, usize>,
    /// How fast connections come, and from the addresses that have a quota.
    rate: Rate,
    rates: HashMap<IpAddr, Rate>,
    sweep_at: usize,
    /// Until when each listener takes no more.
    held: HashMap<Arc<str>, Instant>,
}

/// A place for one connection; dropping it frees it.
#[derive(Debug)]
pub struct Seat {
    admission: Admission,
    address: IpAddr,
}

/// When a connection that has been accepted is to be looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// At once.
    Now,
    /// After this time.
    After(Duration),
    /// Another one of the listener waits: ask again after this time.
    Again(Duration),
}

/// Why there is no seat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// `max.connections`.
    All,
    /// `max.connections.per.ip`, or its override for the address.
    Address,
    /// Quota `connection_creation_rate` of the address: to be closed after this time.
    TooFast(Duration),
}

impl Refused {
    /// Name of the setting.
    pub fn setting(self) -> &'static str {
        match self {
            Self::All => "max.connections",
            Self::Address => "max.connections.per.ip",
            Self::TooFast(_) => "connection_creation_rate",
        }
    }
}

impl Admission {
    /// With these bounds, until others come.
    pub fn new(limits: ConnectionLimits, changing: Option<Changing>) -> Self {
        let table = Table {
            limits,
            changing,
            all: 0,
            per_address: HashMap::new(),
            rate: Rate::default(),
            rates: HashMap::new(),
            sweep_at: SWEEP_MIN,
            held: HashMap::new(),
        };
        Self {
            table: Arc::new(Mutex::new(table)),
        }
    }

    /// Counts a connection that a listener has accepted, and says when it is to be looked at.
    pub fn turn(&self, listener: &Arc<str>, now: Instant) -> Turn {
        let mut table = self.lock();
        let table = &mut *table;
        table.learn();
        let Some(limit) = table.limits.rate else {
            return Turn::Now;
        };
        let wait = |until: &Instant| until.saturating_duration_since(now);
        let held = table.held.get(listener).map_or(Duration::ZERO, wait);
        if !held.is_zero() {
            return Turn::Again(held);
        }
        let windows = table.limits.windows;
        table.rate.add(windows, 1.0, now);
        let pause = table.rate.pause(windows, limit, now).min(windows.window);
        if pause.is_zero() {
            return Turn::Now;
        }
        table.held.insert(Arc::clone(listener), now + pause);
        Turn::After(pause)
    }

    /// A seat for a connection from `address`, if there is one.
    pub fn admit(&self, address: IpAddr, now: Instant) -> Result<Seat, Refused> {
        let address = address.to_canonical();
        let mut table = self.lock();
        table.learn();
        if table.all >= table.limits.all_max {
            return Err(Refused::All);
        }
        table.check_rate(address, now)?;
        let limits = &table.limits;
        let own = limits.overrides.get(&address).copied();
        let max = own.unwrap_or(limits.per_address_max);
        if table.per_address.get(&address).copied().unwrap_or(0) >= max {
            return Err(Refused::Address);
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

impl Table {
    /// Takes over settings that have changed.
    fn learn(&mut self) {
        let Some(changing) = self.changing.as_mut() else {
            return;
        };
        // Whoever tells is gone when the process ends: what was told last holds.
        if changing.has_changed().unwrap_or(false)
            && let Some(config) = &*changing.borrow_and_update()
        {
            self.limits = config.connections.clone();
        }
    }

    fn check_rate(&mut self, address: IpAddr, now: Instant) -> Result<(), Refused> {
        let limits = &self.limits;
        let own = limits.address_rates.get(&address).copied();
        let Some(limit) = own.or(limits.rate_per_address) else {
            return Ok(());
        };
        let windows = limits.windows;
        self.sweep(now);
        let rate = self.rates.entry(address).or_default();
        rate.add(windows, 1.0, now);
        let pause = rate.pause(windows, limit, now).min(windows.window);
        if pause.is_zero() {
            return Ok(());
        }
        // It is not let in, so it does not count.
        rate.add(windows, -1.0, now);
        if self.limits.rate.is_some() {
            self.rate.add(windows, -1.0, now);
        }
        Err(Refused::TooFast(pause))
    }

    /// Forgets addresses that have not come lately, whenever the table has doubled.
    fn sweep(&mut self, now: Instant) {
        if self.rates.len() < self.sweep_at {
            return;
        }
        let span = self.limits.windows.span();
        self.rates.retain(|_, rate| {
            let touched = rate.touched();
            touched.is_some_and(|touched| now.saturating_duration_since(touched) < span)
        });
        self.sweep_at = (self.rates.len() * 2).max(SWEEP_MIN);
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
mod tests;
