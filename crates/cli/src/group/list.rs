//! `forebay group list`: lists groups.
//!
//! It asks every broker, because each knows only the groups that it coordinates. One that does not
//! answer hides only its own groups.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use wire::messages::ListGroupsRequest;

use crate::ask::{Cluster, Failure, check, patiently};
use crate::names::{Name, wanted};
use crate::show::{Table, say};
use crate::target::ChosenTarget;

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
pub(super) struct ListedGroup {
    pub(super) name: String,
    #[serde(rename = "type")]
    kind: String,
    protocol: String,
    state: String,
    coordinator: i32,
}

impl List {
    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        let (mut listed, silent) = all(&mut target.cluster()?)?;
        // The client filters, because brokers differ in the versions with filters and in the names
        // of states.
        listed.retain(|group| {
            let is_one = |any: &[String], is: &str| {
                any.is_empty() || any.iter().any(|one| one.eq_ignore_ascii_case(is))
            };
            wanted(&self.names, &group.name)
                && is_one(&self.state, &group.state)
                && is_one(&self.types, &group.kind)
        });
        target.format.show(&listed, || {
            let mut table = Table::headed(&["GROUP", "TYPE", "PROTOCOL", "STATE", "COORDINATOR"]);
            for ListedGroup {
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
        silent.iter().for_each(SilentBroker::say);
        Ok(if silent.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

/// A broker that did not tell its groups, and why.
#[derive(Debug)]
pub(super) struct SilentBroker {
    pub(super) broker: i32,
    pub(super) failure: Failure,
}

impl SilentBroker {
    /// Returns the failure as that of the command.
    pub(super) fn fail(self) -> anyhow::Result<()> {
        let error = anyhow::Error::from(self.failure);
        Err(error.context(format!("groups of broker {}", self.broker)))
    }

    /// Tells on standard error.
    pub(super) fn say(&self) {
        let Self { broker, failure } = self;
        say(&format!("groups of broker {broker}: {failure}"));
    }
}

/// Returns the groups of all brokers, sorted by name, and the brokers that did not tell theirs.
///
/// Fails if no broker tells.
pub(super) fn all(cluster: &mut Cluster) -> anyhow::Result<(Vec<ListedGroup>, Vec<SilentBroker>)> {
    let (mut listed, mut silent) = (Vec::new(), Vec::new());
    let brokers = cluster.brokers()?;
    for &broker in &brokers {
        match of_broker(cluster, broker) {
            Ok(groups) => listed.extend(groups),
            Err(error) => {
                let failure = Failure::from(error);
                silent.push(SilentBroker { broker, failure });
            }
        }
    }
    if silent.len() == brokers.len() {
        silent.pop().map_or(Ok(()), SilentBroker::fail)?;
    }
    listed.sort_by(|one, other| one.name.cmp(&other.name));
    Ok((listed, silent))
}

/// Returns the groups that a broker coordinates.
fn of_broker(cluster: &mut Cluster, id: i32) -> anyhow::Result<Vec<ListedGroup>> {
    let within = cluster.within();
    let broker = cluster.broker(id)?;
    let answer = patiently(within, || {
        let answer = broker.ask_newest(&ListGroupsRequest::default())?;
        check(answer.error_code, None)?;
        Ok(answer)
    })?;
    let groups = answer.groups.into_iter().map(|group| ListedGroup {
        name: group.group_id.0.to_string(),
        kind: group.group_type.to_string(),
        protocol: group.protocol_type.to_string(),
        state: group.group_state.to_string(),
        coordinator: id,
    });
    Ok(groups.collect())
}

#[cfg(test)]
pub(super) mod tests {
    use wire::messages::list_groups_response::ListedGroup;
    use wire::messages::{GroupId, ListGroupsResponse, MetadataRequest, MetadataResponse};

    use super::*;
    use crate::ask::{Peer, text};

    /// Starts a broker with two groups, in a cluster with another that does not answer.
    pub(in crate::group) fn half_silent() -> Peer {
        let silent = Peer::start(|_| None).node(2);
        Peer::start(move |asked| {
            let groups = ["writers", "readers"].map(|name| {
                let id = GroupId(text(name));
                ListedGroup::default().with_group_id(id)
            });
            let listed = ListGroupsResponse::default().with_groups(groups.to_vec());
            let brokers = vec![asked.node(1), silent.clone()];
            let metadata = MetadataResponse::default().with_brokers(brokers);
            asked
                .to(|_: MetadataRequest| metadata)
                .or_else(|| asked.to(|_: ListGroupsRequest| listed))
        })
    }

    #[test]
    fn a_broker_that_does_not_answer_hides_no_groups_of_others() {
        let (listed, silent) = all(&mut half_silent().cluster()).unwrap();
        let names: Vec<_> = listed.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["readers", "writers"]);
        let silent: Vec<_> = silent.iter().map(|one| one.broker).collect();
        assert_eq!(silent, [2]);
    }

    #[test]
    fn if_no_broker_answers_that_is_the_error() {
        let refused = ListGroupsResponse::default().with_error_code(30);
        let peer = Peer::start(move |asked| {
            let refused = refused.clone();
            let listed = || asked.to(|_: ListGroupsRequest| refused);
            asked.metadata(Vec::new()).or_else(listed)
        });
        let error = all(&mut peer.cluster()).unwrap_err();
        let reason = "groups of broker 1: GROUP_AUTHORIZATION_FAILED";
        assert_eq!(format!("{error:#}"), reason);
    }
}
