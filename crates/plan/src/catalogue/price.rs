//! A price: dollars, the unit that they pay for, the month, and the source.

use std::fmt;

use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize, Serializer};

use crate::quantity::{Bytes, Dollars, MONTH_HOURS};

/// Age above which a price causes a warning.
pub const WARN_MONTHS: i32 = 6;

/// Age above which a price is not used unless the plan asks for it.
pub const STALE_MONTHS: i32 = 18;

/// A price.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Dollars.
    pub usd: f64,
    /// The unit.
    #[serde(default)]
    pub per: PriceUnit,
    /// The month.
    pub date: Month,
    /// Its source; without it an assumption.
    pub source: Option<String>,
    /// Quality of the source.
    #[serde(default)]
    pub confidence: Confidence,
    /// Earlier prices: month and dollars.
    #[serde(default)]
    pub history: Vec<(Month, f64)>,
}

/// The unit that a price pays for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
pub enum PriceUnit {
    /// Purchase of one.
    #[default]
    #[serde(rename = "piece")]
    Piece,
    /// Purchase of 10^9 bytes.
    #[serde(rename = "GB")]
    Gigabyte,
    /// Rent of one for an hour.
    #[serde(rename = "hour")]
    Hour,
    /// Rent of 10^9 bytes for a month.
    #[serde(rename = "GB-month")]
    GigabyteMonth,
}

/// Quality of a source.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Published by the seller, or by a statistic.
    #[default]
    High,
    /// Second hand, derived, or assumed.
    Low,
}

impl Price {
    /// Returns the dollars to buy one of this capacity.
    pub fn purchase(&self, capacity: Bytes) -> Dollars {
        match self.per {
            PriceUnit::Piece => Dollars(self.usd),
            PriceUnit::Gigabyte => Dollars(self.usd * capacity.0 / 1e9),
            PriceUnit::Hour | PriceUnit::GigabyteMonth => Dollars::ZERO,
        }
    }

    /// Returns the dollars per month to rent one of this capacity.
    pub fn month(&self, capacity: Bytes) -> Dollars {
        match self.per {
            PriceUnit::Hour => Dollars(self.usd * MONTH_HOURS),
            PriceUnit::GigabyteMonth => Dollars(self.usd * capacity.0 / 1e9),
            PriceUnit::Piece | PriceUnit::Gigabyte => Dollars::ZERO,
        }
    }

    /// Returns the months since the date of the price.
    pub fn age(&self, today: Month) -> i32 {
        today.0.saturating_sub(self.date.0)
    }
}

/// A month, as the number of months since the year 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Month(pub i32);

impl Month {
    /// Returns a month from a year and a month counted from 1.
    pub fn new(year: i32, month: i32) -> Option<Self> {
        let sound = (1900..=9999).contains(&year) && (1..=12).contains(&month);
        sound.then(|| Self(year * 12 + month - 1))
    }

    /// Returns the month of a day, given as days since 1970-01-01.
    pub fn of_day(days: i64) -> Option<Self> {
        // The civil calendar, in eras of 400 years and years that start in March.
        let days = days.checked_add(719_468)?;
        let era = days.div_euclid(146_097);
        let of_era = days.rem_euclid(146_097);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let (month, later) = if from_march < 10 {
            (from_march + 3, 0)
        } else {
            (from_march - 9, 1)
        };
        let year = year_of_era + era * 400 + later;
        Self::new(i32::try_from(year).ok()?, i32::try_from(month).ok()?)
    }
}

impl fmt::Display for Month {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}-{:02}",
            self.0.div_euclid(12),
            self.0.rem_euclid(12) + 1
        )
    }
}

impl std::str::FromStr for Month {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('-');
        let month = parts.and_then(|(year, month)| {
            // A day may follow: 2026-11-22.
            let month = month.split('-').next()?;
            Self::new(year.parse().ok()?, month.parse().ok()?)
        });
        month.ok_or_else(|| format!("{text:?} is no month; write it as \"2026-03\""))
    }
}

impl<'de> Deserialize<'de> for Month {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl Serialize for Month {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
