//! The constraints on a broker of a mix, one function each: from flows, mix and number of brokers
//! to used and allowed.
//!
//! Invariant: a constraint that holds with some number of brokers holds with more, so bisection
//! finds the least number. A relaxed constraint allows a multiple of its bound.

mod burst;
mod endurance;
mod keyed;
mod network;
mod processor;
mod recovery;
mod room;
mod tiering;

use serde::Serialize;

use crate::demand::Flows;
use crate::load::{Goals, Survive};
use crate::mix::Mix;
use crate::quantity::{Bytes, Rate, Seconds, significant};

pub use burst::{Gap, Surge};
pub(crate) use processor::POOL_SHARE;
pub use tiering::{Balance, Mode};

/// Tolerance for the rounding of a sum of shares.
const ROUNDING: f64 = 1.0 + 1e-9;

/// A constraint on a fleet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Constraint {
    /// At least as many brokers as copies, and one that works after the failures to survive.
    Copies,
    /// Bytes into a broker.
    NetworkIn,
    /// Bytes out of a broker.
    NetworkOut,
    /// Processor time.
    Processor,
    /// Busy time of the first tier's devices.
    FastDisk,
    /// Busy time of the devices of the only or second tier.
    BulkDisk,
    /// How long a burst can last.
    Burst,
    /// How soon the next burst may come.
    Gap,
    /// Sustained rate of a first tier from which nothing moves.
    Steady,
    /// Room for the newest records on the first tier.
    FastRoom,
    /// Room for everything that is kept.
    Room,
    /// Memory.
    Memory,
    /// Replicas on a broker.
    Partitions,
    /// Bytes that may be written to the first tier over the years.
    FastEndurance,
    /// Bytes that may be written to the only or second tier over the years.
    BulkEndurance,
    /// Time until the data of a lost broker has all its copies again.
    Recovery,
    /// Device reads by lookups.
    Lookups,
    /// Size of the index on persistent memory.
    Index,
    /// The 99th percentile of latency.
    Latency,
}

impl Constraint {
    /// Returns its name in answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Copies => "copies",
            Self::NetworkIn => "network in",
            Self::NetworkOut => "network out",
            Self::Processor => "processor",
            Self::FastDisk => "first tier's devices",
            Self::BulkDisk => "devices",
            Self::Burst => "burst",
            Self::Gap => "gap between bursts",
            Self::Steady => "steady rate",
            Self::FastRoom => "room on the first tier",
            Self::Room => "room",
            Self::Memory => "memory",
            Self::Partitions => "partitions of a broker",
            Self::FastEndurance => "endurance of the first tier",
            Self::BulkEndurance => "endurance",
            Self::Recovery => "recovery",
            Self::Lookups => "lookups",
            Self::Index => "index",
            Self::Latency => "latency",
        }
    }
}

/// The unit of a constraint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Bytes per second.
    Rate,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
    /// Share of the time.
    Share,
    /// Cores.
    Cores,
    /// A number.
    Count,
    /// A number per second.
    Frequency,
}

impl Unit {
    /// Formats a value with its unit.
    pub fn show(self, value: f64) -> String {
        if value.is_infinite() && self != Self::Seconds {
            return "no limit".to_owned();
        }
        match self {
            Self::Rate => Rate(value).to_string(),
            Self::Bytes => Bytes(value).to_string(),
            Self::Seconds => Seconds(value).to_string(),
            Self::Share => format!("{} %", significant(value * 100.0)),
            Self::Cores => format!("{} cores", significant(value)),
            Self::Count => significant(value),
            Self::Frequency => format!("{}/s", significant(value)),
        }
    }
}

/// The used and the allowed amount of a constraint.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Use {
    /// Used.
    pub used: f64,
    /// Allowed.
    pub allowed: f64,
    /// The unit of both.
    pub unit: Unit,
}

impl Use {
    /// Creates a use.
    fn new(used: f64, allowed: f64, unit: Unit) -> Self {
        Self {
            used,
            allowed,
            unit,
        }
    }

    /// Returns the use of a constraint that does not apply.
    fn nothing(unit: Unit) -> Self {
        Self::new(0.0, f64::INFINITY, unit)
    }

    /// Returns the used share of what is allowed.
    pub fn share(&self) -> f64 {
        if self.used <= 0.0 {
            0.0
        } else if self.allowed <= 0.0 {
            f64::INFINITY
        } else {
            self.used / self.allowed
        }
    }

    /// Returns true if the use is within `times` the allowed amount.
    fn holds(&self, times: f64) -> bool {
        self.share() <= times * ROUNDING
    }
}

/// One cluster: its flows, the mix of a broker, and the number of brokers.
#[derive(Clone, Copy, Debug)]
pub struct Fit<'a> {
    /// The work of the cluster.
    pub flows: &'a Flows,
    /// The mix of each broker.
    pub mix: &'a Mix<'a>,
    /// The goals of the plan.
    pub goals: &'a Goals,
    /// Racks over which it is spread.
    pub racks: u32,
    /// Brokers.
    pub brokers: u32,
    /// A relaxed constraint, and the factor on its allowed amount.
    pub relaxed: Option<(Constraint, f64)>,
}

/// The function of a constraint.
type Rule = fn(&Fit<'_>) -> Use;

/// All constraints; the ones that fail most often and are cheapest to check come first.
pub const ALL: [(Constraint, Rule); 19] = [
    (Constraint::Copies, copies),
    (Constraint::NetworkIn, network::inward),
    (Constraint::NetworkOut, network::outward),
    (Constraint::Processor, processor::time),
    (Constraint::FastDisk, tiering::fast),
    (Constraint::BulkDisk, tiering::bulk),
    (Constraint::Room, room::all),
    (Constraint::FastRoom, room::fast),
    (Constraint::Burst, burst::burst),
    (Constraint::Gap, burst::gap),
    (Constraint::Steady, tiering::steady),
    (Constraint::Memory, processor::memory),
    (Constraint::Partitions, processor::partitions),
    (Constraint::FastEndurance, endurance::fast),
    (Constraint::BulkEndurance, endurance::bulk),
    (Constraint::Recovery, recovery::recovery),
    (Constraint::Lookups, keyed::lookups),
    (Constraint::Index, keyed::index),
    (Constraint::Latency, processor::latency),
];

fn copies(fit: &Fit<'_>) -> Use {
    let needed = f64::from(fit.flows.replication);
    // At least one broker must work after the failures.
    let allowed = if fit.working() < 1.0 {
        0.0
    } else {
        f64::from(fit.brokers)
    };
    Use::new(needed, allowed, Unit::Count)
}

impl Fit<'_> {
    /// Returns the brokers that work after the failures to survive.
    pub fn working(&self) -> f64 {
        let lost = match self.goals.survive {
            Survive::Brokers(lost) => lost,
            Survive::Rack => self.brokers.div_ceil(self.racks.max(1)),
            Survive::Site => 0,
        };
        f64::from(self.brokers.saturating_sub(lost))
    }

    /// Returns the number of brokers that can share the work.
    fn sharing(&self) -> f64 {
        self.working().min(self.flows.spread_max)
    }

    /// Returns the share of a rate for one broker.
    fn each(&self, rate: Rate) -> Rate {
        rate / self.sharing()
    }

    /// Returns true if every constraint holds.
    pub fn holds(&self) -> bool {
        ALL.iter().all(|(constraint, rule)| {
            let times = match self.relaxed {
                Some((relaxed, times)) if relaxed == *constraint => times,
                _ => 1.0,
            };
            rule(self).holds(times)
        })
    }

    /// Returns every constraint with its use.
    pub fn uses(&self) -> Vec<(Constraint, Use)> {
        ALL.iter()
            .map(|(constraint, rule)| (*constraint, rule(self)))
            .collect()
    }

    /// Returns the constraint that fails most, or is nearest to failing.
    pub fn tightest(&self) -> Option<(Constraint, Use)> {
        let uses = self.uses();
        uses.into_iter()
            .max_by(|one, other| one.1.share().total_cmp(&other.1.share()))
    }
}

#[cfg(test)]
mod tests;
