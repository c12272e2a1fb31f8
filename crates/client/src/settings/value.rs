//! Values of properties: numbers, times, sizes, yes and no, words.

use std::time::Duration;

use crate::error::ClientError;

/// The longest time that a property may set: a year. librdkafka's `-1` and Java's largest numbers
/// mean this.
const LONGEST: Duration = Duration::from_hours(366 * 24);

/// Returns an error that shows the value.
pub(super) fn wrong(key: &str, value: &str, wanted: &str) -> ClientError {
    ClientError::invalid(key, format!("{value:?} is not {wanted}"))
}

/// Reads a number of milliseconds; fractions are rounded down, as librdkafka takes them.
pub(super) fn ms(key: &str, value: &str) -> Result<Duration, ClientError> {
    let whole = value.split_once('.').map_or(value, |(whole, fraction)| {
        let is_number = fraction.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { whole } else { value }
    });
    match whole.parse::<i64>() {
        Ok(-1) => Ok(LONGEST),
        Ok(ms) if ms >= 0 => Ok(Duration::from_millis(ms.unsigned_abs()).min(LONGEST)),
        _ => Err(wrong(key, value, "a number of milliseconds")),
    }
}

/// Reads a number from `min` to `max`.
pub(super) fn number<T: TryFrom<i64>>(
    key: &str,
    value: &str,
    min: i64,
    max: i64,
) -> Result<T, ClientError> {
    let number = value.parse::<i64>().ok();
    let number = number.filter(|number| (min..=max).contains(number));
    let number = number.and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| wrong(key, value, &format!("a number from {min} to {max}")))
}

/// Reads yes or no.
pub(super) fn flag(key: &str, value: &str) -> Result<bool, ClientError> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "t" | "1" => Ok(true),
        "false" | "f" | "0" => Ok(false),
        _ => Err(wrong(key, value, "true or false")),
    }
}

/// Returns what belongs to a word.
pub(super) fn word<T: Copy>(key: &str, value: &str, words: &[(&str, T)]) -> Result<T, ClientError> {
    let lower = value.to_ascii_lowercase();
    let found = words.iter().find(|(word, _)| *word == lower);
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        wrong(key, value, &format!("one of {}", words.join(", ")))
    })
}

/// Returns a text that is not empty; an empty one unsets.
pub(super) fn text(value: &str) -> Option<String> {
    (!value.is_empty()).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_or_shown() {
        assert_eq!(ms("linger.ms", "0.5"), Ok(Duration::ZERO));
        assert_eq!(ms("linger.ms", "20"), Ok(Duration::from_millis(20)));
        assert_eq!(ms("x", "-1"), Ok(LONGEST));
        assert_eq!(ms("x", &i64::MAX.to_string()), Ok(LONGEST));
        assert!(ms("x", "-2").is_err() && ms("x", "1.x").is_err() && ms("x", "").is_err());
        assert_eq!(number::<i32>("x", "7", 1, 7), Ok(7));
        let error = number::<i32>("batch.size", "8", 1, 7).unwrap_err();
        assert_eq!(
            error.to_string(),
            "batch.size: \"8\" is not a number from 1 to 7"
        );
        assert_eq!(flag("x", "True"), Ok(true));
        assert!(flag("x", "yes").is_err());
        let error = word("acks", "2", &[("0", 0), ("all", -1)]).unwrap_err();
        assert_eq!(error.to_string(), "acks: \"2\" is not one of 0, all");
    }
}
