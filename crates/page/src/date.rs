//! Formats milliseconds since 1970 as days and minutes in UTC, for the dates of reports.

use jiff::Timestamp;

/// Returns a date such as `2026-11-21 12:30 UTC`; a time outside the calendar is returned as
/// milliseconds.
pub fn utc(ms: i64) -> String {
    Timestamp::from_millisecond(ms).map_or_else(
        |_| ms.to_string(),
        |at| at.strftime("%Y-%m-%d %H:%M UTC").to_string(),
    )
}

/// Returns a moment such as `2026-11-21T12:30:05.123Z`, as programs read it; a time outside the
/// calendar is returned as milliseconds.
pub fn utc_exact(ms: i64) -> String {
    Timestamp::from_millisecond(ms).map_or_else(
        |_| ms.to_string(),
        |at| at.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_that_calendars_agree_on() {
        assert_eq!(utc(0), "1970-01-01 00:00 UTC");
        assert_eq!(utc(951_782_400_000), "2000-02-29 00:00 UTC");
        assert_eq!(utc(1_790_000_000_000), "2026-09-21 14:13 UTC");
        assert_eq!(utc(-1), "1969-12-31 23:59 UTC");
        assert_eq!(utc(4_107_542_399_999), "2100-02-28 23:59 UTC");
        assert_eq!(utc_exact(1_790_000_000_007), "2026-09-21T14:13:20.007Z");
        assert_eq!(utc_exact(i64::MAX), i64::MAX.to_string());
    }
}
