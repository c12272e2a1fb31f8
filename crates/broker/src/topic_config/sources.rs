//! Where the value of a setting comes from.

use crate::image::ResourceType;

use super::broker_settings::BrokerSettings;
use super::kind::canonical;
use super::source::{Source, Sourced};
use super::table::Definition;

impl Definition {
    /// The effective value for `topic`, in its canonical form.
    pub(crate) fn effective(&self, broker: &BrokerSettings<'_>, topic: &str) -> String {
        self.own(broker, topic)
            .unwrap_or_else(|| self.of_broker(broker))
    }

    /// What the topic itself says.
    pub(crate) fn own(&self, broker: &BrokerSettings<'_>, topic: &str) -> Option<String> {
        let own = broker
            .image
            .setting(ResourceType::TOPIC, topic, self.name)?;
        canonical(self.kind, own)
    }

    /// What a topic has that says nothing itself.
    pub(crate) fn of_broker(&self, broker: &BrokerSettings<'_>) -> String {
        let found = self.broker_keys.iter().find_map(|(key, unit)| {
            let text = broker.value(key)?;
            if *unit == 1 {
                return canonical(self.kind, text);
            }
            // Only times have units, and every negative time means "for ever".
            let number = text.trim().parse::<i64>().ok()?.saturating_mul(*unit);
            Some(number.max(-1).to_string())
        });
        found.unwrap_or_else(|| self.default.to_owned())
    }

    /// Where [`Self::of_broker`] comes from.
    pub(crate) fn source_of_broker(&self, broker: &BrokerSettings<'_>) -> Source {
        let places = [
            Source::DynamicBroker,
            Source::DynamicDefault,
            Source::StaticBroker,
        ];
        let has = |source: &Source| {
            self.broker_keys
                .iter()
                .any(|(key, _)| broker.at(key, *source).is_some())
        };
        places.into_iter().find(has).unwrap_or(Source::Default)
    }
}

/// Every place that has a value for the topic's setting, the strongest first.
pub(crate) fn topic_sources(
    broker: &BrokerSettings<'_>,
    topic: &str,
    definition: &Definition,
) -> Vec<Sourced> {
    let own = definition.own(broker, topic).map(|value| Sourced {
        name: definition.name.to_owned(),
        value,
        source: Source::Topic,
    });
    let key = definition.broker_keys.first();
    let of_broker = key.map(|(key, _)| broker.sources(key)).unwrap_or_default();
    own.into_iter().chain(of_broker).collect()
}
