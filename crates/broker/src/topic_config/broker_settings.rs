//! The current settings of this broker: dynamic ones over static ones over defaults.

use std::collections::BTreeSet;

use crate::image::{Image, ResourceType};
use crate::options::{AllowedValues, BrokerOptions, Changes, ConfigKey, ConfigKind};

use super::source::{Source, SourcedValue};

/// Keys that are synonyms; the first that has a value wins.
const SYNONYMS: [&[&str]; 4] = [
    &["log.roll.ms", "log.roll.hours"],
    &["log.roll.jitter.ms", "log.roll.jitter.hours"],
    &[
        "log.retention.ms",
        "log.retention.minutes",
        "log.retention.hours",
    ],
    &["log.flush.interval.ms", "log.flush.scheduler.interval.ms"],
];

/// Settings that can only be set at run time: they are not in the configuration file and have no
/// default.
static AT_RUN_TIME_ONLY: [ConfigKey; 3] = [
    throttle("leader.replication.throttled.rate"),
    throttle("follower.replication.throttled.rate"),
    throttle("replica.alter.log.dirs.io.max.bytes.per.second"),
];

const fn throttle(name: &'static str) -> ConfigKey {
    ConfigKey {
        name,
        kind: ConfigKind::Long,
        default: None,
        allowed: AllowedValues::Range(0, i64::MAX),
        doc: "Bytes a second that copies of logs may take.",
        changes: Changes::ClusterWide,
        sensitive: false,
    }
}

/// Looks up settings of this broker.
#[derive(Clone, Copy)]
pub(crate) struct BrokerSettings<'a> {
    pub(crate) image: &'a Image,
    pub(crate) options: &'a BrokerOptions,
}

/// Returns listener and setting of a name `listener.name.<listener>.<setting>`, as Kafka writes and
/// reads such names.
pub(crate) fn of_listener(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix("listener.name.")?.split_once('.')
}

/// Returns true for a setting by which a listener decides who its clients are, or encrypts what
/// they send.
///
/// Names of listeners may have dots, so the setting is looked for behind any of them.
pub(crate) fn is_of_security(name: &str) -> bool {
    const OTHERS: [&str; 3] = [
        ".connection.failed.authentication.delay.ms",
        ".connections.max.reauth.ms",
        ".principal.builder.class",
    ];
    const NO_LOGINS: [&str; 2] = [".max.connections", ".max.connection.creation.rate"];
    let of_listener = name.strip_prefix("listener.name.");
    of_listener.is_some_and(|rest| {
        let ends_as = |those: &[&str]| those.iter().any(|end| rest.ends_with(end));
        let is_of_kind = [".sasl.", ".ssl."].iter().any(|kind| rest.contains(kind));
        !ends_as(&NO_LOGINS) && (is_of_kind || ends_as(&OTHERS))
    })
}

/// Returns the row of a configuration table that defines the values of `name`: its own, or that of
/// the setting after the listener's name.
pub(crate) fn row_of<'a>(keys: &'a [ConfigKey], name: &str) -> Option<&'a ConfigKey> {
    let of_listener = || key_of(keys, of_listener(name)?.1);
    key_of(keys, name).or_else(of_listener)
}

/// Returns the row of `name` itself.
fn key_of<'a>(keys: &'a [ConfigKey], name: &str) -> Option<&'a ConfigKey> {
    let mut rows = keys.iter().chain(&AT_RUN_TIME_ONLY);
    rows.find(|key| key.name == name)
}

impl<'a> BrokerSettings<'a> {
    /// Returns the row that defines the values of `name`: its own, or that of the setting after the
    /// listener's name.
    pub(crate) fn row(&self, name: &str) -> Option<&'a ConfigKey> {
        row_of(self.options.config_keys, name)
    }

    /// Returns the row of the configuration table.
    pub(crate) fn key(&self, name: &str) -> Option<&'a ConfigKey> {
        key_of(self.options.config_keys, name)
    }

    /// Returns the names that have a value but are not in the configuration table.
    pub(crate) fn others(&self) -> BTreeSet<&'a str> {
        let node = self.options.node_id.0.to_string();
        let of = |resource: &str| self.image.settings(ResourceType::BROKER, resource);
        let set = of(&node).into_iter().chain(of(""));
        let set = set.flat_map(|set| set.keys());
        let set = set.chain(self.options.static_settings.keys());
        let is_other = |name: &&str| !self.options.config_keys.iter().any(|key| key.name == *name);
        set.map(String::as_str).filter(is_other).collect()
    }

    /// Returns the value of `name`, without its synonyms; `None` if it is unset and has no default.
    pub(crate) fn value(&self, name: &str) -> Option<&'a str> {
        self.at(name, Source::DynamicBroker)
            .or_else(|| self.at(name, Source::DynamicDefault))
            .or_else(|| self.at(name, Source::StaticBroker))
            .or_else(|| self.at(name, Source::Default))
    }

    /// Returns the value of `name` from one source.
    pub(crate) fn at(&self, name: &str, source: Source) -> Option<&'a str> {
        match source {
            Source::DynamicBroker => {
                let node = self.options.node_id.0.to_string();
                self.image.setting(ResourceType::BROKER, &node, name)
            }
            Source::DynamicDefault => self.image.setting(ResourceType::BROKER, "", name),
            Source::StaticBroker if AT_RUN_TIME_ONLY.iter().any(|key| key.name == name) => None,
            Source::StaticBroker => self.options.static_settings.get(name).map(String::as_str),
            Source::Default => self.key(name)?.default,
            Source::Topic | Source::ClientMetrics | Source::Group => None,
        }
    }

    /// Returns every source that has a value for `name` or a synonym, the strongest first.
    ///
    /// Leaves out what comes before the first entry of `name` itself, as Kafka does.
    pub(crate) fn sources(&self, name: &str) -> Vec<SourcedValue> {
        let family = SYNONYMS.iter().find(|family| family.contains(&name));
        let own = [name];
        let with_base = of_listener(name).map(|(_, base)| [name, base]);
        // The scheduler's interval is a fallback of the flush interval, but not vice versa.
        let names: &[&str] = match family {
            Some(_) if name == "log.flush.scheduler.interval.ms" => &own,
            Some(family) => family,
            None => with_base.as_ref().map_or(&own[..], |names| &names[..]),
        };
        let places = [
            Source::DynamicBroker,
            Source::DynamicDefault,
            Source::StaticBroker,
            Source::Default,
        ];
        let each = places.into_iter().flat_map(|source| {
            names.iter().filter_map(move |key| {
                let value = self.at(key, source)?.to_owned();
                Some(SourcedValue {
                    name: (*key).to_owned(),
                    value,
                    source,
                })
            })
        });
        each.skip_while(|found| found.name != name).collect()
    }
}
