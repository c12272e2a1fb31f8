//! Settings of groups: their names, their bounds, and where a value comes from.
//!
//! A group's own value must be within the broker's bounds; a group without one has the broker's
//! value. Only consumer groups have settings; those of share groups and streams groups are unknown
//! here, as these groups are.

use std::collections::BTreeMap;

use crate::image::ResourceType;
use crate::options::ConfigKind;
use crate::topic_config::{
    BrokerSettings, InvalidSetting, Source, SourcedValue, canonical, parse_whole,
};

/// One group setting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupSetting {
    /// Kafka's name.
    pub(crate) name: &'static str,
    /// The broker setting with the default value.
    pub(crate) broker_key: &'static str,
    min_key: &'static str,
    max_key: &'static str,
    least: i64,
    /// Its description.
    pub(crate) doc: &'static str,
}

const SESSION: &str = "consumer.session.timeout.ms";
const HEARTBEAT: &str = "consumer.heartbeat.interval.ms";

/// All group settings.
pub(crate) const GROUP_SETTINGS: [GroupSetting; 3] = [
    GroupSetting {
        name: SESSION,
        broker_key: "group.consumer.session.timeout.ms",
        min_key: "group.consumer.min.session.timeout.ms",
        max_key: "group.consumer.max.session.timeout.ms",
        least: 1,
        doc: "How long a member of the group may be silent.",
    },
    GroupSetting {
        name: HEARTBEAT,
        broker_key: "group.consumer.heartbeat.interval.ms",
        min_key: "group.consumer.min.heartbeat.interval.ms",
        max_key: "group.consumer.max.heartbeat.interval.ms",
        least: 1,
        doc: "How often members of the group are to be heard of.",
    },
    GroupSetting {
        name: "consumer.assignment.interval.ms",
        broker_key: "group.consumer.assignment.interval.ms",
        min_key: "group.consumer.min.assignment.interval.ms",
        max_key: "group.consumer.max.assignment.interval.ms",
        least: 0,
        doc: "Least time between two target assignments of the group.",
    },
];

/// Returns the sort of values of a group's setting; `None` for one that is not known here.
pub(crate) fn kind_of(name: &str) -> Option<ConfigKind> {
    let is_known = GROUP_SETTINGS.iter().any(|row| row.name == name);
    is_known.then_some(ConfigKind::Int)
}

/// Validates all settings that a group would have of its own.
pub(crate) fn validate(
    settings: &BTreeMap<String, String>,
    broker: &BrokerSettings<'_>,
) -> Result<(), InvalidSetting> {
    let refuse = |message: String| Err(InvalidSetting(message));
    if let Some(unknown) = settings.keys().find(|name| kind_of(name).is_none()) {
        return refuse(format!("Unknown group config name: {unknown}"));
    }
    let of_broker = |key: &str| broker.value(key).and_then(|text| text.trim().parse().ok());
    for row in &GROUP_SETTINGS {
        let Some(text) = settings.get(row.name) else {
            continue;
        };
        let value = parse_whole(row.name, ConfigKind::Int, text)?;
        if value < row.least {
            return refuse(format!(
                "Invalid value {value} for configuration {}: Value must be at least {}",
                row.name, row.least
            ));
        }
        if of_broker(row.min_key).is_some_and(|min: i64| value < min) {
            return refuse(format!(
                "{} must be greater than or equal to {}",
                row.name, row.min_key
            ));
        }
        if of_broker(row.max_key).is_some_and(|max: i64| value > max) {
            return refuse(format!(
                "{} must be less than or equal to {}",
                row.name, row.max_key
            ));
        }
    }
    let effective = |row: &GroupSetting| {
        let own = settings
            .get(row.name)
            .and_then(|text| text.trim().parse().ok());
        own.or_else(|| of_broker(row.broker_key))
    };
    let [session, heartbeat, _] = GROUP_SETTINGS.each_ref().map(effective);
    if let (Some(session), Some(heartbeat)) = (session, heartbeat)
        && session <= heartbeat
    {
        return refuse(format!("{SESSION} must be greater than {HEARTBEAT}"));
    }
    Ok(())
}

/// Returns every place that has a value for a setting of `group`, the strongest first.
pub(crate) fn sources(
    broker: &BrokerSettings<'_>,
    group: &str,
    row: &GroupSetting,
) -> Vec<SourcedValue> {
    let own = broker.image.setting(ResourceType::GROUP, group, row.name);
    let own = own.and_then(|text| canonical(ConfigKind::Int, text));
    let own = own.map(|value| SourcedValue {
        name: row.name.to_owned(),
        value,
        source: Source::Group,
    });
    own.into_iter()
        .chain(broker.sources(row.broker_key))
        .collect()
}
