//! Changes settings of topics, brokers, groups and client metrics subscriptions.

mod of_brokers;

use std::collections::{BTreeMap, HashMap, HashSet};

use wire::acl;
use wire::records::metadata::{ClearElrRecord, ConfigRecord, MetadataRecord};
use wire::types::{ErrorCode, NodeId};

use crate::access::Access;
use crate::client_metrics;
use crate::group_config;
use crate::image::{Image, ResourceType};
use crate::options::ConfigKind;
use crate::topic_config::{BrokerSettings, definition, validate};

use super::bounds::{self, check_entities, check_settings, check_text};
use super::{Refusal, Rules, config_rights, topic_name};

const VALUE_BYTES_MAX: usize = 0x7fff;
const MIN_ISR: &str = "min.insync.replicas";
const ELR_FEATURE: &str = "eligible.leader.replicas.version";

/// A new value of one setting; `None` removes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Change {
    pub(crate) name: String,
    pub(crate) value: Option<String>,
}

/// One operation of an incremental change.
pub(crate) struct Operation<'a> {
    pub(crate) name: &'a str,
    /// 0 set, 1 delete, 2 append, 3 subtract.
    pub(crate) code: i8,
    pub(crate) value: Option<&'a str>,
}

/// Returns the records of changes that passed `judge`, and of what follows from them.
pub(crate) fn change_settings(
    image: &Image,
    kind: ResourceType,
    resource: &str,
    changes: impl IntoIterator<Item = Change>,
) -> Vec<MetadataRecord> {
    let mut records = Vec::new();
    let mut clears = Vec::new();
    for Change { name, value } in changes {
        if name == MIN_ISR && image.feature(ELR_FEATURE) > 0 {
            let topic_name = if kind == ResourceType::TOPIC {
                resource
            } else {
                ""
            };
            clears.push(
                ClearElrRecord {
                    topic_name: topic_name.to_owned(),
                }
                .into(),
            );
        }
        let resource_name = resource.to_owned();
        records.push(
            ConfigRecord {
                resource_type: kind.0,
                resource_name,
                name,
                value,
            }
            .into(),
        );
    }
    records.append(&mut clears);
    records
}

impl Rules<'_> {
    /// Decides on an incremental change of one resource.
    pub(crate) fn alter_incrementally(
        &self,
        access: &Access,
        (kind, resource): (ResourceType, &str),
        operations: &[Operation<'_>],
    ) -> Result<Vec<MetadataRecord>, Refusal> {
        self.check_request(access, (kind, resource), operations)?;
        let mut changes = Vec::new();
        for operation in operations {
            let current = self.image.setting(kind, resource, operation.name);
            let value = self.apply(kind, operation, current)?;
            // A broker's setting is written even when it is unchanged: the record makes the broker
            // read it again.
            if value.as_deref() != current || kind == ResourceType::BROKER {
                changes.push(Change {
                    name: operation.name.to_owned(),
                    value,
                });
            }
        }
        self.judge(kind, resource, &changes)?;
        Ok(change_settings(self.image, kind, resource, changes))
    }

    /// Decides on replacing all settings of one resource.
    pub(crate) fn alter_all(
        &self,
        access: &Access,
        (kind, resource): (ResourceType, &str),
        settings: &[(&str, Option<&str>)],
    ) -> Result<Vec<MetadataRecord>, Refusal> {
        let operations: Vec<_> = settings
            .iter()
            .map(|(name, value)| Operation {
                name,
                code: 0,
                value: *value,
            })
            .collect();
        self.check_request(access, (kind, resource), &operations)?;
        let current = self.image.settings(kind, resource);
        let mut changes = Vec::new();
        for (name, value) in settings {
            let old = current
                .and_then(|current| current.get(*name))
                .map(String::as_str);
            if old != *value || kind == ResourceType::BROKER {
                changes.push(Change {
                    name: (*name).to_owned(),
                    value: value.map(Into::into),
                });
            }
        }
        let kept: HashSet<&str> = settings.iter().map(|(name, _)| *name).collect();
        for name in current.into_iter().flat_map(BTreeMap::keys) {
            if !kept.contains(name.as_str()) {
                changes.push(Change {
                    name: name.clone(),
                    value: None,
                });
            }
        }
        self.judge(kind, resource, &changes)?;
        Ok(change_settings(self.image, kind, resource, changes))
    }

    /// Makes the checks that the receiving broker makes before the controller's, and then that of
    /// the client's right.
    fn check_request(
        &self,
        access: &Access,
        (kind, resource): (ResourceType, &str),
        operations: &[Operation<'_>],
    ) -> Result<(), Refusal> {
        let refuse = |message: String| Err(Refusal::new(ErrorCode::InvalidRequest, message));
        for operation in operations {
            check_texts(operation.name, operation.value)?;
        }
        let mut names: Vec<_> = operations.iter().map(|operation| operation.name).collect();
        names.sort_unstable();
        if names.windows(2).any(|pair| pair.first() == pair.last()) {
            return refuse("Error due to duplicate config keys".into());
        }
        let nulls = operations
            .iter()
            .filter(|op| op.code != 1 && op.value.is_none());
        let nulls: Vec<_> = nulls.map(|operation| operation.name).collect();
        if !nulls.is_empty() {
            return refuse(format!(
                "Null value not supported for : {}",
                nulls.join(", ")
            ));
        }
        if kind == ResourceType::BROKER && !resource.is_empty() {
            self.check_is_this_node(resource)?;
        }
        config_rights::check(access, acl::Operation::AlterConfigs, kind, resource)?;
        match kind {
            ResourceType::BROKER
            | ResourceType::TOPIC
            | ResourceType::GROUP
            | ResourceType::CLIENT_METRICS => Ok(()),
            other => refuse(format!("Unknown resource type {}", other.0)),
        }
    }

    fn check_is_this_node(&self, resource: &str) -> Result<(), Refusal> {
        let node = self.options.node_id;
        let message = match resource.parse::<i32>() {
            Ok(id) if NodeId(id) == node => return Ok(()),
            Ok(_) => format!(
                "Unexpected broker id, expected {}, but received {resource}",
                node.0
            ),
            Err(_) => format!("Node id must be an integer, but it is: {resource}"),
        };
        Err(Refusal::new(ErrorCode::InvalidRequest, message))
    }

    /// Returns the value after one operation.
    fn apply(
        &self,
        kind: ResourceType,
        operation: &Operation<'_>,
        current: Option<&str>,
    ) -> Result<Option<String>, Refusal> {
        let (name, value) = (operation.name, operation.value.unwrap_or_default());
        match operation.code {
            0 => return Ok(Some(value.to_owned())),
            1 => return Ok(None),
            2 | 3 if kind == ResourceType::BROKER => {
                self.check_list_of_broker(name, operation.code)?;
            }
            2 | 3 if self.is_list(kind, name) => {}
            2 | 3 => {
                let word = if operation.code == 2 {
                    "APPEND"
                } else {
                    "SUBTRACT"
                };
                return Err(Refusal::new(
                    ErrorCode::InvalidConfig,
                    format!("Can't {word} to key {name} because its type is not LIST."),
                ));
            }
            other => {
                return Err(Refusal::new(
                    ErrorCode::InvalidRequest,
                    format!("Unknown operations type {other}"),
                ));
            }
        }
        let base = current
            .map(str::to_owned)
            .or_else(|| self.list_default(kind, name));
        let base = base.unwrap_or_default();
        Ok(Some(if operation.code == 2 {
            appended(&base, value)
        } else {
            subtracted(&base, value)
        }))
    }

    fn is_list(&self, kind: ResourceType, name: &str) -> bool {
        let broker = BrokerSettings {
            image: self.image,
            options: self.options,
        };
        let found = match kind {
            ResourceType::TOPIC => definition(name).map(|definition| definition.kind),
            // Subscriptions have lists, but as in Kafka those can only be set as a whole.
            ResourceType::GROUP | ResourceType::CLIENT_METRICS => None,
            _ => broker.key(name).map(|key| key.kind),
        };
        found == Some(ConfigKind::List)
    }

    fn list_default(&self, kind: ResourceType, name: &str) -> Option<String> {
        let broker = BrokerSettings {
            image: self.image,
            options: self.options,
        };
        if kind == ResourceType::TOPIC {
            definition(name).map(|definition| definition.default.to_owned())
        } else {
            broker.key(name)?.default.map(str::to_owned)
        }
    }

    /// Judges the settings that the resource would have after the changes, and checks that the
    /// resource exists.
    fn judge(&self, kind: ResourceType, resource: &str, changes: &[Change]) -> Result<(), Refusal> {
        let invalid = |message: String| Err(Refusal::new(ErrorCode::InvalidConfig, message));
        let mut settings = self
            .image
            .settings(kind, resource)
            .cloned()
            .unwrap_or_default();
        for change in changes {
            self.check_min_isr(kind, resource, change)?;
            match &change.value {
                None => {
                    settings.remove(&change.name);
                }
                Some(value) => {
                    check_length(value)?;
                    settings.insert(change.name.clone(), value.clone());
                }
            }
        }
        if changes.iter().any(|change| change.value.is_some()) {
            check_settings(self.image, kind == ResourceType::BROKER, settings.iter())?;
        }
        if kind == ResourceType::CLIENT_METRICS {
            client_metrics::validate(resource, &settings)?;
            return client_metrics::check_room(self.image, resource, &settings);
        }
        if kind == ResourceType::GROUP {
            return self.judge_group(resource, &settings);
        }
        if kind != ResourceType::TOPIC {
            return self.judge_broker(resource, changes);
        }
        if resource.is_empty() {
            let message = "Default topic resources are not allowed.";
            return Err(Refusal::new(ErrorCode::InvalidRequest, message));
        }
        if let Some(message) = topic_name::invalid(resource) {
            return Err(Refusal::new(ErrorCode::InvalidTopicException, message));
        }
        if let Err(error) = validate(&settings, self.image, self.options) {
            return invalid(error.0);
        }
        if self.image.topic_by_name(resource).is_none() {
            let message = format!("The topic '{resource}' does not exist.");
            return Err(Refusal::new(ErrorCode::UnknownTopicOrPartition, message));
        }
        Ok(())
    }

    fn judge_group(&self, group: &str, settings: &BTreeMap<String, String>) -> Result<(), Refusal> {
        if group.is_empty() {
            let message = "Default group resources are not allowed.";
            return Err(Refusal::new(ErrorCode::InvalidRequest, message));
        }
        if self.image.settings(ResourceType::GROUP, group).is_none() && !settings.is_empty() {
            check_entities(self.image.configured_count(ResourceType::GROUP), "settings")?;
            check_text(group.len(), "name of a group with settings")?;
        }
        for value in settings.values() {
            check_text(value.len(), "setting of a group")?;
        }
        let broker = BrokerSettings {
            image: self.image,
            options: self.options,
        };
        let judged = group_config::validate(settings, &broker);
        judged.map_err(|error| Refusal::new(ErrorCode::InvalidConfig, error.0))
    }

    fn check_min_isr(
        &self,
        kind: ResourceType,
        resource: &str,
        change: &Change,
    ) -> Result<(), Refusal> {
        let applies = change.name == MIN_ISR && kind == ResourceType::BROKER;
        if !applies || self.image.feature(ELR_FEATURE) == 0 {
            return Ok(());
        }
        let refuse = |message: &str| Err(Refusal::new(ErrorCode::InvalidConfig, message));
        if !resource.is_empty() {
            return refuse(
                "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
            );
        }
        if change.value.is_none() {
            return refuse(
                "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
            );
        }
        Ok(())
    }
}

/// Refuses a name or value that is too long for a setting, before it is used.
pub(super) fn check_texts(name: &str, value: Option<&str>) -> Result<(), Refusal> {
    bounds::check_length(name.len(), "name of a setting")?;
    value.map_or(Ok(()), check_length)
}

fn check_length(value: &str) -> Result<(), Refusal> {
    // A text has no more UTF-16 units than bytes, so short values need no count; the count stops at
    // the limit.
    let mut units = value.encode_utf16();
    if value.len() > VALUE_BYTES_MAX && units.nth(VALUE_BYTES_MAX).is_some() {
        return Err(Refusal::new(
            ErrorCode::InvalidConfig,
            format!(
                "The configuration value cannot be added because it exceeds the maximum value \
                 size of {VALUE_BYTES_MAX} bytes."
            ),
        ));
    }
    Ok(())
}

/// Returns the non-empty elements of a list.
fn elements(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').filter(|part| !part.is_empty())
}

/// Returns the list followed by the elements of `more` that it lacks.
fn appended(list: &str, more: &str) -> String {
    let mut all: Vec<&str> = elements(list).collect();
    let mut known: HashSet<&str> = all.iter().copied().collect();
    all.extend(more.split(',').filter(|part| known.insert(part)));
    all.join(",")
}

/// Returns the list without its first n occurrences of each element that `less` has n times.
fn subtracted(list: &str, less: &str) -> String {
    let mut gone = HashMap::<&str, usize>::new();
    for part in less.split(',') {
        let count = gone.entry(part).or_default();
        *count = count.saturating_add(1);
    }
    let mut left = Vec::new();
    for part in elements(list) {
        match gone.get_mut(part) {
            Some(count) if *count > 0 => *count -= 1,
            _ => left.push(part),
        }
    }
    left.join(",")
}

/// How often a request names each resource.
#[derive(Default)]
pub(crate) struct ResourceCounts<'a> {
    // Bounded: lives with one request, `wire::kafka::shape::DECODED_BYTES_MAX`.
    times: HashMap<(i8, &'a str), usize>,
}

impl<'a> ResourceCounts<'a> {
    /// Counts one resource of the request.
    pub(crate) fn add(&mut self, kind: i8, name: &'a str) {
        let times = self.times.entry((kind, name)).or_default();
        *times = times.saturating_add(1);
    }

    /// Refuses a resource that the request names more than once.
    pub(crate) fn check(&self, kind: i8, name: &str) -> Result<(), Refusal> {
        if self
            .times
            .get(&(kind, name))
            .is_some_and(|times| *times > 1)
        {
            let message = "Each resource must appear at most once.";
            return Err(Refusal::new(ErrorCode::InvalidRequest, message));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_grow_by_what_is_new_and_shrink_by_what_is_there() {
        for (list, more, expected) in [
            ("", "a", "a"),
            ("a", "a", "a"),
            ("a,b", "c,a,c", "a,b,c"),
            ("a,a", "b", "a,a,b"),
        ] {
            assert_eq!(appended(list, more), expected, "{list} + {more}");
        }
        for (list, less, expected) in [
            ("a,b", "a", "b"),
            ("a,b", "c", "a,b"),
            ("a,b,a", "a", "b,a"),
            ("a,b,a", "a,a,a", "b"),
            ("", "a", ""),
        ] {
            assert_eq!(subtracted(list, less), expected, "{list} - {less}");
        }
    }
}
