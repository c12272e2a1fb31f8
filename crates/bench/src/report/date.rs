//! Days and minutes in UTC from milliseconds since 1970, as a report is dated.

const DAY_MS: i64 = 86_400_000;

/// `2026-11-21 12:30 UTC`.
pub(super) fn utc(ms: i64) -> String {
    let (days, of_day) = (ms.div_euclid(DAY_MS), ms.rem_euclid(DAY_MS));
    let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

/// Year, month and day of a number of days since 1970, in the Gregorian calendar.
fn civil(days: i64) -> (i64, i64, i64) {
    // Counted from 1 March of year 0, so that a leap day is the last of its year; 400 years are one cycle.
    let from_march = days + 719_468;
    let (cycle, of_cycle) = (
        from_march.div_euclid(146_097),
        from_march.rem_euclid(146_097),
    );
    let year_of_cycle =
        (of_cycle - of_cycle / 1_460 + of_cycle / 36_524 - of_cycle / 146_096) / 365;
    let of_year = of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = cycle * 400 + year_of_cycle + i64::from(month <= 2);
    (year, month, day)
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
    }
}
