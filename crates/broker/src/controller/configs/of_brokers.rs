//! Judges changes of a broker's settings: whether the key may change at run time, at this level,
//! and to this value.
//!
//! The messages are those of Kafka's broker, which checks before the controller does. Kafka accepts
//! unknown keys (they may belong to a plugin), and so does this broker. Unlike Kafka, it refuses
//! settings of a listener's logins and TLS that are read at a start only: an operator who removes
//! a user, or changes a password, must not believe that it is done. Key and trust stores of a
//! listener do change; whether it could serve with them is not judged here (`listener_stores`).

use super::Change;
use crate::controller::{Refusal, Rules};
use crate::listener_stores::{STORE_SETTINGS, store_setting_of};
use crate::options::{AllowedValues, Changes, ConfigKey, ConfigKind};
use crate::topic_config::{
    BrokerSettings, DEFINITIONS, Definition, Source, is_of_security, of_listener, parse_kind,
};
use wire::types::ErrorCode;

mod meaning;

/// Listener settings that may be set for all brokers at once.
const OF_ALL_LISTENERS: [&str; 3] = [
    "max.connections",
    "max.connection.creation.rate",
    "num.network.threads",
];

impl Rules<'_> {
    /// Judges changes of this broker's settings, or, if `resource` is empty, of the cluster
    /// default.
    pub(super) fn judge_broker(&self, resource: &str, changes: &[Change]) -> Result<(), Refusal> {
        let broker = BrokerSettings {
            image: self.image,
            options: self.options,
        };
        let is_fixed = |name: &str| {
            let row = broker.key(name);
            row.is_some_and(|key| !key.is_dynamic())
                || (is_of_security(name) && store_setting_of(name).is_none())
        };
        let fixed = changes.iter();
        let fixed = fixed.filter(|change| change.value.is_some() && is_fixed(&change.name));
        let fixed: Vec<_> = fixed.map(|change| change.name.as_str()).collect();
        if !fixed.is_empty() {
            let names = fixed.join(", ");
            let message = format!("Cannot update these configs dynamically: [{names}]");
            return Err(refuse(message));
        }
        let set = || {
            let set = changes.iter();
            set.filter_map(|change| Some((change.name.as_str(), change.value.as_deref()?)))
        };
        let of_all = set().map(|(name, _)| name);
        let of_all: Vec<_> = of_all
            .filter(|name| STORE_SETTINGS.contains(name))
            .collect();
        if !of_all.is_empty() {
            return Err(refuse(format!(
                "These security configs can be dynamically updated only per-listener using the \
                 listener prefix: [{}]",
                of_all.join(", ")
            )));
        }
        for (name, value) in set() {
            // Kafka does not check the value of a key that is not a setting of a single listener.
            if let Some(key) = broker.row(name).filter(|key| key.is_dynamic()) {
                check(key, value)?;
            }
        }
        if resource.is_empty() {
            let of_one = set().map(|(name, _)| name);
            let of_one = of_one.filter(|name| is_of_one_broker(&broker, name));
            let of_one: Vec<_> = of_one.collect();
            if !of_one.is_empty() {
                return Err(refuse(format!(
                    "Cannot update these configs at default cluster level, broker id must be specified: [{}]",
                    of_one.join(", ")
                )));
            }
        }
        for (name, value) in set() {
            if let Some(key) = broker.key(name) {
                meaning::check(&broker, changes, key.name, value)?;
            } else if let Some((listener, base)) = of_listener(name) {
                let own = || broker.at(name, Source::DynamicBroker);
                let holds = !resource.is_empty() || own().is_none();
                if holds && self.has_listener(listener) {
                    meaning::check_of_listener(&broker, base, value)?;
                }
            }
        }
        Ok(())
    }

    /// Returns true if `name` is one of this broker's listeners, spelled as in the names of
    /// settings.
    fn has_listener(&self, name: &str) -> bool {
        let mut endpoints = self.options.endpoints.iter();
        endpoints.any(|endpoint| endpoint.listener.to_ascii_lowercase() == name)
    }

    /// Refuses to append to (2) or subtract from a setting that is not a list of the table.
    pub(super) fn check_list_of_broker(&self, name: &str, operation: i8) -> Result<(), Refusal> {
        let mut keys = self.options.config_keys.iter();
        let word = if operation == 2 { "append" } else { "subtract" };
        let message = match keys.find(|key| key.name == name) {
            Some(key) if key.kind == ConfigKind::List => return Ok(()),
            Some(_) => format!("Config value {word} is not allowed for config key: {name}"),
            None => format!("Unknown config name: {name}"),
        };
        Err(Refusal::new(ErrorCode::InvalidConfig, message))
    }
}

/// Returns true for a setting that must be set for each broker separately.
fn is_of_one_broker(broker: &BrokerSettings<'_>, name: &str) -> bool {
    match (broker.key(name), of_listener(name)) {
        (Some(key), _) => key.changes == Changes::PerBroker,
        (None, Some((_, base))) => !OF_ALL_LISTENERS.contains(&base),
        (None, None) => false,
    }
}

fn refuse(message: String) -> Refusal {
    Refusal::new(ErrorCode::InvalidRequest, message)
}

/// Judges a value without the other settings.
fn check(key: &ConfigKey, value: &str) -> Result<(), Refusal> {
    let shown = parse_kind(key.name, key.kind, value).map_err(|error| refuse(error.0))?;
    let wrong = |what: String| {
        Err(refuse(format!(
            "Invalid value {shown} for configuration {}: {what}",
            key.name
        )))
    };
    if meaning::has_own_bounds(key.name) {
        return Ok(());
    }
    // A key that stands for a topic setting has that setting's rule.
    let stands_for = |row: &&Definition| {
        row.broker_keys
            .first()
            .is_some_and(|(name, _)| *name == key.name)
    };
    if let Some(row) = DEFINITIONS.iter().find(stands_for) {
        let checked = row.check_as(key.name, value);
        checked.map_err(|error| refuse(error.0))?;
    }
    let parts = || {
        value
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
    };
    match key.allowed {
        AllowedValues::Range(least, most) => match value.trim().parse::<i64>() {
            Ok(number) if number < least => wrong(format!("Value must be at least {least}")),
            Ok(number) if number > most => wrong(format!("Value must be no more than {most}")),
            _ => Ok(()),
        },
        AllowedValues::OneOf(values) if !values.contains(&value.trim()) => {
            wrong(format!("String must be one of: {}", values.join(", ")))
        }
        AllowedValues::Several(values) if parts().any(|part| !values.contains(&part)) => {
            wrong(format!("String must be one of: {}", values.join(", ")))
        }
        AllowedValues::NotEmpty if parts().next().is_none() => {
            wrong("String must be non-empty".into())
        }
        _ => Ok(()),
    }
}
