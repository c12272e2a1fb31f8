//! Admission of connections: bounds on their number in total, per listener and per address, and on
//! the rate at which they arrive.
//!
//! As in Kafka, a listener above `max.connection.creation.rate` delays the next connection. An
//! address above its quota (`connection_creation_rate`) has its connection closed, but only after
//! the time until it would be allowed again, so that it does not reconnect at once. Neither delay
//! is longer than one sample of usage. Unlike Kafka, a connection above `max.connections` is closed
//! instead of kept waiting. A few seats, for 127.0.0.1 and `::1` only, are outside all bounds, so
//! that an operator on the machine can undo a bound that shuts all clients out. Descriptors are
//! reserved for the logs. When too many connections are not logged in, the oldest of them end
//! (`strangers.rs`), so that clients that cannot log in do not hold all seats.
//!
//! Invariants: every seat is counted until it is dropped; the state is bounded by the number of
//! connections and by [`RATES_MAX`]. There is one table for the process, behind a lock that is held
//! for a few additions and subtractions, and for a sweep of at most `RATES_MAX` entries. This
//! module does not wait: the caller that accepts connections does.

mod strangers;

use std::collections::HashMap;
use std::future::Future as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use broker::node_config::{ConnectionLimits, NodeConfig};
use broker::quota::Rate;
use platform::clock::Instant;
use tokio::sync::{oneshot, watch};

use strangers::{Bounds, Strangers};

/// The dynamic settings; `None` until the metadata is known.
pub type NodeConfigWatch = watch::Receiver<Option<Arc<NodeConfig>>>;

/// Addresses with a rate below which old ones are not swept.
const SWEEP_MIN: usize = 1024;

/// Maximum number of addresses whose rate is kept.
const RATES_MAX: usize = 64 << 10;

/// Seats outside all bounds, for the machine itself.
const OWN_SEATS: usize = 4;

/// How many connections may be not logged in, unless it is set.
const STRANGERS_MAX: usize = 1000;

/// Descriptors that connections leave to other uses, besides one for each log.
const SPARE_DESCRIPTORS: usize = 64;

/// The table of admissions; clones share it.
#[derive(Clone, Debug)]
pub struct Admission {
    table: Arc<Mutex<Table>>,
}

#[derive(Debug)]
struct Table {
    limits: ConnectionLimits,
    changing: Option<NodeConfigWatch>,
    descriptors: Descriptors,
    all: usize,
    /// Seats of each listener.
    // Bounded: one for each of `listeners`.
    per_listener: HashMap<Arc<str>, usize>,
    /// Seats outside all bounds that are taken.
    own: usize,
    // Bounded: addresses with connections, which `max.connections` and the descriptors limit
    // (`admit`).
    per_address: HashMap<IpAddr, usize>,
    /// The rate of connections of all listeners.
    rate: Rate,
    // Bounded: one for each of `listeners`.
    listener_rates: HashMap<Arc<str>, Rate>,
    // Bounded: `RATES_MAX`.
    rates: HashMap<IpAddr, Rate>,
    sweep_at: usize,
    /// Until when each listener takes no further connection.
    // Bounded: one for each of `listeners`.
    held: HashMap<Arc<str>, Instant>,
    strangers: Strangers,
    strangers_max: usize,
}

/// A place for one connection; dropping it frees the place.
#[derive(Debug)]
pub struct Seat {
    admission: Admission,
    /// The listener and address that it counts against; `None` for a seat outside all bounds.
    counted: Option<(Arc<str>, IpAddr)>,
}

/// A connection that is not logged in; dropping this says that it is, or that it has ended.
#[derive(Debug)]
pub struct Stranger {
    admission: Admission,
    number: u64,
    told: oneshot::Receiver<()>,
}

/// The limit on descriptors, and what they are reserved for.
#[derive(Clone, Default)]
pub struct Descriptors {
    /// The limit of the process, if there is one.
    pub limit: Option<usize>,
    /// Returns the number of logs.
    pub logs: Option<Arc<dyn Fn() -> usize + Send + Sync>>,
}

impl Descriptors {
    /// Returns the bound below which descriptors are for connections.
    ///
    /// The kernel hands out the lowest free number, so the numbers above the bound stay free for
    /// other uses.
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

/// When to handle a connection that has been accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// At once.
    Now,
    /// After this time.
    After(Duration),
    /// Another connection of the listener waits: ask again after this time.
    Again(Duration),
}

/// Why a connection gets no seat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AdmissionRefusal {
    /// `max.connections`.
    All,
    /// `max.connections` of the listener.
    Listener,
    /// The limit of open files.
    Descriptors,
    /// `max.connections.per.ip`, or its override for the address.
    Address,
    /// The quota `connection_creation_rate` of the address; close the connection after this time.
    TooFast(Duration),
}

impl AdmissionRefusal {
    /// Returns the name of the setting.
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
    /// Creates a table with these bounds, until `changing` brings others.
    pub fn new(
        limits: ConnectionLimits,
        changing: Option<NodeConfigWatch>,
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
            strangers: Strangers::default(),
            strangers_max: STRANGERS_MAX,
        };
        Self {
            table: Arc::new(Mutex::new(table)),
        }
    }

    /// Sets how many connections may be not logged in.
    #[must_use]
    pub fn with_strangers_max(self, max: usize) -> Self {
        self.lock().strangers_max = max;
        self
    }

    /// Counts a connection whose client has to log in. Half of the seats are for those that have.
    pub fn stranger(&self, listener: &Arc<str>, address: IpAddr) -> Stranger {
        let mut table = self.lock();
        table.learn();
        let most = table.strangers_max;
        let own = table.limits.of_listener(listener);
        let bounds = Bounds {
            all: most.min(table.limits.all_max / 2),
            listener: own.map_or(most, |own| most.min(own.max / 2)),
        };
        let (number, told) = table.strangers.come(listener, address, bounds);
        Stranger {
            admission: self.clone(),
            number,
            told,
        }
    }

    /// Counts a connection that a listener has accepted, and returns when to handle it.
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

    /// Gives a seat to a connection from `address`, whose socket has the number `descriptor`.
    pub fn admit(
        &self,
        listener: &Arc<str>,
        address: IpAddr,
        descriptor: usize,
        now: Instant,
    ) -> Result<Seat, AdmissionRefusal> {
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
        // Nothing under the lock panics half-way.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Takes over changed settings.
    fn learn(&mut self) {
        let Some(changing) = self.changing.as_mut() else {
            return;
        };
        // If the sender is gone, the process is ending: the last settings stay in force.
        if changing.has_changed().unwrap_or(false)
            && let Some(config) = &*changing.borrow_and_update()
        {
            self.limits = config.connections.clone();
        }
    }

    /// Checks whether the bounds allow another seat.
    fn check(
        &mut self,
        listener: &Arc<str>,
        address: IpAddr,
        descriptor: usize,
        now: Instant,
    ) -> Result<(), AdmissionRefusal> {
        if self.all >= self.limits.all_max {
            return Err(AdmissionRefusal::All);
        }
        if descriptor >= self.descriptors.for_connections() {
            return Err(AdmissionRefusal::Descriptors);
        }
        if let Some(own) = self.limits.of_listener(listener)
            && self.per_listener.get(listener).copied().unwrap_or(0) >= own.max
        {
            return Err(AdmissionRefusal::Listener);
        }
        self.check_rate(listener, address, now)?;
        let limits = &self.limits;
        let own = limits.overrides.get(&address).copied();
        let max = own.unwrap_or(limits.per_address_max);
        if self.per_address.get(&address).copied().unwrap_or(0) >= max {
            return Err(AdmissionRefusal::Address);
        }
        Ok(())
    }

    fn check_rate(
        &mut self,
        listener: &Arc<str>,
        address: IpAddr,
        now: Instant,
    ) -> Result<(), AdmissionRefusal> {
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
        // The connection is refused, so it does not count.
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
        Err(AdmissionRefusal::TooFast(pause))
    }

    /// Forgets addresses without recent connections, whenever the table has doubled.
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
            // More than `RATES_MAX` addresses have come recently: all of them start from zero.
            self.rates.clear();
        }
        self.sweep_at = (self.rates.len() * 2).clamp(SWEEP_MIN, RATES_MAX);
    }
}

impl Stranger {
    /// Completes when the connection has to end, because there are too many.
    pub fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // The sender is dropped then.
        Pin::new(&mut self.told).poll(cx).map(drop)
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.admission.lock().strangers.go(self.number);
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
