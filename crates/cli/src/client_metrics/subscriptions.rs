//! The names of the subscriptions, and `forebay client-metrics list`.
//!
//! Brokers before 3.7 have none, and say that they do not serve the request.

use std::process::ExitCode;

use serde::Serialize;
use wire::messages::ListConfigResourcesRequest;

use crate::ask::{Connection, check};
use crate::configs::Resource;
use crate::show::Table;
use crate::target::ChosenTarget;

#[derive(Serialize)]
struct ListedSubscription {
    name: String,
}

pub(super) fn run(target: &ChosenTarget) -> anyhow::Result<ExitCode> {
    let names = all(target.cluster()?.controller()?)?.into_iter();
    let listed: Vec<_> = names.map(|name| ListedSubscription { name }).collect();
    target.format.show(&listed, || {
        let mut table = Table::headed(&["NAME"]);
        for one in &listed {
            table.row([one.name.clone()]);
        }
        table.render()
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the names of all subscriptions, sorted.
pub(super) fn all(broker: &mut Connection) -> anyhow::Result<Vec<String>> {
    let version = broker.version::<ListConfigResourcesRequest>()?;
    let request = ListConfigResourcesRequest::default();
    // Version 0 knows no other resources.
    let request = if version >= 1 {
        request.with_resource_types(vec![Resource::ClientMetrics as i8])
    } else {
        request
    };
    let answer = broker.ask(version, &request)?;
    check(answer.error_code, None)?;
    let resources = answer.config_resources.into_iter();
    let mut names: Vec<_> = resources.map(|one| one.resource_name.to_string()).collect();
    names.sort();
    Ok(names)
}
