//! `forebay group offset-delete`: deletes positions of a group, and reports what became of each.
//!
//! The coordinator refuses positions in topics that a member of the group reads.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;

use super::scope::{self, Scope};
use super::{members, positions};
use crate::outcome::{self, CommandOutcome};
use crate::target::ChosenTarget;

#[derive(Debug, Args)]
pub(super) struct OffsetDelete {
    /// The group.
    name: String,
    /// The topic, or some of its partitions; can be given many times.
    #[arg(
        short,
        long = "topic",
        value_name = "TOPIC[:PARTITION,..]",
        required = true
    )]
    topics: Vec<Scope>,
}

impl OffsetDelete {
    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        let mut cluster = target.cluster()?;
        let name = &self.name;
        if members::ask(&mut cluster, name)?.is_none() {
            bail!("group {name} does not exist");
        }
        let current = positions::read(&mut cluster, name)?;
        let wanted = scope::with_position(&self.topics, &current);
        let wanted = wanted.with_context(|| format!("group {name}"))?;
        let deleted = positions::delete(&mut cluster, name, &wanted)?;
        let outcomes = deleted.into_iter().map(|(place, result)| {
            let was = current.get(&place).copied().unwrap_or(-1);
            let partition = format!("{}-{}", place.0, place.1);
            CommandOutcome::of(&partition, result, &format!("deleted, was {was}"))
        });
        let outcomes: Vec<_> = outcomes.collect();
        outcome::show(target.format, "PARTITION", &outcomes)
    }
}
