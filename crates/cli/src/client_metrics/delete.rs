//! `forebay client-metrics delete`: deletes subscriptions, by removing all their settings.
//!
//! What a pattern selects is deleted only with `--execute`.

use std::process::ExitCode;

use clap::Args;
use wire::types::ErrorCode;

use super::subscriptions;
use crate::ask::{Connection, Failure};
use crate::configs::{Changes, Resource, Setting, settings};
use crate::confirm::ConfirmedNames;
use crate::names::Selection;
use crate::outcome::{self, CommandOutcome};
use crate::target::ChosenTarget;

#[derive(Debug, Args)]
pub(super) struct Delete {
    #[command(flatten)]
    named: ConfirmedNames,
}

impl Delete {
    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        let mut cluster = target.cluster()?;
        // The broker that takes the changes also tells what there is.
        let controller = cluster.controller()?;
        let names = &self.named.names;
        let selected = Selection::of(names, || subscriptions::all(controller))?;
        let selected = selected.complete("subscription")?;
        if !self.named.confirmed(&selected) {
            let names = &selected.names;
            return outcome::show_planned(target.format, "SUBSCRIPTION", names, "deleted");
        }
        let outcomes = selected.names.iter().map(|name| {
            // A lost connection is the error of one subscription: the next has a new one.
            let controller = cluster.controller().map_err(Failure::from);
            let result = controller.and_then(|controller| delete(controller, name));
            CommandOutcome::of(name, result, "deleted")
        });
        let outcomes: Vec<_> = outcomes.collect();
        outcome::show(target.format, "SUBSCRIPTION", &outcomes)
    }
}

fn delete(controller: &mut Connection, name: &str) -> Result<(), Failure> {
    let mut there = settings(controller, Resource::ClientMetrics, name, None)?;
    there.retain(Setting::is_set);
    if there.is_empty() {
        return Err(ErrorCode::ResourceNotFound.into());
    }
    let keys = there.into_iter().map(|setting| setting.name).collect();
    let changes = Changes::removing(keys);
    changes.make(controller, Resource::ClientMetrics, name, false)
}
