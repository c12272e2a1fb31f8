//! `forebay topic alter`: changes settings, and adds partitions.
//!
//! Partitions cannot be removed. What a pattern selects is changed only with `--execute`.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;

use super::{grow, selected};
use crate::ask::{Cluster, Failure};
use crate::configs::{Changes, Resource};
use crate::confirm::Named;
use crate::outcome::{self, Outcome};
use crate::progress::counted;
use crate::target::Chosen;

#[derive(Debug, Args)]
pub(super) struct Alter {
    #[command(flatten)]
    named: Named,
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
    pub(super) fn run(&self, target: &Chosen) -> anyhow::Result<ExitCode> {
        if self.changes.is_empty() && self.partitions.is_none() {
            bail!(
                "nothing to change: --set, --unset, --append, --subtract or --partitions say what"
            );
        }
        let mut cluster = target.cluster()?;
        let done = if self.dry_run {
            "would be changed"
        } else {
            "changed"
        };
        let mut outcomes = Vec::new();
        let selected = selected::some(&mut cluster, &self.named.names)?;
        if !self.dry_run && !self.named.confirmed(&selected) {
            return outcome::show_planned(target.format, "TOPIC", &selected.names, "changed");
        }
        for name in counted("topics", &selected.names) {
            let result = self.alter(&mut cluster, name);
            outcomes.push(Outcome::of(name, result, done));
        }
        outcome::show(target.format, "TOPIC", &outcomes)
    }

    fn alter(&self, cluster: &mut Cluster, name: &str) -> Result<(), Failure> {
        if !self.changes.is_empty() {
            let controller = cluster.controller()?;
            self.changes
                .make(controller, Resource::Topic, name, self.dry_run)??;
        }
        match self.partitions {
            Some(count) => grow::to(cluster, name, count, self.dry_run),
            None => Ok(()),
        }
    }
}
