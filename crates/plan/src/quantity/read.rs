//! Parses quantities as users write them: `240 KB`, `1.6 M/s`, `100 Gb/s`, `62.5 s`, `7 d`.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};

use super::{Bytes, DAY, Rate, Seconds, YEAR};

/// Larger than any planned quantity, and far below the largest f64.
const HIGHEST: f64 = 1e24;

/// Why a text is not a quantity.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum QuantityError {
    /// The unit is missing.
    #[error("{text:?}: {text} of what? write a unit, as in {example:?}")]
    NoUnit {
        /// The text.
        text: String,
        /// A valid example.
        example: &'static str,
    },
    /// The unit is unknown, or one of another quantity.
    #[error("{text:?}: there is no unit {unit:?} here; allowed: {allowed}")]
    Unit {
        /// The text.
        text: String,
        /// The unit in it.
        unit: String,
        /// The allowed units.
        allowed: &'static str,
    },
    /// A comma does not stand between thousands.
    #[error(
        "{text:?}: a comma only groups thousands, as in \"1,500 MB\"; write a point before decimals"
    )]
    Comma {
        /// The text.
        text: String,
    },
    /// The number is invalid or out of range.
    #[error("{text:?}: allowed: 0 to 10^24, as in {example:?}")]
    Number {
        /// The text.
        text: String,
        /// A valid example.
        example: &'static str,
    },
}

/// A number per second.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Default, serde::Serialize)]
pub struct Frequency(pub f64);

/// The syntax of a kind of quantity.
struct Kind {
    example: &'static str,
    allowed: &'static str,
    factor: fn(&str) -> Option<f64>,
}

impl Kind {
    fn read(&self, text: &str) -> Result<f64, QuantityError> {
        let trimmed = text.trim();
        let (number, unit) = divided(trimmed);
        let wrong = || QuantityError::Number {
            text: trimmed.to_owned(),
            example: self.example,
        };
        if !is_grouped(number) {
            return Err(QuantityError::Comma {
                text: trimmed.to_owned(),
            });
        }
        let number: f64 = number
            .replace(['_', ','], "")
            .parse()
            .map_err(|_| wrong())?;
        if !number.is_finite() || number < 0.0 {
            return Err(wrong());
        }
        if unit.is_empty() {
            return Err(QuantityError::NoUnit {
                text: trimmed.to_owned(),
                example: self.example,
            });
        }
        let factor = (self.factor)(unit).ok_or_else(|| QuantityError::Unit {
            text: trimmed.to_owned(),
            unit: unit.to_owned(),
            allowed: self.allowed,
        })?;
        let value = number * factor;
        if value > HIGHEST {
            return Err(wrong());
        }
        Ok(value)
    }
}

/// Returns true if each comma of a number is followed by three digits: `2,5` means two and a half
/// to many people, and is not read as twenty-five.
fn is_grouped(number: &str) -> bool {
    let mut groups = number.split(',').skip(1).peekable();
    while let Some(group) = groups.next() {
        let digits = group.bytes().take_while(u8::is_ascii_digit).count();
        if digits != 3 || (groups.peek().is_some() && group.len() != 3) {
            return false;
        }
    }
    true
}

/// Splits a text into number and unit.
fn divided(text: &str) -> (&str, &str) {
    let is_number = |letter: char| letter.is_ascii_digit() || "+-.,_".contains(letter);
    let is_exponent = |at: usize, letter: char| {
        let next = text.get(at + 1..).and_then(|rest| rest.chars().next());
        "eE".contains(letter)
            && next.is_some_and(|next| next.is_ascii_digit() || "+-".contains(next))
    };
    let end = text
        .char_indices()
        .find(|(at, letter)| !is_number(*letter) && !is_exponent(*at, *letter))
        .map_or(text.len(), |(at, _)| at);
    let (number, unit) = (text.get(..end), text.get(end..));
    (number.unwrap_or_default(), unit.unwrap_or_default().trim())
}

/// Returns the factor of a prefix; with `i` it is a power of 1,024.
fn prefix(text: &str) -> Option<f64> {
    Some(match text {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => 1024.0,
        "Mi" => 1_048_576.0,
        "Gi" => 1_073_741_824.0,
        "Ti" => 1_099_511_627_776.0,
        "Pi" => 1_125_899_906_842_624.0,
        _ => return None,
    })
}

fn byte_factor(unit: &str) -> Option<f64> {
    if let Some(before) = unit.strip_suffix('B') {
        return prefix(before);
    }
    prefix(unit.strip_suffix('b')?).map(|factor| factor / 8.0)
}

const BYTES: Kind = Kind {
    example: "240 KB",
    allowed: "B, KB, MB, GB, TB, PB (of 1,000), KiB, MiB, GiB, TiB, PiB (of 1,024)",
    // A lower-case b is a bit: no size is written in bits.
    factor: |unit| prefix(unit.strip_suffix('B')?),
};

const RATE: Kind = Kind {
    example: "2.5 GB/s",
    allowed: "B/s, KB/s, MB/s, GB/s, TB/s, MiB/s, GiB/s; Mb/s, Gb/s, Tb/s (bits); TB/day",
    factor: |unit| {
        if let Some(before) = unit.strip_suffix("/day") {
            return byte_factor(before).map(|factor| factor / DAY.0);
        }
        byte_factor(unit.strip_suffix("/s")?)
    },
};

const SECONDS: Kind = Kind {
    example: "15 min",
    allowed: "us, ms, s, min, h, d, weeks, years",
    factor: |unit| {
        Some(match unit {
            "us" => 1e-6,
            "ms" => 1e-3,
            "s" | "second" | "seconds" => 1.0,
            "min" | "minute" | "minutes" => 60.0,
            "h" | "hour" | "hours" => 3600.0,
            "d" | "day" | "days" => DAY.0,
            "week" | "weeks" => 7.0 * DAY.0,
            "year" | "years" => YEAR.0,
            _ => return None,
        })
    },
};

const FREQUENCY: Kind = Kind {
    example: "1.6 M/s",
    allowed: "/s, K/s, M/s, G/s, /day",
    factor: |unit| {
        if let Some(before) = unit.strip_suffix("/day") {
            return prefix(before.trim()).map(|factor| factor / DAY.0);
        }
        prefix(unit.strip_suffix("/s")?.trim())
    },
};

/// Deserializes a text of this kind.
struct WrittenQuantity(&'static Kind);

impl Visitor<'_> for WrittenQuantity {
    type Value = f64;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a text with a unit, as in {:?}", self.0.example)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<f64, E> {
        self.0.read(text).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<f64, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<f64, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<f64, E> {
        self.visit_str(&number.to_string())
    }
}

macro_rules! readable {
    ($name:ident, $kind:ident) => {
        impl std::str::FromStr for $name {
            type Err = QuantityError;
            fn from_str(text: &str) -> Result<Self, QuantityError> {
                $kind.read(text).map(Self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer
                    .deserialize_any(WrittenQuantity(&$kind))
                    .map(Self)
            }
        }
    };
}

readable!(Bytes, BYTES);
readable!(Rate, RATE);
readable!(Seconds, SECONDS);
readable!(Frequency, FREQUENCY);

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn rate(text: &str, expect: f64) {
        assert_eq!(text.parse(), Ok(Rate(expect)), "{text}");
    }

    #[test]
    fn units_are_of_a_thousand_unless_they_say_ki() {
        assert_eq!("240 KB".parse(), Ok(Bytes(240_000.0)));
        assert_eq!("240KiB".parse(), Ok(Bytes(245_760.0)));
        assert_eq!("1e3 B".parse(), Ok(Bytes(1000.0)));
        rate("2.5 GB/s", 2.5e9);
        rate("100 Gb/s", 12.5e9);
        let daily: Rate = "86.4 TB/day".parse().unwrap();
        assert!((daily.0 - 1e9).abs() < 1e-3);
        assert_eq!("62.5 s".parse(), Ok(Seconds(62.5)));
        assert_eq!("7 d".parse(), Ok(Seconds(604_800.0)));
        assert_eq!("1.6 M/s".parse(), Ok(Frequency(1.6e6)));
        assert_eq!("13,000,000 /s".parse(), Ok(Frequency(1.3e7)));
    }

    #[test]
    fn a_number_alone_is_asked_for_its_unit() {
        let said = "240".parse::<Bytes>().unwrap_err().to_string();
        assert!(said.contains("240 of what?"), "{said}");
        assert!(said.contains("240 KB"), "{said}");
    }

    #[test]
    fn a_decimal_comma_is_not_read_as_ten_times_as_much() {
        for text in [
            "2,5 GB/s",
            "1,50 GB/s",
            "1,5000 GB/s",
            "1,2,345 GB/s",
            "1, GB/s",
        ] {
            let said = text.parse::<Rate>().unwrap_err().to_string();
            assert!(said.contains("point before decimals"), "{text}: {said}");
        }
        rate("1,500.5 MB/s", 1.5005e9);
        rate("1,500e3 B/s", 1.5e6);
    }

    #[test]
    fn a_size_in_bits_is_refused() {
        for text in ["240 Kb", "30 Tb", "8 b"] {
            let said = text.parse::<Bytes>().unwrap_err().to_string();
            assert!(said.contains("allowed: B, KB"), "{text}: {said}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused_with_what_is_allowed() {
        for text in [
            "",
            "GB/s",
            "-1 GB/s",
            "1 GB",
            "NaN GB/s",
            "inf GB/s",
            "1e30 GB/s",
            "1..2 GB/s",
            "1 furlong/s",
        ] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
        let said = "1 GB".parse::<Rate>().unwrap_err().to_string();
        assert!(said.contains("MB/s"), "{said}");
    }

    proptest::proptest! {
        #[test]
        fn any_text_gives_a_value_or_a_reason(text in ".*") {
            let rate = text.parse::<Rate>();
            proptest::prop_assert!(rate.is_err() || rate.is_ok_and(|rate| (0.0..=1e24).contains(&rate.0)));
        }
    }
}
