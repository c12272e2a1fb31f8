//! Formats numbers for readers: three significant digits, fitting units, never NaN or infinity.
//!
//! Invariant: whatever the value, the result is short ASCII without an exponent.

/// The text in place of a number that does not exist.
pub const NONE: &str = "n/a";

/// A number beyond this is not a measured value.
const LARGEST: f64 = 1e15;

/// A unit, as a multiple of the plain unit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Unit {
    /// The number of plain units.
    pub factor: f64,
    /// The text behind a figure.
    pub name: &'static str,
}

/// The kind of a value, which determines its units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Quantity {
    /// Bytes per second.
    Rate,
    /// Bytes.
    Bytes,
    /// Microseconds.
    Latency,
    /// Seconds.
    Time,
    /// Processor seconds per GB.
    CpuPerGb,
    /// Anything without a unit.
    Plain,
}

impl Quantity {
    fn units(self) -> &'static [(f64, &'static str)] {
        match self {
            Quantity::Rate => &[(1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")],
            Quantity::Bytes => &[
                (1e12, "TB"),
                (1e9, "GB"),
                (1e6, "MB"),
                (1e3, "kB"),
                (1.0, "B"),
            ],
            Quantity::Latency => &[(1e6, "s"), (1e3, "ms"), (1.0, "us")],
            Quantity::Time => &[(3600.0, "h"), (60.0, "min"), (1.0, "s")],
            Quantity::CpuPerGb => &[(1.0, "s/GB")],
            Quantity::Plain => &[(1.0, "")],
        }
    }

    /// Returns the unit for an axis that ends at `high`: the largest unit in which `high` is not a
    /// fraction.
    pub fn unit(self, high: f64) -> Unit {
        let units = self.units();
        // 400 MB/s reads better than 0.4 GB/s, and 120 s better than 2 min.
        let least = if self == Quantity::Time { 3.0 } else { 1.0 };
        let fits = units.iter().find(|(factor, _)| high >= factor * least);
        let (factor, name) = *fits.unwrap_or(&units[units.len() - 1]);
        Unit { factor, name }
    }

    /// Returns a value with its unit.
    pub fn show(self, value: f64) -> String {
        if !value.is_finite() {
            return NONE.to_owned();
        }
        let unit = self.unit(value.abs());
        let digits = significant(value / unit.factor);
        if unit.name.is_empty() {
            digits
        } else {
            format!("{digits} {}", unit.name)
        }
    }
}

/// Returns three significant digits, without an exponent and trailing zeros.
pub fn significant(value: f64) -> String {
    if !value.is_finite() || value.abs() > LARGEST {
        return NONE.to_owned();
    }
    if value.abs() < 1e-6 {
        return "0".to_owned();
    }
    // At most 6 decimal places: the value is above a millionth.
    let places = match value.abs() {
        large if large >= 99.95 => 0,
        large if large >= 9.995 => 1,
        large if large >= 0.9995 => 2,
        large if large >= 0.09995 => 3,
        large if large >= 0.009_995 => 4,
        _ => 6,
    };
    trimmed(&format!("{value:.places$}"))
}

/// Returns a ratio with two significant digits; a third would suggest a precision that is not
/// there.
pub fn ratio(value: f64) -> String {
    if !value.is_finite() || value > LARGEST {
        return NONE.to_owned();
    }
    match value {
        large if large >= 9.95 => format!("{large:.0}x"),
        large if large >= 1.95 => format!("{large:.1}x"),
        small => format!("{small:.2}x"),
    }
}

/// Returns a count with commas between groups of three digits.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Returns a coordinate; a tenth of a pixel is precise enough.
pub fn coordinate(value: f64) -> String {
    let rounded = format!("{value:.1}");
    let short = trimmed(&rounded);
    if short == "-0" { "0".to_owned() } else { short }
}

fn trimmed(digits: &str) -> String {
    if digits.contains('.') {
        digits
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned()
    } else {
        digits.to_owned()
    }
}

/// Returns true when two numbers are the same because both were parsed from the same text.
pub fn same(one: f64, two: f64) -> bool {
    one.total_cmp(&two).is_eq()
}

/// Returns a size, exact if it is a multiple of a unit: 1,024 is 1 KiB and 1,000 is 1 kB.
pub fn size(bytes: u64) -> String {
    for (factor, unit) in [
        (1 << 30, "GiB"),
        (1_000_000_000, "GB"),
        (1 << 20, "MiB"),
        (1_000_000, "MB"),
        (1 << 10, "KiB"),
        (1_000, "kB"),
    ] {
        if bytes >= factor && bytes.is_multiple_of(factor) {
            return format!("{} {unit}", bytes / factor);
        }
    }
    if bytes >= 10_000 {
        return Quantity::Bytes.show(bytes as f64);
    }
    format!("{bytes} B")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn three_digits_and_a_unit() {
        assert_eq!(Quantity::Rate.show(1.5234e9), "1.52 GB/s");
        assert_eq!(Quantity::Rate.show(401.7e6), "402 MB/s");
        assert_eq!(Quantity::Latency.show(950.0), "950 us");
        assert_eq!(Quantity::Latency.show(12_345.0), "12.3 ms");
        assert_eq!(Quantity::Latency.show(2.0e6), "2 s");
        assert_eq!(Quantity::Time.show(90.0), "90 s");
        assert_eq!(Quantity::Time.show(1_800.0), "30 min");
        assert_eq!(Quantity::CpuPerGb.show(0.134), "0.134 s/GB");
        assert_eq!(Quantity::Rate.show(f64::NAN), NONE);
        assert_eq!(Quantity::Rate.show(f64::INFINITY), NONE);
    }

    #[test]
    fn sizes_are_exact() {
        for (bytes, shown) in [
            (240_000, "240 kB"),
            (245_760, "240 KiB"),
            (1_024, "1 KiB"),
            (100, "100 B"),
        ] {
            assert_eq!(size(bytes), shown);
        }
    }

    #[test]
    fn ratios_and_counts() {
        assert_eq!(ratio(0.731), "0.73x");
        assert_eq!(ratio(3.83), "3.8x");
        assert_eq!(ratio(12.4), "12x");
        assert_eq!(ratio(f64::INFINITY), NONE);
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(999), "999");
    }

    proptest! {
        #[test]
        fn never_more_than_a_number(value in any::<f64>()) {
            for quantity in [Quantity::Rate, Quantity::Bytes, Quantity::Latency, Quantity::Time] {
                let text = quantity.show(value);
                prop_assert!(!text.contains("NaN") && !text.contains("inf") && !text.contains('e'), "{text}");
                prop_assert!(text.len() <= 24, "{text}");
            }
            let text = ratio(value);
            prop_assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        }
    }
}
