//! `DescribeConfigs` (key 32), versions 1-4: settings of topics, brokers, groups and client metrics
//! subscriptions, with their sources.
//!
//! Version 1 added synonyms (every source that has a value, the strongest first), version 3 types
//! and documentation. Values of sensitive settings are never returned. This broker has no loggers
//! that clients could set. Unlike Kafka, a response holds a bounded number of settings; resources
//! beyond that are refused, and the client can request them separately. A client needs the right to
//! describe the settings of each resource (`controller/config_rights.rs`).

use std::collections::BTreeSet;

use wire::StrBytes;
use wire::acl::Operation;
use wire::messages::describe_configs_request::DescribeConfigsResource;
use wire::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use wire::messages::{DescribeConfigsRequest, DescribeConfigsResponse};
use wire::types::ErrorCode;

use crate::access::Access;
use crate::client_metrics::{self, SUBSCRIPTION_SETTINGS, SubscriptionSetting};
use crate::controller::{Refusal, Rules, config_rights, quoted, too_large, topic_name};
use crate::group_config::{self, GROUP_SETTINGS, GroupSetting};
use crate::image::ResourceType;
use crate::options::ConfigKind;
use crate::rests::Rests;
use crate::room::Room;
use crate::secret_settings::is_hidden;
use crate::topic_config::{
    BrokerSettings, DEFINITIONS, Definition, Source, SourcedValue, canonical, of_listener,
    topic_sources,
};

/// Maximum settings in one response: more than the topics of one node have. A resource takes a few
/// bytes to name, and kilobytes to describe.
const SETTINGS_MAX: usize = 400_000;

/// Answers from the image.
pub(crate) async fn handle(
    rules: Rules<'_>,
    access: &Access,
    request: &DescribeConfigsRequest,
    version: i16,
    room: &Room,
) -> DescribeConfigsResponse {
    let broker = BrokerSettings {
        image: rules.image,
        options: rules.options,
    };
    // Once: a request may name the broker a hundred thousand times.
    let others = broker.others();
    let mut left = SETTINGS_MAX;
    let mut rests = Rests::new();
    let mut results = Vec::with_capacity(request.resources.len());
    for resource in &request.resources {
        let keys = Keys::of(resource);
        let (kind, name) = (
            ResourceType(resource.resource_type),
            &resource.resource_name,
        );
        let allowed = config_rights::check(access, Operation::DescribeConfigs, kind, name);
        let described = allowed.and_then(|()| {
            if left == 0 || room.is_full() {
                return Err(no_room(room));
            }
            describe(broker, &others, resource, &keys)
        });
        let told = described.and_then(|settings| {
            let shown = settings.into_iter().map(|setting| setting.show(request));
            let told = result(resource, Ok(shown.collect()));
            room.take(version, told).ok_or_else(|| no_room(room))
        });
        let told = told.unwrap_or_else(|refusal| result(resource, Err(refusal)));
        left = left.saturating_sub(told.configs.len());
        rests.items(told.configs.len().max(1)).await;
        results.push(told);
    }
    DescribeConfigsResponse::default().with_results(results)
}

/// Returns the refusal for a resource that does not fit into the response.
fn no_room(room: &Room) -> Refusal {
    let code = room.refusal();
    Refusal {
        code,
        ..too_large()
    }
}

/// Returns the result for a resource.
fn result(
    resource: &DescribeConfigsResource,
    described: Result<Vec<DescribeConfigsResourceResult>, Refusal>,
) -> DescribeConfigsResult {
    let (configs, refused) = match described {
        Ok(configs) => (configs, Ok(())),
        Err(refusal) => (Vec::new(), Err(refusal)),
    };
    let (code, message) = Refusal::parts(refused);
    let message = if code == 0 {
        Some(StrBytes::default())
    } else {
        message
    };
    DescribeConfigsResult::default()
        .with_resource_type(resource.resource_type)
        .with_resource_name(resource.resource_name.clone())
        .with_error_code(code)
        .with_error_message(message)
        .with_configs(configs)
}

/// The keys of a resource that a request names, in order; empty for all.
///
/// Every setting of the resource is looked up, and most requests name few: searching them takes a
/// third of hashing.
struct Keys<'a>(Vec<&'a str>);

impl<'a> Keys<'a> {
    fn of(resource: &'a DescribeConfigsResource) -> Self {
        let keys = resource.configuration_keys.iter().flatten();
        let mut keys: Vec<_> = keys.map(StrBytes::as_str).collect();
        keys.sort_unstable();
        Self(keys)
    }

    fn has(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.binary_search(&name).is_ok()
    }
}

/// One setting for the response.
struct Setting {
    name: String,
    value: Option<String>,
    kind: Option<ConfigKind>,
    sources: Vec<SourcedValue>,
    doc: Option<&'static str>,
    read_only: bool,
    sensitive: bool,
}

/// Returns the settings of a resource; `others` are the broker's that are not in the table.
fn describe(
    broker: BrokerSettings<'_>,
    others: &BTreeSet<&str>,
    resource: &DescribeConfigsResource,
    keys: &Keys<'_>,
) -> Result<Vec<Setting>, Refusal> {
    let name = resource.resource_name.as_str();
    let refuse = |message: String| Err(Refusal::new(ErrorCode::InvalidRequest, message));
    match ResourceType(resource.resource_type) {
        ResourceType::TOPIC => {
            if let Some(message) = topic_name::invalid(name) {
                return Err(Refusal::new(ErrorCode::InvalidTopicException, message));
            }
            if broker.image.topic_by_name(name).is_none() {
                return Err(ErrorCode::UnknownTopicOrPartition.into());
            }
            let rows = DEFINITIONS.iter().filter(|row| keys.has(row.name));
            let shown = rows.filter(|row| !row.is_internal() || row.own(&broker, name).is_some());
            Ok(shown.map(|row| topic_setting(broker, name, row)).collect())
        }
        ResourceType::GROUP if name.is_empty() => refuse("Group name must not be empty".into()),
        ResourceType::GROUP => {
            let rows = GROUP_SETTINGS.iter().filter(|row| keys.has(row.name));
            Ok(rows.map(|row| group_setting(broker, name, row)).collect())
        }
        ResourceType::CLIENT_METRICS if name.is_empty() => {
            refuse("Client metrics subscription name must not be empty".into())
        }
        ResourceType::CLIENT_METRICS => {
            let rows = SUBSCRIPTION_SETTINGS.iter();
            let rows = rows.filter(|row| keys.has(row.name));
            Ok(rows
                .map(|row| subscription_setting(broker, name, row))
                .collect())
        }
        ResourceType::BROKER if name.is_empty() => Ok(cluster_settings(broker, keys)),
        ResourceType::BROKER => {
            check_broker(broker, name, "expected {} or empty string, but received")?;
            let table = broker.options.config_keys.iter().map(|key| key.name);
            let all = table.chain(others.iter().copied());
            let wanted = all.filter(|name| keys.has(name));
            Ok(wanted.map(|name| broker_setting(broker, name)).collect())
        }
        ResourceType::BROKER_LOGGER if name.is_empty() => {
            refuse("Broker id must not be empty".into())
        }
        ResourceType::BROKER_LOGGER => {
            check_broker(broker, name, "expected {} but received")?;
            Ok(Vec::new())
        }
        ResourceType(other) => refuse(format!("Unsupported resource type: {other}")),
    }
}

fn check_broker(broker: BrokerSettings<'_>, name: &str, words: &str) -> Result<(), Refusal> {
    let node = broker.options.node_id.0;
    let message = match name.parse::<i32>() {
        Ok(id) if id == node => return Ok(()),
        Ok(_) => format!(
            "Unexpected broker id, {} {}",
            words.replace("{}", &node.to_string()),
            quoted(name)
        ),
        Err(_) => format!("Broker id must be an integer, but it is: {name}"),
    };
    Err(Refusal::new(ErrorCode::InvalidRequest, message))
}

fn topic_setting(broker: BrokerSettings<'_>, topic: &str, row: &Definition) -> Setting {
    Setting {
        name: row.name.to_owned(),
        value: Some(row.effective(&broker, topic)),
        kind: Some(row.kind),
        sources: topic_sources(&broker, topic, row),
        doc: Some(row.doc),
        read_only: false,
        sensitive: false,
    }
}

fn group_setting(broker: BrokerSettings<'_>, group: &str, row: &GroupSetting) -> Setting {
    let sources = group_config::sources(&broker, group, row);
    Setting {
        name: row.name.to_owned(),
        value: sources.first().map(|first| first.value.clone()),
        kind: Some(ConfigKind::Int),
        sources,
        doc: Some(row.doc),
        read_only: false,
        sensitive: false,
    }
}

fn subscription_setting(
    broker: BrokerSettings<'_>,
    name: &str,
    row: &SubscriptionSetting,
) -> Setting {
    let sources = client_metrics::sources(broker.image, name, row);
    let own = sources.first().map(|own| own.value.clone());
    Setting {
        name: row.name.to_owned(),
        value: own.or_else(|| Some(row.default.to_owned())),
        kind: Some(row.kind),
        sources,
        doc: Some(row.doc),
        read_only: false,
        sensitive: false,
    }
}

/// Returns a setting of the table, or an unknown key that a client set.
fn broker_setting(broker: BrokerSettings<'_>, name: &str) -> Setting {
    let (key, row) = (broker.key(name), broker.row(name));
    let shown = |text: &str| key.and_then(|key| canonical(key.kind, text));
    Setting {
        name: name.to_owned(),
        value: broker
            .value(name)
            .map(|text| shown(text).unwrap_or_else(|| text.to_owned())),
        kind: row.map(|row| row.kind),
        sources: broker.sources(name),
        doc: key.map(|key| key.doc),
        read_only: key.is_none_or(|key| !key.is_dynamic()),
        sensitive: is_hidden(row),
    }
}

/// Returns the settings of the cluster default that were set at run time.
fn cluster_settings(broker: BrokerSettings<'_>, keys: &Keys<'_>) -> Vec<Setting> {
    let set = broker.image.settings(ResourceType::BROKER, "");
    let setting = |(name, value): (&String, &String)| {
        let (key, row) = (broker.key(name), broker.row(name));
        let source = Source::DynamicDefault;
        Setting {
            name: name.clone(),
            value: Some(value.clone()),
            kind: row.map(|row| row.kind),
            sources: [Some(name.as_str()), of_listener(name).map(|(_, base)| base)]
                .into_iter()
                .flatten()
                .filter_map(|name| {
                    Some(SourcedValue {
                        name: name.to_owned(),
                        value: broker.at(name, source)?.to_owned(),
                        source,
                    })
                })
                .collect(),
            doc: key.map(|key| key.doc),
            read_only: key.is_none_or(|key| !key.is_dynamic()),
            sensitive: is_hidden(row),
        }
    };
    let set = set.into_iter().flatten();
    let wanted = set.filter(|(name, _)| keys.has(name));
    wanted.map(setting).collect()
}

impl Setting {
    fn show(self, request: &DescribeConfigsRequest) -> DescribeConfigsResourceResult {
        let hide = self.sensitive;
        let text = |value: String| (!hide).then(|| StrBytes::from_string(value));
        let source = self
            .sources
            .first()
            .map_or(Source::Default, |first| first.source);
        let synonyms = self.sources.into_iter().map(|sourced| {
            DescribeConfigsSynonym::default()
                .with_name(StrBytes::from_string(sourced.name))
                .with_value(text(sourced.value))
                .with_source(sourced.source as i8)
        });
        let synonyms = if request.include_synonyms {
            synonyms.collect()
        } else {
            Vec::new()
        };
        let doc = self.doc.filter(|_| request.include_documentation);
        DescribeConfigsResourceResult::default()
            .with_name(StrBytes::from_string(self.name))
            .with_value(self.value.and_then(text))
            .with_read_only(self.read_only)
            .with_config_source(source as i8)
            .with_is_sensitive(hide)
            .with_synonyms(synonyms)
            .with_config_type(self.kind.map_or(0, |kind| kind as i8))
            .with_documentation(doc.map(StrBytes::from_static_str))
    }
}

#[cfg(test)]
mod tests;
