//! Who may connect: bounds on connections in all, per listener and per address, and on how fast they come.
//!
//! As Kafka has it: above `max.connection.creation.rate` a listener takes the next connection later; an address above its
//! quota (`connection_creation_rate`) has its connection closed, and only after as long as it takes to be allowed again,
//! so that it does not come at once. Neither waits for longer than one sample of usage. Not as Kafka: a connection above
//! `max.connections` is closed, not kept waiting; and a few seats are outside of all bounds, for 127.0.0.1 and `::1` alone, so
//! that whoever is on the machine can take a bound back that shuts everybody out. Descriptors are kept back for the logs.
//! Invariants: every seat given is counted until it is dropped; what is kept is bounded by the connections there are, and by
//! [`RATES_MAX`]. One table for the process, behind a lock that is held for an addition or a subtraction. It does not wait:
//! whoever accepts does.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
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

/// Addresses whose rate is kept at most.
const RATES_MAX: usize = 64 << 10;

/// Seats outside of all bounds, for the machine itself.
const OWN_SEATS: usize = 4;

/// Descriptors that connections leave to others, besides one for each log.
const SPARE_DESCRIPTORS: usize = 64;

/// The table; clones share it.
#[derive(Clone, Debug)]
pub struct Admission {
    table: Arc<Mutex<Table>>,
}

#[derive(Debug)]
struct Table {
    limits: ConnectionLimits,
    changing: Option<Changing>,
    descriptors: Descriptors,
    all: usize,
    /// Seats of each listener.
    // Bounded: the `listeners` there are.
    per_listener: HashMap<Arc<str>, usize>,
    /// Own seats that are taken.
    own: usize,
    // Bounded: addresses with connections, of which there are `max.connections` and what descriptors there are (`admit`).
    per_address: HashMap<IpAddr, usize>,
    /// How fast connections come, and from the addresses that have a quota.
    rate: Rate,
    // Bounded: the `listeners` there are.
    listener_rates: HashMap<Arc<str>, Rate>,
    // Bounded: `RATES_MAX`.
    rates: HashMap<IpAddr, Rate>,
    sweep_at: usize,
    /// Until when each listener takes no more.
    // Bounded: one for each listener of the setting `listeners`.
    held: HashMap<Arc<str>, Instant>,
}

/// A place for one connection; dropping it frees it.
#[derive(Debug)]
pub struct Seat {
    admission: Admission,
    /// Whose bounds it counts against; `None` for an own seat.
    counted: Option<(Arc<str>, IpAddr)>,
}

/// How many descriptors there may be, and for what they are kept back.
#[derive(Clone, Default)]
pub struct Descriptors {
    /// The limit of the process, if there is one.
    pub limit: Option<usize>,
    /// How many logs there are.
    pub logs: Option<Arc<dyn Fn() -> usize + Send + Sync>>,
}

impl Descriptors {
    /// Those below this number are for connections. The system gives the lowest that is free, so above it are others' alone.
    fn for_connections(&self) -> usize {
        let logs = self.logs.as_ref().map_or(0, |logs| logs());
        let kept = logs.saturating_add(SPARE_DESCRIPTORS);
        self.limit.map_or(usize::MAX, |limit| {
            limit.saturating_sub(kept).max(limit / 2)
        })
    }
}

impl std::fmt::Debug for Descriptors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "below {}", self.for_connections())
    }
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
    /// The same of the listener.
    Listener,
    /// The limit of open files.
    Descriptors,
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
            Self::Listener => "max.connections of the listener",
            Self::Descriptors => "open files (ulimit -n, LimitNOFILE)",
            Self::Address => "max.connections.per.ip",
            Self::TooFast(_) => "connection_creation_rate",
        }
    }
}

impl Admission {
    /// With these bounds, until others come.
    pub fn new(
        limits: ConnectionLimits,
        changing: Option<Changing>,
        descriptors: Descriptors,
    ) -> Self {
        let table = Table {
            limits,
            changing,
            descriptors,
            all: 0,
            per_listener: HashMap::new(),
            own: 0,
            per_address: HashMap::new(),
            rate: Rate::default(),
            listener_rates: HashMap::new(),
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
        let own_limit = table.limits.of_listener(listener).and_then(|own| own.rate);
        if table.limits.rate.is_none() && own_limit.is_none() {
            return Turn::Now;
        }
        let wait = |until: &Instant| until.saturating_duration_since(now);
        let held = table.held.get(listener).map_or(Duration::ZERO, wait);
        if !held.is_zero() {
            return Turn::Again(held);
        }
        let windows = table.limits.windows;
        let mut pause = Duration::ZERO;
        if let Some(limit) = table.limits.rate {
            table.rate.add(windows, 1.0, now);
            pause = table.rate.pause(windows, limit, now);
        }
        if let Some(limit) = own_limit {
            let rate = table.listener_rates.entry(Arc::clone(listener));
            let rate = rate.or_default();
            rate.add(windows, 1.0, now);
            pause = pause.max(rate.pause(windows, limit, now));
        }
        let pause = pause.min(windows.window);
        if pause.is_zero() {
            return Turn::Now;
        }
        table.held.insert(Arc::clone(listener), now + pause);
        Turn::After(pause)
    }

    /// A seat for a connection that a listener took from `address`, whose socket has this descriptor, if there is one.
    pub fn admit(
        &self,
        listener: &Arc<str>,
        address: IpAddr,
        descriptor: usize,
        now: Instant,
    ) -> Result<Seat, Refused> {
        let address = address.to_canonical();
        let mut table = self.lock();
        table.learn();
        let refused = match table.check(listener, address, descriptor, now) {
            Ok(()) => {
                table.all += 1;
                *table.per_listener.entry(Arc::clone(listener)).or_default() += 1;
                *table.per_address.entry(address).or_default() += 1;
                let admission = self.clone();
                let counted = Some((Arc::clone(listener), address));
                return Ok(Seat { admission, counted });
            }
            Err(refused) => refused,
        };
        let here = [
            IpAddr::from(Ipv4Addr::LOCALHOST),
            IpAddr::from(Ipv6Addr::LOCALHOST),
        ];
        if here.contains(&address) && table.own < OWN_SEATS {
            table.own += 1;
            let admission = self.clone();
            let counted = None;
            return Ok(Seat { admission, counted });
        }
        Err(refused)
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

    /// Whether there is a seat within the bounds.
    fn check(
        &mut self,
        listener: &Arc<str>,
        address: IpAddr,
        descriptor: usize,
        now: Instant,
    ) -> Result<(), Refused> {
        if self.all >= self.limits.all_max {
            return Err(Refused::All);
        }
        if descriptor >= self.descriptors.for_connections() {
            return Err(Refused::Descriptors);
        }
        if let Some(own) = self.limits.of_listener(listener)
            && self.per_listener.get(listener).copied().unwrap_or(0) >= own.max
        {
            return Err(Refused::Listener);
        }
        self.check_rate(listener, address, now)?;
        let limits = &self.limits;
        let own = limits.overrides.get(&address).copied();
        let max = own.unwrap_or(limits.per_address_max);
        if self.per_address.get(&address).copied().unwrap_or(0) >= max {
            return Err(Refused::Address);
        }
        Ok(())
    }

    fn check_rate(
        &mut self,
        listener: &Arc<str>,
        address: IpAddr,
        now: Instant,
    ) -> Result<(), Refused> {
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
        let own = self.limits.of_listener(listener);
        if own.is_some_and(|own| own.rate.is_some())
            && let Some(rate) = self.listener_rates.get_mut(listener)
        {
            rate.add(windows, -1.0, now);
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
        if self.rates.len() >= RATES_MAX {
            // From so many addresses that each has come lately: they begin anew.
            self.rates.clear();
        }
        self.sweep_at = (self.rates.len() * 2).clamp(SWEEP_MIN, RATES_MAX);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut table = self.admission.lock();
        let Some((listener, address)) = &self.counted else {
            table.own -= 1;
            return;
        };
        table.all -= 1;
        let Some(count) = table.per_listener.get_mut(listener) else {
            unreachable!("a seat is one of its listener's")
        };
        *count -= 1;
        let Some(count) = table.per_address.get_mut(address) else {
            unreachable!("a seat is one of its address's")
        };
        *count -= 1;
        if *count == 0 {
            table.per_address.remove(address);
        }
    }
}

#[cfg(test)]
mod tests;
