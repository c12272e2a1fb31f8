//! `forebay group describe`: members, positions and lag of groups.
//!
//! It changes nothing. A group that cannot be described hides no other: its error goes to standard
//! error.

mod partition;
mod text;

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;

use super::behind::{KnownOffsets, Sum};
use super::list::SilentBroker;
use super::members::{self, Group};
use super::{positions, selected};
use crate::ask::{Cluster, EARLIEST, LATEST, PartitionKey};
use crate::names::Name;
use crate::progress::counted;
use crate::show::say;
use crate::target::ChosenTarget;
use partition::Partition;

#[derive(Debug, Args)]
pub(super) struct Describe {
    /// Names of the groups, or patterns: 'cars*', '/cars-[0-9]+/'.
    #[arg(required = true)]
    names: Vec<Name>,
}

/// A group and how far it is behind.
#[derive(Debug, Serialize)]
struct DescribedGroup {
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

/// What the command found.
#[derive(Debug)]
struct DescribedGroups {
    groups: Vec<DescribedGroup>,
    /// Why other groups are not described.
    errors: Vec<String>,
    /// Brokers whose groups a pattern may have missed.
    silent: Vec<SilentBroker>,
}

impl Describe {
    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        let mut cluster = target.cluster()?;
        let found = self.look(&mut cluster)?;
        target.format.show(&found.groups, || {
            let groups = found.groups.iter();
            let texts: Vec<_> = groups.map(|one| text::text(one, &cluster)).collect();
            texts.join("\n")
        })?;
        found.silent.iter().for_each(SilentBroker::say);
        found.errors.iter().for_each(|error| say(error));
        Ok(if found.is_complete() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    fn look(&self, cluster: &mut Cluster) -> anyhow::Result<DescribedGroups> {
        let (names, silent) = selected::known(cluster, &self.names)?;
        let (mut groups, mut errors) = (Vec::new(), Vec::new());
        for name in counted("groups", &names) {
            let must_exist = self.names.iter().any(|one| one.is_exactly(name));
            match describe(cluster, name) {
                Ok(Some(described)) => groups.push(described),
                Ok(None) if must_exist => errors.push(format!("group {name} does not exist")),
                // It was deleted since it was listed, or is of a type without positions.
                Ok(None) => {}
                Err(error) => errors.push(format!("{error:#}")),
            }
        }
        Ok(DescribedGroups {
            groups,
            errors,
            silent,
        })
    }
}

impl DescribedGroups {
    /// Returns true if nothing that could be known is missing.
    fn is_complete(&self) -> bool {
        let mut partitions = self.groups.iter().flat_map(|one| &one.partitions);
        let is_failed = partitions.any(|partition| partition.is_failed);
        self.errors.is_empty() && self.silent.is_empty() && !is_failed
    }
}

/// Describes a group; returns `None` if it does not exist.
fn describe(cluster: &mut Cluster, name: &str) -> anyhow::Result<Option<DescribedGroup>> {
    let Some(group) = members::ask(cluster, name)? else {
        return Ok(None);
    };
    let positions = positions::read(cluster, name)?;
    let assigned = group.members.iter().flat_map(|member| &member.partitions);
    let places: BTreeSet<&PartitionKey> = positions.keys().chain(assigned).collect();
    let offsets = KnownOffsets::at(cluster, places.iter().copied(), [EARLIEST, LATEST]);
    let [starts, ends] = offsets.with_context(|| format!("group {name}"))?;
    let partitions = places.into_iter().map(|place| {
        let position = positions.get(place).copied();
        let member = group.owner(place).map(|member| member.id.clone());
        Partition::of(place, position, starts.of(place), ends.of(place), member)
    });
    let partitions: Vec<_> = partitions.collect();
    let with_position = partitions.iter().filter(|one| one.position.is_some());
    let sum = Sum::of(with_position.map(|partition| partition.lag));
    Ok(Some(DescribedGroup {
        group,
        lag: sum.lag(),
        unknown_partitions: sum.unknown,
        sum,
        partitions,
    }))
}

#[cfg(test)]
mod tests;
