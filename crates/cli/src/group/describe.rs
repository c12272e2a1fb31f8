//! `forebay group describe`: members, positions and lag of groups.
//!
//! It changes nothing.

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use serde::Serialize;

use super::behind::{self, Known, Sum};
use super::members::{self, Group};
use super::{positions, selected};
use crate::ask::{Cluster, EARLIEST, Failure, LATEST, Place};
use crate::names::Name;
use crate::progress::counted;
use crate::show::{Table, or_dash};
use crate::target::Chosen;

#[derive(Debug, Args)]
pub(super) struct Describe {
    /// Names of the groups, or patterns: 'cars*', '/cars-[0-9]+/'.
    #[arg(required = true)]
    names: Vec<Name>,
}

#[derive(Serialize)]
struct Described {
    #[serde(flatten)]
    group: Group,
    /// The sum of the known lags.
    lag: Option<i64>,
    /// How many partitions have a position, and a lag that is not known.
    unknown_partitions: usize,
    #[serde(skip)]
    sum: Sum,
    partitions: Vec<Partition>,
}

#[derive(Serialize)]
struct Partition {
    topic: String,
    #[serde(rename = "partition")]
    index: i32,
    position: Option<i64>,
    start_offset: Option<i64>,
    end_offset: Option<i64>,
    lag: Option<i64>,
    member: Option<String>,
    /// Why the end is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Whether that is because a broker did not answer.
    #[serde(skip)]
    is_silent: bool,
}

impl Describe {
    pub(super) fn run(&self, target: &Chosen) -> anyhow::Result<ExitCode> {
        let mut cluster = target.cluster()?;
        let names = selected::some(&mut cluster, &self.names)?.names;
        let described = counted("groups", &names).map(|name| describe(&mut cluster, name));
        let described = described.collect::<anyhow::Result<Vec<_>>>()?;
        target.format.show(&described, || {
            let texts: Vec<_> = described.iter().map(|one| one.text(&cluster)).collect();
            texts.join("\n")
        })?;
        let mut partitions = described.iter().flat_map(|one| &one.partitions);
        Ok(if partitions.any(|partition| partition.is_silent) {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        })
    }
}

fn describe(cluster: &mut Cluster, name: &str) -> anyhow::Result<Described> {
    let Some(group) = members::ask(cluster, name)? else {
        bail!("group {name} does not exist");
    };
    let positions = positions::read(cluster, name)?;
    let assigned = group.members.iter().flat_map(|member| &member.partitions);
    let places: BTreeSet<&Place> = positions.keys().chain(assigned).collect();
    let [starts, ends] = Known::at(cluster, places.iter().copied(), [EARLIEST, LATEST])?;
    let partitions = places.into_iter().map(|place| {
        let (position, end) = (positions.get(place).copied(), ends.of(place));
        let owner = group.owner(place);
        let known = end.as_ref().ok().copied();
        Partition {
            topic: place.0.clone(),
            index: place.1,
            position,
            start_offset: starts.of(place).ok(),
            end_offset: known,
            lag: position
                .zip(known)
                .map(|(position, end)| behind::lag(position, end)),
            member: owner.map(|member| member.id.clone()),
            is_silent: end.as_ref().is_err_and(Failure::is_silence),
            error: end.err().map(|failure| failure.to_string()),
        }
    });
    let partitions: Vec<_> = partitions.collect();
    let with_position = partitions.iter().filter(|one| one.position.is_some());
    let sum = Sum::of(with_position.map(|partition| partition.lag));
    Ok(Described {
        group,
        lag: sum.lag(),
        unknown_partitions: sum.unknown,
        sum,
        partitions,
    })
}

impl Described {
    fn text(&self, cluster: &Cluster) -> String {
        let group = &self.group;
        let mut head = Table::plain();
        let mut fact = |name: &str, value: String| head.row([name.to_owned(), value]);
        let assignor = Some(&group.assignor).filter(|name| !name.is_empty());
        let address = cluster.address(group.coordinator);
        fact("GROUP", group.name.clone());
        fact("TYPE", group.kind.to_owned());
        fact("STATE", group.state.clone());
        fact("ASSIGNOR", or_dash(assignor));
        fact("COORDINATOR", format!("{} ({address})", group.coordinator));
        fact("MEMBERS", group.members.len().to_string());
        fact("TOTAL-LAG", self.sum.to_string());
        let mut table = Table::headed(&[
            "TOPIC",
            "PARTITION",
            "CURRENT-OFFSET",
            "LOG-START-OFFSET",
            "LOG-END-OFFSET",
            "LAG",
            "MEMBER-ID",
            "CLIENT-ID",
            "HOST",
        ]);
        for one in &self.partitions {
            let owner = group.owner(&(one.topic.clone(), one.index));
            table.row([
                one.topic.clone(),
                one.index.to_string(),
                or_dash(one.position),
                or_dash(one.start_offset),
                or_dash(
                    one.end_offset
                        .map(|end| end.to_string())
                        .or(one.error.clone()),
                ),
                or_dash(one.lag),
                or_dash(one.member.as_ref()),
                or_dash(owner.map(|member| &member.client)),
                or_dash(owner.map(|member| &member.host)),
            ]);
        }
        // Members without partitions are shown, too.
        for member in group
            .members
            .iter()
            .filter(|member| member.partitions.is_empty())
        {
            let dash = || "-".to_owned();
            table.row([
                dash(),
                dash(),
                dash(),
                dash(),
                dash(),
                dash(),
                member.id.clone(),
                member.client.clone(),
                member.host.clone(),
            ]);
        }
        format!("{}\n{}", head.render(), table.render())
    }
}
