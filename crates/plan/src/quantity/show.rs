//! Formats quantities for users: three digits, and a suitable unit.

use std::fmt;

use super::{Bytes, DAY, Dollars, Frequency, Rate, Seconds, YEAR};

/// Formats three significant digits, without an exponent: `0.0131`, `2.5`, `384`, `12,345`.
pub fn significant(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() { "?" } else { "unbounded" }.to_owned();
    }
    let size = value.abs();
    if size >= 99.95 {
        return grouped(value.round());
    }
    if size == 0.0 {
        return "0".to_owned();
    }
    let mut digits = 0;
    let mut bound = 99.95;
    while size < bound && digits < 12 {
        digits += 1;
        bound /= 10.0;
    }
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// Formats a whole number with commas.
pub fn count(value: f64) -> String {
    if value.is_finite() {
        grouped(value.round())
    } else {
        significant(value)
    }
}

/// Formats whole dollars, or three digits below a hundred.
pub fn dollars(value: Dollars) -> String {
    let Dollars(value) = value;
    match value.abs() {
        size if !size.is_finite() => significant(value),
        size if size < 100.0 => format!("${}", significant(value)),
        _ => format!("${}", grouped(value.round())),
    }
}

fn grouped(value: f64) -> String {
    let plain = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (at, digit) in plain.chars().enumerate() {
        if at > 0 && (plain.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 {
        format!("-{text}")
    } else {
        text
    }
}

/// Returns the value in the largest unit in which it is at least one.
fn scaled<'a>(value: f64, steps: &[(f64, &'a str)]) -> (f64, &'a str) {
    let fits = steps
        .iter()
        .rev()
        .find(|(factor, _)| value.abs() >= factor * 0.9995);
    let (factor, name) = fits.or(steps.first()).copied().unwrap_or((1.0, ""));
    (value / factor, name)
}

const BYTE_STEPS: &[(f64, &str)] = &[
    (1.0, "B"),
    (1e3, "KB"),
    (1e6, "MB"),
    (1e9, "GB"),
    (1e12, "TB"),
    (1e15, "PB"),
];

impl fmt::Display for Bytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = scaled(self.0, BYTE_STEPS);
        write!(formatter, "{} {unit}", significant(value))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // At most gigabytes, also for a fleet: rates of devices are given in them.
        let steps = BYTE_STEPS.get(..4).unwrap_or(BYTE_STEPS);
        let (value, unit) = scaled(self.0, steps);
        write!(formatter, "{} {unit}/s", significant(value))
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Lower bound, size and name of each unit. Bursts of up to some minutes are compared in
        // seconds.
        const STEPS: [(f64, f64, &str); 6] = [
            (2.0 * YEAR.0, YEAR.0, "years"),
            (2.0 * DAY.0, DAY.0, "d"),
            (7200.0, 3600.0, "h"),
            (600.0, 60.0, "min"),
            (1.0, 1.0, "s"),
            (0.0, 1e-3, "ms"),
        ];
        if !self.0.is_finite() {
            return formatter.write_str("without end");
        }
        let fits = STEPS.iter().find(|(from, ..)| self.0.abs() >= *from);
        let (_, factor, unit) = fits.copied().unwrap_or((0.0, 1.0, "s"));
        write!(formatter, "{} {unit}", significant(self.0 / factor))
    }
}

impl fmt::Display for Frequency {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = scaled(self.0, &[(1.0, ""), (1e3, " K"), (1e6, " M"), (1e9, " G")]);
        write!(formatter, "{}{unit}/s", significant(value))
    }
}

impl fmt::Display for Dollars {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&dollars(*self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_unit_that_suits() {
        for (value, expect) in [
            (0.013_149, "0.0131"),
            (2.5, "2.5"),
            (384.0, "384"),
            (11_818.2, "11,818"),
            (99.99, "100"),
            (0.0, "0"),
            (-7.0, "-7"),
        ] {
            assert_eq!(significant(value), expect);
        }
        assert_eq!(Bytes(670e9).to_string(), "670 GB");
        assert_eq!(Rate(800e9).to_string(), "800 GB/s");
        assert_eq!(Rate(384e12).to_string(), "384,000 GB/s");
        assert_eq!(Seconds(44.67).to_string(), "44.7 s");
        assert_eq!(Seconds(900.0).to_string(), "15 min");
        assert_eq!(Seconds(f64::INFINITY).to_string(), "without end");
        assert_eq!(Frequency(1.6e6).to_string(), "1.6 M/s");
        assert_eq!(dollars(Dollars(1_360_000.0)), "$1,360,000");
        assert_eq!(dollars(Dollars(0.0816)), "$0.0816");
    }
}
