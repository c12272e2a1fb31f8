//! Settings in the metadata whose text is not of their kind, written by another broker or another
//! release.
//!
//! Invariant: what a request to this broker has set is of its kind. Each lookup ignores an
//! unreadable text, as if the setting had no value; a start logs once that it does. This module
//! does not check whether a number is within its bounds.

use crate::image::ResourceType;
use crate::topic_config::{BrokerSettings, canonical, definition};
use crate::{client_metrics, group_config};

/// A setting that is ignored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct UnreadSetting<'a> {
    /// The kind of resource: a topic, a broker, a group, a subscription to client metrics.
    pub(crate) of: &'static str,
    /// The name of the resource.
    pub(crate) resource: &'a str,
    /// The name of the setting.
    pub(crate) name: &'a str,
    /// The text of its value.
    pub(crate) text: &'a str,
}

/// Returns all settings that are ignored.
pub(crate) fn unread_settings<'a>(broker: &BrokerSettings<'a>) -> Vec<UnreadSetting<'a>> {
    let kinds = [
        (ResourceType::TOPIC, "topic"),
        (ResourceType::BROKER, "broker"),
        (ResourceType::GROUP, "group"),
        (ResourceType::CLIENT_METRICS, "client metrics"),
    ];
    let kind_of = |of: ResourceType, name: &str| match of {
        ResourceType::TOPIC => definition(name).map(|row| row.kind),
        ResourceType::BROKER => broker.row(name).map(|row| row.kind),
        ResourceType::GROUP => group_config::kind_of(name),
        _ => client_metrics::kind_of(name),
    };
    let mut unread = Vec::new();
    for (resource_type, of) in kinds {
        for resource in broker.image.configured(resource_type) {
            let settings = broker.image.settings(resource_type, resource);
            for (name, text) in settings.into_iter().flatten() {
                let kind = kind_of(resource_type, name);
                // Unknown settings are not read.
                if kind.is_some_and(|kind| canonical(kind, text).is_none()) {
                    unread.push(UnreadSetting {
                        of,
                        resource,
                        name,
                        text,
                    });
                }
            }
        }
    }
    unread
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Image;
    use crate::topic_config::TopicConfig;
    use crate::topic_config::tests::{options, set};

    #[test]
    fn settings_that_cannot_be_read_are_named_and_those_that_can_are_not() {
        let mut image = Image::empty();
        let settings = [
            (ResourceType::TOPIC, "t", "retention.ms", "abc"),
            (ResourceType::TOPIC, "t", "segment.ms", " 7 "),
            (ResourceType::TOPIC, "t", "unknown", "abc"),
            (ResourceType::BROKER, "", "log.retention.hours", "1.5"),
            (ResourceType::BROKER, "1", "message.max.bytes", "7"),
            (ResourceType::GROUP, "g", "consumer.session.timeout.ms", ""),
            (
                ResourceType::GROUP,
                "g",
                "share.auto.offset.reset",
                "latest",
            ),
            (ResourceType::CLIENT_METRICS, "c", "interval.ms", "1e3"),
            (ResourceType::CLIENT_METRICS, "c", "metrics", "a,b"),
        ];
        for (kind, resource, name, text) in settings {
            set(&mut image, kind, resource, name, text);
        }
        let options = options();
        let broker = BrokerSettings {
            image: &image,
            options: &options,
        };
        let unread = unread_settings(&broker);
        let named: Vec<_> = unread.iter().map(|it| (it.resource, it.name)).collect();
        assert_eq!(
            named,
            [
                ("t", "retention.ms"),
                ("", "log.retention.hours"),
                ("g", "consumer.session.timeout.ms"),
                ("c", "interval.ms"),
            ]
        );
        // An ignored setting has its default, not "forever".
        let config = TopicConfig::resolve(&image, &options, "t");
        assert_eq!(config.log_options().retention_ms, Some(604_800_000));
    }
}
