//! The settings of this broker as they are now: dynamic ones over static ones over defaults.

use crate::image::{Image, ResourceType};
use crate::options::{BrokerOptions, ConfigKey};

use super::sources::{Source, Sourced};

/// Keys that stand for one another, the first that has a value wins.
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

/// Looks up settings of this broker.
#[derive(Clone, Copy)]
pub(crate) struct BrokerSettings<'a> {
    pub(crate) image: &'a Image,
    pub(crate) options: &'a BrokerOptions,
}

impl<'a> BrokerSettings<'a> {
    /// The row of the configuration table.
    pub(crate) fn key(&self, name: &str) -> Option<&'a ConfigKey> {
        self.options.config_keys.iter().find(|key| key.name == name)
    }

    /// The value of `name` itself, without its synonyms. `None` when it is unset and has no
    /// default.
    pub(crate) fn value(&self, name: &str) -> Option<&'a str> {
        self.at(name, Source::DynamicBroker)
            .or_else(|| self.at(name, Source::DynamicDefault))
            .or_else(|| self.at(name, Source::StaticBroker))
            .or_else(|| self.at(name, Source::Default))
    }

    /// The value of `name` in one place.
    pub(crate) fn at(&self, name: &str, source: Source) -> Option<&'a str> {
        match source {
            Source::DynamicBroker => {
                let node = self.options.node_id.0.to_string();
                self.image.setting(ResourceType::BROKER, &node, name)
            }
            Source::DynamicDefault => self.image.setting(ResourceType::BROKER, "", name),
            Source::StaticBroker => self.options.static_settings.get(name).map(String::as_str),
            Source::Default => self.key(name)?.default,
            Source::Topic | Source::ClientMetrics | Source::Group => None,
        }
    }

    /// Every place that has a value for `name` or a key that stands for it, the strongest first.
    /// What stands before the first entry of `name` itself is left out, as Kafka does.
    pub(crate) fn sources(&self, name: &str) -> Vec<Sourced> {
        let family = SYNONYMS.iter().find(|family| family.contains(&name));
        let own = [name];
        // The scheduler's interval is a fallback of the flush interval and not the other way round.
        let names: &[&str] = match family {
            Some(_) if name == "log.flush.scheduler.interval.ms" => &own,
            Some(family) => family,
            None => &own,
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
                Some(Sourced {
                    name: (*key).to_owned(),
                    value,
                    source,
                })
            })
        });
        each.skip_while(|found| found.name != name).collect()
    }
}
