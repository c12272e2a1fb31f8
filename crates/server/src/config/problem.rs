//! What is wrong with a configuration, said so that it can be mended: key, value, what is allowed,
//! where it stands.

use std::fmt;

use super::keys::{Allowed, Key};
use super::raw::{Entry, Origin};
use broker::options::ConfigKind;

/// A value that cannot be honoured. With one of these, nothing starts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The key.
    pub key: String,
    /// The value as it was given; secrets are not repeated.
    pub value: String,
    /// What would be right.
    pub allowed: String,
    /// Where the value comes from.
    pub origin: Origin,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            key,
            value,
            allowed,
            origin,
        } = self;
        write!(f, "{origin}: {key}={value}: {allowed}")
    }
}

/// Something that has no effect, or not the one that was meant. It does not hinder the start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning {
    /// The key.
    pub key: String,
    /// Why.
    pub why: String,
    /// Where it stands.
    pub origin: Origin,
}

impl Warning {
    /// About this entry.
    pub(super) fn of(entry: &Entry, why: String) -> Self {
        Self {
            key: entry.key.clone(),
            why,
            origin: entry.origin.clone(),
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, why, origin } = self;
        write!(f, "{origin}: {key}: {why}")
    }
}

/// What values a key takes, in words.
pub fn allowed(key: &Key) -> String {
    let kind = match key.kind {
        ConfigKind::Boolean => return "true or false".into(),
        ConfigKind::Int | ConfigKind::Short | ConfigKind::Long => "a whole number",
        ConfigKind::Double => "a number",
        ConfigKind::List => "a list separated by commas",
        ConfigKind::String | ConfigKind::Class | ConfigKind::Password => "text",
    };
    match key.allowed {
        Allowed::Any => kind.into(),
        Allowed::NotEmpty => format!("{kind}, not empty"),
        Allowed::OneOf([""]) => "empty".into(),
        Allowed::OneOf(values) => format!("one of {}", values.join(", ")),
        Allowed::Several(values) => format!("a list of some of {}", values.join(", ")),
        Allowed::Range(least, most) => match most_in_words(key.kind, most) {
            None => format!("{kind}, at least {least}"),
            Some(most) => format!("{kind} from {least} to {most}"),
        },
    }
}

fn most_in_words(kind: ConfigKind, most: i64) -> Option<i64> {
    let open = match kind {
        ConfigKind::Short => i64::from(i16::MAX),
        ConfigKind::Int => i64::from(i32::MAX),
        _ => i64::MAX,
    };
    (most != open).then_some(most)
}
