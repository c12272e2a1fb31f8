//! `forebay client-metrics delete`: deletes subscriptions, by removing all their settings.
//!
//! What a pattern selects is deleted only with `--execute`.

use std::process::ExitCode;

use clap::Args;
use wire::types::ErrorCode;

use super::subscriptions;
use crate::ask::{Cluster, Refusal};
use crate::configs::{Changes, Resource, Setting, settings};
use crate::names::Name;
use crate::outcome::{self, Outcome};
use crate::target::Chosen;

#[derive(Debug, Args)]
pub(super) struct Delete {
    /// Names of the subscriptions, or patterns: 'latency*', '/latency-[0-9]+/'.
    #[arg(required = true)]
    names: Vec<Name>,
    /// Deletes what a pattern selects; without it the command only shows that.
    #[arg(long)]
    execute: bool,
}

impl Delete {
    pub(super) fn run(&self, target: &Chosen) -> anyhow::Result<ExitCode> {
        let mut cluster = target.cluster()?;
        let selected = subscriptions::some(&mut cluster, &self.names)?;
        if selected.by_pattern && !self.execute {
            let names = &selected.names;
            return outcome::show_planned(target.format, "SUBSCRIPTION", names, "deleted");
        }
        let mut outcomes = Vec::new();
        for name in &selected.names {
            let result = delete(&mut cluster, name)?;
            outcomes.push(Outcome::of(name, result, "deleted"));
        }
        outcome::show(target.format, "SUBSCRIPTION", &outcomes)
    }
}

fn delete(cluster: &mut Cluster, name: &str) -> anyhow::Result<Result<(), Refusal>> {
    let mut there = settings(cluster.entrance(), Resource::ClientMetrics, name, None)?;
    there.retain(Setting::is_set);
    if there.is_empty() {
        return Ok(Err(ErrorCode::ResourceNotFound.into()));
    }
    let keys = there.into_iter().map(|setting| setting.name).collect();
    let changes = Changes::removing(keys);
    changes.make(cluster.controller()?, Resource::ClientMetrics, name, false)
}
