//! Moments: milliseconds since 1970 or a date in UTC, read and written.

const DAY_MS: i64 = 86_400_000;

/// Reads `1700000000000`, `2026-11-21`, `2026-11-21T12:30:00` or the same with `.250` or `Z` behind; UTC.
pub(crate) fn parse(text: &str) -> Result<i64, String> {
    let wrong =
        || format!("{text:?} is no moment: milliseconds since 1970, or 2026-11-21T12:30:00Z (UTC)");
    if let Ok(ms) = text.parse::<i64>() {
        return Ok(ms);
    }
    let plain = text.strip_suffix('Z').unwrap_or(text);
    let (date, time) = plain.split_once(['T', ' ']).unwrap_or((plain, "0:0:0"));
    let numbers = |part: &str, separator: char| -> Option<Vec<i64>> {
        let numbers = part.split(separator).map(|number| number.parse().ok());
        numbers.collect()
    };
    let (clock, ms) = match time.split_once('.') {
        Some((clock, fraction)) if (1..=3).contains(&fraction.len()) => {
            let ms = format!("{fraction:0<3}")
                .parse::<u16>()
                .map_err(|_| wrong())?;
            (clock, i64::from(ms))
        }
        Some(_) => return Err(wrong()),
        None => (time, 0),
    };
    let date = numbers(date, '-').ok_or_else(wrong)?;
    let clock = numbers(clock, ':').ok_or_else(wrong)?;
    let (&[year, month @ 1..=12, day @ 1..=31], &[hour @ 0..=23, minute @ 0..=59, ref rest @ ..]) =
        (&date[..], &clock[..])
    else {
        return Err(wrong());
    };
    let second = match rest {
        [] => 0,
        [second @ 0..=59] => *second,
        _ => return Err(wrong()),
    };
    let days = days(year, month, day);
    if civil(days) != (year, month, day) {
        return Err(wrong());
    }
    Ok(days * DAY_MS + ((hour * 60 + minute) * 60 + second) * 1000 + ms)
}

/// `2026-11-21T12:30:00.250Z`.
pub(crate) fn utc(ms: i64) -> String {
    let (days, of_day) = (ms.div_euclid(DAY_MS), ms.rem_euclid(DAY_MS));
    let (year, month, day) = civil(days);
    let (second, ms) = (of_day / 1000, of_day % 1000);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

// Both count from 1 March of year 0, so that a leap day is the last of its year; 400 years are one cycle.

fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (cycle, of_cycle) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    cycle * 146_097 + of_cycle * 365 + of_cycle / 4 - of_cycle / 100 + of_year - 719_468
}

fn civil(days: i64) -> (i64, i64, i64) {
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
    (
        cycle * 400 + year_of_cycle + i64::from(month <= 2),
        month,
        day,
    )
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
