//! What is wrong with a configuration, in a form that lets an operator correct it: key, value,
//! allowed values, and origin.

use std::fmt;

use super::entry::{Entry, Origin};
use super::keys::{self, AllowedValues, Key};
use broker::options::ConfigKind;

/// A value that cannot be honoured; the broker does not start with one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The key.
    pub key: String,
    /// The value as it was given, hidden if it is a secret.
    pub value: String,
    /// What is allowed.
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

/// What follows from a warning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Clients see something else than the file says, or than Kafka shows them with it.
    Clients,
    /// Nothing; but the operator who wrote it probably meant something else.
    Mistake,
    /// Nothing.
    Nothing,
}

/// A setting without effect, or without the intended effect; the broker still starts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning {
    /// The key, if it looks like a setting.
    pub key: String,
    /// Why.
    pub why: String,
    /// Where it was given.
    pub origin: Origin,
    /// What follows from it.
    pub effect: Effect,
    /// What to do about it; empty if nothing has to be done.
    pub advice: String,
}

impl Warning {
    /// A warning about this entry, from which nothing follows.
    pub(super) fn of(entry: &Entry, why: String) -> Self {
        Self {
            key: keys::shown(&entry.key).to_owned(),
            why,
            origin: entry.origin.clone(),
            effect: Effect::Nothing,
            advice: String::new(),
        }
    }

    /// The same, when the operator who wrote it probably meant something else.
    pub(super) fn of_mistake(entry: &Entry, why: &str) -> Self {
        Self {
            effect: Effect::Mistake,
            ..Self::of(entry, why.to_owned())
        }
    }

    /// The same, when clients notice.
    pub(super) fn seen_by_clients(self, advice: impl Into<String>) -> Self {
        Self {
            effect: Effect::Clients,
            advice: advice.into(),
            ..self
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            key, why, origin, ..
        } = self;
        write!(f, "{origin}: {key}: {why}")
    }
}

/// Describes the values that a key allows.
pub fn allowed(key: &Key) -> String {
    let kind = match key.kind {
        ConfigKind::Boolean => return "true or false".into(),
        ConfigKind::Int | ConfigKind::Short | ConfigKind::Long => "a whole number",
        ConfigKind::Double => "a number",
        ConfigKind::List => "a list separated by commas",
        ConfigKind::String | ConfigKind::Class | ConfigKind::Password => "text",
    };
    match key.allowed {
        AllowedValues::Any => kind.into(),
        AllowedValues::NotEmpty => format!("{kind}, not empty"),
        AllowedValues::OneOf([""]) => "empty".into(),
        AllowedValues::OneOf(["", other]) => format!("empty or {other}"),
        AllowedValues::OneOf(values) => format!("one of {}", values.join(", ")),
        AllowedValues::Several(values) => format!("a list of some of {}", values.join(", ")),
        AllowedValues::Range(least, most) => match most_in_words(key.kind, most) {
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
