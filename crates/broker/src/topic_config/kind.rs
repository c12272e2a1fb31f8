//! Parses a text as a kind of setting, and formats it as Kafka shows it.
//!
//! Invariant: a text of a kind has one canonical form of that kind. It does not know settings.

use crate::options::ConfigKind;

/// Why a setting is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSetting(pub String);

/// Checks that `text` has the form of `kind`; returns it as Kafka shows it.
pub(crate) fn parse_kind(
    name: &str,
    kind: ConfigKind,
    text: &str,
) -> Result<String, InvalidSetting> {
    canonical(kind, text).ok_or_else(|| not_of_kind(name, kind, text))
}

/// Parses a whole number.
pub(crate) fn parse_whole(name: &str, kind: ConfigKind, text: &str) -> Result<i64, InvalidSetting> {
    let number = parse_kind(name, kind, text)?.parse();
    number.map_err(|_| not_of_kind(name, kind, text))
}

/// Parses any number.
pub(super) fn parse_number(
    name: &str,
    kind: ConfigKind,
    text: &str,
) -> Result<f64, InvalidSetting> {
    let number = parse_kind(name, kind, text)?.parse();
    number.map_err(|_| not_of_kind(name, kind, text))
}

fn not_of_kind(name: &str, kind: ConfigKind, text: &str) -> InvalidSetting {
    let message = match kind {
        ConfigKind::Boolean => "Expected value to be either true or false".to_owned(),
        kind => format!(
            "Not a number of type {}",
            format!("{kind:?}").to_ascii_uppercase()
        ),
    };
    invalid(name, text, &message)
}

/// Returns the text as Kafka shows it after parsing; `None` if it is not of that kind.
pub(crate) fn canonical(kind: ConfigKind, text: &str) -> Option<String> {
    let trimmed = text.trim();
    Some(match kind {
        ConfigKind::Boolean => {
            let lower = trimmed.to_ascii_lowercase();
            matches!(lower.as_str(), "true" | "false").then_some(lower)?
        }
        ConfigKind::Short => trimmed.parse::<i16>().ok()?.to_string(),
        ConfigKind::Int => trimmed.parse::<i32>().ok()?.to_string(),
        ConfigKind::Long => trimmed.parse::<i64>().ok()?.to_string(),
        ConfigKind::Double => fraction(trimmed.parse::<f64>().ok()?),
        ConfigKind::List => parts(trimmed).collect::<Vec<_>>().join(","),
        ConfigKind::String | ConfigKind::Class | ConfigKind::Password => trimmed.to_owned(),
    })
}

/// Formats a number as Java does: with at least one decimal, and with an exponent if it is very
/// large or small.
fn fraction(number: f64) -> String {
    if number != 0.0 && !(1e-3..1e7).contains(&number.abs()) && number.is_finite() {
        let text = format!("{number:E}");
        return match text.split_once('E') {
            Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0E{exponent}"),
            _ => text,
        };
    }
    if number.fract() == 0.0 {
        return format!("{number:.1}");
    }
    number.to_string()
}

pub(super) fn parts(list: &str) -> impl Iterator<Item = &str> {
    list.split(',')
        .map(str::trim)
        .filter(move |_| !list.is_empty())
}

pub(super) fn invalid(name: &str, text: &str, message: &str) -> InvalidSetting {
    InvalidSetting(format!(
        "Invalid value {text} for configuration {name}: {message}"
    ))
}
