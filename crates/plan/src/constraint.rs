//! What must hold for a broker of a mix, one function a constraint: from flows, mix and number to used and allowed.
//!
//! Invariant: what holds with some brokers holds with more of them, so the least number is found by bisection. A relaxed
//! constraint allows more of the same.

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

/// A sum of shares is not exact.
const ROUNDING: f64 = 1.0 + 1e-9;

/// What must hold.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Constraint {
    /// As many brokers as copies, and as fail.
    Copies,
    /// Bytes in.
    NetworkIn,
    /// Bytes out.
    NetworkOut,
    /// Processor time.
    Processor,
    /// Time of the first tier's devices.
    FastDisk,
    /// Time of the only or second tier's devices.
    BulkDisk,
    /// How long a burst can last.
    Burst,
    /// How soon the next may come.
    Gap,
    /// As fast as it goes while nothing moves.
    Steady,
    /// Room for the newest on the first tier.
    FastRoom,
    /// Room for all.
    Room,
    /// Memory.
    Memory,
    /// Replicas on a broker.
    Partitions,
    /// What may be written to the first tier over the years.
    FastEndurance,
    /// What may be written to the second.
    BulkEndurance,
    /// How soon what a broker held is whole again.
    Recovery,
    /// Reads by lookups.
    Lookups,
    /// The index on persistent memory.
    Index,
    /// The 99th percentile.
    Latency,
}

impl Constraint {
    /// Its name in answers.
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

/// In what a constraint is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Bytes a second.
    Rate,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
    /// Parts of the time.
    Share,
    /// Cores.
    Cores,
    /// A number.
    Count,
    /// A second.
    Frequency,
}

impl Unit {
    /// A value with it.
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

/// How much of something is used, and how much may be.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Use {
    /// Used.
    pub used: f64,
    /// Allowed.
    pub allowed: f64,
    /// In what.
    pub unit: Unit,
}

impl Use {
    /// A use.
    fn new(used: f64, allowed: f64, unit: Unit) -> Self {
        Self {
            used,
            allowed,
            unit,
        }
    }

    /// Nothing of it is asked for.
    fn nothing(unit: Unit) -> Self {
        Self::new(0.0, f64::INFINITY, unit)
    }

    /// Which part of what is allowed is used.
    pub fn share(&self) -> f64 {
        if self.used <= 0.0 {
            0.0
        } else if self.allowed <= 0.0 {
            f64::INFINITY
        } else {
            self.used / self.allowed
        }
    }

    /// Whether it holds when so many times of it are allowed.
    fn holds(&self, times: f64) -> bool {
        self.share() <= times * ROUNDING
    }
}

/// One cluster: its flows, what a broker is, and how many there are.
#[derive(Clone, Copy, Debug)]
pub struct Fit<'a> {
    /// What it has to do.
    pub flows: &'a Flows,
    /// What a broker is.
    pub mix: &'a Mix<'a>,
    /// What must hold.
    pub goals: &'a Goals,
    /// Racks that it is spread over.
    pub racks: u32,
    /// Brokers.
    pub brokers: u32,
    /// A constraint of which more is allowed than is, and how many times as much.
    pub relaxed: Option<(Constraint, f64)>,
}

/// The function of a constraint.
type Rule = fn(&Fit<'_>) -> Use;

/// All of them; those that fail most often and cost least come first.
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
    // A failed one must leave somebody.
    let allowed = if fit.working() < 1.0 {
        0.0
    } else {
        f64::from(fit.brokers)
    };
    Use::new(needed, allowed, Unit::Count)
}

impl Fit<'_> {
    /// Brokers that work when what may fail has failed.
    pub fn working(&self) -> f64 {
        let lost = match self.goals.survive {
            Survive::Brokers(lost) => lost,
            Survive::Rack => self.brokers.div_ceil(self.racks.max(1)),
            Survive::Site => 0,
        };
        f64::from(self.brokers.saturating_sub(lost))
    }

    /// Those among which the work can be divided.
    fn sharing(&self) -> f64 {
        self.working().min(self.flows.spread_max)
    }

    /// A broker's part of a rate.
    fn each(&self, rate: Rate) -> Rate {
        rate / self.sharing()
    }

    /// Whether everything holds.
    pub fn holds(&self) -> bool {
        ALL.iter().all(|(constraint, rule)| {
            let times = match self.relaxed {
                Some((relaxed, times)) if relaxed == *constraint => times,
                _ => 1.0,
            };
            rule(self).holds(times)
        })
    }

    /// Every constraint with what is used of it.
    pub fn uses(&self) -> Vec<(Constraint, Use)> {
        ALL.iter()
            .map(|(constraint, rule)| (*constraint, rule(self)))
            .collect()
    }

    /// The constraint that fails most, or is nearest to it.
    pub fn tightest(&self) -> Option<(Constraint, Use)> {
        let uses = self.uses();
        uses.into_iter()
            .max_by(|one, other| one.1.share().total_cmp(&other.1.share()))
    }
}

#[cfg(test)]
mod tests;
