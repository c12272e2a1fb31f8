//! `forebay group list`: lists groups.
//!
//! It asks every broker, because each knows only the groups that it coordinates.

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;
use wire::messages::ListGroupsRequest;

use crate::ask::{Cluster, check, patiently};
use crate::names::Name;
use crate::show::Table;
use crate::target::Chosen;

#[derive(Debug, Args)]
pub(super) struct List {
    /// Only these groups: names, or patterns: 'cars*', '/cars-[0-9]+/'.
    names: Vec<Name>,
    /// Only groups in these states (stable, empty, ..).
    #[arg(long, value_delimiter = ',', value_name = "STATE")]
    state: Vec<String>,
    /// Only groups of these types (classic, consumer, ..).
    #[arg(long = "type", value_delimiter = ',', value_name = "TYPE")]
    types: Vec<String>,
}

/// A group as its coordinator lists it.
#[derive(Debug, Serialize)]
pub(super) struct Listed {
    pub(super) name: String,
    #[serde(rename = "type")]
    kind: String,
    protocol: String,
    state: String,
    coordinator: i32,
}

impl List {
    pub(super) fn run(&self, target: &Chosen) -> anyhow::Result<ExitCode> {
        let mut listed = all(&mut target.cluster()?)?;
        // The client filters, because brokers differ in the versions with filters and in the names
        // of states.
        listed.retain(|group| {
            let is_one = |wanted: &[String], is: &str| {
                wanted.is_empty() || wanted.iter().any(|one| one.eq_ignore_ascii_case(is))
            };
            let is_named = self.names.iter().any(|name| name.matches(&group.name));
            (self.names.is_empty() || is_named)
                && is_one(&self.state, &group.state)
                && is_one(&self.types, &group.kind)
        });
        target.format.show(&listed, || {
            let mut table = Table::headed(&["GROUP", "TYPE", "PROTOCOL", "STATE", "COORDINATOR"]);
            for Listed {
                name,
                kind,
                protocol,
                state,
                coordinator,
            } in &listed
            {
                let cells = [name, kind, protocol, state].map(|cell| {
                    if cell.is_empty() {
                        "-".to_owned()
                    } else {
                        cell.clone()
                    }
                });
                let [name, kind, protocol, state] = cells;
                table.row([name, kind, protocol, state, coordinator.to_string()]);
            }
            table.render()
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the groups of all brokers, sorted by name.
pub(super) fn all(cluster: &mut Cluster) -> anyhow::Result<Vec<Listed>> {
    let within = cluster.within();
    let mut listed = Vec::new();
    for id in cluster.brokers()? {
        let broker = cluster.broker(id)?;
        let answer = patiently(within, || {
            let answer = broker.ask_newest(&ListGroupsRequest::default())?;
            check(answer.error_code, None)?;
            Ok(answer)
        });
        let groups = answer
            .with_context(|| format!("groups of broker {id}"))?
            .groups;
        listed.extend(groups.into_iter().map(|group| Listed {
            name: group.group_id.0.to_string(),
            kind: group.group_type.to_string(),
            protocol: group.protocol_type.to_string(),
            state: group.group_state.to_string(),
            coordinator: id,
        }));
    }
    listed.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(listed)
}
