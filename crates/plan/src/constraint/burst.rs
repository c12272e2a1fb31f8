//! How long a burst can last, and how soon the next may come.
//!
//! A burst takes free / (peak - drain) seconds; what it left is gone after used / (drain - base) more. Where the base is
//! not below what drains, it is never gone.

use super::{Balance, Fit, Unit, Use};
use crate::quantity::{Bytes, Rate, Seconds};

/// How long a burst of such a peak can last.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Surge {
    /// Bytes that are free when it begins.
    pub free: Bytes,
    /// What comes in.
    pub peak: Rate,
    /// What leaves meanwhile.
    pub drain: Rate,
}

impl Surge {
    /// Until nothing is free any more; for ever, where as much leaves as comes.
    pub fn lasts(&self) -> Seconds {
        if self.peak <= self.drain {
            return Seconds(f64::INFINITY);
        }
        self.free / (self.peak - self.drain)
    }

    /// The rule of thumb: as if nothing left.
    pub fn rule(&self) -> Seconds {
        self.free / self.peak
    }
}

/// How long what a burst left takes to leave.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Gap {
    /// What it left.
    pub used: Bytes,
    /// What leaves.
    pub drain: Rate,
    /// What comes in.
    pub base: Rate,
}

impl Gap {
    /// Until it is gone; for ever, where as much comes as leaves.
    pub fn lasts(&self) -> Seconds {
        if self.used <= Bytes::ZERO {
            return Seconds::ZERO;
        }
        if self.base >= self.drain {
            return Seconds(f64::INFINITY);
        }
        self.used / (self.drain - self.base)
    }

    /// The rule of thumb: as if nothing came.
    pub fn rule(&self) -> Seconds {
        self.used / self.drain
    }
}

impl Balance {
    /// The burst it can take.
    pub fn surge(&self) -> Surge {
        Surge {
            free: self.free,
            peak: self.peak,
            drain: self.drain,
        }
    }

    /// What is left after one of this length.
    pub fn gap(&self, length: Seconds) -> Gap {
        Gap {
            used: (self.peak - self.drain).max(Rate::ZERO) * length,
            drain: self.drain,
            base: self.base,
        }
    }
}

pub(super) fn burst(fit: &Fit<'_>) -> Use {
    match (fit.balance(), fit.flows.burst) {
        (Some(balance), Some((length, _))) if fit.mode() != super::Mode::Off => {
            Use::new(length.0, balance.surge().lasts().0, Unit::Seconds)
        }
        _ => Use::nothing(Unit::Seconds),
    }
}

pub(super) fn gap(fit: &Fit<'_>) -> Use {
    match (fit.balance(), fit.flows.burst) {
        (Some(balance), Some((length, interval))) if fit.mode() != super::Mode::Off => {
            let allowed = interval - length;
            Use::new(balance.gap(length).lasts().0, allowed.0, Unit::Seconds)
        }
        _ => Use::nothing(Unit::Seconds),
    }
}
