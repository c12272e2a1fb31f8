//! `forebay client-metrics alter`: changes the settings of a subscription, all or none.
//!
//! A subscription exists as soon as it has a setting.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;

use crate::configs::{Changes, Resource};
use crate::outcome::{self, CommandOutcome};
use crate::target::ChosenTarget;

#[derive(Debug, Args)]
pub(super) struct Alter {
    /// The subscription.
    name: String,
    #[command(flatten)]
    changes: Changes,
    /// Only shows what the command would do.
    #[arg(long)]
    dry_run: bool,
}

impl Alter {
    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        if self.changes.is_empty() {
            bail!("nothing to change: --set, --unset, --append or --subtract say what");
        }
        let mut cluster = target.cluster()?;
        let (name, dry_run) = (&self.name, self.dry_run);
        let controller = cluster.controller()?;
        let changed = self
            .changes
            .make(controller, Resource::ClientMetrics, name, dry_run);
        let outcomes = [CommandOutcome::tried(name, changed, "changed", dry_run)];
        outcome::show(target.format, "SUBSCRIPTION", &outcomes)
    }
}
