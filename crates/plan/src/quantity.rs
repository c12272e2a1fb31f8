//! Bytes, rates, times and money as types, so that they cannot be mixed up.
//!
//! Invariant: KB is 1,000 bytes and KiB 1,024; a lower-case b is a bit. A quantity without a unit
//! is refused. Values are f64: sums of fleets do not overflow, and the last digits of a plan carry
//! no meaning.

mod read;
mod show;

use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub};

use serde::{Serialize, Serializer};

pub use read::{Frequency, QuantityError};
pub use show::{count, dollars, significant};

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Default)]
        pub struct $name(pub f64);

        impl $name {
            /// Zero.
            pub const ZERO: Self = Self(0.0);

            /// Returns the larger one.
            #[must_use]
            pub fn max(self, other: Self) -> Self {
                Self(self.0.max(other.0))
            }

            /// Returns the smaller one.
            #[must_use]
            pub fn min(self, other: Self) -> Self {
                Self(self.0.min(other.0))
            }
        }

        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }

        impl Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }

        impl Mul<f64> for $name {
            type Output = Self;
            fn mul(self, times: f64) -> Self {
                Self(self.0 * times)
            }
        }

        impl Div<f64> for $name {
            type Output = Self;
            fn div(self, by: f64) -> Self {
                Self(self.0 / by)
            }
        }

        impl Div for $name {
            type Output = f64;
            fn div(self, by: Self) -> f64 {
                self.0 / by.0
            }
        }

        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
                all.fold(Self::ZERO, Add::add)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.0.serialize(serializer)
            }
        }
    };
}

quantity! {
    /// Bytes.
    Bytes
}
quantity! {
    /// Bytes per second.
    Rate
}
quantity! {
    /// Seconds.
    Seconds
}
quantity! {
    /// United States dollars.
    Dollars
}

/// Seconds of a day.
pub const DAY: Seconds = Seconds(86_400.0);

/// Seconds of a year of 365 days.
pub const YEAR: Seconds = Seconds(365.0 * 86_400.0);

/// Hours of a month: a twelfth of a year of 365 days.
pub const MONTH_HOURS: f64 = 730.0;

impl Mul<Seconds> for Rate {
    type Output = Bytes;
    fn mul(self, time: Seconds) -> Bytes {
        Bytes(self.0 * time.0)
    }
}

impl Div<Seconds> for Bytes {
    type Output = Rate;
    fn div(self, time: Seconds) -> Rate {
        Rate(self.0 / time.0)
    }
}

impl Div<Rate> for Bytes {
    type Output = Seconds;
    fn div(self, rate: Rate) -> Seconds {
        Seconds(self.0 / rate.0)
    }
}
