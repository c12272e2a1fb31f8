//! Amounts of bytes as people write them: `240KB`, `1MiB`, `1.5e9`. KB is 1000 bytes, KiB 1024.

/// Parses an amount of bytes, or of bytes per second.
pub(super) fn bytes(text: &str) -> Result<f64, String> {
    let text = text.trim().trim_end_matches("/s");
    // The `e` of an exponent does not begin a unit.
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic() && !matches!(c, 'e' | 'E'));
    let (number, unit) = text.split_at(unit_at.unwrap_or(text.len()));
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        _ => {
            return Err(format!(
                "{unit:?} is no unit of bytes: KB, MB, GB, KiB, MiB, GiB are"
            ));
        }
    };
    let number = number.trim().replace('_', "");
    match number.parse::<f64>() {
        Ok(number) if number >= 0.0 && number.is_finite() => Ok(number * factor),
        _ => Err(format!("{text:?} is no amount of bytes")),
    }
}

/// Parses a whole number of bytes.
pub(super) fn whole(text: &str) -> Result<u64, String> {
    let bytes = bytes(text)?;
    if bytes.fract() > 0.0 {
        return Err(format!("{text:?} is no whole number of bytes"));
    }
    Ok(bytes as u64)
}

/// Parses a [`whole`] number of bytes that fits 32 bits.
pub(super) fn small(text: &str) -> Result<u32, String> {
    u32::try_from(whole(text)?).map_err(|_| format!("{text:?} is more than 4 GiB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_mean_what_they_say() {
        for (text, expected) in [
            ("240KB", 240e3),
            ("1MiB", 1_048_576.0),
            ("1.5 GB/s", 1.5e9),
            ("1e6", 1e6),
            ("10_000", 1e4),
            ("7b", 7.0),
        ] {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for text in ["", "KB", "-1", "3 parsecs", "1e", "inf"] {
            assert!(bytes(text).is_err(), "{text}");
        }
        assert!(whole("0.0001KB").unwrap_err().contains("whole"));
        assert!(small("5GiB").unwrap_err().contains("4 GiB"));
    }
}
