//! `forebay topic alter`: changes settings, and adds partitions.
//!
//! Partitions cannot be removed. What a pattern selects is changed only with `--execute`. Settings
//! come first: where partitions are refused, the error tells that the settings are changed.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;

use super::{grow, selected};
use crate::ask::{Cluster, Failure};
use crate::configs::{Changes, Resource};
use crate::confirm::ConfirmedNames;
use crate::outcome::{self, CommandOutcome};
use crate::progress::counted;
use crate::target::ChosenTarget;

#[derive(Debug, Args)]
pub(super) struct Alter {
    #[command(flatten)]
    named: ConfirmedNames,
    #[command(flatten)]
    changes: Changes,
    /// New number of partitions; it can only grow.
    #[arg(short, long, value_parser = clap::value_parser!(i32).range(1..))]
    partitions: Option<i32>,
    /// Only shows what the command would do.
    #[arg(long, conflicts_with = "execute")]
    dry_run: bool,
}

impl Alter {
    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        if self.changes.is_empty() && self.partitions.is_none() {
            bail!(
                "nothing to change: --set, --unset, --append, --subtract or --partitions say what"
            );
        }
        let mut cluster = target.cluster()?;
        let selected = selected::some(&mut cluster, &self.named.names)?;
        if !self.dry_run && !self.named.confirmed(&selected) {
            return outcome::show_planned(target.format, "TOPIC", &selected.names, "changed");
        }
        let outcomes = counted("topics", &selected.names).map(|name| {
            let result = self.alter(&mut cluster, name);
            CommandOutcome::tried(name, result, "changed", self.dry_run)
        });
        outcome::show(target.format, "TOPIC", &outcomes.collect::<Vec<_>>())
    }

    fn alter(&self, cluster: &mut Cluster, name: &str) -> Result<(), String> {
        let set = self.set(cluster, name);
        set.map_err(|failure| failure.to_string())?;
        let Some(count) = self.partitions else {
            return Ok(());
        };
        let grown = grow::to(cluster, name, count, self.dry_run);
        grown.map_err(|failure| self.partly(&failure))
    }

    fn set(&self, cluster: &mut Cluster, name: &str) -> Result<(), Failure> {
        if self.changes.is_empty() {
            return Ok(());
        }
        let controller = cluster.controller()?;
        self.changes
            .make(controller, Resource::Topic, name, self.dry_run)
    }

    /// Returns why there are no more partitions, with what was done before.
    fn partly(&self, failure: &Failure) -> String {
        if self.changes.is_empty() {
            return failure.to_string();
        }
        let would = if self.dry_run { "would be " } else { "" };
        format!("settings {would}changed; partitions: {failure}")
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use wire::types::ErrorCode;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        alter: Alter,
    }

    #[test]
    fn an_error_of_the_partitions_tells_what_became_of_the_settings() {
        for (options, error) in [
            (&[][..], "INVALID_PARTITIONS"),
            (
                &["-s", "retention.ms=1"],
                "settings changed; partitions: INVALID_PARTITIONS",
            ),
            (
                &["--unset", "retention.ms", "--dry-run"],
                "settings would be changed; partitions: INVALID_PARTITIONS",
            ),
        ] {
            let line = [&["alter", "cars", "-p", "1"][..], options].concat();
            let alter = Command::try_parse_from(line).unwrap().alter;
            let refused = Failure::from(ErrorCode::InvalidPartitions);
            assert_eq!(alter.partly(&refused), error);
        }
    }
}
