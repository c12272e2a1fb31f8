//! How long a burst can last, and how soon the next may come.
//!
//! A burst lasts free / (peak - drain) seconds; its bytes have left after used / (drain - base)
//! further seconds, or never if the base is not below the drain.

use super::{Balance, Fit, Unit, Use};
use crate::quantity::{Bytes, Rate, Seconds};

/// A burst with this peak into this room.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Surge {
    /// Free bytes when it begins.
    pub free: Bytes,
    /// Rate of arriving bytes.
    pub peak: Rate,
    /// Rate of leaving bytes meanwhile.
    pub drain: Rate,
}

impl Surge {
    /// Returns the time until nothing is free; infinite if the drain is not below the peak.
    pub fn lasts(&self) -> Seconds {
        if self.peak <= self.drain {
            return Seconds(f64::INFINITY);
        }
        self.free / (self.peak - self.drain)
    }

    /// Returns the rule of thumb, which ignores the drain.
    pub fn rule(&self) -> Seconds {
        self.free / self.peak
    }
}

/// The time after a burst in which its bytes leave.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Gap {
    /// Bytes that the burst left.
    pub used: Bytes,
    /// Rate of leaving bytes.
    pub drain: Rate,
    /// Rate of arriving bytes.
    pub base: Rate,
}

impl Gap {
    /// Returns the time until the bytes have left; infinite if the base is not below the drain.
    pub fn lasts(&self) -> Seconds {
        if self.used <= Bytes::ZERO {
            return Seconds::ZERO;
        }
        if self.base >= self.drain {
            return Seconds(f64::INFINITY);
        }
        self.used / (self.drain - self.base)
    }

    /// Returns the rule of thumb, which ignores the base.
    pub fn rule(&self) -> Seconds {
        self.used / self.drain
    }
}

impl Balance {
    /// Returns the burst that it can absorb.
    pub fn surge(&self) -> Surge {
        Surge {
            free: self.free,
            peak: self.peak,
            drain: self.drain,
        }
    }

    /// Returns the gap after a burst of this length.
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
