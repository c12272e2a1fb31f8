//! Reads and writes moments: milliseconds since 1970 or a date.
//!
//! All dates are in UTC.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

/// Reads `1700000000000`, `2026-11-21`, or `2026-11-21T12:30:00` with an optional `.250` and `Z`,
/// in UTC.
pub(crate) fn parse(text: &str) -> Result<i64, String> {
    if let Ok(ms) = text.parse::<i64>() {
        return Ok(ms);
    }
    let plain = text.strip_suffix('Z').unwrap_or(text);
    let at = plain
        .parse::<DateTime>()
        .and_then(|civil| Offset::UTC.to_timestamp(civil));
    at.map(Timestamp::as_millisecond).map_err(|_| {
        format!("{text:?} is no moment: milliseconds since 1970, or 2026-11-21T12:30:00Z (UTC)")
    })
}

/// Writes `2026-11-21T12:30:00.250Z`; a moment outside of the calendar is written in milliseconds.
pub(crate) fn utc(ms: i64) -> String {
    Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |at| format!("{at:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_that_calendars_agree_on() {
        for (text, ms) in [
            ("1970-01-01T00:00:00.000Z", 0),
            ("2000-02-29T00:00:00.000Z", 951_782_400_000),
            ("2026-09-21T14:13:20.000Z", 1_790_000_000_000),
            ("1969-12-31T23:59:59.999Z", -1),
            ("2100-02-28T23:59:59.999Z", 4_107_542_399_999),
        ] {
            assert_eq!(parse(text), Ok(ms));
            assert_eq!(utc(ms), text);
        }
        assert_eq!(parse("1700000000000"), Ok(1_700_000_000_000));
        assert_eq!(parse("2000-02-29"), Ok(951_782_400_000));
        assert_eq!(parse("2000-02-29 00:01"), Ok(951_782_460_000));
        assert_eq!(parse("2000-02-29T00:00:00.5"), Ok(951_782_400_500));
    }

    #[test]
    fn what_is_no_date_is_refused() {
        for text in [
            "",
            "yesterday",
            "2026-13-01",
            "2026-02-30",
            "2026-01-01T24:00:00",
            "2026-01-01T1:2:3:4",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
