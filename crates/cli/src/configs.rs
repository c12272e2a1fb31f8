//! Settings of topics and brokers: their values and where these come from, and changes.
//!
//! Changes of one resource are made together or not made.

use std::collections::BTreeMap;

use anyhow::Context as _;
use serde::Serialize;
use wire::messages::describe_configs_request::DescribeConfigsResource;
use wire::messages::describe_configs_response::DescribeConfigsResourceResult;
use wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use wire::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use wire::messages::{DescribeConfigsRequest, IncrementalAlterConfigsRequest};

use crate::ask::{Connection, Failure, Refusal, check, text};
use crate::property::Property;
use crate::show::Table;

/// The kinds of resources with settings, by their numbers in the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Resource {
    Topic = 2,
    Broker = 4,
    ClientMetrics = 16,
}

/// A setting with its value in effect.
#[derive(Debug, Serialize)]
pub(crate) struct Setting {
    pub(crate) name: String,
    /// `None` if the value is secret or missing.
    pub(crate) value: Option<String>,
    pub(crate) source: &'static str,
    pub(crate) read_only: bool,
}

impl Setting {
    /// Returns true unless the value is the default.
    pub(crate) fn is_set(&self) -> bool {
        self.source != "default"
    }
}

/// Returns the settings of a topic or broker, sorted by name.
pub(crate) fn settings(
    broker: &mut Connection,
    resource: Resource,
    name: &str,
    keys: Option<&[String]>,
) -> anyhow::Result<Vec<Setting>> {
    let mut answers = of_each(broker, resource, &[name], keys)?;
    let answer = answers.remove(name).ok_or(Failure::LeftOut);
    let answer = answer.and_then(|answer| answer.map_err(Failure::from));
    let answer = answer.map_err(anyhow::Error::from);
    answer.with_context(|| format!("settings of {name:?}"))
}

/// Returns the settings of each of several topics or brokers that the broker answers for.
pub(crate) fn of_each(
    broker: &mut Connection,
    resource: Resource,
    names: &[&str],
    keys: Option<&[String]>,
) -> anyhow::Result<BTreeMap<String, Result<Vec<Setting>, Refusal>>> {
    let keys: Option<Vec<_>> = keys.map(|keys| keys.iter().map(|key| text(key)).collect());
    let wanted = names.iter().map(|name| {
        DescribeConfigsResource::default()
            .with_resource_type(resource as i8)
            .with_resource_name(text(name))
            .with_configuration_keys(keys.clone())
    });
    let request = DescribeConfigsRequest::default().with_resources(wanted.collect());
    let results = broker.ask_newest(&request)?.results.into_iter();
    let answers = results.map(|result| {
        let checked = check(result.error_code, result.error_message.as_ref());
        let settings = checked.map(|()| sorted(result.configs));
        (result.resource_name.to_string(), settings)
    });
    Ok(answers.collect())
}

fn sorted(configs: Vec<DescribeConfigsResourceResult>) -> Vec<Setting> {
    let settings = configs.into_iter().map(|config| Setting {
        name: config.name.to_string(),
        value: config.value.map(|value| value.to_string()),
        source: source(config.config_source),
        read_only: config.read_only,
    });
    let mut settings: Vec<_> = settings.collect();
    settings.sort_by(|one, other| one.name.cmp(&other.name));
    settings
}

/// Returns where a value comes from.
fn source(code: i8) -> &'static str {
    match code {
        1 => "topic",
        2 => "broker, dynamic",
        3 => "all brokers, dynamic",
        4 => "broker, at its start",
        5 => "default",
        6 => "logger",
        7 => "client metrics",
        8 => "group",
        _ => "unknown",
    }
}

/// Formats settings as a table.
pub(crate) fn table(settings: &[Setting]) -> String {
    let mut table = Table::headed(&["KEY", "VALUE", "SOURCE"]);
    for setting in settings {
        let value = setting.value.as_deref().unwrap_or("(not shown)");
        let source = setting.source.to_owned();
        table.row([setting.name.clone(), value.to_owned(), source]);
    }
    table.render()
}

/// Changes of settings on a command line.
#[derive(Debug, clap::Args)]
pub(crate) struct Changes {
    /// Sets a setting; can be given many times.
    #[arg(short = 's', long, value_name = "KEY=VALUE")]
    set: Vec<Property>,
    /// Removes a setting, which then has its default; can be given many times.
    #[arg(long, value_name = "KEY")]
    unset: Vec<String>,
    /// Adds to a setting that is a list.
    #[arg(long, value_name = "KEY=VALUE")]
    append: Vec<Property>,
    /// Removes from a setting that is a list.
    #[arg(long, value_name = "KEY=VALUE")]
    subtract: Vec<Property>,
}

impl Changes {
    /// Makes the change that removes these settings.
    pub(crate) fn removing(keys: Vec<String>) -> Self {
        Self {
            set: Vec::new(),
            unset: keys,
            append: Vec::new(),
            subtract: Vec::new(),
        }
    }

    /// Returns true if there is no change.
    pub(crate) fn is_empty(&self) -> bool {
        let Self {
            set,
            unset,
            append,
            subtract,
        } = self;
        set.is_empty() && unset.is_empty() && append.is_empty() && subtract.is_empty()
    }

    /// Makes the changes, all of them or none.
    pub(crate) fn make(
        &self,
        broker: &mut Connection,
        resource: Resource,
        name: &str,
        dry_run: bool,
    ) -> Result<(), Failure> {
        let change = |operation: i8, key: &str, value: Option<&str>| {
            AlterableConfig::default()
                .with_name(text(key))
                .with_config_operation(operation)
                .with_value(value.map(text))
        };
        let pairs = |operation: i8, properties: &[Property]| -> Vec<_> {
            let changes = properties
                .iter()
                .map(|property| change(operation, &property.key, Some(&property.value)));
            changes.collect()
        };
        let mut configs = pairs(0, &self.set);
        configs.extend(self.unset.iter().map(|key| change(1, key, None)));
        configs.extend(pairs(2, &self.append));
        configs.extend(pairs(3, &self.subtract));
        let wanted = AlterConfigsResource::default()
            .with_resource_type(resource as i8)
            .with_resource_name(text(name))
            .with_configs(configs);
        let request = IncrementalAlterConfigsRequest::default()
            .with_resources(vec![wanted])
            .with_validate_only(dry_run);
        let responses = broker.ask_newest(&request)?.responses;
        made(&responses, resource, name)
    }
}

/// Returns what the broker answered for the resource.
fn made(
    responses: &[AlterConfigsResourceResponse],
    resource: Resource,
    name: &str,
) -> Result<(), Failure> {
    let is_it = |one: &&AlterConfigsResourceResponse| {
        one.resource_type == resource as i8 && one.resource_name.as_str() == name
    };
    let response = responses.iter().find(is_it).ok_or(Failure::LeftOut)?;
    Ok(check(response.error_code, response.error_message.as_ref())?)
}

#[cfg(test)]
mod tests {
    use wire::types::ErrorCode;

    use super::*;

    #[test]
    fn what_became_of_another_resource_is_no_answer() {
        let response = |resource: Resource, name: &str, error: i16| {
            AlterConfigsResourceResponse::default()
                .with_resource_type(resource as i8)
                .with_resource_name(text(name))
                .with_error_code(error)
                .with_error_message(None)
        };
        let responses = [
            response(Resource::Topic, "1", 0),
            response(Resource::Broker, "1", 40),
            // The broker settings of all.
            response(Resource::Broker, "", 0),
        ];
        let of = |resource: Resource, name: &str| made(&responses, resource, name);
        assert_eq!(of(Resource::Topic, "1"), Ok(()));
        let refused = Err(ErrorCode::InvalidConfig.into());
        assert_eq!(of(Resource::Broker, "1"), refused);
        assert_eq!(of(Resource::Broker, ""), Ok(()));
        assert_eq!(of(Resource::Broker, "2"), Err(Failure::LeftOut));
    }
}
