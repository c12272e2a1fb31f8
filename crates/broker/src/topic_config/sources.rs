//! Where the value of a setting comes from.

use crate::image::ResourceType;

use super::broker_settings::BrokerSettings;
use super::kind::canonical;
use super::source::{Source, SourcedValue};
use super::table::Definition;

impl Definition {
    /// Returns the effective value for `topic`, in its canonical form.
    pub(crate) fn effective(&self, broker: &BrokerSettings<'_>, topic: &str) -> String {
        self.own(broker, topic)
            .unwrap_or_else(|| self.of_broker(broker))
    }

    /// Returns the topic's own value.
    pub(crate) fn own(&self, broker: &BrokerSettings<'_>, topic: &str) -> Option<String> {
        let own = broker
            .image
            .setting(ResourceType::TOPIC, topic, self.name)?;
        canonical(self.kind, own)
    }

    /// Returns the value for a topic without its own.
    pub(crate) fn of_broker(&self, broker: &BrokerSettings<'_>) -> String {
        let found = self.broker_keys.iter().find_map(|(key, unit)| {
            let text = broker.value(key)?;
            if *unit == 1 {
                return canonical(self.kind, text);
            }
            // Only times have units, and every negative time means unlimited.
            let number = text.trim().parse::<i64>().ok()?.saturating_mul(*unit);
            Some(number.max(-1).to_string())
        });
        found.unwrap_or_else(|| self.default.to_owned())
    }

    /// Returns the source of [`Self::of_broker`].
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

/// Returns every source that has a value for the topic's setting, the strongest first.
pub(crate) fn topic_sources(
    broker: &BrokerSettings<'_>,
    topic: &str,
    definition: &Definition,
) -> Vec<SourcedValue> {
    let own = definition.own(broker, topic).map(|value| SourcedValue {
        name: definition.name.to_owned(),
        value,
        source: Source::Topic,
    });
    let key = definition.broker_keys.first();
    let of_broker = key.map(|(key, _)| broker.sources(key)).unwrap_or_default();
    own.into_iter().chain(of_broker).collect()
}
